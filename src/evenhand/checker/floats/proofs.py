"""Proving the claims of many boxes again in float64, rounded to the safe side (compiled).

A box is bounded and counted as a whole; if its claim is not reached, it is cut where most is open, and cut again. What
is not reached so either is left to finer counts (``reprove``).
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
    least_margin,
)
from evenhand.checker.floats.counting import LEVELS, MOST_LISTED, count_arrays, count_shares, lay_out_box
from evenhand.checker.floats.network import FloatNetwork, ShareEvents, mass_before
from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)

STEPS = tuple(steps for steps, _ in LEVELS)
LISTED = tuple(listed for _, listed in LEVELS)
MASS_LOSS = 2.0**-40
"""Relative error of the mass of a part of a box, and of sums of them, with room to spare."""


class BoxClaims(NamedTuple):
    """What is claimed of boxes, and what becomes of it.

    Attributes:
        fair, unfair: shares that must be reached, 1 where all of the box is claimed.
        proved_fair, proved_unfair: shares that were proved.
        parts: how many parts each box was cut into.
    """

    fair: Floats
    unfair: Floats
    proved_fair: Floats
    proved_unfair: Floats
    parts: Floats


class BoxParts(NamedTuple):
    """The parts of the box at hand: cells, share of its mass, shares proved, and where each had best be cut."""

    low: Integers
    high: Integers
    mass: Floats
    fair: Floats
    unfair: Floats
    axis: Integers


def prove_claims(
    net: FloatNetwork, events: ShareEvents, low: Integers, high: Integers, claims: BoxClaims, most: int
) -> None:
    """Prove claims about boxes (n, attributes), each cut into at most ``most`` parts; fills in what was proved."""
    margins, axes = int(net.sizes[-1]), low.shape[1]
    functions = max(int(events.member.max()) + 1, 2 * margins * (3 if events.together else len(net.bases)))
    low_parts, high_parts = np.zeros((2, most + 1, axes), dtype=np.int64)
    mass, fair, unfair = np.zeros((3, most + 1))
    parts = BoxParts(low_parts, high_parts, mass, fair, unfair, np.zeros(most + 1, dtype=np.int64))
    cells = 1 + int(np.minimum(net.counts, MOST_LISTED).sum())
    work = bound_arrays(net, functions), count_arrays(axes, functions, len(events.size), cells)
    prove_boxes(net, events, low, high, claims, most, parts, work)


@compile_kernel(nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
def prove_boxes(net, events, low, high, claims, most, parts, work):
    """Prove claims about boxes with work arrays that are given: for bounds, and for counts."""
    bounds, counts = work
    lows, highs, mass, fair, unfair, axis = parts
    # Invariant: parts 0 to n - 1 are disjoint and fill box k, their masses add up to one, and fair and unfair are lower
    # bounds on the shares of each. What costs least comes first: bounds of the box as a whole, counts on ever finer
    # grids, and only then cuts.
    for k in range(len(low)):
        for i in range(low.shape[1]):
            lows[0, i] = low[k, i]
            highs[0, i] = high[k, i]
        mass[0] = 1.0
        n = 1
        wanted, other = claims.fair[k], claims.unfair[k]
        whole = wanted == 1.0 or other == 1.0
        axis[0] = _bound_part(net, events, parts, bounds, 0)
        level = 0
        while not _is_reached(wanted, other, mass, fair, unfair, n) and not whole and level < len(STEPS):
            _count_part(net, events, level, parts, bounds, counts, 0)
            level += 1
        while n < most and not _is_reached(wanted, other, mass, fair, unfair, n):
            if _is_refuted(wanted, other, mass, fair, unfair, n):
                break
            # The part with the most open mass is cut: it is there that most can be gained.
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
                axis[p] = _bound_part(net, events, parts, bounds, p)
                if not whole and axis[p] >= 0 and fair[p] + unfair[p] == 0.0:
                    _count_part(net, events, 2, parts, bounds, counts, p)
            n += 1
        claims.parts[k] = n
        claims.proved_fair[k] = _sum_shares(mass, fair, n)
        claims.proved_unfair[k] = _sum_shares(mass, unfair, n)


@jit
def _sum_shares(mass, share, n):
    """Return the share of a box from those of its parts, rounded down; 1 if it is 1 everywhere."""
    total, everywhere = 0.0, True
    for p in range(n):
        total += mass[p] * share[p]
        everywhere = everywhere and share[p] == 1.0
    return 1.0 if everywhere else total * (1 - MASS_LOSS)


@jit
def _is_reached(wanted, other, mass, fair, unfair, n):
    return _sum_shares(mass, fair, n) >= wanted and _sum_shares(mass, unfair, n) >= other


@jit
def _is_refuted(wanted, other, mass, fair, unfair, n):
    """Return whether so much is proved of one kind that the claim of the other cannot hold."""
    # True shares add up to one at most: what is proved fair bounds what can be unfair. 1e-9 is left for rounding.
    return _sum_shares(mass, fair, n) > 1 - other + 1e-9 or _sum_shares(mass, unfair, n) > 1 - wanted + 1e-9


@jit
def _bound_part(net, events, parts, b, p):
    """Bound a part of a box, and decide it as a whole if bounds do; return where to cut it, -1: nowhere."""
    low, high, fair, unfair = parts.low[p], parts.high[p], parts.fair, parts.unfair
    single = True
    for i in range(len(low)):
        single = single and low[i] == high[i]
    b.weight[:] = 0.0
    fair[p] = unfair[p] = 0.0
    assignments = len(net.bases)
    if events.together and single:
        _decide_person(net, low, high, b, fair, unfair, p)
        return -1
    if events.together:
        bound_box(net, 0, assignments, low, high, b)
        bound_together(net, low, high, b)
    else:
        for q in range(assignments):
            bound_box(net, q, q + 1, low, high, b)
            bound_functions(net, q, low, high, b)
    # An event holds where all its functions are positive. Either choice of slopes gives a lower function, so the
    # greater of the two least values decides.
    for e in range(len(events.size)):
        holds = True
        for k in range(events.size[e]):
            f = events.member[e, k]
            holds = holds and max(b.least[f, 0], b.least[f, 1]) > 0
        if holds and events.unfair[e]:
            unfair[p] = 1.0
            return -1
        if holds:
            fair[p] = 1.0
            return -1
    return choose_axis(net, low, high, b)


@jit
def _decide_person(net, low, high, b, fair, unfair, p):
    """Decide one person between two labels under every assignment by itself."""
    always_second = always_first = True
    ever_second = ever_first = False
    for q in range(len(net.bases)):
        bound_box(net, q, q + 1, low, high, b)
        # Without a range nothing is lost by either choice of slopes.
        second = least_margin(net, q, 0, low, high, b) > 0
        first = least_margin(net, q, 1, low, high, b) > 0
        always_second, always_first = always_second and second, always_first and first
        ever_second, ever_first = ever_second or second, ever_first or first
    if always_second or always_first:
        fair[p] = 1.0
    elif ever_second and ever_first:
        unfair[p] = 1.0


@jit
def _count_part(net, events, level, parts, b, d, p):
    lay_out_box(net, parts.low[p], parts.high[p], max(STEPS[level] // 4, LISTED[level]), events.together, b, d)
    more, other = count_shares(events, STEPS[level], LISTED[level], d)
    parts.fair[p] = max(parts.fair[p], more)
    parts.unfair[p] = max(parts.unfair[p], other)
