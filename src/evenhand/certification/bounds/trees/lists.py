"""Filter the leaves that a box reaches and decide the box from their extreme values.

A box of cells has a list of its leaves, tree by tree, with the probability of each within the box. A part of the box
that is narrower in one attribute keeps the leaves whose key for this attribute meets the part; probabilities change by
a ratio. A tree with one value left for each assignment leaves the list, and its values are added to the base.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.certification.bounds.trees.leaves import SET_CELLS, LeafTable, leaf_chances
from evenhand.core.kernels import array_table, compile_kernel, new_arrays

# Without Numba's runtime, these functions cannot allocate arrays, but do not count references to the arrays that they
# are given, which would take most of the time of short loops.
jit = compile_kernel(internal=True, nogil=True, error_model="numpy", _nrt=False)


OPEN, FAIR, UNFAIR = 0, 1, 2
FAR = 1 << 61
"""Number greater than all sums of values."""
MAX_DEPTH = 1024
"""Maximum number of splits in one call."""
TABLE_NUMBERS = 1 << 18
"""Maximum number of sums in a table."""
MAX_CORNERS = 1 << 14
"""Maximum number of corners of a leaf in a table."""
SPARE_ROOM = 1 << 16
"""Capacity for lists, in addition to four times the number of leaves."""
GRID, MAX_AXES, MAX_PAIRED, MAX_KINDS, MAX_RATIOS = 256, 64, 2048, 1024, 1 << 18
"""For variances: number of steps of the grid; maximum number of tested attributes, of leaves, of different keys of an
attribute, and of pairs of keys."""


TreeWorkspace = array_table(
    "TreeWorkspace",
    __name__,
    {
        # Concatenated lists of leaves, and their probability in the box. The list of the whole domain comes first.
        "leaf": "int32 room",
        "chance": "float64 room",
        # Start and length of the list at each depth.
        "start length": "int64 depths",
        # Sums of the trees without a list entry, and whether these differ between the assignments.
        "base": "int64 depths margins assignments",
        "differs": "bool depths",
        # Attribute and cell of each split, its cells before, and the next part.
        "split cut old_low old_high side": "int64 depths",
        # Mass and proved shares of a split box; number of boxes in the output, and mass decided, before its parts.
        "proved": "float64 depths 3",
        "output": "int64 depths",
        "before": "float64 depths 2",
        # Bounds on the margins of the last list, and of a tree; range of its leaves that all assignments reach.
        "low high tree_low tree_high": "int64 margins assignments",
        "whole": "int64 margins 2",
        # Bound on the number under one assignment minus that under another.
        "rise": "int64 assignments assignments",
        # Cells of the current box, of the part that is entered, and of the boxes around it.
        "lo hi": "int64 attributes",
        "inner": "int64 2 attributes",
        "outer": "int64 64 2 attributes",
        # Attributes in which a part differs from its box; keys of the cells of both, and quotient of their weights.
        "changed": "int64 attributes",
        "part whole_box": "uint64 attributes",
        "ratio": "float64 attributes",
        # Effect of each cell on the margin, and gain of a cut before it; gain of all cuts of each attribute.
        "effect gap": "float64 cells",
        "total": "float64 attributes",
        # Attributes of a table, with their sizes and strides.
        "axis size": "int64 attributes",
        "stride": "int64 attributes",
        # Whether a cell of a set has a separate row in a table, by attribute as bits, and by cell; row of each cell,
        # weight of the rows, and sums.
        "named": "uint64 attributes",
        "single": "bool cells",
        "place": "int64 cells",
        "weight": "float64 cells",
        "table": "int64 sums",
        # Group of assignments that reach the same leaves, an assignment and the number of each group; possible labels.
        "group member size_of inside labels": "int64 assignments",
        # Corners of a leaf, in two buffers; rows and signs of the corners along one attribute.
        "corner sign": "int64 2 corners",
        "move turn": "int64 moves",
        # Start of each tree in a list, then the end; whether the tree depends on the assignment.
        "tree_start": "int64 trees",
        "is_partial": "bool trees",
        # Number of the attributes that a leaf tests in the box; probability of the leaf, its product with the value,
        # groups of assignments that reach it, as bits, and their portion; leaves that not all groups reach.
        "tests reached partial": "int64 paired",
        "likely term portion": "float64 paired",
        # Row of each tested attribute. By row: number of different keys, keys within the box, and shares of their
        # cells; number of leaves that test it, these leaves and the number of their key.
        "row": "int64 attributes",
        "kinds users done place_of": "int64 axes",
        "key": "uint64 axes kinds",
        "share": "float64 axes kinds",
        "user kind": "int32 axes paired",
        # Probability that an attribute agrees with two keys, divided by those that it agrees with each. Product and sum
        # over the attributes that a leaf and each other leaf test, and sums of their covariances.
        "agree": "float64 ratios",
        "product excess sum_of": "float64 paired",
        # Mean of each group of assignments; distributions of one attribute's steps and of their sum.
        "mean": "float64 assignments",
        "steps grid": "float64 bins",
    },
)
"""Work arrays of one thread."""


def tree_workspace_for(table: LeafTable) -> Any:
    """Allocate the work arrays, with the list of all leaves."""
    leaves, attributes = table.keys.shape
    work = new_arrays(
        TreeWorkspace,
        room=4 * leaves + SPARE_ROOM,
        depths=MAX_DEPTH + 1,
        margins=len(table.base),
        assignments=table.members.shape[1],
        attributes=attributes,
        cells=int(table.offsets[-1]) + 1,
        sums=TABLE_NUMBERS,
        corners=MAX_CORNERS,
        moves=SET_CELLS + 1,
        trees=int(table.tree[-1]) + 2,
        paired=max(MAX_KINDS, min(leaves, MAX_PAIRED)),
        axes=min(attributes, MAX_AXES),
        kinds=MAX_KINDS,
        ratios=MAX_RATIOS,
        bins=GRID + MAX_AXES + 2,
    )
    work.length[0] = leaves
    work.base[0] = table.base[:, None]
    work.outer[0, 1] = np.diff(table.offsets) - 2
    work.leaf[:leaves], work.chance[:leaves] = np.arange(leaves), leaf_chances(table)
    return work


@jit
def cells_between(f, i, lo, hi):
    """Build the key of neighbouring cells of an attribute."""
    if f.is_set[i]:
        return (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - hi + lo)) << np.uint64(lo)
    return np.uint64(lo) | (np.uint64(hi) << np.uint64(32))


@jit
def range_weight(f, i, lo, hi):
    """Compute the weight of neighbouring cells, exactly."""
    at = f.offsets[i]
    return f.cumulative[at + hi + 1] - f.cumulative[at + lo]


@jit
def meet(f, i, key, lo, hi, cells):
    """Check whether a leaf reaches some of the cells, and all of them; also return the exact weight that it reaches."""
    if f.is_set[i]:
        part = key & cells
        if part == cells:
            return True, True, range_weight(f, i, lo, hi)
        return part != np.uint64(0), False, weight_of(f, i, part)
    lower, upper = np.int64(key & np.uint64(0xFFFFFFFF)), np.int64(key >> np.uint64(32))
    if lower <= lo and upper >= hi:
        return True, True, range_weight(f, i, lo, hi)
    lower, upper = max(lower, lo), min(upper, hi)
    if lower > upper:
        return False, False, 0.0
    return True, False, range_weight(f, i, lower, upper)


@jit
def common_cells(f, i, key, other):
    """Build the key of the cells that two keys share; for ranges without any, its first cell is after its last."""
    if f.is_set[i]:
        return key & other
    half = np.uint64(0xFFFFFFFF)
    return max(key & half, other & half) | (min(key, other) >> np.uint64(32) << np.uint64(32))


@jit
def weight_of(f, i, key):
    """Compute the weight of the cells of a key, exactly."""
    lower, upper = np.int64(key & np.uint64(0xFFFFFFFF)), np.int64(key >> np.uint64(32))
    if not f.is_set[i]:
        return range_weight(f, i, lower, upper) if lower <= upper else 0.0
    weight, octet = 0.0, 0
    while key:
        weight += f.set_weights[i, octet, key & np.uint64(255)]
        key >>= np.uint64(8)
        octet += 1
    return weight


@jit
def next_run(f, i, key, cell, hi):
    """Find the first and last cell of a leaf's next run of cells from a cell on; beyond ``hi`` if there is none."""
    if not f.is_set[i]:
        lower, upper = np.int64(key & np.uint64(0xFFFFFFFF)), np.int64(key >> np.uint64(32))
        lower, upper = max(lower, cell), min(upper, hi)
        return (lower, upper) if lower <= upper else (hi + 1, hi)
    unit = np.uint64(1)
    while cell <= hi and not (key >> np.uint64(cell)) & unit:
        cell += 1
    lower = cell
    while cell <= hi and (key >> np.uint64(cell)) & unit:
        cell += 1
    return lower, cell - 1


