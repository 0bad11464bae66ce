"""Trees as flat arrays for the kernels: the branch of each cell at each node, and the values of the leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.checker.trees.question import RecordedTrees
from evenhand.core.kernels import array_table, new_arrays, pack_arrays

MAX_LEAVES = 1 << 13
"""Maximum number of parts of a box that a tree distinguishes; a box with more parts is cut first."""
MAX_WAITING = 1 << 11
"""Maximum number of pending parts."""
LISTED = 4096
"""Maximum number of listed joint values."""
STEPS = 2048
"""Steps of the grid for the sum of the others."""


WholeForest = array_table(
    "WholeForest",
    __name__,
    {
        # Start of the nodes of each tree, and the index of its first axis in ``axes``.
        "root place": "int64 trees",
        "axes": "int64 places",
        # Children of each node; its test, -1 at a leaf; index of its outputs, which leaves with equal outputs share.
        "left right test same": "int64 nodes",
        # Axis of each test, -1 if it is protected; start of its results in ``answer``, which has one per cell.
        "axis begin": "int64 tests",
        # Whether a cell goes left, and the last following cell with the same result.
        "answer": "bool results",
        "until": "int64 results",
        # Whether a test sends a joint protected value to the left.
        "assigned": "bool tests assignments",
        # Kind of each assignment in each tree, number of kinds of each tree, and an assignment of each kind.
        "kind": "int64 trees assignments",
        "kinds": "int64 trees",
        "first": "int64 trees kinds",
        # Maximum absolute value of a tree in a margin.
        "largest": "int64 trees margins",
        # Start of the cells of each axis, and mass before each cell; an axis with n cells has n + 1 such numbers.
        "cell": "int64 axes",
        "before": "int64 cells",
        # See ``TreeMargins``.
        "low high": "int64 nodes margins",
        "base_low base_high above below": "int64 margins",
        "pairs": "int64 margins 2",
        "labels": "",
        # Minimum number of different labels that counts as unfair treatment.
        "least": "",
    },
)
"""Trees and domain."""

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


def whole_forest_of(question: RecordedTrees, least: int) -> Any:
    """Lay out the trees as a ``WholeForest``.

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
        # Joint protected values that no test of the tree distinguishes are one kind.
        _, row, which = np.unique(results, axis=1, return_index=True, return_inverse=True)
        kinds.append(len(row))
        kind.append(which.ravel())
        representatives.append(row)
        looked = np.unique(axis[mine][axis[mine] >= 0])
        axes.append(looked)
        places.append(places[-1] + len(looked))
        largest.append(np.maximum(np.abs(margins.low[part]), np.abs(margins.high[part])).max(axis=0))
    firsts = np.zeros((nodes.trees, max(kinds)))
    for tree, row in enumerate(representatives):
        firsts[tree, : len(row)] = row
    return pack_arrays(
        WholeForest,
        root=nodes.offsets,
        place=places,
        axes=np.concatenate([*axes, []]),
        left=nodes.left,
        right=nodes.right,
        test=tests.of,
        same=np.unique(nodes.values, axis=0, return_inverse=True)[1].ravel(),
        axis=axis,
        begin=begin,
        answer=np.concatenate(answers),
        until=np.concatenate(until),
        assigned=question.assigned,
        kind=kind,
        kinds=kinds,
        first=firsts,
        largest=largest,
        cell=np.cumsum([0, *(axis.count for axis in question.axes)]),
        before=np.concatenate(
            [*(axis.before(np.arange(axis.count + 1)) for axis in question.axes), np.zeros(0, np.int64)]
        ),
        **vars(margins),
        least=least,
    )


def tree_arrays_for(forest: Any) -> Any:
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
