"""Choice of the learner of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenhand.errors import ModelError
from evenhand.mitigation.learners.learner import Learner
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.load import OBJECT_LOADERS, load_model, load_stored_object
from evenhand.models.scorer import Scorer
from evenhand.schema.schema import Schema


def find_learner(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    trust: bool = False,
    fit: str | Callable[..., Any] | None = None,
    given: Scorer | None = None,
) -> Learner:
    """Find the learner of a model.

    Scikit-learn estimators and compatible classes, such as the classifiers of XGBoost and LightGBM, are refitted. Dense
    networks (``.npz``, ``.h5``, ``.keras``) continue from their weights. All other models need ``fit``.

    Args:
        source: Model, as for ``models.load``.
        schema: Data schema.
        like: The user's data, a template for data frames.
        trust: Whether to load files that can run code.
        fit: Training function, or ``module:function``, called as ``fit(frame, labels)``. It returns a model. If set, it
            is used for every kind of model.
        given: The same model, if it is already loaded.

    Raises:
        ModelError: The model cannot be read, or needs ``fit``.
        OptionError: ``fit`` is not a function.
        TrustError: Loading the model can run code, and it is not trusted.
        MissingExtraError: A library is not installed.
    """
    if fit is not None:
        from evenhand.mitigation.learners.function import FunctionLearner

        return FunctionLearner.of(fit, schema, like=like)
    path = Path(source) if isinstance(source, str | Path) and Path(source).is_file() else None
    ending = "" if path is None else path.suffix.lower()
    if path is not None and ending in OBJECT_LOADERS:
        source = load_stored_object(path, trust=trust)
    model = given or load_model(source, schema, like=like, trust=trust, name=None if path is None else path.name)
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
