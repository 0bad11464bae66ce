"""Document of an audit of rankings: attention, selection and pairs by group, and the method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Fold,
    Heading,
    Metric,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_level, join_names
from evenhand.groups.breakdown import list_counts
from evenhand.groups.rankings.result import (
    METHOD,
    RankedGroup,
    RankedNumber,
    RankingBreakdown,
    RankingResult,
    find_number,
)
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Known, Proved, Unknown, format_value, show_quantity

RANDOM = "not distinguishable from a random order"

WEIGHTS = {"log": "1 / log2(1 + rank), the discount of DCG", "reciprocal": "1 / rank"}

ATTENTION = ("exposure", "relative_exposure", "above_rate", "exposure_per_relevance")
SELECTION = ("selection_rate", "representation_ratio")
"""Metrics of the tables of groups, over all places and at each k."""


def build_document(result: RankingResult) -> Document:
    """Build the document of an audit of rankings."""
    order = "scores, the highest first" if result.by_score else "recorded ranks"
    per = "" if result.query is None else f", one per {result.query}"
    return Document(
        f"Audit of rankings by {result.ranked_by} in {result.data}",
        f"{format_count(result.lists, 'list', 'lists')}{per}, of "
        f"{format_count(result.candidates, 'candidate', 'candidates')}; order: {order}; "
        f"protected: {', '.join(result.breakdowns[-1].by)}",
        (
            Text(items=tuple(_headlines(result)), role="finding"),
            *(_answer(result, breakdown, gap) for breakdown in result.breakdowns for gap in breakdown.gaps),
            *_notes(result),
            Text(_terms(result), role="small"),
            *(block for breakdown in result.breakdowns for block in _breakdown_blocks(result, breakdown)),
            *_method(result),
        ),
        brand="Evenhand audit",
        made=f"{result.provenance} All numbers at full precision are in the JSON.",
        readings=result.readings,
    )


def _headlines(result: RankingResult) -> Iterator[str]:
    """Yield one sentence for each attribute about the group with the least attention."""
    for breakdown in result.breakdowns:
        groups, gap = {group.label: group for group in breakdown.groups}, breakdown.gap("exposure_ratio")
        if gap is None or gap.value is None:
            continue
        best, worst, shown = groups[gap.best], groups[gap.worst], _show(result, breakdown, gap)
        uncertainty = shown.interval or "no random orders to compare it with"
        chance = gap.high is None or gap.high >= 1 if gap.p is None else gap.p > 1 - result.confidence
        yield (
            f"Candidates with {worst.description} get {shown.text} times the attention of candidates with "
            f"{best.description}, list by list ({uncertainty}{'; ' + RANDOM if chance else ''}; {worst.size:,} and "
            f"{best.size:,} candidates)."
        )


def _answer(result: RankingResult, breakdown: RankingBreakdown, gap: RankedNumber) -> Metric:
    """Build the metric of one gap."""
    title = METRICS[gap.name].title
    notes = [f"highest: {gap.best}; lowest: {gap.worst}"] if gap.best else []
    if breakdown.not_assessable:
        notes.append(f"not assessable for: {list_counts(breakdown.not_assessable)}")
    return Metric(
        title if gap.at is None else f"{title} at {gap.at:,}",
        _show(result, breakdown, gap),
        tuple(notes),
        about=join_names(breakdown.by),
    )


def _notes(result: RankingResult) -> Iterator[Note]:
    """Yield the limits of the result: few lists, and rows, lists and groups that are left out."""
    if any(breakdown.inference == "even orders" for breakdown in result.breakdowns):
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
        rows = format_count(result.dropped, "candidate", "candidates")
        yield Note(f"Left out: {rows} with a missing protected attribute; their places stay empty.", "caution")
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
        if breakdown.not_assessable:
            few = f"fewer than {result.min_group_size} candidates, or too few lists"
            yield Note(f"Not assessable by {by}: {few}: {list_counts(breakdown.not_assessable)}", "caution")
    if result.tied:
        yield Note(
            f"{result.tied:,} of {result.candidates:,} candidates have equal {column}s in their list. Each of "
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
    yield Heading(f"By {by}", detail=True)
    yield Figure(
        "selection over places",
        f"Share of the first k places that each group has, divided by its share in random orders, by {by}. Bands: "
        f"{level} {'intervals' if sample else 'ranges in random orders'}, simultaneous over all groups and k. The line "
        "at 1 is the expectation in random orders.",
        result,
        (result.breakdowns.index(breakdown),),
    )
    yield Table(
        f"Gaps by {by}, {interval}, simultaneous over all pairs of groups",
        (Column("comparison"), Column("gap", numeric=True), Column("highest"), Column("lowest")),
        tuple(TableRow((_title(gap), _show(result, breakdown, gap), gap.best, gap.worst)) for gap in breakdown.gaps),
        usual="observed",
    )
    suffix = (
        ""
        if sample or result.relevance is None
        else ("; for relevance, random orders permute groups among equally relevant candidates")
    )
    yield _group_table(f"Attention by {by}, {interval}{suffix}", ATTENTION, result, breakdown, (None,))
    simultaneous = "" if len(result.at) == 1 else ", simultaneous over all k and groups"
    caption = f"Selection by {by}, {interval}{simultaneous}"
    yield Fold(f"Selection at k by {by}", (_group_table(caption, SELECTION, result, breakdown, result.at),))


def _title(gap: RankedNumber) -> str:
    title = METRICS[gap.name].heading
    return title if gap.at is None else title.replace(":", f" at {gap.at:,}:", 1)


def _group_table(
    caption: str,
    names: Sequence[str],
    result: RankingResult,
    breakdown: RankingBreakdown,
    at: Sequence[int | None],
) -> Table:
    """Build a table of metrics of the groups, with one row per group and k."""
    present = [name for name in names if any(find_number(group.numbers, name, None) for group in breakdown.groups)]
    places = [] if at[0] is None else [Column("first places", numeric=True)]

    def row(group: RankedGroup, k: int | None) -> TableRow:
        numbers = [find_number(group.numbers, name, k) for name in present]
        cells = ["" if number is None else _show(result, breakdown, number) for number in numbers]
        note = "not assessable: excluded from the gaps" if group.small and k is None else ""
        return TableRow((*([] if k is None else [f"{k:,}"]), group.label, group.size, *cells), note, faint=group.small)

    return Table(
        caption,
        (
            *places,
            Column(join_names(breakdown.by)),
            Column("candidates", numeric=True),
            *(Column(METRICS[name].title, numeric=True) for name in present),
        ),
        tuple(row(group, k) for k in at for group in breakdown.groups),
        usual="observed",
    )


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


def _show(result: RankingResult, breakdown: RankingBreakdown, number: RankedNumber) -> ReportedNumber:
    """Format a number with its interval, or with the range in random orders."""
    quantity = result.quantity(breakdown, number)
    if isinstance(quantity, Unknown):
        return show_quantity(quantity, number.name)
    basis = f"on {format_count(breakdown.lists, 'list', 'lists')}"
    if isinstance(quantity, Known):
        return show_quantity(quantity, number.name, basis=basis)
    ends = ""
    if number.even_low is not None and number.even_high is not None and number.p is not None:
        low, high = (_format(end, number.name) for end in (number.even_low, number.even_high))
        ends = f"random orders {low} to {high}, p = {number.p:.{4 if number.p < 0.01 else 2}f}"
    return ReportedNumber(_format(quantity, number.name), quantity, kind="observed", ends=ends, basis=basis)


def _format(value: float, name: str) -> str:
    """Format a number without an interval."""
    return format_value(Proved(value=value, how=""), name)
