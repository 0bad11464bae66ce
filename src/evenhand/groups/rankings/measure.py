"""Numbers of groups in rankings: ratios of sums over lists, with intervals or with the range over permutations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.rankings.lists import ABOVE, EXPOSURE, PAIRS, SELECTION, TREATMENT, RankedLists
from evenhand.groups.rankings.result import RankedNumber
from evenhand.stats.level import normal_quantile
from evenhand.stats.ranked.ratios import ClusteredRatios, SummedLists, clustered_ratios, even_orders

MIN_DRAWS = 199
MAX_WORK = 200_000_000
"""Maximum number of permuted candidates over all draws; long lists have fewer draws."""

MAX_RELEVANCE_WORK = 20_000_000
"""The same limit if only equally relevant candidates are permuted, which takes longer."""

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
        numbers: Measure -> numbers of each group (or pair of groups): one, for selection one for each k.
        gaps: Gaps between the compared groups.
        draws: Number of permutations; 0 for intervals.
    """

    numbers: dict[str, list[list[RankedNumber]]]
    gaps: list[RankedNumber]
    draws: int


def measure_lists(ranked: RankedLists, rng: np.random.Generator) -> Measured:
    """Compute the numbers and gaps of the groups, with intervals for many lists and ranges over permutations for few.

    Args:
        ranked: Lists.
        rng: Random generator.
    """
    return _measure_sample(ranked, rng) if ranked.sampled else _measure_few(ranked, rng)


# Many lists are treated as a sample.


def _measure_sample(ranked: RankedLists, rng: np.random.Generator) -> Measured:
    """Compute the numbers and gaps with intervals for similar lists."""
    above, below = ranked.numerators(ranked.codes), ranked.denominators()
    if ranked.relevance is not None:
        above |= ranked.relevance_numerators(ranked.codes)
        below |= ranked.relevance_denominators()
    measured = Measured({}, [], 0)
    for measure, table in below.items():
        values = _divide(above[measure].sum(axis=0), table.sum(axis=0))
        compared, intervals = _find_compared(ranked, measure, values), np.full((2, *values.shape), np.nan)
        ends: dict[int, tuple[float, float]] = {}
        if compared.any():
            lists = _count_lists(ranked, measure, table)[compared]
            low, high = (
                np.broadcast_to(limit, compared.shape)[compared] for limit in _typical_range(ranked, measure, below)
            )
            sums = SummedLists(above[measure][:, compared], table[:, compared], lists, low, high)
            reach = clustered_ratios(sums).critical(ranked.config.confidence, rng)
            # With few lists, Student's quantile is large because of the few degrees of freedom. This widens the
            # intervals sufficiently, so the number of added lists is capped.
            needed = min(reach, 1.5 * float(normal_quantile(ranked.config.confidence)))
            ratios = clustered_ratios(sums, critical=needed)
            intervals[:, compared] = np.clip(ratios.intervals(reach), 0.0, 1.0 if measure in SHARES else np.inf)
            ends = _gap_ends(ranked, measure, np.nonzero(compared)[1], ratios, reach, rng)
        measured.numbers[measure] = _describe_numbers(ranked, measure, values, low=intervals[0], high=intervals[1])
        for place, (number, _) in enumerate(_find_gaps(ranked, measure, values[None])):
            if number.value is not None and place in ends:
                low_end, high_end = ends[place]
                limits = {"low": min(low_end, number.value), "high": max(high_end, number.value)}
                number = number.model_copy(update=limits)
            measured.gaps.append(number)
    return measured


def _count_lists(ranked: RankedLists, measure: str, below: Floats) -> Integers:
    """Count the lists that contribute to each number of a measure, shape (groups or pairs, places)."""
    if ranked.count == len(ranked.sizes):
        return np.asarray((below > 0).sum(axis=0))
    present = ranked.members > 0
    if measure == PAIRS:
        first, second = ranked.pairs
        present = present[:, first] & present[:, second]
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
        highest = np.minimum(size / members, 1 / np.maximum(ranked.selected_share, 1e-12))
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
    """Compute the limits of the gap of a measure, for selection of each k; empty if fewer than two groups are compared.

    Args:
        ranked: Lists.
        measure: Measure.
        place: Position of the k of each of its compared numbers.
        ratios: These numbers.
        reach: Number of standard errors of their intervals.
        rng: Random generator.
    """
    # The largest difference is at least every lower end, and at most the largest upper end.
    if measure == PAIRS:
        size, half = np.abs(2 * ratios.centre - 1), 2 * reach * ratios.error
        return {0: (max(0.0, float((size - half).max())), min(1.0, float((size + half).max())))}
    first, second = np.triu_indices(len(place), k=1)
    same = place[first] == place[second]
    if measure not in GAPS or not same.any():
        return {}
    pairs = first[same], second[same]
    lows, highs = ratios.differences(pairs, ranked.config.confidence, rng, log=True)
    ends = {}
    for k in np.unique(place[pairs[0]]).tolist():
        at_k = place[pairs[0]] == k
        # Logarithms of the larger divided by the smaller number.
        ends[k] = float(np.exp(-highs[at_k].max())), min(float(np.exp(-lows[at_k].max())), 1.0)
    return ends


# Few lists are compared with orders that ignore the groups.


