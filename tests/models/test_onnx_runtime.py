import warnings

import numpy as np
import pytest
from applicants import CODES, FRAME, GRANTED, PEOPLE, WORDS, pipeline, schema
from generated import damage
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models import favourable_score, load_model
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.blackbox.onnx_model import OnnxModel, open_onnx
from evenhand.models.white_box import extract_white_box
from support import scaled, small_schema

F, D, L, S, B = "float", "double", "int64", "string", "bool"


def sample(frame=FRAME):
    """One row in the types that skl2onnx takes."""
    words = dict.fromkeys(("sex", "home-town"), object)
    return frame[list(WORDS.names)].head(1).astype({"age": "float32", "income": "float32"} | words)


def exported(model, **options):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions of NumPy and ONNX
        return skl2onnx.to_onnx(model, sample(), **options)


def estimators():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    with_zipmap, without = {"zipmap": True}, {"zipmap": False}
    return [
        (LogisticRegression(), with_zipmap),
        (LogisticRegression(), without),
        (MLPClassifier((4,), max_iter=500, random_state=0, tol=1e-2), with_zipmap),
        (MLPClassifier((4,), max_iter=500, random_state=0, tol=1e-2), without),
        (DecisionTreeClassifier(max_depth=4), without),
        (RandomForestClassifier(5, random_state=0), with_zipmap),
        (GradientBoostingClassifier(n_estimators=5), without),
        (CalibratedClassifierCV(LogisticRegression(), cv=2), with_zipmap),
        (SVC(), without),
        (RidgeClassifier(), {}),
    ]


@pytest.mark.parametrize("which", range(10))
@pytest.mark.parametrize("answers", ["words", "numbers"])
def test_a_scikit_learn_export_answers_as_the_pipeline(which, answers):
    estimator, options = estimators()[which]
    labels = np.where(GRANTED, "yes", "no") if answers == "words" else GRANTED.astype(int)
    from sklearn.svm import SVC

    asked = FRAME.astype({"age": "float32", "income": "float32"})
    # scaled in single precision, a number can fall on the other side of a tree's threshold
    model = pipeline(estimator, asked, labels, scaled="Tree" not in repr(estimator) and "Forest" not in repr(estimator))
    scorer = load_model(exported(model, options=options), WORDS)
    expected = model.predict(asked)
    got = np.array(scorer.classes)[scorer.predict(PEOPLE)]
    assert (got == np.where(expected == model.classes_[1], "yes", "no")).all()
    assert (scorer.classes, scorer.favourable) == (("no", "yes"), 1)
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(scorer.scores(PEOPLE), model.predict_proba(asked), atol=2e-5)
    elif isinstance(estimator, SVC):
        assert scorer.label_only  # skl2onnx writes its margins in another order than its labels
    else:
        order = np.argsort(model.decision_function(asked))
        assert (np.diff(scorer.scores(PEOPLE)[order, 1]) > -1e-6).all()


def test_three_labels():
    from sklearn.linear_model import LogisticRegression

    labels = np.where(FRAME["income"] < 30, "no", np.where(FRAME["income"] < 60, "wait", "yes"))
    model = pipeline(LogisticRegression(), labels=labels)
    scorer = load_model(exported(model), schema(values=("yes", "wait", "no")))
    assert (scorer.classes, scorer.favourable) == (("no", "wait", "yes"), 2)
    assert np.array(scorer.classes)[scorer.predict(PEOPLE)].tolist() == model.predict(FRAME).tolist()
    np.testing.assert_allclose(scorer.scores(PEOPLE), model.predict_proba(FRAME), atol=1e-5)


def test_a_converted_pipeline_is_no_white_box():
    from sklearn.linear_model import LogisticRegression

    scorer = load_model(exported(pipeline(LogisticRegression())), WORDS, name="export")
    with pytest.raises(NotAdditiveError, match="cannot be certified"):
        extract_white_box(scorer)


def graph(nodes, inputs, outputs, weights=()):
    """A small ONNX model. ``inputs``: (name, type, columns); ``outputs``: (name, type)."""
    kinds = {F: 1, D: 11, L: 7, S: 8, B: 9}
    made = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, source, target, **settings) for kind, source, target, settings in nodes],
        "small",
        [onnx.helper.make_tensor_value_info(name, kinds[kind], shape) for name, kind, shape in inputs],
        [onnx.helper.make_tensor_value_info(name, kinds[kind], None) for name, kind in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in weights],
    )
    return onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)


