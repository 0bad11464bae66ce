"""PyTorch: modules, their layers, and what they export."""

import warnings

import generated
import numpy as np
import pytest
from applicants import CODES, PEOPLE, schema
from generated import BINARY, SINGLE, dense, forward, outputs_for, probabilities, same_labels, sample, schemas, seeds
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra torch")

from evenhand.errors import ModelError, NotAdditiveError, TrustError
from evenhand.models import favourable_score, load_model
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.readers.torch_layers import read_torch
from evenhand.models.white_box import extract_white_box
from support import scaled

nn = torch.nn
INPUTS = torch.tensor(CODES.inputs(PEOPLE), dtype=torch.float32)


def network(*end, outputs=1, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, outputs), *end)


def alone(module):
    module.eval()
    with torch.no_grad():
        given = module(INPUTS).double().numpy()
    module.train()
    return given


def logits(module):
    return alone(module[:4])


class Functional(nn.Module):
    """The same network, with what follows the logits written in Python."""

    def __init__(self, then, outputs=1):
        super().__init__()
        self.body, self.then = network(outputs=outputs), then

    def forward(self, x):
        return self.then(self.body(x))


class Branching(Functional):
    def forward(self, x):
        return self.then(self.body(x)) if x.sum() < 1e9 else x[:, 0]


@pytest.mark.parametrize(
    ("module", "probable"),
    [
        (network(), False),
        (network(nn.Sigmoid()), True),
        (network(nn.Sigmoid(), nn.Flatten(0)), True),
        (nn.Sequential(network(), nn.Sequential(nn.Sigmoid())), True),
        (Functional(lambda out: out), False),
        (Functional(torch.sigmoid), True),
        (Functional(lambda out: out.sigmoid().squeeze(1)), True),
        (Functional(lambda out: torch.softmax(torch.cat([-out / 2, out / 2], 1), 1)[:, 1]), True),
        (Functional(lambda out: (out,)), False),
        (Branching(nn.Identity()), False),
        (Branching(nn.Sigmoid()), True),
    ],
)
def test_one_output(module, probable):
    scorer = load_model(module, CODES)
    assert isinstance(scorer, TorchModule)
    assert (scorer.reading.kind == "probability") == probable
    expected = alone(network())[:, 0]
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), 1 / (1 + np.exp(-expected)), atol=1e-6)
    np.testing.assert_array_equal(scorer.predict(PEOPLE), expected > 0)
    assert (scorer.classes, scorer.favourable, scorer.label_only) == (("no", "yes"), 1, False)
    assert {part.training for part in module.modules()} == {True}


@pytest.mark.parametrize("end", [(), (nn.Softmax(1),), (nn.LogSoftmax(1),)])
def test_one_output_per_label(end):
    described = schema(codes=True, values=("yes", "wait", "no"))
    module = network(*end, outputs=3)
    scorer = load_model(module, described)
    raw = logits(module)
    powers = np.exp(raw)
    np.testing.assert_allclose(scorer.scores(PEOPLE), powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(scorer.predict(PEOPLE), raw.argmax(axis=1))
    assert (scorer.classes, scorer.favourable) == (("yes", "wait", "no"), 0)


def test_the_modules_own_number_type_is_used():
    module = network().double()
    scorer = load_model(module, CODES)
    expected = module.eval()(INPUTS.double()).detach().numpy()[:, 0]
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), 1 / (1 + np.exp(-expected)), atol=1e-7)


def test_a_module_keeps_its_mode_part_by_part():
    module = network()
    module[0].eval()
    load_model(module, CODES).predict(PEOPLE)
    assert [part.training for part in module] == [False, True, True, True]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(5, 1), "cannot be queried: RuntimeError: mat1 and mat2"),
        (network(outputs=2)[:3], "5 outputs"),
        (Functional(lambda out: (out, out)), "got a tuple"),
        (Functional(lambda out: out.sum()), r"shape \(\)"),
        (Functional(lambda out: out[:, :, None]), r"shape \(32, 1, 1\)"),
        (Functional(lambda out: out / 0), "inf|nan"),
    ],
)
def test_modules_that_do_not_fit_are_refused(module, message):
    with pytest.raises(ModelError, match=message):
        load_model(module, CODES)


@pytest.mark.parametrize("suffix", [".pt", ".pth"])
def test_a_whole_module_needs_trust(tmp_path, suffix):
    path = tmp_path / f"net{suffix}"
    module = network()
    torch.save(module, path)
    with pytest.raises(TrustError, match="`trust=True`"):
        load_model(path, CODES)
    scorer = load_model(path, CODES, trust=True)
    np.testing.assert_allclose(scorer.ask(PEOPLE).outputs, alone(module), atol=1e-6)


def test_weights_alone_are_no_model(tmp_path):
    torch.save(network().state_dict(), tmp_path / "net.pt")
    with pytest.raises(ModelError, match="state_dict"):
        load_model(tmp_path / "net.pt", CODES, trust=True)


def test_a_damaged_module_file(tmp_path):
    (tmp_path / "net.pt").write_bytes(b"PK\x03\x04 not a module")
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(tmp_path / "net.pt", CODES, trust=True)


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
        options = {"dynamo": True, "verbose": False, "external_data": name == "a probability"}
        shapes = ({0: torch.export.Dim("people")},)
        torch.onnx.export(network, (INPUTS[:4],), path, dynamic_shapes=shapes, **options)
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


