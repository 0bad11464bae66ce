"""XGBoost, LightGBM and CatBoost models in memory as tree ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.errors import ModelError
from evenhand.models.readers.catboost_file import parse_catboost_object
from evenhand.models.readers.lightgbm_file import parse_lightgbm
from evenhand.models.readers.xgboost_file import parse_xgboost
from evenhand.models.trees.ensemble import TreeEnsemble
from evenhand.schema.schema import Schema


def booster_library(model: Any) -> str | None:
    """Determine the boosting library of a model. None for any other model."""
    library = type(model).__module__.partition(".")[0]
    return library if library in ("catboost", "lightgbm", "xgboost") else None


def read_booster(model: Any, schema: Schema) -> TreeEnsemble:
    """Convert a fitted booster, classifier or regressor through the file format of its library.

    Args:
        model: ``xgboost.Booster``, ``XGBClassifier``, ``lightgbm.Booster``, ``LGBMClassifier``,
            ``CatBoostClassifier`` or similar.
        schema: Schema of the inputs.

    Raises:
        ModelError: the model is from another library, is not fitted, or does not fit the schema.
    """
    name = type(model).__name__
    library = booster_library(model)
    if library == "xgboost":
        marker = getattr(model, "missing", None)
        if isinstance(marker, int | float) and not np.isnan(marker):
            raise ModelError(
                f"the model treats the number {marker:g} as missing, which its trees do not record",
                location=name,
                hint="train it with missing=nan",
            )
        booster = _fitted_booster(model, "get_booster", "save_raw", name)
        return parse_xgboost(bytes(booster.save_raw("json")), schema, location=name, stop_early=booster is not model)
    if library == "lightgbm":
        answers = getattr(model, "classes_", None)
        text = _fitted_booster(model, "booster_", "model_to_string", name).model_to_string()
        return parse_lightgbm(
            text, schema, location=name, answers=None if answers is None else np.asarray(answers).tolist()
        )
    if library == "catboost":
        if not model.is_fitted():
            raise ModelError("the model is not fitted", location=name, hint="call fit before passing the model")
        return parse_catboost_object(model, schema, location=name)
    raise ModelError(f"a {name} is not an XGBoost, LightGBM or CatBoost model", location=name)


def _fitted_booster(model: Any, attribute: str, method: str, name: str) -> Any:
    """Extract the booster of an estimator. A booster is returned unchanged."""
    try:
        inside = getattr(model, attribute, None)
        booster = model if inside is None else inside() if callable(inside) else inside
    except ValueError:  # both libraries derive their errors about unfitted models from it
        booster = None
    if not hasattr(booster, method):
        raise ModelError("the model is not fitted", location=name, hint="call fit before passing the model")
    return booster
