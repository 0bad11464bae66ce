"""Count a box exactly: sum the leaves at every point that they distinguish.

Each leaf is added at the corners of its cells only, and running sums along every attribute give the sums at all points
(as in summed-area tables): about 10 ns a point, for any number of trees. Sums are integers, so they are exact, and the
intermediate ones may wrap around.
"""

from __future__ import annotations

import numpy as np

from evenhand.certification.bounds.trees.lists import (
    FAIR,
    FAR,
    MAX_CORNERS,
    OPEN,
    UNFAIR,
    cells_between,
    decide_margins,
    jit,
    meet,
    names_cells,
    next_run,
    range_weight,
)
from evenhand.certification.bounds.trees.splits import count_rows

UNIT = 2.0**-53
"""Unit roundoff of float64."""


@jit
def group_assignments(f, w, depth):
    """Group the assignments by the leaves in the list that they reach; return the number of groups."""
    groups, assignments = 1, len(w.group)
    for p in range(assignments):
        w.group[p] = 0
    w.size_of[0] = assignments
    for k in range(w.start[depth], w.start[depth] + w.length[depth]):
        mask = f.mask[w.leaf[k]]
        if groups == assignments:
            break
        if mask == 0:
            continue
        for g in range(groups):
            w.inside[g] = 0
        for p in range(assignments):
            w.inside[w.group[p]] += f.members[mask, p]
        # Assignments in the mask leave their group, unless the whole group is in the mask.
        count_before = groups
        for g in range(count_before):
            if 0 < w.inside[g] < w.size_of[g]:
                for p in range(assignments):
                    if w.group[p] == g and f.members[mask, p]:
                        w.group[p] = groups
                w.size_of[groups] = w.inside[g]
                w.size_of[g] -= w.inside[g]
                groups += 1
    for p in range(len(w.group) - 1, -1, -1):
        w.member[w.group[p]] = p
    return groups


@jit
def lay_out_table(f, w):
    """List the attributes with cuts, the longest last, and the row of each cell.

    Returns:
        The number of attributes, the number of points, and whether some points have no mass.
    """
    axes, begin, massless = 0, 0, False
    for i in range(len(w.lo)):
        rows = count_rows(f, w, i)
        if rows > 1:
            w.axis[axes], w.size[axes] = i, rows
            axes += 1
    for a in range(axes):
        if w.size[a] > w.size[axes - 1]:
            w.axis[a], w.axis[axes - 1] = w.axis[axes - 1], w.axis[a]
            w.size[a], w.size[axes - 1] = w.size[axes - 1], w.size[a]
    points = 1
    for a in range(axes - 1, -1, -1):
        w.stride[a] = points
        points *= w.size[a]
    for a in range(axes):
        i = w.axis[a]
        at, lo, hi = f.offsets[i], w.lo[i], w.hi[i]
        mass, row = range_weight(f, i, lo, hi), 0
        for r in range(begin, begin + w.size[a]):
            w.weight[r] = 0.0
        for c in range(lo, hi + 1):
            if w.single[at + c] if f.is_set[i] else c > lo and w.gap[at + c] > 0:
                row += 1
            # Sums of whole numbers are exact.
            w.place[at + c] = row if w.single[at + c] or not f.is_set[i] else 0
            w.weight[begin + w.place[at + c]] += range_weight(f, i, c, c)
            massless |= range_weight(f, i, c, c) == 0.0
        for r in range(begin, begin + w.size[a]):
            w.weight[r] /= mass
        begin += w.size[a]
    return axes, points, massless


@jit
def find_corners(f, w, leaf, axes):
    """List the corners of a leaf in the table and their signs; return the buffer and their number, 0 if too many."""
    buffer, count = 0, 1
    w.corner[0, 0], w.sign[0, 0] = 0, 1
    for a in range(axes):
        i = w.axis[a]
        at, lo, hi, key = f.offsets[i], w.lo[i], w.hi[i], f.keys[leaf, i]
        cells = cells_between(f, i, lo, hi)
        _, everything, _ = meet(f, i, key, lo, hi, cells)
        if everything:
            continue
        # Moves along the attribute: to the ends of a range; to each cell of a set, or to all cells minus the others.
        moves = 0
        if f.is_set[i]:
            inside = names_cells(key, cells)
            if not inside:
                w.move[0], w.turn[0], moves = 0, 1, 1
            for c in range(lo, hi + 1):
                if (((key >> np.uint64(c)) & np.uint64(1)) != 0) == inside:
                    w.move[moves], w.turn[moves] = w.place[at + c], 1 if inside else -1
                    moves += 1
        else:
            lower, upper = next_run(f, i, key, lo, hi)
            w.move[0], w.turn[0], moves = w.place[at + lower], 1, 1
            if upper < hi:
                w.move[1], w.turn[1], moves = w.place[at + upper + 1], -1, 2
        if moves * count > MAX_CORNERS:
            return 0, 0
        other, listed = 1 - buffer, 0
        for k in range(moves):
            for x in range(count):
                w.corner[other, listed + x] = w.corner[buffer, x] + w.move[k] * w.stride[a]
                w.sign[other, listed + x] = w.sign[buffer, x] * w.turn[k]
            listed += count
        buffer, count = other, listed
    return buffer, count


