"""Networks of several input shapes and hidden layers other than ReLU, compared with onnxruntime."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
import evenhand
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models import load_model
from evenhand.models.readers.onnx_graph import read_onnx
from evenhand.models.readers.onnx_signature import _text_values
from evenhand.models.white_box import extract_white_box
from support import scaled, small_schema

SCHEMA = small_schema(a=(0, 4), b=(-3, 3), sex="f m *").with_encodings({"sex": "code"})
PEOPLE = np.array(list(itertools.product(range(5), range(-3, 4), (0, 1))), dtype=float)


def node(kind, inputs, outputs, **settings):
    return onnx.helper.make_node(kind, inputs.split(), outputs.split(), **settings)


ACTIVATIONS = {
    "Relu": lambda a: [node("Relu", a, "r")],
    "LeakyRelu": lambda a: [node("LeakyRelu", a, "r", alpha=0.3)],
    "ReLU6": lambda a: [node("Clip", f"{a} zero six", "r")],
    "clip to [-1, 6]": lambda a: [node("Clip", f"{a} minus six", "r")],
    "Max": lambda a: [node("Max", f"zero {a}", "r")],
    "Min of Max": lambda a: [node("Max", f"{a} zero", "above"), node("Min", "above six", "r")],
}


def rows(activation):
    return [node("Gemm", "x W c", "h"), *activation("h"), node("Gemm", "r V d", "z")]


def flattened(activation):
    return [node("Flatten", "x", "f"), node("Gemm", "f W c", "h"), *activation("h"), node("Gemm", "r V d", "z")]


def vector(activation):
    last = [node("MatMul", "r V", "n"), node("Add", "n d", "z")]
    return [node("MatMul", "x W", "m"), node("Add", "m c", "h"), *activation("h"), *last]


def vector_behind(activation):
    last = [node("MatMul", "r V", "n"), node("Sub", "n d", "z")]
    return [node("MatMul", "Wt x", "m"), node("Add", "c m", "h"), *activation("h"), *last]


def column(activation):
    last = node("Gemm", "V r d", "z", transA=1)
    return [node("MatMul", "Wt x", "m"), node("Add", "m column", "h"), *activation("h"), last]


def transposed(activation):
    first = [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "Wt t", "m"), node("Transpose", "m", "u")]
    last = [node("Transpose", "r", "q"), node("Gemm", "V q", "n", transA=1), node("Neg", "n", "k")]
    return [*first, node("Add", "u c", "h"), *activation("h"), *last, node("Transpose", "k", "z")]


LAYOUTS = {
    "rows": (rows, [None, 3]),
    "[n]": (vector, [3]),
    "[n], weights in front": (vector_behind, [3]),
    "[n,1]": (column, [3, 1]),
    "transposed": (transposed, [None, 3]),
    "[1,1,1,n]": (flattened, [1, 1, 1, 3]),
    "[m,1,1,n]": (flattened, ["people", 1, 1, 3]),
}


def model(nodes, shape, seed=0, ending=("Sigmoid",), opset=17):
    rng = np.random.default_rng(seed)
    weights = {"W": 2 * rng.normal(size=(3, 4)), "c": rng.normal(size=4), "V": rng.normal(size=(4, 1)), "d": [0.1]}
    weights |= {"Wt": weights["W"].T, "column": weights["c"][:, None]}
    weights |= {"zero": 0, "six": 6, "minus": -1}
    arrays = {name: np.array(value, dtype=np.float32, order="C") for name, value in weights.items()}
    used = {name for each in nodes for name in each.input}
    ends = [node(ending[0], "z", "y")]
    graph = onnx.helper.make_graph(
        [*nodes, *ends],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, shape)],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items() if name in used],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made


def run(made, shape):
    """Return the output for every person of the domain, one run each."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    single = [1 if not isinstance(size, int) else size for size in shape]
    feeds = PEOPLE.astype(np.float32)
    return np.array([float(session.run(None, {"x": row.reshape(single)})[0].ravel()[0]) for row in feeds])


