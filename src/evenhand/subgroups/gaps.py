"""The gap of every rule set to the rest: estimates, standardised gaps, intervals.

Within strata (one, if nothing is controlled for) outcomes are permuted. The excess of a rule set over what its
size lets expect, in standard deviations under that, is its z; the deviations of both tails are made alike, since those
of rare outcomes in small groups are not (``evenhand.stats.score_difference``). The interval for a gap of rates is the
score interval: at the critical z of the permutations it excludes 0 exactly where z lies beyond the critical one, so
that adjusted p and adjusted interval never contradict each other. That for a gap of means is the wider of Welch's at
the same level and of what the permutations allow, which excludes 0 in the same way: Welch's alone misses in small
groups of skewed numbers, whose spread is small where their mean is low, and the permutations alone where spreads
differ. So a finding needs both, and Welch's ends are moved out on the side of the long tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import normal_cdf, normal_quantile, student_quantile
from evenhand.stats.mean import SampleMoments, welch_interval
from evenhand.stats.proportion import difference_interval, effective_sums, kish_size
from evenhand.stats.score_difference import FAR, group_skewness, stratified_difference, tail_scales
from evenhand.subgroups.tabulate import CellTable

IntervalEnds = tuple[Floats, Floats]


@dataclass(frozen=True)
class StratifiedGroups:
    """Groups of people and those they are compared with, by stratum.

    Attributes:
        size, total, squares: people in each group, sum of their values, and of the squares, shape (groups, strata).
        everybody: the same of all people, or of those among whom each group is looked at; broadcasts with them.
        counted: whether values are 0 and 1.
        width: of the range that values lie in.
        people: where people have weights, how many there are in each group and of everybody; sizes are effective then,
            and sums those of a sample, drawn alike, that says as much (see ``evenhand.stats.effective_sums``).
    """

    size: Floats
    total: Floats
    squares: Floats
    everybody: tuple[Floats, Floats, Floats]
    counted: bool
    width: float = 1.0
    people: tuple[Floats, Floats] | None = None

    @property
    def rest(self) -> Floats:
        """People outside, shape (groups, strata)."""
        return np.asarray(self.everybody[0] - self.size)

    @property
    def rest_totals(self) -> Floats:
        """Sum of their values."""
        left = np.asarray(self.everybody[1] - self.total)
        return np.clip(left, 0.0, self.rest) if self.counted else left  # effective counts are rounded

    @property
    def two_sided(self) -> Booleans:
        """Strata with people on both sides; the others say nothing."""
        return np.asarray((self.size > 0) & (self.rest > 0))

    @property
    def weights(self) -> Floats:
        """What each stratum counts, adding up to 1: ``n m / (n + m)``, as Mantel and Haenszel weigh."""
        raw = self.size * self.rest / np.maximum(self.everybody[0], 1)
        return np.asarray(raw / np.maximum(raw.sum(axis=-1, keepdims=True), 1e-300))

    @property
    def rates(self) -> tuple[Floats, Floats]:
        """Rates (or mean scores) of the groups and of the rest, averaged over strata, shape (groups,)."""
        own = self.total / np.maximum(self.size, 1)
        others = self.rest_totals / np.maximum(self.rest, 1)
        return (self.weights * own).sum(axis=-1), (self.weights * others).sum(axis=-1)

    def at(self, where: Integers) -> StratifiedGroups:
        """Return some of the groups, whose comparisons are all with the same people or each with its own."""
        everybody = [part if part.ndim < 2 else part[where] for part in self.everybody]
        people = None if self.people is None else (self.people[0][where], self.people[1][where])
        return StratifiedGroups(
            self.size[where],
            self.total[where],
            self.squares[where],
            (everybody[0], everybody[1], everybody[2]),
            self.counted,
            self.width,
            people,
        )

    def count_people(self, row: int) -> tuple[int, int]:
        """Return how many people are in a group and outside, in strata with both."""
        size, everybody = (self.size, self.everybody[0]) if self.people is None else self.people
        part = self.two_sided[row]
        inside = size[row][part]
        return round(float(inside.sum())), round(
            float((np.broadcast_to(everybody, size.shape)[row][part] - inside).sum())
        )

    @property
    def deviation(self) -> Floats:
        """Standard deviation of each stratum's total when the values are permuted, shape (groups, strata)."""
        people, total, squares = self.everybody
        spread = np.maximum(squares - total**2 / np.maximum(people, 1), 0.0)
        spread = np.where(spread > 1e-12 * np.maximum(squares, 1e-300), spread, 0.0)
        variance = self.size * self.rest * spread / np.maximum(people * (people - 1), 1)
        return np.asarray(np.sqrt(variance), dtype=np.float64)

    @property
    def gap_deviation(self) -> Floats:
        """Standard deviation of the gap when the values are permuted, shape (groups,)."""
        # The excess of the total over what is expected is the gap times this, the sum of Mantel and Haenszel's weights.
        amount = (self.size * self.rest / np.maximum(self.everybody[0], 1)).sum(axis=-1)
        return np.asarray(np.sqrt((self.deviation**2).sum(axis=-1)) / np.maximum(amount, 1e-300))

    @property
    def expected_totals(self) -> Floats:
        """Mean of each stratum's total under the same, shape (groups, strata)."""
        people, total, _ = self.everybody
        return np.asarray(self.size * total / np.maximum(people, 1))

    @property
    def z(self) -> Floats:
        """The excess in standard deviations, shape (groups,)."""
        together = np.sqrt((self.deviation**2).sum(axis=-1))
        excess = (self.total - self.expected_totals).sum(axis=-1)
        return np.asarray(np.divide(excess, together, out=np.zeros_like(excess), where=together > 0))


