import io

import generated
import numpy as np
import pytest
from generated import BINARY, SINGLE, THREE, damage, dense, forward, outputs_for, probabilities, same_labels, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from support import scaled, small_schema

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import TensorProto, helper, numpy_helper

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.readers.onnx_graph import read_onnx


def run(content, feeds):
    """What onnxruntime says."""
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    if not isinstance(feeds, dict):
        feeds = {session.get_inputs()[0].name: feeds}
    return session.run(None, feeds)


def model(nodes, outputs, constants=None, inputs=None, columns=5):
    """An ONNX model of one input ``x`` (people, columns), checked by ONNX itself."""
    inputs = inputs or [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", columns])]
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), key) for key, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def node(kind, inputs, outputs, **settings):
    domain = "ai.onnx.ml" if kind == "Scaler" else ""
    name = f"{kind} of {outputs}"
    return helper.make_node(kind, inputs.split(), outputs.split(), name=name, domain=domain, **settings)


# Dense networks in every way they are written


@given(generated.schemas(), generated.widths, generated.seeds, st.data())
@settings(max_examples=scaled(60))
def test_any_dense_network_gives_onnxruntimes_numbers(schema, hidden, seed, data):
    layers = dense(schema.width, hidden, outputs_for(schema), seed)
    constants, nodes, value = {}, [], "x"
    for i, (weights, bias) in enumerate(layers):
        way = data.draw(st.sampled_from(["Gemm", "turned Gemm", "scaled Gemm", "MatMul and Add", "MatMul and Sub"]))
        constants |= {f"W{i}": weights.T if way == "turned Gemm" else weights, f"b{i}": bias}
        if way == "scaled Gemm":
            constants |= {f"W{i}": weights / 2, f"b{i}": bias[None] * 4}
            nodes.append(node("Gemm", f"{value} W{i} b{i}", f"z{i}", alpha=2.0, beta=0.25))
        elif way.endswith("Gemm"):
            nodes.append(node("Gemm", f"{value} W{i} b{i}", f"z{i}", transB=int(way == "turned Gemm")))
        else:
            constants[f"b{i}"] = -bias if way.endswith("Sub") else bias
            nodes.append(node("MatMul", f"{value} W{i}", f"m{i}"))
            nodes.append(node(way.split()[-1], f"m{i} b{i}", f"z{i}"))
        value = f"z{i}"
        if i < len(layers) - 1:
            nodes.append(node("Relu", value, f"h{i}"))
            value = f"h{i}"
    end = data.draw(st.sampled_from(["logits", "scores"]))
    if end == "scores":
        nodes.append(node("Sigmoid" if outputs_for(schema) == 1 else "Softmax", value, "p"))
    content = model(nodes, ["p" if end == "scores" else value], constants, columns=schema.width)
    people = sample(schema, 300, seed)
    (expected,) = run(content, schema.inputs(people).astype(np.float32))
    if end == "logits":
        expected = probabilities(expected.astype(np.float64))
    elif expected.shape[1] == 1:
        expected = np.hstack([1 - expected, expected])
    network = read_onnx(content, schema)
    np.testing.assert_allclose(network.scores(people), expected, atol=SINGLE)
    np.testing.assert_allclose(network.logits(people), forward(schema.inputs(people), layers), atol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the older exporter, which needs no onnxscript
@pytest.mark.parametrize("flatten", [False, True])
def test_what_pytorch_exports_gives_its_numbers(flatten):
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    nn = torch.nn
    torch.manual_seed(0)

    class Preparing(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(6, 8),
                nn.BatchNorm1d(8),
                nn.ReLU(),
                nn.Dropout(0.5),
                nn.Linear(8, 6),
                nn.ReLU(),
                nn.Linear(6, 1),
            )
            self.register_buffer("mean", torch.tensor([30.0, 0.5, 2.0]))

        def forward(self, x):
            numbers = (x[:, :3] - self.mean) / 10
            value = torch.cat([numbers, x[:, 3:], x[:, 1:2] - x[:, 4:5]], dim=1)
            return torch.sigmoid(self.net(value.view(x.size(0), -1) if flatten else value))

    module = Preparing()
    for _ in range(20):
        module.net(torch.randn(64, 6) * 2 + 1)
    module.eval()
    buffer = io.BytesIO()
    torch.onnx.export(
        module, (torch.zeros(2, 5),), buffer, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    people = sample(BINARY)
    with torch.no_grad():
        expected = module(torch.tensor(BINARY.inputs(people), dtype=torch.float32)).double().numpy()
    network = read_onnx(buffer.getvalue(), BINARY)
    np.testing.assert_allclose(network.scores(people)[:, 1:], expected, atol=SINGLE)
    assert same_labels(network, people, np.hstack([1 - expected, expected]), SINGLE)
    assert network.hidden == (8, 6)


# Single operators, against onnxruntime


def last_layer(width):
    rng = np.random.default_rng(width)
    return {"W": rng.normal(size=(width, 1)).astype(np.float32), "b": rng.normal(size=1).astype(np.float32)}


F = np.float32
OPERATORS = {
    "Add": ([node("Add", "x c", "y")], {"c": np.arange(5, dtype=F)}, 5),
    "Add a row": ([node("Add", "x c", "y")], {"c": np.arange(5, dtype=F)[None]}, 5),
    "Sub from": ([node("Sub", "c x", "y")], {"c": np.arange(5, dtype=F)}, 5),
    "Mul": ([node("Mul", "x c", "y")], {"c": np.array([2, -1, 0, 0.5, 3], F)}, 5),
    "Div": ([node("Div", "x c", "y")], {"c": np.array([2, -4, 3, 0.5, 3], F)}, 5),
    "Neg": ([node("Neg", "x", "y")], {}, 5),
    "clip that does nothing": (
        [node("Clip", "x low high", "y")],
        {"low": np.array(-1e6, F), "high": np.array(1e6, F)},
        5,
    ),
    "shape by its own shape": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Concat", "n minus", "t", axis=0),
            node("Reshape", "x t", "y"),
        ],
        {"zero": np.array([0]), "minus": np.array([-1])},
        5,
    ),
    "batch normalisation": (
        [node("BatchNormalization", "x g b2 m v", "y", epsilon=1e-3)],
        {"g": np.arange(1, 6, dtype=F), "b2": np.ones(5, F), "m": np.arange(5, dtype=F), "v": np.arange(2, 7, dtype=F)},
        5,
    ),
    "sums of attributes": (
        [
            node("Gather", "x i", "l", axis=1),
            node("Gather", "x j", "r", axis=1),
            node("Sub", "l r", "d"),
            node("Add", "l r", "s"),
            node("Concat", "d s", "y", axis=1),
        ],
        {"i": np.array([0, 1]), "j": np.array([3, 4])},
        4,
    ),
    "relu of one attribute": (
        [node("Gather", "x i", "d", axis=1), node("Add", "d c", "s"), node("Relu", "s", "y")],
        {"i": np.array([3, 4]), "c": np.array([-1.5, -0.5], F)},
        2,
    ),
}


