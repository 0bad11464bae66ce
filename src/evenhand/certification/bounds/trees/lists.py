"""Filter the leaves that a box reaches, and decide the box by their extreme values.

A box of cells owns the list of its leaves, tree by tree, with the probability of each inside the box. A part of the box
that is narrower in one attribute keeps the leaves whose key for this attribute meets the part; probabilities change by
a ratio. A tree with one value left for each assignment leaves the list, and its values are added to the base.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.leaves import SET_CELLS, LeafTable, leaf_chances, new_records
from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers

jit = compile_kernel(internal=True, nogil=True, error_model="numpy")

OPEN, FAIR, UNFAIR = 0, 1, 2
FAR = 1 << 61
"""Beyond all sums of values."""
MAX_DEPTH = 1024
"""Maximum number of splits in one call."""
MAX_LEVELS = 64
"""Maximum number of boxes around a box that share lists."""
TABLE_NUMBERS = 1 << 18
"""Maximum number of sums in a table."""
MAX_CORNERS = 1 << 14
"""Maximum number of corners of a leaf in a table."""
SPARE_ROOM = 1 << 16
"""Room for lists, beyond four times all leaves."""
TAILS = (0.003, 0.006, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.11, 0.15, 0.2, 0.27, 0.36, 0.5, 0.65)
"""Parts of a box in a tail, increasing."""


class TreeWorkspace(NamedTuple):
    """Work arrays of one thread. Numbers that belong together are fields of records; see ``tree_workspace_for``.

    Attributes:
        entries: Lists one after the other: leaves, and their probability in the box; the list of the whole domain
            comes at the start.
        levels: On the way down, place of each list, whether the base differs between assignments, and the split: its
            attribute and cell, the cells before, and the next part.
        base: Sums of the trees without a list entry, shape (depth, margins, assignments).
        bounds: Bounds on the margins of the last list, and of a tree, shape (margins, assignments).
        whole: Extreme values of a tree's leaves that all assignments reach, for each margin.
        rise: Bound on the number under one assignment minus that under another, shape (assignments, assignments).
        axes: Cells of the current box, the gain of all cuts, and the layout of a table, for each attribute.
        outer: First and last cells of the boxes around the current one, shape (levels, 2, attributes).
        waiting: Boxes that wait, from one number to another, and the number of boxes around them.
        cells: Effect of each cell on the margin, gain of a cut before it, whether it has a row of its own in a table,
            and its row.
        weight: Weight of the rows.
        table: Sums at the points.
        groups: Group and possible labels of each assignment; assignments that reach the same leaves are a group. An
            assignment, the size and the extreme bases of each group.
        corners: Corners of a leaf and their signs, in two buffers.
        moves: Rows and signs of the corners along one attribute.
        tails: Part of the box, sums of tail means, and the means of a tree under its worst assignment.
    """

    entries: NDArray[np.void]
    levels: NDArray[np.void]
    base: Integers
    bounds: NDArray[np.void]
    whole: NDArray[np.void]
    rise: Integers
    axes: NDArray[np.void]
    outer: Integers
    waiting: NDArray[np.void]
    cells: NDArray[np.void]
    weight: Floats
    table: Integers
    groups: NDArray[np.void]
    corners: NDArray[np.void]
    moves: NDArray[np.void]
    tails: NDArray[np.void]


def tree_workspace_for(table: LeafTable) -> TreeWorkspace:
    """Allocate the work arrays, with the list of all leaves."""
    n, leaves = table.keys.shape
    margins, assignments = len(table.margins), table.members.shape[1]
    cells = len(table.cumulative)
    work = TreeWorkspace(
        entries=new_records(4 * leaves + SPARE_ROOM, float64="chance", int32="leaf"),
        levels=new_records(MAX_DEPTH + 1, int64="start length axis cut old_low old_high part", bool_="differs"),
        base=np.zeros((MAX_DEPTH + 1, margins, assignments), dtype=np.int64),
        bounds=new_records((margins, assignments), int64="low high tree_low tree_high"),
        whole=new_records(margins, int64="low high"),
        rise=np.zeros((assignments, assignments), dtype=np.int64),
        axes=new_records(n, int64="low high axis rows stride", float64="total"),
        outer=np.zeros((MAX_LEVELS, 2, n), dtype=np.int64),
        waiting=new_records(MAX_LEVELS, int64="begin end level"),
        cells=new_records(cells, float64="effect gap", int64="row", bool_="single"),
        weight=np.zeros(cells),
        table=np.zeros(TABLE_NUMBERS, dtype=np.int64),
        groups=new_records(assignments, int64="group labels member size inside low high"),
        corners=new_records((2, MAX_CORNERS), int64="place sign"),
        moves=new_records(SET_CELLS + 1, int64="row sign"),
        tails=new_records(len(TAILS), float64="part low high free_low free_high tree_low tree_high"),
    )
    work.levels["length"][0] = leaves
    work.entries["leaf"][:leaves] = np.arange(leaves)
    work.entries["chance"][:leaves] = leaf_chances(table)
    work.base[0] = table.margins["base"][:, None]
    work.outer[0, 1] = table.axes["last"]
    work.tails["part"] = TAILS
    return work


@jit
def cells_between(f, i, lo, hi):
    """Build the key of neighbouring cells of an attribute."""
    if f.axes[i].is_set:
        return (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - hi + lo)) << np.uint64(lo)
    return np.uint64(lo) | (np.uint64(hi) << np.uint64(32))


@jit
def range_weight(f, i, lo, hi):
    """Compute the weight of neighbouring cells, exactly."""
    at = f.axes[i].start
    return f.cumulative[at + hi + 1] - f.cumulative[at + lo]


@jit
def meet(f, i, key, lo, hi, cells):
    """Check whether a leaf reaches some of the cells, and all of them; return the exact weight that it reaches, too."""
    if f.axes[i].is_set:
        part = key & cells
        if part == cells:
            return True, True, range_weight(f, i, lo, hi)
        weight, octet, reaches = 0.0, 0, part != np.uint64(0)
        while part:
            weight += f.set_weights[i, octet, part & np.uint64(255)]
            part >>= np.uint64(8)
            octet += 1
        return reaches, False, weight
    lower, upper = np.int64(key & np.uint64(0xFFFFFFFF)), np.int64(key >> np.uint64(32))
    if lower <= lo and upper >= hi:
        return True, True, range_weight(f, i, lo, hi)
    lower, upper = max(lower, lo), min(upper, hi)
    if lower > upper:
        return False, False, 0.0
    return True, False, range_weight(f, i, lower, upper)


@jit
def next_run(f, i, key, cell, hi):
    """Find the next run of a leaf's cells from a cell on: its first and last cell; beyond ``hi`` if there is none."""
    if not f.axes[i].is_set:
        lower, upper = np.int64(key & np.uint64(0xFFFFFFFF)), np.int64(key >> np.uint64(32))
        lower, upper = max(lower, cell), min(upper, hi)
        return (lower, upper) if lower <= upper else (hi + 1, hi)
    while cell <= hi and not has_cell(key, cell):
        cell += 1
    lower = cell
    while cell <= hi and has_cell(key, cell):
        cell += 1
    return lower, cell - 1


