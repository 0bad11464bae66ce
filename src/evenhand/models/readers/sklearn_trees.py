"""Scikit-learn decision trees, forests and boosted trees as tree ensembles."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.trees.columns import category_codes, match_columns
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree, at_most_float32
from evenhand.schema.schema import Schema

TreeFamily: TypeAlias = Literal["forest", "gradient boosting", "histogram boosting"]

IDENTITY_LOSSES = frozenset({"squared_error", "absolute_error", "huber", "quantile"})
"""Losses for which a boosted regressor predicts the sum of its trees rather than its exponential."""

SMALLEST_BASE = float(np.finfo(np.float64).tiny)
"""Positive base value that changes only sums equal to 0."""


@cache
def _tree_families() -> dict[type, TreeFamily]:
    from sklearn import ensemble, tree

    return {
        tree.DecisionTreeClassifier: "forest",
        tree.DecisionTreeRegressor: "forest",
        tree.ExtraTreeClassifier: "forest",
        tree.ExtraTreeRegressor: "forest",
        ensemble.ExtraTreesClassifier: "forest",
        ensemble.ExtraTreesRegressor: "forest",
        ensemble.RandomForestClassifier: "forest",
        ensemble.RandomForestRegressor: "forest",
        ensemble.GradientBoostingClassifier: "gradient boosting",
        ensemble.GradientBoostingRegressor: "gradient boosting",
        ensemble.HistGradientBoostingClassifier: "histogram boosting",
        ensemble.HistGradientBoostingRegressor: "histogram boosting",
    }


def tree_family(model: Any) -> TreeFamily | None:
    """Determine the family of a scikit-learn tree model. None for a subclass, which may predict differently."""
    return _tree_families().get(type(model))


def read_sklearn_trees(estimator: Any, schema: Schema, *, encoded: bool = False) -> TreeEnsemble:
    """Convert a fitted tree model to an ensemble with the same predictions. All but histogram boosting compare
    ``float32(x) <= threshold``. The ensemble's float64 thresholds select the same branch for every input.

    Args:
        estimator: Decision tree, forest or boosted trees, fitted on ``schema.inputs`` or a data frame of the same
            columns.
        schema: Schema of the inputs.
        encoded: Whether the columns are outputs of histogram boosting's category encoder.

    Raises:
        NotAdditiveError: the estimator has another type, or its boosting starts from another model.
        ModelError: the estimator is not fitted or does not fit the schema.
    """
    from sklearn.base import is_regressor

    name = type(estimator).__name__
    number = schema.target.is_number
    family = tree_family(estimator)
    if family is None or is_regressor(estimator) != number:
        raise NotAdditiveError(
            f"a {type(estimator).__name__} is not a {'regressor' if number else 'classifier'} of trees",
            location=name,
        )
    if not hasattr(estimator, "n_features_in_"):
        raise ModelError("the model is not fitted", location=name, hint="call fit before passing the model")
    if getattr(estimator, "n_outputs_", 1) > 1:
        raise ModelError("the model predicts several targets", location=name, hint="train one model per target")
    classes: Sequence[Any] = () if number else estimator.classes_
    if len(classes) == 1:
        raise ModelError(f"the model has a single label: {classes[0]!r}", location=name)
    if family == "histogram boosting":
        trees, base = _read_histogram_boosting(estimator, schema, name, encoded)
    elif family == "gradient boosting":
        trees, base = _read_gradient_boosting(estimator, _match_columns(estimator, schema, name), name)
    else:
        columns = _match_columns(estimator, schema, name)
        trees = [_read_tree(member.tree_, columns) for member in getattr(estimator, "estimators_", [estimator])]
        base = np.zeros(trees[0].values.shape[1])
    boosted = family != "forest"
    link: Link = "logistic" if len(base) == 1 else "softmax"
    if number or not boosted:
        link = "identity" if number else "frequency"
    ensemble = build_ensemble(
        schema,
        trees,
        base=base,
        link=link,
        answers=classes,
        location=name,
        divisor=1.0 if boosted else float(len(trees)),
        # Boosting with exponential loss yields half the log-odds.
        steepness=2.0 if getattr(estimator, "loss", None) == "exponential" else 1.0,
    )
    takes_missing = True
    if family != "histogram boosting":
        try:
            with warnings.catch_warnings():
                # The model may have been fitted on a data frame.
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                estimator.predict(np.full((1, estimator.n_features_in_), np.nan))
        except ValueError:
            takes_missing = False
    return dataclasses.replace(ensemble, takes_missing=takes_missing)


def _read_gradient_boosting(estimator: Any, columns: Integers, name: str) -> tuple[list[DecisionTree], Floats]:
    """Read the trees and their base value."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    start = estimator.init_
    constant = isinstance(start, DummyRegressor) or (
        isinstance(start, DummyClassifier) and start.strategy != "stratified"
    )
    if not constant and not (isinstance(start, str) and start == "zero"):
        raise NotAdditiveError(f"boosting starts from another model (init={start!r})", location=name)
    trees = [
        _read_tree(member.tree_, columns, output=output, scale=float(estimator.learning_rate))
        for stage in estimator.estimators_
        for output, member in enumerate(stage)
    ]
    base = np.ravel(estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_)))).astype(np.float64)
    if hasattr(estimator, "classes_") and base.tolist() == [0.0]:
        # scikit-learn predicts the second label for a sum of exactly 0, an ensemble only above 0.
        base = np.array([SMALLEST_BASE])
    return trees, base


