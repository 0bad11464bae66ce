"""The nodes of many decision trees as flat arrays, and how a file's trees become them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

MAX_CATEGORY = 2**20
"""Category numbers reach up to here (not included): ample for post codes, small enough for a bit per category."""

MAX_WORDS = 2**26
"""32-bit words of category sets in one model; more would fill the memory."""

LARGEST_SUM = 1e150
"""Bound on what the trees can add up to: beyond it, sums and exponentials could overflow."""


@dataclass(frozen=True, eq=False)
class Tree:
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
    default_left: Flags
    values: Floats
    zero_missing: Flags | None = None
    left_categories: Mapping[int, Integers] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Nodes:
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
    default_left: Flags
    zero_missing: Flags
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


def collect(trees: Sequence[Tree], *, inputs: int, outputs: int, where: str) -> Nodes:
    """Check a file's trees and lay them out as ``Nodes``.

    Args:
        trees: at least one; all leaves hold equally many values.
        inputs: how many input columns there are.
        outputs: how many outputs the trees add to.
        where: how to call the model in messages.

    Raises:
        ModelError: a tree is no tree (a child outside, a node reached twice), or holds a number without meaning.
    """
    if not trees:
        raise ModelError("the model has no trees", where=where)
    laid = [_checked(tree, inputs, outputs, f"{where}, tree {i}") for i, tree in enumerate(trees)]
    if len({tree.values.shape[1] for tree in laid}) > 1:
        raise ModelError("its trees add to different numbers of outputs", where=where)
    sizes = np.array([len(tree.feature) for tree in laid], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    shift = np.repeat(offsets[:-1], sizes)
    left = np.concatenate([tree.left for tree in laid])
    right = np.concatenate([tree.right for tree in laid])
    leaf = left < 0
    values = np.where(leaf[:, None], np.concatenate([tree.values for tree in laid]), 0.0)
    if np.abs(values).max() > LARGEST_SUM / len(trees):
        raise ModelError(f"a leaf holds {np.abs(values).max():g}, which is no plausible value", where=where)
    threshold = np.concatenate([tree.threshold for tree in laid])
    set_start, set_size, words = _sets(laid, offsets, where)
    zero = [np.zeros(len(t.feature), dtype=bool) if t.zero_missing is None else t.zero_missing for t in laid]
    nodes = Nodes(
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
    for array in vars(nodes).values():
        array.setflags(write=False)
    return nodes


def _checked(tree: Tree, inputs: int, outputs: int, where: str) -> Tree:
    """The same tree, its reachable nodes alone, level by level from the root."""
    count = len(tree.left)
    arrays = (tree.right, tree.feature, tree.threshold, tree.default_left, tree.values)
    if count == 0 or any(len(array) != count for array in arrays):
        raise ModelError(f"its arrays differ in length: {[count, *map(len, arrays)]}", where=where)
    order = _reachable(tree, where)
    inner = order[tree.left[order] >= 0]
    if len(inner) and not (tree.feature[inner].min() >= 0 and tree.feature[inner].max() < inputs):
        raise ModelError(f"a node looks at an input outside the {inputs} that there are", where=where)
    asks = np.zeros(count, dtype=bool)
    asks[list(tree.left_categories)] = True
    if np.isnan(tree.threshold[inner[~asks[inner]]]).any():
        raise ModelError("a threshold is NaN", where=where)
    if not np.isfinite(tree.values[order[tree.left[order] < 0]]).all():
        raise ModelError("the value of a leaf is NaN or infinite", where=where)
    if not 0 <= tree.output <= outputs - tree.values.shape[1]:
        raise ModelError(f"it adds to output {tree.output} of {outputs}", where=where)
    position = np.full(count, -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    leaf = tree.left[order] < 0
    return Tree(
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


def _reachable(tree: Tree, where: str) -> Integers:
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
                raise ModelError(f"a node has the child {wrong}, but there are {count} nodes", where=where)
            repeated = seen[children].any() or len(np.unique(children)) < len(children)
            if repeated:
                raise ModelError("a node is the child of two nodes, or of one below it: this is no tree", where=where)
        seen[children] = True
        levels.append(children)
    return np.concatenate(levels)


def _sets(laid: Sequence[Tree], offsets: Integers, where: str) -> tuple[Integers, Integers, NDArray[np.uint32]]:
    """Start and size of each node's category set, and the words that hold them all."""
    start = np.full(int(offsets[-1]), -1, dtype=np.int64)
    size = np.zeros(int(offsets[-1]), dtype=np.int64)
    sets: list[NDArray[np.uint32]] = []
    used = 0
    for offset, tree in zip(offsets, laid, strict=False):
        for node, categories in tree.left_categories.items():
            if len(categories) and not (categories.min() >= 0 and categories.max() < MAX_CATEGORY):
                raise ModelError(f"a category lies outside 0 to {MAX_CATEGORY - 1}", where=where)
            words = np.zeros(int(categories.max()) // 32 + 1 if len(categories) else 0, dtype=np.uint32)
            np.bitwise_or.at(words, categories // 32, np.uint32(1) << (categories % 32).astype(np.uint32))
            start[offset + node] = used
            size[offset + node] = len(words)
            used += len(words)
            if used > MAX_WORDS:
                raise ModelError("the sets of categories are too large to hold", where=where)
            sets.append(words)
    return start, size, np.concatenate(sets) if sets else np.zeros(0, dtype=np.uint32)