@dataclass(frozen=True)
class TailCorrection:
    """By what an excess above and below expectation is multiplied, so that it compares with a normal deviation.

    Attributes:
        expected: shape (groups,).
        above, below: one over the standard deviation, times the scale of that tail, shape (groups,).
    """

    expected: Floats
    above: Floats
    below: Floats
    scale_above: Floats
    scale_below: Floats

    def at(self, where: Integers) -> TailCorrection:
        """Return those of some of the groups."""
        arrays = (self.expected, self.above, self.below, self.scale_above, self.scale_below)
        return TailCorrection(*(array[where] for array in arrays))

    def z(self, total: Floats) -> Floats:
        """Return standardised gaps of totals, shape (..., groups)."""
        excess = total - self.expected
        return np.where(excess > 0, excess * self.above, excess * self.below)


def correct_tails(groups: StratifiedGroups, skewness: Floats) -> TailCorrection:
    """Return how the totals of groups are distributed when the values are permuted.

    Args:
        groups: compared with everybody else.
        skewness: of the values in each stratum, shape (strata,).
    """
    deviation = groups.deviation
    together = np.sqrt((deviation**2).sum(axis=-1))
    third = (group_skewness(groups.size, groups.everybody[0], skewness) * deviation**3).sum(axis=-1)
    skewed = np.divide(third, together**3, out=np.zeros_like(together), where=together > 0)
    return scale_tails(groups, skewed)


def scale_tails(groups: StratifiedGroups, skewed: Floats) -> TailCorrection:
    """Return how the totals of groups are distributed, whose gaps have this skewness, shape (groups,).

    Where there are several estimates of it, shape (estimates, groups), tails are as heavy as by any of them, and never
    lighter than normal ones: how light they are depends on more than the skewness. Then the variance is estimated too,
    on as many people as the smaller side's effective size, so tails are Student's.
    """
    together = np.sqrt((groups.deviation**2).sum(axis=-1))
    above, below = tail_scales(skewed)
    if skewed.ndim > 1:
        freedom = np.maximum(np.minimum(groups.size, groups.rest).sum(axis=-1) - 1, 1)
        student = FAR / student_quantile(2 * float(normal_cdf(FAR)) - 1, freedom)
        above, below = (np.minimum(one.min(axis=0), 1.0) * student for one in (above, below))
    inverse = np.divide(1.0, together, out=np.zeros_like(together), where=together > 0)
    return TailCorrection(groups.expected_totals.sum(axis=-1), inverse * above, inverse * below, above, below)


