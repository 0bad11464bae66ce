"""scikit-learn's trees, forests and boosted trees as white boxes."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive import cells as cell
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.readers.boosters import read_booster
from evenhand.models.readers.sklearn_tables import estimator_columns, transform_columns
from evenhand.models.trees.columns import category_codes, match_columns
from evenhand.models.trees.ensemble import ZERO_THRESHOLD, TreeEnsemble, build_ensemble, ensemble_labels
from evenhand.models.trees.nodes import DecisionTree, at_most_float32
from evenhand.schema.schema import Schema


def read_sklearn_trees(estimator: Any, schema: Schema, *, name: str | None = None) -> TreeEnsemble:
    """Turn a fitted tree classifier into a ``TreeEnsemble`` that gives the same probabilities and labels.

    DecisionTree-, ExtraTree-, RandomForest-, ExtraTrees-, GradientBoosting- and HistGradientBoostingClassifier, fitted
    on plain inputs (``schema.inputs``) or on a data frame of the same columns. All but the last compare
    ``float32(x) <= threshold``; the thresholds here are the float64 numbers that decide the same for every input.

    Args:
        estimator: fitted, and bare: no Pipeline.
        schema: what its individuals are.
        name: how to call it in a report, by default its type.

    Raises:
        NotAdditiveError: it is not one of these, or it computes with more than trees.
        ModelError: it is not fitted, or does not fit the schema.
    """
    name = name or type(estimator).__name__
    read = _choose_reader(estimator)
    if read is None:
        raise NotAdditiveError(
            f"a {type(estimator).__name__} is not a classifier of trees that can be read", location=name
        )
    if not hasattr(estimator, "classes_"):
        raise ModelError("the model is not fitted", location=name, hint="call fit first")
    if isinstance(estimator.classes_, list):
        raise ModelError("the model decides several things at once", location=name, hint="train one model for each")
    if len(estimator.classes_) < 2:
        raise ModelError(f"the model knows one label only: {estimator.classes_[0]!r}", location=name)
    return read(estimator, schema, name)


SMALLEST_BASE = float(np.finfo(np.float64).tiny)
"""A start above 0 that changes no sum of leaves but 0 itself."""

TreeReader: TypeAlias = Callable[[Any, Schema, str], TreeEnsemble]


def _choose_reader(estimator: Any) -> TreeReader | None:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
    )
    from sklearn.tree import DecisionTreeClassifier

    readers: tuple[tuple[tuple[type, ...], TreeReader], ...] = (
        ((DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier), _read_forest),
        ((GradientBoostingClassifier,), _read_boosting),
        ((HistGradientBoostingClassifier,), _read_histogram_boosting),
    )
    return next((read for kinds, read in readers if isinstance(estimator, kinds)), None)


def _read_forest(estimator: Any, schema: Schema, name: str) -> TreeEnsemble:
    """Return a tree's class frequencies, or their mean over a forest."""
    columns = _match_columns(estimator, schema, name)
    members = getattr(estimator, "estimators_", [estimator])
    ensemble = build_ensemble(
        schema,
        [read_tree(member.tree_, columns, output=0) for member in members],
        base=np.zeros(len(estimator.classes_)),
        link="frequency",
        answers=estimator.classes_,
        location=name,
        divisor=float(len(members)),
    )
    return dataclasses.replace(ensemble, takes_missing=_accepts_missing(estimator))


def _read_boosting(estimator: Any, schema: Schema, name: str) -> TreeEnsemble:
    """Return trees that add to log-odds, after a first guess that must be the same for everybody."""
    from sklearn.dummy import DummyClassifier

    start = estimator.init_
    constant = isinstance(start, DummyClassifier) and start.strategy != "stratified"
    if not constant and not (isinstance(start, str) and start == "zero"):
        raise NotAdditiveError(f"it starts from another model (init={start!r})", location=name)
    columns = _match_columns(estimator, schema, name)
    trees = []
    for stage in estimator.estimators_:
        for k, member in enumerate(stage):
            trees.append(read_tree(member.tree_, columns, output=k, scale=float(estimator.learning_rate)))
    outputs = estimator.estimators_.shape[1]
    base = np.ravel(estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_)))).astype(np.float64)
    if outputs == 1:
        # scikit-learn gives the second label at a sum of exactly 0, an ensemble only above it.
        base = np.maximum(base, SMALLEST_BASE) if base[0] == 0 else base
    ensemble = build_ensemble(
        schema,
        trees,
        base=base,
        link="logistic" if outputs == 1 else "softmax",
        answers=estimator.classes_,
        location=name,
        # Boosting by exponential loss halves the log-odds.
        steepness=2.0 if estimator.loss == "exponential" else 1.0,
    )
    return dataclasses.replace(ensemble, takes_missing=_accepts_missing(estimator))


