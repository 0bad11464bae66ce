"""An evaluator for MLflow: ``mlflow.models.evaluate(..., evaluators="evenhand")`` audits the model of a run.

MLflow finds it by its entry point and imports it when an evaluation begins.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import mlflow
from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact
from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator

from evenhand.errors import OptionError

FOLDER = "evenhand"
"""Of the artifacts of a run."""


class EvenhandEvaluator(ModelEvaluator):  # type: ignore[misc]  # MLflow's base class has no types
    """Logs an audit: numbers as metrics, the report as a page and as JSON.

    ``evaluator_config`` has the settings of ``evenhand.audit``; at least ``protected``, the columns that a decision
    must not depend on. With a model everything is audited that fits; with predictions alone, groups and subgroups.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str | None, evaluator_config: dict[str, Any] | None, **_: Any) -> bool:
        """Return whether it is a classifier, and the configuration says who is protected."""
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
        """Audit the model, or the predictions of a data set, and log what was found to the run.

        Args:
            model_type: ``classifier``.
            dataset: MLflow's data set: features, and the true labels as targets.
            run_id: the run that is logged to.
            evaluator_config: settings of ``evenhand.audit``.
            model: the model; None: the data set has its predictions.

        Raises:
            OptionError: nothing says who is protected, or there are no features as a data frame.
        """
        from evenhand import view

        settings = dict(evaluator_config or {})
        if not settings.get("protected"):
            hint = "evaluator_config={'protected': ['sex']}"
            raise OptionError("expected to know who is protected", location="`protected=`", hint=hint)
        result = _audit(dataset, model, settings)
        metrics = _name_metrics(result)
        client = mlflow.MlflowClient()
        for name, value in metrics.items():
            client.log_metric(run_id, name, value)
        with tempfile.TemporaryDirectory() as folder:
            view.write_report(result, Path(folder))
            client.log_artifacts(run_id, folder, FOLDER)
        report = JsonEvaluationArtifact(uri=f"runs:/{run_id}/{FOLDER}/report.json", content=result.plain())
        return EvaluationResult(metrics, {"evenhand_report": report}, run_id)


def _audit(dataset: Any, model: Any, settings: dict[str, Any]) -> Any:
    import evenhand

    people = dataset.features_data
    if not hasattr(people, "columns"):
        raise OptionError(
            "expected features as a data frame, whose columns have names", hint="give mlflow a pandas data frame"
        )
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
        if value is not None:
            metrics[name] = float(value)
        for end in ("low", "high"):
            if getattr(number.quantity, end, None) is not None:
                metrics[f"{name}.{end}"] = float(getattr(number.quantity, end))
    return metrics
