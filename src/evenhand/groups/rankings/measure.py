"""Numbers of groups in rankings: ratios of sums over lists, with intervals or with the range of even orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.groups.rankings.lists import (
    ABOVE,
    ATTENTION,
    EXPOSURE,
    ORDERED,
    SELECTION,
    TREATMENT,
    WITHIN,
    RankedLists,
)
from evenhand.groups.rankings.result import Inference, RankedNumber
from evenhand.stats.level import normal_quantile
from evenhand.stats.metric_specs import LOWER_IS_WORSE
from evenhand.stats.ranked.ratios import ClusteredRatios, SummedLists, clustered_ratios, even_orders

PAIRS = "pairs"
"""Share of pairs with a member of one group above one of another, for each pair of compared groups."""

MIN_DRAWS = 199
MAX_WORK = 200_000_000
"""Maximum number of permuted candidates over all draws; long lists have fewer draws."""

MAX_RELEVANCE_WORK = 20_000_000
"""The same for permutations of equally relevant candidates, which take longer."""

GAPS = {
    "exposure_ratio": EXPOSURE,
    "selection_ratio": SELECTION,
    "selection_difference": SELECTION,
    "pairwise_parity_difference": PAIRS,
    "disparate_treatment_ratio": TREATMENT,
    "pairwise_accuracy_difference": ORDERED,
}
"""Gap -> compared measure."""

BOUNDS = {ABOVE: (0.0, 1.0), ORDERED: (0.0, 1.0), WITHIN: (0.0, 1.0), PAIRS: (0.0, 1.0), ATTENTION: (-1.0, 1.0)}
"""Measure -> range of its numbers; others are non-negative."""

GapKey = tuple[str, int | None]
"""Name of a gap and, for selection, k."""


class GapValue(NamedTuple):
    """A gap with the positions of the highest and the lowest group, or the reason why it is unknown."""

    value: float
    best: int = -1
    worst: int = -1
    reason: str = ""


class Measured(NamedTuple):
    """Numbers and gaps of the groups.

    Attributes:
        numbers: Measure -> number of each group; for selection, of each group and k, with k varying fastest.
        gaps: Gaps between the compared groups, with the positions of the highest and the lowest.
        draws: Number of permutations; 0 for intervals.
    """

    numbers: dict[str, list[RankedNumber]]
    gaps: dict[GapKey, tuple[RankedNumber, int, int]]
    draws: int


def measure_lists(ranked: RankedLists, compared: Integers, inference: Inference, rng: np.random.Generator) -> Measured:
    """Compute the metrics of the groups over the given lists.

    Args:
        ranked: Lists.
        compared: Positions of the groups that are large enough, in ascending order.
        inference: Source of intervals or ranges.
        rng: Random generator.
    """
    measurement = _Measurement(ranked, compared)
    return measurement.with_intervals(rng) if inference == "lists" else measurement.with_even_orders(rng)


@dataclass(frozen=True, eq=False)
class _Measurement:
    """Lists and the groups that are compared."""

    ranked: RankedLists
    compared: Integers

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """Positions of both groups of all compared pairs."""
        first, second = np.triu_indices(len(self.compared), k=1)
        return self.compared[first], self.compared[second]

    def flatten(self, tables: Mapping[str, Floats]) -> dict[str, Floats]:
        """Reshape sums to (batches, numbers), and add those of pairs of groups."""
        sums = {measure: table.reshape(len(table), -1) for measure, table in tables.items()}
        if ABOVE in tables:
            sums |= {PAIRS: tables[ABOVE][:, *self.pairs], ABOVE: tables[ABOVE].sum(axis=2)}
        return sums

    def width(self, measure: str) -> int:
        """Return the number of values that a measure has for each group."""
        return len(self.ranked.at) if measure == SELECTION else 1

    def columns(self, measure: str, values: Floats) -> Integers:
        """Return the positions of the known numbers of a measure that are about compared groups."""
        width = self.width(measure)
        columns = np.arange(len(values))
        if measure != PAIRS:
            columns = (self.compared[:, None] * width + np.arange(width)).ravel()
        return np.asarray(columns[~np.isnan(values[columns])])

    # Many lists are a sample of lists.

    def with_intervals(self, rng: np.random.Generator) -> Measured:
        """Measure with intervals for similar lists."""
        ranked = self.ranked
        above = self.flatten(ranked.numerators(ranked.codes) | ranked.relevance_numerators(ranked.codes))
        below = self.flatten(ranked.denominators() | ranked.relevance_denominators())
        observed = {measure: _divide(above[measure].sum(axis=0), below[measure].sum(axis=0)) for measure in below}
        numbers = {measure: list(map(_plain_number, values.tolist())) for measure, values in observed.items()}
        ends: dict[GapKey, tuple[float, float]] = {}
        for measure, values in observed.items():
            columns = self.columns(measure, values)
            if len(columns) == 0:
                continue
            lists = self._count_lists(measure, below)[columns]
            low, high = (limit[columns] for limit in self._typical_range(measure, below))
            sums = SummedLists(above[measure][:, columns], below[measure][:, columns], lists, low, high)
            reach = clustered_ratios(sums).critical(ranked.config.confidence, rng)
            # Student's quantile of few lists is large for another reason, and widens the intervals sufficiently.
            needed = min(reach, 1.5 * float(normal_quantile(ranked.config.confidence)))
            ratios = clustered_ratios(sums, critical=needed)
            limits = np.clip(ratios.intervals(reach), *BOUNDS.get(measure, (0.0, np.inf)))
            for column, (lower, upper) in zip(columns.tolist(), limits.T.tolist(), strict=True):
                numbers[measure][column] = _with_ends(numbers[measure][column], (lower, upper))
            for name in (name for name, compared in GAPS.items() if compared == measure):
                ends |= self._gap_limits(name, columns, ratios, reach, rng)
        gaps = {
            key: (_with_ends(_plain_number(gap.value, gap.reason), ends.get(key)), gap.best, gap.worst)
            for key, gap in self.find_gaps(observed).items()
        }
        return Measured(numbers, gaps, 0)

    def _count_lists(self, measure: str, below: Mapping[str, Floats]) -> Integers:
        """Count the lists that contribute to each number of a measure."""
        ranked = self.ranked
        if ranked.count == len(ranked.sizes):
            return np.asarray((below[measure] > 0).sum(axis=0))
        present = ranked.members > 0
        if measure == PAIRS:
            first, second = self.pairs
            return np.asarray((present[:, first] & present[:, second]).sum(axis=0))
        return np.repeat(present.sum(axis=0), self.width(measure))

    def _typical_range(self, measure: str, below: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        """Compute the range of the numbers of a measure in a list of typical size, see ``clustered_ratios``.

        Shares are between 0 and 1, and selection is between none and the number of positions. Attention never reaches
        the extremes of a list: its range is one standard deviation around even orders. So is that of pairs, with the
        variance of Mann & Whitney's statistic, ``(m + r + 1) / (12 m r)``.
        """
        ranked = self.ranked
        lists = np.maximum((ranked.members > 0).sum(axis=0), 1)
        members = np.maximum(ranked.members.sum(axis=0) / lists, 1.0)
        size = max(len(ranked.lists) / len(ranked.sizes), 2.0)
        deviation = np.sqrt(ranked.variation / members * np.maximum(1 - members / size, 0.0) * size / (size - 1))
        if measure == SELECTION:
            highest = np.minimum(size / members[:, None], 1 / np.maximum(ranked.selected_share, 1e-12)).ravel()
            return np.zeros(len(highest)), np.maximum(highest, 1.0)
        if measure in (ABOVE, PAIRS):
            pairs = below[measure].sum(axis=0) / np.maximum(self._count_lists(measure, below), 1)
            own = np.sqrt(pairs) if measure == PAIRS else members
            other = np.divide(pairs, own, out=np.ones(len(pairs)), where=own > 0)
            spread = np.minimum(np.sqrt((own + other + 1) / np.maximum(12 * own * other, 1e-12)), 0.5)
            return 0.5 - spread, 0.5 + spread
        if measure in (ORDERED, WITHIN):
            return np.zeros(len(lists)), np.ones(len(lists))
        if measure == ATTENTION:
            return -deviation * members / size, deviation * members / size
        scale = _divide(below[EXPOSURE].sum(axis=0), below[measure].sum(axis=0))
        return np.maximum(1 - deviation, 0.0) * scale, (1 + deviation) * scale

    def _gap_limits(
        self, name: str, columns: Integers, ratios: ClusteredRatios, reach: float, rng: np.random.Generator
    ) -> dict[GapKey, tuple[float, float]]:
        """Compute the limits of a gap, for selection of each k; empty if fewer than two groups are compared.

        Args:
            name: Gap.
            columns: Positions of the compared numbers of the measure.
            ratios: These numbers.
            reach: Number of standard errors of their intervals.
            rng: Random generator.
        """
        ranked, measure = self.ranked, GAPS[name]
        if measure == PAIRS:
            size, half = np.abs(2 * ratios.centre - 1), 2 * reach * ratios.error
            return {(name, None): (max(0.0, float((size - half).max())), min(1.0, float((size + half).max())))}
        place = columns % self.width(measure)
        first, second = np.triu_indices(len(columns), k=1)
        same = place[first] == place[second]
        if not same.any():
            return {}
        pairs, ratio = (first[same], second[same]), name in LOWER_IS_WORSE
        lows, highs = ratios.differences(pairs, ranked.config.confidence, rng, log=ratio)
        ends: dict[GapKey, tuple[float, float]] = {}
        # The largest difference is at least every lower end, and at most the largest upper end. Ratios are logarithms
        # of the larger divided by the smaller number.
        for k in np.unique(place[pairs[0]]).tolist():
            at_k = place[pairs[0]] == k
            low, high = float(lows[at_k].max()), float(highs[at_k].max())
            if ratio:
                low, high = float(np.exp(-high)), float(np.exp(-low))
            elif name == "selection_difference":
                low, high = (end * float(ranked.selected_share[k]) for end in (low, high))
            ends[name, ranked.at[k] if measure == SELECTION else None] = low, min(high, 1.0)
        return ends

    # Few lists are compared with orders that ignore the groups.

    def with_even_orders(self, rng: np.random.Generator) -> Measured:
        """Measure with the range over permutations of the groups in each list, or of equally relevant candidates."""
        ranked, n = self.ranked, len(self.ranked.codes)
        draws = int(min(ranked.config.draws, max(MIN_DRAWS, MAX_WORK // n)))
        measured = self._permute(ranked.numerators, ranked.denominators(), ranked.shuffle_lists(rng), draws)
        if ranked.merit is None:
            return measured
        draws_within = int(min(ranked.config.draws, MAX_RELEVANCE_WORK // n))
        within = self._permute(
            ranked.relevance_numerators,
            ranked.relevance_denominators(),
            ranked.shuffle_equals(rng),
            draws_within if draws_within >= MIN_DRAWS else 0,
        )
        return Measured(measured.numbers | within.numbers, measured.gaps | within.gaps, draws)

    def _permute(
        self,
        numerators: Callable[[Integers], dict[str, Floats]],
        denominators: dict[str, Floats],
        shuffle: Callable[[], Integers],
        draws: int,
    ) -> Measured:
        """Compute ratios and their range under permutation of the groups, which leaves the denominators unchanged."""
        below, confidence = self.flatten(denominators), self.ranked.config.confidence

        def divide(codes: Integers) -> dict[str, Floats]:
            above = self.flatten(numerators(codes))
            return {measure: _divide(above[measure][0], below[measure][0]) for measure in below}

        observed = divide(self.ranked.codes)
        gaps = self.find_gaps(observed)
        drawn: dict[str, list[Floats]] = {measure: [] for measure in below}
        drawn_gaps: dict[GapKey, list[float]] = {key: [] for key in gaps}
        for _ in range(draws):
            ratios = divide(shuffle())
            for measure, values in ratios.items():
                drawn[measure].append(values)
            for key, gap in self.find_gaps(ratios).items():
                if not np.isnan(gap.value):
                    drawn_gaps[key].append(gap.value)
        numbers = {measure: list(map(_plain_number, values.tolist())) for measure, values in observed.items()}
        for measure, values in observed.items() if draws else ():
            columns = self.columns(measure, values)
            if len(columns) == 0:
                continue
            even = even_orders(values[columns], np.array(drawn[measure])[:, columns], confidence)
            low, high = np.clip((even.low, even.high), *BOUNDS.get(measure, (0.0, np.inf)))
            for i in np.flatnonzero(even.high > even.low).tolist():
                limits = {"even": even.mean[i], "even_low": low[i], "even_high": high[i], "p": even.p[i]}
                number = numbers[measure][columns[i]]
                numbers[measure][columns[i]] = number.model_copy(
                    update={name: float(value) for name, value in limits.items()}
                )
        return Measured(
            numbers,
            {
                key: (_even_gap(_plain_number(gap.value, gap.reason), key[0], drawn_gaps[key], confidence), *gap[1:3])
                for key, gap in gaps.items()
            },
            draws,
        )

    def find_gaps(self, values: Mapping[str, Floats]) -> dict[GapKey, GapValue]:
        """Compute the gaps between the compared groups; empty if there are fewer than two."""
        gaps: dict[GapKey, GapValue] = {}
        for name, measure in GAPS.items() if len(self.compared) > 1 else ():
            if measure == PAIRS and measure in values:
                gaps[name, None] = self._largest_pair(values[PAIRS])
            elif measure in values:
                table = values[measure].reshape(-1, self.width(measure))[self.compared]
                for place, column in enumerate(table.T):
                    at = self.ranked.at[place] if measure == SELECTION else None
                    scale = float(self.ranked.selected_share[place]) if name == "selection_difference" else 1.0
                    gaps[name, at] = self._compare(column * scale, ratio=name in LOWER_IS_WORSE)
        return gaps

    def _compare(self, values: Floats, *, ratio: bool) -> GapValue:
        """Compute the highest minus the lowest number, or the lowest divided by the highest."""
        known = np.flatnonzero(~np.isnan(values))
        if len(known) < 2:
            return GapValue(np.nan, reason="fewer than two groups have this number")
        best, worst = (int(known[i]) for i in (np.argmax(values[known]), np.argmin(values[known])))
        high, low = float(values[best]), float(values[worst])
        if ratio and high <= 0:
            return GapValue(np.nan, reason="all groups have 0, and 0 has no ratio to 0")
        value = max(low, 0.0) / high if ratio else high - low
        return GapValue(value, int(self.compared[best]), int(self.compared[worst]))

    def _largest_pair(self, above: Floats) -> GapValue:
        """Compute the largest ``P(A above B) - P(B above A)`` over pairs of groups that occur in the same list."""
        known = np.flatnonzero(~np.isnan(above))
        if len(known) == 0:
            return GapValue(np.nan, reason="no two compared groups occur in the same list")
        at = int(known[np.argmax(np.abs(2 * above[known] - 1))])
        first, second = int(self.pairs[0][at]), int(self.pairs[1][at])
        best, worst = (first, second) if above[at] >= 0.5 else (second, first)
        return GapValue(abs(2 * float(above[at]) - 1), best, worst)


def _divide(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0))


def _plain_number(value: float, reason: str = "nothing to count in these lists") -> RankedNumber:
    """Build a number without an interval."""
    return RankedNumber(value=None, reason=reason) if np.isnan(value) else RankedNumber(value=value)


def _with_ends(number: RankedNumber, ends: tuple[float, float] | None) -> RankedNumber:
    """Add an interval to a number, extended to contain it."""
    if number.value is None or ends is None:
        return number
    return number.model_copy(update={"low": min(ends[0], number.value), "high": max(ends[1], number.value)})


def _even_gap(number: RankedNumber, name: str, draws: list[float], confidence: float) -> RankedNumber:
    """Add the quantile of a gap over even orders, and its p-value."""
    if number.value is None or not draws or np.ptp(draws) == 0:
        return number
    drawn, ratio = np.array(draws), name in LOWER_IS_WORSE
    reached = int((drawn <= number.value).sum() if ratio else (drawn >= number.value).sum())
    end = float(np.quantile(drawn, 1 - confidence if ratio else confidence))
    return number.model_copy(
        update={
            "even": float(drawn.mean()),
            "even_low": end if ratio else 0.0,
            "even_high": 1.0 if ratio else end,
            "p": (1 + reached) / (1 + len(drawn)),
        }
    )
