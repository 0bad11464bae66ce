"""Boosted and bagged decision trees as one white box, whatever library grew them.

Every tree is walked for every row, by NumPy and by a compiled kernel alike. Both add the same leaves in the same order
in float64, so they agree to the last bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.additive.cells import Cells, ListedCell, evaluate_cell, plain_inputs
from evenhand.models.additive.network import hash_numbers, hash_text, require_numbers
from evenhand.models.replies import MatchedLabels, match_labels, softmax
from evenhand.models.trees.nodes import LARGEST_SUM, DecisionTree, TreeNodes, collect_nodes
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

ZERO_THRESHOLD = float(np.float32(1e-35))
"""What LightGBM takes for zero where zero means missing: anything as close to it as this."""

SMALL_BATCH = 10_000
"""Up to so many rows times trees NumPy is quick enough, and the compiler is not loaded just for them."""

COLUMN_PLACES = 257
"""Places of a number's column that enter the digest of trees."""

BLOCK_ROWS = 256
"""Rows that the kernel takes down a tree before it turns to the next: they and the tree stay in the cache."""


def leaf_sums(nodes: TreeNodes, inputs: Floats, outputs: int) -> Floats:
    """Return what the trees add up to for inputs (n, columns), shape (n, outputs)."""
    if len(inputs) * nodes.trees <= SMALL_BATCH and not _compile_walk.cache_info().currsize:
        return leaf_sums_numpy(nodes, inputs, outputs)
    return leaf_sums_compiled(nodes, inputs, outputs)


def leaf_sums_numpy(nodes: TreeNodes, inputs: Floats, outputs: int) -> Floats:
    """``sums`` by NumPy: all rows take one step down a tree at a time."""
    total = np.zeros((len(inputs), outputs))
    width = nodes.values.shape[1]
    for tree, first in enumerate(nodes.output):
        total[:, first : first + width] += nodes.values[_reached_leaves(nodes, inputs, int(nodes.offsets[tree]))]
    return total


def _reached_leaves(nodes: TreeNodes, inputs: Floats, root: int) -> Integers:
    at = np.full(len(inputs), root, dtype=np.int64)
    walking = np.arange(len(inputs)) if nodes.left[root] >= 0 else np.zeros(0, dtype=np.int64)
    while len(walking):
        node = at[walking]
        left = goes_left(nodes, node, inputs[walking, nodes.feature[node]])
        at[walking] = np.where(left, nodes.left[node], nodes.right[node])
        walking = walking[nodes.left[at[walking]] >= 0]
    return at


def goes_left(nodes: TreeNodes, node: Integers, entry: Floats) -> Booleans:
    """Return whether inner nodes (n,) send entries (n,) of their columns to the left, shape (n,)."""
    missing = np.isnan(entry) | (nodes.zero_missing[node] & (np.abs(entry) <= ZERO_THRESHOLD))
    left = np.where(nodes.set_start[node] >= 0, _in_set(nodes, node, entry), entry <= nodes.threshold[node])
    return np.asarray(np.where(missing, nodes.default_left[node], left))


