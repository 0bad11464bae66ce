import pickle
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from applicants import CODES, FRAME, GRANTED, NAMES, PEOPLE, WORDS, pipeline, schema
from generated import damage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from evenhand.errors import EvenhandError, MissingExtraError, ModelError, NotAdditiveError, TrustError
from evenhand.models import Scorer, Subject, load_model, load_white_box
from evenhand.models.additive.network import network_from_dense
from evenhand.models.load import LOADERS
from evenhand.models.white_box import extract_white_box
from evenhand.schema import encode
from support import scaled

WEIGHTS = np.array([[0.3], [1.0], [0.5], [0.4], [-0.2], [-0.2]])
LOGIT = (CODES.inputs(PEOPLE) @ WEIGHTS)[:, 0] - 0.1


@pytest.fixture(scope="module")
def model():
    return pipeline(LogisticRegression())


def saved(kind, model, path):
    if kind == "skops":
        pytest.importorskip("skops.io", reason="needs the extra skops").dump(model, path)
    elif kind.startswith("joblib"):
        joblib.dump(model, path)
    else:
        path.write_bytes(pickle.dumps(model))


@pytest.mark.parametrize("kind", ["skops", "joblib", "pkl", "pickle", "joblib.pkl"])
def test_a_saved_pipeline_answers_as_before(model, tmp_path, kind):
    path = tmp_path / f"credit.{kind}"
    saved(kind, model, path)
    for source in (path, str(path)):
        scorer = load_model(source, WORDS, like=FRAME, trust=kind != "skops")
        assert scorer.name == f"credit.{kind}"
        np.testing.assert_array_equal(scorer.scores(PEOPLE), model.predict_proba(FRAME[NAMES]))
    assert load_model(path, WORDS, trust=True, name="credit, second version").name == "credit, second version"


class Trap:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("suffix", sorted(LOADERS))
def test_a_pickle_is_refused_before_it_is_opened(tmp_path, suffix):
    path, mark = tmp_path / f"model{suffix}", tmp_path / "mark"
    path.write_bytes(pickle.dumps(Trap(mark)))
    with pytest.raises(EvenhandError) as caught:
        load_model(path, WORDS)
    assert not mark.exists()
    if suffix in (".pkl", ".pickle", ".joblib", ".pt", ".pth"):
        assert caught.type is TrustError
        assert "`trust=True`" in str(caught.value)
    if suffix in (".pkl", ".pickle", ".joblib"):
        with pytest.raises(ModelError, match="not a model"):
            load_model(path, WORDS, trust=True)
        assert mark.exists()


def shout(frame):
    return frame


def test_skops_lists_the_types_that_need_trust(tmp_path):
    skops = pytest.importorskip("skops.io", reason="needs the extra skops")
    from sklearn.pipeline import make_pipeline

    numbers = FRAME[["age", "income"]]
    model = make_pipeline(FunctionTransformer(shout), LogisticRegression()).fit(numbers, FRAME["granted"])
    path = tmp_path / "shouting.skops"
    skops.dump(model, path)
    with pytest.raises(TrustError, match=r"test_load\.shout(.|\n)*`trust=True`"):
        load_model(path, WORDS)
    scorer = load_model(path, WORDS, like=FRAME, trust=True)
    np.testing.assert_array_equal(scorer.scores(PEOPLE), model.predict_proba(numbers))


def test_boosted_trees(tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="needs lightgbm")
    xgboost = pytest.importorskip("xgboost", reason="needs xgboost")
    inputs = CODES.inputs(PEOPLE)
    boosted = xgboost.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1).fit(inputs, GRANTED)
    light = lightgbm.LGBMClassifier(n_estimators=4, num_leaves=4, verbose=-1, n_jobs=1).fit(inputs, GRANTED)
    for suffix in ("json", "ubj"):
        boosted.save_model(tmp_path / f"trees.{suffix}")
    light.booster_.save_model(tmp_path / "trees.txt")
    for source, expected in [
        (tmp_path / "trees.json", boosted),
        (tmp_path / "trees.ubj", boosted),
        (boosted.get_booster(), boosted),
        (tmp_path / "trees.txt", light),
        (light.booster_, light),
    ]:
        scorer = load_model(source, CODES)
        np.testing.assert_allclose(scorer.scores(PEOPLE), expected.predict_proba(inputs), atol=1e-6)
        np.testing.assert_array_equal(scorer.predict(PEOPLE), expected.predict(inputs))
        assert extract_white_box(scorer) is scorer


def test_a_scorer_is_taken_as_it_is():
    network = network_from_dense(CODES, [(WEIGHTS, np.array([-0.1]))])
    assert load_model(network, CODES) is network
    assert load_model(network, CODES, name="mine").name == "mine"


def test_a_scorer_takes_over_who_is_protected_and_what_is_favourable():
    network = network_from_dense(CODES, [(WEIGHTS, np.array([-0.1]))])
    other = CODES.with_protected(["home-town"])
    assert load_model(network, other).schema.protected == ("home-town",)
    turned = load_model(network, schema(codes=True, favourable="no"))
    assert (turned.classes, turned.favourable) == (network.classes, 0)
    np.testing.assert_array_equal(turned.predict(PEOPLE), network.predict(PEOPLE))


