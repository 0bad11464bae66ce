"""Models that MLflow logged: folders laid out as MLflow lays them out, and URIs of its stores."""

import contextlib
import importlib.util
import sys
import types

import joblib
import numpy as np
import pytest
import yaml
from applicants import CODES, FRAME, GRANTED, NAMES, PEOPLE, WORDS, pipeline
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from evenhand.errors import EvenhandError, MissingExtraError, ModelError, TrustError
from evenhand.models import load_model, load_white_box
from support import scaled

MODEL = pipeline(LogisticRegression())
OWN = MODEL.predict_proba(FRAME[NAMES])


def log_model(folder, flavour, fields, **more):
    """Write what ``mlflow.<flavour>.save_model`` writes, less what only MLflow reads."""
    folder.mkdir(parents=True, exist_ok=True)
    code = {"loader_module": f"mlflow.{flavour}", "python_version": "3.11.7"}
    described = {"flavors": {"python_function": code, flavour: fields}, "mlflow_version": "3.17.2"} | more
    (folder / "MLmodel").write_text(yaml.safe_dump(described))
    return folder


def log_pickle(folder, **more):
    log_model(folder, "sklearn", {"pickled_model": "model.pkl", "serialization_format": "cloudpickle"}, **more)
    joblib.dump(MODEL, folder / "model.pkl")
    return folder


def test_scikit_learn(tmp_path):
    skops = pytest.importorskip("skops.io", reason="needs the extra skops")
    folder = log_model(
        tmp_path / "credit", "sklearn", {"pickled_model": "model.skops", "serialization_format": "skops"}
    )
    skops.dump(MODEL, folder / "model.skops")
    scorer = load_model(folder, WORDS, like=FRAME)
    assert scorer.name == "credit"
    np.testing.assert_array_equal(scorer.scores(PEOPLE), OWN)
    np.testing.assert_allclose(load_white_box(folder, WORDS, like=FRAME).scores(PEOPLE), OWN, atol=1e-6)


def test_a_pickle_inside_needs_trust(tmp_path):
    folder = log_pickle(tmp_path / "credit")
    with pytest.raises(TrustError, match="loading a pickle runs any code in it"):
        load_model(folder, WORDS)
    np.testing.assert_array_equal(load_model(folder, WORDS, like=FRAME, trust=True).scores(PEOPLE), OWN)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "catboost"])
def test_boosters(tmp_path, kind):
    library = pytest.importorskip(kind, reason=f"needs {kind}")
    inputs = CODES.inputs(PEOPLE)
    if kind == "xgboost":
        model = library.XGBClassifier(n_estimators=3, n_jobs=1).fit(inputs, GRANTED.astype(int))
        model.save_model(log_model(tmp_path, kind, {"data": "model.ubj", "model_format": "ubj"}) / "model.ubj")
    elif kind == "lightgbm":
        model = library.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(inputs, GRANTED.astype(int))
        model.booster_.save_model(log_model(tmp_path, kind, {"data": "model.lgb"}) / "model.lgb")
    else:
        model = library.CatBoostClassifier(iterations=3, verbose=0, allow_writing_files=False, thread_count=1)
        model.fit(inputs, GRANTED.astype(int))
        model.save_model(str(log_model(tmp_path, kind, {"data": "model.cb", "save_format": "cbm"}) / "model.cb"))
    with np.errstate(all="ignore"):
        own = model.predict_proba(inputs)
    np.testing.assert_allclose(load_white_box(tmp_path, CODES).scores(PEOPLE), own, atol=1e-6)


def test_a_file_in_a_folder_of_its_own(tmp_path):
    """Keras and PyTorch models stand in a folder ``data``."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    network = torch.nn.Linear(CODES.width, 1)
    folder = log_model(tmp_path, "pytorch", {"model_data": "data", "pytorch_version": "2.13.0"})
    (folder / "data").mkdir()
    torch.save(network, folder / "data" / "model.pth")
    inputs = torch.from_numpy(CODES.inputs(PEOPLE).astype(np.float32))
    own = 1 / (1 + np.exp(-network(inputs).detach().numpy()[:, 0]))
    np.testing.assert_allclose(load_white_box(folder, CODES, trust=True).scores(PEOPLE)[:, 1], own, atol=1e-6)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A stand-in for MLflow, whose store holds one model."""
    folder = log_pickle(tmp_path / "artifacts")

    def download_artifacts(uri):
        if uri != "models:/credit/1":
            raise LookupError(f"no model {uri}")
        return str(folder)

    artifacts = types.ModuleType("mlflow.artifacts")
    artifacts.download_artifacts = download_artifacts
    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    monkeypatch.setitem(sys.modules, "mlflow.artifacts", artifacts)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


def test_registered_models_are_found_by_mlflow(registry):
    scorer = load_model("models:/credit/1", WORDS, like=FRAME, trust=True)
    assert scorer.name == "models:/credit/1"
    np.testing.assert_array_equal(scorer.scores(PEOPLE), OWN)


def test_rejects_models_that_mlflow_does_not_find(registry):
    with pytest.raises(ModelError, match="LookupError: no model models:/credit/2"):
        load_model("models:/credit/2", WORDS, trust=True)


def test_names_the_extra_of_mlflow(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.artifacts", None)
    with pytest.raises(MissingExtraError):
        load_model("runs:/abc/model", WORDS)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ("", "lists no `flavors`"),
        ("{", "cannot be read as YAML"),
        ("flavors: 3", "lists no `flavors`"),
        ("flavors: {python_function: {loader_module: my.code}}", "python_function alone would require running code"),
        ("flavors: {sklearn: {pickled_model: gone.pkl}}", "does not exist: gone.pkl"),
        ("flavors: {sklearn: {pickled_model: ../../secret.pkl}}", "outside the folder"),
        ("flavors: {tensorflow: {data: saved}}", "does not exist"),
        ("flavors: {onnx: {data: model.what}}", "not a known kind"),
    ],
)
def test_what_is_refused(tmp_path, described, message):
    (tmp_path / "MLmodel").write_text(described)
    (tmp_path / "saved").mkdir()
    (tmp_path / "model.what").write_text("")
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path, WORDS, trust=True)


@given(data=st.data())
@settings(max_examples=scaled(100))
def test_mutilated_descriptions(tmp_path_factory, data):
    folder = log_pickle(tmp_path_factory.getbasetemp() / "mutilated")
    text = bytearray((folder / "MLmodel").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    (folder / "MLmodel").write_bytes(text[: data.draw(st.integers(0, len(text)))])
    with contextlib.suppress(EvenhandError):
        load_model(folder, WORDS, like=FRAME, trust=True)


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="compared with MLflow only where it is there")
def test_what_mlflow_itself_writes(tmp_path):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow about its own dependencies
        import mlflow

        mlflow.sklearn.save_model(
            MODEL, tmp_path / "credit", serialization_format="cloudpickle", pip_requirements=["scikit-learn"]
        )
        own = mlflow.sklearn.load_model(str(tmp_path / "credit")).predict_proba(FRAME[NAMES])
    scorer = load_model(tmp_path / "credit", WORDS, like=FRAME, trust=True)
    np.testing.assert_array_equal(scorer.scores(PEOPLE), own)
