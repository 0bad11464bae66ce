"""Audit of recorded rankings: selection, attention and order of pairs by group."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from evenhand.core.text import join_names
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.breakdown import Gap
from evenhand.groups.membership import Membership, Partition, group_people, list_subsets
from evenhand.groups.rankings.config import RankingConfig
from evenhand.groups.rankings.lists import (
    ABOVE,
    BATCHES,
    EXPOSURE,
    MANY_LISTS,
    SELECTION,
    TREATMENT,
    RankedLists,
)
from evenhand.groups.rankings.measure import Measured, measure_lists
from evenhand.groups.rankings.recorded import RecordedRankings
from evenhand.groups.rankings.result import RankedGroup, RankingBreakdown, RankingResult
from evenhand.stats.quantity import Quantity, quantity_value

LADDER = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Default numbers of positions that count as selected, up to half of a list of median length."""


def measure_rankings(
    rankings: RecordedRankings,
    config: RankingConfig | None = None,
    *,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> RankingResult:
    """Audit rankings by group: selection at k, attention, and order of pairs.

    With ``MANY_LISTS`` lists or more, numbers have intervals for similar lists; candidates of the same list may be
    dependent. With fewer lists, numbers are compared with random permutations of the groups.

    Args:
        rankings: Lists and candidates.
        config: Settings.
        data_name: Name of the data in reports.
        progress: Function that is called with the current step and the completed fraction, 0 to 1.
        settings: Fields of ``RankingConfig`` that replace those of ``config``.

    Raises:
        DataError: No list has candidates of two groups.
        OptionError: An attribute is a real number, or no list has more candidates than positions that count as
            selected.
    """
    started = time.perf_counter()
    config = RankingConfig.of(config, settings)
    report = progress or ignore_progress
    people, at = rankings.people, _choose_positions(rankings, config)
    subsets = list_subsets(group_people(people, people.schema.names))
    rng = np.random.default_rng(config.seed)
    breakdowns, draws = [], 0
    for done, memberships in enumerate(subsets):
        report(f"comparing groups by {join_names(part.name for part in memberships)}", done / len(subsets))
        breakdown, permutations = _build_breakdown(memberships, rankings, at, config, rng)
        breakdowns.append(breakdown)
        draws = max(draws, permutations)
    report("done", 1.0)
    return RankingResult(
        table_reading=people.reading,
        data=data_name,
        fingerprint=_fingerprint(rankings),
        ranked_by=rankings.roles.ranked_by,
        by_score=rankings.roles.by_score,
        query=rankings.roles.query,
        relevance=rankings.roles.relevance,
        lists=rankings.count,
        people=len(rankings.lists),
        unranked=people.undecided,
        dropped=people.dropped,
        tied=rankings.tied,
        gapped=rankings.gapped,
        at=at,
        position_weights=config.position_weights,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
        draws=draws,
        breakdowns=tuple(breakdowns),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _choose_positions(rankings: RecordedRankings, config: RankingConfig) -> tuple[int, ...]:
    """Choose the numbers of positions that count as selected: those of the settings, or a ladder that fits the lists.

    Raises:
        OptionError: All candidates of all lists would be selected.
    """
    if config.at:
        longest = int(rankings.positions.max())
        if max(config.at) >= longest:
            raise OptionError(
                f"expected fewer places than the {longest:,} in the longest list, got {max(config.at):,}",
                hint="all candidates would be selected; choose a smaller `at=K`",
            )
        return config.at
    half = float(np.median(np.bincount(rankings.lists))) / 2
    few = rankings.count < MANY_LISTS
    return tuple(k for k in LADDER if k <= half and (not few or k >= 10)) or (max(1, int(half)),)


def _fingerprint(rankings: RecordedRankings) -> str:
    digest = hashlib.sha256()
    for part in (rankings.people.individuals, rankings.lists, rankings.positions, rankings.ties, rankings.relevance):
        digest.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _build_breakdown(
    memberships: Sequence[Membership],
    rankings: RecordedRankings,
    at: tuple[int, ...],
    config: RankingConfig,
    rng: np.random.Generator,
) -> tuple[RankingBreakdown, int]:
    """Measure the groups by the given attributes, and return the number of permutations."""
    partition = Partition.of(memberships)
    present = np.zeros((rankings.count, max(1, len(partition.values))), dtype=bool)
    present[rankings.lists[partition.known], partition.codes] = True
    mixed = present.sum(axis=1) >= 2
    if not mixed.any():
        raise DataError(
            f"expected lists with candidates of two groups, got {rankings.count:,} of one group each, "
            f"by {join_names(partition.by)}",
            hint="an order only compares groups within the same list; check the list column, `query=COLUMN`",
        )
    rows = np.flatnonzero(mixed[rankings.lists])
    lists = np.cumsum(mixed)[rankings.lists[rows]] - 1
    count = int(lists[-1]) + 1
    batches = np.arange(count) if count >= MANY_LISTS else np.zeros(count, dtype=np.int64)
    ranked = RankedLists(
        lists=lists,
        positions=rankings.positions[rows],
        ties=np.cumsum(np.r_[0, np.diff(rankings.ties[rows]) != 0]),
        codes=partition.all_codes[rows],
        labels=partition.labels,
        relevance=None if rankings.relevance is None else rankings.relevance[rows],
        batches=batches if count <= BATCHES else rng.permutation(batches % BATCHES),
        at=at,
        config=config,
    )
    measured = measure_lists(ranked, rng)
    sizes, having = ranked.members.sum(axis=0).astype(int).tolist(), (ranked.members > 0).sum(axis=0).tolist()
    numbers = _list_numbers(ranked, measured)
    breakdown = RankingBreakdown(
        by=partition.by,
        lists=count,
        left_out=rankings.count - count,
        left_out_candidates=len(rankings.lists) - len(rows),
        unknown=int((ranked.codes < 0).sum()),
        inference="lists" if ranked.sampled else "random orders",
        groups=tuple(
            RankedGroup(values=values, size=sizes[i], lists=having[i], small=not ranked.large[i], **numbers[i])
            for i, values in enumerate(partition.values)
        ),
        gaps=tuple(_add_smallest(measured.gaps)),
    )
    return breakdown, measured.draws


def _list_numbers(ranked: RankedLists, measured: Measured) -> list[dict[str, Any]]:
    """List the metrics and rates of each group, with those that are scaled to the mean of all candidates."""
    mean, *shares = ranked.averages.tolist()
    metrics = [
        {"exposure": _scale(exposure[0], mean), EXPOSURE: exposure[0]} for exposure in measured.numbers[EXPOSURE]
    ]
    for name in (ABOVE, TREATMENT):
        for group, numbers in zip(metrics, measured.numbers.get(name, ()), strict=False):
            group[name] = numbers[0]
    rates = [
        {
            str(k): {"selection_rate": _scale(ratio, share, 1.0), SELECTION: ratio}
            for k, share, ratio in zip(ranked.at, shares, ratios, strict=True)
        }
        for ratios in measured.numbers[SELECTION]
    ]
    return [{"metrics": metrics[i], "rates": rates[i]} for i in range(ranked.groups)]


def _scale(quantity: Quantity, factor: float, highest: float = math.inf) -> Quantity:
    """Multiply a number and its interval by a factor, up to a maximum."""
    ends = ("value", "low", "high", "random_low", "random_high")
    scaled = {name: min(factor * end, highest) for name, end in quantity if name in ends and end is not None}
    return quantity.model_copy(update=scaled)


def _add_smallest(gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Insert the smallest selection ratio before those for each k. Its interval is simultaneous."""
    for _, part in groupby(gaps, key=lambda gap: gap.name):
        listed = list(part)
        if listed[0].label:
            values = [quantity_value(gap.value) for gap in listed]
            smallest = listed[int(np.argmin([math.inf if value is None else value for value in values]))]
            yield smallest.model_copy(update={"label": "", "largest_at": smallest.label})
        yield from listed
