"""scikit-learn's trees, forests and boosted trees as white boxes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.tree_columns import category_codes, match_columns
from evenhand.models.tree_nodes import Tree
from evenhand.models.tree_thresholds import at_most_float32
from evenhand.models.trees import TreeEnsemble, ensemble
from evenhand.schema import Schema

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


def from_sklearn_trees(estimator: Any, schema: Schema, *, name: str | None = None) -> TreeEnsemble:
    """Turn a fitted tree classifier into a ``TreeEnsemble`` that gives the same probabilities and labels.

    DecisionTree-, ExtraTree-, RandomForest-, ExtraTrees-, GradientBoosting- and HistGradientBoostingClassifier, fitted
    on plain inputs (``schema.inputs``) or on a data frame of the same columns. All but the last compare
    ``float32(x) <= threshold``; the thresholds here are the float64 numbers that decide the same for every input.

    Args:
        estimator: fitted, and bare: no Pipeline.
        schema: what its individuals are.
        name: how to call it in a report, by default its type.

    Raises:
        NotAdditiveError: it is none of these, or it computes with more than trees.
        ModelError: it is not fitted, or does not fit the schema.
    """
    name = name or type(estimator).__name__
    read = _reader(estimator)
    if read is None:
        raise NotAdditiveError(f"a {type(estimator).__name__} is no classifier of trees that can be read", where=name)
    if not hasattr(estimator, "classes_"):
        raise ModelError("the model is not fitted", where=name, mend="call fit first")
    if isinstance(estimator.classes_, list):
        raise ModelError("the model decides several things at once", where=name, mend="train one model for each")
    if len(estimator.classes_) < 2:
        raise ModelError(f"the model knows one label only: {estimator.classes_[0]!r}", where=name)
    return read(estimator, schema, name)


Reader: TypeAlias = Callable[[Any, Schema, str], TreeEnsemble]


def _reader(estimator: Any) -> Reader | None:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
    )
    from sklearn.tree import DecisionTreeClassifier

    readers: tuple[tuple[tuple[type, ...], Reader], ...] = (
        ((DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier), _averaged),
        ((GradientBoostingClassifier,), _boosted),
        ((HistGradientBoostingClassifier,), _histogram_boosted),
    )
    return next((read for kinds, read in readers if isinstance(estimator, kinds)), None)


def _averaged(estimator: Any, schema: Schema, name: str) -> TreeEnsemble:
    """A tree's class frequencies, or their mean over a forest."""
    columns = _columns(estimator, schema, name)
    members = getattr(estimator, "estimators_", [estimator])
    return ensemble(
        schema,
        [_tree(member.tree_, columns, output=0) for member in members],
        base=np.zeros(len(estimator.classes_)),
        link="frequency",
        answers=estimator.classes_,
        where=name,
        divisor=float(len(members)),
        takes_missing=_answers_missing(estimator),
    )


def _boosted(estimator: Any, schema: Schema, name: str) -> TreeEnsemble:
    """Trees that add to log-odds, after a first guess that must be the same for everybody."""
    from sklearn.dummy import DummyClassifier

    start = estimator.init_
    constant = isinstance(start, DummyClassifier) and start.strategy != "stratified"
    if not constant and not (isinstance(start, str) and start == "zero"):
        raise NotAdditiveError(f"it starts from another model (init={start!r})", where=name)
    columns = _columns(estimator, schema, name)
    trees = []
    for stage in estimator.estimators_:
        for k, member in enumerate(stage):
            trees.append(_tree(member.tree_, columns, output=k, scale=float(estimator.learning_rate)))
    outputs = estimator.estimators_.shape[1]
    anybody = np.zeros((1, estimator.n_features_in_))
    raw = np.ravel(_ask(estimator.decision_function, anybody))
    reached = [[float(member.predict(anybody)[0]) for member in stage] for stage in estimator.estimators_]
    return ensemble(
        schema,
        trees,
        base=raw - estimator.learning_rate * np.sum(reached, axis=0),
        link="logistic" if outputs == 1 else "softmax",
        answers=estimator.classes_,
        where=name,
        # Boosting by exponential loss halves the log-odds.
        steepness=2.0 if estimator.loss == "exponential" else 1.0,
        takes_missing=_answers_missing(estimator),
    )