class Fake:
    """A scorer that somebody wrote."""

    def __init__(self, described):
        self.schema, self.classes, self.favourable, self.label_only, self.name = described, ("no", "yes"), 1, True, "f"

    def scores(self, individuals):
        return np.eye(2)[self.predict(individuals)]

    def predict(self, individuals):
        return np.ones(len(individuals), dtype=np.int64)


def test_a_scorer_that_somebody_wrote():
    fake = Fake(WORDS)
    assert isinstance(fake, Scorer)
    assert load_model(fake, WORDS) is fake
    assert load_model(fake, WORDS.with_protected(["age"]), name="other") is fake


def test_a_scorer_for_other_individuals_is_refused():
    described = WORDS.model_dump(mode="json")
    described["attributes"][3]["values"] = ["Rye", "Ely", "Ware"]
    with pytest.raises(ModelError, match="attribute 'home-town' differs"):
        load_model(Fake(type(WORDS).parse(described)), WORDS)
    described["attributes"] = described["attributes"][:2]
    with pytest.raises(ModelError, match="2 attributes, and the schema has 4"):
        load_model(Fake(type(WORDS).parse(described)), WORDS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("model.xyz", "no such file(.|\n)*known kinds are .npz"),
        ("model.onnx", "model.onnx: there is no such file"),
        ("model", "no such file"),
        ("ftp://host/model.onnx", "not a model: 'ftp://host/model.onnx'(.|\n)*http"),
        ("a b:c", "not a model: 'a b:c'"),
        ("module:function:more", "not a model"),
        (Path("absent.npz"), "absent.npz: there is no such file"),
        (3, "a int is not a model"),
        (None, "a NoneType is not a model"),
        (FRAME, "a DataFrame is not a model"),
    ],
)
def test_what_is_no_model(source, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=message):
        load_model(source, WORDS)


def test_files_that_are_no_models(tmp_path):
    for name, message in [("model.xyz", "'.xyz' is not a known kind"), ("model", "no suffix"), ("folder", "a folder")]:
        (tmp_path / name).write_bytes(b"?") if name != "folder" else (tmp_path / name).mkdir()
        with pytest.raises(ModelError, match=message):
            load_model(tmp_path / name, WORDS)


@pytest.mark.parametrize("suffix", {loader: suffix for suffix, loader in LOADERS.items()}.values())
@pytest.mark.parametrize("content", [b"", b"\0", b"\x93NUMPY", b"PK\x03\x04", b"{}", b"[1, 2", b"\xff" * 1000])
def test_whatever_is_in_a_file_there_is_one_clear_error(tmp_path, suffix, content):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(content)
    try:
        with pytest.raises(ModelError) as caught:
            load_model(path, WORDS, trust=True)
    except MissingExtraError as error:
        pytest.skip(f"needs an extra: {error.message}")
    assert path.name in str(caught.value)


@pytest.fixture(scope="module")
def skops_bytes(model):
    return pytest.importorskip("skops.io", reason="needs the extra skops").dumps(model)


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_skops_files_are_refused_or_are_models(skops_bytes, tmp_path, data):
    path = tmp_path / "model.skops"
    path.write_bytes(damage(data, skops_bytes))
    try:
        scores = load_model(path, WORDS).scores(PEOPLE)
    except (ModelError, TrustError):
        return
    assert scores.shape == (len(PEOPLE), 2)
    assert np.isfinite(scores).all()


def test_what_only_answers_is_refused_as_a_white_box_before_it_is_asked():
    asked = []

    def rule(frame):
        asked.append(frame)
        return frame["income"] > 50

    with pytest.raises(NotAdditiveError, match="a function cannot be certified"):
        load_white_box(rule, WORDS)
    subject = Subject(rule, encode(WORDS, FRAME))
    with pytest.raises(NotAdditiveError, match="rule: a function cannot be certified"):
        _ = subject.white_box
    with pytest.raises(NotAdditiveError, match="example"):
        load_white_box("https://name:secret@example.org/model", WORDS)
    assert not asked


def test_the_inside_of_a_pipeline_decides_as_the_pipeline(model):
    scorer = load_model(model, WORDS, like=FRAME, name="credit")
    network = extract_white_box(scorer)
    assert network.name == "credit"
    np.testing.assert_array_equal(network.predict(PEOPLE), scorer.predict(PEOPLE))
    np.testing.assert_allclose(network.scores(PEOPLE), scorer.scores(PEOPLE), atol=1e-9)


def test_an_inside_with_other_labels_is_none(monkeypatch, model):
    scorer = load_model(model, WORDS)
    turned = network_from_dense(CODES, [(WEIGHTS, np.array([0.0]))], classes=("yes", "no"), favourable=0)
    monkeypatch.setattr(sys.modules["evenhand.models.white_box"], "_read_white_box", lambda scorer: turned)
    with pytest.raises(NotAdditiveError, match="the white box has the labels"):
        extract_white_box(scorer)


def test_without_a_ledger_the_queries_are_counted_in_a_new_one(model):
    assert load_model(model, WORDS, like=FRAME, ledger=None).ledger.sent > 0
