"""Split boxes along their lists of leaves, decide or count the parts, and put out the open ones (compiled)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.lists import (
    FAIR,
    MAX_DEPTH,
    OPEN,
    UNFAIR,
    decide_box,
    filter_leaves,
    jit,
    range_weight,
)
from evenhand.certification.bounds.trees.splits import choose_cut, score_cuts
from evenhand.certification.bounds.trees.tables import count_box
from evenhand.certification.bounds.trees.tails import prove_tails
from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats

WAITING, COUNTED, INDIVISIBLE, SETTLED = 0, 1, 2, 3
"""State of a box: to be counted or split, to be split, open for good, and without an open part."""
SUMS_PER_BOX = 4096
"""Sums of a table that take about as long as bounding a box."""


class TreeBoxArrays(NamedTuple):
    """Boxes one below the other: cells, mass with proved masses, and state; see ``TreeFrontier``."""

    bounds: NDArray[np.int32]
    known: Floats
    state: NDArray[np.int8]


class CallSettings(NamedTuple):
    """Settings of a call.

    Attributes:
        threshold: Maximum open mass of a part.
        limit: Maximum number of boxes that are bounded.
        max_points: Maximum number of points of a table.
        tails: Whether shares are proved by tail means.
        put_settled: Whether settled parts are put out instead of counted.
        keep: Whether leaves without mass are kept.
    """

    threshold: float
    limit: float
    max_points: float
    tails: bool
    put_settled: bool
    keep: bool


@jit
def box_mass(f, w):
    """Compute the share of the population in the current box."""
    # Attributes are independent: the shares of the ranges, quotients of whole numbers, multiply.
    mass = 1.0
    for i in range(len(w.axes)):
        mass *= range_weight(f, i, w.axes[i].low, w.axes[i].high) / range_weight(f, i, 0, f.axes[i].last)
    return mass


@jit
def put_out(w, out, count, mass, fair, unfair, state):
    """Write the current box to the output, and return the number of boxes there."""
    for i in range(len(w.axes)):
        out.bounds[count, 0, i], out.bounds[count, 1, i] = w.axes[i].low, w.axes[i].high
    out.known[count, 0] = mass
    out.known[count, 1] = mass * fair
    out.known[count, 2] = mass * unfair
    out.state[count] = state
    return count + 1


@jit
def enter_level(w, level):
    """Place the next list after that of the level, with the same base."""
    w.levels[level + 1].start = w.levels[level].start + w.levels[level].length
    for m in range(w.base.shape[1]):
        for p in range(w.base.shape[2]):
            w.base[level + 1, m, p] = w.base[level, m, p]


@jit
def enter_part(f, w, level, keep):
    """List the leaves of the box of a level, from the list before; return whether margins depend on the assignment."""
    n, outer, inner = len(w.axes), w.outer[level - 1], w.outer[level]
    enter_level(w, level - 1)
    # The attribute that leaves the fewest comes first.
    chosen, smallest = 0, 2.0
    for i in range(n):
        w.axes[i].low, w.axes[i].high = outer[0, i], outer[1, i]
        share = range_weight(f, i, inner[0, i], inner[1, i]) / range_weight(f, i, outer[0, i], outer[1, i])
        if share < smallest:
            chosen, smallest = i, share
    source, depends = level - 1, True
    for k in range(n + 1):
        i = chosen if k == 0 else k - 1
        if k == 0 or inner[0, i] > w.axes[i].low or inner[1, i] < w.axes[i].high:
            depends = filter_leaves(f, w, source, level, i, inner[0, i], inner[1, i], keep)
            source = level
    return depends


@jit
def bound_group(w, boxes, begin, end, level):
    """Set the box after a level, and the current one, around several boxes; return whether it is smaller."""
    smaller = False
    for i in range(len(w.axes)):
        low, high = np.int64(boxes.bounds[begin, 0, i]), np.int64(boxes.bounds[begin, 1, i])
        for b in range(begin + 1, end):
            low, high = min(low, boxes.bounds[b, 0, i]), max(high, boxes.bounds[b, 1, i])
        w.outer[level + 1, 0, i], w.outer[level + 1, 1, i] = low, high
        w.axes[i].low, w.axes[i].high = low, high
        smaller |= low > w.outer[level, 0, i] or high < w.outer[level, 1, i]
    return smaller


# Compiled where it is called, since its code would otherwise be optimised twice.
@compile_kernel(internal=True, inline="always")
def refine_box(f, w, level, depends, state, settings, out, count, reserved, totals):
    """Split the box of the last list, as ``refine_tree_boxes`` does; return the number of boxes in the output."""
    limit, max_points = settings.limit, settings.max_points
    totals[2] += 1
    # Depth first. Invariant: the parts in the output, in ``totals``, and on the way down partition the box.
    depth, entering = level, True
    while depth >= level:
        # The current box is new at this depth: decide it, prove its tails, count it, or split it.
        current, mass = w.levels[depth], box_mass(f, w)
        full = totals[2] >= limit or count + reserved + 2 * depth + 4 >= len(out.known)
        full |= current.start + 2 * current.length > len(w.entries) or depth >= MAX_DEPTH - 1
        outcome = decide_box(f, w, depends)
        fair, unfair = 1.0 if outcome == FAIR else 0.0, 1.0 if outcome == UNFAIR else 0.0
        settled = outcome != OPEN
        if not settled and settings.tails and not entering:
            fair = prove_tails(f, w, depth)
        next_state, i, cut = WAITING, -1, -1
        if not settled and (entering or (not full and mass * (1 - fair) > settings.threshold)):
            points = score_cuts(f, w, depth)
            if points > max_points or (entering and state == COUNTED):
                i, cut = choose_cut(f, w, points, max_points)
            if i < 0:
                counted_fair, counted_unfair, unsettled, sums = count_box(f, w, depth, settings.keep)
                split = sums < 0
                next_state = INDIVISIBLE if split or points == 1.0 else COUNTED
                if not split:
                    fair, unfair, settled = counted_fair, counted_unfair, not unsettled
                    totals[2] += min(limit - totals[2], sums // SUMS_PER_BOX)
                    # The checker confirms parts that are decided as a whole most easily, and exactly.
                    split = settings.keep and settled and fair > 0 and unfair > 0 and not full
                    settled &= not split
                if split:
                    i, cut = choose_cut(f, w, points, max_points)
        entering = False
        if i >= 0:
            current.axis, current.cut, current.part = i, cut, 0
            current.old_low, current.old_high = w.axes[i].low, w.axes[i].high
        else:
            if settled and not settings.put_settled:
                totals[0] += mass * fair
                totals[1] += mass * unfair
            else:
                count = put_out(w, out, count, mass, fair, unfair, SETTLED if settled else next_state)
            depth -= 1
        # Go on with the next part of a box above, if any is left.
        while depth >= level:
            current = w.levels[depth]
            i, part = current.axis, current.part
            low, high = current.old_low, current.old_high
            w.axes[i].low, w.axes[i].high = low, high
            current.part = part + 1
            if part == 2:
                depth -= 1
                continue
            low, high = (low, current.cut - 1) if part == 0 else (current.cut, high)
            if range_weight(f, i, low, high) <= 0:
                continue
            if totals[2] >= limit:
                w.axes[i].low, w.axes[i].high = low, high
                count = put_out(w, out, count, box_mass(f, w), 0.0, 0.0, WAITING)
                continue
            enter_level(w, depth)
            depth += 1
            depends = filter_leaves(f, w, depth - 1, depth, i, low, high, settings.keep)
            totals[2] += 1
            break
    return count


@compile_kernel(nogil=True, error_model="numpy")
def refine_tree_boxes(f, w, boxes, settings, out, totals):
    """Split boxes until no part has more open mass than a threshold, or a number of boxes is bounded.

    Args:
        f, w: Leaves and work arrays.
        boxes: Boxes to split, each at least once.
        settings: Settings of the call.
        out: Output of parts with open mass.
        totals: Receives fair mass, unfair mass, and number of boxes.

    Returns:
        The number of parts put out.
    """
    count, number = 0, len(boxes.known)
    if number == 0:
        return 0
    # Boxes come in the order of the search, so that neighbours share lists: a group is entered as a whole, and then its
    # halves. Invariant: the groups that wait, the output and ``totals`` partition the boxes, except for parts without
    # mass.
    w.waiting[0].begin, w.waiting[0].end, w.waiting[0].level = 0, number, 0
    top = 1
    while top > 0:
        top -= 1
        begin, end, level = w.waiting[top].begin, w.waiting[top].end, w.waiting[top].level
        reserved = 2 * (number - begin)
        if totals[2] >= settings.limit or count + reserved + 2 >= len(out.known):
            for b in range(begin, end):
                bound_group(w, boxes, b, b + 1, level)
                mass = box_mass(f, w)
                if mass > 0:
                    fair, unfair = boxes.known[b, 1] / mass, boxes.known[b, 2] / mass
                    count = put_out(w, out, count, mass, fair, unfair, boxes.state[b])
            continue
        smaller = bound_group(w, boxes, begin, end, level)
        if box_mass(f, w) <= 0:
            continue
        # Room for three lists must remain: of a box and of a part of it, after that of the group.
        single, room = end - begin == 1, w.levels[level].start + 4 * w.levels[level].length <= len(w.entries)
        depends = True
        if single or (smaller and room):
            level += 1
            depends = enter_part(f, w, level, settings.keep)
        if single:
            count = refine_box(f, w, level, depends, boxes.state[begin], settings, out, count, reserved, totals)
            continue
        middle = (begin + end) // 2
        second, first = w.waiting[top], w.waiting[top + 1]
        second.begin, second.end, second.level = middle, end, level
        first.begin, first.end, first.level = begin, middle, level
        top += 2
    return count