def adjusted_intervals(
    groups: StratifiedGroups, tails: TailCorrection, critical: float, skewness: Floats
) -> IntervalEnds:
    """Return intervals that exclude 0 where the standardised gap lies beyond the critical one, shape (groups,) each.

    Args:
        groups, tails: the groups, and how their totals are distributed.
        critical: the critical gap.
        skewness: of everybody's values in each stratum, shape (strata,).
    """
    reach = np.minimum(critical, 30.0)
    if groups.counted:
        # Both ends in one go: first the reach of the upper tail, then that of the lower one.
        twice = [np.concatenate([side, side]) for side in (groups.total, groups.size, groups.rest_totals, groups.rest)]
        number = len(groups.size)
        low, high = _score_interval(*twice, reach=reach / np.concatenate([tails.scale_above, tails.scale_below]))
        return low[:number], high[number:]
    low, high = _welch_interval(groups, 2 * float(normal_cdf(reach)) - 1)
    shift = _skewness_shift(groups, reach, skewness)
    low, high = low + np.minimum(shift, 0), high + np.maximum(shift, 0)
    own, others = groups.rates
    gap, permuted = own - others, reach * groups.gap_deviation
    below, above = np.maximum(gap - low, permuted), np.maximum(high - gap, permuted)
    return gap - below / tails.scale_above, gap + above / tails.scale_below


def approximate_intervals(groups: StratifiedGroups, critical: float) -> IntervalEnds:
    """About the adjusted intervals, quickly: the textbook ones, to tell which are worth a closer look."""
    own, others = groups.rates
    weights = groups.weights**2
    parts = [
        np.maximum(squares / np.maximum(n, 1) - (total / np.maximum(n, 1)) ** 2, 0.0) / np.maximum(n, 1)
        for n, total, squares in (
            (groups.size, groups.total, groups.squares),
            (groups.rest, groups.rest_totals, groups.everybody[2] - groups.squares),
        )
    ]
    half = critical * np.sqrt((weights * (parts[0] + parts[1])).sum(axis=-1))
    return own - others - half, own - others + half


def single_intervals(groups: StratifiedGroups, confidence: float) -> IntervalEnds:
    """Return the intervals for each gap alone: that of two proportions, the score interval over strata, or Welch's."""
    if not groups.counted:
        return _welch_interval(groups, confidence)
    if groups.size.shape[-1] == 1:
        k1, n1, k2, n2 = (side[:, 0] for side in (groups.total, groups.size, groups.rest_totals, groups.rest))
        return difference_interval(k1, n1, k2, n2, confidence)
    return _score_interval(
        groups.total, groups.size, groups.rest_totals, groups.rest, reach=normal_quantile(confidence)
    )


def uncorrected_intervals(groups: StratifiedGroups, z: float) -> IntervalEnds:
    """Compute the score interval of rates, or Welch's interval of means, that reaches z standard errors."""
    if groups.counted:
        return _score_interval(groups.total, groups.size, groups.rest_totals, groups.rest, reach=z)
    return _welch_interval(groups, 2 * float(normal_cdf(z)) - 1)


def _score_interval(k1: Floats, n1: Floats, k2: Floats, n2: Floats, *, reach: float | Floats) -> IntervalEnds:
    return stratified_difference(k1, n1, k2, n2, z=reach)


def _welch_interval(groups: StratifiedGroups, confidence: float) -> IntervalEnds:
    """Welch's interval for a gap of mean scores; over strata, the normal one from their variances."""
    sides = _sample_sides(groups)
    if groups.size.shape[-1] == 1:
        first, second = (SampleMoments(*(part[:, 0] for part in side)) for side in sides)
        return welch_interval(first, second, confidence, upper=groups.width)
    own, others = groups.rates
    error = sum(variance / n for _, variance, n in sides)
    half = normal_quantile(confidence) * np.sqrt((groups.weights**2 * error).sum(axis=-1))
    return np.maximum(own - others - half, -groups.width), np.minimum(own - others + half, groups.width)


def _sample_sides(groups: StratifiedGroups) -> list[tuple[Floats, Floats, Floats]]:
    """Return mean, variance and size of the groups and of the rest, shape (groups, strata) each."""
    sides = []
    for n, total, squares in (
        (groups.size, groups.total, groups.squares),
        (groups.rest, groups.rest_totals, groups.everybody[2] - groups.squares),
    ):
        mean = total / np.maximum(n, 1)
        sides.append((mean, np.maximum(squares - n * mean**2, 0.0) / np.maximum(n - 1, 1), np.maximum(n, 1)))
    return sides


