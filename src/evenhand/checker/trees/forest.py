"""Trees as flat arrays for the kernels: the branch of each cell at each node, and the values of the leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evenhand.checker.trees.question import RecordedTrees
from evenhand.core.kernels import array_table, new_arrays
from evenhand.core.typing import Booleans, Integers

MAX_LEAVES = 1 << 13
"""Maximum number of parts of a box that a tree distinguishes; a box with more parts is cut first."""
MAX_WAITING = 1 << 11
"""Maximum number of pending parts."""
LISTED = 4096
"""Maximum number of listed joint values."""
STEPS = 2048
"""Steps of the grid for the sum of the others."""


class WholeForest(NamedTuple):
    """Trees and domain in flat arrays.

    Attributes:
        root, left, right: Start of the nodes of each tree, shape (trees + 1,), and the children of each node.
        test: Test of each node, -1 at a leaf.
        same: Index of the outputs of each leaf, which leaves with equal outputs share.
        axis: Axis of each test, -1 if it is protected.
        begin: Start of the results of each test in ``answer``, which has one per cell.
        answer, until: Whether a cell goes left, and the last following cell with the same result.
        assigned: Whether a test sends a joint protected value to the left, shape (tests, assignments).
        kind, kinds: Kind of each assignment in each tree, shape (trees, assignments), and number of kinds of each tree.
        first: An assignment of each kind, shape (trees, kinds).
        place: Index of the first axis of each tree in ``axes``.
        low, high: Lower and upper bounds on the term of each leaf in each margin, shape (nodes, margins).
        base_low, base_high, above, below, pairs: See ``TreeMargins``.
        largest: Maximum absolute value of a tree in a margin, shape (trees, margins).
        cell: Start of the cells of each axis, shape (axes + 1,).
        before: Mass before each cell of an axis; an axis with n cells has n + 1 numbers.
        labels, least: Number of labels, and minimum number of different labels that counts as unfair treatment.
    """

    root: Integers
    left: Integers
    right: Integers
    test: Integers
    same: Integers
    axis: Integers
    begin: Integers
    answer: Booleans
    until: Integers
    assigned: Booleans
    kind: Integers
    kinds: Integers
    first: Integers
    place: Integers
    axes: Integers
    low: Integers
    high: Integers
    base_low: Integers
    base_high: Integers
    above: Integers
    below: Integers
    pairs: Integers
    largest: Integers
    cell: Integers
    before: Integers
    labels: int
    least: int


TreeArrays = array_table(
    "TreeArrays",
    __name__,
    {
        # Current box.
        "low high": "int64 axes",
        # Index of each axis in the current tree, and whether an axis of the tree is cut in the box.
        "slot": "int64 places",
        "cut": "int64 slots",
        # Pending parts: a node for each kind, ranges of the tree's axes, and share of the mass.
        "at": "int64 waiting kinds",
        "at_low at_high": "int64 waiting slots",
        "at_share": "float64 waiting",
        # Parts in which every kind has reached a leaf.
        "leaf": "int64 leaves kinds",
        "leaf_low leaf_high": "int64 leaves slots",
        "leaf_share": "float64 leaves",
        # Axis and first cell above of every cut, and share of the mass that is cut.
        "visit": "int64 leaves 2",
        "visit_share": "float64 leaves",
        # Term of each cell of the tree's axes in the additive function, and its extremes.
        "term": "int64 slots widest",
        "ends": "int64 slots 2",
        # Share of each cell of a range, and the additive function of all trees.
        "chance": "float64 widest",
        "effect": "int64 margins cells",
        # Bounds on the excess of margins over this function, and on the margins.
        "least most plain_least plain_most": "int64 margins assignments",
        # Score of a cut before each cell.
        "score": "float64 cells",
        # Distinct terms of each axis, and their masses; first term and number of terms of each axis; smallest term, and
        # its distance to the largest.
        "value mass": "int64 cells",
        "start number bottom span": "int64 places",
        # Sums of the listed terms, and their masses; masses of the sums of the other terms, in steps.
        "joint weight": "int64 listed",
        "grid other": "int64 bins",
        # Possible labels under each assignment, as bits, and proved share of each label.
        "sets": "int64 assignments",
        "wins": "int64 labels",
    },
)
"""Work arrays of one thread."""


def whole_forest_of(question: RecordedTrees, least: int) -> WholeForest:
    """Lay out the trees for kernels.

    Args:
        question: Question of the certificate.
        least: Minimum number of different outcomes that counts as unfair treatment.
    """
    nodes, tests, margins = question.ensemble.nodes, question.tests, question.margins
    axis_of = {axis.position: i for i, axis in enumerate(question.axes)}
    axis = np.array([axis_of.get(int(position), -1) for position in tests.position], dtype=np.int64)
    begin = np.zeros(len(axis), dtype=np.int64)
    answers, until, size = [np.zeros(1, dtype=np.bool_)], [np.zeros(1, dtype=np.int64)], 1
    for test, flags in enumerate(question.answers):
        if flags is None:
            continue
        begin[test] = size
        # Last cell of the run with the same result as each cell.
        ends = np.append(np.flatnonzero(flags[1:] != flags[:-1]), len(flags) - 1)
        answers.append(flags)
        until.append(ends[np.searchsorted(ends, np.arange(len(flags)))])
        size += len(flags)
    kinds, kind, representatives, places, axes, largest = [], [], [], [0], [], []
    for tree in range(nodes.trees):
        part = slice(int(nodes.offsets[tree]), int(nodes.offsets[tree + 1]))
        mine = np.unique(tests.of[part][tests.of[part] >= 0])
        results = question.assigned[mine[axis[mine] < 0]]
        if not len(results):
            results = np.zeros((1, question.assigned.shape[1]), dtype=np.bool_)
        # Joint protected values with equal results of all of the tree's tests of protected attributes are one kind.
        _, row, which = np.unique(results, axis=1, return_index=True, return_inverse=True)
        kinds.append(len(row))
        kind.append(which.ravel())
        representatives.append(row)
        looked = np.unique(axis[mine][axis[mine] >= 0])
        axes.append(looked)
        places.append(places[-1] + len(looked))
        largest.append(np.maximum(np.abs(margins.low[part]), np.abs(margins.high[part])).max(axis=0))
    firsts = np.zeros((nodes.trees, max(kinds)), dtype=np.int64)
    for tree, row in enumerate(representatives):
        firsts[tree, : len(row)] = row
    counts = [axis.count for axis in question.axes]
    cumulative = [axis.before(np.arange(axis.count + 1)) for axis in question.axes]
    return WholeForest(
        root=nodes.offsets.astype(np.int64),
        left=nodes.left.astype(np.int64),
        right=nodes.right.astype(np.int64),
        test=tests.of,
        same=np.unique(nodes.values, axis=0, return_inverse=True)[1].ravel().astype(np.int64),
        axis=axis,
        begin=begin,
        answer=np.concatenate(answers),
        until=np.concatenate(until),
        assigned=np.ascontiguousarray(question.assigned),
        kind=np.array(kind, dtype=np.int64),
        kinds=np.array(kinds, dtype=np.int64),
        first=firsts,
        place=np.array(places, dtype=np.int64),
        axes=np.concatenate([*axes, np.zeros(0)]).astype(np.int64),
        low=np.ascontiguousarray(margins.low),
        high=np.ascontiguousarray(margins.high),
        base_low=margins.base_low,
        base_high=margins.base_high,
        above=margins.above,
        below=margins.below,
        pairs=np.array(margins.pairs, dtype=np.int64),
        largest=np.array(largest, dtype=np.int64),
        cell=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        before=np.concatenate([*cumulative, np.zeros(1)]).astype(np.int64),
        labels=margins.labels,
        least=least,
    )


def tree_arrays_for(forest: WholeForest) -> Any:
    """Allocate the work arrays for the boxes of a forest."""
    axes, cells = len(forest.cell) - 1, np.diff(forest.cell)
    return new_arrays(
        TreeArrays,
        axes=axes,
        places=axes + 1,
        slots=int(np.diff(forest.place).max(initial=0)) + 1,
        kinds=int(forest.kinds.max()),
        margins=len(forest.base_low),
        assignments=forest.kind.shape[1],
        labels=forest.labels,
        cells=int(cells.sum()) + 1,
        widest=int(cells.max(initial=1)) + 2,
        waiting=MAX_WAITING,
        leaves=MAX_LEAVES,
        listed=LISTED,
        bins=2 * STEPS + 2,
    )
