"""How any model is trained again: by its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evenhand.errors import ModelError
from evenhand.mitigation.learners.learner import Learner
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.load import OBJECT_LOADERS, load_model, load_stored_object
from evenhand.models.scorer import Scorer
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble


def find_learner(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    trust: bool = False,
    fit: str | Callable[..., Any] | None = None,
    given: Scorer | None = None,
) -> Learner:
    """Return how a model is trained again.

    Scikit-learn estimators and what looks like them are refitted; dense networks (``.npz``, ``.h5``, ``.keras``) and
    PyTorch models are trained on from their weights; XGBoost and LightGBM models are retrained; for anything else
    (ONNX, a service, a function) somebody must say how: ``fit``.

    Args:
        source: as ``models.load`` takes it.
        schema: what its individuals are.
        like: the user's data, as a template for frames.
        trust: allow files that can run code when they are loaded.
        fit: the user's own training, a function or ``module:function``; whatever the model is, it is then used. It is
            called as ``fit(frame, labels)`` and gives a model.
        given: the same model where it is loaded already; what only answers is then not tried again.

    Raises:
        ModelError: it cannot be read, or only the user knows how it is trained.
        OptionError: ``fit`` is not a function.
        TrustError: loading it could run code, and it is not trusted.
        MissingExtraError: a library that it needs is not installed.
    """
    if fit is not None:
        from evenhand.mitigation.learners.function import FunctionLearner

        return FunctionLearner.of(fit, schema, like=like)
    path = Path(source) if isinstance(source, str | Path) and Path(source).is_file() else None
    ending = "" if path is None else path.suffix.lower()
    if path is not None and ending in OBJECT_LOADERS:
        source = load_stored_object(path, trust=trust)
    if given is None:
        given = load_model(source, schema, like=like, trust=trust, name=None if path is None else path.name)
    learner = _learner_of_kind(source, given, path, ending)
    if learner is None:
        raise ModelError(
            "nothing but its answers is known of this model, so that it cannot be trained again",
            location=given.name,
            hint="say how it is trained: `fit=module:function`, called as fit(frame, labels)",
        )
    return learner


def _learner_of_kind(source: Any, given: Scorer, path: Path | None, ending: str) -> Learner | None:
    """Return the learner of a loaded model; None if it is not known how to train it."""
    if isinstance(given, EstimatorModel):
        from evenhand.mitigation.learners.estimator import EstimatorLearner

        return EstimatorLearner(given, ending)
    if isinstance(given, AdditiveNetwork) and path is not None and ending in (".h5", ".keras"):
        from evenhand.mitigation.learners.keras_dense import KerasLearner

        return KerasLearner.of(path, given)
    if isinstance(given, AdditiveNetwork):
        from evenhand.mitigation.learners.dense import DenseLearner

        return DenseLearner.of(given)
    if isinstance(given, TorchModule):
        from evenhand.mitigation.learners.module import ModuleLearner

        return ModuleLearner(given, ending)
    if type(given).__name__ == "TreeEnsemble":
        from evenhand.mitigation.learners.boosting import LIBRARIES, BoosterLearner

        trees = cast("TreeEnsemble", given)
        # CatBoost's JSON ends like XGBoost's, the only library of these that adds up in float32.
        if path is not None and ending in LIBRARIES and trees.single == (LIBRARIES[ending] == "xgboost"):
            return BoosterLearner.of_file(path, trees)
        if hasattr(source, "save_raw") or hasattr(source, "model_to_string"):
            return BoosterLearner.of_booster(source, trees)
    return None
