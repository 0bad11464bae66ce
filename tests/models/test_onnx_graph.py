import io
import re

import numpy as np
import pandas as pd
import pytest
from generated import dense, forward, outputs_for, probabilities, same_labels, schemas, seeds, widths
from hypothesis import given, settings
from hypothesis import strategies as st

from support import scaled, shared

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
from onnx import TensorProto, helper, numpy_helper

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive.cells import MAX_LISTED
from evenhand.models.readers.onnx_graph import read_onnx
from evenhand.population import uniform_population
from evenhand.schema import Schema, decode, encode, infer_schema

SINGLE = 1e-5
"""Scores of a float32 model and of its float64 network may differ by this much."""

PEOPLE = Schema.parse(
    {
        "target": {"name": "t", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "age", "kind": "integer", "lower": 17, "upper": 90},
            {"name": "income", "kind": "real", "lower": -4, "upper": 4},
            {"name": "town", "kind": "categorical", "values": ["Ely", "Rye", "Ware"]},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {"name": "school", "kind": "ordinal", "values": ["none", "some", "all"]},
            {"name": "debt", "kind": "integer", "lower": 0, "upper": 3 * MAX_LISTED},
        ],
    }
)
THREE = Schema.parse(
    {**PEOPLE.model_dump(), "target": {"name": "t", "favourable": "yes", "values": ["no", "yes", "perhaps"]}}
)


def sample(schema, n=3000, seed=0):
    return uniform_population(schema).sample(n, np.random.default_rng(seed))


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
    domain = "ai.onnx.ml" if kind in ML else ""
    name = f"{kind} of {outputs}"
    return helper.make_node(kind, inputs.split(), outputs.split(), name=name, domain=domain, **settings)


ML = {"ArrayFeatureExtractor", "Imputer", "LabelEncoder", "Normalizer", "OneHotEncoder", "Scaler"}


# Dense networks in every way they are written


@given(schemas(), widths, seeds, st.data())
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


NUMBERS = Schema.parse(
    {
        "target": {"name": "t", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "a", "kind": "integer", "lower": 0, "upper": 60},
            {"name": "b", "kind": "real", "lower": -4, "upper": 4},
            {"name": "c", "kind": "integer", "lower": -9000, "upper": 90000, "encoding": {"offset": 9, "scale": 7e3}},
            {"name": "d", "kind": "categorical", "values": ["p", "q", "r", "s"]},
            {"name": "e", "kind": "categorical", "values": ["f", "m"], "protected": True},
        ],
    }
)


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
                nn.Linear(10, 8),
                nn.BatchNorm1d(8),
                nn.ReLU(),
                nn.Dropout(0.5),
                nn.Linear(8, 6),
                nn.ReLU(),
                nn.Linear(6, 1),
            )
            self.embedding = nn.Embedding(2, 2)
            self.register_buffer("mean", torch.tensor([30.0, 0.5, 2.0]))

        def forward(self, x):
            numbers = (x[:, :3] - self.mean) / 10
            kind = nn.functional.one_hot(x[:, 3].long(), 4).float()
            young = (x[:, 0] < 18.5).float().unsqueeze(1)
            value = torch.cat([numbers, kind, self.embedding(x[:, 4].long()), young], dim=1)
            return torch.sigmoid(self.net(value.view(x.size(0), -1) if flatten else value))

    module = Preparing()
    for _ in range(20):
        module.net(torch.randn(64, 10) * 2 + 1)
    module.eval()
    buffer = io.BytesIO()
    torch.onnx.export(
        module, (torch.zeros(2, 5),), buffer, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    people = sample(NUMBERS)
    with torch.no_grad():
        expected = module(torch.tensor(NUMBERS.inputs(people), dtype=torch.float32)).double().numpy()
    network = read_onnx(buffer.getvalue(), NUMBERS)
    np.testing.assert_allclose(network.scores(people)[:, 1:], expected, atol=SINGLE)
    assert same_labels(network, people, np.hstack([1 - expected, expected]), SINGLE)
    assert network.hidden == (8, 6)


# Pipelines as skl2onnx writes them


def applicants(n=600):
    rng = np.random.default_rng(5)
    frame = decode(PEOPLE, sample(PEOPLE, n, 3)).assign(income=lambda f: f["income"].round(1))
    merit = (
        frame["income"] + (frame["sex"] == "m") + frame["age"] / 40 - frame["debt"] / 9000 + (frame["town"] == "Rye")
    )
    return frame, merit + rng.normal(0, 0.5, n)


def binning(encode):
    from sklearn.preprocessing import KBinsDiscretizer

    return KBinsDiscretizer(4, encode=encode, quantile_method="averaged_inverted_cdf")


def preparation(encode):
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

    return ColumnTransformer(
        [
            ("scaled", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "debt"]),
            ("words", OneHotEncoder(drop="if_binary", handle_unknown="ignore"), ["town", "sex"]),
            (
                "ordered",
                make_pipeline(OrdinalEncoder(categories=[["none", "some", "all"]]), MinMaxScaler()),
                ["school"],
            ),
            ("bins", binning(encode), ["income"]),
        ]
    )


