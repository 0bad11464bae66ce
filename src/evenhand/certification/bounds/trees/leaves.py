"""Leaves of an ensemble as boxes of cells, each with its value and the protected assignments that reach it.

A leaf keeps one key for each unprotected attribute: a range of cells, or, for values without a useful order, a set of
up to 64 cells as bits. Tests of protected attributes do not multiply leaves; they restrict the assignments that reach
them. Values are scaled to integers, so that sums are exact in any order: with scale s, a sum of t values differs from
the margin by at most (t + 1) / (2 s), which the thresholds of the decision include.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.question import TreeQuery, protected_flags
from evenhand.certification.query.cells import Cells
from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import ModelError

Keys = NDArray[np.uint64]
Small = NDArray[np.int32]

MAX_LEAVES = 6_000_000
"""Maximum number of leaves, to limit memory."""
HALF = np.uint64(0xFFFFFFFF)
"""Lower half of a key."""
SCALE_BITS = 52
"""Scaled sums are below two to the power of this number, so float64 represents each value exactly."""
SET_CELLS = 64
"""Maximum number of cells of an attribute whose keys are sets."""


class LeafTable(NamedTuple):
    """Leaves of all trees, tree by tree, for compiled kernels.

    Attributes:
        keys: Cells of each leaf, shape (leaves, attributes): first and last cell in the lower and upper half, or bits.
        tested: Attributes that restrict each leaf, one leaf after another.
        first: Start of each leaf in ``tested``, then the end, shape (leaves + 1,).
        values: Scaled terms in the margins, shape (margins, leaves), increasing within a tree for the first margin.
        tree: Tree of each leaf.
        mask: Row of ``members`` of each leaf, 0 for all assignments.
        name: Index of the outputs of each leaf, which leaves with equal outputs share.
        members: Assignments that reach a leaf, shape (masks, assignments).
        portion: Share of the assignments in each mask.
        is_set: Whether the keys of an attribute are sets.
        offsets: Start of the cells of each attribute in ``cumulative``, then the end, shape (attributes + 1,).
        cumulative: Integer weight of the cells before each cell.
        set_weights: Weight of the sets of eight neighbouring cells, shape (attributes, 8, 256).
        base: Scaled constant of each margin.
        above, below: A margin selects its second label above ``above`` and its first label below ``below``.
        pairs: Labels of each margin.
        classes, least: Number of labels, and minimum number of different labels that counts as unfair treatment.
        is_difference: Whether the change of a number is limited.
        within, beyond: A change is within the limit if it is at most ``within``, and beyond it if it is above
            ``beyond``.
    """

    keys: Keys
    tested: Small
    first: Integers
    values: Integers
    tree: Small
    mask: Small
    name: Small
    members: Booleans
    portion: Floats
    is_set: Booleans
    offsets: Integers
    cumulative: Floats
    set_weights: Floats
    base: Integers
    above: Integers
    below: Integers
    pairs: Integers
    classes: int
    least: int
    is_difference: bool
    within: int
    beyond: int


class CellTests(NamedTuple):
    """Tests in terms of cells.

    Attributes:
        about: Attribute of each test, -1 if it is protected.
        edges: Cells from which the result of a test changes, one test after another.
        start: Start of each test's edges.
        left_first: Whether the cells before the first edge go left.
        bits: Cells that go left, for sets.
    """

    about: Integers
    edges: Integers
    start: Integers
    left_first: Booleans
    bits: Keys


class Paths(NamedTuple):
    """Paths from the roots of the trees, each with the cells and the assignments that take it.

    Attributes:
        node: Last node of each path.
        keys: Cells, shape (paths, attributes).
        mask: Number of the set of assignments.
    """

    node: Integers
    keys: Keys
    mask: Integers

    def select(self, rows: Booleans) -> Paths:
        """Select paths."""
        return Paths(self.node[rows], self.keys[rows], self.mask[rows])


def leaf_table_of(query: TreeQuery) -> LeafTable:
    """Collect the leaves of an ensemble.

    Raises:
        ModelError: There are too many leaves.
    """
    nodes = query.model.nodes
    tests, is_set = _cell_tests(query)
    flags = protected_flags(query.tests, query.schema, query.protected, query.assignments)
    masks: dict[bytes, int] = {np.ones(flags.shape[1], dtype=np.bool_).tobytes(): 0}
    last = query.counts.astype(np.int64) - 1
    full = np.where(is_set, set_key(0, last), range_key(0, last))
    # Invariant: the paths and the leaves of a tree partition the pairs of a point and an assignment.
    paths = Paths(nodes.offsets[:-1], np.tile(full, (nodes.trees, 1)), np.zeros(nodes.trees, dtype=np.int64))
    leaves: list[Paths] = []
    total = 0
    while len(paths.node):
        check_time()
        at_leaf = nodes.left[paths.node] < 0
        leaves.append(paths.select(at_leaf))
        total += len(leaves[-1].node)
        paths = _extend_paths(query, tests, is_set, flags, masks, paths.select(~at_leaf))
        if total + len(paths.node) > MAX_LEAVES:
            raise ModelError(
                f"the trees have more than {MAX_LEAVES:,} leaves",
                location=query.model.name,
                hint="train fewer or smaller trees",
            )
    whole = Paths(*map(np.concatenate, zip(*leaves, strict=True)))
    leaves.clear()  # of large forests, they take as much memory as all other tables
    return _build_table(query, whole, is_set, _members_of(masks))


def _members_of(masks: dict[bytes, int]) -> Booleans:
    """Return the assignments of each set, shape (masks, assignments)."""
    return np.frombuffer(b"".join(masks), dtype=np.bool_).reshape(len(masks), -1)


def _extend_paths(
    query: TreeQuery, tests: CellTests, is_set: Booleans, flags: Booleans, masks: dict[bytes, int], paths: Paths
) -> Paths:
    """Extend paths by one node, for all cells and assignments that continue.

    Args:
        query: Question.
        tests: Tests in terms of cells.
        is_set: Whether the keys of an attribute are sets.
        flags: Whether a test of a protected attribute sends an assignment left, shape (tests, assignments).
        masks: Numbers of the sets of assignments, which receive new sets.
        paths: Paths that end at inner nodes.
    """
    nodes, test = query.model.nodes, query.tests.of[paths.node]
    axis = tests.about[test]
    in_range = (axis >= 0) & ~np.append(is_set, False)[axis]
    # A path continues both left and right, and more than once where a test changes its answer at several cells.
    pieces = np.where(in_range, tests.start[test + 1] - tests.start[test] + 1, 2)
    parent = np.repeat(np.arange(len(test)), pieces)
    piece = np.arange(len(parent)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    test, axis, in_range, pieces = test[parent], axis[parent], in_range[parent], pieces[parent]
    node, keys, mask = paths.node[parent], paths.keys[parent], paths.mask[parent]
    left = (piece % 2 == 0) == (tests.left_first[test] | ~in_range)
    kept = np.ones(len(parent), dtype=np.bool_)

    rows = np.flatnonzero(in_range)
    key, edge = keys[rows, axis[rows]], tests.start[test[rows]] + piece[rows]
    first, last = (key & HALF).astype(np.int64), (key >> np.uint64(32)).astype(np.int64)
    first = np.where(piece[rows] > 0, np.maximum(first, tests.edges[edge - 1]), first)
    last = np.where(piece[rows] < pieces[rows] - 1, np.minimum(last, tests.edges[edge] - 1), last)
    kept[rows] = first <= last
    keys[rows, axis[rows]] = range_key(first, last)

    rows = np.flatnonzero((axis >= 0) & ~in_range)
    bits = tests.bits[test[rows]]
    keys[rows, axis[rows]] &= np.where(left[rows], bits, ~bits)
    kept[rows] = keys[rows, axis[rows]] != 0

    rows = np.flatnonzero(axis < 0)
    inside = _members_of(masks)[mask[rows]] & (flags[test[rows]] == left[rows, None])
    kept[rows] = inside.any(axis=1)
    sets, number = np.unique(inside, axis=0, return_inverse=True)
    mask[rows] = np.array([masks.setdefault(row.tobytes(), len(masks)) for row in sets], dtype=np.int64)[number.ravel()]

    return Paths(np.where(left, nodes.left[node], nodes.right[node]), keys, mask).select(kept)


def range_key(first: Integers | int, last: Integers | int) -> Keys:
    """Build the key of a range of cells."""
    return np.uint64(first) | (np.asarray(last).astype(np.uint64) << np.uint64(32))


def set_key(first: int, last: Integers) -> Keys:
    """Build the key of neighbouring cells as a set. For more than ``SET_CELLS`` cells, the result is meaningless."""
    width = np.minimum(last - first + 1, SET_CELLS).astype(np.uint64)
    ones = np.uint64(2**64 - 1) >> (np.uint64(64) - width)
    return np.asarray(ones << np.uint64(first))


def _cell_tests(query: TreeQuery) -> tuple[CellTests, Booleans]:
    """Describe the tests by cells and select the attributes whose keys are sets."""
    tests, number = query.tests, len(query.tests.node)
    about, left_first = np.full(number, -1, dtype=np.int64), np.zeros(number, dtype=np.bool_)
    bits, is_set = np.zeros(number, dtype=np.uint64), np.zeros(len(query.cells), dtype=np.bool_)
    edges: list[Integers] = [np.zeros(0, dtype=np.int64)] * number
    for i, cells in enumerate(query.cells):
        mine = np.flatnonzero(np.isin(tests.attribute, cells.columns))
        about[mine] = i
        for position, entries in zip(
            cells.columns, cells.values_of(cells.entry(np.arange(cells.count))).T, strict=True
        ):
            rows = mine[tests.attribute[mine] == position]
            for test, first, changes in tests.changes(rows, query.schema.attributes[position], entries):
                left_first[test] = first
                edges[test] = changes
        is_set[i] = cells.count <= SET_CELLS and any(len(edges[row]) > 1 for row in mine)
        if is_set[i]:
            for row in mine:
                left = (np.searchsorted(edges[row], np.arange(cells.count), side="right") % 2 == 0) == left_first[row]
                bits[row] = sum(1 << int(cell) for cell in np.flatnonzero(left))
    lengths = [len(cuts) for cuts in edges]
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return CellTests(about, np.concatenate([*edges, np.zeros(1, dtype=np.int64)]), start, left_first, bits), is_set


def _build_table(query: TreeQuery, leaves: Paths, is_set: Booleans, members: Booleans) -> LeafTable:
    nodes, margins = query.model.nodes, len(query.base)
    tree = np.searchsorted(nodes.offsets, leaves.node, side="right") - 1
    outputs, width = nodes.output[tree], nodes.values.shape[1]
    terms = np.zeros((len(tree), margins))
    for output in np.unique(outputs):
        rows = outputs == output
        terms[rows] = nodes.values[leaves.node[rows]] @ query.fold[output : output + width]
    order = np.lexsort((terms[:, 0], tree))
    name = np.unique(nodes.values[leaves.node[order]], axis=0, return_inverse=True)[1]
    values, base, above, below, scale = _scale_margins(query, terms[order], nodes.trees)
    limits = (0, 0) if query.limit is None else _scale_limit(query, query.limit, scale, nodes.trees)
    offsets = np.concatenate([[0], np.cumsum(query.counts + 1)]).astype(np.int64)
    cumulative, set_weights = weigh_cells(query.cells, is_set)
    keys, last = leaves.keys[order], query.counts.astype(np.int64) - 1
    tests = keys != np.where(is_set, set_key(0, last), range_key(0, last))
    return LeafTable(
        keys=keys,
        tested=np.broadcast_to(np.arange(len(last), dtype=np.int32), tests.shape)[tests],
        first=np.concatenate([[0], np.cumsum(tests.sum(axis=1))]),
        values=values,
        tree=tree[order].astype(np.int32),
        mask=leaves.mask[order].astype(np.int32),
        name=name.ravel().astype(np.int32),
        members=members,
        portion=members.mean(axis=1),
        is_set=is_set,
        offsets=offsets,
        cumulative=cumulative,
        set_weights=set_weights,
        base=base,
        above=above,
        below=below,
        pairs=query.pairs,
        classes=len(query.classes),
        least=query.least,
        is_difference=query.limit is not None,
        within=limits[0],
        beyond=limits[1],
    )


def weigh_cells(cells: Sequence[Cells], is_set: Booleans) -> tuple[Floats, Floats]:
    """Compute the fields ``cumulative`` and ``set_weights`` of a leaf table from the weights of the cells."""
    cumulative = [each.before(np.arange(each.count + 1)).astype(np.float64) for each in cells]
    set_weights = np.zeros((len(cells), 8, 256))
    for i in np.flatnonzero(is_set).tolist():
        weights = np.zeros(SET_CELLS)
        weights[: cells[i].count] = np.diff(cumulative[i])
        bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
        set_weights[i] = weights.reshape(8, 8) @ bits.T
    return np.concatenate([*cumulative, np.zeros(1)]), set_weights


def restrict_table(table: LeafTable, assignments: Integers, cells: Sequence[Cells]) -> LeafTable:
    """Keep the leaves that some assignments reach, and replace the weights of the cells."""
    members, tested = table.members[:, assignments], np.diff(table.first)
    kept = np.asarray(members.any(axis=1))[table.mask]
    cumulative, set_weights = weigh_cells(cells, table.is_set)
    return table._replace(
        keys=table.keys[kept],
        tested=table.tested[np.repeat(kept, tested)],
        first=np.concatenate([[0], np.cumsum(tested[kept])]),
        values=np.ascontiguousarray(table.values[:, kept]),
        tree=table.tree[kept],
        mask=np.where(members.all(axis=1), 0, np.arange(len(members), dtype=np.int32))[table.mask[kept]],
        name=table.name[kept],
        members=members,
        portion=members.mean(axis=1),
        cumulative=cumulative,
        set_weights=set_weights,
    )


def leaf_chances(table: LeafTable) -> Floats:
    """Compute the probability of each leaf in the whole domain, shape (leaves,)."""
    chances = np.ones(len(table.tree))
    for i, keys in enumerate(table.keys.T):
        before = table.cumulative[table.offsets[i] : table.offsets[i + 1]]
        if table.is_set[i]:
            weight = np.zeros(len(keys))
            for octet in range(8):
                weight += table.set_weights[i, octet, (keys >> np.uint64(8 * octet)) & np.uint64(255)]
        else:
            weight = before[(keys >> np.uint64(32)) + np.uint64(1)] - before[keys & HALF]
        chances *= weight / before[-1]
    return chances


def _scale_margins(
    query: TreeQuery, terms: Floats, trees: int
) -> tuple[Integers, Integers, Integers, Integers, Floats]:
    """Scale terms and starts to integers, with the thresholds of each margin and the scales."""
    scale = 2.0 ** (SCALE_BITS - np.ceil(np.log2(query.sizes)))
    values = np.rint(terms * scale).T.astype(np.int64)
    base = np.rint(query.base * scale).astype(np.int64)
    # The error of a float32 sigmoid may far exceed the sum of all leaves. No sum reaches the limit.
    away = np.ceil((query.slack + _folding_error(query, trees)) * scale)
    away = np.minimum(away, 2.0**60).astype(np.int64) + trees // 2 + 2
    above, below = away, -away
    # If nothing is rounded, the signs of a single tree decide, and zero means the first label.
    exact = query.slack == 0
    values[exact] = np.sign(terms.T[exact])
    return np.ascontiguousarray(values), base, np.where(exact, 0, above), np.where(exact, 1, below), scale


def _folding_error(query: TreeQuery, trees: int) -> Floats:
    """Bound the rounding of the terms themselves and of the start."""
    return np.asarray(2.0**-52 * (trees + 64) * query.sizes)


def _scale_limit(query: TreeQuery, limit: float, scale: Floats, trees: int) -> tuple[int, int]:
    reach = 2 * float(query.slack[0] + _folding_error(query, trees)[0]) + 2.0**-50 * limit
    low, high = (limit - reach) * scale[0], (limit + reach) * scale[0]
    # A number may exceed all sums of the leaves.
    low, high = min(low, 2.0**62), min(high, 2.0**62)
    return int(np.floor(low)) - trees - 2, int(np.ceil(high)) + trees + 2
