"""Numbers of groups in rankings: ratios of sums over lists, with intervals or with the range over permutations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.breakdown import Gap
from evenhand.groups.rankings.lists import ABOVE, EXPOSURE, PAIRS, SELECTION, TREATMENT, RankedLists
from evenhand.stats.level import normal_quantile
from evenhand.stats.quantity import Descriptive, Observed, Quantity, Unknown
from evenhand.stats.ranked.ratios import ClusteredRatios, SummedLists, clustered_ratios, even_orders

METHOD = "ratio of sums over lists, linearised, Student's t with lists added at both ends"

MIN_DRAWS = 199
MAX_WORK = 200_000_000
"""Maximum number of permuted candidates over all draws; long lists have fewer draws."""

MAX_RELEVANCE_WORK = 20_000_000
"""Limit if only equally relevant candidates are permuted, which takes longer."""

GAPS = {
    EXPOSURE: "exposure_ratio",
    SELECTION: "selection_ratio",
    TREATMENT: "disparate_treatment_ratio",
    PAIRS: "pairwise_parity_difference",
}
"""Measure -> gap between groups. The gap of pairs is a difference, the others are ratios."""

SHARES = (ABOVE, PAIRS)
"""Measures between 0 and 1; the others are non-negative."""


class Measured(NamedTuple):
    """Numbers and gaps of the groups.

    Attributes:
        numbers: Measure -> numbers of each group (or pair of groups): one, or for selection one per k.
        gaps: Gaps between the compared groups.
        draws: Number of permutations; 0 for intervals.
    """

    numbers: dict[str, list[list[Quantity]]]
    gaps: list[Gap]
    draws: int


def measure_lists(ranked: RankedLists, rng: np.random.Generator) -> Measured:
    """Compute the numbers and gaps of the groups, with intervals if there are many lists and ranges over permutations
    if there are few.

    Args:
        ranked: Lists.
        rng: Random generator.
    """
    return _measure_sample(ranked, rng) if ranked.sampled else _measure_few(ranked, rng)


# Many lists are treated as a sample.


def _measure_sample(ranked: RankedLists, rng: np.random.Generator) -> Measured:
    """Compute the numbers and gaps with intervals for similar lists."""
    confidence = ranked.config.confidence
    above, below = ranked.numerators(ranked.codes), ranked.denominators()
    if ranked.relevance is not None:
        above |= ranked.relevance_numerators(ranked.codes)
        below |= ranked.relevance_denominators()
    measured = Measured({}, [], 0)
    for measure, table in below.items():
        values = _divide(above[measure].sum(axis=0), table.sum(axis=0))
        compared, limits = _find_compared(ranked, measure, values), np.full((2, *values.shape), np.nan)
        ends: dict[int, tuple[float, float]] = {}
        if compared.any():
            typical = _typical_range(ranked, measure, below)
            low, high = (np.broadcast_to(end, compared.shape)[compared] for end in typical)
            lists = _count_lists(ranked, measure, table)[compared]
            sums = SummedLists(above[measure][:, compared], table[:, compared], lists, low, high)
            reach = clustered_ratios(sums).critical(confidence, rng)
            # With few lists, Student's quantile is large because of the few degrees of freedom. This widens the
            # intervals sufficiently, so the number of added lists is capped.
            ratios = clustered_ratios(sums, critical=min(reach, 1.5 * float(normal_quantile(confidence))))
            limits[:, compared] = np.clip(ratios.intervals(reach), 0.0, 1.0 if measure in SHARES else np.inf)
            ends = _gap_ends(ranked, measure, np.nonzero(compared)[1], ratios, reach, rng)
        measured.numbers[measure] = _describe_numbers(ranked, values, limits)
        for place, gap, (value, *_) in _find_gaps(ranked, measure, values[None]):
            if not np.isnan(value):
                low_end, high_end = ends[place]
                quantity = _describe(ranked, value, min(low_end, value), max(high_end, value))
                gap = gap.model_copy(update={"value": quantity})
            measured.gaps.append(gap)
    return measured


def _count_lists(ranked: RankedLists, measure: str, below: Floats) -> Integers:
    """Count the lists that contribute to each number of a measure, shape (groups or pairs, places)."""
    if ranked.count == len(ranked.sizes):
        return np.asarray((below > 0).sum(axis=0))
    present = ranked.members > 0
    if measure == PAIRS:
        present = present[:, ranked.pairs[0]] & present[:, ranked.pairs[1]]
    return np.broadcast_to(present.sum(axis=0)[:, None], below.shape[1:])


def _typical_range(ranked: RankedLists, measure: str, below: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Compute the range of the numbers of a measure in a list of typical size, see ``clustered_ratios``.

    Selection ranges from 0 to the number of positions. Attention never reaches the extremes of a list, so its range is
    one standard deviation around the expectation in random orders. The range of pairs is defined in the
    same way, with the variance of the Mann-Whitney statistic, ``(m + r + 1) / (12 m r)``.

    Returns:
        Both ends, which broadcast to shape (groups or pairs, places).
    """
    lists = np.maximum((ranked.members > 0).sum(axis=0), 1)
    members = np.maximum(ranked.members.sum(axis=0) / lists, 1.0)[:, None]
    size = max(len(ranked.lists) / len(ranked.sizes), 2.0)
    if measure == SELECTION:
        highest = np.minimum(size / members, 1 / np.maximum(ranked.averages[1:], 1e-12))
        return np.zeros(1), np.maximum(highest, 1.0)
    if measure in SHARES:
        pairs = below[measure].sum(axis=0) / np.maximum(_count_lists(ranked, measure, below[measure]), 1)
        own = np.sqrt(pairs) if measure == PAIRS else members
        other = np.divide(pairs, own, out=np.ones(pairs.shape), where=own > 0)
        spread = np.minimum(np.sqrt((own + other + 1) / np.maximum(12 * own * other, 1e-12)), 0.5)
        return 0.5 - spread, 0.5 + spread
    deviation = np.sqrt(ranked.variation / members * np.maximum(1 - members / size, 0.0) * size / (size - 1))
    scale = _divide(below[EXPOSURE].sum(axis=0), below[measure].sum(axis=0))
    return np.maximum(1 - deviation, 0.0) * scale, (1 + deviation) * scale


