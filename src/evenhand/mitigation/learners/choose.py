"""Choice of the learner of a model."""

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
    """Find the learner of a model.

    Scikit-learn estimators and compatible classes are refitted. Dense networks (``.npz``, ``.h5``, ``.keras``) and
    PyTorch models continue from their weights. XGBoost and LightGBM models are retrained. All other models (ONNX, a
    service, a function) need ``fit``.

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
    if isinstance(model, TorchModule):
        from evenhand.mitigation.learners.module import ModuleLearner

        return ModuleLearner(model, ending)
    if type(model).__name__ == "TreeEnsemble":
        from evenhand.mitigation.learners.boosting import LIBRARIES, BoosterLearner

        trees = cast("TreeEnsemble", model)
        # CatBoost and XGBoost use the same file extension for JSON, but only XGBoost sums in float32.
        if path is not None and ending in LIBRARIES and trees.single == (LIBRARIES[ending] == "xgboost"):
            return BoosterLearner.of_file(path, trees)
        if hasattr(source, "save_raw") or hasattr(source, "model_to_string"):
            return BoosterLearner.of_booster(source, trees)
    raise ModelError(
        "this model cannot be trained again, since only its answers are known",
        location=model.name,
        hint="name its training function: `fit=module:function`, called as fit(frame, labels)",
    )
