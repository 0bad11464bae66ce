"""Compiled counting for the depth-first search: a small cube at a time, and all permutations of the outcome with it.

The rule sets over a few attributes are walked through like the figures of an odometer: the step on one attribute adds
a slab of counts to those of its last rule (a range one bin longer) or begins anew, and what comes out is the cube of
the attributes after it. One more rule set thus costs one addition per permutation, and one multiplication and one
maximum for its standardised gap, which given its size is linear in its count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from evenhand.stats.skewness import FAR

Ints = NDArray[np.int64]

LANES = 256
"""Permutations that are counted together, as the last axis of every array."""
RESET, ADD, SUBTRACT = 0, 1, 2
STANDARDISED, PLAIN, CERTAIN = 0, 1, 2


class Walk(NamedTuple):
    """How the rule sets over some attributes are walked through.

    Attributes:
        first, steps: (axes,) int64, where an attribute's steps begin, and how many there are.
        operation, cell: (all steps,) int64, begin with, add or subtract the slab of which cell.
        rule: (all steps,) int64, the rule that then is reached, -1 on the way to one.
        span: (axes + 1,) int64, cells of the cube of the attributes from the i-th on.
        start: (axes + 1,) int64, where that cube begins in the work arrays, in cells; the last entry is one cell.
        node: (axes + 1,) int64, where the flags of partial rule sets over the first i attributes begin.
    """

    first: Ints
    steps: Ints
    operation: Ints
    cell: Ints
    rule: Ints
    span: Ints
    start: Ints
    node: Ints


class Strata(NamedTuple):
    """Everybody, by stratum (one, if nothing is controlled for).

    Attributes:
        people: int64, how many there are.
        mean: float64, of the outcome; 0 where amounts are told as what exceeds it.
        variance: of the outcome, divisor n - 1.
        skewness: of the outcome.
    """

    people: Ints
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    skewness: NDArray[np.float64]


class Floors(NamedTuple):
    """People inside and outside a rule set, at least; in strata where there is nobody on one side nobody counts."""

    least: int
    least_rest: int


class Ranking(NamedTuple):
    """How rule sets are ranked and when they stand out.

    Attributes:
        by: STANDARDISED for the absolute standardised gap, PLAIN for the absolute gap, CERTAIN for what is left of it
            less ``critical`` standard deviations under chance.
        critical: standard errors.
        margin: a rule set stands out if its gap is more than ``critical`` standard errors and could be this large.
        threshold: a rule set that scores less is not listed.
    """

    by: int
    critical: float
    margin: float
    threshold: float


class Seen(NamedTuple):
    """The rule sets of a walk, in its order.

    Attributes:
        key: uint64, of each that passes the floors: the sum of its people's random keys, so that the same people have
            the same key.
        standing: uint64, the keys of those that stand out.
        leaf: int64, of each that is listed: its place among all steps of the walk.
        score: float64, what it is ranked by.
        listed: uint64, its key.
    """

    key: NDArray[np.uint64]
    standing: NDArray[np.uint64]
    leaf: Ints
    score: NDArray[np.float64]
    listed: NDArray[np.uint64]


class Leaves(NamedTuple):
    """What is expected of each rule set, one per step of the last attribute, float32.

    The excess is ``count - pivot - fraction``; its standardised size ``excess * above``, or ``-excess * below`` if it
    is negative. ``above`` is 0 where no rule set is to be looked at. ``alive``: uint8, whether a partial rule set has
    people enough.
    """

    above: NDArray[np.float32]
    below: NDArray[np.float32]
    pivot: NDArray[np.float32]
    fraction: NDArray[np.float32]
    alive: NDArray[np.uint8]


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile, and keep the machine code on disk where there is a place to write."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"nnan", "nsz", "contract"}}
    try:
        return njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:
        return njit(**options)(function)  # type: ignore[no-any-return]


@_compiled
def tally(weights, rows, place, cube):
    """Fill a cube: ``cube[place[r]] += weights[r]`` for these rows; ``weights`` (rows, lanes), ``cube`` flat."""
    lanes = weights.shape[1]
    cube[:] = 0
    for row in rows:
        base = place[row] * lanes
        for lane in range(lanes):
            cube[base + lane] += weights[row, lane]


@_compiled
def expected(size, start, strata):
    """What chance makes of a group, by the sizes of its strata, ``size[start:]`` (see ``gaps.tails``).

    Returns:
        People in and outside it, the mean of its amount, by what an excess above and below that is to be multiplied
        (0 if chance leaves no room), and by what to divide the excess for the gap.
    """
    inside, outside = np.int64(0), np.int64(0)
    mean, variance, third, weight = 0.0, 0.0, 0.0, 0.0
    for s in range(strata.people.shape[0]):
        n, people = size[start + s], strata.people[s]
        rest = people - n
        mean += n * strata.mean[s]
        if n == 0 or rest == 0:
            continue
        inside += n
        outside += rest
        share = np.float64(n) * rest / people
        own = share * strata.variance[s]
        weight += share
        variance += own
        if people > 2:
            skewness = strata.skewness[s] * (people - 2 * n) * np.sqrt(people - 1.0) / (people - 2)
            third += skewness / np.sqrt(np.float64(n) * rest) * own * np.sqrt(own)
    if variance <= 0:
        return inside, outside, mean, 0.0, 0.0, weight
    deviation = np.sqrt(variance)
    shift = third / (variance * deviation) * (FAR * FAR - 1) / 6
    above, below = FAR / max(FAR + shift, 1.0), FAR / max(FAR - shift, 1.0)
    return inside, outside, mean, above / deviation, below / deviation, weight


@_compiled
def observe(walk, floors, ranking, strata, size, amount, key, leaves, seen):
    """Walk through all rule sets with what was observed.

    Args:
        walk: the walk.
        floors, ranking: what is asked of rule sets.
        strata: everybody.
        size: work array, cells by strata, flat; amount, key: by cell; the first cube of each filled.
        leaves, seen: filled.

    Returns:
        How many rule sets pass the floors, how many of them stand out, and how many are listed.
    """
    axes, number = walk.first.shape[0], strata.people.shape[0]
    position = np.zeros(axes, np.int64)
    node = np.zeros(axes + 1, np.int64)
    leaves.above[: np.prod(walk.steps)] = 0
    leaves.alive[: walk.node[axes] + 1] = 0
    level, passed, standing, listed = 0, 0, 0, 0
    while True:
        if position[level] == walk.steps[level]:
            if level == 0:
                return passed, standing, listed
            level -= 1
            continue
        step = walk.first[level] + position[level]
        node[level + 1] = node[level] * walk.steps[level] + position[level]
        position[level] += 1
        cells = walk.span[level + 1]
        source = walk.start[level] + walk.cell[step] * cells
        target = walk.start[level + 1]
        sign = np.int64(-1) if walk.operation[step] == SUBTRACT else np.int64(1)
        if walk.operation[step] == RESET:
            size[target * number : (target + cells) * number] = 0
            amount[target : target + cells] = 0
            key[target : target + cells] = 0
        n = np.int64(0)
        for c in range(cells * number):
            size[target * number + c] += sign * size[source * number + c]
            n += size[target * number + c]
        for c in range(cells):
            amount[target + c] += sign * amount[source + c]
            key[target + c] += np.uint64(sign) * key[source + c]
        if walk.rule[step] < 0 or n < floors.least:
            continue
        if level < axes - 1:
            leaves.alive[walk.node[level + 1] + node[level + 1]] = 1
            level += 1
            position[level] = 0
            continue
        inside, outside, mean, above, below, weight = expected(size, target * number, strata)
        if inside < floors.least or outside < floors.least_rest:
            continue
        leaf = node[axes]
        pivot = np.rint(mean)
        leaves.above[leaf] = above
        leaves.below[leaf] = below
        leaves.pivot[leaf] = pivot
        leaves.fraction[leaf] = mean - pivot
        seen.key[passed] = key[target]
        passed += 1
        excess = amount[target] - mean
        scale = above if excess > 0 else below
        z = abs(excess) * scale
        gap = abs(excess) / weight if weight > 0 else 0.0
        reach = ranking.critical / (weight * scale) if weight > 0 and scale > 0 else 0.0
        if z > ranking.critical and gap + reach >= ranking.margin:
            seen.standing[standing] = key[target]
            standing += 1
        score = z if ranking.by == STANDARDISED else gap if ranking.by == PLAIN else gap - reach
        if score >= ranking.threshold:
            seen.leaf[listed] = leaf
            seen.score[listed] = score
            seen.listed[listed] = key[target]
            listed += 1


@_compiled
def permute(walk, leaves, counts, best):
    """Raise ``best`` (LANES,) float32 to the largest absolute standardised gap of each permutation.

    Args:
        walk: the walk.
        leaves: as ``observe`` filled them.
        counts: float32, cells by LANES, flat, the first cube filled with the permuted counts.
        best: changed in place.
    """
    axes = walk.first.shape[0]
    last = axes - 1
    total = np.empty(LANES, np.float32)
    position = np.zeros(axes, np.int64)
    node = np.zeros(axes + 1, np.int64)
    level = 0
    while True:
        if level == last:
            _last(walk, leaves, counts, total, best, node[last])
            if level == 0:
                return
            level -= 1
            continue
        if position[level] == walk.steps[level]:
            if level == 0:
                return
            level -= 1
            continue
        step = walk.first[level] + position[level]
        node[level + 1] = node[level] * walk.steps[level] + position[level]
        position[level] += 1
        wide = walk.span[level + 1] * LANES
        source = walk.start[level] * LANES + walk.cell[step] * wide
        target = walk.start[level + 1] * LANES
        operation = walk.operation[step]
        if operation == RESET:
            for c in range(wide):
                counts[target + c] = counts[source + c]
        elif operation == ADD:
            for c in range(wide):
                counts[target + c] += counts[source + c]
        else:
            for c in range(wide):
                counts[target + c] -= counts[source + c]
        if leaves.alive[walk.node[level + 1] + node[level + 1]]:
            level += 1
            position[level] = 0


@_compiled
def _last(walk, leaves, counts, total, best, node):
    """The rules of the last attribute, under one partial rule set over the others."""
    last = walk.first.shape[0] - 1
    start, steps = walk.first[last], walk.steps[last]
    base = walk.start[last] * LANES
    for s in range(steps):
        source = base + walk.cell[start + s] * LANES
        slab = counts[source : source + LANES]
        operation = walk.operation[start + s]
        leaf = node * steps + s
        above, below = leaves.above[leaf], -leaves.below[leaf]
        pivot, fraction = leaves.pivot[leaf], leaves.fraction[leaf]
        if above == 0:
            if operation == RESET:
                for lane in range(LANES):
                    total[lane] = slab[lane]
            elif operation == ADD:
                for lane in range(LANES):
                    total[lane] += slab[lane]
            else:
                for lane in range(LANES):
                    total[lane] -= slab[lane]
        elif operation == RESET:
            for lane in range(LANES):
                count = slab[lane]
                total[lane] = count
                excess = count - pivot - fraction
                largest = max(excess * above, excess * below)
                best[lane] = largest if largest > best[lane] else best[lane]
        elif operation == ADD:
            for lane in range(LANES):
                count = total[lane] + slab[lane]
                total[lane] = count
                excess = count - pivot - fraction
                largest = max(excess * above, excess * below)
                best[lane] = largest if largest > best[lane] else best[lane]
        else:
            for lane in range(LANES):
                count = total[lane] - slab[lane]
                total[lane] = count
                excess = count - pivot - fraction
                largest = max(excess * above, excess * below)
                best[lane] = largest if largest > best[lane] else best[lane]