@jit
def count_bits(bits):
    """Count the bits that are set, in pairs, then in groups of four and eight (Warren 2012, chapter 5)."""
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * np.uint64(0x0101010101010101)) >> np.uint64(56)


@jit
def names_cells(key, cells):
    """Check whether a set is described by the cells inside, which are at most as many as those outside."""
    return count_bits(key & cells) <= count_bits(cells & ~key)


@jit
def filter_leaves(f, w, source, depth, changes, keep):
    """List the leaves that a part of a box reaches.

    Args:
        f, w: Leaves and work arrays; ``w.lo`` and ``w.hi`` are the cells of the box, and ``w.inner`` those of the part
            for the first attributes in ``w.changed``. Other attributes are the same.
        source, depth: Number of the box's list, and of the new one, whose place is set.
        changes: Number of attributes whose cells differ.
        keep: Whether leaves without mass are kept.

    Returns:
        Whether the margins depend on the assignment.
    """
    margins, assignments = w.low.shape
    for c in range(changes):
        i = w.changed[c]
        lo, hi = w.inner[0, i], w.inner[1, i]
        w.part[c], w.whole_box[c] = cells_between(f, i, lo, hi), cells_between(f, i, w.lo[i], w.hi[i])
        mass, old_mass = range_weight(f, i, lo, hi), range_weight(f, i, w.lo[i], w.hi[i])
        w.ratio[c] = old_mass / mass if mass > 0 else 0.0
    base = w.base[depth]
    for p in range(assignments):
        for m in range(margins):
            w.low[m, p] = w.high[m, p] = 0
            base[m, p] = w.base[source, m, p]
        for q in range(assignments if f.is_difference else 0):
            w.rise[p, q] = 0
    k, out = w.start[source], w.start[depth]
    end = k + w.length[source]
    differs, varies = w.differs[source], False
    # Invariant: each margin under each assignment is its base, plus the trees listed so far between low and high, plus
    # the trees that are not reached yet. The new list may overwrite the old one because writing never overtakes
    # reading.
    while k < end:
        tree, begin = f.tree[w.leaf[k]], out
        some_whole = some_partial = mixed = False
        name = lowest = highest = -1
        for m in range(1, margins):
            w.whole[m, 0] = FAR
            w.whole[m, 1] = -FAR
        while k < end and f.tree[w.leaf[k]] == tree:
            leaf, chance = w.leaf[k], w.chance[k]
            k += 1
            listed = True
            for c in range(changes):
                i = w.changed[c]
                key, lo, hi, cells, old = f.keys[leaf, i], w.inner[0, i], w.inner[1, i], w.part[c], w.whole_box[c]
                if f.is_set[i]:
                    listed, everything = key & cells != np.uint64(0), key & old == old
                else:
                    lower, upper = np.int64(key & np.uint64(0xFFFFFFFF)), np.int64(key >> np.uint64(32))
                    listed, everything = lower <= hi and upper >= lo, lower <= w.lo[i] and upper >= w.hi[i]
                if listed and not everything:
                    _, _, weight = meet(f, i, key, lo, hi, cells)
                    # A leaf without mass may be omitted.
                    listed = weight > 0.0 or keep
                    _, _, old_weight = meet(f, i, key, w.lo[i], w.hi[i], old)
                    chance = chance * (weight / old_weight * w.ratio[c]) if old_weight > 0 else 0.0
                if not listed:
                    break
            if not listed:
                continue
            w.leaf[out] = leaf
            w.chance[out] = chance
            out += 1
            mask = f.mask[leaf]
            if mask == 0:
                some_whole = True
                # Leaves are listed in the order of their values for the first margin.
                lowest, highest = leaf if lowest < 0 else lowest, leaf
                for m in range(1, margins):
                    w.whole[m, 0] = min(w.whole[m, 0], f.values[m, leaf])
                    w.whole[m, 1] = max(w.whole[m, 1], f.values[m, leaf])
                continue
            if not some_partial:
                some_partial = True
                name = f.name[leaf]
                for m in range(margins):
                    for p in range(assignments):
                        w.tree_low[m, p] = FAR
                        w.tree_high[m, p] = -FAR
            mixed |= f.name[leaf] != name
            for p in range(assignments):
                if f.members[mask, p]:
                    for m in range(margins):
                        w.tree_low[m, p] = min(w.tree_low[m, p], f.values[m, leaf])
                        w.tree_high[m, p] = max(w.tree_high[m, p], f.values[m, leaf])
        w.whole[0, 0] = f.values[0, lowest] if some_whole else FAR
        w.whole[0, 1] = f.values[0, highest] if some_whole else -FAR
        if not some_partial:
            # All assignments reach the same leaf of this tree everywhere, so differences do not depend on it.
            constant = f.is_difference
            if not constant:
                constant = True
                for m in range(margins):
                    constant &= w.whole[m, 0] == w.whole[m, 1]
            for m in range(margins):
                for p in range(assignments):
                    if f.is_difference:
                        continue
                    if constant:
                        base[m, p] += w.whole[m, 0]
                    else:
                        w.low[m, p] += w.whole[m, 0]
                        w.high[m, p] += w.whole[m, 1]
            if constant:
                out = begin
            continue
        constant = True
        for m in range(margins):
            for p in range(assignments):
                constant &= w.tree_low[m, p] == w.tree_high[m, p]
                if some_whole:
                    constant &= w.whole[m, 0] == w.tree_low[m, p] and w.whole[m, 1] == w.tree_low[m, p]
        if f.is_difference and not constant:
            # Where the tree depends on the assignment, its change is within these bounds; elsewhere it is zero.
            for p in range(assignments):
                for q in range(assignments):
                    if p != q:
                        rise = w.tree_high[0, p] - w.tree_low[0, q]
                        w.rise[p, q] += max(rise, 0) if some_whole else rise
        if some_whole:
            for m in range(margins):
                for p in range(assignments):
                    w.tree_low[m, p] = min(w.tree_low[m, p], w.whole[m, 0])
                    w.tree_high[m, p] = max(w.tree_high[m, p], w.whole[m, 1])
        if constant:
            differs |= mixed
            out = begin
        else:
            varies |= mixed
        for m in range(margins):
            for p in range(assignments):
                if constant:
                    base[m, p] += w.tree_low[m, p]
                else:
                    w.low[m, p] += w.tree_low[m, p]
                    w.high[m, p] += w.tree_high[m, p]
    for m in range(margins):
        for p in range(assignments):
            w.low[m, p] += base[m, p]
            w.high[m, p] += base[m, p]
    if f.is_difference:
        for p in range(assignments):
            for q in range(assignments):
                w.rise[p, q] += base[0, p] - base[0, q]
    w.differs[depth] = differs
    w.length[depth] = out - w.start[depth]
    return differs or varies