def _read_histogram_boosting(estimator: Any, schema: Schema, name: str) -> TreeEnsemble:
    """Trees that add to log-odds; categories are numbered by an encoder of the model's own, which puts them first."""
    categorical = estimator.is_categorical_
    by_name = hasattr(estimator, "feature_names_in_")
    if categorical is None:
        return _histogram_ensemble(estimator, schema, _match_columns(estimator, schema, name), {}, name)
    named = np.flatnonzero(categorical).tolist() if by_name else []
    positions = _match_columns(estimator, schema, name, named)
    # The trees number the features as the encoder puts them out: the categorical ones first.
    order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
    columns = positions[order]
    listed = estimator._preprocessor.named_transformers_["encoder"].categories_
    codes = {
        i: category_codes(schema, int(columns[i]), _without_nan(categories), by_name=by_name, location=name)
        for i, categories in enumerate(listed)
    }
    return _histogram_ensemble(estimator, schema, columns, codes, name)


def _histogram_ensemble(
    estimator: Any, schema: Schema, columns: Integers, codes: dict[int, Integers], name: str
) -> TreeEnsemble:
    """Return the trees over these columns of the schema's inputs.

    Args:
        estimator: fitted.
        schema: what its individuals are.
        columns: the input column of each feature, in the order in which the trees number them.
        codes: of a feature with categories, the model's own code of each input number; by default that number.
        name: how to call it.
    """
    trees = [
        read_histogram_tree(predictor, columns, codes, k)
        for iteration in estimator._predictors
        for k, predictor in enumerate(iteration)
    ]
    base = np.ravel(estimator._baseline_prediction)
    return build_ensemble(
        schema,
        trees,
        base=base.astype(np.float64),
        link="logistic" if len(base) == 1 else "softmax",
        answers=estimator.classes_,
        location=name,
    )


def _match_columns(estimator: Any, schema: Schema, name: str, named_categories: list[int] | None = None) -> Integers:
    names = [str(column) for column in getattr(estimator, "feature_names_in_", [])]
    return match_columns(
        schema, int(estimator.n_features_in_), names, location=name, named_categories=named_categories or []
    )


def read_tree(inside: Any, columns: Integers, *, output: int, scale: float = 1.0) -> DecisionTree:
    """Return a tree of scikit-learn's own arrays: ``children_left`` is -1 at a leaf, ``value`` is (nodes, 1, width)."""
    check_time()
    left = np.asarray(inside.children_left, dtype=np.int64)
    leaf = left < 0
    return DecisionTree(
        output=output,
        feature=columns[np.where(leaf, 0, inside.feature)],
        threshold=at_most_float32(np.where(leaf, 0.0, inside.threshold)),
        left=left,
        right=np.asarray(inside.children_right, dtype=np.int64),
        default_left=np.asarray(inside.missing_go_to_left) != 0,
        values=scale * np.asarray(inside.value, dtype=np.float64)[:, 0, :],
    )


def read_histogram_tree(predictor: Any, columns: Integers, codes: dict[int, Integers], output: int) -> DecisionTree:
    """Return one tree of histogram boosting.

    Args:
        predictor: the tree, as scikit-learn holds it.
        columns: which column of the model's inputs each of its features is.
        codes: of categorical features, the model's own number of each category.
        output: which output it adds to.
    """
    nodes = predictor.nodes
    leaf = nodes["is_leaf"] != 0
    feature = nodes["feature_idx"].astype(np.int64)
    default_left = (nodes["missing_go_to_left"] != 0) & ~leaf
    left_categories = {}
    for node in np.flatnonzero((nodes["is_categorical"] != 0) & ~leaf):
        words = np.asarray(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]).astype(np.int64)
        bits = ((words[:, None] >> np.arange(32)) & 1).ravel() == 1
        known = codes.get(int(feature[node]), np.arange(len(bits)))
        # A category that the model has not met goes where a missing one goes.
        left_categories[int(node)] = np.flatnonzero(np.where(known >= 0, bits[known], default_left[node]))
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


def _without_nan(categories: Any) -> list[Any]:
    return [category for category in np.asarray(categories).tolist() if category is not None and category == category]


def _accepts_missing(estimator: Any) -> bool:
    """Return whether the model answers for somebody with nothing but missing values."""
    try:
        _ask_rows(estimator.predict_proba, np.full((1, estimator.n_features_in_), np.nan))
    except ValueError:
        return False
    return True


def _ask_rows(method: Callable[[Any], Any], rows: Floats) -> Floats:
    with warnings.catch_warnings():
        # The model may have been fitted to a data frame; the rows here are in the order of its columns.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(method(rows))


# Tree classifiers behind preprocessing that acts on one attribute at a time, as ensembles over the attributes.

MAX_FOLLOWED = 2**20
"""Values of a whole number that a curve bends, each of which is compared with the thresholds of trees."""

BOOSTERS = ("catboost", "lightgbm", "xgboost")
TREES = frozenset(
    {
        "DecisionTreeClassifier",
        "ExtraTreeClassifier",
        "RandomForestClassifier",
        "ExtraTreesClassifier",
        "GradientBoostingClassifier",
        "HistGradientBoostingClassifier",
    }
)
SAME_SCORE = 1e-5
"""Scores must be this close to the estimator's on people drawn from the domain; libraries add up in float32."""