def _read_histogram_boosting(
    estimator: Any, schema: Schema, name: str, encoded: bool
) -> tuple[list[DecisionTree], Floats]:
    """Read the trees of histogram boosting, whose encoder puts categorical columns first."""
    if not hasattr(estimator, "classes_") and estimator.loss not in IDENTITY_LOSSES:
        raise NotAdditiveError(
            f"the trees do not sum to the prediction with the loss {estimator.loss!r}", location=name
        )
    categorical = estimator.is_categorical_
    codes: dict[int, Integers] = {}
    if encoded:
        columns = np.arange(schema.width)
    elif categorical is None:
        columns = _match_columns(estimator, schema, name)
    else:
        by_name = hasattr(estimator, "feature_names_in_")
        positions = _match_columns(estimator, schema, name, np.flatnonzero(categorical).tolist() if by_name else [])
        columns = np.concatenate([positions[categorical], positions[~categorical]])
        for i, categories in enumerate(estimator._preprocessor.named_transformers_["encoder"].categories_):
            present = [category for category in categories.tolist() if category is not None and category == category]
            codes[i] = category_codes(schema, int(columns[i]), present, by_name=by_name, location=name)
    trees = [
        _read_histogram_tree(predictor, columns, codes, output)
        for iteration in estimator._predictors
        for output, predictor in enumerate(iteration)
    ]
    return trees, np.ravel(estimator._baseline_prediction).astype(np.float64)


def _match_columns(estimator: Any, schema: Schema, name: str, named_categories: list[int] | None = None) -> Integers:
    names = [str(column) for column in getattr(estimator, "feature_names_in_", [])]
    return match_columns(
        schema, int(estimator.n_features_in_), names, location=name, named_categories=named_categories or []
    )


def _read_tree(tree: Any, columns: Integers, *, output: int = 0, scale: float = 1.0) -> DecisionTree:
    """Convert the arrays of a ``sklearn.tree`` tree: ``children_left`` is -1 at a leaf, ``value`` is (nodes, 1, k)."""
    check_time()
    left = np.asarray(tree.children_left, dtype=np.int64)
    leaf = left < 0
    return DecisionTree(
        output=output,
        feature=columns[np.where(leaf, 0, tree.feature)],
        threshold=at_most_float32(np.where(leaf, 0.0, tree.threshold)),
        left=left,
        right=np.asarray(tree.children_right, dtype=np.int64),
        default_left=np.asarray(tree.missing_go_to_left) != 0,
        values=scale * np.asarray(tree.value, dtype=np.float64)[:, 0, :],
    )


def _read_histogram_tree(predictor: Any, columns: Integers, codes: dict[int, Integers], output: int) -> DecisionTree:
    """Convert one tree of histogram boosting.

    Args:
        predictor: scikit-learn's tree.
        columns: Input column of each feature.
        codes: For categorical features, the model's code for each input value. Default: that value.
        output: Output that the tree adds to.
    """
    nodes = predictor.nodes
    leaf = nodes["is_leaf"] != 0
    feature = nodes["feature_idx"].astype(np.int64)
    default_left = (nodes["missing_go_to_left"] != 0) & ~leaf
    left_categories = {}
    for node in np.flatnonzero((nodes["is_categorical"] != 0) & ~leaf):
        words = np.asarray(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]).astype(np.int64)
        bits = ((words[:, None] >> np.arange(32)) & 1).ravel() == 1
        node_codes = codes.get(int(feature[node]), np.arange(len(bits)))
        # A category absent from training follows the branch of missing values.
        left_categories[int(node)] = np.flatnonzero(np.where(node_codes >= 0, bits[node_codes], default_left[node]))
    return DecisionTree(
        output=output,
        feature=columns[np.where(leaf, 0, feature)],
        threshold=nodes["num_threshold"].astype(np.float64),
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        default_left=default_left,
        values=nodes["value"].astype(np.float64)[:, None],
        left_categories=left_categories,
    )
