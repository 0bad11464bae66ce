"""The nodes of many decision trees as flat arrays, and how a file's trees become them."""

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
"""Category numbers reach up to here (not included): ample for post codes, small enough for a bit per category."""

MAX_WORDS = 2**26
"""32-bit words of category sets in one model; more would fill the memory."""

LARGEST_SUM = 1e150
"""Bound on what the trees can add up to: beyond it, sums and exponentials could overflow."""


@dataclass(frozen=True, eq=False)
class DecisionTree:
    """One tree as a file gives it, before any check: node 0 is the root, children are positions of nodes.

    Attributes:
        output: the first output that the tree adds to.
        feature: shape (nodes,), the input column that an inner node looks at; ignored at a leaf.
        threshold: shape (nodes,); ``input <= threshold`` goes left, in float64. See ``tree_thresholds`` for libraries
            that compare otherwise. Ignored at leaves and where ``left_categories`` has the node.
        left, right: shape (nodes,), the children; ``left`` is negative at a leaf.
        default_left: shape (nodes,), whether a missing value goes left.
        values: shape (nodes, width), what a leaf adds to ``width`` outputs; ignored at inner nodes.
        zero_missing: shape (nodes,), whether a zero counts as missing; None where it nowhere does.
        left_categories: for each node that asks for a category, the categories that go left; all others go right.
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
    """Decision trees, one after another. All arrays are read-only.

    Tree t holds the nodes ``offsets[t]`` to ``offsets[t + 1]`` (not included); the first is its root. Children are
    positions in these same arrays, and a child always stands after its parent in the same tree: walks end, and one
    backward sweep over the nodes visits children before parents.

    An inner node sends the entry x of its input column

    - to ``left`` or ``right`` as ``default_left`` says, if x is NaN, or if ``zero_missing`` holds and x is zero
      (``|x| <= ZERO``);
    - else, if it asks for a category (``set_start >= 0``), to ``left`` where the whole part c of x has its bit set in
      ``words[set_start : set_start + set_size]`` (bit c % 32 of word c // 32), to ``right`` otherwise;
    - else to ``left`` where ``x <= threshold`` in float64, to ``right`` otherwise.

    A leaf (``left < 0``) of tree t adds its ``values`` to the outputs ``output[t]`` to ``output[t] + width``. An
    ensemble's raw outputs are the sums over all trees, added in float64 in the order of the trees. Over a box of
    inputs, each output therefore lies between the sums of each tree's least and greatest reachable leaf.

    Attributes:
        offsets: shape (trees + 1,).
        output: shape (trees,).
        feature: shape (nodes,), the column of ``schema.inputs``; -1 at a leaf.
        threshold: shape (nodes,); 0 where it has no meaning.
        left, right: shape (nodes,); -1 at a leaf.
        default_left, zero_missing: shape (nodes,).
        set_start, set_size: shape (nodes,); -1 and 0 where the node asks for no category.
        words: shape (words,), uint32.
        values: shape (nodes, width); 0 at inner nodes.
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
        return f"Nodes({self.trees} trees, {len(self.left)} nodes)"

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return len(self.output)


def collect_nodes(trees: Sequence[DecisionTree], *, inputs: int, outputs: int, location: str) -> TreeNodes:
    """Check a file's trees and lay them out as ``Nodes``.

    Args:
        trees: at least one; all leaves hold equally many values.
        inputs: how many input columns there are.
        outputs: how many outputs the trees add to.
        location: how to call the model in messages.

    Raises:
        ModelError: a tree is not a tree (a child outside, a node reached twice), or holds a number without meaning.
    """
    if not trees:
        raise ModelError("the model has no trees", location=location)
    laid = [_check_tree(tree, inputs, outputs, f"{location}, tree {i}") for i, tree in enumerate(trees)]
    if len({tree.values.shape[1] for tree in laid}) > 1:
        raise ModelError("its trees add to different numbers of outputs", location=location)
    sizes = np.array([len(tree.feature) for tree in laid], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    # Children are numbered within their tree; here they become positions among the nodes of all trees.
    shift = np.repeat(offsets[:-1], sizes)
    left = np.concatenate([tree.left for tree in laid])
    right = np.concatenate([tree.right for tree in laid])
    leaf = left < 0
    values = np.where(leaf[:, None], np.concatenate([tree.values for tree in laid]), 0.0)
    # No sum over the trees may overflow, whichever leaves are reached.
    if np.abs(values).max() > LARGEST_SUM / len(trees):
        raise ModelError(f"a leaf holds {np.abs(values).max():g}, which is not a plausible value", location=location)
    threshold = np.concatenate([tree.threshold for tree in laid])
    set_start, set_size, words = _category_sets(laid, offsets, location)
    zero = [np.zeros(len(t.feature), dtype=bool) if t.zero_missing is None else t.zero_missing for t in laid]
    nodes = TreeNodes(
        offsets=offsets,
        output=np.array([tree.output for tree in laid], dtype=np.int64),
        feature=np.where(leaf, -1, np.concatenate([tree.feature for tree in laid])),
        threshold=np.where(leaf | (set_start >= 0), 0.0, threshold),
        left=np.where(leaf, -1, left + shift),
        right=np.where(leaf, -1, right + shift),
        default_left=np.concatenate([tree.default_left for tree in laid]) & ~leaf,
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
    """Return the same tree, its reachable nodes alone, level by level from the root."""
    check_time()
    count = len(tree.left)
    arrays = (tree.right, tree.feature, tree.threshold, tree.default_left, tree.values)
    if count == 0 or any(len(array) != count for array in arrays):
        raise ModelError(f"its arrays differ in length: {[count, *map(len, arrays)]}", location=location)
    order = _reachable_nodes(tree, location)
    inner = order[tree.left[order] >= 0]
    if len(inner) and not (tree.feature[inner].min() >= 0 and tree.feature[inner].max() < inputs):
        raise ModelError(f"a node looks at an input outside the {inputs} that there are", location=location)
    asks = np.zeros(count, dtype=bool)
    asks[list(tree.left_categories)] = True
    if np.isnan(tree.threshold[inner[~asks[inner]]]).any():
        raise ModelError("a threshold is NaN", location=location)
    if not np.isfinite(tree.values[order[tree.left[order] < 0]]).all():
        raise ModelError("the value of a leaf is NaN or infinite", location=location)
    if not 0 <= tree.output <= outputs - tree.values.shape[1]:
        raise ModelError(f"it adds to output {tree.output} of {outputs}", location=location)
    # Nodes that the root does not reach (pruned ones stay in some files) are dropped, and the others renumbered.
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
                raise ModelError(f"a node has the child {wrong}, but there are {count} nodes", location=location)
            repeated = seen[children].any() or len(np.unique(children)) < len(children)
            if repeated:
                raise ModelError(
                    "a node is the child of two nodes, or of one below it: this is not a tree", location=location
                )
        seen[children] = True
        levels.append(children)
    return np.concatenate(levels)


def _category_sets(
    laid: Sequence[DecisionTree], offsets: Integers, location: str
) -> tuple[Integers, Integers, NDArray[np.uint32]]:
    """Start and size of each node's category set, and the words that hold them all."""
    # Sets of bits: category c is bit c % 32 of word c // 32 of its node.
    start = np.full(int(offsets[-1]), -1, dtype=np.int64)
    size = np.zeros(int(offsets[-1]), dtype=np.int64)
    sets: list[NDArray[np.uint32]] = []
    used = 0
    for offset, tree in zip(offsets, laid, strict=False):
        for node, categories in tree.left_categories.items():
            if len(categories) and not (categories.min() >= 0 and categories.max() < MAX_CATEGORY):
                raise ModelError(f"a category lies outside 0 to {MAX_CATEGORY - 1}", location=location)
            words = np.zeros(int(categories.max()) // 32 + 1 if len(categories) else 0, dtype=np.uint32)
            np.bitwise_or.at(words, categories // 32, np.uint32(1) << (categories % 32).astype(np.uint32))
            start[offset + node] = used
            size[offset + node] = len(words)
            used += len(words)
            if used > MAX_WORDS:
                raise ModelError("the sets of categories are too large to hold", location=location)
            sets.append(words)
    return start, size, np.concatenate(sets) if sets else np.zeros(0, dtype=np.uint32)


# How each library compares a number with a threshold, brought to one form: ``number <= threshold`` in float64.
#
# Rounding to float32 never changes the order of two numbers, so the numbers that a float32 comparison sends left are
# all float64 numbers up to one largest: comparing with that one gives the same branch for every number.


def strictly_below_float32(thresholds: NDArray[np.float32]) -> Floats:
    """Return the thresholds for ``float32(x) < t`` (XGBoost): the largest float64 x for which it holds."""
    return _largest_rounding_to(_next_float32(thresholds.astype(np.float32), -np.inf))


def at_most_float32(thresholds: Floats) -> Floats:
    """Thresholds for ``float32(x) <= t`` with t in float64 (scikit-learn): the largest float64 x for which it holds."""
    with np.errstate(over="ignore"):  # beyond float32 lies infinity
        nearest = thresholds.astype(np.float32)
    below = _next_float32(nearest, -np.inf)
    return _largest_rounding_to(np.where(nearest.astype(np.float64) > thresholds, below, nearest))


def _next_float32(numbers: NDArray[np.float32], towards: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.nextafter(numbers, np.float32(towards)))


def _largest_rounding_to(limits: NDArray[np.float32]) -> Floats:
    """Return the largest float64 whose float32 rounding is at most each limit."""
    above = _next_float32(limits, np.inf)
    # Two neighbours in float32 have their middle in float64 exactly; infinity rounds as if it were 2 ** 128.
    bound = 2.0**128
    middle = (
        np.clip(limits.astype(np.float64), -bound, bound) / 2 + np.clip(above.astype(np.float64), -bound, bound) / 2
    )
    # The middle itself rounds to the neighbour whose last bit is 0.
    even = (limits.view(np.uint32) & 1) == 0
    largest = np.where(even, middle, np.nextafter(middle, -np.inf))
    return np.where(limits == np.inf, np.inf, largest)
