"""Audit of recorded rankings: selection, attention and order of pairs by group."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.text import join_names
from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.membership import Membership, Partition, group_people, list_subsets
from evenhand.groups.rankings.config import RankingConfig
from evenhand.groups.rankings.lists import (
    ABOVE,
    ATTENTION,
    EXPOSURE,
    ORDERED,
    SELECTION,
    TREATMENT,
    WITHIN,
    RankedLists,
    spread_lists,
)
from evenhand.groups.rankings.measure import Measured, measure_lists
from evenhand.groups.rankings.result import (
    Inference,
    PrefixTest,
    RankedGroup,
    RankedNumber,
    RankingBreakdown,
    RankingGap,
    RankingResult,
    SelectionAt,
)
from evenhand.schema.rankings import RecordedRankings
from evenhand.stats.permutation import holm
from evenhand.stats.ranked.prefixes import prefix_p_values, prefix_table

MANY_LISTS = 20
"""Minimum number of lists that are treated as a sample. Fewer lists are compared with even orders."""

ENOUGH_LISTS = 10
"""Minimum number of lists with a group for an interval."""

LADDER = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Default numbers of positions that count as selected, up to half of a list of median length."""

METRICS = {
    ABOVE: "above_rate",
    TREATMENT: "exposure_per_relevance",
    ATTENTION: "attention_minus_merit",
    ORDERED: "pairwise_accuracy",
    WITHIN: "accuracy_within",
}
"""Measure -> metric of the groups, for measures that are not scaled."""

MAX_KINDS = 3000
"""Maximum number of distinct pairs of list size and group size for prefix tests."""

MAX_PREFIX = 2000
"""Maximum length of a tested prefix; the cost of the exact recursion is quadratic in it."""


