"""Tree classifiers behind preprocessing that acts on one attribute at a time, as ensembles over the attributes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models import cells as cell
from evenhand.models.estimator import Estimator
from evenhand.models.sklearn_tables import columns_of, transformed
from evenhand.models.trees import TreeEnsemble, from_booster, labels
from evenhand.schema import Schema

TREES = frozenset(
    {"DecisionTreeClassifier", "ExtraTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier",
     "GradientBoostingClassifier", "HistGradientBoostingClassifier"}
)  # fmt: skip
SAME_SCORE = 1e-5
"""Scores must be this close to the estimator's on people drawn from the domain; libraries add up in float32."""


def from_tree_pipeline(box: Estimator) -> TreeEnsemble | None:
    """The trees of an estimator, alone, last in a ``Pipeline``, or found by a search; None if it has none.

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
    if family not in ("xgboost", "lightgbm") and type(model).__name__ not in TREES:
        return None
    if not steps and box.form == "numbers":
        return _read(model, box.schema)
    if not steps and box.form == "frame" and family != "sklearn":
        # The library's own categories are matched by their names.
        return _read(model, box.schema)
    columns = columns_of(box)
    for name, step in steps:
        columns = transformed(step, columns, name, box.name)
    return _over(columns, model, box)


def _over(columns: cell.Cells, model: Any, box: Estimator) -> TreeEnsemble:
    """The trees over columns that are functions of one attribute each."""
    for column in columns:
        if isinstance(column, cell.Listed) and column.values.dtype.kind not in "fiub":
            raise NotAdditiveError("the trees look at words", where=box.name)
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    if len(names) != len(columns):
        names = [f"f{i}" for i in range(len(columns))]
    target = box.schema.target.model_dump()
    attributes = [{"name": name, "kind": "real", "lower": 0, "upper": 1, "encoding": "value"} for name in names]
    taken = target["name"]
    while taken in names:
        taken += "_"
    plain = Schema.parse({"target": target | {"name": taken}, "attributes": attributes})
    read = _read(model, plain)
    classes, favourable = labels(box.schema, list(read.classes), where=box.name)
    trees = dataclasses.replace(
        read, schema=box.schema, columns=columns, classes=classes, favourable=favourable, takes_missing=False
    )
    from evenhand.population import uniform

    people = uniform(box.schema).sample(256, np.random.default_rng(0))
    if np.abs(trees.scores(people) - box.scores(people)).max() > SAME_SCORE:
        raise NotAdditiveError("read from the inside, it gives other scores than when asked", where=box.name)
    return trees


def _read(model: Any, schema: Schema) -> TreeEnsemble:
    if type(model).__module__.partition(".")[0] in ("xgboost", "lightgbm"):
        return from_booster(model, schema)
    from evenhand.models.sklearn_trees import from_sklearn_trees

    return from_sklearn_trees(model, schema)
