"""Split boxes along their lists of leaves, decide or count the parts, and return the open ones (compiled)."""

from __future__ import annotations

import numpy as np

from evenhand.certification.bounds.trees.lists import (
    MAX_DEPTH,
    OPEN,
    UNFAIR,
    decide_box,
    filter_leaves,
    jit,
    range_weight,
)
from evenhand.certification.bounds.trees.splits import choose_cut, score_cuts
from evenhand.certification.bounds.trees.tables import count_box, group_assignments
from evenhand.certification.bounds.trees.tails import prove_tails
from evenhand.certification.bounds.trees.variance import prove_variance
from evenhand.certification.refinement import ROUNDING_MASS
from evenhand.core.kernels import array_table, compile_kernel

WAITING, COUNTED, INDIVISIBLE, SETTLED = 0, 1, 2, 3
"""State of a box: to be counted or split, to be split, permanently undecided, or settled."""
SUMS_PER_BOX, PAIRS_PER_BOX = 4096, 50_000
"""Number of table sums, and twice the number of pairs of leaves, that take about as long as bounding a box."""


TreeBoxArrays = array_table(
    "TreeBoxArrays",
    __name__,
    {"low high": "int32 boxes attributes", "known": "float64 boxes 3", "state": "int8 boxes"},
)
"""Stack of boxes: cells, mass with proved masses, and state; see ``TreeFrontier``."""


@jit
def box_mass(f, lo, hi):
    """Compute the share of the population in a box."""
    # Attributes are independent: the shares of the ranges, quotients of whole numbers, multiply.
    mass = 1.0
    for i in range(len(lo)):
        mass *= range_weight(f, i, lo[i], hi[i]) / range_weight(f, i, 0, f.offsets[i + 1] - f.offsets[i] - 2)
    return mass


@jit
def put_out(w, out, count, known, state):
    """Append the current box to the output and return the number of boxes in the output."""
    mass, fair, unfair = known
    for i in range(len(w.lo)):
        out.low[count, i] = w.lo[i]
        out.high[count, i] = w.hi[i]
    out.known[count, 0] = mass
    out.known[count, 1] = mass * fair
    out.known[count, 2] = mass * unfair
    out.state[count] = state
    return count + 1


@jit
def enter_part(f, w, level, keep):
    """List the leaves of ``w.inner``, from the list before; return whether the margins depend on the assignment."""
    n = len(w.lo)
    w.start[level] = w.start[level - 1] + w.length[level - 1]
    # The attribute that leaves the fewest leaves comes first.
    changes, smallest = 0, 2.0
    for i in range(n):
        w.lo[i], w.hi[i] = w.outer[level - 1, 0, i], w.outer[level - 1, 1, i]
        low, high = w.inner[0, i], w.inner[1, i]
        if low > w.lo[i] or high < w.hi[i]:
            share = range_weight(f, i, low, high) / range_weight(f, i, w.lo[i], w.hi[i])
            w.changed[changes] = i
            if share < smallest:
                w.changed[0], w.changed[changes], smallest = i, w.changed[0], share
            changes += 1
    depends = filter_leaves(f, w, level - 1, level, changes, keep)
    for i in range(n):
        w.lo[i], w.hi[i] = w.inner[0, i], w.inner[1, i]
        w.outer[level, 0, i], w.outer[level, 1, i] = w.lo[i], w.hi[i]
    return depends


@jit
def bound_group(w, boxes, begin, end, level):
    """Compute the cells of the smallest box around several boxes; return whether it is smaller than the box before."""
    smaller = False
    for i in range(len(w.lo)):
        low, high = np.int64(boxes.low[begin, i]), np.int64(boxes.high[begin, i])
        for b in range(begin + 1, end):
            low, high = min(low, boxes.low[b, i]), max(high, boxes.high[b, i])
        w.inner[0, i], w.inner[1, i] = low, high
        smaller |= low > w.outer[level, 0, i] or high < w.outer[level, 1, i]
    return smaller


