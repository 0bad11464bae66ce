"""Compiled counting for the depth-first search: one small cube at a time, for all permutations of the outcome.

The rule sets over a few attributes are traversed like the digits of an odometer. Each step on an attribute adds a slab
of counts to the cube of the previous rule (such as the next bin of a range), subtracts a slab, or starts again from
zero. The result is the cube of the attributes after it. A rule set thus costs one addition per permutation, and one
multiplication and one maximum for its standardised gap, which for a fixed size is linear in its count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers
from evenhand.stats.score_difference import FAR

LANES = 256
"""Number of permutations that are counted together, as the last axis of every array."""
RESET, ADD, SUBTRACT = 0, 1, 2


class RuleTraversal(NamedTuple):
    """Traversal of the rule sets over some attributes.

    Attributes:
        offset, steps: Offset and number of each attribute's steps, (axes,) int64.
        operation, cell: Whether to start with, add or subtract the slab of a cell, (all steps,) int64.
        rule: Rule that is then reached, or -1 between rules, (all steps,) int64.
        span: Cells of the cube of the attributes from the i-th on, (axes + 1,) int64.
        start: Offset of that cube in the work arrays, in cells, (axes + 1,) int64. The last entry is one cell.
        node: Offset of the flags of partial rule sets over the first i attributes, (axes + 1,) int64.
    """

    offset: Integers
    steps: Integers
    operation: Integers
    cell: Integers
    rule: Integers
    span: Integers
    start: Integers
    node: Integers


class StratumMoments(NamedTuple):
    """Moments of all people by stratum (one, without a control variable).

    Attributes:
        people: Number of people, int64.
        mean: Mean outcome, float64; 0 if amounts are deviations from it.
        variance: Variance of the outcome, divisor n - 1.
        skewness: Skewness of the outcome.
    """

    people: Integers
    mean: Floats
    variance: Floats
    skewness: Floats


class KernelFloors(NamedTuple):
    """Minimum numbers of people inside and outside a rule set. Strata with an empty side do not count."""

    min_inside: int
    min_outside: int


class Ranking(NamedTuple):
    """Criteria for significant and listed rule sets.

    Attributes:
        critical: Number of standard errors that a significant gap exceeds.
        margin: Gaps that are certainly smaller are not significant.
        threshold: Minimum absolute standardised gap of listed rule sets.
    """

    critical: float
    margin: float
    threshold: float


class ObservedRuleSets(NamedTuple):
    """Rule sets of a traversal, in its order.

    Attributes:
        key: Key of each rule set that is large enough: the sum of its people's random keys, uint64.
        significant: Keys of the significant ones, uint64.
        leaf: Position of each listed rule set among all steps, int64.
        score: Its absolute standardised gap, float64.
        listed: Its key, uint64.
    """

    key: NDArray[np.uint64]
    significant: NDArray[np.uint64]
    leaf: Integers
    score: Floats
    listed: NDArray[np.uint64]


class LeafExpectations(NamedTuple):
    """Expectation of each rule set, one per step of the last attribute, float32.

    The excess is ``count - pivot - fraction``, and its standardised size ``excess * above``, or ``-excess * below`` if
    it is negative. ``above`` is 0 if there is no rule set to test. ``alive``: whether a partial rule set has enough
    people, uint8.
    """

    above: NDArray[np.float32]
    below: NDArray[np.float32]
    pivot: NDArray[np.float32]
    fraction: NDArray[np.float32]
    alive: NDArray[np.uint8]


class CubeCounts(NamedTuple):
    """Sums over the people in each cell: the first cube of a traversal, and space for the next ones.

    Attributes:
        size: Number of people, (cells * strata,) int64.
        amount: Sum of their outcomes, (cells,).
        key: Sum of their random keys, (cells,) uint64.
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
    """Compute the expectation of a group under permutation, from its sizes by stratum, ``size[start:]``.

    Returns:
        Number of people inside and outside, expected total, factors that standardise an excess above and a deficit
        below it (0 without variance), and divisor that converts the excess to the gap. See ``gaps.correct_tails``.
    """
    # Amounts of people permuted within strata (sampling without replacement): a group with n of the N people of a
    # stratum has the mean n * mu, the variance n (N - n) / N * S^2, and a third moment that vanishes at n = N / 2.
    # Strata are independent, so moments add up.
    inside, outside = np.int64(0), np.int64(0)
    mean, variance, third, weight = 0.0, 0.0, 0.0, 0.0
    for s in range(strata.people.shape[0]):
        n, people = size[start + s], strata.people[s]
        outsiders = people - n
        mean += n * strata.mean[s]
        if n == 0 or outsiders == 0:
            continue
        inside += n
        outside += outsiders
        share = np.float64(n) * outsiders / people
        own = share * strata.variance[s]
        weight += share
        variance += own
        if people > 2:
            skewness = strata.skewness[s] * (people - 2 * n) * np.sqrt(people - 1.0) / (people - 2)
            third += skewness / np.sqrt(np.float64(n) * outsiders) * own * np.sqrt(own)
    if variance <= 0:
        return inside, outside, mean, 0.0, 0.0, weight
    # Cornish and Fisher (1938): the quantile of a skewed sum at z is z + skewness * (z^2 - 1) / 6. Scaling by FAR over
    # that makes excesses on either side comparable with a normal tail at FAR deviations.
    deviation = np.sqrt(variance)
    shift = third / (variance * deviation) * (FAR * FAR - 1) / 6
    above, below = FAR / max(FAR + shift, 1.0), FAR / max(FAR - shift, 1.0)
    return inside, outside, mean, above / deviation, below / deviation, weight


