"""Numbers of groups in rankings: ratios of sums over lists, with intervals or with the range over permutations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.breakdown import Gap
from evenhand.groups.rankings.lists import ABOVE, EXPOSURE, PAIRS, SELECTION, TREATMENT, RankedLists
from evenhand.stats.level import Interval, normal_quantile
from evenhand.stats.permutation import adjusted_p
from evenhand.stats.quantity import Descriptive, Observed, Quantity, Unknown
from evenhand.stats.ranked.ratios import SummedLists, clustered_ratios, even_orders

METHOD = "ratio of sums over lists, linearised, Student's t with lists added at both ends"

MIN_DRAWS = 199
MAX_WORK = 200_000_000
"""Maximum number of permuted candidates over all draws; long lists have fewer draws."""

GAPS = {
    EXPOSURE: "exposure_ratio",
    SELECTION: "selection_ratio",
    TREATMENT: "disparate_treatment_ratio",
    PAIRS: "pairwise_parity_difference",
}
"""Measure -> gap between groups. The gap of pairs is a difference, the others are ratios."""

TOO_FEW = "fewer than two groups can be compared"

SHARES = (ABOVE, PAIRS)
"""Measures between 0 and 1; the others are non-negative."""


def measure_lists(
    ranked: RankedLists, rng: np.random.Generator
) -> tuple[list[dict[str, dict[str, Any]]], list[Gap], int]:
    """Compute the numbers and gaps of the groups.

    Many lists are treated as a sample, which has intervals. Few lists are compared with permutations of the groups
    within each list; for relevance, among equally relevant candidates.

    Returns:
        The metrics and rates of each group, the gaps, and the number of permutations; 0 for intervals.
    """
    n = len(ranked.codes)
    draws = 0 if ranked.sampled else min(ranked.config.draws, max(MIN_DRAWS, MAX_WORK // n))
    parts = [(ranked.numerators, ranked.expected, ranked.lists)]
    if ranked.relevance is not None:
        received, deserved = ranked.treatment()
        treatment = {TREATMENT: ranked.add_up(ranked.codes, deserved)}
        parts.append((lambda codes: {TREATMENT: ranked.add_up(codes, received)}, treatment, ranked.peers))
    # Numbers that are a measure times an average over all candidates. They are at most 1.
    averages = ranked.averages[:, None]
    scaled = {EXPOSURE: {"exposure": averages[:1]}, SELECTION: {"selection_rate": averages[1:]}}
    groups: list[dict[str, dict[str, Any]]] = [
        {"metrics": {}, "rates": {str(k): {} for k in ranked.config.at}} for _ in ranked.labels
    ]
    gaps: list[Gap] = []
    for numerators, denominators, strata in parts:
        above = [numerators(codes) for codes in ranked.permute(strata, draws, rng)]
        for measure, below in denominators.items():
            values = _divide(np.array([sums[measure] for sums in above]).sum(axis=1), below.sum(axis=0))
            numbers = _Numbers(ranked, measure, values, below)
            limits, ends = numbers.find_limits(above[0][measure], rng)
            gaps.extend(numbers.find_gaps(ends))
            if measure == PAIRS:
                continue
            cells = np.stack([values[0], *limits], axis=-1)
            for name, scale in (scaled.get(measure, {}) | {measure: np.ones(1)}).items():
                highest = np.inf if name == measure else 1.0
                table = np.concatenate([np.minimum(cells[..., :3] * scale, highest), cells[..., 3:]], axis=-1)
                for group, row in zip(groups, table.tolist(), strict=True):
                    owners = group["rates"].values() if measure == SELECTION else [group["metrics"]]
                    for owner, cell in zip(owners, row, strict=True):
                        owner[name] = _describe(ranked, *cell)
    return groups, gaps, draws


class _Numbers(NamedTuple):
    """Numbers of one measure.

    Attributes:
        ranked: Lists.
        measure: Measure.
        values: Numbers, shape (1 + draws, groups or pairs, places). The first table is the observed one; the others are
            those of permutations.
        below: Denominators, shape (batches, groups or pairs, places).
    """

    ranked: RankedLists
    measure: str
    values: Floats
    below: Floats

    @property
    def compared(self) -> Booleans:
        """Mask of the known numbers of compared groups, shape (groups or pairs, places)."""
        defined = ~np.isnan(self.values[0])
        return np.asarray(defined if self.measure == PAIRS else defined & self.ranked.large[:, None])

    def count_lists(self) -> Integers:
        """Count the lists that contribute to each number, shape (groups or pairs, places)."""
        if self.ranked.count == len(self.ranked.sizes):
            return np.asarray((self.below > 0).sum(axis=0))
        present = self.ranked.members > 0
        if self.measure == PAIRS:
            present = present[:, self.ranked.pairs[0]] & present[:, self.ranked.pairs[1]]
        return np.broadcast_to(present.sum(axis=0)[:, None], self.below.shape[1:])

    def find_limits(self, above: Floats, rng: np.random.Generator) -> tuple[Floats, dict[int, tuple[float, ...]]]:
        """Compute the limits of each number from the numerators, shape (batches, groups or pairs, places).

        Returns:
            For many lists, both ends of each interval, shape (2, groups or pairs, places), and those of the gap (by
            place for selection). For few lists, both ends of the range over permutations and p, shape (3, groups or
            pairs, places). Limits are NaN if a number is not compared, or is equal in all permutations.
        """
        compared, sampled = self.compared, self.ranked.sampled
        limits = np.full((2 if sampled else 3, *compared.shape), np.nan)
        ends: dict[int, tuple[float, ...]] = {}
        if compared.any() and sampled:
            limits[:, compared], ends = self.find_intervals(above[:, compared], compared, rng)
        elif compared.any():
            even = even_orders(self.values[0][compared], self.values[1:, compared], self.ranked.config.confidence)
            limits[:, compared] = np.where(even.high > even.low, (even.low, even.high, even.p), np.nan)
        limits[:2] = np.clip(limits[:2], 0.0, 1.0 if self.measure in SHARES else np.inf)
        return limits, ends

    def find_intervals(
        self, above: Floats, compared: Booleans, rng: np.random.Generator
    ) -> tuple[Interval, dict[int, tuple[float, ...]]]:
        """Compute intervals for similar lists, for the compared numbers and for their gap (by place for selection)."""
        confidence = self.ranked.config.confidence
        low, high = (np.broadcast_to(end, compared.shape)[compared] for end in self.typical_range())
        sums = SummedLists(above, self.below[:, compared], self.count_lists()[compared], low, high)
        reach = clustered_ratios(sums).critical(confidence, rng)
        # With few lists, Student's quantile is large because of the few degrees of freedom. This widens the intervals
        # sufficiently, so the number of added lists is capped.
        ratios = clustered_ratios(sums, critical=min(reach, 1.5 * float(normal_quantile(confidence))))
        limits = ratios.intervals(reach)
        # The largest difference is at least every lower end and at most the largest upper end.
        if self.measure == PAIRS:
            size, half = np.abs(2 * ratios.centre - 1), 2 * reach * ratios.error
            return limits, {0: (max(0.0, float((size - half).max())), min(1.0, float((size + half).max())))}
        place = np.nonzero(compared)[1]
        pairs = np.array(np.triu_indices(len(place), k=1))
        first, second = pairs[:, place[pairs[0]] == place[pairs[1]]]
        if self.measure not in GAPS or not len(first):
            return limits, {}
        lows, highs = ratios.differences((first, second), confidence, rng, log=True)
        # Logarithms of the larger divided by the smaller number.
        return limits, {
            k: tuple(float(np.exp(-end[place[first] == k].max())) for end in (highs, lows))
            for k in np.unique(place[first]).tolist()
        }

    def typical_range(self) -> Interval:
        """Compute the range of the numbers in a list of typical size, see ``clustered_ratios``.

        Selection ranges from 0 to the number of positions. Attention never reaches the extremes of a list, so its range
        is one standard deviation around the expectation in random orders. The range of pairs is defined in the same
        way, with the variance of the Mann-Whitney statistic, ``(m + r + 1) / (12 m r)``.

        Returns:
            Both ends, which broadcast to shape (groups or pairs, places).
        """
        ranked, total = self.ranked, self.below.sum(axis=0)
        members = np.maximum(ranked.members.sum(axis=0) / np.maximum(ranked.having, 1), 1.0)[:, None]
        size = max(len(ranked.lists) / len(ranked.sizes), 2.0)
        if self.measure == SELECTION:
            highest = np.minimum(size / members, 1 / np.maximum(ranked.averages[1:], 1e-12))
            return np.zeros(1), np.maximum(highest, 1.0)
        if self.measure in SHARES:
            pairs = total / np.maximum(self.count_lists(), 1)
            own = np.sqrt(pairs) if self.measure == PAIRS else members
            other = np.divide(pairs, own, out=np.ones(pairs.shape), where=own > 0)
            spread = np.minimum(np.sqrt((own + other + 1) / np.maximum(12 * own * other, 1e-12)), 0.5)
            return 0.5 - spread, 0.5 + spread
        deviation = np.sqrt(ranked.variation / members * np.maximum(1 - members / size, 0.0) * size / (size - 1))
        scale = _divide(ranked.expected[EXPOSURE].sum(axis=0), total)
        return np.maximum(1 - deviation, 0.0) * scale, (1 + deviation) * scale

    def find_gaps(self, ends: Mapping[int, tuple[float, ...]]) -> list[Gap]:
        """List the gap between the compared groups (for selection, the smallest ratio, then the ratio at each k).

        There is none if fewer than two groups are compared. The interval of the smallest ratio is simultaneous.

        Ratios are the lowest divided by the highest number. The gap of pairs is the largest ``P(A above B) - P(B above
        A)`` over pairs of groups that occur in the same list. ``ends`` are the intervals by place; without them, the
        range over permutations is computed.
        """
        ranked = self.ranked
        if self.measure not in GAPS or ranked.large.sum() < 2:
            return []
        sizes = ranked.members.sum(axis=0)
        small = {ranked.labels[i]: int(sizes[i]) for i in np.flatnonzero(~ranked.large).tolist()}
        described = []
        for place, columns in enumerate(map(np.flatnonzero, self.compared.T)):
            label, value = str(ranked.config.at[place]) if self.measure == SELECTION else "", Unknown(reason=TOO_FEW)
            gap = Gap(name=GAPS[self.measure], metric=self.measure, value=value, not_assessable=small, label=label)
            if len(columns) > (self.measure != PAIRS):
                gap = gap.model_copy(update=self._compare(columns, place, ends.get(place)))
            described.append(gap)
        if self.measure == SELECTION:
            smallest = min(described, key=lambda gap: np.inf if isinstance(gap.value, Unknown) else gap.value.value)
            described.insert(0, smallest.model_copy(update={"label": "", "largest_at": smallest.label}))
        return described

    def _compare(self, columns: Integers, place: int, ends: tuple[float, ...] | None) -> dict[str, Any]:
        """Compute the fields of the gap between several groups, or in several pairs, at one place."""
        ranked, table = self.ranked, self.values[:, columns, place]
        if self.measure == PAIRS:
            pairs, table = ranked.pairs[:, columns], np.hstack([table, 1 - table])
            gaps = distances = 2 * table.max(axis=1) - 1
            groups = np.hstack([pairs, pairs[::-1]])[:, table[0].argmax()]
        else:
            gaps = _divide(table.min(axis=1), table.max(axis=1))
            distances, groups = 1 - gaps, columns[[table[0].argmax(), table[0].argmin()]]
        value = float(gaps[0])
        if np.isnan(value):
            return {"value": Unknown(reason="the ratio is undefined: all are 0")}
        others = distances[1:][~np.isnan(distances[1:])]
        limits: tuple[float, ...] = (np.nan,)
        if ends is not None:
            limits = min(ends[0], value), max(ends[1], value)
        elif len(others) and np.ptp(others) > 0:
            end, p = float(np.quantile(others, ranked.config.confidence)), float(adjusted_p(distances[0], others))
            # One end of the range is the absence of a gap.
            limits = (0.0, end, p) if self.measure == PAIRS else (1 - end, 1.0, p)
        best, worst = (ranked.labels[group] for group in groups)
        return {"value": _describe(ranked, value, *limits), "best": best, "worst": worst}


def _describe(ranked: RankedLists, value: float, *limits: float) -> Quantity:
    """Build a number with its interval, or with its range in random orders and p. Unknown limits are NaN."""
    n = len(ranked.sizes)
    if np.isnan(value):
        return Unknown(reason="these lists have no candidates to compare")
    names = ("low", "high") if ranked.sampled else ("random_low", "random_high", "p")
    known = {} if np.isnan(limits[0]) else dict(zip(names, limits, strict=True))
    if ranked.sampled and known:
        return Observed(value=value, n=n, confidence=ranked.config.confidence, method=METHOD, **known)
    return Descriptive(value=value, n=n, **known)


def _divide(above: Floats, below: Floats) -> Floats:
    """Divide, giving NaN where the divisor is not positive."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))