@jit
def has_cell(key, cell):
    """Check whether a cell is in a set."""
    return (key >> np.uint64(cell)) & np.uint64(1) != np.uint64(0)


@jit
def names_cells(key, cells):
    """Check whether a set is described by the cells inside, which are at most as many as those outside."""
    inside = outside = 0
    part, rest, unit = key & cells, cells & ~key, np.uint64(1)
    while part:
        part &= part - unit
        inside += 1
    while rest:
        rest &= rest - unit
        outside += 1
    return inside <= outside


@jit
def filter_leaves(f, w, source, depth, i, lo, hi, keep):
    """List the leaves that a part of a box reaches, and narrow the box to this part.

    Args:
        f, w: Leaves and work arrays; ``w.axes`` has the cells of the box.
        source, depth: Number of the box's list, and of the new one, whose place and base are set.
        i, lo, hi: Attribute and cells of the part.
        keep: Whether leaves without mass are kept.

    Returns:
        Whether the margins depend on the assignment.
    """
    margins, assignments = w.bounds.shape
    old_lo, old_hi = w.axes[i].low, w.axes[i].high
    cells, old = cells_between(f, i, lo, hi), cells_between(f, i, old_lo, old_hi)
    mass, old_mass = range_weight(f, i, lo, hi), range_weight(f, i, old_lo, old_hi)
    ratio = old_mass / mass if mass > 0 else 0.0
    w.axes[i].low, w.axes[i].high = lo, hi
    base = w.base[depth]
    for p in range(assignments):
        for m in range(margins):
            w.bounds[m, p].low = w.bounds[m, p].high = 0
        if f.is_difference:
            for q in range(assignments):
                w.rise[p, q] = 0
    k, out = w.levels[source].start, w.levels[depth].start
    end = k + w.levels[source].length
    differs, varies = w.levels[source].differs, False
    # Invariant: each margin under each assignment is its base, plus the trees listed so far between low and high, plus
    # the trees that are not reached yet. The new list may overwrite the old one, since it is never ahead of it.
    while k < end:
        tree, begin = f.leaves[w.entries[k].leaf].tree, out
        some_whole = some_partial = mixed = False
        name = -1
        for m in range(margins):
            w.whole[m].low, w.whole[m].high = FAR, -FAR
            for p in range(assignments):
                w.bounds[m, p].tree_low, w.bounds[m, p].tree_high = FAR, -FAR
        while k < end and f.leaves[w.entries[k].leaf].tree == tree:
            leaf, chance = w.entries[k].leaf, w.entries[k].chance
            k += 1
            key = f.keys[i, leaf]
            reaches, _, weight = meet(f, i, key, lo, hi, cells)
            # A leaf without mass may be left out.
            if not reaches or (weight == 0.0 and not keep):
                continue
            _, everything, old_weight = meet(f, i, key, old_lo, old_hi, old)
            if not everything:
                chance = chance * (weight / old_weight * ratio) if old_weight > 0 else 0.0
            w.entries[out].leaf, w.entries[out].chance = leaf, chance
            out += 1
            mask = f.leaves[leaf].mask
            if mask == 0:
                some_whole = True
                for m in range(margins):
                    value, whole = f.values[m, leaf], w.whole[m]
                    whole.low, whole.high = min(whole.low, value), max(whole.high, value)
                continue
            mixed |= some_partial and f.leaves[leaf].name != name
            some_partial, name = True, f.leaves[leaf].name
            for p in range(assignments):
                if f.members[mask, p]:
                    for m in range(margins):
                        value, bound = f.values[m, leaf], w.bounds[m, p]
                        bound.tree_low = min(bound.tree_low, value)
                        bound.tree_high = max(bound.tree_high, value)
        constant = True
        for m in range(margins):
            for p in range(assignments):
                whole, bound = w.whole[m], w.bounds[m, p]
                constant &= min(bound.tree_low, whole.low) == max(bound.tree_high, whole.high)
        # If all assignments reach the same leaf of a tree everywhere, differences do not depend on the tree.
        common = f.is_difference and not some_partial
        if constant or common:
            out = begin
        differs |= mixed and constant
        varies |= mixed and not constant
        if common:
            continue
        if f.is_difference and not constant:
            # Where the tree depends on the assignment, its change is between these; elsewhere it is zero.
            for p in range(assignments):
                for q in range(assignments):
                    if p != q:
                        rise = w.bounds[0, p].tree_high - w.bounds[0, q].tree_low
                        w.rise[p, q] += max(rise, 0) if some_whole else rise
        for m in range(margins):
            for p in range(assignments):
                whole, bound = w.whole[m], w.bounds[m, p]
                if constant:
                    base[m, p] += min(bound.tree_low, whole.low)
                else:
                    bound.low += min(bound.tree_low, whole.low)
                    bound.high += max(bound.tree_high, whole.high)
    for p in range(assignments):
        for m in range(margins):
            w.bounds[m, p].low += base[m, p]
            w.bounds[m, p].high += base[m, p]
        if f.is_difference:
            for q in range(assignments):
                w.rise[p, q] += base[0, p] - base[0, q]
    w.levels[depth].differs = differs
    w.levels[depth].length = out - w.levels[depth].start
    return differs or varies