def exported(pipeline, frame, **options):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    types = skl2onnx.common.data_types
    kinds = [
        (
            name,
            types.FloatTensorType([None, 1]) if frame[name].dtype.kind in "fi" else types.StringTensorType([None, 1]),
        )
        for name in frame
    ]
    given = {id(pipeline): options} if options else None
    return skl2onnx.convert_sklearn(pipeline, initial_types=kinds, options=given).SerializeToString()


def fed(frame):
    return {
        name: frame[[name]].to_numpy().astype(np.float32 if frame[name].dtype.kind in "fi" else str) for name in frame
    }


def classifiers():
    from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
    from sklearn.neural_network import MLPClassifier

    return {
        "logistic": LogisticRegression(max_iter=500),
        "network": MLPClassifier((8, 5), max_iter=60, random_state=0),
        "identity": MLPClassifier((6,), activation="identity", max_iter=60, random_state=0),
        "ridge": RidgeClassifier(),
        "sgd": SGDClassifier(random_state=0),
        "sgd logistic": SGDClassifier(loss="log_loss", random_state=0),
    }


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning")  # few steps
@pytest.mark.parametrize(("encode", "zipmap"), [("onehot-dense", True), ("ordinal", False)])
@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("logistic", 2),
        ("logistic", 3),
        ("network", 2),
        ("network", 3),
        ("identity", 2),
        ("ridge", 2),
        ("ridge", 3),
        ("sgd", 2),
        ("sgd", 3),
        ("sgd logistic", 2),
    ],
)
def test_what_skl2onnx_exports_gives_its_numbers(kind, labels, zipmap, encode):
    from sklearn.pipeline import make_pipeline

    frame, merit = applicants()
    schema = PEOPLE if labels == 2 else THREE
    target = np.where(merit > merit.median(), "yes", "no").astype(object)
    if labels == 3:
        target[merit > merit.quantile(0.8)] = "perhaps"
    pipeline = make_pipeline(preparation(encode), classifiers()[kind]).fit(frame, target)
    content = exported(pipeline, frame, zipmap=zipmap)
    network = read_onnx(content, schema)
    people = np.concatenate([sample(schema), encode_people(schema, frame)])
    given_labels, scores = run(content, fed(decode(schema, people)))
    margin = np.sort(network.scores(people), axis=1)
    clear = margin[:, -1] - margin[:, -2] > SINGLE
    mine = np.array(network.classes)[network.predict(people)]
    assert (mine == given_labels)[clear].all()
    assert clear.mean() > 0.99
    assert network.classes == tuple(sorted(set(target)))
    if "sgd" not in kind.split()[:1] or "logistic" in kind:
        if isinstance(scores, list):
            scores = np.array([[row[label] for label in network.classes] for row in scores])
        if kind != "ridge":
            np.testing.assert_allclose(network.scores(people), scores, atol=SINGLE)
    # Numbers that are too many to list are bins and lines.
    assert [type(part).__name__ for part in network.parts] == [
        "TableTerm",
        "StepTerm",
        "TableTerm",
        "TableTerm",
        "TableTerm",
        "LineTerm",
    ]


