"""The numbers of one way to make groups: ratios of sums over lists, each with its interval or range of even orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.groups.rankings.result import Inference, RankedNumber
from evenhand.groups.rankings.tabulate import (
    ABOVE,
    ATTENTION,
    EXPOSURE,
    ORDERED,
    SELECTION,
    TREATMENT,
    WITHIN,
    RankedLists,
)
from evenhand.stats.level import normal_quantile
from evenhand.stats.ranked.ratios import ClusteredRatios, SummedLists, clustered_ratios, even_orders

PAIRS = "pairs"
"""How often a member of one group stands above one of another, for every two groups that are compared."""

LEAST_DRAWS = 199
MOST_WORK = 200_000_000
"""Candidates that are permuted, over all draws; long lists get fewer draws."""

MOST_RELEVANCE_WORK = 20_000_000
"""The same where candidates of equal relevance are permuted, which takes longer."""

GAPS = {
    "exposure_ratio": EXPOSURE,
    "selection_ratio": SELECTION,
    "selection_difference": SELECTION,
    "pairwise_parity_difference": PAIRS,
    "disparate_treatment_ratio": TREATMENT,
    "pairwise_accuracy_difference": ORDERED,
}
"""Gap -> the numbers of groups that it compares."""

RATIOS = ("exposure_ratio", "selection_ratio", "disparate_treatment_ratio")
BOUNDS = {ABOVE: (0.0, 1.0), ORDERED: (0.0, 1.0), WITHIN: (0.0, 1.0), PAIRS: (0.0, 1.0), ATTENTION: (-1.0, 1.0)}
"""Measure -> what its numbers cannot leave; others are at least 0."""

GapKey = tuple[str, int | None]
"""Name and, of selection, k."""


class GapNumber(NamedTuple):
    """A gap with the positions of the best and the worst placed group; -1 where there are none."""

    number: RankedNumber
    best: int
    worst: int


class Measured(NamedTuple):
    """What was measured.

    Attributes:
        numbers: measure -> a number of each group; of selection, of each group and k, which varies fastest.
        gaps: between the groups that are compared.
        draws: permutations behind the ranges; 0 where there are intervals.
    """

    numbers: dict[str, list[RankedNumber]]
    gaps: dict[GapKey, GapNumber]
    draws: int


def measure_lists(ranked: RankedLists, compared: Integers, inference: Inference, rng: np.random.Generator) -> Measured:
    """Measure the groups of some lists.

    Args:
        ranked: the lists.
        compared: groups that are large enough, by position, ascending.
        inference: what intervals or ranges come from.
        rng: source of random numbers.
    """
    measuring = _Measuring(ranked, compared)
    return measuring.with_intervals(rng) if inference == "lists" else measuring.with_even_orders(rng)


@dataclass(frozen=True, eq=False)
class _Measuring:
    """One breakdown's lists and the groups that are compared."""

    ranked: RankedLists
    compared: Integers

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """All pairs of the groups that are compared, by their positions."""
        first, second = np.triu_indices(len(self.compared), k=1)
        return self.compared[first], self.compared[second]

    def flatten(self, tables: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return sums by measure with two axes, batches and numbers; pairs of groups are numbers of their own."""
        found = {measure: table.reshape(len(table), -1) for measure, table in tables.items()}
        if ABOVE in tables:
            found[PAIRS] = tables[ABOVE][:, *self.pairs]
            found[ABOVE] = tables[ABOVE].sum(axis=2)
        return found

    def width(self, measure: str) -> int:
        """Return how many numbers of a measure each group has."""
        return len(self.ranked.at) if measure == SELECTION else 1

    def columns(self, measure: str) -> Integers:
        """Return the positions of a measure's numbers that are about groups that are compared."""
        if measure == PAIRS:
            return np.arange(len(self.pairs[0]))
        width = self.width(measure)
        return np.asarray((self.compared[:, None] * width + np.arange(width)).ravel())

    # Many lists: they are the sampling units.

    def with_intervals(self, rng: np.random.Generator) -> Measured:
        """Measure with intervals for lists like these."""
        ranked = self.ranked
        above = self.flatten(ranked.numerators(ranked.codes) | ranked.relevance_numerators(ranked.codes))
        below = self.flatten(ranked.denominators() | ranked.relevance_denominators())
        observed = {measure: _divide(above[measure].sum(axis=0), below[measure].sum(axis=0)) for measure in below}
        numbers = {measure: [_plain_number(value) for value in values.tolist()] for measure, values in observed.items()}
        ends: dict[GapKey, tuple[float, float]] = {}
        for measure in below:
            columns = self.columns(measure)
            columns = columns[~np.isnan(observed[measure][columns])]
            if len(columns) == 0:
                continue
            low, high = self._typical_ends(measure, below)
            lists = self._lists_with(measure, below)
            sums = SummedLists(
                above[measure][:, columns], below[measure][:, columns], lists[columns], low[columns], high[columns]
            )
            family = _Family.fit(measure, columns, sums, ranked, rng)
            for column, limits in zip(columns.tolist(), family.limits(), strict=True):
                numbers[measure][column] = _with_ends(numbers[measure][column], limits)
            for name in (name for name, of in GAPS.items() if of == measure):
                ends |= family.gap_limits(name, rng)
        gaps = {
            key: found._replace(number=_with_ends(found.number, ends[key])) if key in ends else found
            for key, found in self.find_gaps(observed).items()
        }
        return Measured(numbers, gaps, 0)

    def _lists_with(self, measure: str, below: Mapping[str, Floats]) -> Integers:
        """Return how many lists each number of a measure rests on."""
        ranked = self.ranked
        if ranked.count == len(ranked.sizes):
            return np.asarray((below[measure] > 0).sum(axis=0))
        present = ranked.members > 0
        if measure == PAIRS:
            pairs = zip(*(part.tolist() for part in self.pairs), strict=True)
            return np.array([int((present[:, a] & present[:, b]).sum()) for a, b in pairs], dtype=np.int64)
        return np.repeat(present.sum(axis=0), self.width(measure))

    def _typical_ends(self, measure: str, below: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        """Return between which ends a measure lies in one list of typical size, see ``clustered_ratios``.

        Shares lie between 0 and 1, and selection between none and as many as there are places. Attention is never
        as far out as a list can put it: its ends are one standard deviation from even orders, and so are those of who
        stands above, whose variance is that of Mann & Whitney's statistic, ``(m + r + 1) / (12 m r)``.
        """
        ranked = self.ranked
        lists = np.maximum((ranked.members > 0).sum(axis=0), 1)
        members = np.maximum(ranked.members.sum(axis=0) / lists, 1.0)
        size = max(len(ranked.lists) / len(ranked.sizes), 2.0)
        deviation = np.sqrt(ranked.variation / members * np.maximum(1 - members / size, 0.0) * size / (size - 1))
        if measure == SELECTION:
            most = np.minimum(size / members[:, None], 1 / np.maximum(ranked.selected_share, 1e-12)).ravel()
            return np.zeros(len(most)), np.maximum(most, 1.0)
        if measure in (ABOVE, PAIRS):
            pairs = below[measure].sum(axis=0) / np.maximum(self._lists_with(measure, below), 1)
            own = np.sqrt(pairs) if measure == PAIRS else members
            other = np.divide(pairs, own, out=np.ones(len(pairs)), where=own > 0)
            spread = np.sqrt((own + other + 1) / np.maximum(12 * own * other, 1e-12))
            return 0.5 - np.minimum(spread, 0.5), 0.5 + np.minimum(spread, 0.5)
        if measure in (ORDERED, WITHIN):
            return np.zeros(len(lists)), np.ones(len(lists))
        if measure == ATTENTION:
            return -deviation * members / size, deviation * members / size
        scale = _divide(below[EXPOSURE].sum(axis=0), below[measure].sum(axis=0))
        return np.maximum(1 - deviation, 0.0) * scale, (1 + deviation) * scale

    # Few lists: what orders give that ignore the groups.

    def with_even_orders(self, rng: np.random.Generator) -> Measured:
        """Measure with the range of orders in which the groups of each list, or of equal relevance, change places."""
        ranked, n = self.ranked, len(self.ranked.codes)
        draws = int(min(ranked.config.draws, max(LEAST_DRAWS, MOST_WORK // n)))
        measured = self._permute(ranked.numerators, ranked.denominators(), ranked.shuffle_lists(rng), draws)
        numbers, gaps = measured.numbers, measured.gaps
        if ranked.merit is not None:
            draws_within = int(min(ranked.config.draws, MOST_RELEVANCE_WORK // n))
            if draws_within < LEAST_DRAWS:
                draws_within = 0
            shuffled = ranked.shuffle_equals(rng)
            within = self._permute(ranked.relevance_numerators, ranked.relevance_denominators(), shuffled, draws_within)
            numbers, gaps = numbers | within.numbers, gaps | within.gaps
        return Measured(numbers, gaps, draws)

    def _permute(
        self,
        numerators: Callable[[Integers], dict[str, Floats]],
        denominators: dict[str, Floats],
        shuffle: Callable[[], Integers],
        draws: int,
    ) -> Measured:
        """Measure some sums as they are and with groups permuted, which leaves the denominators as they are."""
        below = self.flatten(denominators)

        def ratios_of(codes: Integers) -> dict[str, Floats]:
            above = self.flatten(numerators(codes))
            return {measure: _divide(above[measure][0], below[measure][0]) for measure in below}

        observed = ratios_of(self.ranked.codes)
        found = self.find_gaps(observed)
        numbers = {measure: [_plain_number(value) for value in values.tolist()] for measure, values in observed.items()}
        drawn: dict[str, list[Floats]] = {measure: [] for measure in below}
        drawn_gaps: dict[GapKey, list[float]] = {key: [] for key in found}
        for _ in range(draws):
            ratios = ratios_of(shuffle())
            for measure, values in ratios.items():
                drawn[measure].append(values)
            for key, gap in self.find_gaps(ratios).items():
                if key in drawn_gaps and gap.number.value is not None:
                    drawn_gaps[key].append(gap.number.value)
        for measure, values in observed.items():
            columns = self.columns(measure)
            columns = columns[~np.isnan(values[columns])]
            if draws == 0 or len(columns) == 0:
                continue
            every = np.array(drawn[measure])[:, columns]
            even = even_orders(values[columns], every, self.ranked.config.confidence)
            limits = np.clip((even.low, even.high), *BOUNDS.get(measure, (0.0, np.inf)))
            moves = even.high > even.low
            for i in np.flatnonzero(moves).tolist():
                numbers[measure][columns[i]] = numbers[measure][columns[i]].model_copy(
                    update={
                        "even": float(even.mean[i]),
                        "even_low": float(limits[0][i]),
                        "even_high": float(limits[1][i]),
                        "p": float(even.p[i]),
                    }
                )
        gaps = {
            key: gap._replace(number=_even_gap(gap.number, key[0], drawn_gaps[key], self.ranked.config.confidence))
            for key, gap in found.items()
        }
        return Measured(numbers, gaps, draws)

    def find_gaps(self, ratios: Mapping[str, Floats]) -> dict[GapKey, GapNumber]:
        """Return the gaps between the groups that are compared; none where there are fewer than two."""
        found: dict[GapKey, GapNumber] = {}
        if len(self.compared) < 2:
            return found
        for name, measure in GAPS.items():
            if measure not in ratios:
                continue
            if measure == PAIRS:
                found[name, None] = self._largest_pair(ratios[PAIRS])
                continue
            values = ratios[measure].reshape(-1, self.width(measure))[self.compared]
            for place, column in enumerate(values.T):
                at = self.ranked.at[place] if measure == SELECTION else None
                scale = float(self.ranked.selected_share[place]) if name == "selection_difference" else 1.0
                found[name, at] = self._spread(name, column * scale)
        return found

    def _spread(self, name: str, values: Floats) -> GapNumber:
        """Return the highest minus the lowest of some numbers, or the lowest divided by the highest."""
        known = np.flatnonzero(~np.isnan(values))
        if len(known) < 2:
            return GapNumber(RankedNumber(value=None, reason="fewer than two groups have this number"), -1, -1)
        best, worst = (int(known[i]) for i in (np.argmax(values[known]), np.argmin(values[known])))
        high, low = float(values[best]), float(values[worst])
        if name not in RATIOS:
            number = RankedNumber(value=high - low)
        elif high > 0:
            number = RankedNumber(value=max(low, 0.0) / high)
        else:
            return GapNumber(RankedNumber(value=None, reason="no group has any, and 0 has no ratio to 0"), -1, -1)
        return GapNumber(number, int(self.compared[best]), int(self.compared[worst]))

    def _largest_pair(self, above: Floats) -> GapNumber:
        """Return the largest ``P(A above B) - P(B above A)`` over pairs of groups that meet in a list."""
        known = np.flatnonzero(~np.isnan(above))
        if len(known) == 0:
            return GapNumber(RankedNumber(value=None, reason="no two groups that are compared meet in a list"), -1, -1)
        at = int(known[np.argmax(np.abs(2 * above[known] - 1))])
        first, second = int(self.pairs[0][at]), int(self.pairs[1][at])
        best, worst = (first, second) if above[at] >= 0.5 else (second, first)
        return GapNumber(RankedNumber(value=abs(2 * float(above[at]) - 1)), best, worst)


@dataclass(frozen=True, eq=False)
class _Family:
    """The ratios of one measure that are compared, with limits that hold for all of them together.

    Attributes:
        columns: which numbers of the measure they are.
        ratios: the ratios; reach: how many standard errors the limits are away.
        ranked: the lists they come from.
    """

    measure: str
    columns: Integers
    ratios: ClusteredRatios
    reach: float
    ranked: RankedLists

    @classmethod
    def fit(
        cls, measure: str, columns: Integers, sums: SummedLists, ranked: RankedLists, rng: np.random.Generator
    ) -> _Family:
        """Return a family with as many lists added as its limits call for."""
        confidence = ranked.config.confidence
        reach = clustered_ratios(sums).critical(confidence, rng)
        # Student's quantile of few lists is large for another reason, and is widening enough.
        needed = min(reach, 1.5 * float(normal_quantile(confidence)))
        return cls(measure, columns, clustered_ratios(sums, critical=needed), reach, ranked)

    def limits(self) -> list[tuple[float, float]]:
        """Return the limits of each ratio."""
        ends = np.clip(self.ratios.intervals(self.reach), *BOUNDS.get(self.measure, (0.0, np.inf)))
        return [(float(low), float(high)) for low, high in ends.T]

    def gap_limits(self, name: str, rng: np.random.Generator) -> dict[GapKey, tuple[float, float]]:
        """Return the limits of a gap, of selection for each k; nothing where fewer than two groups are compared."""
        confidence = self.ranked.config.confidence
        if self.measure == PAIRS:
            size, half = np.abs(2 * self.ratios.centre - 1), 2 * self.reach * self.ratios.error
            return {(name, None): (max(0.0, float((size - half).max())), min(1.0, float((size + half).max())))}
        width = len(self.ranked.at) if self.measure == SELECTION else 1
        place = self.columns % width
        first, second = np.triu_indices(len(self.columns), k=1)
        same = place[first] == place[second]
        if not same.any():
            return {}
        pairs = first[same], second[same]
        lows, highs = self.ratios.differences(pairs, confidence, rng, log=name in RATIOS)
        found: dict[GapKey, tuple[float, float]] = {}
        # The largest difference is at least every low end, and at most the greatest high end. Ratios come as
        # logarithms, the smaller one over the larger.
        for k in np.unique(place[pairs[0]]).tolist():
            here = place[pairs[0]] == k
            low, high = float(lows[here].max()), float(highs[here].max())
            if name in RATIOS:
                low, high = float(np.exp(-high)), float(np.exp(-low))
            elif name == "selection_difference":
                low, high = (end * float(self.ranked.selected_share[k]) for end in (low, high))
            found[name, self.ranked.at[k] if self.measure == SELECTION else None] = low, min(high, 1.0)
        return found


def _divide(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0))


def _plain_number(value: float) -> RankedNumber:
    """Return a number without anything said of how sure it is."""
    if np.isnan(value):
        return RankedNumber(value=None, reason="nothing to count in these lists")
    return RankedNumber(value=value)


def _with_ends(number: RankedNumber, ends: tuple[float, float]) -> RankedNumber:
    """Return a number with its interval, which holds what was counted."""
    if number.value is None:
        return number
    low, high = min(ends[0], number.value), max(ends[1], number.value)
    return number.model_copy(update={"low": low, "high": high})


def _even_gap(number: RankedNumber, name: str, draws: list[float], confidence: float) -> RankedNumber:
    """Return a gap with what even orders give: how large it is in so many of them at most, and the p of this one."""
    if number.value is None or not draws or np.ptp(draws) == 0:
        return number
    drawn = np.array(draws)
    ratio = name in RATIOS
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