W = np.array([[0.3], [1.0], [0.5], [0.4], [-0.2], [-0.2]], dtype=np.float32)
LOGIT = (CODES.inputs(PEOPLE).astype(np.float32) @ W).astype(np.float64)[:, 0]
CHANCE = 1 / (1 + np.exp(-LOGIT))
MATMUL = ("MatMul", ["x", "w"], ["logit"], {})
X = ("x", F, ["n", 6])
HALVES = [
    MATMUL,
    ("Neg", ["logit"], ["other"], {}),
    ("Concat", ["other", "logit"], ["two"], {"axis": 1}),
    ("Mul", ["two", "half"], ["halves"], {}),
]


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([MATMUL], [("logit", F)]),
        ([MATMUL, ("Sigmoid", ["logit"], ["p"], {})], [("p", F)]),
        ([MATMUL, ("Sigmoid", ["logit"], ["p"], {}), ("Squeeze", ["p", "one"], ["q"], {})], [("q", F)]),
        ([MATMUL, ("Cast", ["logit"], ["wide"], {"to": 11})], [("wide", D)]),
        (
            [MATMUL, ("Greater", ["logit", "zero"], ["g"], {}), ("Cast", ["g"], ["y"], {"to": 7})],
            [("y", L), ("logit", F)],
        ),
        ([*HALVES, ("Softmax", ["halves"], ["p"], {"axis": 1})], [("p", F)]),
        (HALVES, [("halves", F)]),
    ],
)
def test_one_tensor_of_plain_numbers(nodes, outputs):
    weights = {"w": W, "zero": np.float32(0), "one": np.array([1]), "half": np.float32(0.5)}
    used = {name for _, sources, _, _ in nodes for name in sources}
    model = graph(nodes, [X], outputs, [(name, value) for name, value in weights.items() if name in used])
    scorer = load_model(model, CODES)
    assert isinstance(scorer, OnnxModel)
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), CHANCE, atol=1e-6)
    np.testing.assert_array_equal(scorer.predict(PEOPLE), LOGIT > 0)
    assert not scorer.label_only


def test_labels_alone():
    greater = ("Greater", ["logit", "zero"], ["g"], {})
    zero = ("zero", np.float32(0))
    for nodes, outputs in [
        ([MATMUL, greater], [("g", B)]),
        ([MATMUL, greater, ("Cast", ["g"], ["y"], {"to": 7})], [("y", L)]),
    ]:
        scorer = load_model(graph(nodes, [X], outputs, [("w", W), zero]), CODES)
        assert scorer.label_only
        np.testing.assert_array_equal(scorer.predict(PEOPLE), LOGIT > 0)
        np.testing.assert_array_equal(scorer.scores(PEOPLE), np.eye(2)[scorer.predict(PEOPLE)])


def test_the_position_of_the_largest_score_is_a_label():
    nodes = [*HALVES[:3], ("ArgMax", ["two"], ["y"], {"axis": 1, "keepdims": 0})]
    described = schema(codes=True)
    scorer = load_model(graph(nodes, [X], [("y", L)], [("w", W)]), described)
    np.testing.assert_array_equal(scorer.predict(PEOPLE) == scorer.favourable, LOGIT > 0)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_a_fixed_number_of_rows(rows):
    scorer = load_model(graph([MATMUL], [("x", F, [rows, 6])], [("logit", F)], [("w", W)]), CODES)
    assert scorer.rows == rows
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), CHANCE, atol=1e-6)


def test_inputs_by_name_get_words_or_numbers_as_each_wants():
    nodes = [
        ("Equal", ["sex", "male"], ["m"], {}),
        ("Cast", ["m"], ["mf"], {"to": 1}),
        ("Cast", ["age"], ["af"], {"to": 1}),
        ("Add", ["mf", "af"], ["s"], {}),
        ("Add", ["s", "home_town"], ["t"], {}),
    ]
    inputs = [("sex", S, ["n", 1]), ("income", F, ["n"]), ("age", L, ["n", 1]), ("home_town", F, ["n", 1])]
    male = onnx.helper.make_tensor("male", 8, [1], [b"Male"])
    model = graph(nodes, inputs, [("t", F)])
    model.graph.initializer.append(male)
    # Sex goes in as a word, the town as its code.
    scorer = load_model(model, schema(codes=False).with_encodings({"home-town": "code"}), output="logit")
    expected = (PEOPLE[:, 2] == 1) + PEOPLE[:, 0] + PEOPLE[:, 3]
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), 1 / (1 + np.exp(-expected)), atol=1e-6)