def encode_people(schema, frame):
    return encode(schema, frame).individuals


def test_bins_of_a_number_begin_exactly_where_single_precision_says():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    frame, merit = applicants()
    pipeline = make_pipeline(binning("onehot-dense"), LogisticRegression()).fit(frame[["income"]], merit > 1)
    schema = Schema.parse(
        {
            "target": {"name": "t", "favourable": True, "values": [False, True]},
            "attributes": [{"name": "income", "kind": "real", "lower": -4, "upper": 4}],
        }
    )
    content = exported(pipeline, frame[["income"]])
    network = read_onnx(content, schema)
    (steps,) = network.parts
    assert len(steps.cuts) == 3
    around = np.concatenate([[cut, np.nextafter(cut, -9)] for cut in steps.cuts])[:, None]
    _, scores = run(content, fed(pd.DataFrame({"income": around[:, 0]})))
    np.testing.assert_allclose(network.scores(around), [[row[0], row[1]] for row in scores], atol=SINGLE)
    # Doubles on the two sides of a cut are indeed in different bins, and a cut is not simply the written edge.
    assert np.all(np.abs(np.diff(network.scores(around)[:, 1])[::2]) > 1e-4)
    assert not np.isin(steps.cuts, steps.cuts.astype(np.float32)).all()


def test_one_tensor_for_all_columns():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    people = sample(NUMBERS)
    x = NUMBERS.inputs(people).astype(np.float32)
    target = np.where(x[:, 0] + x[:, 3] * 9 > 45, "yes", "no")
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, target)
    content = skl2onnx.to_onnx(pipeline, x[:1], options={"zipmap": False}).SerializeToString()
    network = read_onnx(content, NUMBERS)
    _, scores = run(content, x)
    np.testing.assert_allclose(network.scores(people), scores, atol=SINGLE)
    assert same_labels(network, people, scores, SINGLE)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64])
