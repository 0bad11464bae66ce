"""Leaves of an ensemble as boxes of cells, each with its value and the protected assignments that reach it.

A leaf keeps one key for each unprotected attribute: a range of cells, or, for values in no useful order, a set of up to
64 cells as bits. Tests of protected attributes do not multiply leaves; they restrict the assignments that reach them.
Values are scaled to integers, so that sums are exact in any order: with scale s, a sum of t values differs from the
margin by at most (t + 1) / (2 s), which the thresholds of the decision include.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.differences import TreeDifferenceQuery
from evenhand.certification.bounds.trees.question import TreeQuery, protected_flags
from evenhand.core.kernels import compile_kernel
from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import ModelError

Keys = NDArray[np.uint64]
Small = NDArray[np.int32]

MAX_LEAVES = 6_000_000
"""Maximum number of leaves, to limit memory."""
SCALE_BITS = 52
"""Scaled sums stay below two to the power of this, so that a float64 holds each value exactly."""
SET_CELLS = 64
"""Maximum number of cells of an attribute whose keys are sets."""


class LeafTable(NamedTuple):
    """Leaves of all trees, tree by tree, for compiled kernels.

    Attributes:
        keys: Cells of each leaf, shape (attributes, leaves): first and last cell in the lower and upper half, or bits.
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
        above, below: A margin means its second label above ``above``, and its first label below ``below``.
        pairs: Labels of each margin.
        classes, least: Number of labels, and of different labels that count as unfair.
        is_difference: Whether the change of a number is limited.
        within, beyond: A change is within the limit if it is at most ``within``, and beyond it if it is above
            ``beyond``.
    """

    keys: Keys
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
        edges: Cells from which a test changes its answer, test after test.
        start: Start of each test's edges.
        left_first: Whether the cells before the first edge go left.
        bits: Cells that go left, for sets.
    """

    about: Integers
    edges: Integers
    start: Integers
    left_first: Booleans
    bits: Keys


def leaf_table_of(query: TreeQuery) -> LeafTable:
    """Collect the leaves of an ensemble.

    Raises:
        ModelError: The leaves are too many to hold.
    """
    nodes, tests = query.ensemble.nodes, query.tests
    cell_tests, is_set = _cell_tests(query)
    flags = protected_flags(tests, query.schema, query.protected, query.assignments)
    counts = query.counts.astype(np.int64)
    full = np.where(is_set, set_key(0, counts - 1), range_key(0, counts - 1))
    masks: dict[bytes, int] = {np.ones(flags.shape[1], dtype=np.bool_).tobytes(): 0}
    parts: list[tuple[Keys, Integers, Small]] = []
    total = 0
    for tree in range(nodes.trees):
        check_time()
        begin, end = int(nodes.offsets[tree]), int(nodes.offsets[tree + 1])
        room, count = (end - begin) // 2 + 2, -1
        while count < 0:
            keys, reached, members, count = collect_leaves(
                nodes.left, nodes.right, tests.of, begin, cell_tests, is_set, flags, full, room
            )
            room *= 2
        kinds, kind = np.unique(members[:count], axis=0, return_inverse=True)
        numbers = np.array([masks.setdefault(row.tobytes(), len(masks)) for row in kinds], dtype=np.int32)
        parts.append((keys[:count].copy(), reached[:count].copy(), numbers[kind.ravel()]))
        total += count
        if total > MAX_LEAVES:
            raise ModelError(
                f"the trees have more than {MAX_LEAVES:,} leaves",
                location=query.ensemble.name,
                hint="train fewer or smaller trees",
            )
    return _join_trees(query, parts, is_set, np.frombuffer(b"".join(masks), dtype=np.bool_).reshape(len(masks), -1))


def range_key(first: Integers | int, last: Integers | int) -> Keys:
    """Build the key of a range of cells."""
    return np.uint64(first) | (np.asarray(last).astype(np.uint64) << np.uint64(32))


def set_key(first: int, last: Integers) -> Keys:
    """Build the key of neighbouring cells as a set. Above ``SET_CELLS`` cells, the result has no meaning."""
    width = np.minimum(last - first + 1, SET_CELLS).astype(np.uint64)
    ones = np.uint64(2**64 - 1) >> (np.uint64(64) - width)
    return np.asarray(ones << np.uint64(first))


def _cell_tests(query: TreeQuery) -> tuple[CellTests, Booleans]:
    """Describe the tests by cells, and decide which attributes have keys that are sets."""
    tests, number = query.tests, len(query.tests.node)
    about, left_first = np.full(number, -1, dtype=np.int64), np.zeros(number, dtype=np.bool_)
    bits, is_set = np.zeros(number, dtype=np.uint64), np.zeros(len(query.cells), dtype=np.bool_)
    edges: list[Integers] = [np.zeros(0, dtype=np.int64)] * number
    for i, cells in enumerate(query.cells):
        mine = np.flatnonzero(tests.attribute == cells.position)
        about[mine] = i
        attribute, entries = query.schema.attributes[cells.position], cells.entry(np.arange(cells.count))
        for test, first, changes in tests.changes(mine, attribute, entries):
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


