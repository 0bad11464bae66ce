"""White-box ensembles of boosted and bagged decision trees. NumPy and a compiled kernel sum the leaves in the same
order in float64, so they agree exactly.
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
from evenhand.models.additive.network import hash_attribute, hash_numbers, hash_text, require_numbers
from evenhand.models.replies import MatchedLabels, match_labels
from evenhand.models.scorer import refuse_missing, sigmoid, softmax
from evenhand.models.trees.nodes import LARGEST_SUM, DecisionTree, TreeNodes, collect_nodes
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema

ZERO_THRESHOLD = float(np.float32(1e-35))
"""Maximum absolute value that LightGBM treats as zero if zero means missing."""

SMALL_BATCH = 10_000
"""Maximum rows times trees for which NumPy is used instead of loading the compiler."""

COLUMN_PLACES = 257
"""Number of points of a column included in the fingerprint of trees."""

BLOCK_ROWS = 256
"""Number of rows that the kernel sends through a tree before the next tree, so that both stay in cache."""


def leaf_sums(nodes: TreeNodes, inputs: Floats, outputs: int) -> Floats:
    """Sum the leaves for inputs (n, columns), shape (n, outputs)."""
    if len(inputs) * nodes.trees <= SMALL_BATCH and not _compile_walk.cache_info().currsize:
        return leaf_sums_numpy(nodes, inputs, outputs)
    return leaf_sums_compiled(nodes, inputs, outputs)


def leaf_sums_numpy(nodes: TreeNodes, inputs: Floats, outputs: int) -> Floats:
    """Compute ``leaf_sums`` with NumPy: all rows descend a tree one level at a time."""
    total = np.zeros((len(inputs), outputs))
    width = nodes.values.shape[1]
    for tree, first in enumerate(nodes.output):
        total[:, first : first + width] += nodes.values[_reached_leaves(nodes, inputs, int(nodes.offsets[tree]))]
    return total


def _reached_leaves(nodes: TreeNodes, inputs: Floats, root: int) -> Integers:
    current = np.full(len(inputs), root, dtype=np.int64)
    rows = np.arange(len(inputs)) if nodes.left[root] >= 0 else np.zeros(0, dtype=np.int64)
    while len(rows):
        node = current[rows]
        left = goes_left(nodes, node, inputs[rows, nodes.feature[node]])
        current[rows] = np.where(left, nodes.left[node], nodes.right[node])
        rows = rows[nodes.left[current[rows]] >= 0]
    return current


def goes_left(nodes: TreeNodes, node: Integers, entry: Floats) -> Booleans:
    """Check whether inner nodes (n,) send entries (n,) of their columns to the left, shape (n,)."""
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
    """Compute ``leaf_sums`` with the compiled kernel."""
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
    float32 (XGBoost) differ by rounding, about 1e-6 relative to the leaves.

    The link computes scores from raw outputs:

    - ``logistic``: one output; ``classes[1]`` has the probability ``1 / (1 + exp(-steepness * raw))`` and is the label
      if raw > 0.
    - ``softmax``: probabilities ``exp(raw_k) / sum exp(raw_j)``; the largest raw output is the label.
    - ``one-vs-rest``: the logistic of each output, divided by their sum; the largest raw output is the label.
    - ``frequency``: raw outputs are probabilities (class frequencies in the leaves, averaged over the trees); the
      largest is the label.
    - ``identity``: one output, the predicted number; there are no labels.

    Ties are resolved in favour of the first label.

    Attributes:
        schema: Schema of the inputs.
        nodes: The trees; ``TreeNodes`` defines the arrays and their invariants.
        base: Initial value of each raw output, shape (outputs,).
        divisor: 1 for boosting, the number of trees per output for averages.
        link: Function from raw outputs to scores.
        steepness: Factor inside the logistic function.
        classes: Labels in the order of the outputs.
        favourable: Position of the favourable label in ``classes``.
        takes_missing: Whether the model predicts for individuals with missing values.
        single: Whether the library sums in float32.
        columns: Input columns after preprocessing, each a function of one attribute. If None, ``schema.inputs``.
        name: Name in reports.
        label_only: Always False, since scores are probabilities.
        guessed: Whether the model returns numbers that were matched with the target's labels.
        caution: Assumptions about the labels, for reports.

    Raises:
        ModelError: the numbers do not form an ensemble over this schema.
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
        outputs = 1 if number or self.link == "logistic" else len(self.classes)
        if len(self.base) != outputs or (self.link == "logistic" and len(self.classes) != 2):
            raise ModelError(f"{len(self.base)} outputs for the labels {list(self.classes)}", location=self.name)
        if number != (not self.classes):
            raise ModelError(f"the link {self.link!r} for the labels {list(self.classes)}", location=self.name)
        if not number and not 0 <= self.favourable < len(self.classes):
            raise ModelError(f"favourable label {self.favourable} of {len(self.classes)}", location=self.name)
        if not (np.abs(self.base) <= LARGEST_SUM).all():
            raise ModelError(f"the trees start from {self.base.tolist()}", location=self.name)
        if not 0 < self.steepness <= 1e6 or not 1 <= self.divisor < np.inf:
            raise ModelError(f"steepness {self.steepness:g} and divisor {self.divisor:g}", location=self.name)
        width = self.schema.width if self.columns is None else len(self.columns)
        if self.nodes.feature.max() >= width:
            raise ModelError(f"a node compares input {self.nodes.feature.max()} of {width}", location=self.name)

    def inputs(self, individuals: Floats) -> Floats:
        """Compute the input columns of the trees, shape (n, columns)."""
        if self.columns is None:
            return self.schema.inputs(individuals)
        entries = np.where(np.isnan(individuals), 0.0, individuals)
        rows = [
            evaluate_cell(column, self.schema.attributes[column.attribute or 0], entries[:, column.attribute or 0])
            for column in self.columns
        ]
        return np.stack(rows, axis=1)

    def raw(self, individuals: Floats) -> Floats:
        """Compute the outputs before ``link``, shape (n, outputs).

        Raises:
            ModelError: an individual has a missing value, which the model does not accept.
        """
        if not self.takes_missing:
            refuse_missing(individuals, self.name)
        total = leaf_sums(self.nodes, self.inputs(individuals), len(self.base))
        return np.asarray(self.base + total / self.divisor)

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Predict a number for each individual, shape (n,).

        Raises:
            ModelError: the model predicts labels; or as ``raw``.
        """
        require_numbers(self.classes, self.name)
        return self.raw(individuals)[:, 0]

    def scores(self, individuals: Floats) -> Floats:
        """Compute class probabilities, shape (n, classes)."""
        raw = self.raw(individuals)
        if self.link == "frequency":
            return raw
        if self.link == "softmax":
            return softmax(raw)
        positive = sigmoid(self.steepness * raw)
        if self.link == "one-vs-rest":
            return np.asarray(positive / positive.sum(axis=1, keepdims=True))
        return np.concatenate([1 - positive, positive], axis=1)

    def predict(self, individuals: Floats) -> Integers:
        """Predict the labels as positions in ``classes``, shape (n,)."""
        raw = self.raw(individuals)
        if self.link == "logistic":
            return np.asarray(raw[:, 0] > 0, dtype=np.int64)
        return np.asarray(np.argmax(raw, axis=1), dtype=np.int64)