@jit
def decide_box(f, w, depends):
    """Decide the box of the last list, from the bounds on its margins."""
    # The margin of labels (a, b) excludes a above one threshold, and b below another, for the deployed model too. FAIR:
    # the same single label is left under all assignments. UNFAIR: two assignments have no possible label in common.
    if not depends:
        return FAIR
    assignments = len(w.rise)
    if f.is_difference:
        small = True
        for p in range(assignments):
            for q in range(assignments):
                small &= w.rise[p, q] <= f.within
                if -w.rise[p, q] > f.beyond:
                    return UNFAIR
        return FAIR if small else OPEN
    return decide_margins(f, w.low, w.high, w.labels)


@jit
def decide_margins(f, low, high, labels):
    """Decide from bounds on the margins under each assignment, shape (margins, assignments)."""
    for p in range(len(labels)):
        labels[p] = (1 << f.classes) - 1
        for m in range(len(low)):
            if low[m, p] > f.above[m]:
                labels[p] &= ~(1 << f.pairs[m, 0])
            if high[m, p] < f.below[m]:
                labels[p] &= ~(1 << f.pairs[m, 1])
    everywhere, same = labels[0], True
    for p in range(len(labels)):
        everywhere &= labels[p]
        same &= labels[p] == labels[0]
    if same and labels[0] & (labels[0] - 1) == 0:
        return FAIR
    if f.least == 2:
        if everywhere == 0:
            for p in range(len(labels)):
                for q in range(p):
                    if labels[p] & labels[q] == 0:
                        return UNFAIR
        return OPEN
    # The number of labels that are the only possible one somewhere is a lower bound. The number of possible labels is
    # an upper bound, as is the previous number plus one per assignment with several possible labels.
    union = certain = unsure = 0
    for p in range(len(labels)):
        union |= labels[p]
        if labels[p] & (labels[p] - 1) == 0:
            certain |= labels[p]
        else:
            unsure += 1
    possible = fewest = 0
    for k in range(f.classes):
        possible += (union >> k) & 1
        fewest += (certain >> k) & 1
    if fewest >= f.least:
        return UNFAIR
    return FAIR if min(possible, fewest + unsure) < f.least else OPEN
