"""Column types of a fitted estimator, inferred from its encoders, imputers and numeric steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from evenhand.models.column_types import ColumnInput
from evenhand.schema.table import is_missing


class Columns(NamedTuple):
    """Columns of an intermediate table in an estimator.

    Attributes:
        names: Unchanged input column at each position; None for an encoded column.
        aligned: Whether there is one name per column. Otherwise only unchanged input columns are listed.
    """

    names: list[str | None]
    aligned: bool


NUMBER = ColumnInput("numbers", missing=True)

UNDECIDED = frozenset(
    {
        "ColumnTransformer",
        "CountVectorizer",
        "DictVectorizer",
        "DummyClassifier",
        "DummyRegressor",
        "FeatureHasher",
        "FunctionTransformer",
        "HashingVectorizer",
        "TfidfVectorizer",
    }
)
"""Scikit-learn steps that accept any type."""

INNER_ESTIMATORS = (
    "best_estimator_",
    "estimator_",
    "regressor_",
    "estimators_",
    "calibrated_classifiers_",
    "predictors_",
    "estimator",
)
"""Attributes that hold a nested estimator."""


def learnt_inputs(model: Any, columns: Sequence[str]) -> dict[str, ColumnInput]:
    """Find the columns whose types a fitted estimator declares.

    Args:
        model: The fitted estimator.
        columns: The columns that it was fitted on, in order.
    """
    walk = _Walk()
    walk.visit(model, Columns(list(columns), aligned=True))
    return walk.inputs


@dataclass
class _Walk:
    """Traversal of the steps of a fitted estimator.

    Attributes:
        inputs: Declared types by column.
        imputed: Columns whose missing values are replaced.
    """

    inputs: dict[str, ColumnInput] = field(default_factory=dict)
    imputed: set[str | None] = field(default_factory=set)

    def visit(self, step: Any, columns: Columns) -> Columns:
        """Visit a step with its input columns and return its output columns."""
        if step is None or isinstance(step, str):
            return Columns([], aligned=True) if step == "drop" else columns
        kind, library = type(step).__name__, type(step).__module__.partition(".")[0]
        if getattr(step, "categories_", None) is not None:
            return self._visit_encoder(step, columns)
        if library == "catboost" and step.is_fitted():
            return self._visit_catboost(step, columns)
        if library in ("lightgbm", "xgboost") and hasattr(step, "n_features_in_"):
            return self._visit_booster(step, columns)
        if kind == "Pipeline":
            for _, inner in step.steps:
                columns = self.visit(inner, columns)
            return columns
        if kind == "ColumnTransformer" and hasattr(step, "_transformer_to_input_indices"):
            return self._visit_column_transformer(step, columns)
        if kind == "FeatureUnion":
            return _side_by_side([self.visit(inner, columns) for _, inner in step.transformer_list])
        if (
            kind == "SimpleImputer"
            and hasattr(step, "statistics_")
            and np.asarray(step.statistics_).dtype.kind not in "fiu"
        ):
            self.imputed |= set(columns.names)
            aligned = columns.aligned and len(step.statistics_) == len(columns.names) and not step.add_indicator
            return Columns(columns.names, aligned)
        if kind == "FunctionTransformer" and step.func is None:
            return columns
        if getattr(step, "_preprocessor", None) is not None:  # gradient boosting with categories
            self.visit(step._preprocessor, columns)
        elif (inner := _inner_estimator(step)) is not None:
            width = getattr(inner, "n_features_in_", len(columns.names))
            return self.visit(inner, Columns(columns.names[:width], columns.aligned))
        if library == "sklearn" and kind not in UNDECIDED:
            self._state(columns, [NUMBER] * len(columns.names))
        return Columns([], aligned=False)

    def _state(self, columns: Columns, inputs: Sequence[ColumnInput | None]) -> None:
        for name, column in zip(columns.names, inputs, strict=True):
            if name is not None and column is not None:
                self.inputs.setdefault(name, column)

    def _visit_column_transformer(self, step: Any, columns: Columns) -> Columns:
        if not columns.aligned:
            return Columns([], aligned=False)
        # Columns can be specified in several ways. These are the columns as scikit-learn resolved them during ``fit``.
        places = step._transformer_to_input_indices
        return _side_by_side(
            [
                self.visit(inner, Columns([columns.names[i] for i in places.get(name, ())], aligned=True))
                for name, inner, _ in step.transformers_
            ]
        )

    def _visit_encoder(self, step: Any, columns: Columns) -> Columns:
        if columns.aligned and len(step.categories_) == len(columns.names):
            learnt = [_classify(np.asarray(values, dtype=object).tolist()) for values in step.categories_]
            self._state(
                columns,
                [
                    replace(column, missing=column.missing or name in self.imputed) if column else None
                    for name, column in zip(columns.names, learnt, strict=True)
                ],
            )
        one_each = type(step).__name__ == "OrdinalEncoder" and columns.aligned
        return Columns([None] * len(columns.names), one_each)

    def _visit_catboost(self, step: Any, columns: Columns) -> Columns:
        words = {*step.get_cat_feature_indices(), *step.get_text_feature_indices()}
        self._state(columns, [ColumnInput("words") if i in words else NUMBER for i in range(len(columns.names))])
        return Columns([], aligned=False)

    def _visit_booster(self, step: Any, columns: Columns) -> Columns:
        if hasattr(step, "booster_"):
            lists = step.booster_.pandas_categorical or []
            places = step.booster_.params.get("categorical_column") or []
            categories = dict(zip(places, lists, strict=True)) if len(places) == len(lists) else {}
        else:
            categories = _xgboost_categories(step)
        learnt = {i: ColumnInput("categories", tuple(values), missing=True) for i, values in categories.items()}
        self._state(columns, [learnt.get(i, NUMBER) for i in range(len(columns.names))])
        return Columns([], aligned=False)


def _side_by_side(parts: Sequence[Columns]) -> Columns:
    return Columns([name for part in parts for name in part.names], all(part.aligned for part in parts))


def _inner_estimator(step: Any) -> Any:
    """Find the first nested estimator, or None."""
    for attribute in INNER_ESTIMATORS:
        inner = getattr(step, attribute, None)
        estimator = next(iter(inner), None) if isinstance(inner, list | tuple) else inner
        if attribute == "calibrated_classifiers_":
            estimator = getattr(estimator, "estimator", None)
        if hasattr(estimator, "get_params"):
            return estimator
    return None


def _classify(values: Sequence[Any]) -> ColumnInput | None:
    """Determine the type of an encoder's categories. None for mixed types."""
    present = tuple(value for value in values if not is_missing(value))
    missing = len(present) < len(values)
    if all(isinstance(value, str) for value in present):
        return ColumnInput("words", present, missing) if present else None
    if all(isinstance(value, bool) for value in present):
        return ColumnInput("booleans", present, missing)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return ColumnInput("numbers", present, missing)
    return None


def _xgboost_categories(model: Any) -> dict[int, list[Any]]:
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    types = booster.feature_types or []
    if "c" not in types or not hasattr(booster, "get_categories"):
        return {}
    learnt = booster.get_categories(export_to_arrow=True).to_arrow()
    return {i: values.to_pylist() for i, (_, values) in enumerate(learnt) if values is not None}
