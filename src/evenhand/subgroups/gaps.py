"""Gaps between rule sets and the rest: estimates, standardised gaps, and intervals.

Outcomes are permuted within strata (a single one without a control variable). The z of a rule set is its sum of
outcomes minus the expected sum, in standard deviations under permutation. Both tails are rescaled to equal size,
because those of rare outcomes in small groups differ (``evenhand.stats.permutation``). The interval for a gap of rates
is the score interval: at the critical z of the permutations it excludes 0 if and only if z exceeds the critical value,
so that the adjusted p-value and the adjusted interval never contradict each other. The interval for a gap of means is
the wider of Welch's interval at the same level and that of the permutations, which excludes 0 in the same way. Welch's
interval alone has insufficient coverage in small groups with skewed values, whose standard deviation tends to be small
when their mean is low. The permutation interval alone has insufficient coverage if the variances differ. A finding
therefore requires both, and the ends of Welch's interval are moved towards the long tail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import normal_cdf, normal_quantile, student_quantile
from evenhand.stats.mean import SampleMoments, welch_interval
from evenhand.stats.permutation import FAR, group_skewness, tail_scales
from evenhand.stats.proportion import difference_interval, effective_sums, kish_size, stratified_difference
from evenhand.subgroups.tabulate import CellTable

IntervalEnds: TypeAlias = tuple[Floats, Floats]

MOST_ENTRIES = 1 << 24
"""Approximate number of array entries held at once."""


@dataclass(frozen=True)
class StratifiedGroups:
    """Comparison of groups of people with others, by stratum. Arrays have the shape (groups, strata) unless stated.

    Attributes:
        size, total, squares: People in each group, sum of their values and of the squares. With weights, sizes are
            effective, and sums those of an equally informative unweighted sample (``evenhand.stats.effective_sums``).
        rest, rest_total, rest_squares: The same for the comparison group.
        people, rest_people: Number of people in both.
        two_sided: Whether a stratum has people on both sides. Other strata are ignored.
        weights: Mantel-Haenszel weights of the strata, ``n m / (n + m)``, with sum 1.
        rate, rest_rate: Rates or means on both sides, averaged over strata, shape (groups,).
        gap: Difference of the two, shape (groups,).
        deviation: Standard deviation of each stratum's total under permutation.
        expected, total_deviation: Mean and standard deviation of the total over all strata under permutation, shape
            (groups,).
        gap_deviation: Standard deviation of the gap under permutation, shape (groups,).
        z: Standardised gap without tail correction, shape (groups,).
        counted: Whether values are 0 and 1.
        width: Difference between the largest and the smallest value, at least 1.
        weighted: Whether people are weighted.
    """

    size: Floats
    total: Floats
    squares: Floats
    rest: Floats
    rest_total: Floats
    rest_squares: Floats
    people: Floats
    rest_people: Floats
    two_sided: Booleans
    weights: Floats
    rate: Floats
    rest_rate: Floats
    gap: Floats
    deviation: Floats
    expected: Floats
    total_deviation: Floats
    gap_deviation: Floats
    z: Floats
    counted: bool
    width: float
    weighted: bool

    def at(self, rows: Integers) -> StratifiedGroups:
        """Select some of the groups."""
        parts: Any = {name: part[rows] for name, part in vars(self).items() if isinstance(part, np.ndarray)}
        return replace(self, **parts)


def _divide_or_zero(numbers: Floats, divisors: Floats) -> Floats:
    """Divide, with 0 where the divisor is not positive."""
    shape = np.broadcast_shapes(np.shape(numbers), divisors.shape)
    return np.asarray(np.divide(numbers, divisors, out=np.zeros(shape), where=divisors > 0))


@dataclass(frozen=True)
class TailCorrection:
    """Factors that make both tails of a group's total comparable with a normal distribution, shape (groups,) each.

    Attributes:
        expected: Expected total.
        above, below: Inverse standard deviation times the scale of each tail.
        scale_above, scale_below: Scale of each tail.
    """

    expected: Floats
    above: Floats
    below: Floats
    scale_above: Floats
    scale_below: Floats

    def z(self, total: Floats) -> Floats:
        """Compute the standardised gaps of totals, shape (..., groups)."""
        excess = total - self.expected
        return np.where(excess > 0, excess * self.above, excess * self.below)


def correct_tails(groups: StratifiedGroups, skewness: Floats) -> TailCorrection:
    """Compute the tail correction of groups that are compared with all other people.

    Args:
        groups: Groups.
        skewness: Skewness of the values in each stratum, shape (strata,).
    """
    third = (group_skewness(groups.size, groups.size + groups.rest, skewness) * groups.deviation**3).sum(axis=-1)
    return scale_tails(groups, _divide_or_zero(third, groups.total_deviation**3))


def scale_tails(groups: StratifiedGroups, skewness: Floats) -> TailCorrection:
    """Compute the tail correction from the skewness of the gaps, shape (groups,).

    With several estimates of the skewness, shape (estimates, groups), each tail is as heavy as the heaviest of them,
    and never lighter than a normal tail, because light tails depend on more than the skewness. The variance is then
    estimated too, from as many people as the effective size of the smaller side, so the tails are those of Student's t.
    """
    above, below = tail_scales(skewness)
    if skewness.ndim > 1:
        freedom = np.maximum(np.minimum(groups.size, groups.rest).sum(axis=-1) - 1, 1)
        student = FAR / student_quantile(2 * float(normal_cdf(FAR)) - 1, freedom)
        above, below = (np.minimum(scales.min(axis=0), 1.0) * student for scales in (above, below))
    inverse = _divide_or_zero(np.ones(1), groups.total_deviation)
    return TailCorrection(groups.expected, inverse * above, inverse * below, above, below)


# Intervals.


def adjusted_intervals(
    groups: StratifiedGroups, scales: tuple[Floats, Floats], critical: float, skewness: Floats
) -> IntervalEnds:
    """Compute intervals that exclude 0 if the standardised gap exceeds the critical value, shape (groups,) each.

    Args:
        groups: Groups.
        scales: Scales of the upper and the lower tail of their totals, see ``TailCorrection``.
        critical: Critical value.
        skewness: Skewness of all values in each stratum, shape (strata,).
    """
    reach, (above, below) = np.minimum(critical, 30.0), scales
    if groups.counted:
        # The upper tail determines the upper ends, the lower tail the lower ends. A single call computes both.
        k1, n1, k2, n2 = (np.tile(side, (2, 1)) for side in (groups.total, groups.size, groups.rest_total, groups.rest))
        low, high = stratified_difference(k1, n1, k2, n2, z=reach / np.concatenate([above, below]))
        return low[: len(groups.size)], high[len(groups.size) :]
    low, high = _welch_interval(groups, _confidence_within(reach))
    shift = _skewness_shift(groups, reach, skewness)
    low, high = low + np.minimum(shift, 0), high + np.maximum(shift, 0)
    gap, permuted = groups.gap, reach * groups.gap_deviation
    return gap - np.maximum(gap - low, permuted) / above, gap + np.maximum(high - gap, permuted) / below


def approximate_intervals(groups: StratifiedGroups, critical: float) -> IntervalEnds:
    """Approximate the adjusted intervals by fast textbook intervals, which show where exact ones are needed."""
    own, rest = (groups.size, groups.total, groups.squares), (groups.rest, groups.rest_total, groups.rest_squares)
    parts = [
        np.maximum(squares / np.maximum(n, 1) - (total / np.maximum(n, 1)) ** 2, 0.0) / np.maximum(n, 1)
        for n, total, squares in (own, rest)
    ]
    half = critical * np.sqrt((groups.weights**2 * (parts[0] + parts[1])).sum(axis=-1))
    return groups.gap - half, groups.gap + half


def single_intervals(groups: StratifiedGroups, confidence: float) -> IntervalEnds:
    """Compute unadjusted intervals.

    Rates have the interval of ``difference_interval``, or with several strata the score interval. Means have Welch's.
    """
    if not groups.counted:
        return _welch_interval(groups, confidence)
    counts = (groups.total, groups.size, groups.rest_total, groups.rest)
    if groups.size.shape[-1] > 1:
        return stratified_difference(*counts, z=float(normal_quantile(confidence)))
    k1, n1, k2, n2 = (side[:, 0] for side in counts)
    return difference_interval(k1, n1, k2, n2, confidence)


def uncorrected_intervals(groups: StratifiedGroups, z: float) -> IntervalEnds:
    """Compute the score interval for rates, or Welch's interval of means, that reaches z standard errors."""
    if not groups.counted:
        return _welch_interval(groups, _confidence_within(z))
    return stratified_difference(groups.total, groups.size, groups.rest_total, groups.rest, z=z)