def _gap_ends(
    ranked: RankedLists,
    measure: str,
    place: Integers,
    ratios: ClusteredRatios,
    reach: float,
    rng: np.random.Generator,
) -> dict[int, tuple[float, float]]:
    """Compute the limits of the gap of a measure (for selection, per k); empty if fewer than two groups are compared.

    Args:
        ranked: Lists.
        measure: Measure.
        place: Position of the k of each of its compared numbers.
        ratios: These numbers.
        reach: Number of standard errors of their intervals.
        rng: Random generator.
    """
    # The largest difference is at least every lower end and at most the largest upper end.
    if measure == PAIRS:
        size, half = np.abs(2 * ratios.centre - 1), 2 * reach * ratios.error
        return {0: (max(0.0, float((size - half).max())), min(1.0, float((size + half).max())))}
    pairs = np.array(np.triu_indices(len(place), k=1))
    first, second = pairs[:, place[pairs[0]] == place[pairs[1]]]
    if measure not in GAPS or not len(first):
        return {}
    lows, highs = ratios.differences((first, second), ranked.config.confidence, rng, log=True)
    # Logarithms of the larger divided by the smaller number.
    return {
        k: (float(np.exp(-highs[place[first] == k].max())), min(float(np.exp(-lows[place[first] == k].max())), 1.0))
        for k in np.unique(place[first]).tolist()
    }


# Few lists are compared with orders that ignore the groups.


