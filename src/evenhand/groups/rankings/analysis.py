"""Audit of recorded rankings: selection, attention and order of pairs by group."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np

from evenhand.core.text import join_names
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.membership import Partition, group_people, list_partitions
from evenhand.groups.rankings.config import RankingConfig
from evenhand.groups.rankings.lists import BATCHES, MANY_LISTS, RankedLists
from evenhand.groups.rankings.measure import measure_lists
from evenhand.groups.rankings.recorded import RecordedRankings
from evenhand.groups.rankings.result import RankedGroup, RankingBreakdown, RankingResult

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
    people = rankings.people
    config = config.model_copy(update={"at": _choose_positions(rankings, config)})
    _, *partitions = list_partitions(group_people(people, people.schema.names), len(rankings.lists))
    rng = np.random.default_rng(config.seed)
    breakdowns, draws = [], 0
    for done, partition in enumerate(partitions):
        report(f"comparing groups by {join_names(partition.by)}", done / len(partitions))
        breakdown, permutations = _build_breakdown(partition, rankings, config, rng)
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
        at=config.at,
        position_weights=config.position_weights,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
        draws=draws,
        breakdowns=tuple(breakdowns),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _choose_positions(rankings: RecordedRankings, config: RankingConfig) -> tuple[int, ...]:
    """Choose the numbers of selected positions: those of the settings, or a ladder that fits the lists."""
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
    partition: Partition,
    rankings: RecordedRankings,
    config: RankingConfig,
    rng: np.random.Generator,
) -> tuple[RankingBreakdown, int]:
    """Measure the groups of a partition, and return the number of permutations."""
    present = np.zeros((rankings.count, len(partition.values) + 1), dtype=bool)
    present[rankings.lists, partition.codes] = True
    present = present[:, :-1]  # the last column is for unknown groups
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
        codes=partition.codes[rows],
        labels=partition.labels,
        relevance=None if rankings.relevance is None else rankings.relevance[rows],
        batches=batches if count <= BATCHES else rng.permutation(batches % BATCHES),
        config=config,
    )
    numbers, gaps, draws = measure_lists(ranked, rng)
    sizes, having = ranked.members.sum(axis=0).astype(int).tolist(), ranked.having.tolist()
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
        gaps=tuple(gaps),
    )
    return breakdown, draws
