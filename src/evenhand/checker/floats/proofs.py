"""Prove the claims of many boxes in float64 with outward rounding (compiled).

A box is bounded and counted as a whole. If that does not confirm its claim, the part with the most open mass is split,
again and again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.checker.floats.bounds import (
    bound_arrays,
    bound_box,
    bound_functions,
    bound_together,
    choose_axis,
)
from evenhand.checker.floats.counting import LEVELS, MOST_LISTED, count_arrays, count_shares, lay_out_box, plan_events
from evenhand.checker.floats.network import BoxQuestion, FloatNetwork, count_functions, mass_before
from evenhand.checker.kernels import FAIR, OPEN, UNFAIR, compile_entry, decide_sets, jit
from evenhand.core.typing import Floats, Integers

STEPS = tuple(steps for steps, _ in LEVELS)
LISTED = tuple(listed for _, listed in LEVELS)
MANY_FUNCTIONS = 256
"""Number of functions above which only the coarsest level is used, because each function takes memory."""
MASS_LOSS = 2.0**-40
"""Relative error of the mass of a part of a box, and of sums of them, with room to spare."""


class BoxClaims(NamedTuple):
    """Claims of boxes, and their proofs.

    Attributes:
        fair, unfair: Claimed shares, exactly 1 for an entire box.
        proved_fair, proved_unfair: Proved shares.
    """

    fair: Floats
    unfair: Floats
    proved_fair: Floats
    proved_unfair: Floats


class BoxParts(NamedTuple):
    """Parts of one box: cells, share of its mass, proved shares, and attribute to split."""

    low: Integers
    high: Integers
    mass: Floats
    fair: Floats
    unfair: Floats
    axis: Integers


def prove_claims(
    net: FloatNetwork, question: BoxQuestion, low: Integers, high: Integers, claims: BoxClaims, max_parts: int
) -> None:
    """Prove the claims of boxes (n, attributes), each split into at most ``most`` parts; fill in the proved shares."""
    axes, functions = low.shape[1], count_functions(net, question)
    labels, wins = question.wins.shape
    # Events of one label under all assignments, and an equal number of unfair ones; or events of changes of a number.
    events = (
        2 * max(2, labels),
        max(len(question.pairs) if question.differences else 2, wins * len(net.bases), wins + 1),
    )
    low_parts, high_parts = np.zeros((2, max_parts + 1, axes), dtype=np.int64)
    mass, fair, unfair = np.zeros((3, max_parts + 1))
    parts = BoxParts(low_parts, high_parts, mass, fair, unfair, np.zeros(max_parts + 1, dtype=np.int64))
    levels = 1 if functions > MANY_FUNCTIONS else len(LEVELS)
    cells = 1 + int(np.where(net.line, np.minimum(net.counts, MOST_LISTED), net.counts).sum())
    work = bound_arrays(net, functions), count_arrays(axes, functions, events, cells, LEVELS[levels - 1])
    prove_boxes(net, question, low, high, claims, (max_parts, levels), parts, work)


@compile_entry
def prove_boxes(net, question, low, high, claims, limits, parts, work):
    """Prove claims about boxes. ``work`` are the work arrays for bounds and for counts."""
    bounds, counts = work
    max_parts, levels = limits
    lows, highs, mass, fair, unfair, axis = parts
    # Invariant: parts 0 to n - 1 are disjoint and fill box k, their masses add up to one, and fair and unfair are lower
    # bounds on the shares of each. The cheapest steps come first: bounds of the whole box, counts on finer grids,
    # splits.
    for k in range(len(low)):
        for i in range(low.shape[1]):
            lows[0, i] = low[k, i]
            highs[0, i] = high[k, i]
        mass[0] = 1.0
        n = 1
        claim, other = claims.fair[k], claims.unfair[k]
        entire = claim == 1.0 or other == 1.0
        axis[0] = _bound_part(net, question, parts, bounds, 0)
        level = 0
        while not _is_reached(claim, other, mass, fair, unfair, n) and not entire and level < levels:
            _count_part(net, question, level, parts, bounds, counts, 0)
            level += 1
        while n < max_parts and not _is_reached(claim, other, mass, fair, unfair, n):
            if _is_refuted(claim, other, mass, fair, unfair, n):
                break
            # The part with the most open mass is cut: most can be gained there.
            best, chosen = 0.0, -1
            for p in range(n):
                open_mass = mass[p] * (1.0 - fair[p] - unfair[p])
                if axis[p] >= 0 and open_mass > best:
                    best, chosen = open_mass, p
            if chosen < 0:
                break
            i = axis[chosen]
            cut = (lows[chosen, i] + highs[chosen, i]) // 2
            for j in range(low.shape[1]):
                lows[n, j] = lows[chosen, j]
                highs[n, j] = highs[chosen, j]
            lows[n, i] = cut + 1
            end, middle = mass_before(net, i, highs[n, i] + 1), mass_before(net, i, cut + 1)
            share = (end - middle) / (end - mass_before(net, i, lows[chosen, i]))
            highs[chosen, i] = cut
            mass[n] = mass[chosen] * share
            mass[chosen] *= 1.0 - share
            for p in (chosen, n):
                axis[p] = _bound_part(net, question, parts, bounds, p)
                if not entire and axis[p] >= 0 and fair[p] + unfair[p] == 0.0:
                    _count_part(net, question, levels - 1, parts, bounds, counts, p)
            n += 1
        claims.proved_fair[k] = _sum_shares(mass, fair, n)
        claims.proved_unfair[k] = _sum_shares(mass, unfair, n)


@jit
def _sum_shares(mass, share, n):
    """Compute the share of a box from the shares of its parts, rounded down; 1 if all parts have 1."""
    total, everywhere = 0.0, True
    for p in range(n):
        total += mass[p] * share[p]
        everywhere = everywhere and share[p] == 1.0
    return 1.0 if everywhere else total * (1 - MASS_LOSS)


@jit
def _is_reached(claim, other, mass, fair, unfair, n):
    return _sum_shares(mass, fair, n) >= claim and _sum_shares(mass, unfair, n) >= other


@jit
def _is_refuted(claim, other, mass, fair, unfair, n):
    """Check whether the proved share of one kind contradicts the claim of the other."""
    # The true shares add up to at most one. 1e-9 allows for rounding.
    return _sum_shares(mass, fair, n) > 1 - other + 1e-9 or _sum_shares(mass, unfair, n) > 1 - claim + 1e-9


@jit
def _bound_part(net, question, parts, b, p):
    """Bound a part of a box, and decide it as a whole if bounds do; return the attribute to split, -1 if none."""
    low, high, fair, unfair = parts.low[p], parts.high[p], parts.fair, parts.unfair
    single = True
    for i in range(len(low)):
        single = single and low[i] == high[i]
    b.weight[:] = 0.0
    fair[p] = unfair[p] = 0.0
    assignments = len(net.bases)
    if question.together and not single:
        bound_box(net, 0, assignments, low, high, b)
        bound_together(net, low, high, b)
        for q in range(assignments):
            # A function's least value is its constant plus the least terms, which are equal for all assignments.
            second_label, first_label = -np.inf, -np.inf
            for flat in range(2):
                second_label = max(second_label, b.least[0, flat] - b.constant[0, flat] + b.offset[0, flat, q])
                first_label = max(first_label, b.least[1, flat] - b.constant[1, flat] + b.offset[1, flat, q])
            b.sets[q] = 3 - (1 if second_label > 0 else 0) - (2 if first_label > 0 else 0)
    else:
        for q in range(assignments):
            slot = 0 if question.together else q
            bound_box(net, q, q + 1, low, high, b)
            bound_functions(net, q, slot, low, high, b)
            if not question.differences:
                b.sets[q] = _possible_labels(question, slot, b)
    kind = (
        _decide_changes(question, b)
        if question.differences
        else decide_sets(b.sets, len(question.wins), question.least)
    )
    fair[p] = 1.0 if kind == FAIR else 0.0
    unfair[p] = 1.0 if kind == UNFAIR else 0.0
    return -1 if kind != OPEN or single else choose_axis(net, low, high, b)


@jit
def _possible_labels(question, slot, b):
    """Compute the set of labels, as bits, that the functions of a slot leave possible."""
    labels = (1 << len(question.wins)) - 1
    # Either choice of slopes gives a lower function, so the greater of the two least values decides.
    for m in range(len(question.pairs)):
        f = 2 * (slot * len(question.pairs) + m)
        if max(b.least[f, 0], b.least[f, 1]) > 0:
            labels &= ~(1 << question.pairs[m, 0])
        if max(b.least[f + 1, 0], b.least[f + 1, 1]) > 0:
            labels &= ~(1 << question.pairs[m, 1])
    return labels


@jit
def _decide_changes(question, b):
    """Decide a box by the changes of a number: all within the tolerance, or one beyond it."""
    within = True
    for m in range(len(question.pairs)):
        if max(b.least[2 * m, 0], b.least[2 * m, 1]) > 0:
            return UNFAIR
        within = within and max(b.least[2 * m + 1, 0], b.least[2 * m + 1, 1]) > 0
    return FAIR if within else OPEN


@jit
def _count_part(net, question, level, parts, b, d, p):
    """Count the people of a part whose treatment the functions decide."""
    lay_out_box(net, parts.low[p], parts.high[p], max(STEPS[level] // 4, LISTED[level]), b, d)
    events, exclusive = plan_events(question, len(net.bases), d)
    fair, unfair = count_shares(events, exclusive, STEPS[level], LISTED[level], d)
    parts.fair[p] = max(parts.fair[p], fair)
    parts.unfair[p] = max(parts.unfair[p], unfair)