def test_one_tensor_of_words():
    nodes = [("Slice", ["x", "from", "to", "axis"], ["sex"], {}), ("Equal", ["sex", "male"], ["y"], {})]
    weights = [("from", np.array([2])), ("to", np.array([3])), ("axis", np.array([1]))]
    model = graph(nodes, [("x", S, ["n", 4])], [("y", B)], weights)
    model.graph.initializer.append(onnx.helper.make_tensor("male", 8, [1], [b"Male"]))
    scorer = load_model(model, WORDS)
    np.testing.assert_array_equal(scorer.predict(PEOPLE), PEOPLE[:, 2] == 1)
    person = PEOPLE[:1].copy()
    person[0, 3] = np.nan
    with pytest.raises(ModelError, match="'home-town' has missing values"):
        scorer.predict(person)


def test_a_missing_number_that_the_network_cannot_take():
    described = schema(codes=True, missing="keep", town_encoding="code")
    scorer = load_model(graph([MATMUL], [("x", F, ["n", 4])], [("logit", F)], [("w", W[:4])]), described)
    person = PEOPLE[:1].copy()
    person[0, 1] = np.nan
    with pytest.raises(ModelError, match=r"nan.* for individual 1"):
        scorer.predict(person)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (graph([MATMUL], [("x", F, ["n", 5])], [("logit", F)], [("w", W[:5])]), "4 attributes have 6 inputs"),
        (graph([MATMUL], [X], [("logit", F)], [("w", np.repeat(W, 3, axis=1))]), "3 outputs"),
        (
            graph([("Add", ["sex", "salary"], ["y"], {})], [("sex", F, ["n", 1]), ("salary", F, ["n", 1])], [("y", F)]),
            "input 'salary' is not an attribute",
        ),
        (graph([MATMUL, ("Neg", ["logit"], ["o"], {})], [X], [("logit", F), ("o", F)], [("w", W)]), "several outputs"),
        (graph([MATMUL, ("Log", ["logit"], ["o"], {})], [X], [("o", F)], [("w", W)]), "nan"),
        (
            graph([("Cast", ["x"], ["y"], {"to": 7})], [X], [("y", L)]),
            r"shape \(192,\) for 32 individuals; expected \(32,\)",
        ),
        (graph([("Unheard", ["x"], ["y"], {})], [X], [("y", F)]), "onnxruntime cannot run the model"),
    ],
)
def test_models_that_do_not_fit_are_refused(model, message):
    with pytest.raises(ModelError, match=message):
        load_model(model, CODES)


def test_a_file_and_its_external_weights(tmp_path):
    model = graph([MATMUL], [X], [("logit", F)], [("w", W)])
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="net.bin", size_threshold=0)
    assert (tmp_path / "net.bin").exists()
    scorer = load_model(str(path), CODES)
    assert scorer.name == "net.onnx"
    np.testing.assert_allclose(favourable_score(scorer, PEOPLE), CHANCE, atol=1e-6)
    (tmp_path / "net.bin").unlink()
    with pytest.raises(ModelError, match="cannot run the model"):
        load_model(path, CODES)


SMALL = graph([MATMUL, ("Sigmoid", ["logit"], ["p"], {})], [X], [("p", F)], [("w", W)]).SerializeToString()


def test_a_damaged_file_prints_nothing(capfd):
    with pytest.raises(ModelError, match="cannot run the model"):
        open_onnx(SMALL.replace(b"MatMul", b"Mat\xfbul"), LoadRequest(CODES))
    assert capfd.readouterr() == ("", "")


@settings(max_examples=scaled(150), deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_or_are_models(data):
    try:
        scorer = open_onnx(damage(data, SMALL), LoadRequest(CODES))
        scores = scorer.scores(PEOPLE)
    except ModelError:
        return
    assert scores.shape == (len(PEOPLE), 2)
    assert np.isfinite(scores).all()


def test_inputs_of_numbers_get_words_that_are_numbers_or_truth_values():
    price = {"kind": "real", "lower": 0, "upper": 9, "number_format": {"decimals": 2}}
    described = small_schema(state="01 02 10", version="3.10 3.9", member="False True", price=price)
    nodes = [
        ("Cast", ["member"], ["m"], {"to": 1}),
        ("Cast", ["state"], ["s"], {"to": 1}),
        ("Add", ["m", "s"], ["a"], {}),
        ("Add", ["a", "version"], ["b"], {}),
        ("Sub", ["b", "price"], ["t"], {}),
    ]
    inputs = [("state", L, ["n", 1]), ("version", F, ["n", 1]), ("member", B, ["n", 1]), ("price", F, ["n", 1])]
    scorer = load_model(graph(nodes, inputs, [("t", F)]), described)
    people = np.array([[0, 0, 1, 2.5], [2, 1, 0, 9.0], [1, 0, 0, 3.25]])
    expected = np.array([1 + 3.1 + 1 - 2.5, 10 + 3.9 - 9, 2 + 3.1 - 3.25])
    np.testing.assert_allclose(favourable_score(scorer, people), 1 / (1 + np.exp(-expected)), rtol=1e-5)