def _measure_few(ranked: RankedLists, rng: np.random.Generator) -> Measured:
    """Compute the numbers and gaps with ranges over permutations within lists, or among equally relevant candidates."""
    n, confidence = len(ranked.codes), ranked.config.confidence
    draws = min(ranked.config.draws, max(MIN_DRAWS, MAX_WORK // n))
    parts = [(ranked.numerators, ranked.denominators(), ranked.shuffle_lists(rng), draws)]
    if ranked.relevance is not None:
        fewer = min(ranked.config.draws, MAX_RELEVANCE_WORK // n)
        shuffle = ranked.shuffle_equals(rng)
        count = fewer if fewer >= MIN_DRAWS else 0
        parts.append((ranked.relevance_numerators, ranked.relevance_denominators(), shuffle, count))
    measured = Measured({}, [], draws)
    for numerators, below, shuffle, count in parts:
        orders = chain([ranked.codes], (shuffle() for _ in range(count)))
        above = [numerators(codes) for codes in orders]
        for measure, table in below.items():
            values = _divide(np.array([sums[measure][0] for sums in above]), table[0])
            compared, ranges = _find_compared(ranked, measure, values[0]), np.full((3, *values[0].shape), np.nan)
            if count and compared.any():
                even = even_orders(values[0][compared], values[1:, compared], confidence)
                limits = np.clip((even.low, even.high), 0.0, 1.0 if measure in SHARES else np.inf)
                ranges[:, compared] = np.where(even.high > even.low, (*limits, even.p), np.nan)
            measured.numbers[measure] = _describe_numbers(ranked, values[0], ranges)
            for _, gap, (value, *drawn) in _find_gaps(ranked, measure, values):
                others = np.array(drawn)[~np.isnan(drawn)]
                if not np.isnan(value) and len(others) and np.ptp(others) > 0:
                    # One end of the range is the absence of a gap.
                    signs = 1 if measure == PAIRS else -1
                    end = float(np.quantile(others, confidence if signs > 0 else 1 - confidence))
                    p = (1 + int((signs * others >= signs * value).sum())) / (1 + len(others))
                    quantity = _describe(ranked, value, *((0.0, end) if signs > 0 else (end, 1.0)), p)
                    gap = gap.model_copy(update={"value": quantity})
                measured.gaps.append(gap)
    return measured


# Numbers and gaps for many and for few lists.


def _find_compared(ranked: RankedLists, measure: str, values: Floats) -> Booleans:
    """Return a mask of the known numbers of compared groups, shape (groups or pairs, places)."""
    defined = ~np.isnan(values)
    return np.asarray(defined if measure == PAIRS else defined & ranked.large[:, None])


def _describe(ranked: RankedLists, value: float, *limits: float) -> Quantity:
    """Build a number with its interval, or with its range in random orders and p. Unknown limits are NaN."""
    n = len(ranked.sizes)
    if np.isnan(value):
        return Unknown(reason="these lists have no candidates to compare")
    if np.isnan(limits[0]):
        return Descriptive(value=value, n=n)
    if len(limits) > 2:
        return Descriptive(value=value, n=n, **dict(zip(("random_low", "random_high", "p"), limits, strict=True)))
    low, high = limits
    return Observed(value=value, n=n, low=low, high=high, confidence=ranked.config.confidence, method=METHOD)


def _describe_numbers(ranked: RankedLists, values: Floats, limits: Floats) -> list[list[Quantity]]:
    """Build the numbers of a measure, shape (groups or pairs, places), from limits of shape (ends, ...)."""
    return [[_describe(ranked, *cell) for cell in row] for row in np.stack([values, *limits], axis=-1).tolist()]


def _find_gaps(ranked: RankedLists, measure: str, values: Floats) -> Iterator[tuple[int, Gap, list[float]]]:
    """Yield the gap between the compared groups (for selection, at each k); nothing if there are fewer than two.

    Ratios are the lowest divided by the highest number. The gap of pairs is the largest ``P(A above B) - P(B above A)``
    over pairs of groups that occur in the same list.

    Args:
        ranked: Lists.
        measure: Measure.
        values: Tables of its numbers, shape (tables, groups or pairs, places). The first table is the observed one.

    Yields:
        The place, the observed gap without an interval, and the gap in each table, NaN if it is unknown.
    """
    if measure not in GAPS or ranked.large.sum() < 2:
        return
    sizes, compared = ranked.members.sum(axis=0).astype(int).tolist(), _find_compared(ranked, measure, values[0])
    small = {label: size for label, size, large in zip(ranked.labels, sizes, ranked.large, strict=True) if not large}
    for place in range(values.shape[2]):
        columns = np.flatnonzero(compared[:, place])
        table, gaps, ends, reason = values[:, columns, place], np.full(len(values), np.nan), [], ""
        if measure == PAIRS and len(columns):
            gaps = np.abs(2 * table - 1).max(axis=1)
            widest = int(np.argmax(np.abs(2 * table[0] - 1)))
            ends = ranked.pairs[:: 1 if table[0, widest] >= 0.5 else -1, columns[widest]].tolist()
        elif measure == PAIRS:
            reason = "no two compared groups occur in the same list"
        elif len(columns) < 2:
            reason = "fewer than two groups have this number"
        elif table[0].max() <= 0:
            reason = "the value is 0 for all groups, so the ratio is undefined"
        else:
            gaps = _divide(table.min(axis=1), table.max(axis=1))
            ends = columns[[table[0].argmax(), table[0].argmin()]].tolist()
        gap = Gap(
            name=GAPS[measure],
            metric=measure,
            value=Unknown(reason=reason) if reason else _describe(ranked, float(gaps[0]), np.nan),
            not_assessable=small,
            label=str(ranked.at[place]) if measure == SELECTION else "",
            **dict(zip(("best", "worst"), (ranked.labels[end] for end in ends), strict=False)),
        )
        yield place, gap, gaps.tolist()


def _divide(above: Floats, below: Floats) -> Floats:
    """Divide, giving NaN where the divisor is not positive."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))
