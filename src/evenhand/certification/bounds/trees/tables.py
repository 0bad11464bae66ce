"""Count a box exactly: sum the leaves at every point that they tell apart.

Each leaf is added at the corners of its cells only, and running sums along every attribute give the sums at all points
(as in summed-area tables): about 10 ns a point, for any number of trees. Sums are integers, so they are exact, and the
intermediate ones may wrap around.
"""

from __future__ import annotations

from evenhand.certification.bounds.trees.lists import (
    FAIR,
    FAR,
    MAX_CORNERS,
    OPEN,
    UNFAIR,
    cells_between,
    decide_margins,
    has_cell,
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
    groups, assignments = 1, len(w.groups)
    for p in range(assignments):
        w.groups[p].group = 0
    w.groups[0].size = assignments
    for k in range(w.levels[depth].start, w.levels[depth].start + w.levels[depth].length):
        mask = f.leaves[w.entries[k].leaf].mask
        if groups == assignments:
            break
        if mask == 0:
            continue
        for g in range(groups):
            w.groups[g].inside = 0
        for p in range(assignments):
            w.groups[w.groups[p].group].inside += f.members[mask, p]
        # The members of a mask leave their group, unless all of it is in the mask.
        count_before = groups
        for g in range(count_before):
            if 0 < w.groups[g].inside < w.groups[g].size:
                for p in range(assignments):
                    if w.groups[p].group == g and f.members[mask, p]:
                        w.groups[p].group = groups
                w.groups[groups].size = w.groups[g].inside
                w.groups[g].size -= w.groups[g].inside
                groups += 1
    for g in range(groups):
        w.groups[g].low, w.groups[g].high = FAR, -FAR
    for p in range(assignments - 1, -1, -1):
        group, base = w.groups[w.groups[p].group], w.base[depth, 0, p]
        group.member = p
        group.low, group.high = min(group.low, base), max(group.high, base)
    return groups


@jit
def lay_out_table(f, w):
    """List the attributes with cuts, the longest last, and the row of each cell.

    Returns:
        The number of attributes, the number of points, and whether some points have no mass.
    """
    axes, begin, points, massless = 0, 0, 1, False
    for i in range(len(w.axes)):
        rows = count_rows(f, w, i)
        if rows > 1:
            w.axes[axes].axis, w.axes[axes].rows = i, rows
            axes += 1
    for a in range(axes):
        this, final = w.axes[a], w.axes[axes - 1]
        if this.rows > final.rows:
            this.axis, final.axis = final.axis, this.axis
            this.rows, final.rows = final.rows, this.rows
    for a in range(axes - 1, -1, -1):
        w.axes[a].stride = points
        points *= w.axes[a].rows
    for a in range(axes):
        i, rows = w.axes[a].axis, w.axes[a].rows
        at, lo, hi, is_set = f.axes[i].start, w.axes[i].low, w.axes[i].high, f.axes[i].is_set
        mass, row = range_weight(f, i, lo, hi), 0
        for r in range(begin, begin + rows):
            w.weight[r] = 0.0
        for c in range(lo, hi + 1):
            cell, own = w.cells[at + c], range_weight(f, i, c, c)
            if cell.single if is_set else c > lo and cell.gap > 0:
                row += 1
            # Sums of whole numbers are exact.
            cell.row = row if cell.single or not is_set else 0
            w.weight[begin + cell.row] += own
            massless |= own == 0.0
        for r in range(begin, begin + rows):
            w.weight[r] /= mass
        begin += rows
    return axes, points, massless


@jit
def find_corners(f, w, leaf, axes):
    """List the corners of a leaf in the table and their signs; return the buffer and their number, 0 if too many."""
    buffer, count = 0, 1
    w.corners[0, 0].place, w.corners[0, 0].sign = 0, 1
    for a in range(axes):
        i, stride = w.axes[a].axis, w.axes[a].stride
        at, lo, hi, key = f.axes[i].start, w.axes[i].low, w.axes[i].high, f.keys[i, leaf]
        cells = cells_between(f, i, lo, hi)
        _, everything, _ = meet(f, i, key, lo, hi, cells)
        if everything:
            continue
        # Moves along the attribute: to the ends of a range; to each cell of a set, or to all cells less the others.
        moves = 0
        if f.axes[i].is_set:
            inside = names_cells(key, cells)
            if not inside:
                w.moves[0].row, w.moves[0].sign, moves = 0, 1, 1
            for c in range(lo, hi + 1):
                if has_cell(key, c) == inside:
                    w.moves[moves].row, w.moves[moves].sign = w.cells[at + c].row, 1 if inside else -1
                    moves += 1
        else:
            lower, upper = next_run(f, i, key, lo, hi)
            w.moves[0].row, w.moves[0].sign, moves = w.cells[at + lower].row, 1, 1
            if upper < hi:
                w.moves[1].row, w.moves[1].sign, moves = w.cells[at + upper + 1].row, -1, 2
        if moves * count > MAX_CORNERS:
            return 0, 0
        other, listed = 1 - buffer, 0
        for k in range(moves):
            for x in range(count):
                w.corners[other, listed].place = w.corners[buffer, x].place + w.moves[k].row * stride
                w.corners[other, listed].sign = w.corners[buffer, x].sign * w.moves[k].sign
                listed += 1
        buffer, count = other, listed
    return buffer, count


@jit
def fill_table(f, w, depth, groups, axes, points):
    """Sum the leaves at all points, for each margin and group of assignments; return whether there is room."""
    margins = len(f.margins)
    if margins * groups * points > len(w.table):
        return False
    for at in range(margins * groups * points):
        w.table[at] = 0
    for k in range(w.levels[depth].start, w.levels[depth].start + w.levels[depth].length):
        leaf = w.entries[k].leaf
        buffer, corners = find_corners(f, w, leaf, axes)
        if corners == 0:
            return False
        for g in range(groups):
            if f.members[f.leaves[leaf].mask, w.groups[g].member]:
                for m in range(margins):
                    value, at = f.values[m, leaf], (m * groups + g) * points
                    for x in range(corners):
                        w.table[at + w.corners[buffer, x].place] += w.corners[buffer, x].sign * value
    # Running sums along each range; in a set, the sum of all cells is added to each named cell.
    for a in range(axes):
        stride, rows, is_set = w.axes[a].stride, w.axes[a].rows, f.axes[w.axes[a].axis].is_set
        for at in range(0, margins * groups * points, stride * rows):
            for row in range(1, rows):
                to = at + row * stride
                source = at if is_set else to - stride
                for x in range(stride):
                    w.table[to + x] += w.table[source + x]
    return True


@jit
def point_range(w, groups, points, point):
    """Compute the least and the greatest sum over the assignments at a point."""
    low, high = FAR, -FAR
    for g in range(groups):
        number = w.table[g * points + point]
        low, high = min(low, number + w.groups[g].low), max(high, number + w.groups[g].high)
    return low, high


@jit
def decide_point(f, w, depth, groups, points, point):
    """Decide a point by its sums."""
    if f.is_difference:
        low, high = point_range(w, groups, points, point)
        return FAIR if high - low <= f.within else UNFAIR if high - low > f.beyond else OPEN
    margins, assignments = w.bounds.shape
    for m in range(margins):
        for p in range(assignments):
            number = w.table[(m * groups + w.groups[p].group) * points + point] + w.base[depth, m, p]
            w.bounds[m, p].low = w.bounds[m, p].high = number
    return decide_margins(f, w)


@jit
def weigh_row(f, w, groups, points, at, inner, begin):
    """Weigh the fair and unfair points of a row with one margin, and check whether others have mass; as vectors."""
    above, below = f.margins[0].above, f.margins[0].below
    fair = unfair = open_weight = 0.0
    for x in range(inner):
        low, high = point_range(w, groups, points, at + x)
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
    # Rows of the table follow the longest attribute.
    margins = len(f.margins)
    simple = margins == 1 and f.least == 2 and not f.is_difference
    inner = w.axes[axes - 1].rows if axes else 1
    if axes == 0:
        w.weight[0] = 1.0
    fair = unfair = 0.0
    undecided = False
    for at in range(0, points, inner):
        share, begin = 1.0, 0
        for a in range(axes - 1):
            share *= w.weight[begin + at // w.axes[a].stride % w.axes[a].rows]
            begin += w.axes[a].rows
        if share > 0:
            if simple:
                row_fair, row_unfair, row_open = weigh_row(f, w, groups, points, at, inner, begin)
                fair += share * row_fair
                unfair += share * row_unfair
                undecided |= row_open
                continue
            for x in range(inner):
                weight = share * w.weight[begin + x]
                outcome = decide_point(f, w, depth, groups, points, at + x)
                if outcome == FAIR:
                    fair += weight
                elif outcome == UNFAIR:
                    unfair += weight
                else:
                    undecided |= weight > 0
    sums = points * groups * margins
    if not undecided and not (keep and massless):
        if unfair == 0.0:
            return 1.0, 0.0, False, sums
        if fair == 0.0:
            return 0.0, 1.0, False, sums
    # Each weight is the product of at most n quotients of whole numbers, and at most ``points`` of them are added up:
    # all are positive, so the relative error is below (points + 2 n + 4) units (Higham 2002, chapter 3).
    certain = 1 - 2 * (points + 2 * len(w.axes) + 4) * UNIT
    return fair * certain, unfair * certain, undecided, sums