@settings(max_examples=scaled(20), deadline=None)
@given(layout=st.sampled_from(list(LAYOUTS)), activation=st.sampled_from(list(ACTIVATIONS)), seed=st.integers(0, 99))
def test_certificates_are_what_enumeration_finds(layout, activation, seed):
    build, shape = LAYOUTS[layout]
    made = model(build(ACTIVATIONS[activation]), shape, seed)
    chance = run(made, shape)
    scorer = load_model(made, SCHEMA, output="probability")
    np.testing.assert_allclose(scorer.scores(PEOPLE)[:, 1], chance, atol=1e-6)
    np.testing.assert_array_equal(scorer.predict(PEOPLE), chance > 0.5)
    network = extract_white_box(scorer)
    np.testing.assert_allclose(network.scores(PEOPLE)[:, 1], chance, atol=1e-5)
    found = evenhand.certify(scorer, schema=SCHEMA, protected=["sex"])
    pairs = (chance > 0.5).reshape(-1, 2)
    unfair = float(np.mean(pairs[:, 0] != pairs[:, 1]))
    assert found.certified <= 1 - unfair + 1e-9
    assert found.falsified <= unfair + 1e-9
    if np.abs(chance - 0.5).min() > 1e-3:
        assert found.undecided < 1e-9


@pytest.mark.parametrize("axis", [0, 2])
def test_names_the_operator_that_moves_people(axis):
    nodes = [node("Flatten", "x", "f", axis=axis), node("Identity", "f", "h")]
    with pytest.raises((ModelError, NotAdditiveError)) as caught:
        extract_white_box(load_model(model([*nodes, *rows(ACTIVATIONS["Relu"])[1:]], [1, 3]), SCHEMA))
    assert "Flatten" in str(caught.value) or caught.type is ModelError


@pytest.mark.parametrize("kind", ["Elu", "HardSwish", "Tanh", "PRelu"])
def test_names_a_hidden_layer_that_cannot_be_read(kind):
    inputs = "h six" if kind == "PRelu" else "h"
    made = model(rows(lambda a: [node(kind, inputs, "r")]), [None, 3])
    with pytest.raises(NotAdditiveError, match=kind):
        extract_white_box(load_model(made, SCHEMA))


def test_refuses_a_shape_that_does_not_hold_the_attributes():
    with pytest.raises(ModelError, match=r"\[1, 2, 3\]"):
        load_model(model([node("Identity", "x", "z")], [1, 2, 3]), SCHEMA)


def test_a_vector_whose_axes_matter_is_asked_and_not_certified():
    ending = [node("Unsqueeze", "z0", "z1", axes=[0]), node("Squeeze", "z1", "z", axes=[0])]
    nodes = [*vector(ACTIVATIONS["Relu"])[:-1], node("Add", "n d", "z0"), *ending]
    made = model(nodes, [3], opset=11)
    scorer = load_model(made, SCHEMA, output="probability")
    np.testing.assert_allclose(scorer.scores(PEOPLE)[:, 1], run(made, [3]), atol=1e-6)
    with pytest.raises(NotAdditiveError, match="without a batch axis"):
        extract_white_box(scorer)


@pytest.mark.parametrize(
    ("kind", "inputs", "reason"),
    [
        ("MatMul", "Wt x", "must be constant|columns"),  # combines people
        ("Add", "t c", "weights"),
        ("Softmax", "t", "transposed"),
        ("Concat", "t t", "transposed"),
        ("Add", "t x", "rows with columns"),
    ],
)
def test_names_what_cannot_be_done_to_a_transposed_table(kind, inputs, reason):
    options = {"axis": 0} if kind == "Concat" else {}
    nodes = [node("Transpose", "x", "t"), node(kind, inputs, "s", **options), node("Transpose", "s", "h")]
    with pytest.raises(NotAdditiveError, match=reason):
        read_onnx(model([*nodes, *rows(ACTIVATIONS["Relu"])[1:]], [None, 3]).SerializeToString(), SCHEMA)


def test_large_whole_numbers_are_written_in_full():
    """A text input gets the digits that the training data had, not an exponent."""
    assert _text_values(np.array([3.0, 1234567.0, 0.5]), "income", "model").tolist() == ["3", "1234567", "0.5"]