@_compile
def observe_rule_sets(walk, floors, ranking, strata, counts, leaves, rule_sets):
    """Traverse all rule sets with the observed outcomes.

    Args:
        walk: Traversal.
        floors, ranking: Minimum sizes, and criteria for significant and listed rule sets.
        strata: Moments of all people.
        counts: Work arrays. The first cube of each is filled.
        leaves, rule_sets: Arrays of expectations and rule sets, filled in place.

    Returns:
        Number of rule sets that are large enough, of significant ones, and of listed ones.
    """
    size, amount, key = counts
    axes, number = walk.offset.shape[0], strata.people.shape[0]
    position = np.zeros(axes, np.int64)
    node = np.zeros(axes + 1, np.int64)
    leaves.above[: np.prod(walk.steps)] = 0
    leaves.alive[: walk.node[axes] + 1] = 0
    level, passed, significant, listed = 0, 0, 0, 0
    # Depth first. Invariant: the cube at a level contains sizes, amounts and keys of all people who satisfy the chosen
    # rules on the attributes before it, by the cells of the attributes after it. Consecutive rules of an attribute
    # differ in one cell, so a rule set costs one addition or subtraction of a slab.
    while True:
        if position[level] == walk.steps[level]:
            if level == 0:
                return passed, significant, listed
            level -= 1
            continue
        # node numbers partial rule sets in mixed radix: the digit of an attribute is its position among its steps.
        step = walk.offset[level] + position[level]
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
        # Adding rules only removes people, so that no refinement of a small rule set is large enough.
        if walk.rule[step] < 0 or n < floors.min_inside:
            continue
        if level < axes - 1:
            leaves.alive[walk.node[level + 1] + node[level + 1]] = 1
            level += 1
            position[level] = 0
            continue
        inside, outside, mean, above, below, weight = expected_counts(size, target * number, strata)
        if inside < floors.min_inside or outside < floors.min_outside:
            continue
        # Permuted counts are float32, which is exact for integers below 2^24. So an integer pivot is subtracted first,
        # without rounding if outcomes are counted, and then the fraction of the mean.
        leaf = node[axes]
        pivot = np.rint(mean)
        leaves.above[leaf] = above
        leaves.below[leaf] = below
        leaves.pivot[leaf] = pivot
        leaves.fraction[leaf] = mean - pivot
        rule_sets.key[passed] = key[target]
        passed += 1
        # z = excess / deviation, corrected for skewness; gap = excess / weight; reach is the half width of its
        # interval.
        excess = amount[target] - mean
        scale = above if excess > 0 else below
        z = abs(excess) * scale
        gap = abs(excess) / weight if weight > 0 else 0.0
        reach = ranking.critical / (weight * scale) if weight > 0 and scale > 0 else 0.0
        if z > ranking.critical and gap + reach >= ranking.margin:
            rule_sets.significant[significant] = key[target]
            significant += 1
        if z >= ranking.threshold:
            rule_sets.leaf[listed] = leaf
            rule_sets.score[listed] = z
            rule_sets.listed[listed] = key[target]
            listed += 1


@_compile
def permute_rule_sets(walk, leaves, counts, best):
    """Raise ``best`` (LANES,) float32 to the largest absolute standardised gap of each permutation.

    Args:
        walk: Traversal.
        leaves: Expectations, filled by ``observe_rule_sets``.
        counts: Work array, cells by LANES, flat, float32. The first cube is filled with permuted counts.
        best: Maxima, modified in place.
    """
    # Westfall and Young's max-t (1993): best[lane] is the largest |z| over all rule sets for one permutation of the
    # outcomes, and the adjusted p-value of a rule set is the share of permutations with best >= its |z|. Sizes do not
    # change under permutation, so pivots and scales are those of the observed pass.
    axes = walk.offset.shape[0]
    deepest = axes - 1
    total = np.empty(LANES, np.float32)
    position = np.zeros(axes, np.int64)
    node = np.zeros(axes + 1, np.int64)
    level = 0
    while True:
        if level == deepest:
            _permute_last_attribute(walk, leaves, counts, total, best, node[deepest])
            if level == 0:
                return
            level -= 1
            continue
        if position[level] == walk.steps[level]:
            if level == 0:
                return
            level -= 1
            continue
        step = walk.offset[level] + position[level]
        node[level + 1] = node[level] * walk.steps[level] + position[level]
        position[level] += 1
        wide = walk.span[level + 1] * LANES
        source = walk.start[level] * LANES + walk.cell[step] * wide
        target = walk.start[level + 1] * LANES
        # As in ``observe_rule_sets``: the next level's cube is the slab of this rule, or the last cube plus a slab.
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
        # The whole subtree is skipped if it has too few people.
        if leaves.alive[walk.node[level + 1] + node[level + 1]]:
            level += 1
            position[level] = 0


@_compile
def _permute_last_attribute(walk, leaves, counts, total, best, node):
    """Permute the rules of the last attribute, under one partial rule set over the others."""
    # Invariant: total[lane] is the sum of the outcome over the people of the last rule, in that permutation. The
    # standardised gap is excess * above or, below 0, -excess * leaves.below. Both factors are at least 0, so the larger
    # product is its absolute value, without a branch in the lanes.
    deepest = walk.offset.shape[0] - 1
    start, steps = walk.offset[deepest], walk.steps[deepest]
    base = walk.start[deepest] * LANES
    for s in range(steps):
        source = base + walk.cell[start + s] * LANES
        slab = counts[source : source + LANES]
        operation = walk.operation[start + s]
        leaf = node * steps + s
        above, below = leaves.above[leaf], -leaves.below[leaf]
        pivot, fraction = leaves.pivot[leaf], leaves.fraction[leaf]
        # The rule set has too few people to be tested, but the next step needs its counts.
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