def _skewness_shift(groups: StratifiedGroups, reach: float, skewness: Floats) -> Floats:
    """Return by how much Welch's ends lie too low for skewed numbers, shape (groups,); below 0: too high.

    A mean of few skewed numbers is low where their spread happens to be small. By the Cornish-Fisher expansion of a
    studentised mean the quantile at z lies ``g (2 z^2 + 1) / 6 + 5 g^2 z (4 z^2 - 1) / 72`` further out on the side of
    the long tail, g being the skewness of the estimated gap (Hall, "The Bootstrap and Edgeworth Expansion", 1992,
    section 2.6; the term of the kurtosis, which shortens it, is left out). The skewness of single numbers is that of
    everybody, because a small sample hides its own.
    """
    (_, own, n), (_, others, m) = _sample_sides(groups)
    weights = groups.weights
    error = np.sqrt((weights**2 * (own / n + others / m)).sum(axis=-1))
    third = (weights**3 * skewness * (own**1.5 / n**2 - others**1.5 / m**2)).sum(axis=-1)
    skew = np.divide(third, error**3, out=np.zeros_like(third), where=error > 0)
    first, second = (2 * reach**2 + 1) / 6, 5 * reach * (4 * reach**2 - 1) / 72
    return np.asarray(error * skew * (first + second * np.abs(skew)))


def compare_with_rest(table: CellTable, size: Floats, total: Floats, squares: Floats) -> StratifiedGroups:
    """Return the groups of a table's people, compared with everybody else."""
    return StratifiedGroups(size, total, squares, table.totals, table.counted, table.width)


def compare_weighted(table: CellTable, inside: Floats, everybody: Floats) -> StratifiedGroups:
    """Return groups of people with weights, compared with the others, by effective sizes on both sides.

    Args:
        table: the people.
        inside: sums of ``CellTable.moments`` over each group, shape (7, groups, strata).
        everybody: of all people, or of those among whom each group is looked at; broadcasts with them.
    """
    everybody = np.broadcast_to(everybody, inside.shape)
    # Of people outside without weight, sums leave rounding errors alone.
    outside = np.where((everybody[0] > inside[0]), everybody - inside, 0.0)
    own, others = (_effective_side(side, everybody, counted=table.counted) for side in (inside, outside))
    both = (own[0] + others[0], own[1] + others[1], own[2] + others[2])
    return StratifiedGroups(*own, both, table.counted, table.width, (inside[0], everybody[0]))


def _effective_side(side: Floats, everybody: Floats, *, counted: bool) -> tuple[Floats, Floats, Floats]:
    """Return one side's effective size, sum and sum of squares.

    A rate's linearised variance is too small where a small group has few of a rare outcome, or few large weights. So
    its effective size is no larger than that by the variance of everybody's weighted outcomes: Kish's, times p (1 - p)
    over ``sum(w^2 (y - p)^2) / sum(w^2)``.
    """
    n, total, squares = effective_sums(side, counted=counted)
    if not counted:
        return n, total, squares
    _, total_weight, total_squares, valued, squares_valued, *_ = everybody
    p = valued / np.where(total_weight > 0, total_weight, 1)
    # sum(w^2 (y - p)^2), as y is 0 or 1.
    spread = (1 - p) ** 2 * squares_valued + p**2 * (total_squares - squares_valued)
    mixed = (p > 0) & (p < 1) & (spread > 0)
    with_outcome = squares_valued / np.where(mixed, valued, 1)
    without = (total_squares - squares_valued) / np.where(mixed, total_weight - valued, 1)
    own = np.minimum(np.divide(total, n, out=np.zeros(n.shape), where=n > 0), 1.0)
    typical = own * with_outcome + (1 - own) * without
    ratio = np.where(mixed, p * (1 - p) * total_weight * typical / np.where(mixed, spread, 1), 1.0)
    least = np.minimum(n, kish_size(side[1], side[2]) * ratio)
    k = own * least
    return least, k, k


