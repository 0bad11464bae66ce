"""Nodes of decision trees as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import ModelError

MAX_CATEGORY = 2**20
"""Upper bound of category numbers (exclusive): enough for postcodes, and small enough for one bit per category."""

MAX_WORDS = 2**26
"""Maximum number of 32-bit words of category sets in a model, which bounds its memory."""

LARGEST_SUM = 1e150
"""Bound on the sum of the trees, above which sums and exponentials could overflow."""


@dataclass(frozen=True, eq=False)
class DecisionTree:
    """Unchecked tree from a file. Node 0 is the root; children are node positions.

    Attributes:
        output: First output that the tree adds to.
        feature: Input column that an inner node compares, shape (nodes,); ignored at a leaf.
        threshold: Threshold of each node, shape (nodes,); ``input <= threshold`` goes left, in float64. Ignored at
            leaves and nodes in ``left_categories``. For libraries that compare differently see
            ``strictly_below_float32`` and ``at_most_float32``.
        left, right: Children, shape (nodes,); ``left`` is negative for a leaf.
        default_left: Whether a missing value goes left, shape (nodes,).
        values: Values that a leaf adds to ``width`` outputs, shape (nodes, width); ignored at inner nodes.
        zero_missing: Whether a zero counts as missing, shape (nodes,). If None, never.
        left_categories: For each node that compares categories, the categories that go left; others go right.
    """

    output: int
    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    default_left: Booleans
    values: Floats
    zero_missing: Booleans | None = None
    left_categories: Mapping[int, Integers] = field(default_factory=dict)


class TreeNodes(NamedTuple):
    """Nodes of all trees in read-only arrays, one tree after another.

    Tree t has the nodes ``offsets[t]`` to ``offsets[t + 1]`` (exclusive), the first of which is its root. Children are
    positions in the same arrays, and a child comes after its parent in the same tree. Every path therefore ends, and a
    reverse loop over the nodes visits children before parents.

    An inner node sends the entry x of its input column

    - to ``left`` if ``default_left``, else to ``right``, if x is NaN, or if ``zero_missing`` and x is zero
      (``|x| <= ZERO_THRESHOLD``);
    - else, if it compares categories (``set_start >= 0``), to ``left`` if the bit of the integer part c of x is set in
      ``words[set_start : set_start + set_size]`` (bit c % 32 of word c // 32), otherwise to ``right``;
    - else to ``left`` if ``x <= threshold`` in float64, otherwise to ``right``.

    A leaf (``left < 0``) of tree t adds its ``values`` to the outputs ``output[t]`` to ``output[t] + width``. The raw
    outputs of an ensemble are the sums over all trees, added in float64 in the order of the trees. Over a box of
    inputs, each output is therefore between the sums of each tree's smallest and largest reachable leaf.

    Attributes:
        offsets: First node of each tree, and the number of nodes, shape (trees + 1,).
        output: First output of each tree, shape (trees,).
        feature: Column of ``schema.inputs``, -1 at a leaf, shape (nodes,).
        threshold: Threshold, 0 if unused, shape (nodes,).
        left, right: Children, -1 at a leaf, shape (nodes,).
        default_left, zero_missing: Flags, shape (nodes,).
        set_start, set_size: Set of categories, -1 and 0 if there is none, shape (nodes,).
        words: Bits of the sets, uint32, shape (words,).
        values: Values of leaves, 0 at inner nodes, shape (nodes, width).
    """

    offsets: Integers
    output: Integers
    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    default_left: Booleans
    zero_missing: Booleans
    set_start: Integers
    set_size: Integers
    words: NDArray[np.uint32]
    values: Floats

    def __repr__(self) -> str:
        return f"TreeNodes({self.trees} trees, {len(self.left)} nodes)"

    @property
    def trees(self) -> int:
        """Number of trees."""
        return len(self.output)


def collect_nodes(trees: Sequence[DecisionTree], *, inputs: int, outputs: int, location: str) -> TreeNodes:
    """Check trees and convert them to flat arrays.

    Args:
        trees: At least one tree; all leaves have the same number of values.
        inputs: Number of input columns.
        outputs: Number of outputs that the trees add to.
        location: Name of the model.

    Raises:
        ModelError: a child is outside its tree, a node is reached twice, or a number is implausible.
    """
    if not trees:
        raise ModelError("the model has no trees", location=location)
    checked = [_check_tree(tree, inputs, outputs, f"{location}, tree {i}") for i, tree in enumerate(trees)]
    if len({tree.values.shape[1] for tree in checked}) > 1:
        raise ModelError("its trees have different numbers of outputs", location=location)
    sizes = np.array([len(tree.feature) for tree in checked], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    # Children are numbered within their tree; a shift converts them to positions among the nodes of all trees.
    shift = np.repeat(offsets[:-1], sizes)
    left = np.concatenate([tree.left for tree in checked])
    right = np.concatenate([tree.right for tree in checked])
    leaf = left < 0
    values = np.where(leaf[:, None], np.concatenate([tree.values for tree in checked]), 0.0)
    # No sum over the trees may overflow, for any leaves.
    if np.abs(values).max() > LARGEST_SUM / len(trees):
        raise ModelError(f"a leaf has the implausible value {np.abs(values).max():g}", location=location)
    threshold = np.concatenate([tree.threshold for tree in checked])
    set_start, set_size, words = _category_sets(checked, offsets, location)
    zero = [np.zeros(len(t.feature), dtype=bool) if t.zero_missing is None else t.zero_missing for t in checked]
    nodes = TreeNodes(
        offsets=offsets,
        output=np.array([tree.output for tree in checked], dtype=np.int64),
        feature=np.where(leaf, -1, np.concatenate([tree.feature for tree in checked])),
        threshold=np.where(leaf | (set_start >= 0), 0.0, threshold),
        left=np.where(leaf, -1, left + shift),
        right=np.where(leaf, -1, right + shift),
        default_left=np.concatenate([tree.default_left for tree in checked]) & ~leaf,
        zero_missing=np.concatenate(zero) & ~leaf,
        set_start=set_start,
        set_size=set_size,
        words=words,
        values=np.ascontiguousarray(values),
    )
    for array in nodes:
        array.setflags(write=False)
    return nodes


def _check_tree(tree: DecisionTree, inputs: int, outputs: int, location: str) -> DecisionTree:
    """Check a tree and return its reachable nodes in breadth-first order."""
    check_time()
    count = len(tree.left)
    arrays = (tree.right, tree.feature, tree.threshold, tree.default_left, tree.values)
    if count == 0 or any(len(array) != count for array in arrays):
        raise ModelError(f"its arrays differ in length: {[count, *map(len, arrays)]}", location=location)
    order = _reachable_nodes(tree, location)
    inner = order[tree.left[order] >= 0]
    if len(inner) and not (tree.feature[inner].min() >= 0 and tree.feature[inner].max() < inputs):
        raise ModelError(f"a node compares an input outside the model's {inputs} inputs", location=location)
    by_category = np.zeros(count, dtype=bool)
    by_category[list(tree.left_categories)] = True
    if np.isnan(tree.threshold[inner[~by_category[inner]]]).any():
        raise ModelError("a threshold is NaN", location=location)
    if not np.isfinite(tree.values[order[tree.left[order] < 0]]).all():
        raise ModelError("the value of a leaf is NaN or infinite", location=location)
    if not 0 <= tree.output <= outputs - tree.values.shape[1]:
        raise ModelError(f"it adds to output {tree.output} of {outputs}", location=location)
    # Remove nodes unreachable from the root (some files keep pruned nodes) and renumber the others.
    position = np.full(count, -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    leaf = tree.left[order] < 0
    return DecisionTree(
        output=tree.output,
        feature=tree.feature[order],
        threshold=tree.threshold[order],
        left=np.where(leaf, -1, position[np.where(leaf, 0, tree.left[order])]),
        right=np.where(leaf, -1, position[np.where(leaf, 0, tree.right[order])]),
        default_left=tree.default_left[order],
        values=tree.values[order],
        zero_missing=None if tree.zero_missing is None else tree.zero_missing[order],
        left_categories={
            int(position[node]): categories
            for node, categories in tree.left_categories.items()
            if position[node] >= 0 and tree.left[node] >= 0
        },
    )


def _reachable_nodes(tree: DecisionTree, location: str) -> Integers:
    count = len(tree.left)
    seen = np.zeros(count, dtype=bool)
    levels = [np.zeros(1, dtype=np.int64)]
    seen[0] = True
    while len(levels[-1]):
        parents = levels[-1][tree.left[levels[-1]] >= 0]
        children = np.stack([tree.left[parents], tree.right[parents]], axis=1).ravel()
        if len(children):
            if children.min() < 0 or children.max() >= count:
                wrong = children[(children < 0) | (children >= count)][0]
                raise ModelError(f"a node has the child {wrong} in a tree of {count} nodes", location=location)
            repeated = seen[children].any() or len(np.unique(children)) < len(children)
            if repeated:
                raise ModelError(
                    "a node has two parents or is its own descendant: this is not a tree", location=location
                )
        seen[children] = True
        levels.append(children)
    return np.concatenate(levels)


def _category_sets(
    trees: Sequence[DecisionTree], offsets: Integers, location: str
) -> tuple[Integers, Integers, NDArray[np.uint32]]:
    """Compute the start and size of each node's category set and the words of all sets."""
    # Category c is bit c % 32 of word c // 32 of its node.
    start = np.full(int(offsets[-1]), -1, dtype=np.int64)
    size = np.zeros(int(offsets[-1]), dtype=np.int64)
    sets: list[NDArray[np.uint32]] = []
    used = 0
    for offset, tree in zip(offsets, trees, strict=False):
        for node, categories in tree.left_categories.items():
            if len(categories) and not (categories.min() >= 0 and categories.max() < MAX_CATEGORY):
                raise ModelError(f"a category is outside 0 to {MAX_CATEGORY - 1}", location=location)
            words = np.zeros(int(categories.max()) // 32 + 1 if len(categories) else 0, dtype=np.uint32)
            np.bitwise_or.at(words, categories // 32, np.uint32(1) << (categories % 32).astype(np.uint32))
            start[offset + node] = used
            size[offset + node] = len(words)
            used += len(words)
            if used > MAX_WORDS:
                raise ModelError("the category sets are too large", location=location)
            sets.append(words)
    return start, size, np.concatenate(sets) if sets else np.zeros(0, dtype=np.uint32)


# Conversion of the comparisons of each library to ``number <= threshold`` in float64.
#
# Rounding to float32 preserves order, so the numbers that a float32 comparison sends left are
# all float64 numbers up to a largest one. Comparing with that number gives the same branch for every number.


def strictly_below_float32(thresholds: NDArray[np.float32]) -> Floats:
    """Compute the largest float64 x with ``float32(x) < t`` (XGBoost) for each threshold t."""
    return _largest_rounding_to(_next_float32(thresholds.astype(np.float32), -np.inf))


def at_most_float32(thresholds: Floats) -> Floats:
    """Compute the largest float64 x with ``float32(x) <= t`` (scikit-learn) for each threshold t in float64."""
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite
        nearest = thresholds.astype(np.float32)
    below = _next_float32(nearest, -np.inf)
    return _largest_rounding_to(np.where(nearest.astype(np.float64) > thresholds, below, nearest))


def _next_float32(numbers: NDArray[np.float32], towards: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.nextafter(numbers, np.float32(towards)))


def _largest_rounding_to(limits: NDArray[np.float32]) -> Floats:
    """Compute the largest float64 whose float32 rounding is at most each limit."""
    above = _next_float32(limits, np.inf)
    # The midpoint of two float32 neighbours is exact in float64. Infinity rounds like 2 ** 128.
    bound = 2.0**128
    middle = (
        np.clip(limits.astype(np.float64), -bound, bound) / 2 + np.clip(above.astype(np.float64), -bound, bound) / 2
    )
    # The midpoint rounds to the neighbour whose last bit is 0.
    even = (limits.view(np.uint32) & 1) == 0
    largest = np.where(even, middle, np.nextafter(middle, -np.inf))
    return np.where(limits == np.inf, np.inf, largest)
