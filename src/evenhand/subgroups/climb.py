"""Compiled climbs from one rule set to better ones, one attribute at a time.

The standardised gap of n of N people with the excess x (their sum of outcomes minus the expected sum) is
``x / sqrt(n (N - n))`` up to a constant, which is quasi-convex in (n, x). Hence, given the rules on all other
attributes, the best subset of an attribute's values consists of the first values in the order of x / n: k subsets
instead of 2^k need to be tried (linear-time subset scanning: Neill, "Fast subset scan for spatial pattern detection",
Journal of the Royal Statistical Society B 2012). This holds exactly for one stratum, equally long tails, and minimum
sizes that do not bind. Otherwise, the order is a heuristic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers
from evenhand.stats.permutation import FAR

VISITED = 256
"""Maximum number of rule sets that later climbs recognise."""


class StratumMoments(NamedTuple):
    """Moments of all people by stratum (a single one without a control variable).

    Attributes:
        people: Number of people.
        variance: Variance of the outcome, divisor n - 1.
        skewness: Skewness of the outcome.
    """

    people: Floats
    variance: Floats
    skewness: Floats


class ClimbedCells(NamedTuple):
    """Occupied cells and the rules over them.

    Attributes:
        places: Value of each attribute times the number of strata, plus the stratum of the cell, shape (attributes,
            cells).
        sizes: Number of people in each cell.
        values: Number of values of each attribute.
        ranges: Number of leading values of an ordered attribute, whose ranges are rules. 0 if rules are subsets.
        moments: Moments of all people.
        min_size: Minimum number of people inside and outside. Strata with an empty side do not count.
        depth: Maximum number of attributes in a rule set.
    """

    places: NDArray[np.int32]
    sizes: Floats
    values: Integers
    ranges: Integers
    moments: StratumMoments
    min_size: float
    depth: int


_compile = compile_kernel(nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "contract"})


@_compile
def standardise_excess(excess, sign, size, cells):
    """Compute the standardised gap times the sign from the excess and the sizes by stratum.

    The result equals ``gaps.correct_tails``, or minus infinity if too few people are inside or outside.
    """
    inside, outside, variance, third = 0.0, 0.0, 0.0, 0.0
    for s in range(len(size)):
        n, people = size[s], cells.moments.people[s]
        rest = people - n
        if n <= 0 or rest <= 0:
            continue
        inside += n
        outside += rest
        own = n * rest / people * cells.moments.variance[s]
        variance += own
        if people > 2 and cells.moments.skewness[s] != 0:
            skewness = cells.moments.skewness[s] * (people - 2 * n) * np.sqrt(people - 1.0) / (people - 2)
            third += skewness / np.sqrt(n * rest) * own * np.sqrt(own)
    if inside < cells.min_size or outside < cells.min_size:
        return -np.inf
    if variance <= 0:
        return 0.0
    deviation = np.sqrt(variance)
    # Cornish and Fisher (1938): the quantile of a skewed sum at z is z + skewness (z^2 - 1) / 6.
    shift = third / (variance * deviation) * (FAR * FAR - 1) / 6
    return sign * excess / deviation * FAR / max(FAR + shift if excess > 0 else FAR - shift, 1.0)


@_compile
def _expand(rule, strata, member):
    """Write whether a rule contains each value, once per stratum."""
    for v in range(len(rule)):
        member[v * strata : (v + 1) * strata] = rule[v]


@_compile
def climb(cells, excess, sign, first, inside, failing, visited):
    """Improve a rule set until no other rule on a single attribute is better.

    Args:
        cells: Cells and rules.
        excess: Sum of outcomes in each cell, minus the expected sum.
        sign: 1 to look for higher outcomes, -1 for lower ones.
        first: Attribute whose rule is improved first.
        inside: Whether the rule of each attribute contains each value, shape (attributes, values). Improved in place.
        failing: Work array, shape (cells,), int8.
        visited: Gaps on the way of earlier climbs, followed by infinity. This climb adds its own.

    Returns:
        The standardised gap times the sign. Minus infinity if no rule set on the way is large enough, or if an earlier
        climb passed the same one.
    """
    attributes, number = cells.places.shape
    strata, most = len(cells.moments.people), inside.shape[1]
    size_by, excess_by, member = np.empty(most * strata), np.empty(most * strata), np.empty(most * strata, np.int8)
    priority, size = np.empty(most), np.empty(strata)
    # Invariant: failing[c] is the number of attributes whose rule excludes cell c.
    failing[:] = 0
    for j in range(attributes):
        _expand(inside[j], strata, member)
        for c in range(number):
            failing[c] += 1 - member[cells.places[j, c]]
    best, unimproved, j = -np.inf, 0, first
    while unimproved < attributes:
        values, ranges, places, rule = cells.values[j], cells.ranges[j], cells.places[j], inside[j]
        restricted = 0
        for i in range(attributes):
            restricted += i != j and not inside[i, : cells.values[i]].all()
        # Sums by value of the people who satisfy the rules on all other attributes.
        _expand(rule, strata, member)
        size_by[:] = 0
        excess_by[:] = 0
        for c in range(number):
            if failing[c] + member[places[c]] == 1:
                size_by[places[c]] += cells.sizes[c]
                excess_by[places[c]] += excess[c]
        order = np.arange(values)
        if ranges == 0:
            for v in range(values):
                weight, gain = 0.0, 0.0
                for s in range(strata):
                    weight += size_by[v * strata + s] * cells.moments.variance[s]
                    gain += excess_by[v * strata + s]
                priority[v] = -sign * gain / weight if weight > 0 else np.inf
            order = np.argsort(priority[:values])
        # Candidates are the current rule, no rule, and runs of values in this order.
        top, top_low, top_high = best + 1e-9, -1, -1
        for low in range(-1, 0 if restricted >= cells.depth else values if ranges > 0 else 1):
            size[:] = 0
            total = 0.0
            for high in range(max(low, 0), ranges if 0 <= low < ranges else values):
                v = order[high]
                for s in range(strata):
                    size[s] += size_by[v * strata + s]
                    total += excess_by[v * strata + s]
                if low < 0 and high < values - 1:
                    continue
                z = standardise_excess(total, sign, size, cells)
                if z > top:
                    top, top_low, top_high = z, low, high
        if top_high < 0:
            unimproved += 1
        else:
            best, unimproved = top, 1
            for i in range(len(visited)):
                if abs(visited[i] - best) <= 1e-12 * abs(best):
                    return -np.inf
                if np.isinf(visited[i]):
                    visited[i] = best
                    break
            change = member.copy()
            rule[:values] = top_low < 0
            for position in range(max(top_low, 0), top_high + 1):
                rule[order[position]] = True
            _expand(rule, strata, member)
            change -= member
            for c in range(number):
                failing[c] += change[places[c]]
        j = j + 1 if j + 1 < attributes else 0
    return best


@_compile
def climb_all(cells, excess, starts, firsts, ends, z):
    """Climb from every start, to higher and to lower outcomes.

    Args:
        cells: Cells and rules.
        excess: Sum of outcomes in each cell, minus the expected sum.
        starts: Rule sets, shape (starts, attributes, values).
        firsts: Attribute whose rule is improved first, for each start.
        ends: Rule sets that the climbs end at, shape (2, starts, attributes, values), filled in place.
        z: Their absolute standardised gaps, shape (2, starts), filled in place.
    """
    failing, visited = np.empty(cells.places.shape[1], np.int8), np.empty(VISITED)
    for side in range(2):
        visited[:] = np.inf
        for i in range(len(starts)):
            ends[side, i] = starts[i]
            z[side, i] = max(climb(cells, excess, 2.0 * side - 1.0, firsts[i], ends[side, i], failing, visited), 0.0)