def _in_set(nodes: TreeNodes, node: Integers, entry: Floats) -> Booleans:
    if len(nodes.words) == 0:
        return np.zeros(len(node), dtype=bool)
    inside = (entry >= 0) & (entry < 32.0 * nodes.set_size[node])
    category = np.where(inside, entry, 0).astype(np.int64)
    word = nodes.words[np.where(inside, nodes.set_start[node] + category // 32, 0)]
    return np.asarray(inside & ((word >> (category % 32).astype(np.uint32)) & 1 == 1))


def leaf_sums_compiled(nodes: TreeNodes, inputs: Floats, outputs: int) -> Floats:
    """``sums`` by the compiled kernel: a row at a time."""
    total = np.zeros((len(inputs), outputs))
    _compile_walk()(nodes, np.ascontiguousarray(inputs), total)
    return total


@cache
def _compile_walk() -> Callable[..., None]:
    from evenhand.core.kernels import compile_kernel

    return compile_kernel(nogil=True)(_walk_trees)  # type: ignore[no-any-return]  # Numba has no types


def _walk_trees(nodes: TreeNodes, inputs: Any, total: Any) -> None:
    offsets, output, feature, threshold, left, right = nodes[:6]
    default_left, zero_missing, set_start, set_size, words, values = nodes[6:]
    # A block of rows goes through one tree after the other, so that a tree's nodes stay in the cache. Invariant: total
    # holds the leaves of the trees so far, added in the order of the trees as ``leaf_sums_numpy`` does.
    for start in range(0, inputs.shape[0], BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, inputs.shape[0])
        for tree in range(len(output)):
            for row in range(start, stop):
                node = offsets[tree]
                while left[node] >= 0:
                    entry = inputs[row, feature[node]]
                    if np.isnan(entry) or (zero_missing[node] and abs(entry) <= ZERO_THRESHOLD):
                        goes_left = default_left[node]
                    elif set_start[node] >= 0:
                        # A set of categories is a row of bits, 32 to a word; a set bit goes left.
                        goes_left = False
                        if 0 <= entry < 32.0 * set_size[node]:
                            category = int(entry)
                            word = np.int64(words[set_start[node] + category // 32])
                            goes_left = (word >> (category % 32)) & 1 == 1
                    else:
                        goes_left = entry <= threshold[node]
                    node = left[node] if goes_left else right[node]
                for k in range(values.shape[1]):
                    total[row, output[tree] + k] += values[node, k]


Link: TypeAlias = Literal["logistic", "softmax", "one-vs-rest", "frequency", "identity"]


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
    - ``identity``: one output, which is the number that the model gives; there are no labels.

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
        guessed: whether the model numbers its labels, and the numbers were matched with the target's labels.
        caution: assumptions about the labels, for reports.

    Raises:
        ModelError: the numbers do not make an ensemble over this schema.
    """

    schema: Schema
    nodes: TreeNodes
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
    guessed: bool = False
    caution: str = ""

    is_white_box: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number = self.link == "identity"
        wanted = 1 if number or self.link == "logistic" else len(self.classes)
        if len(self.base) != wanted or (self.link == "logistic" and len(self.classes) != 2):
            raise ModelError(f"{len(self.base)} outputs for the labels {list(self.classes)}", location=self.name)
        if number != (not self.classes):
            raise ModelError(f"a number, and the labels {list(self.classes)}", location=self.name)
        if not number and not 0 <= self.favourable < len(self.classes):
            raise ModelError(f"favourable label {self.favourable} of {len(self.classes)}", location=self.name)
        if not (np.abs(self.base) <= LARGEST_SUM).all():
            raise ModelError(f"the trees start from {self.base.tolist()}", location=self.name)
        if not 0 < self.steepness <= 1e6 or not 1 <= self.divisor < np.inf:
            raise ModelError(f"steepness {self.steepness:g} and divisor {self.divisor:g}", location=self.name)
        width = self.schema.width if self.columns is None else len(self.columns)
        if self.nodes.feature.max() >= width:
            raise ModelError(f"a node looks at input {self.nodes.feature.max()} of {width}", location=self.name)

    def inputs(self, individuals: Floats) -> Floats:
        """Return what the trees look at: ``schema.inputs``, or what preprocessing makes of it, shape (n, columns)."""
        if self.columns is None:
            return self.schema.inputs(individuals)
        entries = np.where(np.isnan(individuals), 0.0, individuals)
        rows = [
            evaluate_cell(each, self.schema.attributes[each.attribute or 0], entries[:, each.attribute or 0])
            for each in self.columns
        ]
        return np.stack(rows, axis=1)

    def raw(self, individuals: Floats) -> Floats:
        """Return the outputs before ``link``, shape (n, outputs).

        Raises:
            ModelError: an individual has a missing value, and the model takes none.
        """
        if not self.takes_missing and np.isnan(individuals).any():
            raise ModelError(
                "an individual has a missing value, and these trees do not say where it goes",
                location=self.name,
                hint="say `missing: drop` for the attribute in the schema",
            )
        total = leaf_sums(self.nodes, self.inputs(individuals), len(self.base))
        return np.asarray(self.base + total / self.divisor)

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Return the number of each individual, shape (n,).

        Raises:
            ModelError: it gives labels; or as ``raw``.
        """
        require_numbers(self.classes, self.name)
        return self.raw(individuals)[:, 0]

    def scores(self, individuals: Floats) -> Floats:
        """Return class probabilities, shape (n, classes)."""
        raw = self.raw(individuals)
        if self.link == "frequency":
            return raw
        if self.link == "softmax":
            return softmax(raw)
        positive = 1 / (1 + np.exp(-np.clip(self.steepness * raw, -700, 700)))
        if self.link == "one-vs-rest":
            return np.asarray(positive / positive.sum(axis=1, keepdims=True))
        return np.concatenate([1 - positive, positive], axis=1)

    def predict(self, individuals: Floats) -> Integers:
        """Return the labels as positions in ``classes``, shape (n,)."""
        raw = self.raw(individuals)
        if self.link == "logistic":
            return np.asarray(raw[:, 0] > 0, dtype=np.int64)
        return np.asarray(np.argmax(raw, axis=1), dtype=np.int64)


def ensemble_fingerprint(ensemble: TreeEnsemble) -> str:
    """Return the SHA-256 of all that the answers of trees depend on, in hexadecimal.

    Digested are, each with its length or shape before it: of every attribute the name, the kind and the domain; what
    the trees look at, a column's numbers, or those of a line at evenly spaced places; the nodes; what the outputs start
    from, how they become scores, the labels. Numbers are little-endian, so that one bit of one leaf changes the digest.
    What an attribute is used for (protected or not) and the model's name do not enter.
    """
    state = hashlib.sha256(b"evenhand trees 1\n")
    schema = ensemble.schema
    for attribute in schema.attributes:
        hash_text(
            state, [attribute.name, attribute.kind, attribute.values, attribute.first.hex(), attribute.last.hex()]
        )
    for column in plain_inputs(schema) if ensemble.columns is None else ensemble.columns:
        hash_text(state, [type(column).__name__, column.attribute])
        if isinstance(column, ListedCell):
            hash_numbers(state, np.asarray(column.values, dtype=np.float64))
            hash_numbers(state, np.zeros(0) if column.cuts is None else column.cuts)
        else:
            attribute = schema.attributes[column.attribute]
            places = np.linspace(attribute.first, attribute.last, COLUMN_PLACES)
            hash_numbers(state, evaluate_cell(column, attribute, places))
    for array in ensemble.nodes:
        hash_numbers(state, np.asarray(array, dtype=np.float64))
    hash_numbers(state, ensemble.base)
    hash_numbers(state, np.array([ensemble.divisor, ensemble.steepness]))
    hash_text(state, [ensemble.link, list(ensemble.classes), ensemble.favourable, ensemble.single])
    return state.hexdigest()


def build_ensemble(
    schema: Schema,
    trees: Sequence[DecisionTree],
    *,
    base: Floats,
    link: Link,
    answers: Sequence[Any],
    location: str,
    divisor: float = 1.0,
    steepness: float = 1.0,
) -> TreeEnsemble:
    """Return an ensemble in double precision that takes missing values, from trees and what its outputs stand for.

    Raises:
        ModelError: they make no ensemble, or the answers are not the schema's labels.
    """
    labels = MatchedLabels((), 0, guessed=False)
    if link != "identity":
        labels = ensemble_labels(schema, answers, location=location)
    return TreeEnsemble(
        schema=schema,
        nodes=collect_nodes(trees, inputs=schema.width, outputs=len(base), location=location),
        base=base,
        divisor=divisor,
        link=link,
        steepness=steepness,
        classes=labels.classes,
        favourable=labels.favourable,
        name=location,
        guessed=labels.guessed,
    )


def ensemble_labels(schema: Schema, answers: Sequence[Any], *, location: str) -> MatchedLabels:
    """Match a model's answers with the labels of the target.

    As ``match_labels``; and where a model of three or more classes numbers them 0, 1, ..., and the target's labels are
    no such numbers, they are the target's ``values`` in order.

    Raises:
        ModelError: the answers cannot be the schema's labels.
    """
    try:
        return match_labels(schema, answers, location=location)
    except ModelError:
        values = schema.target.values
        numbered = list(answers) == list(range(len(answers))) and len(answers) > 2
        if not numbered or values is None or len(values) != len(answers):
            raise
        return MatchedLabels(values, values.index(schema.target.favourable), guessed=True)
