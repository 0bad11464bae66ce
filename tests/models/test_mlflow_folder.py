"""Models that MLflow logged: folders laid out as MLflow lays them out, and its local stores."""

import contextlib
import importlib.util
import sqlite3

import joblib
import numpy as np
import pytest
import yaml
from applicants import CODES, FRAME, GRANTED, NAMES, PEOPLE, WORDS, pipeline
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from evenhand.errors import EvenhandError, ModelError, TrustError
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
    with pytest.raises(TrustError, match="loading a pickle runs whatever code is in it"):
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
    program = torch.export.export(
        network, (torch.zeros(2, CODES.width),), dynamic_shapes=({0: torch.export.Dim("n", min=1)},)
    )
    folder = log_model(tmp_path, "pytorch", {"model_data": "data", "pytorch_version": "2.13.0"})
    (folder / "data").mkdir()
    torch.export.save(program, folder / "data" / "model.pt2")
    inputs = torch.from_numpy(CODES.inputs(PEOPLE).astype(np.float32))
    own = 1 / (1 + np.exp(-network(inputs).detach().numpy()[:, 0]))
    np.testing.assert_allclose(load_white_box(folder, CODES).scores(PEOPLE)[:, 1], own, atol=1e-6)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of files with a registered model: version 2 is the champion."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "mlruns"
    model = log_pickle(root / "0" / "models" / "m-1" / "artifacts", run_id="abc", name="model")
    log_pickle(root / "0" / "def" / "artifacts" / "scorer", run_id="def", artifact_path="scorer")
    for version, place in ((1, "/gone/mlruns/0/models/m-1/artifacts"), (2, model.as_uri())):
        folder = root / "models" / "credit" / f"version-{version}"
        folder.mkdir(parents=True)
        fields = {"name": "credit", "version": version, "source": "models:/m-1", "storage_location": place}
        (folder / "meta.yaml").write_text(yaml.safe_dump(fields))
    (root / "models" / "credit" / "aliases").mkdir()
    (root / "models" / "credit" / "aliases" / "champion").write_text("2")
    return root


URIS = [
    "models:/credit/1",
    "models:/credit/2",
    "models:/credit/latest",
    "models:/credit@champion",
    "models:/m-1",
    "runs:/abc/model",
    "runs:/def/scorer",
]


@pytest.mark.parametrize("uri", URIS)
def test_a_store_of_files(store, uri):
    scorer = load_model(uri, WORDS, like=FRAME, trust=True)
    assert scorer.name == uri
    np.testing.assert_array_equal(scorer.scores(PEOPLE), OWN)


@pytest.mark.parametrize("uri", URIS[:6])
def test_a_store_in_a_database(store, uri, monkeypatch):
    """MLflow 3 keeps what it knows in SQLite, and the models' files beside it."""
    with sqlite3.connect(store.parent / "mlflow.db") as database:
        database.execute("CREATE TABLE model_versions (name, version INTEGER, source, storage_location)")
        database.execute("CREATE TABLE registered_model_aliases (name, alias, version INTEGER)")
        place = (store / "0" / "models" / "m-1" / "artifacts").as_uri()
        database.executemany(
            "INSERT INTO model_versions VALUES ('credit', ?, 'models:/m-1', ?)",
            [(1, place), (2, "/gone/mlruns/0/models/m-1/artifacts")],
        )
        database.execute("INSERT INTO registered_model_aliases VALUES ('credit', 'champion', 2)")
    database.close()
    for path in (store / "models").rglob("meta.yaml"):
        path.unlink()
    np.testing.assert_array_equal(load_model(uri, WORDS, like=FRAME, trust=True).scores(PEOPLE), OWN)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store.parent / 'mlflow.db'}")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(load_model(uri, WORDS, like=FRAME, trust=True).scores(PEOPLE), OWN)


@pytest.mark.parametrize(
    "uri",
    [
        "models:/credit/3",
        "models:/other/1",
        "models:/credit@nobody",
        "models:/m-2",
        "runs:/abc/other",
        "models:/../../1",
        "models:/credit/x",
    ],
)
def test_what_is_not_in_the_store(store, uri):
    with pytest.raises(ModelError, match=r"no such model|cannot be read"):
        load_model(uri, WORDS, trust=True)


def test_a_store_elsewhere(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://models.example.org")
    with pytest.raises(ModelError, match="only local ones are read") as caught:
        load_model("models:/credit/1", WORDS)
    assert "mlflow artifacts download" in caught.value.hint


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ("", "lists no `flavors`"),
        ("{", "cannot be read as YAML"),
        ("flavors: 3", "lists no `flavors`"),
        ("flavors: {python_function: {loader_module: my.code}}", "python_function alone is code"),
        ("flavors: {sklearn: {pickled_model: gone.pkl}}", "is not there: gone.pkl"),
        ("flavors: {sklearn: {pickled_model: ../../secret.pkl}}", "outside the folder"),
        ("flavors: {tensorflow: {data: saved}}", "is not there"),
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