@jit
def prove_box(f, w, depth, tails, limit, totals):
    """Prove a fair share of a part of a box from its tails and its variance."""
    groups, leaves = group_assignments(f, w, depth), w.length[depth]
    if leaves <= len(w.likely):
        totals[2] += min(limit - totals[2], leaves * leaves // PAIRS_PER_BOX)
    return max(prove_tails(f, w, depth, groups, tails), prove_variance(f, w, depth, groups))


@jit
def refine_box(f, w, level, depends, state, shares, tails, settings, out, count, reserved, totals):
    """Split the box of the last list, as ``refine_tree_boxes`` does; return the number of boxes in the output."""
    threshold, limit, max_points, put_settled, keep = settings
    # A box is kept whole if its parts prove less, but not if there may be no other progress.
    first, must = totals[2] == 0, put_settled or threshold <= ROUNDING_MASS
    totals[2] += 1
    # Depth first. Invariant: the parts in the output, in ``totals``, and at the depths above partition the box.
    depth, entering = level, True
    while depth >= level:
        # The current box is new at this depth: decide it, prove its tails, count it, or split it.
        mass = box_mass(f, w.lo, w.hi)
        full = totals[2] >= limit or count + reserved + 2 * depth + 4 >= len(out.known)
        full |= w.start[depth] + 2 * w.length[depth] > len(w.leaf) or depth >= MAX_DEPTH - 1
        outcome = decide_box(f, w, depends)
        fair, unfair = shares if entering else (0.0, 0.0)
        must |= full and first
        settled = outcome != OPEN
        if settled:
            fair, unfair = (0.0, 1.0) if outcome == UNFAIR else (1.0, 0.0)
        elif len(tails) and not entering:
            fair = prove_box(f, w, depth, tails, limit, totals)
        next_state, divided = WAITING, False
        if not settled and (entering or (not full and mass * (1 - fair) > threshold)):
            points, sums = score_cuts(f, w, depth), -1
            i = cut = -1
            if points > max_points or (entering and state == COUNTED):
                i, cut = choose_cut(f, w, points, max_points)
            if i < 0:
                counted = count_box(f, w, depth, keep)
                sums = counted[3]
                if sums >= 0:
                    fair, unfair, settled = counted[0], counted[1], not counted[2]
                    next_state = INDIVISIBLE if points == 1.0 else COUNTED
                    totals[2] += min(limit - totals[2], sums // SUMS_PER_BOX)
                    if keep and settled and fair > 0 and unfair > 0 and not full:
                        # Parts that are decided as a whole are the easiest to check, and are checked exactly.
                        settled = False
                        i, cut = choose_cut(f, w, points, max_points)
                else:
                    i, cut = choose_cut(f, w, points, max_points)
                    next_state = INDIVISIBLE
            if i >= 0:
                divided = True
                w.split[depth], w.cut[depth], w.side[depth] = i, cut, 0
                w.old_low[depth], w.old_high[depth] = w.lo[i], w.hi[i]
                w.output[depth] = count
                w.proved[depth, 0], w.proved[depth, 1], w.proved[depth, 2] = mass, fair, unfair
                w.before[depth, 0], w.before[depth, 1] = totals[0], totals[1]
        entering = False
        if not divided:
            if settled and not put_settled:
                totals[0] += mass * fair
                totals[1] += mass * unfair
            else:
                count = put_out(w, out, count, (mass, fair, unfair), SETTLED if settled else next_state)
            depth -= 1
        # Continue with the next part of a box above, if there is one.
        while depth >= level:
            i = w.split[depth]
            w.lo[i], w.hi[i] = w.old_low[depth], w.old_high[depth]
            side = w.side[depth]
            w.side[depth] += 1
            if side == 2:
                parts = totals[0] + totals[1] - w.before[depth, 0] - w.before[depth, 1]
                for b in range(w.output[depth], count):
                    parts += out.known[b, 1] + out.known[b, 2]
                mass, fair, unfair = w.proved[depth, 0], w.proved[depth, 1], w.proved[depth, 2]
                if parts < mass * (fair + unfair - 1e-9) and not keep and (depth > level or not must):
                    totals[0], totals[1] = w.before[depth, 0], w.before[depth, 1]
                    next_state = state if depth == level else WAITING
                    count = put_out(w, out, w.output[depth], (mass, fair, unfair), next_state)
                depth -= 1
                continue
            part_low, part_high = (w.lo[i], w.cut[depth] - 1) if side == 0 else (w.cut[depth], w.hi[i])
            if range_weight(f, i, part_low, part_high) <= 0:
                continue
            w.start[depth + 1] = w.start[depth] + w.length[depth]
            w.changed[0], w.inner[0, i], w.inner[1, i] = i, part_low, part_high
            depends = filter_leaves(f, w, depth, depth + 1, 1, keep)
            w.lo[i], w.hi[i] = part_low, part_high
            totals[2] = min(limit, totals[2] + 1)
            depth += 1
            break
    return count


@compile_kernel(nogil=True, error_model="numpy")
def refine_tree_boxes(f, w, boxes, tails, settings, out, totals):
    """Split boxes until no part has more open mass than a threshold, or a number of boxes is bounded.

    Args:
        f, w: Leaves and work arrays.
        boxes: Boxes to split, each at least once.
        tails: Parts of a box whose tail means are computed; empty to skip such proofs and those from variances.
        settings: Threshold; maximum number of boxes; maximum number of points of a table; whether settled parts are
            added to the output instead of counted; whether leaves without mass are kept.
        out: Output of parts with open mass.
        totals: Receives fair mass, unfair mass and number of boxes.

    Returns:
        The number of parts in the output.
    """
    limit = settings[1]
    room, count, number = len(out.known), 0, len(boxes.low)
    if number == 0:
        return 0
    # Boxes are in search order, so that neighbours share lists: a group is visited as a whole, then its halves.
    # Invariant: the pending groups, the output and ``totals`` partition the boxes, except for parts without mass.
    waiting = np.empty((64, 3), np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, number, 0
    top = 1
    while top > 0:
        top -= 1
        begin, end, level = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        if totals[2] >= limit or count + 2 * (number - begin) + 2 >= room:
            for b in range(begin, end):
                bound_group(w, boxes, b, b + 1, level)
                mass = box_mass(f, w.inner[0], w.inner[1])
                if mass > 0:
                    for i in range(len(w.lo)):
                        w.lo[i], w.hi[i] = w.inner[0, i], w.inner[1, i]
                    known = (mass, boxes.known[b, 1] / mass, boxes.known[b, 2] / mass)
                    count = put_out(w, out, count, known, boxes.state[b])
            continue
        smaller = bound_group(w, boxes, begin, end, level)
        if box_mass(f, w.inner[0], w.inner[1]) <= 0:
            continue
        if end - begin == 1:
            depends = enter_part(f, w, level + 1, settings[4])
            reserved = 2 * (number - begin)
            mass, state = boxes.known[begin, 0], boxes.state[begin]
            shares = (boxes.known[begin, 1] / mass, boxes.known[begin, 2] / mass)
            count = refine_box(f, w, level + 1, depends, state, shares, tails, settings, out, count, reserved, totals)
            continue
        # Three lists must fit: those of the group, of a box, and of a part of it.
        if smaller and w.start[level] + 4 * w.length[level] <= len(w.leaf):
            level += 1
            enter_part(f, w, level, settings[4])
        middle = (begin + end) // 2
        waiting[top, 0], waiting[top, 1], waiting[top, 2] = middle, end, level
        waiting[top + 1, 0], waiting[top + 1, 1], waiting[top + 1, 2] = begin, middle, level
        top += 2
    return count