@pytest.mark.parametrize("what", OPERATORS)
def test_operators_before_the_network_are_evaluated_exactly(what):
    nodes, constants, width = OPERATORS[what]
    nodes = [*nodes, node("Gemm", "y W b", "z"), node("Sigmoid", "z", "p")]
    content = model(nodes, ["p"], constants | last_layer(width))
    people = sample(BINARY)
    (expected,) = run(content, BINARY.inputs(people).astype(np.float32))
    np.testing.assert_allclose(read_onnx(content, BINARY).scores(people)[:, 1:], expected, atol=SINGLE)


TAILS = {
    "sigmoid": [node("Sigmoid", "z", "p")],
    "its complement": [node("Sigmoid", "z", "s"), node("Sub", "one s", "p")],
    "both": [node("Sigmoid", "z", "s"), node("Sub", "one s", "c"), node("Concat", "c s", "p", axis=1)],
    "second of both": [
        node("Sigmoid", "z", "s"),
        node("Sub", "one s", "c"),
        node("Concat", "c s", "q", axis=1),
        node("Gather", "q second", "p", axis=1),
    ],
    "flat": [node("Sigmoid", "z", "s"), node("Reshape", "s flat", "p")],
}


@pytest.mark.parametrize("tail", TAILS)
def test_the_ways_to_end_with_one_logit(tail):
    constants = {"tenth": np.array(0.1, F), "one": np.array(1, F), "second": np.array([1]), "flat": np.array([-1])}
    nodes = [node("Mul", "x tenth", "y"), node("Gemm", "y W b", "z"), *TAILS[tail]]
    content = model(nodes, ["p"], constants | last_layer(5))
    people = sample(BINARY)
    (expected,) = run(content, BINARY.inputs(people).astype(np.float32))
    network = read_onnx(content, BINARY)
    assert network.classes == ("no", "yes")
    np.testing.assert_allclose(network.scores(people)[:, 1], expected.reshape(len(people), -1)[:, -1], atol=SINGLE)


def test_the_position_of_the_largest_of_several_logits():
    rng = np.random.default_rng(0)
    constants = {"W": rng.normal(size=(5, 3)).astype(F) / 9, "b": np.zeros(3, F)}
    nodes = [node("Gemm", "x W b", "z"), node("Softmax", "z", "p"), node("ArgMax", "p", "k", axis=1, keepdims=0)]
    network = read_onnx(model(nodes, ["k", "p"], constants), THREE)
    assert (network.classes, network.favourable) == (("no", "yes", "later"), 1)
    people = sample(THREE)
    logits = THREE.inputs(people) @ constants["W"].astype(float)
    assert same_labels(network, people, probabilities(logits), SINGLE)


# What is refused


def gemm(source="x", made="z"):
    return node("Gemm", f"{source} W b", made)


