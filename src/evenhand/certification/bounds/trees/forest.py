"""The trees rewritten over the cells of unprotected attributes, with one value per kind of assignment in each leaf.

A tree with protected attributes is rewritten without them: at such a node the assignments separate, and each follows
its own copy of the subtree; the copies are walked side by side, so that a leaf of the new tree knows which leaf each
assignment reaches. Sets of values become ranges of cells, so that every leaf is a box of cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.question import TreeQuery, protected_flags
from evenhand.core.kernels import compile_kernel
from evenhand.core.time_limit import check_time
from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError

Small = NDArray[np.int32]

MAX_NODES = 30_000_000
"""Maximum number of nodes of the rewritten trees."""
MAX_TREE_NODES = 1 << 16
"""Maximum number of nodes of one rewritten tree. Above it, its assignments are walked one by one."""


class FlatForest(NamedTuple):
    """The rewritten trees as flat arrays, for compiled kernels.

    Attributes:
        attribute: shape (nodes,), which of the query's cells an inner node looks at; -1 at a leaf.
        cut: shape (nodes,); cells below it go left.
        left, right: shape (nodes,).
        row: shape (nodes,), where a leaf's numbers start in ``values``: one per group and margin.
        root: shape (trees,).
        groups: shape (trees,), how many kinds of assignments the tree tells apart.
        group: shape (trees, assignments), the kind of each.
        slots: shape (slots,), the attributes that each tree tests, tree after tree.
        slot: shape (trees + 1,), where a tree's start.
        margins: shape (active,), the margins that each tree adds to, tree after tree; margin: where a tree's start.
        values: what leaves add to the margins.
        said: which leaves say the very same, one number per leaf and group. Equal margins would not do: a model may add
            up several outputs before it compares them, and rounds.
        offsets: shape (attributes + 1,), where each attribute's cells (and one more) start in ``before``.
        before: weight of the cells before each, as a share of all.
        base: shape (margins,).
        slack, pad, plain: shape (margins,), see ``TreeQuery.slack``, and how far our own rounding carries bounds that
            are made of additive functions, or of leaves alone.
        pairs: shape (margins, 2).
        classes, leaves, widest: numbers of labels, of leaves of the largest tree, of cells of the widest attribute.
        least: how many different labels make a person treated unfairly.
        demanded: whether label 0 alone is fair, there being one assignment. Margins 2k and 2k + 1, which compare it
            with other labels, exclude each other.
    """

    attribute: Small
    cut: Small
    left: Small
    right: Small
    row: Integers
    root: Small
    groups: Small
    group: Small
    slots: Small
    slot: Integers
    margins: Small
    margin: Integers
    values: Floats
    said: Integers
    offsets: Integers
    before: Floats
    base: Floats
    slack: Floats
    pad: Floats
    plain: Floats
    pairs: Integers
    classes: int
    leaves: int
    widest: int
    least: int
    demanded: bool


class NodeArrays(NamedTuple):
    """The nodes of all trees as they were given: children (-1 at a leaf), and which test each asks."""

    left: Integers
    right: Integers
    of: Integers


class CellTests(NamedTuple):
    """Tests in terms of cells.

    Attributes:
        about: shape (tests,), the attribute that each asks about; -1 if it is protected.
        starts: where its table starts in ``lefts``.
        cuts: its cut if all cells below one go left and no others, else -1.
        lefts: ``lefts[start + c]`` of the cells before c go left.
    """

    about: Integers
    starts: Integers
    cuts: Integers
    lefts: Integers


def flat_forest_of(query: TreeQuery) -> FlatForest:
    """Rewrite an ensemble.

    Raises:
        ModelError: the rewritten trees would be too many to hold.
    """
    nodes, tests = query.ensemble.nodes, query.tests
    axis = {cells.position: i for i, cells in enumerate(query.cells)}
    about = np.array([axis.get(int(position), -1) for position in tests.attribute], dtype=np.int64)
    flags = protected_flags(tests, query.schema, query.protected, query.assignments)
    given, tables = NodeArrays(nodes.left, nodes.right, tests.of), _test_tables(query, about)
    assignments, margins = len(query.assignments), len(query.base)
    counts = query.counts.astype(np.int64)
    folded = _node_margins(query)
    parts: list[tuple[Any, ...]] = []
    groups, group, slots, active = [], [], [], []
    total = 0
    for tree in range(nodes.trees):
        check_time()
        lo, hi = int(nodes.offsets[tree]), int(nodes.offsets[tree + 1])
        tests_used = np.unique(tests.of[lo:hi][nodes.left[lo:hi] >= 0])
        distinct = flags[tests_used[about[tests_used] < 0]]
        kinds, kind = (
            np.unique(distinct, axis=1, return_inverse=True) if len(distinct) else (None, np.zeros(assignments, int))
        )
        number = 1 if kinds is None else kinds.shape[1]
        first_rows = [int(np.argmax(kind.ravel() == k)) for k in range(number)]
        touched = np.unique(about[tests_used][about[tests_used] >= 0])
        adds = np.flatnonzero((folded[lo:hi] != 0).any(axis=0))
        # Side by side if that is not too many nodes; else one copy per kind, which adds nothing for the others.
        for joined in (list(range(number)),), ([k] for k in range(number)):
            copies = [
                (
                    *rewrite_tree(
                        given,
                        tables,
                        np.ascontiguousarray(
                            flags[:, [first_rows[k] for k in members]]
                        ),  # in one layout, for one compilation
                        counts,
                        lo,
                        MAX_TREE_NODES if len(members) > 1 else MAX_NODES,
                    ),
                    members,
                    number,
                )
                for members in joined
            ]
            if copies[0][0] >= 0:
                break
        for copy in copies:
            parts.append(copy)
            total += copy[0]
            groups.append(number)
            group.append(kind.ravel())
            slots.append(touched)
            active.append(adds)
        if total > MAX_NODES:
            raise ModelError(
                f"the trees have more than {MAX_NODES:,} parts",
                location=query.ensemble.name,
                hint="protect fewer attributes at once, or train fewer or smaller trees",
            )
    return _join_trees(query, parts, groups, group, slots, active, folded, margins)


def _node_margins(query: TreeQuery) -> Floats:
    """Compute the terms of each node's values in the margins, shape (nodes, margins)."""
    nodes = query.ensemble.nodes
    width = nodes.values.shape[1]
    folded = np.zeros((len(nodes.left), len(query.base)))
    for tree, output in enumerate(nodes.output):
        part = slice(int(nodes.offsets[tree]), int(nodes.offsets[tree + 1]))
        folded[part] = nodes.values[part] @ query.fold[output : output + width]
    return folded