def _confidence_within(z: float) -> float:
    """Compute P(\\|Z\\| <= z) for a standard normal Z, rounded down below 1 if z exceeds about 8.3."""
    return min(2 * float(normal_cdf(z)) - 1, float(np.nextafter(1.0, 0.0)))


def _welch_interval(groups: StratifiedGroups, confidence: float) -> IntervalEnds:
    """Compute Welch's interval for a gap of means; with several strata, a normal interval from their variances."""
    sides = _sample_sides(groups)
    if groups.size.shape[-1] == 1:
        inside, outside = (SampleMoments(*(part[:, 0] for part in side)) for side in sides)
        return welch_interval(inside, outside, confidence, upper=groups.width)
    error = sum(variance / n for _, variance, n in sides)
    half = normal_quantile(confidence) * np.sqrt((groups.weights**2 * error).sum(axis=-1))
    return np.maximum(groups.gap - half, -groups.width), np.minimum(groups.gap + half, groups.width)


def _sample_sides(groups: StratifiedGroups) -> list[tuple[Floats, Floats, Floats]]:
    """Compute means, variances and sizes of the groups and of their comparison groups, shape (groups, strata) each."""
    own, rest = (groups.size, groups.total, groups.squares), (groups.rest, groups.rest_total, groups.rest_squares)
    sides = []
    for n, total, squares in (own, rest):
        mean = total / np.maximum(n, 1)
        sides.append((mean, np.maximum(squares - n * mean**2, 0.0) / np.maximum(n - 1, 1), np.maximum(n, 1)))
    return sides


