"""Regressors of scikit-learn, XGBoost and LightGBM as white boxes that give the same numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.additive import cells as cell
from evenhand.models.additive import linear as lin
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.number_model import NumberModel
from evenhand.models.readers.boosters import read_booster
from evenhand.models.readers.reading import BLACK_BOX_HINT, locate_errors
from evenhand.models.readers.sklearn_tables import estimator_columns, perceptron_outputs, transform_columns
from evenhand.models.readers.sklearn_trees import list_bent, read_histogram_tree, read_tree
from evenhand.models.trees.ensemble import TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree
from evenhand.population.independent import uniform_population
from evenhand.schema.schema import Schema

LINEAR = frozenset(
    {
        "ARDRegression",
        "BayesianRidge",
        "ElasticNet",
        "ElasticNetCV",
        "HuberRegressor",
        "Lars",
        "Lasso",
        "LassoCV",
        "LassoLars",
        "LinearRegression",
        "LinearSVR",
        "QuantileRegressor",
        "Ridge",
        "RidgeCV",
        "SGDRegressor",
        "TheilSenRegressor",
    }
)
FORESTS = frozenset({"DecisionTreeRegressor", "ExtraTreeRegressor", "ExtraTreesRegressor", "RandomForestRegressor"})
IDENTITY_LOSSES = frozenset({"squared_error", "absolute_error", "huber", "quantile"})
"""Losses of boosting whose trees add up to the number itself, not to its logarithm."""
ALIKE = 1e-5
"""Distance between numbers of the white box and of the model, in units of their size; XGBoost adds in float32."""


def read_regressor(box: NumberModel) -> AdditiveNetwork | TreeEnsemble:
    """Read a fitted regressor that is a black box already, alone, last in a ``Pipeline``, or found by a search.

    A linear model or an ``MLPRegressor`` (relu or identity) becomes a network; a decision tree, a random forest, extra
    trees, gradient boosting, XGBoost or LightGBM an ensemble. Steps before it must act on one column at a time.

    Raises:
        NotAdditiveError: it is of another kind, or a step mixes attributes.
        ModelError: it does not fit what is before it.
    """
    model = _found_model(getattr(box.function, "__self__", None))
    columns = estimator_columns(box)
    while type(model).__name__ == "Pipeline":
        for name, step in model.steps[:-1]:
            columns = transform_columns(step, columns, name, box.name)
        model = _found_model(model.steps[-1][1])
    kind, family = type(model).__name__, type(model).__module__.partition(".")[0]
    found: AdditiveNetwork | TreeEnsemble
    if family == "sklearn" and kind in LINEAR:
        with locate_errors(f"the regressor {kind}", location=box.name):
            outputs = lin.affine(columns, np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_))
        found = lin.build_network(box.schema, outputs, (), 0, name=box.name)
    elif family == "sklearn" and kind == "MLPRegressor" and model.activation in ("relu", "identity"):
        with locate_errors(f"the regressor {kind}", location=box.name):
            outputs = perceptron_outputs(model, columns)
        found = lin.build_network(box.schema, outputs, (), 0, name=box.name)
    else:
        found = _read_trees(model, columns, box)
    people = uniform_population(box.schema).sample(256, np.random.default_rng(0))
    given, wanted = found.predict_numbers(people), box.predict_numbers(people)
    if not np.abs(given - wanted).max() <= ALIKE * (1 + np.abs(wanted).max()):
        raise NotAdditiveError("read from the inside, it gives other numbers than when asked", location=box.name)
    return found


def _found_model(model: Any) -> Any:
    """Return the estimator that a search ended with; another as it is."""
    return getattr(model, "best_estimator_", model)


def _read_trees(model: Any, columns: cell.Cells, box: NumberModel) -> TreeEnsemble:
    """Return the trees of a regressor, over columns that are functions of one attribute each."""
    for column in columns:
        if isinstance(column, cell.ListedCell) and column.values.dtype.kind not in "fiub":
            raise NotAdditiveError("the trees look at words", location=box.name)
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    if len(names) != len(columns):
        names = [f"f{i}" for i in range(len(columns))]
    taken = box.schema.target.name
    while taken in names:
        taken += "_"
    attributes = [{"name": name, "kind": "real", "lower": 0, "upper": 1, "encoding": "value"} for name in names]
    plain = Schema.parse({"target": {"name": taken, "kind": "number"}, "attributes": attributes})
    family = type(model).__module__.partition(".")[0]
    read = read_booster(model, plain) if family in ("xgboost", "lightgbm") else _read_sklearn(model, plain, box.name)
    columns = list_bent(columns, read, box.schema, box.name)
    return dataclasses.replace(read, schema=box.schema, columns=columns, takes_missing=False, name=box.name)


def _read_sklearn(model: Any, schema: Schema, name: str) -> TreeEnsemble:
    """Return the trees of a scikit-learn regressor over plain columns."""
    kind, family = type(model).__name__, type(model).__module__.partition(".")[0]
    own = np.arange(len(schema.attributes), dtype=np.int64)
    base, divisor = 0.0, 1.0
    if getattr(model, "n_outputs_", 1) > 1:
        raise ModelError("the model gives several numbers", location=name, hint="train one model for each")
    trees: list[DecisionTree] = []
    if family == "sklearn" and kind in FORESTS:
        members = getattr(model, "estimators_", [model])
        trees = [read_tree(member.tree_, own, output=0) for member in members]
        divisor = float(len(members))
    elif family == "sklearn" and kind == "GradientBoostingRegressor":
        trees = [
            read_tree(stage[0].tree_, own, output=0, scale=float(model.learning_rate)) for stage in model.estimators_
        ]
        start = model.init_
        if isinstance(start, str):
            base = 0.0
        elif type(start).__name__ == "DummyRegressor":
            base = float(np.ravel(start.constant_)[0])
        else:
            raise NotAdditiveError(f"it starts from another model (init={start!r})", location=name)
    elif family == "sklearn" and kind == "HistGradientBoostingRegressor" and model.loss in IDENTITY_LOSSES:
        if model.is_categorical_ is not None and np.any(model.is_categorical_):
            raise NotAdditiveError("it splits by categories of its own encoder", location=name, hint=BLACK_BOX_HINT)
        trees = [read_histogram_tree(iteration[0], own, {}, 0) for iteration in model._predictors]
        base = float(np.ravel(model._baseline_prediction)[0])
    else:
        raise NotAdditiveError(
            f"a {kind} is not a linear model, ReLU network or model of trees that can be read",
            location=name,
            hint=BLACK_BOX_HINT,
        )
    return build_ensemble(
        schema, trees, base=np.array([base]), link="identity", answers=(), location=name, divisor=divisor
    )
