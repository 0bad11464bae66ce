"""How any model is trained again: by its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evenhand.errors import ModelError
from evenhand.mitigate.learners.learner import Learner
from evenhand.models import AdditiveNetwork, load
from evenhand.models.estimator import Estimator
from evenhand.models.load import STORED, stored_object
from evenhand.models.scorer import Scorer
from evenhand.models.torch_module import TorchModule
from evenhand.schema import Schema

if TYPE_CHECKING:
    from evenhand.models import TreeEnsemble


def learner_of(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    trust: bool = False,
    fit: str | Callable[..., Any] | None = None,
) -> Learner:
    """How a model is trained again.

    Scikit-learn estimators and what looks like them are fitted anew; dense networks (``.npz``, ``.h5``, ``.keras``) and
    PyTorch models are trained on from their weights; XGBoost and LightGBM models are grown anew; for anything else
    (ONNX, a service, a function) somebody must say how: ``fit``.

    Args:
        source: as ``models.load`` takes it.
        schema: what its individuals are.
        like: the user's data, as a template for frames.
        trust: allow files that can run code when they are loaded.
        fit: the user's own training, a function or ``module:function``; whatever the model is, it is then used. It is
            called as ``fit(frame, labels)`` and gives a model.

    Raises:
        ModelError: it cannot be read, or nobody but the user knows how it is trained.
        OptionError: ``fit`` is no function.
        TrustError: loading it could run code, and it is not trusted.
        MissingExtraError: a library that it needs is not installed.
    """
    if fit is not None:
        from evenhand.mitigate.learners.function import FunctionLearner

        return FunctionLearner.of(fit, schema, like=like)
    path = Path(source) if isinstance(source, str | Path) and Path(source).is_file() else None
    ending = "" if path is None else path.suffix.lower()
    if path is not None and ending in STORED:
        source = stored_object(path, trust=trust)
    given = load(source, schema, like=like, trust=trust, name=None if path is None else path.name)
    learner = _learner(source, given, path, ending)
    if learner is None:
        raise ModelError(
            "nothing but its answers is known of this model, so that it cannot be trained again",
            where=given.name,
            mend="say how it is trained: --fit module:function (in Python: fit=function), called as fit(frame, labels)",
        )
    return learner


def _learner(source: Any, given: Scorer, path: Path | None, ending: str) -> Learner | None:
    """The learner of a loaded model; None where nobody knows how it is trained."""
    if isinstance(given, Estimator):
        from evenhand.mitigate.learners.estimator import EstimatorLearner

        return EstimatorLearner(given, ending)
    if isinstance(given, AdditiveNetwork) and path is not None and ending in (".h5", ".keras"):
        from evenhand.mitigate.learners.keras_dense import KerasLearner

        return KerasLearner.of(path, given)
    if isinstance(given, AdditiveNetwork):
        from evenhand.mitigate.learners.dense import DenseLearner

        return DenseLearner.of(given)
    if isinstance(given, TorchModule):
        from evenhand.mitigate.learners.module import ModuleLearner

        return ModuleLearner(given, ending)
    if type(given).__name__ == "TreeEnsemble":
        from evenhand.mitigate.learners.boosting import LIBRARIES, BoosterLearner

        trees = cast("TreeEnsemble", given)
        if path is not None and ending in LIBRARIES:
            return BoosterLearner.of_file(path, trees)
        if hasattr(source, "save_raw") or hasattr(source, "model_to_string"):
            return BoosterLearner.of_booster(source, trees)
    return None