def test_codes_where_a_numeric_input_is_named_after_words(kind):
    inputs = [helper.make_tensor_value_info("town", kind, ["n"]), helper.make_tensor_value_info("age", kind, ["n", 1])]
    nodes = [
        node("Unsqueeze", "town axes", "column"),
        node("Concat", "column age", "both", axis=1),
        node("Cast", "both", "real", to=TensorProto.FLOAT),
        node("Gemm", "real W b", "z"),
    ]
    constants = {"axes": np.array([1]), "W": np.array([[1], [-0.25]], np.float32), "b": np.array([9.5], np.float32)}
    network = read_onnx(model(nodes, ["z"], constants, inputs), PEOPLE)
    people = sample(PEOPLE, 50)
    np.testing.assert_allclose(network.logits(people)[:, 0], people[:, 2] - people[:, 0] / 4 + 9.5)


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
    "Scaler": ([node("Scaler", "x", "y", offset=[1.0, 2, 3, 4, 5], scale=[0.5, 2, 1e-3, 1, 1])], {}, 5),
    "one-hot": (
        [
            node("Gather", "x i", "d", axis=1),
            node("Cast", "d", "k", to=TensorProto.INT64),
            node("OneHot", "k depth values", "y", axis=-1),
        ],
        {"i": np.array(3), "depth": np.array(4), "values": np.array([-1, 2], F)},
        4,
    ),
    "encoder": (
        [
            node("ArrayFeatureExtractor", "x i", "d"),
            node("OneHotEncoder", "d", "t", cats_int64s=[2, 0, 7], zeros=1),
            node("Reshape", "t shape", "y"),
        ],
        {"i": np.array([3]), "shape": np.array([-1, 3])},
        3,
    ),
    "threshold": (
        [
            node("Slice", "x zero two one", "ab"),
            node("Less", "ab c", "f"),
            node("Cast", "f", "y", to=TensorProto.FLOAT),
        ],
        {"zero": np.array([0]), "two": np.array([2]), "one": np.array([1]), "c": np.array([30.5, 0.1], F)},
        2,
    ),
    "threshold of a scaled number": (
        [
            node("Slice", "x one three one", "bc"),
            node("Mul", "bc c", "s"),
            node("Greater", "zero_f s", "f"),
            node("Cast", "f", "y", to=TensorProto.FLOAT),
        ],
        {"one": np.array([1]), "three": np.array([3]), "c": np.array([-1.5, 2], F), "zero_f": np.array(0.3, F)},
        2,
    ),
    "table": (
        [node("Gather", "x i", "e", axis=1), node("Cast", "e", "k", to=TensorProto.INT64), node("Gather", "T k", "y")],
        {"i": np.array(4), "T": np.arange(6, dtype=F).reshape(2, 3)},
        3,
    ),
    "largest of bins": (
        [
            node("Gather", "x i", "o", axis=1),
            node("Less", "o edges", "f"),
            node("Cast", "f", "g", to=TensorProto.FLOAT),
            node("Mul", "o zero", "n"),
            node("Add", "n one", "last"),
            node("Concat", "g last", "all", axis=1),
            node("ArgMax", "all", "k", axis=1),
            node("Cast", "k", "y", to=TensorProto.FLOAT),
        ],
        {"i": np.array([1]), "edges": np.array([-1.1, 0.2, 2.3], F), "zero": np.array(0, F), "one": np.array(1, F)},
        1,
    ),
    "clip that does nothing": (
        [node("Clip", "x low high", "y")],
        {"low": np.array(-1e6, F), "high": np.array(1e6, F)},
        5,
    ),
    "functions of a listed number": (
        [
            node("Gather", "x i", "a", axis=1),
            node("Add", "a one", "s"),
            node("Log", "s", "l"),
            node("Sqrt", "a", "r"),
            node("Concat", "l r", "y", axis=1),
        ],
        {"i": np.array([0]), "one": np.array(1, F)},
        2,
    ),
    "Flatten": ([node("Unsqueeze", "x axes", "u"), node("Flatten", "u", "y", axis=1)], {"axes": np.array([2])}, 5),
    "Squeeze": ([node("Unsqueeze", "x axes", "u"), node("Squeeze", "u axes", "y")], {"axes": np.array([1])}, 5),
    "shape by its own shape": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Concat", "n minus", "t", axis=0),
            node("Unsqueeze", "x two", "u"),
            node("Reshape", "u t", "y"),
        ],
        {"zero": np.array([0]), "minus": np.array([-1]), "two": np.array([2])},
        5,
    ),
    "Imputer": ([node("Imputer", "x", "y", imputed_value_floats=[7.0] * 5, replaced_value_float=float("nan"))], {}, 5),
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
    people = sample(NUMBERS)
    (expected,) = run(content, NUMBERS.inputs(people).astype(np.float32))
    np.testing.assert_allclose(read_onnx(content, NUMBERS).scores(people)[:, 1:], expected, atol=SINGLE)


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
    constants = {"one": np.array(1, F), "second": np.array([1]), "flat": np.array([-1])} | last_layer(5)
    content = model(
        [
            node("Scaler", "x", "y", offset=[30.0, 0, 5, 1, 0], scale=[0.1] * 5),
            node("Gemm", "y W b", "z"),
            *TAILS[tail],
        ],
        ["p"],
        constants,
    )
    people = sample(NUMBERS)
    (expected,) = run(content, NUMBERS.inputs(people).astype(np.float32))
    network = read_onnx(content, NUMBERS)
    assert network.classes == ("no", "yes")
    np.testing.assert_allclose(network.scores(people)[:, 1], expected.reshape(len(people), -1)[:, -1], atol=SINGLE)