def answers(module, schema, people):
    """What PyTorch itself gives, in float32."""
    module.eval()
    with torch.no_grad():
        return module(torch.tensor(schema.inputs(people), dtype=torch.float32)).double().numpy()


def layers_trained():
    """Every layer that can be read, with statistics of its own in the normalisation."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Flatten(),
        nn.BatchNorm1d(5),
        nn.Linear(5, 7, bias=False),
        nn.BatchNorm1d(7),
        nn.ReLU(),
        nn.Dropout(0.4),
        nn.Sequential(nn.Linear(7, 6), nn.Identity(), nn.ReLU(), nn.Linear(6, 4)),
        nn.BatchNorm1d(4, affine=False),
        nn.ReLU(),
        nn.Linear(4, 1),
        nn.Sigmoid(),
    )
    for _ in range(30):
        module(torch.randn(64, 5) * 3 + 1)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d) and part.affine:
            nn.init.uniform_(part.weight, 0.5, 2)
            nn.init.uniform_(part.bias, -1, 1)
    return module


def test_every_kind_of_layer_gives_pytorchs_numbers():
    module = layers_trained()
    people = sample(BINARY)
    expected = answers(module, BINARY, people)
    network = read_torch(module, BINARY)
    assert (network.classes, network.favourable) == (("no", "yes"), 1)
    np.testing.assert_allclose(network.scores(people)[:, 1:], expected, atol=SINGLE)
    assert same_labels(network, people, np.hstack([1 - expected, expected]), SINGLE)
    assert network.hidden == (7, 6, 4)


@given(schemas(), generated.widths, seeds, st.sampled_from(["logits", "probabilities", "logarithms"]), st.booleans())
@settings(max_examples=scaled(40))
def test_any_dense_network_gives_pytorchs_numbers(schema, hidden, seed, end, double):
    layers = dense(schema.width, hidden, outputs_for(schema), seed)
    modules = []
    for i, (weights, bias) in enumerate(layers):
        linear = nn.Linear(*weights.shape)
        linear.weight.data, linear.bias.data = torch.tensor(weights.T.copy()), torch.tensor(bias)
        modules += [nn.ReLU(), linear] if i else [linear]
    one = outputs_for(schema) == 1
    if end != "logits":
        modules.append(nn.Sigmoid() if one else nn.Softmax(1) if end == "probabilities" else nn.LogSoftmax(1))
    module = nn.Sequential(*modules)
    network = read_torch(module.double() if double else module, schema)
    people = sample(schema, 300, seed)
    given_by_torch = answers(module.float(), schema, people)
    if end == "logits":
        expected = probabilities(given_by_torch)
    elif one:
        expected = np.hstack([1 - given_by_torch, given_by_torch])
    else:
        expected = np.exp(given_by_torch) if end == "logarithms" else given_by_torch
    np.testing.assert_allclose(network.scores(people), expected, atol=SINGLE)
    np.testing.assert_allclose(network.logits(people), forward(schema.inputs(people), layers), atol=1e-4)


class Odd(nn.Module):
    def forward(self, x):
        return x[:, :1]


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1)), r"layer 1 \(Tanh\)"),
        (nn.Sequential(nn.Linear(5, 3), nn.Sequential(nn.ELU()), nn.Linear(3, 1)), r"layer 1.0 \(ELU\)"),
        (
            nn.Sequential(nn.Linear(5, 3), nn.Sigmoid(), nn.Linear(3, 1)),
            r"layer 1 \(Sigmoid\).*a hidden layer must be ReLU",
        ),
        (
            nn.Sequential(nn.Linear(5, 3), nn.Softmax(1), nn.Linear(3, 1)),
            r"layer 2 \(Linear\).*only supported at the end",
        ),
        (nn.Sequential(nn.Linear(5, 2), nn.Sigmoid()), "2 binary labels"),
        (nn.Sequential(nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 1)), "has no running statistics"),
        (Odd(), "Odd: this type of layer"),
        (nn.Sequential(Doubled(5, 1)), "Doubled"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 1))), "ParametrizedLinear"),
        (nn.Sequential(nn.Linear(5, 1)).to(torch.float16), "half precision"),
        (nn.Sequential(nn.Linear(5, 1)).to(torch.bfloat16), "half precision"),
    ],
)
def test_layers_that_cannot_be_read_are_named(module, says):
    with pytest.raises(NotAdditiveError, match=says) as refusal:
        read_torch(module, BINARY)
    assert "black box" in refusal.value.hint


def test_hooks_run_code_that_the_layers_do_not_show():
    module = nn.Sequential(nn.Linear(5, 1))
    module[0].register_forward_hook(lambda layer, given, made: 2 * made)
    with pytest.raises(NotAdditiveError, match="hooks"):
        read_torch(module, BINARY)


def test_weights_that_are_not_finite_are_refused():
    module = nn.Sequential(nn.Linear(5, 1))
    module[0].weight.data[0, 0] = np.nan
    with pytest.raises(ModelError, match="NaN or infinite"):
        read_torch(module, BINARY)
