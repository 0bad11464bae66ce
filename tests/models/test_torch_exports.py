"""What PyTorch writes beside its own programs: ONNX by the current exporter, and TorchScript."""

import warnings

import numpy as np
import pytest
from applicants import CODES, PEOPLE

torch = pytest.importorskip("torch", reason="needs the extra torch")
from evenhand.errors import NotAdditiveError, TrustError
from evenhand.models import load_model
from evenhand.models.white_box import extract_white_box

nn = torch.nn
INPUTS = torch.tensor(CODES.inputs(PEOPLE), dtype=torch.float32)
CLOSE = 1e-6


class Classifier(nn.Module):
    """Linear layers, with normalization and dropout, and what follows them written in Python."""

    def __init__(self, then, outputs=1):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5)
        self.last, self.then = nn.Linear(5, outputs), then

    def forward(self, x):
        return self.then(self.last(self.drop(torch.relu(self.norm(self.first(x))))))


class Embedded(nn.Module):
    """A category, given by its code, looked up in a table."""

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(2, 3), nn.Linear(8, 1)

    def forward(self, x):
        looked_up = self.table(x[:, 2].to(torch.int64))
        return torch.sigmoid(self.last(torch.cat([x[:, :2], x[:, 3:], looked_up], dim=1)))


NETWORKS = {
    "a logit": lambda: Classifier(lambda z: z),
    "a probability": lambda: Classifier(torch.sigmoid),
    "a probability, squeezed": lambda: Classifier(lambda z: torch.sigmoid(z).squeeze(-1)),
    "logits": lambda: Classifier(lambda z: z, outputs=2),
    "probabilities": lambda: Classifier(lambda z: torch.softmax(z, dim=-1), outputs=2),
    "logarithms of probabilities": lambda: Classifier(lambda z: torch.log_softmax(z, dim=-1), outputs=2),
    "an embedding": Embedded,
}


def trained(name):
    """A network in evaluation mode, and the probability of the second label as its author means it."""
    torch.manual_seed(1)
    network = NETWORKS[name]()
    network(INPUTS)  # what normalization measures
    network.eval()
    with torch.no_grad():
        given = network(INPUTS).double().reshape(len(INPUTS), -1)
    if "logarithms" in name:
        given = given.exp()
    elif "logit" in name:
        given = torch.softmax(given, dim=1) if given.shape[1] > 1 else torch.sigmoid(given)
    return network, given[:, -1].numpy()


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_of_the_current_exporter(tmp_path, name):
    pytest.importorskip("onnxscript", reason="needs onnxscript")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    network, own = trained(name)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about its own code
        torch.onnx.export(
            network,
            (INPUTS[:4],),
            path,
            dynamo=True,
            verbose=False,
            external_data=name == "a probability",
            dynamic_shapes=({0: torch.export.Dim("people")},),
        )
    # The logits of this network lie within [0, 1], as probabilities do.
    scorer = load_model(path, CODES, output="logit" if name == "a logit" else None)
    np.testing.assert_allclose(scorer.scores(PEOPLE)[:, 1], own, atol=CLOSE)
    if name == "an embedding":
        with pytest.raises(NotAdditiveError):
            extract_white_box(scorer)
        return
    box = extract_white_box(scorer)
    np.testing.assert_allclose(box.scores(PEOPLE)[:, 1], own, atol=CLOSE)


def script(network, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated; such files exist
        torch.jit.trace(network, INPUTS[:4]).save(str(path))
    return path


@pytest.mark.parametrize("name", NETWORKS)
def test_torchscript(tmp_path, name):
    network, own = trained(name)
    path = script(network, tmp_path / "model.pt")
    with pytest.raises(TrustError, match="a PyTorch file runs any code in it"):
        load_model(path, CODES)
    scorer = load_model(path, CODES, trust=True, output="logit" if name == "a logit" else None)
    np.testing.assert_allclose(scorer.scores(PEOPLE)[:, 1], own, atol=CLOSE)
    with pytest.raises(NotAdditiveError):
        extract_white_box(scorer)