@jit
def fill_table(f, w, depth, groups, axes, points):
    """Sum the leaves at all points, for each margin and group of assignments; return whether there is enough space."""
    margins = len(f.base)
    if margins * groups * points > len(w.table):
        return False
    for x in range(margins * groups * points):
        w.table[x] = 0
    for k in range(w.start[depth], w.start[depth] + w.length[depth]):
        leaf = w.leaf[k]
        buffer, corners = find_corners(f, w, leaf, axes)
        if corners == 0:
            return False
        for g in range(groups):
            if f.members[f.mask[leaf], w.member[g]]:
                for m in range(margins):
                    value, at = f.values[m, leaf], (m * groups + g) * points
                    for x in range(corners):
                        w.table[at + w.corner[buffer, x]] += w.sign[buffer, x] * value
    # Running sums along each range; in a set, the sum of all cells is added to each named cell.
    for a in range(axes):
        stride, is_set = w.stride[a], f.is_set[w.axis[a]]
        for at in range(0, margins * groups * points, stride * w.size[a]):
            for row in range(1, w.size[a]):
                to = at + row * stride
                source = at if is_set else to - stride
                for x in range(stride):
                    w.table[to + x] += w.table[source + x]
    return True


@jit
def decide_point(f, w, base, groups, points, point):
    """Decide a point by its sums."""
    margins, assignments = base.shape
    if margins == 1 and f.least == 2:
        # The minimum and the maximum sum over the assignments decide.
        low, high = FAR, -FAR
        for g in range(groups):
            number = w.table[g * points + point]
            low, high = (
                min(low, number + w.tree_low[0, g]),
                max(high, number + w.tree_high[0, g]),
            )
        if f.is_difference:
            return FAIR if high - low <= f.within else UNFAIR if high - low > f.beyond else OPEN
        if low > f.above[0] or high < f.below[0]:
            return FAIR
        return UNFAIR if high > f.above[0] and low < f.below[0] else OPEN
    for m in range(margins):
        for p in range(assignments):
            w.tree_low[m, p] = w.table[(m * groups + w.group[p]) * points + point] + base[m, p]
    return decide_margins(f, w.tree_low, w.tree_low, w.labels)


@jit
def weigh_row(f, w, groups, points, at, inner, begin):
    """Sum the mass of the fair and unfair points of a row with one margin, and check whether others have mass."""
    above, below = f.above[0], f.below[0]
    fair = unfair = open_weight = 0.0
    for x in range(inner):
        low, high = FAR, -FAR
        for g in range(groups):
            number = w.table[g * points + at + x]
            low, high = (
                min(low, number + w.tree_low[0, g]),
                max(high, number + w.tree_high[0, g]),
            )
        same, apart = (low > above) | (high < below), (high > above) & (low < below)
        weight = w.weight[begin + x]
        fair += weight if same else 0.0
        unfair += weight if apart else 0.0
        open_weight += 0.0 if same | apart else weight
    return fair, unfair, open_weight > 0


@jit
def count_box(f, w, depth, keep):
    """Count the shares of a box that are fair and unfair, after ``score_cuts``.

    Args:
        f, w: Leaves and work arrays.
        depth: Number of the box's list.
        keep: Whether points without mass count when a share is exactly one.

    Returns:
        Lower bounds on both shares, whether any mass is undecided, and the sums computed; -1 without room for a table.
    """
    axes, points, massless = lay_out_table(f, w)
    groups = group_assignments(f, w, depth)
    if not fill_table(f, w, depth, groups, axes, points):
        return 0.0, 0.0, True, -1
    # The minimum and the maximum base in each group of assignments.
    base = w.base[depth]
    for g in range(groups):
        w.tree_low[0, g], w.tree_high[0, g] = FAR, -FAR
    for p in range(base.shape[1]):
        g = w.group[p]
        w.tree_low[0, g], w.tree_high[0, g] = (
            min(w.tree_low[0, g], base[0, p]),
            max(w.tree_high[0, g], base[0, p]),
        )
    # Rows of the table follow the longest attribute.
    simple = len(base) == 1 and f.least == 2 and not f.is_difference
    inner = w.size[axes - 1] if axes else 1
    if axes == 0:
        w.weight[0] = 1.0
    fair = unfair = 0.0
    undecided = False
    for at in range(0, points, inner):
        share, begin = 1.0, 0
        for a in range(axes - 1):
            share *= w.weight[begin + at // w.stride[a] % w.size[a]]
            begin += w.size[a]
        if share > 0:
            if simple:
                row_fair, row_unfair, row_open = weigh_row(f, w, groups, points, at, inner, begin)
                fair += share * row_fair
                unfair += share * row_unfair
                undecided |= row_open
                continue
            for x in range(inner):
                weight = share * w.weight[begin + x]
                outcome = decide_point(f, w, base, groups, points, at + x)
                if outcome == FAIR:
                    fair += weight
                elif outcome == UNFAIR:
                    unfair += weight
                else:
                    undecided |= weight > 0
    sums = points * groups * len(base)
    if not undecided and not (keep and massless):
        if unfair == 0.0:
            return 1.0, 0.0, False, sums
        if fair == 0.0:
            return 0.0, 1.0, False, sums
    # Each weight is the product of at most n quotients of whole numbers, and at most ``points`` of them are added up:
    # all are positive, so the relative error is below (points + 2 n + 4) units (Higham 2002, chapter 3).
    certain = 1 - 2 * (points + 2 * len(w.lo) + 4) * UNIT
    return fair * certain, unfair * certain, undecided, sums
