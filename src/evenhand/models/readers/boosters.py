"""Boosted trees in memory, read through the file format of the library that grew them."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.errors import ModelError
from evenhand.models.readers.catboost_file import parse_catboost_object
from evenhand.models.readers.lightgbm_file import parse_lightgbm
from evenhand.models.readers.xgboost_file import parse_xgboost
from evenhand.models.trees.ensemble import TreeEnsemble
from evenhand.schema.schema import Schema


def read_booster(model: Any, schema: Schema) -> TreeEnsemble:
    """Return an XGBoost, LightGBM or CatBoost model in memory, booster or classifier, through its own file format.

    None of these libraries is imported here: such a model exists only after its library was imported.

    Args:
        model: ``xgboost.Booster``, ``XGBClassifier``, ``lightgbm.Booster``, ``LGBMClassifier``,
            ``CatBoostClassifier`` or the like.
        schema: what its individuals are.

    Raises:
        ModelError: it is no such model, is not fitted, or does not fit the schema.
    """
    name = type(model).__name__
    family = type(model).__module__.partition(".")[0]
    if hasattr(model, "get_booster") or hasattr(model, "save_raw"):
        _refuse_marker(model, name)
        booster = _fitted_booster(model, "get_booster", "save_raw", name)
        return parse_xgboost(bytes(booster.save_raw("ubj")), schema, location=name, stop_early=booster is not model)
    if hasattr(model, "model_to_string") or hasattr(model, "booster_") or family == "lightgbm":
        answers = getattr(model, "classes_", None)
        text = _fitted_booster(model, "booster_", "model_to_string", name).model_to_string()
        return parse_lightgbm(text, schema, location=name, answers=None if answers is None else list(answers))
    if family == "catboost" and hasattr(model, "save_model"):
        if not model.is_fitted():
            raise ModelError("the model is not fitted", location=name, hint="call fit first")
        return parse_catboost_object(model, schema, location=name)
    raise ModelError(f"a {name} is not a model of XGBoost, LightGBM or CatBoost", location=name)


def _fitted_booster(model: Any, attribute: str, method: str, name: str) -> Any:
    """Return the booster inside a classifier; a booster itself."""
    try:
        inside = getattr(model, attribute, None)
        booster = model if inside is None else inside() if callable(inside) else inside
    except ValueError:  # both libraries derive their own "not fitted" from it
        booster = None
    if not hasattr(booster, method):
        raise ModelError("the model is not fitted", location=name, hint="call fit first")
    return booster


def _refuse_marker(model: Any, name: str) -> None:
    marker = getattr(model, "missing", None)
    if isinstance(marker, int | float) and not np.isnan(marker):
        raise ModelError(
            f"the model takes the number {marker:g} for a missing value, which is not part of its trees",
            location=name,
            hint="train it with missing=nan",
        )