@pytest.mark.parametrize("looked_up", ["Gather", "ArrayFeatureExtractor", None])
def test_the_largest_of_several_logits_named_by_the_model(looked_up):
    rng = np.random.default_rng(0)
    constants = {
        "W": rng.normal(size=(5, 3)).astype(F) / 9,
        "b": np.zeros(3, F),
        "names": np.array(["yes", "?", "no"], object),
    }
    nodes = [node("Gemm", "x W b", "z"), node("Softmax", "z", "p"), node("ArgMax", "p", "k", axis=1, keepdims=0)]
    if looked_up:
        nodes.append(node(looked_up, "names k", "label"))
    schema = Schema.parse(
        {**NUMBERS.model_dump(), "target": {"name": "t", "favourable": "yes", "values": ["no", "?", "yes"]}}
    )
    network = read_onnx(model(nodes, ["label" if looked_up else "k", "p"], constants), schema)
    assert network.classes == (("yes", "?", "no") if looked_up else ("no", "?", "yes"))
    assert network.classes[network.favourable] == "yes"
    people = sample(schema)
    logits = schema.inputs(people) @ constants["W"].astype(float)
    assert same_labels(network, people, probabilities(logits), SINGLE)


def test_labels_of_the_model_must_be_labels_of_the_target():
    constants = {"W": np.ones((5, 2), F), "b": np.zeros(2, F), "names": np.array(["good", "bad"], object)}
    nodes = [node("Gemm", "x W b", "z"), node("ArgMax", "z", "k", axis=1), node("Gather", "names k", "label")]
    with pytest.raises(ModelError, match=r"returns 'good', 'bad'.*labels 'no', 'yes'"):
        read_onnx(model(nodes, ["label"], constants), NUMBERS)


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
        "Mul.*combines several attributes",
    ),
    "product of sums": ([gemm(), node("Mul", "z z", "y")], "Mul.*multiplies or divides"),
    "mean": ([node("ReduceMean", "x", "y")], "ReduceMean"),
    "norm of a row": ([node("Normalizer", "x", "n", norm="L2"), gemm("n", "y")], "Normalizer.*several attributes"),
    "root of a wide number": ([node("Sqrt", "x", "s"), gemm("s", "y")], "Sqrt.*too many values to enumerate"),
    "people": ([node("Slice", "x first last zero", "y")], "Slice.*selects rows"),
    "columns to people": ([node("Reshape", "x flat", "y")], "Reshape.*across rows"),
    "number and its bin": (
        [
            node("Gather", "x k", "b", axis=1),
            node("Less", "b one", "f"),
            node("Cast", "f", "g", to=TensorProto.FLOAT),
            node("Concat", "g b x", "all", axis=1),
            node("MatMul", "all W7", "y"),
        ],
        "'b' has too many values to enumerate and is used both",
    ),
    "other than the answer": (
        [gemm(), node("Sigmoid", "z", "p"), node("MatMul", "x W7b", "y")],
        "depend on the same logits",
    ),
    "rounded answer": ([gemm(), node("Sigmoid", "z", "p"), node("Cast", "p", "y", to=TensorProto.INT64)], "rounds"),
    "last of equals": ([node("ArgMax", "x", "y", axis=1, select_last_index=1)], "last of equal scores"),
    "no answer": ([node("Constant", "", "y", value=numpy_helper.from_array(np.ones(1, F)))], "does not depend"),
    "dropout in training": ([node("Dropout", "x rate train", "d"), gemm("d", "y")], "Dropout.*training mode"),
    "half precision": ([node("Cast", "x", "h", to=TensorProto.FLOAT16), node("MatMul", "h Wh", "y")], "half precision"),
    "weights that do not fit": ([node("MatMul", "x one_by_one", "y")], "MatMul.*does not fit"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(what):
    nodes, says = REFUSED[what]
    constants = {
        "one": np.array(1, F),
        "i": np.array([3]),
        "j": np.array([4]),
        "k": np.array([1]),
        "first": np.array([0]),
        "last": np.array([2]),
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
        read_onnx(model(nodes, outputs, constants), NUMBERS)
    if what not in ("no answer", "weights that do not fit"):
        assert isinstance(refusal.value, NotAdditiveError)


def test_an_operator_of_another_domain_is_not_taken_for_ours():
    own = helper.make_node("Relu", ["x"], ["y"], name="mine", domain="com.example")
    with pytest.raises(NotAdditiveError, match="operator Relu"):
        read_onnx(model([own], ["y"]), NUMBERS)


def test_old_operators_that_meant_something_else_are_refused():
    old = onnx.load_model_from_string(model([gemm()], ["z"], last_layer(5)))
    old.opset_import[0].version = 6
    with pytest.raises(NotAdditiveError, match="got 6"):
        read_onnx(old.SerializeToString(), NUMBERS)


def test_a_category_that_the_model_refuses():
    nodes = [
        node("OneHotEncoder", "town", "t", cats_strings=["Ely", "Rye"], zeros=0),
        node("Flatten", "t", "f"),
        node("MatMul", "f W", "z"),
    ]
    inputs = [helper.make_tensor_value_info("town", TensorProto.STRING, ["n", 1])]
    with pytest.raises(NotAdditiveError, match="rejects the value 'Ware'"):
        read_onnx(model(nodes, ["z"], {"W": np.ones((2, 1), F)}, inputs), PEOPLE)


def test_inputs_that_do_not_fit_are_refused():
    content = model([gemm(), node("Sigmoid", "z", "p")], ["p"], last_layer(5))
    with pytest.raises(ModelError, match="takes 5 inputs, but the schema's 6 attributes have 6"):
        read_onnx(content, PEOPLE)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in ("age", "shoe size")]
    nodes = [node("Add", "a b", "z")]
    nodes[0].input[:] = ["age", "shoe size"]
    with pytest.raises(ModelError, match="input 'shoe size' is not an attribute"):
        read_onnx(model(nodes, ["z"], {}, inputs), PEOPLE)
    wide = [helper.make_tensor_value_info("age", TensorProto.FLOAT, ["n", 2])]
    with pytest.raises(ModelError, match="not one column"):
        read_onnx(model([node("Identity", "age", "z")], ["z"], {}, wide), PEOPLE)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ModelError, match="no such file"):
        read_onnx(tmp_path / "absent.onnx", PEOPLE)
    for content in (b"", b"age,sex\n", model([gemm()], ["z"], last_layer(5))[:200]):
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(ModelError, match=re.escape("m.onnx")):
            read_onnx(tmp_path / "m.onnx", PEOPLE)