REFUSED = {
    "tanh": ([gemm(), node("Tanh", "z", "y")], r"operator Tanh \(node 'Tanh of y'\)"),
    "hidden sigmoid": (
        [gemm(), node("Sigmoid", "z", "s"), node("Add", "s one", "y")],
        "Add.*only supported at the end",
    ),
    "skip": ([gemm(), node("Relu", "z", "h"), node("Add", "h z", "y")], "Add.*skip connection"),
    "product": (
        [node("Gather", "x i", "l", axis=1), node("Gather", "x j", "r", axis=1), node("Mul", "l r", "y")],
        "Mul.*multiplies or divides",
    ),
    "product of sums": ([gemm(), node("Mul", "z z", "y")], "Mul.*multiplies or divides"),
    "mean": ([node("ReduceMean", "x", "y")], "ReduceMean"),
    "scaling by scikit-learn": (
        [node("Scaler", "x", "n", offset=[0.0], scale=[1.0]), gemm("n", "y")],
        "operator Scaler",
    ),
    "root of a wide number": ([node("Sqrt", "x", "s"), gemm("s", "y")], "operator Sqrt"),
    "people": ([node("Gather", "x zero", "y")], "Gather.*across rows"),
    "embedding": ([node("Cast", "x", "k", to=TensorProto.INT64), node("Gather", "W7 k", "y")], "Cast.*rounds"),
    "columns to people": ([node("Reshape", "x flat", "y")], "Reshape.*reshapes rows"),
    "other than the answer": (
        [gemm(), node("Sigmoid", "z", "p"), node("MatMul", "x W7b", "y")],
        "depend on the same logits",
    ),
    "rounded answer": ([gemm(), node("Sigmoid", "z", "p"), node("Cast", "p", "y", to=TensorProto.INT64)], "rounds"),
    "last of equals": ([node("ArgMax", "x", "y", axis=1, select_last_index=1)], "last of equal scores"),
    "no answer": ([node("Constant", "", "y", value=numpy_helper.from_array(np.ones(1, F)))], "does not depend"),
    "dropout in training": ([node("Dropout", "x rate train", "d"), gemm("d", "y")], "Dropout.*training mode"),
    "half precision": ([node("Cast", "x", "h", to=TensorProto.FLOAT16), node("MatMul", "h Wh", "y")], "float16"),
    "weights that do not fit": ([node("MatMul", "x one_by_one", "y")], "MatMul.*does not fit"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(what):
    nodes, says = REFUSED[what]
    constants = {
        "one": np.array(1, F),
        "i": np.array([3]),
        "j": np.array([4]),
        "zero": np.array([0]),
        "flat": np.array([-1]),
        "W7": np.ones((7, 1), F),
        "W7b": np.ones((5, 1), F),
        "one_by_one": np.ones((1, 1), F),
        "rate": np.array(0.5, F),
        "train": np.array(True),
        "Wh": np.ones((5, 1), np.float16),
    } | last_layer(5)
    outputs = ["p", "y"] if what == "other than the answer" else ["y"]
    with pytest.raises(ModelError, match=says) as refusal:
        read_onnx(model(nodes, outputs, constants), BINARY)
    if what not in ("no answer", "weights that do not fit"):
        assert isinstance(refusal.value, NotAdditiveError)


def test_an_operator_of_another_domain_is_not_taken_for_ours():
    own = helper.make_node("Relu", ["x"], ["y"], name="mine", domain="com.example")
    with pytest.raises(NotAdditiveError, match="operator Relu"):
        read_onnx(model([own], ["y"]), BINARY)


def test_old_operators_that_meant_something_else_are_refused():
    old = onnx.load_model_from_string(model([gemm()], ["z"], last_layer(5)))
    old.opset_import[0].version = 6
    with pytest.raises(NotAdditiveError, match="got 6"):
        read_onnx(old.SerializeToString(), BINARY)


def test_inputs_that_do_not_fit_are_refused():
    content = model([gemm(), node("Sigmoid", "z", "p")], ["p"], last_layer(5))
    with pytest.raises(ModelError, match="takes 5 inputs, but the schema's 6 attributes have 6"):
        read_onnx(content, small_schema(**dict.fromkeys("abcdef", (0, 9))))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in ("age", "debt")]
    with pytest.raises(NotAdditiveError, match="takes 2 inputs"):
        read_onnx(model([node("Add", "age debt", "z")], ["z"], {}, inputs), BINARY)


@given(st.data())
@settings(max_examples=scaled(150))
def test_a_damaged_file_is_refused_or_read_never_worse(data):
    nodes = [node("Mul", "x half", "y"), gemm("y"), node("Sigmoid", "z", "p")]
    content = model(nodes, ["p"], {"half": np.array(0.5, F)} | last_layer(5))
    try:
        network = read_onnx(damage(data, content), BINARY)
    except ModelError:
        return
    assert network.predict(sample(BINARY, 5)).shape == (5,)