def _test_tables(query: TreeQuery, about: Integers) -> CellTests:
    tests = query.tests
    starts, cuts = np.zeros(len(about), dtype=np.int64), np.full(len(about), -1, dtype=np.int64)
    tables: list[Integers] = [np.zeros(1, dtype=np.int64)]
    begin = 1
    for i, cells in enumerate(query.cells):
        mine = np.flatnonzero(about == i)
        flags = tests.flags(mine, query.schema.attributes[cells.position], cells.entry(np.arange(cells.count)))
        for test, row in zip(mine, flags, strict=True):
            starts[test] = begin
            tables.append(np.concatenate([[0], np.cumsum(row)]))
            begin += len(row) + 1
            # A plain cut, if the cells that go left are the first ones.
            below = int(row.sum())
            cuts[test] = below if row[:below].all() else -1
    return CellTests(about, starts, cuts, np.concatenate(tables))


@compile_kernel(internal=True, nogil=True)
def copy_row(source, target):
    """Copy one array into another of the same length."""
    # Numba compiles checks and an error message for every ``target[:] = source``, which takes seconds.
    for i in range(len(target)):
        target[i] = source[i]


@compile_kernel(nogil=True)
def rewrite_tree(nodes, tests, flags, counts, root, limit):
    """Return one tree for some assignments side by side.

    Args:
        nodes: of all trees.
        tests: Tests of the nodes.
        flags: (tests, assignments), what tests of protected attributes say.
        counts: cells of each attribute.
        first: where the tree starts among the nodes.
        most: nodes that the new tree may have.

    Returns:
        How many nodes (-1: more than ``most``), then their attribute, cut, left and right child, and of leaves the
        node that each assignment reaches.
    """
    left, right, of = nodes.left, nodes.right, nodes.of
    about, starts, cuts, lefts = tests.about, tests.starts, tests.cuts, tests.lefts
    # Depth first from the root. Invariant: an entry of the stack is a node of the new tree to be made, by the old node
    # at which each kind of assignment stands (``held``), the cells that lead there (``low`` to ``high``), and where it
    # hangs (``parent``: node and side).
    kinds, n = flags.shape[1], len(counts)
    room = 256
    attribute = np.empty(room, np.int32)
    cut = np.empty(room, np.int32)
    child = np.empty((room, 2), np.int32)
    reached = np.empty((room, kinds), np.int64)
    depth = 64
    held = np.empty((depth, kinds), np.int64)
    low = np.empty((depth, n), np.int64)
    high = np.empty((depth, n), np.int64)
    parent = np.empty((depth, 2), np.int64)
    held[0, :] = root
    for i in range(n):
        low[0, i] = 0
        high[0, i] = counts[i] - 1
    parent[0, 0] = -1
    stack, size = 1, 0
    at = np.empty(kinds, np.int64)
    lo = np.empty(n, np.int64)
    hi = np.empty(n, np.int64)
    while stack:
        stack -= 1
        copy_row(held[stack], at)
        copy_row(low[stack], lo)
        copy_row(high[stack], hi)
        above, side = parent[stack]
        if size >= limit:
            return -1, attribute[:0], cut[:0], child[:0], reached[:0]
        if size == room:
            room *= 2
            attribute = np.concatenate((attribute, np.empty(room - size, np.int32)))
            cut = np.concatenate((cut, np.empty(room - size, np.int32)))
            child = np.concatenate((child, np.empty((room - size, 2), np.int32)))
            reached = np.concatenate((reached, np.empty((room - size, kinds), np.int64)))
        me = size
        size += 1
        child[me] = -1
        if above >= 0:
            child[above, side] = me
        # Each kind is followed separately while its test depends only on protected attributes, or is equal for all
        # cells. The first test left open splits the new node; the others wait for it on both sides.
        open_test = -1
        for k in range(kinds):
            node = at[k]
            while left[node] >= 0:
                test = of[node]
                i = about[test]
                if i < 0:
                    node = left[node] if flags[test, k] else right[node]
                    continue
                start = starts[test]
                ways = lefts[start + hi[i] + 1] - lefts[start + lo[i]]
                if ways == 0:
                    node = right[node]
                elif ways == hi[i] - lo[i] + 1:
                    node = left[node]
                else:
                    if open_test < 0:
                        open_test = test
                    break
            at[k] = node
        # Nothing is open: a leaf, which knows the old leaf of every kind.
        if open_test < 0:
            attribute[me] = -1
            cut[me] = 0
            copy_row(at, reached[me])
            continue
        i = about[open_test]
        place = cuts[open_test]
        if place < 0:
            # The change nearest to the middle of the range.
            start = starts[open_test]
            best = 1 << 60
            for c in range(lo[i] + 1, hi[i] + 1):
                previous = lefts[start + c] - lefts[start + c - 1]
                following = lefts[start + c + 1] - lefts[start + c]
                away = abs(2 * c - lo[i] - hi[i] - 1)
                if previous != following and away < best:
                    best, place = away, c
        attribute[me] = i
        cut[me] = place
        if stack + 2 > depth:
            extra = depth
            depth *= 2
            held = np.concatenate((held, np.empty((extra, kinds), np.int64)))
            low = np.concatenate((low, np.empty((extra, n), np.int64)))
            high = np.concatenate((high, np.empty((extra, n), np.int64)))
            parent = np.concatenate((parent, np.empty((extra, 2), np.int64)))
        for way in (1, 0):
            copy_row(at, held[stack])
            copy_row(lo, low[stack])
            copy_row(hi, high[stack])
            if way:
                low[stack, i] = place
            else:
                high[stack, i] = place - 1
            parent[stack, 0] = me
            parent[stack, 1] = way
            stack += 1
    return size, attribute[:size], cut[:size], child[:size], reached[:size]


