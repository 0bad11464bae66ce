"""MLflow evaluator: ``mlflow.models.evaluate(..., evaluators="evenhand")`` audits the model of a run.

MLflow finds the evaluator by its entry point, and imports it when an evaluation starts.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import mlflow
from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator

from evenhand.errors import OptionError

FOLDER = "evenhand"
"""Folder in the artifacts of a run."""


class EvenhandEvaluator(ModelEvaluator):  # type: ignore[misc]  # MLflow's base class has no types
    """Evaluator that logs the numbers of an audit as metrics, and the report as HTML and JSON.

    ``evaluator_config`` contains the settings of ``evenhand.audit``, at least ``protected``. Without a model, only the
    groups and subgroups of the predictions are audited.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: dict[str, Any] | None, **_: Any) -> bool:
        """Check whether the model is a classifier, and the configuration names protected columns."""
        return model_type in ("classifier", None) and bool((evaluator_config or {}).get("protected"))

    def evaluate(
        self,
        *,
        model_type: str | None,
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any] | None = None,
        model: Any = None,
        **_: Any,
    ) -> EvaluationResult:
        """Audit a model or the predictions of a data set, and log the result.

        Args:
            model_type: ``classifier``.
            dataset: MLflow data set with features, and true labels as targets.
            run_id: Run that the result is logged to.
            evaluator_config: Settings of ``evenhand.audit``.
            model: Model. None if the data set contains predictions.

        Raises:
            OptionError: No protected columns are named, or the features are not a data frame.
        """
        from evenhand import view

        settings = dict(evaluator_config or {})
        if not settings.get("protected"):
            hint = "evaluator_config={'protected': ['sex']}"
            raise OptionError("expected names of protected columns, got none", location="`protected=`", hint=hint)
        result = _audit(dataset, model, settings)
        metrics = _name_metrics(result)
        client = mlflow.MlflowClient()
        for name, value in metrics.items():
            client.log_metric(run_id, name, value)
        with tempfile.TemporaryDirectory() as folder:
            view.write_report(result, Path(folder))
            client.log_artifacts(run_id, folder, FOLDER)
        return EvaluationResult(metrics, {}, run_id)


def _audit(dataset: Any, model: Any, settings: dict[str, Any]) -> Any:
    import evenhand

    people = dataset.features_data
    if not hasattr(people, "columns"):
        hint = "give mlflow a pandas data frame"
        raise OptionError("expected features as a data frame, whose columns have names", hint=hint)
    name = dataset.name or "data"
    if model is None:
        protected = settings.pop("protected")
        return evenhand.audit_predictions(
            dataset.predictions_data,
            y_true=dataset.labels_data,
            sensitive_features=people[list(protected)],
            data_name=name,
            **settings,
        )
    return evenhand.audit(model.predict, people, dataset.labels_data, data_name=name, **settings)


def _name_metrics(result: Any) -> dict[str, float]:
    """Return the known numbers of all people and the gaps: ``flip_rate.sex``, with ``.low`` and ``.high``."""
    metrics: dict[str, float] = {}
    for number in result.numbers():
        if number.group:
            continue
        name = ".".join(filter(None, (f"evenhand/{number.name}", number.attribute)))
        value = number.quantity if isinstance(number.quantity, float) else getattr(number.quantity, "value", None)
        ends = {f"{name}.{end}": getattr(number.quantity, end, None) for end in ("low", "high")}
        metrics |= {entry: float(part) for entry, part in {name: value, **ends}.items() if part is not None}
    return metrics
