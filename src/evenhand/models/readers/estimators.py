"""Scikit-learn estimators and pipelines with boosted trees as white boxes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive.cells import Cells, CurveCell, ListedCell, refuse_passthrough
from evenhand.models.additive.linear import LinearTensor, affine, build_network, input_units, relu
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel, NumberModel, is_kind
from evenhand.models.readers.boosters import booster_library, read_booster
from evenhand.models.readers.reading import BLACK_BOX_HINT, locate_errors
from evenhand.models.readers.sklearn_columns import estimator_columns, transform_columns
from evenhand.models.readers.sklearn_trees import read_sklearn_trees, tree_family
from evenhand.models.trees.ensemble import TreeEnsemble, ensemble_labels
from evenhand.population.independent import uniform_population
from evenhand.schema.schema import Schema

NETWORK_TOLERANCE = 1e-6
TREE_TOLERANCE = 1e-5
"""Maximum difference from the estimator's scores, or relative difference from its numbers. XGBoost sums in float32."""


def read_estimator(box: EstimatorModel | NumberModel) -> AdditiveNetwork | TreeEnsemble:
    """Convert a fitted estimator: standalone, the last step of a ``Pipeline``, or the best estimator of a search.

    A linear model or a perceptron (relu or identity) becomes a network; a tree, a forest or boosted trees become an
    ensemble. Earlier steps must act on one attribute at a time: scalers, encoders, binning, imputation, column
    selection, ``ColumnTransformer``. Comparing the answers charges the estimator's ledger.

    Raises:
        NotAdditiveError: a step or the estimator is not supported; the message names it.
        ModelError: the estimator does not fit the schema or the earlier steps.
    """
    model = getattr(box.model, "__self__", box.model)  # the object of a bound method
    steps: list[tuple[str, Any]] = []
    model = getattr(model, "best_estimator_", model)
    while is_kind(model, {"Pipeline"}):
        steps += model.steps[:-1]
        model = getattr(model.steps[-1][1], "best_estimator_", model.steps[-1][1])
    library = booster_library(model)
    has_trees = library is not None or tree_family(model) is not None
    columns = estimator_columns(box)
    takes_inputs = box.form == "numbers" or (box.form == "frame" and library is not None)
    if has_trees and takes_inputs and not steps and not box.schema.target.is_number:
        # The library's categories are matched by name.
        refuse_passthrough(columns)
        return read_sklearn_trees(model, box.schema) if library is None else read_booster(model, box.schema)
    for step_name, step in steps:
        columns = transform_columns(step, columns, step_name, box.name)
    white_box: AdditiveNetwork | TreeEnsemble
    if has_trees:
        white_box = _trees_over_columns(columns, model, box)
    else:
        outputs = _network_outputs(model, columns, box.name)
        classes, favourable = (box.classes, box.favourable) if isinstance(box, EstimatorModel) else ((), 0)
        white_box = build_network(box.schema, outputs, classes, favourable, name=box.name)
    _check_same_answers(white_box, box)
    return white_box


def _network_outputs(model: Any, columns: Cells, name: str) -> LinearTensor:
    """Compute the outputs of a linear model or perceptron before the last activation."""
    kind = type(model).__name__
    with locate_errors(f"the estimator {kind}", location=name):
        refuse_passthrough(columns)
        if type(model).__module__.startswith("sklearn.") and hasattr(model, "coef_"):  # its answers are compared below
            return affine(input_units(columns), np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_))
        if is_kind(model, {"MLPClassifier", "MLPRegressor"}) and model.activation in ("relu", "identity"):
            outputs = affine(input_units(columns), model.coefs_[0], model.intercepts_[0])
            for weights, bias in zip(model.coefs_[1:], model.intercepts_[1:], strict=True):
                outputs = affine(relu(outputs) if model.activation == "relu" else outputs, weights, bias)
            return outputs
    activation = f" with {model.activation} activation" if hasattr(model, "activation") else ""
    raise NotAdditiveError(
        f"a {kind}{activation} is not a supported linear model, ReLU network or tree model",
        location=name,
        hint=BLACK_BOX_HINT,
    )


def _trees_over_columns(columns: Cells, model: Any, box: EstimatorModel | NumberModel) -> TreeEnsemble:
    """Convert trees whose input columns each depend on one attribute."""
    categorical = getattr(model, "is_categorical_", None)
    if categorical is not None:
        # Histogram boosting encodes categories itself and puts their columns first.
        encoder = model._preprocessor.named_transformers_["encoder"]
        codes = transform_columns(encoder, columns[categorical], "the model's encoder", box.name)
        columns = np.concatenate([codes, columns[~categorical]])
    refuse_passthrough(columns)
    for column in columns:
        if isinstance(column, CurveCell):
            raise NotAdditiveError(
                "the trees compare a transformed number (logarithm, power, quantiles): rounding makes the side of a "
                "threshold ambiguous for some values",
                location=box.name,
                hint="train the trees on the number itself, whose order the transformation preserves",
            )
        if isinstance(column, ListedCell) and column.values.dtype.kind not in "fiub":
            raise NotAdditiveError(
                "the trees split on text values; expected numbers",
                location=box.name,
                hint="encode text columns before the trees, for example one-hot",
            )
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    if len(names) != len(columns) or categorical is not None:
        names = [f"f{i}" for i in range(len(columns))]
    target_name = box.schema.target.name
    while target_name in names:
        target_name += "_"
    # Read the trees over plain numbers first, then replace these by the columns.
    attributes = [{"name": name, "kind": "real", "lower": 0, "upper": 1, "encoding": "value"} for name in names]
    target = box.schema.target.model_dump() | {"name": target_name}
    plain_schema = Schema.parse({"target": target, "attributes": attributes})
    if booster_library(model) is not None:
        trees = read_booster(model, plain_schema)
    else:
        trees = read_sklearn_trees(model, plain_schema, encoded=categorical is not None)
    classes, favourable = trees.classes, trees.favourable
    if classes:
        classes, favourable, _ = ensemble_labels(box.schema, list(classes), location=box.name)
    return dataclasses.replace(
        trees, schema=box.schema, columns=columns, classes=classes, favourable=favourable, takes_missing=False
    )


def _check_same_answers(white_box: AdditiveNetwork | TreeEnsemble, box: EstimatorModel | NumberModel) -> None:
    """Check that a white box and its estimator agree on rows drawn from the domain."""
    people = uniform_population(box.schema).sample(256, np.random.default_rng(0))
    if isinstance(box, NumberModel):
        numbers = box.predict_numbers(people)
        largest = np.abs(white_box.predict_numbers(people) - numbers).max()
        same = bool(largest <= TREE_TOLERANCE * (1 + np.abs(numbers).max()))
    elif box.label_only:
        same = np.array_equal(white_box.predict(people), box.predict(people))
    else:
        tolerance = TREE_TOLERANCE if isinstance(white_box, TreeEnsemble) else NETWORK_TOLERANCE
        same = bool(np.abs(white_box.scores(people) - box.scores(people)).max() <= tolerance)
    if not same:
        raise NotAdditiveError(
            "the white box and the estimator disagree; the scores may not be the sigmoid or softmax of a sum over "
            "attributes (one-vs-rest, for example)",
            location=box.name,
            hint=BLACK_BOX_HINT,
        )