def _histogram_boosted(estimator: Any, schema: Schema, name: str) -> TreeEnsemble:
    """Trees that add to log-odds; categories are numbered by an encoder of the model's own, which puts them first."""
    categorical = estimator.is_categorical_
    by_name = hasattr(estimator, "feature_names_in_")
    if categorical is None:
        columns, codes = _columns(estimator, schema, name), {}
    else:
        named = np.flatnonzero(categorical).tolist() if by_name else []
        positions = _columns(estimator, schema, name, named)
        order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
        columns = positions[order]
        listed = estimator._preprocessor.named_transformers_["encoder"].categories_
        codes = {
            i: category_codes(schema, int(columns[i]), _without_nan(categories), by_name=by_name, where=name)
            for i, categories in enumerate(listed)
        }
    trees = [
        _histogram_tree(predictor, columns, codes, k)
        for iteration in estimator._predictors
        for k, predictor in enumerate(iteration)
    ]
    base = np.ravel(estimator._baseline_prediction)
    return ensemble(
        schema,
        trees,
        base=base.astype(np.float64),
        link="logistic" if len(base) == 1 else "softmax",
        answers=estimator.classes_,
        where=name,
    )


def _columns(estimator: Any, schema: Schema, name: str, named_categories: list[int] | None = None) -> Integers:
    names = [str(column) for column in getattr(estimator, "feature_names_in_", [])]
    return match_columns(
        schema, int(estimator.n_features_in_), names, where=name, named_categories=named_categories or []
    )


def _tree(inside: Any, columns: Integers, *, output: int, scale: float = 1.0) -> Tree:
    """One tree in scikit-learn's own arrays: ``children_left`` is -1 at a leaf, ``value`` is (nodes, 1, width)."""
    left = np.asarray(inside.children_left, dtype=np.int64)
    leaf = left < 0
    return Tree(
        output=output,
        feature=columns[np.where(leaf, 0, inside.feature)],
        threshold=at_most_float32(np.where(leaf, 0.0, inside.threshold)),
        left=left,
        right=np.asarray(inside.children_right, dtype=np.int64),
        default_left=np.asarray(inside.missing_go_to_left) != 0,
        values=scale * np.asarray(inside.value, dtype=np.float64)[:, 0, :],
    )


def _histogram_tree(predictor: Any, columns: Integers, codes: dict[int, Integers], output: int) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"] != 0
    feature = nodes["feature_idx"].astype(np.int64)
    default_left = (nodes["missing_go_to_left"] != 0) & ~leaf
    left_categories = {}
    for node in np.flatnonzero((nodes["is_categorical"] != 0) & ~leaf):
        words = np.asarray(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]).astype(np.int64)
        bits = ((words[:, None] >> np.arange(32)) & 1).ravel() == 1
        known = codes[int(feature[node])]
        # A category that the model has not met goes where a missing one goes.
        left_categories[int(node)] = np.flatnonzero(np.where(known >= 0, bits[known], default_left[node]))
    return Tree(
        output=output,
        feature=columns[np.where(leaf, 0, feature)],
        threshold=nodes["num_threshold"].astype(np.float64),
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        default_left=default_left,
        values=nodes["value"].astype(np.float64)[:, None],
        left_categories=left_categories,
    )


def _without_nan(categories: Any) -> list[Any]:
    return [category for category in np.asarray(categories).tolist() if category is not None and category == category]


def _answers_missing(estimator: Any) -> bool:
    """Whether the model answers for somebody with nothing but missing values."""
    try:
        _ask(estimator.predict_proba, np.full((1, estimator.n_features_in_), np.nan))
    except ValueError:
        return False
    return True


def _ask(method: Callable[[Any], Any], rows: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(method(rows))
