"""Compiled counting for the depth-first search: a small cube at a time, and all permutations of the outcome with it.

The rule sets over a few attributes are walked through like the figures of an odometer: the step on one attribute adds
a slab of counts to those of its last rule (a range one bin longer) or starts again from zero, and what comes out is the
cube of the attributes after it. One more rule set thus costs one addition per permutation, and one multiplication and
one maximum for its standardised gap, which given its size is linear in its count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers
from evenhand.stats.score_difference import FAR

LANES = 256
"""Permutations that are counted together, as the last axis of every array."""
RESET, ADD, SUBTRACT = 0, 1, 2


class RuleTraversal(NamedTuple):
    """How the rule sets over some attributes are walked through.

    Attributes:
        first, steps: (axes,) int64, where an attribute's steps begin, and how many there are.
        operation, cell: (all steps,) int64, begin with, add or subtract the slab of which cell.
        rule: (all steps,) int64, the rule that then is reached, -1 on the way to one.
        span: (axes + 1,) int64, cells of the cube of the attributes from the i-th on.
        start: (axes + 1,) int64, where that cube begins in the work arrays, in cells; the last entry is one cell.
        node: (axes + 1,) int64, where the flags of partial rule sets over the first i attributes begin.
    """

    first: Integers
    steps: Integers
    operation: Integers
    cell: Integers
    rule: Integers
    span: Integers
    start: Integers
    node: Integers


class StratumMoments(NamedTuple):
    """Everybody, by stratum (one, if nothing is controlled for).

    Attributes:
        people: int64, how many there are.
        mean: float64, of the outcome; 0 where amounts are told as what exceeds it.
        variance: of the outcome, divisor n - 1.
        skewness: of the outcome.
    """

    people: Integers
    mean: Floats
    variance: Floats
    skewness: Floats


class KernelFloors(NamedTuple):
    """Fewest people inside and outside a rule set; strata with an empty side do not count."""

    least: int
    least_rest: int


class Ranking(NamedTuple):
    """Which rule sets are significant, and which are listed by their absolute standardised gap.

    Attributes:
        critical: standard errors.
        margin: a rule set is significant if its gap is more than ``critical`` standard errors and could be this large.
        threshold: a rule set whose gap is smaller is not listed.
    """

    critical: float
    margin: float
    threshold: float


class ObservedRuleSets(NamedTuple):
    """The rule sets of a walk, in its order.

    Attributes:
        key: uint64, of each that passes the floors: the sum of its people's random keys, so that the same people have
            the same key.
        standing: uint64, the keys of those that are significant.
        leaf: int64, of each that is listed: its place among all steps of the walk.
        score: float64, its absolute standardised gap.
        listed: uint64, its key.
    """

    key: NDArray[np.uint64]
    standing: NDArray[np.uint64]
    leaf: Integers
    score: Floats
    listed: NDArray[np.uint64]


class LeafExpectations(NamedTuple):
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


class CubeCounts(NamedTuple):
    """What is counted of the people in each cell: the first cube of a walk, and room for those that follow.

    Attributes:
        size: (cells * strata,) int64, how many there are.
        amount: (cells,) the sum of their outcomes.
        key: (cells,) uint64, the sum of their random keys.
    """

    size: Integers
    amount: Floats
    key: NDArray[np.uint64]


_compile = compile_kernel(nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "contract"})


@_compile
def fill_cube(weights, rows, place, cube):
    """Fill a cube: ``cube[place[r]] += weights[r]`` for these rows; ``weights`` (rows, lanes), ``cube`` flat."""
    # One histogram per lane, side by side: the innermost loop runs over consecutive numbers.
    lanes = weights.shape[1]
    cube[:] = 0
    for row in rows:
        base = place[row] * lanes
        for lane in range(lanes):
            cube[base + lane] += weights[row, lane]


@_compile
def expected_counts(size, start, strata):
    """Return what chance makes of a group, by the sizes of its strata, ``size[start:]`` (see ``gaps.tails``).

    Returns:
        People in and outside it, the mean of its amount, by what an excess above and below that is to be multiplied
        (0 if chance leaves no room), and by what to divide the excess for the gap.
    """
    # Amounts of people permuted within strata (sampling without replacement): a group with n of the N people of a
    # stratum has the mean n * mu, the variance n (N - n) / N * S^2, and a third moment that vanishes at n = N / 2.
    # Strata are independent, so moments add up.
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
    # Cornish and Fisher (1938): the quantile of a skewed sum at z is z + skewness * (z^2 - 1) / 6. Scaling by FAR over
    # that makes excesses on either side comparable with a normal tail at FAR deviations.
    deviation = np.sqrt(variance)
    shift = third / (variance * deviation) * (FAR * FAR - 1) / 6
    above, below = FAR / max(FAR + shift, 1.0), FAR / max(FAR - shift, 1.0)
    return inside, outside, mean, above / deviation, below / deviation, weight


@_compile
def observe_rule_sets(walk, floors, ranking, strata, counts, leaves, seen):
    """Walk through all rule sets with what was observed.

    Args:
        walk: the walk.
        floors, ranking: what is asked of rule sets.
        strata: everybody.
        counts: work arrays, the first cube of each filled.
        leaves, seen: filled.

    Returns:
        How many rule sets pass the floors, how many of them are significant, and how many are listed.
    """
    size, amount, key = counts
    axes, number = walk.first.shape[0], strata.people.shape[0]
    position = np.zeros(axes, np.int64)
    node = np.zeros(axes + 1, np.int64)
    leaves.above[: np.prod(walk.steps)] = 0
    leaves.alive[: walk.node[axes] + 1] = 0
    level, passed, standing, listed = 0, 0, 0, 0
    # Depth first. Invariant: the cube at a level holds sizes, amounts and keys of everybody who meets the rules chosen
    # on the attributes before it, by the cells of the attributes after it. Successive rules of an attribute differ in
    # one cell, so a rule set costs one addition or subtraction of a slab.
    while True:
        if position[level] == walk.steps[level]:
            if level == 0:
                return passed, standing, listed
            level -= 1
            continue
        # node numbers partial rule sets in mixed radix: the digit of an attribute is its position among its steps.
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
        # Adding rules only takes people away: below the floor nothing deeper can pass it.
        if walk.rule[step] < 0 or n < floors.least:
            continue
        if level < axes - 1:
            leaves.alive[walk.node[level + 1] + node[level + 1]] = 1
            level += 1
            position[level] = 0
            continue
        inside, outside, mean, above, below, weight = expected_counts(size, target * number, strata)
        if inside < floors.least or outside < floors.least_rest:
            continue
        # The permuted counts are float32, which holds whole numbers below 2^24 as they are. So a whole pivot is taken
        # off first, without rounding where outcomes are counted, and then the fraction of the mean.
        leaf = node[axes]
        pivot = np.rint(mean)
        leaves.above[leaf] = above
        leaves.below[leaf] = below
        leaves.pivot[leaf] = pivot
        leaves.fraction[leaf] = mean - pivot
        seen.key[passed] = key[target]
        passed += 1
        # z = excess / deviation, corrected for skewness; gap = excess / weight; reach is the half width of its
        # interval.
        excess = amount[target] - mean
        scale = above if excess > 0 else below
        z = abs(excess) * scale
        gap = abs(excess) / weight if weight > 0 else 0.0
        reach = ranking.critical / (weight * scale) if weight > 0 and scale > 0 else 0.0
        if z > ranking.critical and gap + reach >= ranking.margin:
            seen.standing[standing] = key[target]
            standing += 1
        if z >= ranking.threshold:
            seen.leaf[listed] = leaf
            seen.score[listed] = z
            seen.listed[listed] = key[target]
            listed += 1


@_compile
def permute_rule_sets(walk, leaves, counts, best):
    """Raise ``best`` (LANES,) float32 to the largest absolute standardised gap of each permutation.

    Args:
        walk: the walk.
        leaves: as ``observe`` filled them.
        counts: float32, cells by LANES, flat, the first cube filled with the permuted counts.
        best: changed in place.
    """
    # Westfall and Young's max-t (1993): best[lane] is the largest |z| over all rule sets for one permutation of the
    # outcomes, and the adjusted p-value of a rule set the share of permutations with best >= its |z|. Sizes do not
    # change under permutation, so pivots and scales are those of the observed pass; LANES permutations go side by side.
    axes = walk.first.shape[0]
    last = axes - 1
    total = np.empty(LANES, np.float32)
    position = np.zeros(axes, np.int64)
    node = np.zeros(axes + 1, np.int64)
    level = 0
    while True:
        if level == last:
            _permute_last_attribute(walk, leaves, counts, total, best, node[last])
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
        # As in ``observe_rule_sets``: the cube of the next level is the slab of this rule, or the last cube and a slab.
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
        # No rule below can pass the floors where too few people are left: then the whole subtree is skipped.
        if leaves.alive[walk.node[level + 1] + node[level + 1]]:
            level += 1
            position[level] = 0


@_compile
def _permute_last_attribute(walk, leaves, counts, total, best, node):
    """Permute the rules of the last attribute, under one partial rule set over the others."""
    # Invariant: total[lane] is the outcome's sum over the people of the last rule, in that permutation. The
    # standardised gap is excess * above or, below 0, -excess * leaves.below; both factors are at least 0, so the larger
    # of the two products is its absolute value, without a branch in the lanes.
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
        # The rule set itself is not tested (too few people); its counts are still needed by the next step.
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