def measure_rankings(
    rankings: RecordedRankings,
    config: RankingConfig | None = None,
    *,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> RankingResult:
    """Audit rankings by group: selection at k, attention, order of pairs, and prefixes.

    With ``MANY_LISTS`` lists or more, numbers have intervals for similar lists; candidates of the same list may be
    dependent. With fewer lists, numbers are compared with random permutations of the groups.

    Args:
        rankings: Lists and candidates.
        config: Settings.
        data_name: Name of the data in reports.
        progress: Function that is called with the current step and the share done, 0 to 1.
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
        ranked_by=rankings.ranked_by,
        by_score=rankings.by_score,
        query=rankings.query,
        relevance=rankings.relevance_name,
        lists=rankings.count,
        candidates=len(rankings.lists),
        unranked=rankings.unranked,
        dropped=people.dropped,
        tied=rankings.tied,
        gapped=rankings.gapped,
        at=at,
        position_weights=config.position_weights,
        patience=config.patience,
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
                f"expected fewer places than the longest list has, {longest:,}, got {max(config.at):,}",
                hint="all candidates would be selected; give a smaller `at=K`",
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
    codes, groups = np.full(len(partition.known), -1), len(partition.values)
    codes[partition.known] = partition.codes
    present = np.zeros((rankings.count, max(1, groups)), dtype=bool)
    present[rankings.lists[partition.known], partition.codes] = True
    mixed = present.sum(axis=1) >= 2
    if not mixed.any():
        raise DataError(
            f"expected lists with candidates of two groups, got {rankings.count:,} of one group each, "
            f"by {join_names(partition.by)}",
            hint="an order only compares groups within the same list; check the column of lists, `query=COLUMN`",
        )
    rows = np.flatnonzero(mixed[rankings.lists])
    lists = np.cumsum(mixed)[rankings.lists[rows]] - 1
    count = int(lists[-1]) + 1
    inference: Inference = "lists" if count >= MANY_LISTS else "even orders"
    ranked = RankedLists(
        lists=lists,
        positions=rankings.positions[rows],
        ties=np.cumsum(np.r_[0, np.diff(rankings.ties[rows]) != 0]),
        codes=codes[rows],
        groups=groups,
        relevance=None if rankings.relevance is None else rankings.relevance[rows],
        batches=spread_lists(count, rng) if inference == "lists" else np.zeros(count, dtype=np.int64),
        at=at,
        config=config,
    )
    sizes, having = ranked.members.sum(axis=0).astype(np.int64), (ranked.members > 0).sum(axis=0)
    large = (sizes >= config.min_group_size) & (having >= (ENOUGH_LISTS if inference == "lists" else 1))
    compared = np.flatnonzero(large)
    measured = measure_lists(ranked, compared, inference, rng)
    labels = partition.labels
    small = {label: int(size) for label, size, ok in zip(labels, sizes, large, strict=True) if not ok}
    tests, not_tested = check_prefixes(ranked, labels, compared, rng, single=inference == "even orders")
    breakdown = RankingBreakdown(
        by=partition.by,
        lists=count,
        left_out=rankings.count - count,
        left_out_candidates=len(rankings.lists) - len(rows),
        unknown=int((ranked.codes < 0).sum()),
        inference=inference,
        groups=tuple(
            RankedGroup(
                values=values,
                size=int(sizes[i]),
                lists=int(having[i]),
                small=not large[i],
                selection=selection,
                metrics=metrics,
            )
            for i, (values, selection, metrics) in enumerate(
                zip(
                    partition.values,
                    _describe_selection(ranked, measured),
                    _describe_groups(ranked, measured),
                    strict=True,
                )
            )
        ),
        gaps=tuple(
            RankingGap(
                name=name,
                at=k,
                number=number,
                best=labels[best] if best >= 0 else "",
                worst=labels[worst] if worst >= 0 else "",
                not_assessable=small,
            )
            for (name, k), (number, best, worst) in measured.gaps.items()
        ),
        prefix_tests=tests,
        not_tested=not_tested,
    )
    return breakdown, measured.draws


def _describe_selection(ranked: RankedLists, measured: Measured) -> list[tuple[SelectionAt, ...]]:
    """Compute the selection of each group at each k."""
    own = np.stack([ranked.add_up(ranked.codes, inside, rows).sum(axis=0) for rows, inside in ranked.selected], axis=1)
    even = ranked.denominators()[SELECTION].sum(axis=0)
    shares = ranked.selected_share
    even_shares = even / (shares * len(ranked.lists))
    ratios = measured.numbers[SELECTION]
    return [
        tuple(
            SelectionAt(
                at=k,
                selected=float(own[group, place]),
                rate=_scale(ratio, float(shares[place]), 1.0),
                representation=_scale(ratio, float(even_shares[group, place]), 1.0),
                even_representation=float(even_shares[group, place]),
                ratio=ratio,
            )
            for place, (k, ratio) in enumerate(
                zip(ranked.at, ratios[group * len(ranked.at) : (group + 1) * len(ranked.at)], strict=True)
            )
        )
        for group in range(ranked.groups)
    ]


def _describe_groups(ranked: RankedLists, measured: Measured) -> list[dict[str, RankedNumber]]:
    """Compute the attention of each group, and its other metrics."""
    total, mean = float(ranked.attention.sum()), float(ranked.attention.sum()) / len(ranked.lists)
    even = ranked.denominators()[EXPOSURE].sum(axis=0) / total
    return [
        {
            "exposure": _scale(relative, mean, np.inf),
            "exposure_share": _scale(relative, float(even[group]), 1.0),
            "even_exposure_share": RankedNumber(value=float(even[group])),
            "relative_exposure": relative,
        }
        | {name: measured.numbers[measure][group] for measure, name in METRICS.items() if measure in measured.numbers}
        for group, relative in enumerate(measured.numbers[EXPOSURE])
    ]


def _scale(number: RankedNumber, factor: float, highest: float) -> RankedNumber:
    """Multiply a number and its ends by a factor."""
    if number.value is None:
        return number
    scaled = {name: getattr(number, name) for name in ("value", "low", "high", "even", "even_low", "even_high")}
    return number.model_copy(
        update={name: min(factor * value, highest) for name, value in scaled.items() if value is not None}
    )


# Ranked group fairness test of each group in each list.


class _PrefixTests(NamedTuple):
    """Tests of one group: p-values of the lists with members, these lists, and the members of their prefixes."""

    p: Floats
    lists: Integers
    members: Integers


def check_prefixes(
    ranked: RankedLists, labels: Sequence[str], compared: Integers, rng: np.random.Generator, *, single: bool
) -> tuple[tuple[PrefixTest, ...], str]:
    """Test each compared group for under-representation in some prefix, or return the reason why this is not possible.

    The target is the group's share in the candidates of each list. Candidates of equal rank are in random order.

    Args:
        ranked: Lists.
        labels: Names of the groups.
        compared: Positions of the groups that are large enough.
        rng: Random generator.
        single: Whether there are few lists, which are tested one by one.
    """
    places = min(max(ranked.at), MAX_PREFIX, int(ranked.sizes.max()))
    tests = {}
    for group in compared.tolist():
        kinds = np.unique(np.stack([ranked.members[:, group], ranked.sizes]), axis=1).shape[1]
        if kinds > MAX_KINDS:
            return (), f"more than {MAX_KINDS:,} different numbers of candidates and members per list"
        tests[group] = _test_lists(ranked, group, places, rng)
    alpha = 1 - ranked.config.confidence
    adjusted = holm(np.concatenate([test.p for test in tests.values()])) if single and tests else np.zeros(0)
    results, start = [], 0
    for group, test in tests.items():
        end = start + len(test.p)
        failure = _first_failure(ranked, group, test, adjusted[start:end], alpha) if single and len(test.p) else {}
        start = end
        failed = int((test.p <= alpha).sum())
        results.append(PrefixTest(group=labels[group], places=places, tested=len(test.p), failed=failed, **failure))
    return tuple(results), ""


def _test_lists(ranked: RankedLists, group: int, places: int, rng: np.random.Generator) -> _PrefixTests:
    """Compute the p-values of one group in the lists with members and other candidates."""
    shuffled = np.lexsort((rng.random(len(ranked.ties)), ranked.ties))
    within = np.arange(len(ranked.lists)) - ranked.starts[:-1][ranked.lists]
    top = within < places
    table = np.zeros((len(ranked.sizes), places), dtype=np.int64)
    table[ranked.lists[top], within[top]] = (ranked.codes[shuffled] == group)[top]
    members = np.cumsum(table, axis=1)
    own, size = ranked.members[:, group].astype(np.int64), ranked.sizes
    p = np.ones(len(size))
    kinds, kind = np.unique(np.stack([own, size], axis=1), axis=0, return_inverse=True)
    for i, (m, n) in enumerate(kinds.tolist()):
        if 0 < m < n:
            lists = kind.ravel() == i
            p[lists] = prefix_p_values(members[lists][:, : min(places, n)], m / n)
    tested = np.flatnonzero((own > 0) & (own < size))
    return _PrefixTests(p[tested], tested, members[tested])


def _first_failure(
    ranked: RankedLists, group: int, test: _PrefixTests, adjusted: Floats, alpha: float
) -> dict[str, Any]:
    """Return the smallest adjusted p-value, and the first prefix of this list that fails."""
    at = int(np.argmin(adjusted))
    failure: dict[str, Any] = {"p": float(adjusted[at])}
    size = int(ranked.sizes[test.lists[at]])
    members = test.members[at, :size]
    table = prefix_table(len(members), float(ranked.members[test.lists[at], group]) / size, alpha)
    short = np.flatnonzero(members < table.minimum)
    if len(short):
        place = int(short[0])
        failure |= {"first": place + 1, "members": int(members[place]), "minimum": int(table.minimum[place])}
    return failure