@given(st.data())
@settings(max_examples=scaled(150))
def test_a_damaged_file_is_refused_or_read_never_worse(data):
    nodes = [node("Scaler", "x", "y", offset=[1.0] * 5, scale=[0.5] * 5), gemm("y"), node("Sigmoid", "z", "p")]
    content = bytearray(model(nodes, ["p"], last_layer(5)))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for _ in range(data.draw(st.integers(0, 5))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        network = read_onnx(bytes(content), NUMBERS)
    except ModelError:
        return
    assert network.predict(sample(NUMBERS, 5)).shape == (5,)


# Real people


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning")  # few steps
def test_a_pipeline_trained_on_adult_survives_the_export():
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pd.read_csv(shared("data", "tabular", "adult.csv.xz")).drop(columns="split").sample(4000, random_state=0)
    schema = infer_schema(frame, target="income", protected=["sex"])
    columns = frame[list(schema.names)]
    prepare = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")), remainder=OneHotEncoder(sparse_output=False)
    )
    pipeline = make_pipeline(prepare, MLPClassifier((24, 12), max_iter=8, random_state=0)).fit(columns, frame["income"])
    content = exported(pipeline, columns, zipmap=False)
    network = read_onnx(content, schema)
    people = np.concatenate([encode(schema, frame).individuals, sample(schema, 4000)])
    labels, scores = run(content, fed(decode(schema, people)))
    np.testing.assert_allclose(network.scores(people), scores, atol=SINGLE)
    clear = np.abs(scores[:, 1] - 0.5) > SINGLE
    assert (np.array(network.classes)[network.predict(people)] == labels)[clear].all()
    assert network.hidden == (24, 12)