def _skewness_shift(groups: StratifiedGroups, reach: float, skewness: Floats) -> Floats:
    """Compute the distance by which the ends of Welch's interval are too low for skewed values, shape (groups,).

    The mean of a few skewed values is low if their standard deviation happens to be small. By the Cornish-Fisher
    expansion of a studentised mean, the quantile at z lies ``g (2 z^2 + 1) / 6 + 5 g^2 z (4 z^2 - 1) / 72`` further
    towards the long tail, where g is the skewness of the estimated gap (Hall, "The Bootstrap and Edgeworth Expansion",
    1992, section 2.6; the kurtosis term, which shortens it, is omitted). The skewness of individual values is computed
    over all people, because a small sample underestimates it.
    """
    (_, variance, n), (_, rest_variance, m) = _sample_sides(groups)
    weights = groups.weights
    error = np.sqrt((weights**2 * (variance / n + rest_variance / m)).sum(axis=-1))
    third = (weights**3 * skewness * (variance**1.5 / n**2 - rest_variance**1.5 / m**2)).sum(axis=-1)
    skew = _divide_or_zero(third, error**3)
    linear, quadratic = (2 * reach**2 + 1) / 6, 5 * reach * (4 * reach**2 - 1) / 72
    return np.asarray(error * skew * (linear + quadratic * np.abs(skew)))


# Comparisons.


def compare_groups(table: CellTable, inside: Floats, everybody: Floats) -> StratifiedGroups:
    """Compare groups of a table's people with others, with weights by effective sizes on both sides.

    Args:
        table: People.
        inside: Sums of ``table.moments`` over each group, shape (moments, groups, strata).
        everybody: The same sums over each group and its comparison group together. Broadcasts with ``inside``.
    """
    people, rest_people = inside[0], everybody[0] - inside[0]
    if table.weights is not None:
        everybody = np.broadcast_to(everybody, inside.shape)
        # If no one is outside, the difference of the sums is a rounding error.
        outside = np.where(rest_people > 0, everybody - inside, 0.0)
        inside, outside = (_effective_side(side, everybody, counted=table.counted) for side in (inside, outside))
        everybody = inside + outside
    size, total, squares = inside
    rest, rest_total, rest_squares = everybody - inside
    if table.counted:
        rest_total = np.clip(rest_total, 0.0, rest)  # effective counts are rounded
    both, both_total, both_squares = everybody
    amounts = size * rest / np.maximum(both, 1)
    amount = amounts.sum(axis=-1, keepdims=True)
    weights = amounts / np.maximum(amount, 1e-300)
    rate, rest_rate = (
        (weights * (sums / np.maximum(number, 1))).sum(axis=-1) for sums, number in ((total, size), (rest_total, rest))
    )
    spread = np.maximum(both_squares - both_total**2 / np.maximum(both, 1), 0.0)
    spread = np.where(spread > 1e-12 * np.maximum(both_squares, 1e-300), spread, 0.0)
    deviation = np.sqrt(size * rest * spread / np.maximum(both * (both - 1), 1))
    total_deviation = np.sqrt((deviation**2).sum(axis=-1))
    expected = size * both_total / np.maximum(both, 1)
    return StratifiedGroups(
        size=size,
        total=total,
        squares=squares,
        rest=rest,
        rest_total=rest_total,
        rest_squares=rest_squares,
        people=people,
        rest_people=rest_people,
        two_sided=(size > 0) & (rest > 0),
        weights=weights,
        rate=rate,
        rest_rate=rest_rate,
        gap=rate - rest_rate,
        deviation=deviation,
        expected=expected.sum(axis=-1),
        total_deviation=total_deviation,
        # The total minus the expected total is the gap times the sum of the Mantel-Haenszel weights.
        gap_deviation=total_deviation / np.maximum(amount[..., 0], 1e-300),
        z=_divide_or_zero((total - expected).sum(axis=-1), total_deviation),
        counted=table.counted,
        width=table.width,
        weighted=table.weights is not None,
    )


