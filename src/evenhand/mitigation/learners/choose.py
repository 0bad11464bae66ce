"""Choice of the learner of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenhand.errors import ModelError
from evenhand.mitigation.learners.learner import Learner
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.scorer import Scorer


def find_learner(
    model: Scorer, *, like: Any = None, fit: str | Callable[..., Any] | None = None, ending: str = ""
) -> Learner:
    """Find the learner of a model.

    Scikit-learn estimators and compatible classes, such as the classifiers of XGBoost and LightGBM, are refitted. Dense
    networks (``.npz``, ``.h5``, ``.keras``) continue from their weights. All other models need ``fit``.

    Args:
        model: Model.
        like: The user's data, a template for data frames.
        fit: Training function, or ``module:function``, called as ``fit(frame, labels)``. It returns a model. If set, it
            is used for every kind of model.
        ending: Extension of the model's file, which is preferred for new files.

    Raises:
        ModelError: The model needs ``fit``.
        OptionError: ``fit`` is not a function.
    """
    if fit is not None:
        from evenhand.mitigation.learners.function import FunctionLearner

        return FunctionLearner.of(fit, model.schema, like=like)
    if isinstance(model, EstimatorModel):
        from evenhand.mitigation.learners.estimator import EstimatorLearner

        return EstimatorLearner(model, ending)
    if isinstance(model, AdditiveNetwork):
        from evenhand.mitigation.learners.dense import DenseLearner

        return DenseLearner.of(model)
    raise ModelError(
        "this model cannot be trained again: it is neither an estimator nor a dense network",
        location=model.name,
        hint="name its training function: `fit=module:function`, called as fit(frame, labels)",
    )
