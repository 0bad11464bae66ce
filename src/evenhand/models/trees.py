"""Boosted and bagged decision trees as one white box, whatever library grew them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models.cells import Cells, at
from evenhand.models.labels import match_labels
from evenhand.models.replies import softmax
from evenhand.models.tree_nodes import LARGEST_SUM, Nodes, Tree, collect
from evenhand.models.tree_walk import sums
from evenhand.schema import Schema, Value

Floats: TypeAlias = NDArray[np.float64]
Link: TypeAlias = Literal["logistic", "softmax", "one-vs-rest", "frequency"]


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """Decision trees over ``inputs(individuals)`` whose leaves add up to one raw output per class.

    ``raw = base + (sum of the reached leaves) / divisor``, in float64 in the order of the trees. Libraries that add in
    float32 (XGBoost) differ from it by rounding alone, about 1e-6 of the leaves' size.

    How raw outputs become scores (``link``):

    - ``logistic``: one output; ``classes[1]`` has the probability ``1 / (1 + exp(-steepness * raw))`` and is the label
      where raw > 0.
    - ``softmax``: probabilities ``exp(raw_k) / sum exp(raw_j)``; the largest raw output is the label.
    - ``one-vs-rest``: the logistic of each output, divided by their sum; the largest raw output is the label.
    - ``frequency``: raw outputs are already probabilities (class frequencies in the leaves, averaged over the trees);
      the largest is the label.

    The first of several largest wins.

    Attributes:
        schema: what its individuals are.
        nodes: the trees; ``Nodes`` says what each array means and which invariants hold.
        base: shape (outputs,), what the raw outputs start from.
        divisor: 1 for boosting, the number of trees per output where they are averaged.
        link: how raw outputs become scores.
        steepness: factor inside the logistic function.
        classes: labels in the order of the outputs.
        favourable: position of the favourable label in ``classes``.
        takes_missing: whether the model answers for individuals with missing values.
        single: whether the library adds up in float32.
        columns: the input columns, each a function of one attribute (``models.cells``), where they are not
            ``schema.inputs``: what preprocessing made of the attributes.
        name: how to call it in a report.
        label_only: always False: it gives probabilities.

    Raises:
        ModelError: the numbers do not make an ensemble over this schema.
    """

    schema: Schema
    nodes: Nodes
    base: Floats
    divisor: float
    link: Link
    steepness: float
    classes: tuple[Value, ...]
    favourable: int
    takes_missing: bool = True
    single: bool = False
    columns: Cells | None = None
    name: str = "trees"
    label_only: bool = False

    def __post_init__(self) -> None:
        wanted = 1 if self.link == "logistic" else len(self.classes)
        if len(self.base) != wanted or (self.link == "logistic" and len(self.classes) != 2):
            raise ModelError(f"{len(self.base)} outputs for the labels {list(self.classes)}", where=self.name)
        if not 0 <= self.favourable < len(self.classes):
            raise ModelError(f"favourable label {self.favourable} of {len(self.classes)}", where=self.name)
        if not (np.abs(self.base) <= LARGEST_SUM).all():
            raise ModelError(f"the trees start from {self.base.tolist()}", where=self.name)
        if not 0 < self.steepness <= 1e6 or not 1 <= self.divisor < np.inf:
            raise ModelError(f"steepness {self.steepness:g} and divisor {self.divisor:g}", where=self.name)
        width = self.schema.width if self.columns is None else len(self.columns)
        if self.nodes.feature.max() >= width:
            raise ModelError(f"a node looks at input {self.nodes.feature.max()} of {width}", where=self.name)

    def inputs(self, individuals: Floats) -> Floats:
        """What the trees look at: ``schema.inputs``, or what preprocessing makes of it, shape (n, columns)."""
        if self.columns is None:
            return self.schema.inputs(individuals)
        entries = np.where(np.isnan(individuals), 0.0, individuals)
        rows = [
            at(each, self.schema.attributes[each.attribute or 0], entries[:, each.attribute or 0])
            for each in self.columns
        ]
        return np.stack(rows, axis=1)

    def raw(self, individuals: Floats) -> Floats:
        """The outputs before ``link``, shape (n, outputs).

        Raises:
            ModelError: somebody has a missing value and the model answers for nobody with one.
        """
        if not self.takes_missing and np.isnan(individuals).any():
            raise ModelError(
                "an individual has a missing value, and these trees do not say where it goes",
                where=self.name,
                mend="say `missing: drop` for the attribute in the schema",
            )
        total = sums(self.nodes, self.inputs(individuals), len(self.base))
        return np.asarray(self.base + total / self.divisor)

    def scores(self, individuals: Floats) -> Floats:
        """Class probabilities, shape (n, classes)."""
        raw = self.raw(individuals)
        if self.link == "frequency":
            return raw
        if self.link == "softmax":
            return softmax(raw)
        positive = 1 / (1 + np.exp(-np.clip(self.steepness * raw, -700, 700)))
        if self.link == "one-vs-rest":
            return np.asarray(positive / positive.sum(axis=1, keepdims=True))
        return np.concatenate([1 - positive, positive], axis=1)

    def predict(self, individuals: Floats) -> NDArray[np.int64]:
        """Labels as positions in ``classes``, shape (n,)."""
        raw = self.raw(individuals)
        if self.link == "logistic":
            return np.asarray(raw[:, 0] > 0, dtype=np.int64)
        return np.asarray(np.argmax(raw, axis=1), dtype=np.int64)


def ensemble(
    schema: Schema,
    trees: Sequence[Tree],
    *,
    base: Floats,
    link: Link,
    answers: Sequence[Any],
    where: str,
    divisor: float = 1.0,
    steepness: float = 1.0,
    takes_missing: bool = True,
    single: bool = False,
) -> TreeEnsemble:
    """An ensemble from a file's trees and the answers that its outputs stand for.

    Raises:
        ModelError: they make no ensemble, or the answers are not the schema's labels.
    """
    classes, favourable = labels(schema, answers, where=where)
    return TreeEnsemble(
        schema=schema,
        nodes=collect(trees, inputs=schema.width, outputs=len(base), where=where),
        base=base,
        divisor=divisor,
        link=link,
        steepness=steepness,
        classes=classes,
        favourable=favourable,
        takes_missing=takes_missing,
        single=single,
        name=where,
    )


def labels(schema: Schema, answers: Sequence[Any], *, where: str) -> tuple[tuple[Value, ...], int]:
    """The labels that a model's answers stand for, and the position of the favourable one.

    As ``match_labels``; and where a model of three or more classes numbers them 0, 1, ..., and the target's labels are
    no such numbers, they are the target's ``values`` in order.

    Raises:
        ModelError: the answers cannot be the schema's labels.
    """
    try:
        return match_labels(schema, answers, where=where)
    except ModelError:
        values = schema.target.values
        numbered = list(answers) == list(range(len(answers))) and len(answers) > 2
        if not numbered or values is None or len(values) != len(answers):
            raise
        return values, values.index(schema.target.favourable)


def from_booster(model: Any, schema: Schema) -> TreeEnsemble:
    """An XGBoost or LightGBM model in memory, ``Booster`` or classifier, through its own file format.

    Neither library is imported here: whoever has such a model has it.

    Args:
        model: ``xgboost.Booster``, ``XGBClassifier``, ``lightgbm.Booster``, ``LGBMClassifier`` or the like.
        schema: what its individuals are.

    Raises:
        ModelError: it is no such model, is not fitted, or does not fit the schema.
    """
    name = type(model).__name__
    family = type(model).__module__.partition(".")[0]
    if hasattr(model, "get_booster") or hasattr(model, "save_raw"):
        from evenhand.models.xgboost_file import parse_xgboost

        _refuse_marker(model, name)
        booster = _fitted(model, "get_booster", "save_raw", name)
        return parse_xgboost(bytes(booster.save_raw("ubj")), schema, where=name, stop_early=booster is not model)
    if hasattr(model, "model_to_string") or hasattr(model, "booster_") or family == "lightgbm":
        from evenhand.models.lightgbm_file import parse_lightgbm

        answers = getattr(model, "classes_", None)
        text = _fitted(model, "booster_", "model_to_string", name).model_to_string()
        return parse_lightgbm(text, schema, where=name, answers=None if answers is None else list(answers))
    raise ModelError(f"a {name} is no model of XGBoost or LightGBM", where=name)


def _fitted(model: Any, attribute: str, method: str, name: str) -> Any:
    """The booster inside a classifier; a booster itself."""
    try:
        inside = getattr(model, attribute, None)
        booster = model if inside is None else inside() if callable(inside) else inside
    except ValueError:  # both libraries derive their own "not fitted" from it
        booster = None
    if not hasattr(booster, method):
        raise ModelError("the model is not fitted", where=name, mend="call fit first")
    return booster


def _refuse_marker(model: Any, name: str) -> None:
    marker = getattr(model, "missing", None)
    if isinstance(marker, int | float) and not np.isnan(marker):
        raise ModelError(
            f"the model takes the number {marker:g} for a missing value, which is not part of its trees",
            where=name,
            mend="train it with missing=nan",
        )