@jit
def decide_box(f, w, depends):
    """Decide the box of the last list, from the bounds on its margins."""
    # The margin of labels (a, b) excludes a above one threshold, and b below another, for the deployed model too. FAIR:
    # one label is left, the same under all assignments. UNFAIR: two assignments have no possible label in common.
    if not depends:
        return FAIR
    if not f.is_difference:
        return decide_margins(f, w)
    assignments, small = len(w.rise), True
    for p in range(assignments):
        for q in range(assignments):
            small &= w.rise[p, q] <= f.within
            if -w.rise[p, q] > f.beyond:
                return UNFAIR
    return FAIR if small else OPEN


@jit
def decide_margins(f, w):
    """Decide from the bounds on the margins under each assignment."""
    margins, assignments = w.bounds.shape
    everywhere, anywhere, certain, unsure = (1 << f.classes) - 1, 0, 0, 0
    for p in range(assignments):
        labels = (1 << f.classes) - 1
        for m in range(margins):
            if w.bounds[m, p].low > f.margins[m].above:
                labels &= ~(1 << f.margins[m].first)
            if w.bounds[m, p].high < f.margins[m].below:
                labels &= ~(1 << f.margins[m].second)
        w.groups[p].labels = labels
        everywhere &= labels
        anywhere |= labels
        if labels & (labels - 1) == 0:
            certain |= labels
        else:
            unsure += 1
    if unsure == 0 and anywhere & (anywhere - 1) == 0:
        return FAIR
    if f.least == 2:
        if everywhere == 0:
            for p in range(assignments):
                for q in range(p):
                    if w.groups[p].labels & w.groups[q].labels == 0:
                        return UNFAIR
        return OPEN
    # At least as many labels occur as are alone somewhere; at most all that are left anywhere, or one more
    # than these for every assignment that is left several.
    possible = fewest = 0
    for k in range(f.classes):
        possible += (anywhere >> k) & 1
        fewest += (certain >> k) & 1
    if fewest >= f.least:
        return UNFAIR
    return FAIR if min(possible, fewest + unsure) < f.least else OPEN