def standardise_weighted(table: CellTable, groups: StratifiedGroups, inside: Floats) -> tuple[Floats, Floats]:
    """Return how the gaps of groups are distributed where values have nothing to do with who people are.

    With weighted sums S of the group and T of everybody, ``S - T w / W`` is ``w (W - w) / W`` times the gap, w and W
    being the weights of the group and of everybody. Its variance is ``(1 - w/W)^2 sum(w_i^2)`` inside plus
    ``(w/W)^2 sum(w_i^2)`` outside, times that of a value.

    Args:
        table: the people.
        groups: compared by weights.
        inside: sums of ``CellTable.moments`` over each group, shape (7, groups, strata).

    Returns:
        By what such sums of values of variance 1 are multiplied, shape (groups, strata), so that over all strata they
        make standard deviations of the gap; and its skewness, shape (2, groups): by a known variance, and by one that
        is estimated from the same people.
    """
    every, share = table.total_moments, inside[1] / np.maximum(table.total_moments[1], 1e-300)
    amount = inside[1] * (1 - share)
    scale = np.divide(groups.weights, amount, out=np.zeros(share.shape), where=groups.two_sided & (amount > 0))

    def spread(column: int, power: int, side: int = 1) -> Floats:
        outside = np.maximum(every[column] - inside[column], 0.0)
        return np.asarray(scale**power * ((1 - share) ** power * inside[column] + side * share**power * outside))

    deviation = np.sqrt(spread(2, 2).sum(axis=-1))
    scale_to_one = np.divide(1.0, deviation, out=np.zeros(deviation.shape), where=deviation > 0)
    second, third = table.weighted_spread
    varied = second > 0
    third, squares = np.where(varied, third, 0.0), spread(2, 2)
    top = (spread(6, 3, -1) * third).sum(axis=-1)
    # The variance is estimated from the same people: where a mean is high because few large weights were drawn, it is
    # low. To first order that takes three times their covariance off the skewness, and half of it off the mean.
    shared = (spread(6, 1, -1) * third * squares / np.maximum(every[2], 1e-300)).sum(axis=-1)
    bottom = (squares * np.where(varied, second, 0.0)).sum(axis=-1) ** 1.5
    both = np.array([top, top - (3 + 3 / (FAR**2 - 1)) * shared])
    skewness = np.divide(both, bottom, out=np.zeros(both.shape), where=bottom > 0)
    return scale * scale_to_one[:, None], skewness


# The null distribution: the largest standardised gap of all rule sets when outcomes are permuted.

PERMUTATIONS_AT_ONCE = 100
"""Permutations between two looks at the clock."""

MOST_ENTRIES = 1 << 24
"""Numbers held at once, about."""


class LargestGap(Protocol):
    """Says, for permuted sums by cell, how large the largest standardised gap is."""

    def __call__(self, sums: NDArray[np.float32]) -> Floats:
        """From sums (cells, permutations) to maxima (permutations,)."""
        ...


@dataclass(frozen=True)
class PermutationNull:
    """The largest absolute standardised gap in each permutation.

    Attributes:
        values: shape (permutations,), fewer than wanted if it was stopped.
        stopped: ``time`` or ``user`` if it was.
    """

    values: Floats
    stopped: str | None


def sample_permutation_null(
    table: CellTable,
    largest: LargestGap,
    permutations: int,
    rng: np.random.Generator,
    *,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> PermutationNull:
    """Permute the outcomes as often as wanted or as time allows; an interrupt keeps what was done."""
    found: list[Floats] = []
    done = 0
    stopped = None
    try:
        while done < permutations:
            if done > 0 and limit.passed():
                stopped = "time"
                break
            many = min(PERMUTATIONS_AT_ONCE, permutations - done)
            found.append(largest(table.permute_sums(many, rng).T.astype(np.float32)))
            done += many
            if progress is not None:
                progress(done / permutations)
    except KeyboardInterrupt:
        stopped = "user"
    return PermutationNull(np.concatenate(found) if found else np.zeros(0), stopped)


def largest_gap_to_rest(tails: TailCorrection, inside: Callable[[slice], Booleans], cells: int) -> LargestGap:
    """Return the largest gap of rule sets to the rest.

    Args:
        tails: what is expected of each rule set's total.
        inside: for some of the rule sets, which occupied cells each holds, shape (rule sets, cells).
        cells: how many occupied cells there are.
    """
    number = len(tails.expected)
    rows = max(1, MOST_ENTRIES // max(cells, PERMUTATIONS_AT_ONCE))
    blocks = [slice(first, min(first + rows, number)) for first in range(0, number, rows)]
    kept = [inside(block).astype(np.float32) for block in blocks] if len(blocks) <= 8 else None

    def largest(sums: NDArray[np.float32]) -> Floats:
        top = np.zeros(sums.shape[1])
        for i, block in enumerate(blocks):
            matrix = kept[i] if kept is not None else inside(block).astype(np.float32)
            excess = matrix @ sums - tails.expected[block, None].astype(np.float32)
            above = (excess * tails.above[block, None].astype(np.float32)).max(axis=0)
            below = (excess * -tails.below[block, None].astype(np.float32)).max(axis=0)
            top = np.maximum(top, np.maximum(above, below))
        return top

    return largest