@compile_kernel(nogil=True)
def collect_leaves(left, right, of, root, tests, is_set, flags, full, room):
    """Collect the leaves of a tree that some cell and some assignment reach.

    Args:
        left, right, of: Children and test of each node.
        root: Node where the tree starts.
        tests: Tests in terms of cells.
        is_set: Whether the keys of an attribute are sets.
        flags: Whether a test of a protected attribute sends an assignment left, shape (tests, assignments).
        full: Keys of all cells.
        room: Maximum number of leaves.

    Returns:
        Keys, node and assignments of each leaf, and the number of leaves; -1 if there are more than ``room``.
    """
    # Depth first. Invariant: the entries of the stack and the leaves partition the pairs of a point and an assignment.
    n, assignments = len(full), flags.shape[1]
    keys = np.empty((room, n), np.uint64)
    reached = np.empty(room, np.int64)
    members = np.empty((room, assignments), np.bool_)
    depth = 256
    nodes = np.empty(depth, np.int64)
    waiting = np.empty((depth, n), np.uint64)
    allowed = np.empty((depth, assignments), np.bool_)
    nodes[0] = root
    waiting[0] = full
    allowed[0] = True
    top, count = 1, 0
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    while top:
        top -= 1
        node = nodes[top]
        key, who = waiting[top].copy(), allowed[top].copy()
        if left[node] < 0:
            if count == room:
                return keys, reached, members, -1
            keys[count] = key
            reached[count] = node
            members[count] = who
            count += 1
            continue
        test = of[node]
        i = tests.about[test]
        pieces = 2 if i < 0 or is_set[i] else tests.start[test + 1] - tests.start[test] + 1
        if top + pieces >= depth:
            extra = depth + pieces
            depth += extra
            nodes = np.concatenate((nodes, np.empty(extra, np.int64)))
            waiting = np.concatenate((waiting, np.empty((extra, n), np.uint64)))
            allowed = np.concatenate((allowed, np.empty((extra, assignments), np.bool_)))
        for piece in range(pieces):
            goes_left = (piece % 2 == 0) == tests.left_first[test] if i >= 0 and not is_set[i] else piece == 0
            nodes[top] = left[node] if goes_left else right[node]
            waiting[top] = key
            allowed[top] = who
            some = True
            if i < 0:
                some = False
                for p in range(assignments):
                    allowed[top, p] = who[p] and flags[test, p] == goes_left
                    some |= allowed[top, p]
            elif is_set[i]:
                waiting[top, i] = key[i] & (tests.bits[test] if goes_left else ~tests.bits[test])
                some = waiting[top, i] != np.uint64(0)
            else:
                first, last = key[i] & low, key[i] >> high
                at = tests.start[test] + piece
                if piece > 0:
                    first = max(first, np.uint64(tests.edges[at - 1]))
                if piece < pieces - 1:
                    last = min(last, np.uint64(tests.edges[at] - 1))
                waiting[top, i] = first | (last << high)
                some = first <= last
            if some:
                top += 1
    return keys, reached, members, count


def _join_trees(
    query: TreeQuery, parts: list[tuple[Keys, Integers, Small]], is_set: Booleans, members: Booleans
) -> LeafTable:
    nodes, margins = query.ensemble.nodes, len(query.base)
    tree = np.repeat(np.arange(len(parts), dtype=np.int32), [len(reached) for _, reached, _ in parts])
    reached = np.concatenate([reached for _, reached, _ in parts])
    outputs, width = nodes.output[tree], nodes.values.shape[1]
    terms = np.zeros((len(reached), margins))
    for output in np.unique(outputs):
        rows = outputs == output
        terms[rows] = nodes.values[reached[rows]] @ query.fold[output : output + width]
    order = np.lexsort((terms[:, 0], tree))
    keys = np.concatenate([keys for keys, _, _ in parts])[order].T.copy()
    mask = np.concatenate([mask for _, _, mask in parts])[order]
    name = np.unique(nodes.values[reached[order]], axis=0, return_inverse=True)[1].ravel().astype(np.int32)
    values, base, above, below, scale = _scale_margins(query, terms[order], len(parts))
    limits = _scale_limit(query, scale, len(parts)) if isinstance(query, TreeDifferenceQuery) else (0, 0)
    offsets = np.concatenate([[0], np.cumsum(query.counts + 1)]).astype(np.int64)
    cumulative = [cells.before(np.arange(cells.count + 1)).astype(np.float64) for cells in query.cells]
    set_weights = np.zeros((len(query.cells), 8, 256))
    for i in np.flatnonzero(is_set):
        weights = np.zeros(SET_CELLS)
        weights[: query.counts[i]] = np.diff(cumulative[i])
        bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
        set_weights[i] = weights.reshape(8, 8) @ bits.T
    return LeafTable(
        keys=keys,
        values=values,
        tree=tree,
        mask=mask,
        name=name,
        members=members,
        portion=members.mean(axis=1),
        is_set=is_set,
        offsets=offsets,
        cumulative=np.concatenate([*cumulative, np.zeros(1)]),
        set_weights=set_weights,
        base=base,
        above=above,
        below=below,
        pairs=query.pairs,
        classes=len(query.classes),
        least=query.least,
        is_difference=isinstance(query, TreeDifferenceQuery),
        within=limits[0],
        beyond=limits[1],
    )


def _scale_margins(
    query: TreeQuery, terms: Floats, trees: int
) -> tuple[Integers, Integers, Integers, Integers, Floats]:
    """Scale terms and starts to integers, with the thresholds of each margin and the scales."""
    scale = 2.0 ** (SCALE_BITS - np.ceil(np.log2(query.sizes)))
    values = np.rint(terms * scale).T.astype(np.int64)
    base = np.rint(query.base * scale).astype(np.int64)
    # A float32 sigmoid may err by far more than all leaves together. No sum reaches the limit.
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


def _scale_limit(query: TreeDifferenceQuery, scale: Floats, trees: int) -> tuple[int, int]:
    reach = 2 * float(query.slack[0] + _folding_error(query, trees)[0]) + 2.0**-50 * query.limit
    low, high = (query.limit - reach) * scale[0], (query.limit + reach) * scale[0]
    # A number may be larger than all sums of the leaves.
    low, high = min(low, 2.0**62), min(high, 2.0**62)
    return int(np.floor(low)) - trees - 2, int(np.ceil(high)) + trees + 2