def _join_trees(
    query: TreeQuery,
    parts: list[tuple[Any, ...]],
    groups: list[int],
    group: list[Integers],
    slots: list[Integers],
    active: list[Integers],
    folded: Floats,
    margins: int,
) -> FlatForest:
    sizes = np.array([part[0] for part in parts], dtype=np.int64)
    root = np.concatenate([[0], np.cumsum(sizes)])
    attribute = np.concatenate([part[1] for part in parts])
    children = np.concatenate([part[3] + start for part, start in zip(parts, root, strict=False)])
    rows = np.zeros(len(attribute), dtype=np.int64)
    values: list[Floats] = []
    group_values: list[Integers] = []
    same = np.unique(query.ensemble.nodes.values, axis=0, return_inverse=True)[1].ravel()
    size = leaves = 0
    for part, start in zip(parts, root, strict=False):
        leaf = np.flatnonzero(part[1] < 0)
        table = np.zeros((len(leaf), part[6], margins))
        table[:, part[5]] = folded[part[4][leaf]]
        rows[start + leaf] = size + np.arange(len(leaf)) * table[0].size
        values.append(table.ravel())
        names = np.full((len(leaf), part[6]), -1, dtype=np.int64)
        names[:, part[5]] = same[part[4][leaf]]
        group_values.append(names.ravel())
        size += table.size
        leaves = max(leaves, len(leaf))
    offsets = np.concatenate([[0], np.cumsum(query.counts + 1)]).astype(np.int64)
    before = [cells.before(np.arange(cells.count + 1)) / cells.total for cells in query.cells]
    rounding = 2.0**-52 * query.sizes
    touched = max((len(each) for each in slots), default=0)
    return FlatForest(
        attribute=attribute,
        cut=np.concatenate([part[2] for part in parts]),
        left=np.ascontiguousarray(children[:, 0]).astype(np.int32),
        right=np.ascontiguousarray(children[:, 1]).astype(np.int32),
        row=rows,
        root=root[:-1].astype(np.int32),
        groups=np.array(groups, dtype=np.int32),
        group=np.array(group, dtype=np.int32).reshape(len(parts), -1),
        slots=np.concatenate([*slots, np.zeros(0)]).astype(np.int32),
        slot=_array_starts([len(each) for each in slots]),
        margins=np.concatenate([*active, np.zeros(0)]).astype(np.int32),
        margin=_array_starts([len(each) for each in active]),
        values=np.concatenate(values),
        said=np.concatenate(group_values),
        offsets=offsets,
        before=np.concatenate([*before, np.zeros(1)]),
        base=query.base,
        slack=query.slack,
        pad=rounding * (len(parts) + 4 * len(query.cells) + 64) * (4 * touched + 8),
        plain=np.zeros(margins) if len(parts) == 1 and not query.base.any() else rounding * (len(parts) + 64),
        pairs=query.pairs,
        classes=len(query.classes),
        leaves=leaves,
        widest=int(query.counts.max()) if len(query.cells) else 1,
        least=query.least,
        demanded=False,
    )


def _array_starts(lengths: list[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
