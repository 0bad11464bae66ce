"""The evaluator for MLflow, with a tracking store in a folder: numbers, page and JSON are in the run."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")

from evenhand.errors import OptionError
from evenhand.mlflow_plugin import EvenhandEvaluator

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 100, "points": np.arange(200) // 2})
TRUTH = (PEOPLE.points > 49).astype(int).to_numpy()


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    yield
    mlflow.set_tracking_uri(None)


def unfair(frame):
    return ((frame.points > 49) & (frame.sex == "m")).astype(int).to_numpy()


def evaluate(*subject, **config):
    return mlflow.models.evaluate(
        *subject, targets="hired", model_type="classifier", evaluators="evenhand", evaluator_config=config
    )


def test_a_model_is_audited_in_its_run(store):
    with mlflow.start_run() as run:
        found = evaluate(unfair, PEOPLE.assign(hired=TRUTH), protected=["sex"], seed=0)
    logged = mlflow.get_run(run.info.run_id).data.metrics
    assert logged == found.metrics
    assert logged["evenhand/flip_rate.sex"] == 0.5
    assert logged["evenhand/flip_rate.sex.low"] < 0.5 < logged["evenhand/flip_rate.sex.high"]
    assert logged["evenhand/demographic_parity_difference.sex"] == 0.5
    page = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="evenhand/report.html")
    assert "counterfactual flip rate" in Path(page).read_text("utf-8")
    data = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="evenhand/report.json")
    assert json.loads(Path(data).read_text("utf-8"))["kind"] == "audit"


def test_predictions_alone_are_audited_by_group(store):
    data = mlflow.data.from_pandas(
        PEOPLE.assign(hired=TRUTH, predicted=unfair(PEOPLE)), targets="hired", predictions="predicted"
    )
    with mlflow.start_run():
        found = mlflow.models.evaluate(
            data=data, model_type="classifier", evaluators="evenhand", evaluator_config={"protected": ["sex"]}
        )
    assert found.metrics["evenhand/demographic_parity_difference.sex"] == 0.5
    assert not any("flip_rate" in name for name in found.metrics)


def test_it_stays_out_of_evaluations_that_do_not_ask_for_it(store):
    for config, kind, fits in (
        ({"protected": ["sex"]}, "classifier", True),
        ({}, "classifier", False),
        (None, "classifier", False),
        ({"protected": ["sex"]}, "regressor", False),
    ):
        assert EvenhandEvaluator.can_evaluate(model_type=kind, evaluator_config=config) is fits
    with pytest.raises(OptionError, match="protected columns"):
        EvenhandEvaluator().evaluate(model_type="classifier", dataset=None, run_id="", evaluator_config={})
