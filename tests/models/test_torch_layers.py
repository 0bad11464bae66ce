import numpy as np
import pytest
from generated import (
    BINARY,
    SINGLE,
    dense,
    forward,
    outputs_for,
    probabilities,
    same_labels,
    sample,
    schemas,
    seeds,
    widths,
)
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra torch")
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.readers.torch_layers import read_torch
from support import scaled

nn = torch.nn


def answers(module, schema, people):
    """What PyTorch itself gives, in float32."""
    module.eval()
    with torch.no_grad():
        return module(torch.tensor(schema.inputs(people), dtype=torch.float32)).double().numpy()


def trained():
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
    module = trained()
    people = sample(BINARY)
    expected = answers(module, BINARY, people)
    network = read_torch(module, BINARY)
    assert (network.classes, network.favourable) == (("no", "yes"), 1)
    np.testing.assert_allclose(network.scores(people)[:, 1:], expected, atol=SINGLE)
    assert same_labels(network, people, np.hstack([1 - expected, expected]), SINGLE)
    assert network.hidden == (7, 6, 4)


@given(schemas(), widths, seeds, st.sampled_from(["logits", "probabilities", "logarithms"]), st.booleans())
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
