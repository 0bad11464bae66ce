"""The audit of rankings that were recorded: who is selected, who gets attention, and who stands above whom."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.text import join_names
from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.membership import Membership, group_by_attribute
from evenhand.groups.metrics import number_combinations
from evenhand.groups.rankings.config import RankingConfig
from evenhand.groups.rankings.measure import GapKey, GapNumber, Measured, measure_lists
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
from evenhand.groups.rankings.tabulate import (
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
from evenhand.schema.rankings import RecordedRankings
from evenhand.stats.permutation import holm
from evenhand.stats.ranked.prefixes import prefix_p_values, prefix_table

MANY_LISTS = 20
"""From so many lists on, lists are the sampling units; with fewer, their orders are compared with even ones."""

ENOUGH_LISTS = 10
"""Lists that must have a group for an interval."""

LADDER = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Places that count as selected where none are named, up to half of a list of median length."""

SHOWN = {
    ABOVE: "above_rate",
    TREATMENT: "exposure_per_relevance",
    ATTENTION: "attention_minus_merit",
    ORDERED: "pairwise_accuracy",
    WITHIN: "accuracy_within",
}
"""Measure -> the name of its numbers, of those shown as they are."""


def measure_rankings(
    rankings: RecordedRankings,
    config: RankingConfig | None = None,
    *,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> RankingResult:
    """Audit rankings: selection at k, attention, pairs in their order and prefixes, by group.

    With ``MANY_LISTS`` lists or more, numbers have intervals for lists like these, whose candidates may depend on each
    other in any way. With fewer, numbers are compared with orders in which the groups change places at random.

    Args:
        rankings: the lists and their candidates.
        config: the settings.
        data_name: how to call the data in reports.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``RankingConfig`` by name, in place of those in ``config``.

    Raises:
        DataError: no list has candidates of two groups.
        OptionError: an attribute is a real number, or no list has more candidates than places that count as selected.
    """
    started = time.perf_counter()
    config = RankingConfig.of(config, settings)
    say = progress or ignore_progress
    people, schema = rankings.people, rankings.people.schema
    at = _choose_places(rankings, config)
    memberships = [
        group_by_attribute(schema[name], people.individuals[:, schema.position(name)]) for name in schema.names
    ]
    sets = [[one] for one in memberships] + ([memberships] if len(memberships) > 1 else [])
    rng = np.random.default_rng(config.seed)
    found, draws = [], 0
    for done, chosen in enumerate(sets):
        say(f"comparing groups by {join_names(one.name for one in chosen)}", done / len(sets))
        breakdown, many = _build_breakdown(chosen, rankings, at, config, rng)
        found.append(breakdown)
        draws = max(draws, many)
    say("done", 1.0)
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
        breakdowns=tuple(found),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _choose_places(rankings: RecordedRankings, config: RankingConfig) -> tuple[int, ...]:
    """Return which places count as selected: as asked for, or a ladder that fits the lists.

    Raises:
        OptionError: everybody in every list would be selected at one of them.
    """
    sizes = np.bincount(rankings.lists)
    if config.at:
        longest = int(rankings.positions.max())
        if max(config.at) >= longest:
            raise OptionError(
                f"expected fewer places than the longest list has, {longest:,}, got {max(config.at):,}",
                hint="everybody would be selected; give a smaller `at=K`",
            )
        return config.at
    half = float(np.median(sizes)) / 2
    few = rankings.count < MANY_LISTS
    return tuple(k for k in LADDER if k <= half and (not few or k >= 10)) or (max(1, int(half)),)


def _fingerprint(rankings: RecordedRankings) -> str:
    digest = hashlib.sha256()
    for part in (rankings.people.individuals, rankings.lists, rankings.positions, rankings.ties, rankings.relevance):
        digest.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _combine(memberships: Sequence[Membership]) -> tuple[Integers, list[dict[str, str]]]:
    """Return the group of each candidate by all attributes together, -1 where one is not known, and their values."""
    known = np.logical_and.reduce([one.codes < len(one.known) for one in memberships])
    codes = np.full(len(known), -1)
    if not known.any():
        return codes, []
    parts = [replace(one, codes=one.codes[known]) for one in memberships]
    codes[known], keys = number_combinations([(one.codes, len(one.labels)) for one in parts])
    values = [{one.name: one.labels[code] for one, code in zip(parts, key, strict=True)} for key in keys.tolist()]
    return codes, values


def _build_breakdown(
    memberships: Sequence[Membership],
    rankings: RecordedRankings,
    at: tuple[int, ...],
    config: RankingConfig,
    rng: np.random.Generator,
) -> tuple[RankingBreakdown, int]:
    """Return the numbers by some attributes, and how many permutations they rest on."""
    by = tuple(one.name for one in memberships)
    codes, values = _combine(memberships)
    present = np.zeros((rankings.count, max(1, len(values))), dtype=bool)
    present[rankings.lists[codes >= 0], codes[codes >= 0]] = True
    mixed = present.sum(axis=1) >= 2
    if not mixed.any():
        raise DataError(
            f"expected lists with candidates of two groups, got {rankings.count:,} of one group each, "
            f"by {join_names(by)}",
            hint="an order says something of groups only where they stand in the same list; see the column of lists, "
            "`query=COLUMN`",
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
        groups=len(values),
        relevance=None if rankings.relevance is None else rankings.relevance[rows],
        batches=spread_lists(count, rng) if inference == "lists" else np.zeros(count, dtype=np.int64),
        at=at,
        config=config,
    )
    sizes = ranked.members.sum(axis=0).astype(np.int64)
    having = (ranked.members > 0).sum(axis=0)
    large = (sizes >= config.min_group_size) & (having >= (ENOUGH_LISTS if inference == "lists" else 1))
    compared = np.flatnonzero(large)
    measured = measure_lists(ranked, compared, inference, rng)
    labels = [", ".join(named.values()) for named in values]
    small = {label: int(size) for label, size, ok in zip(labels, sizes, large, strict=True) if not ok}
    tests, not_tested = check_prefixes(ranked, labels, compared, rng, single=inference == "even orders")
    breakdown = RankingBreakdown(
        by=by,
        lists=count,
        left_out=rankings.count - count,
        left_out_candidates=len(rankings.lists) - len(rows),
        unknown=int((codes[rows] < 0).sum()),
        inference=inference,
        groups=tuple(
            RankedGroup(
                values=values[group],
                size=int(sizes[group]),
                lists=int(having[group]),
                small=not large[group],
                selection=_describe_selection(ranked, measured, group),
                metrics=_describe_group(ranked, measured, group),
            )
            for group in range(len(values))
        ),
        gaps=tuple(_describe_gap(key, gap, labels, small) for key, gap in measured.gaps.items()),
        prefix_tests=tests,
        not_tested=not_tested,
    )
    return breakdown, measured.draws


def _describe_gap(key: GapKey, gap: GapNumber, labels: Sequence[str], small: dict[str, int]) -> RankingGap:
    best, worst = (labels[i] if i >= 0 else "" for i in (gap.best, gap.worst))
    return RankingGap(name=key[0], at=key[1], number=gap.number, best=best, worst=worst, not_assessable=small)


def _describe_selection(ranked: RankedLists, measured: Measured, group: int) -> tuple[SelectionAt, ...]:
    selected, even = ranked.selected_counts
    found = []
    for place, k in enumerate(ranked.at):
        ratio = measured.numbers[SELECTION][group * len(ranked.at) + place]
        share = float(even[group, place]) / float(ranked.selected_share[place] * len(ranked.lists))
        found.append(
            SelectionAt(
                at=k,
                selected=float(selected[group, place]),
                rate=_scale(ratio, float(ranked.selected_share[place]), 1.0),
                representation=_scale(ratio, share, 1.0),
                even_representation=share,
                ratio=ratio,
            )
        )
    return tuple(found)


def _describe_group(ranked: RankedLists, measured: Measured, group: int) -> dict[str, RankedNumber]:
    relative = measured.numbers[EXPOSURE][group]
    every = float(ranked.attention.sum())
    even = float(ranked.even_attention[group])
    found = {
        "exposure": _scale(relative, every / len(ranked.lists), np.inf),
        "exposure_share": _scale(relative, even / every, 1.0),
        "even_exposure_share": RankedNumber(value=even / every),
        "relative_exposure": relative,
    }
    return found | {
        name: measured.numbers[measure][group] for measure, name in SHOWN.items() if measure in measured.numbers
    }


def _scale(number: RankedNumber, factor: float, most: float) -> RankedNumber:
    """Return a multiple of a number with its ends."""
    if number.value is None:
        return number
    ends = ("value", "low", "high", "even", "even_low", "even_high")
    scaled = {name: getattr(number, name) for name in ends}
    return number.model_copy(
        update={name: min(factor * value, most) for name, value in scaled.items() if value is not None}
    )


# The ranked group fairness test of every group in every list.


MOST_KINDS = 3000
"""Different numbers of members and candidates per list that p-values are computed for."""

MOST_PLACES = 2000
"""The longest prefix: what the exact recursion takes grows with its square."""


class _Tested(NamedTuple):
    """The test of one group: p of each list that has it, those lists, and members by prefix of each."""

    p: Floats
    lists: Integers
    members: Integers


def check_prefixes(
    ranked: RankedLists, labels: Sequence[str], compared: Integers, rng: np.random.Generator, *, single: bool
) -> tuple[tuple[PrefixTest, ...], str]:
    """Return the test of each group that is compared, and why there is none.

    A group's share of each list's candidates is what it is tested against. Candidates of equal rank are put into a
    random order.

    Args:
        ranked: the lists; labels: of the groups.
        compared: groups that are large enough.
        single: whether there are few lists, so that each matters.
        rng: source of random numbers.
    """
    places = min(max(ranked.at), MOST_PLACES, int(ranked.sizes.max()))
    tested = {}
    for group in compared.tolist():
        kinds = np.unique(np.stack([ranked.members[:, group], ranked.sizes]), axis=1).shape[1]
        if kinds > MOST_KINDS:
            return (), f"more than {MOST_KINDS:,} different numbers of candidates and members per list"
        tested[group] = _test_lists(ranked, group, places, rng)
    alpha = 1 - ranked.config.confidence
    adjusted = holm(np.concatenate([one.p for one in tested.values()])) if single and tested else np.zeros(0)
    found, before = [], 0
    for group, one in tested.items():
        given = {"group": labels[group], "places": places, "tested": len(one.p), "failed": int((one.p <= alpha).sum())}
        if single and len(one.p):
            own = adjusted[before : before + len(one.p)]
            before += len(one.p)
            given |= _first_failure(ranked, group, one, own, alpha)
        found.append(PrefixTest(**given))
    return tuple(found), ""


def _test_lists(ranked: RankedLists, group: int, places: int, rng: np.random.Generator) -> _Tested:
    """Return the p-values of one group in the lists that have it and others beside it."""
    shuffled = np.lexsort((rng.random(len(ranked.ties)), ranked.ties))
    starts = ranked.starts[:-1]
    within = np.arange(len(ranked.lists)) - starts[ranked.lists]
    top = within < places
    table = np.zeros((len(ranked.sizes), places), dtype=np.int64)
    table[ranked.lists[top], within[top]] = (ranked.codes[shuffled] == group)[top]
    members = np.cumsum(table, axis=1)
    own, size = ranked.members[:, group].astype(np.int64), ranked.sizes
    p = np.ones(len(size))
    kinds, kind = np.unique(np.stack([own, size], axis=1), axis=0, return_inverse=True)
    for i, (m, n) in enumerate(kinds.tolist()):
        if 0 < m < n:
            here = kind.ravel() == i
            p[here] = prefix_p_values(members[here][:, : min(places, n)], m / n)
    has = np.flatnonzero((own > 0) & (own < size))
    return _Tested(p[has], has, members[has])


def _first_failure(ranked: RankedLists, group: int, one: _Tested, adjusted: Floats, alpha: float) -> dict[str, object]:
    """Return the smallest adjusted p, and where that list fails first if it does."""
    at = int(np.argmin(adjusted))
    found: dict[str, object] = {"p": float(adjusted[at])}
    size = int(ranked.sizes[one.lists[at]])
    members = one.members[at, :size]
    table = prefix_table(len(members), float(ranked.members[one.lists[at], group]) / size, alpha)
    short = np.flatnonzero(members < table.minimum)
    if len(short):
        first = int(short[0])
        found |= {"first": first + 1, "members": int(members[first]), "minimum": int(table.minimum[first])}
    return found