def _effective_side(side: Floats, everybody: Floats, *, counted: bool) -> Floats:
    """Compute the effective size, sum and sum of squares of one side.

    The linearised variance of a rate is too small if a small group has few rare outcomes, or few large weights. So its
    effective size is at most the one from the variance of all weighted outcomes: Kish's size times p (1 - p) over
    ``sum(w^2 (y - p)^2) / sum(w^2)``.
    """
    n, total, squares = effective_sums(side, counted=counted)
    if not counted:
        return np.array([n, total, squares])
    _, total_weight, total_squares, valued, squares_valued, *_ = everybody
    p = valued / np.where(total_weight > 0, total_weight, 1)
    # sum(w^2 (y - p)^2), where y is 0 or 1.
    spread = (1 - p) ** 2 * squares_valued + p**2 * (total_squares - squares_valued)
    mixed = (p > 0) & (p < 1) & (spread > 0)
    with_outcome = squares_valued / np.where(mixed, valued, 1)
    without = (total_squares - squares_valued) / np.where(mixed, total_weight - valued, 1)
    own = np.minimum(_divide_or_zero(total, n), 1.0)
    typical = own * with_outcome + (1 - own) * without
    ratio = np.where(mixed, p * (1 - p) * total_weight * typical / np.where(mixed, spread, 1), 1.0)
    effective = np.minimum(n, kish_size(side[1], side[2]) * ratio)
    return np.array([effective, own * effective, own * effective])


def standardise_weighted(table: CellTable, groups: StratifiedGroups, inside: Floats) -> tuple[Floats, Floats]:
    """Compute the distribution of weighted gaps if values are unrelated to groups.

    With weighted sums S of the group and T of all people, ``S - T w / W`` is ``w (W - w) / W`` times the gap, where w
    and W are the weights of the group and of all people. Its variance is the variance of a value, multiplied
    by ``(1 - w/W)^2 sum(w_i^2)`` over the group plus ``(w/W)^2 sum(w_i^2)`` over the other people.

    Args:
        table: People.
        groups: Groups, compared by weights.
        inside: Sums of ``CellTable.moments`` over each group, shape (7, groups, strata).

    Returns:
        Factors that convert ``S - T w / W`` in each stratum, for values with variance 1, to terms whose sum over strata
        is the gap in standard deviations, shape (groups, strata); and the skewness of the gap, shape (2, groups): with
        a known variance, and with a variance that is estimated from the same people.
    """
    every, share = table.total_moments, inside[1] / np.maximum(table.total_moments[1], 1e-300)
    amount = inside[1] * (1 - share)
    scale = np.divide(groups.weights, amount, out=np.zeros(share.shape), where=groups.two_sided & (amount > 0))

    def spread(column: int, power: int, side: int = 1) -> Floats:
        outside = np.maximum(every[column] - inside[column], 0.0)
        return np.asarray(scale**power * ((1 - share) ** power * inside[column] + side * share**power * outside))

    scale_to_one = _divide_or_zero(np.ones(1), np.sqrt(spread(2, 2).sum(axis=-1)))
    second, third = table.weighted_spread
    varied = second > 0
    third, squares = np.where(varied, third, 0.0), spread(2, 2)
    top = (spread(6, 3, -1) * third).sum(axis=-1)
    # The variance is estimated from the same people: it is low if the mean is high because few large weights were
    # drawn. To first order, three times their covariance is subtracted from the skewness, and half of it from the mean.
    shared = (spread(6, 1, -1) * third * squares / np.maximum(every[2], 1e-300)).sum(axis=-1)
    bottom = (squares * np.where(varied, second, 0.0)).sum(axis=-1) ** 1.5
    both = np.array([top, top - (3 + 3 / (FAR**2 - 1)) * shared])
    return scale * scale_to_one[:, None], _divide_or_zero(both, bottom)
