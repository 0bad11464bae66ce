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

from evenhand.core import NEVER, TimeLimit
from evenhand.stats import (
    SampleMoments,
    group_skewness,
    newcombe,
    normal_cdf,
    normal_quantile,
    stratified_difference,
    tail_scales,
    welch_interval,
)
from evenhand.subgroups.tabulate import CellTable
from evenhand.typing import Booleans, Floats, Integers

IntervalEnds = tuple[Floats, Floats]


@dataclass(frozen=True)
class StratifiedGroups:
    """Groups of people and those they are compared with, by stratum.

    Attributes:
        size, total, squares: people in each group, sum of their values, and of the squares, shape (groups, strata).
        everybody: the same of all people, or of those among whom each group is looked at; broadcasts with them.
        counted: whether values are 0 and 1.
        width: of the range that values lie in.
    """

    size: Floats
    total: Floats
    squares: Floats
    everybody: tuple[Floats, Floats, Floats]
    counted: bool
    width: float = 1.0

    @property
    def rest(self) -> Floats:
        """People outside, shape (groups, strata)."""
        return np.asarray(self.everybody[0] - self.size)

    @property
    def rest_totals(self) -> Floats:
        """Sum of their values."""
        return np.asarray(self.everybody[1] - self.total)

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
        return StratifiedGroups(
            self.size[where],
            self.total[where],
            self.squares[where],
            (everybody[0], everybody[1], everybody[2]),
            self.counted,
            self.width,
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
    above, below = tail_scales(skewed)
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
    """Return the intervals for each gap alone: Newcombe's, the score interval over strata, or Welch's."""
    if not groups.counted:
        return _welch_interval(groups, confidence)
    if groups.size.shape[-1] == 1:
        k1, n1, k2, n2 = (side[:, 0] for side in (groups.total, groups.size, groups.rest_totals, groups.rest))
        return newcombe(k1, n1, k2, n2, confidence)
    return _score_interval(
        groups.total, groups.size, groups.rest_totals, groups.rest, reach=normal_quantile(confidence)
    )


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
