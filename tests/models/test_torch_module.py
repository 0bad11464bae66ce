import numpy as np
import pytest
from applicants import CODES, PEOPLE, schema

torch = pytest.importorskip("torch", reason="needs the extra torch")
from evenhand.errors import ModelError, TrustError
from evenhand.models import favourable_score, load_model
from evenhand.models.blackbox.torch_module import TorchModule

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