def ensemble_fingerprint(ensemble: TreeEnsemble) -> str:
    """Compute the SHA-256 of everything that the predictions of trees depend on, in hexadecimal.

    The digest covers the following items, each prefixed with its length or shape: name, kind and domain of every
    attribute; the numbers of every input column, or those of a line at evenly spaced points; the nodes; start and link
    of the outputs; the labels. Numbers are little-endian, so changing a single bit of a leaf changes the digest. It
    does not cover the use of an attribute (protected or not) or the model's name.
    """
    state = hashlib.sha256(b"evenhand trees 1\n")
    schema = ensemble.schema
    for attribute in schema.attributes:
        hash_attribute(state, attribute)
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
    """Build a double-precision ensemble that accepts missing values.

    Args:
        schema: Schema of the inputs.
        trees: The unchecked trees.
        base: Initial value of each raw output, shape (outputs,).
        link: Function from raw outputs to scores.
        answers: Labels of the outputs. Ignored for a numeric target.
        location: Name of the model.
        divisor: Divisor of the sums of leaves.
        steepness: Factor inside the logistic function.

    Raises:
        ModelError: the trees do not form an ensemble, or the answers do not match the schema's labels.
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
    """Match a model's answers with the labels of the target, like ``match_labels``. If a model numbers three or more
    classes 0, 1, ... and the target has other labels, the order of the target's ``values`` is used.

    Raises:
        ModelError: the answers do not match the schema's labels.
    """
    try:
        return match_labels(schema, answers, location=location)
    except ModelError:
        values = schema.target.values
        numbered = list(answers) == list(range(len(answers))) and len(answers) > 2
        if not numbered or values is None or len(values) != len(answers):
            raise
        return MatchedLabels(values, values.index(schema.target.favourable), guessed=True)
