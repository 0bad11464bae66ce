"""Document of an audit of rankings: attention, selection and pairs by group, and the method."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from evenhand.core.document import (
    Block,
    Document,
    Facts,
    Figure,
    Fold,
    Heading,
    Metric,
    Note,
    ReportedNumber,
    Text,
)
from evenhand.core.text import format_count, format_level, join_names
from evenhand.groups.breakdown import Gap
from evenhand.groups.rankings.measure import METHOD
from evenhand.groups.rankings.result import RankingBreakdown, RankingResult
from evenhand.groups.wording.tables import (
    describe_not_assessable,
    gap_table,
    group_table,
    metric_columns,
    small_group_notes,
    title_gap,
    title_metric,
)
from evenhand.stats.quantity import Descriptive, Quantity, Sampled, Unknown, show_quantity

RANDOM = "not distinguishable from a random order"

WEIGHTS = {"log": "1 / log2(1 + rank), the discount of DCG", "reciprocal": "1 / rank"}


def build_document(result: RankingResult) -> Document:
    """Build the document of an audit of rankings."""
    order = "scores, the highest first" if result.by_score else "recorded ranks"
    per = "" if result.query is None else f", one per {result.query}"
    return Document(
        f"Audit of rankings by {result.ranked_by} in {result.data}",
        f"{format_count(result.lists, 'list', 'lists')}{per}, of "
        f"{format_count(result.people, *result.members)}; order: {order}; "
        f"protected: {', '.join(result.breakdowns[-1].by)}",
        (
            Text(items=tuple(_headlines(result)), role="finding"),
            *(_answer(breakdown, gap) for breakdown in result.breakdowns for gap in _list_gaps(breakdown)),
            *_notes(result),
            *small_group_notes(result),
            Text(_terms(result), role="small"),
            *(block for breakdown in result.breakdowns for block in _breakdown_blocks(result, breakdown)),
            *_method(result),
        ),
        brand="Evenhand audit",
        made=f"{result.provenance} The JSON contains all numbers at full precision.",
    )


def _headlines(result: RankingResult) -> Iterator[str]:
    """Yield one sentence per attribute about the group with the least attention."""
    for breakdown in result.breakdowns:
        groups, gap = {group.label: group for group in breakdown.groups}, breakdown.gap("exposure_ratio")
        if gap is None or isinstance(gap.value, Unknown):
            continue
        best, worst, shown = groups[gap.best], groups[gap.worst], _show(breakdown, gap.name, gap.value)
        uncertainty = shown.interval or "no random orders to compare it with"
        chance = isinstance(gap.value, Sampled) and gap.value.high >= 1
        if isinstance(gap.value, Descriptive):
            chance = gap.value.p is None or gap.value.p > 1 - result.confidence
        yield (
            f"Candidates with {worst.description} get {shown.text} times the attention of candidates with "
            f"{best.description}, list by list ({uncertainty}{'; ' + RANDOM if chance else ''}; {worst.size:,} and "
            f"{best.size:,} candidates)."
        )


def _list_gaps(breakdown: RankingBreakdown) -> list[Gap]:
    """List the gaps; for selection, the gap at each k instead of the largest one."""
    return [gap for gap in breakdown.gaps if not gap.largest_at]


def _answer(breakdown: RankingBreakdown, gap: Gap) -> Metric:
    """Build the metric of one gap."""
    notes = (f"highest: {gap.best}; lowest: {gap.worst}" if gap.best else "", describe_not_assessable(gap))
    number = _show(breakdown, gap.name, gap.value)
    return Metric(title_gap(gap).partition(":")[0], number, tuple(filter(None, notes)), about=join_names(breakdown.by))


def _notes(result: RankingResult) -> Iterator[Note]:
    """Yield the limits of the result: few lists, and excluded rows and lists."""
    if any(breakdown.inference == "random orders" for breakdown in result.breakdowns):
        yield Note(
            f"{'This is one list' if result.lists == 1 else 'These are few lists'} and not a sample of lists, so "
            "there are no intervals for similar lists. Numbers are compared with random orders: permutations of the "
            "groups within each list, which are equally likely if the order ignores the groups. A number outside their "
            "range is unlikely in a random order; unfairness is not the only possible explanation.",
        )
    lists, column = format_count(result.lists, "list", "lists"), "score" if result.by_score else "rank"
    if result.unranked:
        yield Note(f"Left out: {format_count(result.unranked, 'row', 'rows')} without a {column}.", "caution")
    if result.dropped:
        rows = format_count(result.dropped, *result.members)
        yield Note(f"Left out: {rows} with a missing protected attribute; their places remain empty.", "caution")
    for breakdown in result.breakdowns:
        by = join_names(breakdown.by)
        if breakdown.left_out:
            yield Note(
                f"By {by}, {breakdown.left_out:,} of {lists} with {breakdown.left_out_candidates:,} candidates are "
                "left out: all their candidates are of one group, so their order does not compare groups.",
                "caution",
            )
        if breakdown.unknown:
            yield Note(
                f"By {by}, {format_count(breakdown.unknown, 'candidate is', 'candidates are')} of unknown group: they "
                "occupy places, but count in no group.",
                "caution",
            )
    if result.tied:
        yield Note(
            f"{result.tied:,} of {result.people:,} candidates have equal {column}s in their list. Each of "
            "them counts with the average over all orders of the tied candidates."
        )
    if result.gapped:
        yield Note(
            f"Ranks have gaps in {result.gapped:,} of {lists}. A rank counts as the recorded place; the skipped places "
            "stay empty."
        )


def _terms(result: RankingResult) -> str:
    text = (
        f"Attention (exposure) of a place: {WEIGHTS[result.position_weights]}. Random orders: orders that ignore the "
        "groups, in which a group's expected share of any places of a list is its share of the candidates. Numbers "
        "compare groups with random orders list by list, so the lengths of the lists of a group do not matter. "
        "Selection at k: being within the first k places."
    )
    if result.relevance is not None:
        text += f" Attention per relevance: attention divided by attention in proportion to {result.relevance}."
    return text


def _breakdown_blocks(result: RankingResult, breakdown: RankingBreakdown) -> Iterator[Block]:
    by, level, sample = join_names(breakdown.by), format_level(result.confidence), breakdown.inference == "lists"
    interval = f"observed, each with its {level} {'interval' if sample else 'range in random orders and p'}"
    show = partial(_show, breakdown)
    yield Heading(f"By {by}", detail=True)
    yield Figure(
        "selection over places",
        f"Share of the first k places that each group has, divided by its share in random orders, by {by}. Bands: "
        f"{level} {'intervals' if sample else 'ranges in random orders'}, simultaneous over all groups and k. The line "
        "at 1 is the expectation in random orders.",
        result,
        (result.breakdowns.index(breakdown),),
    )
    caption = f"Gaps by {by}, {interval}, simultaneous over all pairs of groups"
    yield from gap_table(caption, _list_gaps(breakdown), show)
    relevance = "; for relevance, random orders permute groups among equally relevant candidates"
    suffix = "" if sample or result.relevance is None else relevance
    yield from group_table(f"Attention by {by}, {interval}{suffix}", result, breakdown, metric_columns(breakdown), show)
    simultaneous = "" if len(result.at) == 1 else ", simultaneous over all k and groups"
    tables = (
        table
        for k in result.at
        for table in group_table(
            f"Selection within the first {k:,} by {by}, {interval}{simultaneous}",
            result,
            breakdown,
            {title_metric(name): (str(k), name) for name in ("selection_rate", "representation_ratio")},
            show,
        )
    )
    yield Fold(f"Selection at k by {by}", tuple(tables))


def _method(result: RankingResult) -> Iterator[Block]:
    yield Heading("Method", detail=True)
    entries = [
        ("Data", f"{result.data}; SHA-256 {result.fingerprint}"),
    ]
    if any(breakdown.inference == "lists" for breakdown in result.breakdowns):
        entries.append(
            (
                "Intervals",
                f"{METHOD}; the lists are treated as an independent sample, and candidates of the same list may be "
                "dependent. Intervals of one kind of number are simultaneous over all groups, pairs of groups and k",
            )
        )
    if result.draws:
        entries.append(
            (
                "Ranges and p",
                f"{result.draws:,} permutations of the groups within each list (of numbers about relevance, among "
                "equally relevant candidates), for all groups and k together (largest standardised deviation)",
            )
        )
    yield Facts((*entries, ("Seed", str(result.seed))))


def _show(breakdown: RankingBreakdown, name: str, quantity: Quantity) -> ReportedNumber:
    """Format a number with its interval, or with the range in random orders."""
    return show_quantity(quantity, name, basis=f"on {format_count(breakdown.lists, 'list', 'lists')}")