def _measure_few(ranked: RankedLists, rng: np.random.Generator) -> Measured:
    """Compute the numbers and gaps with ranges over permutations within lists, or among equally relevant candidates."""
    n, confidence = len(ranked.codes), ranked.config.confidence
    draws = min(ranked.config.draws, max(MIN_DRAWS, MAX_WORK // n))
    parts = [(ranked.numerators, ranked.denominators(), ranked.shuffle_lists(rng), draws)]
    if ranked.relevance is not None:
        fewer = min(ranked.config.draws, MAX_RELEVANCE_WORK // n)
        fewer = fewer if fewer >= MIN_DRAWS else 0
        shuffle = ranked.shuffle_equals(rng)
        parts.append((ranked.relevance_numerators, ranked.relevance_denominators(), shuffle, fewer))
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
            measured.numbers[measure] = _describe_numbers(
                ranked, measure, values[0], even_low=ranges[0], even_high=ranges[1], p=ranges[2]
            )
            for number, drawn in _find_gaps(ranked, measure, values):
                drawn = drawn[1:][~np.isnan(drawn[1:])]
                if number.value is not None and len(drawn) and np.ptp(drawn) > 0:
                    number = _compare_with_even(number, drawn, confidence, ratio=measure != PAIRS)
                measured.gaps.append(number)
    return measured


def _compare_with_even(number: RankedNumber, drawn: Floats, confidence: float, *, ratio: bool) -> RankedNumber:
    """Add the quantile of a gap over the permutations, and its p-value."""
    assert number.value is not None
    reached = int((drawn <= number.value).sum() if ratio else (drawn >= number.value).sum())
    end = float(np.quantile(drawn, 1 - confidence if ratio else confidence))
    low, high = (end, 1.0) if ratio else (0.0, end)
    p = (1 + reached) / (1 + len(drawn))
    return number.model_copy(update={"even_low": low, "even_high": high, "p": p})


# Numbers and gaps for many and for few lists.


def _find_compared(ranked: RankedLists, measure: str, values: Floats) -> Booleans:
    """Return a mask of the known numbers of compared groups, shape (groups or pairs, places)."""
    defined = ~np.isnan(values)
    return np.asarray(defined if measure == PAIRS else defined & ranked.large[:, None])


def _list_places(ranked: RankedLists, measure: str) -> tuple[int | None, ...]:
    """List the places of a measure: each k of a selection, otherwise None."""
    return ranked.at if measure == SELECTION else (None,)


def _describe_numbers(ranked: RankedLists, measure: str, values: Floats, **ends: Floats) -> list[list[RankedNumber]]:
    """Build the numbers of a measure, with the given ends where they are known, shape (groups or pairs, places)."""

    def build(at: int | None, value: float, *limits: float) -> RankedNumber:
        if np.isnan(value):
            reason = "these lists have no candidates to compare"
            return RankedNumber(name=measure, at=at, value=None, reason=reason)
        known = {name: limit for name, limit in zip(ends, limits, strict=True) if not np.isnan(limit)}
        return RankedNumber(name=measure, at=at, value=value, **known)

    rows, places = np.stack([values, *ends.values()], axis=-1).tolist(), _list_places(ranked, measure)
    return [[build(at, *cell) for at, cell in zip(places, row, strict=True)] for row in rows]


def _find_gaps(ranked: RankedLists, measure: str, values: Floats) -> Iterator[tuple[RankedNumber, Floats]]:
    """Yield the gap between the compared groups, for selection at each k; nothing if there are fewer than two.

    Ratios are the lowest divided by the highest number. The gap of pairs is the largest ``P(A above B) - P(B above A)``
    over pairs of groups that occur in the same list.

    Args:
        ranked: Lists.
        measure: Measure.
        values: Tables of its numbers, shape (tables, groups or pairs, places). The first table is the observed one.

    Yields:
        The observed gap without an interval, and the gap in each table, NaN if it is unknown, shape (tables,).
    """
    if measure not in GAPS or len(ranked.compared) < 2:
        return
    compared = _find_compared(ranked, measure, values[0])
    for place, at in enumerate(_list_places(ranked, measure)):
        columns = np.flatnonzero(compared[:, place])
        table, reason, ends = values[:, columns, place], "", (0, 0)
        gaps = np.full(len(values), np.nan)
        if measure == PAIRS:
            reason = "" if len(columns) else "no two compared groups occur in the same list"
            if not reason:
                sizes = np.abs(2 * table - 1)
                widest, gaps = int(np.argmax(sizes[0])), sizes.max(axis=1)
                first, second = (int(side[columns[widest]]) for side in ranked.pairs)
                ends = (first, second) if table[0, widest] >= 0.5 else (second, first)
        elif len(columns) < 2:
            reason = "fewer than two groups have this number"
        elif table[0].max() <= 0:
            reason = "the value is 0 for all groups, so the ratio is undefined"
        else:
            gaps = _divide(table.min(axis=1), table.max(axis=1))
            ends = int(columns[table[0].argmax()]), int(columns[table[0].argmin()])
        number = RankedNumber(name=GAPS[measure], at=at, value=None, reason=reason)
        if not reason:
            best, worst = (ranked.labels[end] for end in ends)
            number = RankedNumber(name=GAPS[measure], at=at, value=float(gaps[0]), best=best, worst=worst)
        yield number, gaps


def _divide(above: Floats, below: Floats) -> Floats:
    """Divide, with NaN where the divisor is not positive."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))