def read_tree_pipeline(box: EstimatorModel) -> TreeEnsemble | None:
    """Return the trees of an estimator, alone, last in a ``Pipeline``, or found by a search; None if it has none.

    Raises:
        NotAdditiveError: a step before the trees mixes attributes, or is of an unknown kind.
        ModelError: the trees do not fit what is before them.
    """
    model = getattr(box.model, "best_estimator_", box.model)
    steps: list[tuple[str, Any]] = []
    while type(model).__name__ == "Pipeline":
        steps += model.steps[:-1]
        model = getattr(model.steps[-1][1], "best_estimator_", model.steps[-1][1])
    family = type(model).__module__.partition(".")[0]
    if family not in BOOSTERS and type(model).__name__ not in TREES:
        return None
    if not steps and box.form == "frame":
        cell.refuse_passthrough(estimator_columns(box))
    if not steps and box.form == "numbers":
        return _read_tree_model(model, box.schema)
    if not steps and box.form == "frame" and family != "sklearn":
        # The library's own categories are matched by their names.
        return _read_tree_model(model, box.schema)
    columns = estimator_columns(box)
    for name, step in steps:
        columns = transform_columns(step, columns, name, box.name)
    categorical = getattr(model, "is_categorical_", None)
    if categorical is not None:
        # An encoder of its own numbers the categories and puts them first.
        encoder = model._preprocessor.named_transformers_["encoder"]
        encoded = transform_columns(encoder, columns[categorical], "the model's encoder", box.name)
        columns = np.concatenate([encoded, columns[~categorical]])
    return _trees_over_columns(columns, model, box)


BENT = (
    "the trees compare a number that a curve bends (a logarithm, a power, quantiles): rounding of the curve "
    "leaves open on which side of a threshold some values are, unless they are whole numbers that can be tried one by "
    f"one, up to {MAX_FOLLOWED:,} of them"
)


def list_bent(columns: cell.Cells, trees: TreeEnsemble, schema: Schema, name: str) -> cell.Cells:
    """Return columns in which each curve of a whole number is listed: bins of values that no threshold tells apart.

    Args:
        columns: what the trees look at.
        trees: over plain columns.
        schema: of the attributes.
        name: how to call the model.

    Raises:
        NotAdditiveError: a number has fractions or too many values.
    """
    listed = columns.copy()
    for i, column in enumerate(columns):
        if not isinstance(column, cell.CurveCell):
            continue
        attribute = schema.attributes[column.attribute]
        if attribute.size is None or attribute.size > MAX_FOLLOWED:
            raise NotAdditiveError(BENT, location=name)
        entries = attribute.domain()
        values = cell.evaluate_cell(column, attribute, entries)
        nodes = trees.nodes
        asked = (nodes.feature == i) & (nodes.left >= 0)
        zero = [-ZERO_THRESHOLD, ZERO_THRESHOLD] if (nodes.zero_missing & asked).any() else []
        ends = np.sort(np.concatenate([nodes.threshold[asked], zero]))
        side = np.searchsorted(ends, values)
        if (nodes.set_start[asked] >= 0).any():
            raise NotAdditiveError(BENT, location=name)
        starts = np.flatnonzero(np.diff(side)) + 1
        listed[i] = (
            cell.ListedCell(column.attribute, values[np.concatenate([[0], starts])], entries[starts])
            if len(starts)
            else cell.ListedCell(None, values[:1])
        )
    return listed


def _trees_over_columns(columns: cell.Cells, model: Any, box: EstimatorModel) -> TreeEnsemble:
    """Return the trees over columns that are functions of one attribute each."""
    cell.refuse_passthrough(columns)
    for column in columns:
        if isinstance(column, cell.ListedCell) and column.values.dtype.kind not in "fiub":
            raise NotAdditiveError("the trees look at words", location=box.name)
    encoded = getattr(model, "is_categorical_", None) is not None
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    if len(names) != len(columns) or encoded:
        names = [f"f{i}" for i in range(len(columns))]
    target = box.schema.target.model_dump()
    attributes = [{"name": name, "kind": "real", "lower": 0, "upper": 1, "encoding": "value"} for name in names]
    taken = target["name"]
    while taken in names:
        taken += "_"
    plain = Schema.parse({"target": target | {"name": taken}, "attributes": attributes})
    if encoded:
        read = _histogram_ensemble(model, plain, np.arange(len(columns)), {}, box.name)
    else:
        read = _read_tree_model(model, plain)
    columns = list_bent(columns, read, box.schema, box.name)
    labels = ensemble_labels(box.schema, list(read.classes), location=box.name)
    trees = dataclasses.replace(
        read,
        schema=box.schema,
        columns=columns,
        classes=labels.classes,
        favourable=labels.favourable,
        takes_missing=False,
    )
    from evenhand.population.independent import uniform_population

    people = uniform_population(box.schema).sample(256, np.random.default_rng(0))
    if np.abs(trees.scores(people) - box.scores(people)).max() > SAME_SCORE:
        raise NotAdditiveError("read from the inside, it gives other scores than when asked", location=box.name)
    return trees


def _read_tree_model(model: Any, schema: Schema) -> TreeEnsemble:
    if type(model).__module__.partition(".")[0] in BOOSTERS:
        return read_booster(model, schema)
    return read_sklearn_trees(model, schema)
