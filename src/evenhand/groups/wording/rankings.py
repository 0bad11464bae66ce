"""Document of an audit of rankings: attention, selection and pairs by group, and the method."""

from __future__ import annotations

from collections.abc import Iterator

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
from evenhand.core.text import format_count, format_level, format_percent, join_names
from evenhand.groups.breakdown import list_counts
from evenhand.groups.rankings.result import METHOD, RankedNumber, RankingBreakdown, RankingGap, RankingResult
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Observed, Proved, Unknown, format_value, show_quantity

WEIGHTS = {
    "log": "1 / log2(1 + rank), the discount of DCG",
    "reciprocal": "1 / rank",
    "geometric": "patience to the power of rank - 1, with patience {patience:g} (rank-biased precision)",
    "top": "1 for each of the first {first} places, 0 below",
}
EXPOSURE = {
    "exposure": "attention per candidate",
    "exposure_share": "share of attention",
    "even_exposure_share": "share in even orders",
    "relative_exposure": "one divided by the other",
    "above_rate": "stands above another group",
}
RELEVANCE = {
    name: METRICS[name].title
    for name in ("exposure_per_relevance", "attention_minus_merit", "pairwise_accuracy", "accuracy_within")
}
"""Metrics of both tables of groups, with their titles."""


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
            *(metric for breakdown in result.breakdowns for metric in _answers(result, breakdown)),
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
    """Yield the attention, the selection at the first k, and the order of pairs, by each attribute."""
    for breakdown in result.breakdowns:
        groups = {group.label: group for group in breakdown.groups}
        exposure, pairs = breakdown.gap("exposure_ratio"), breakdown.gap("pairwise_parity_difference")
        selection = breakdown.gap("selection_ratio", 10) or breakdown.gap("selection_ratio")
        if exposure is not None and exposure.worst:
            worst, best = groups[exposure.worst], groups[exposure.best]
            yield (
                f"Candidates with {worst.description} get {_value(exposure.number, exposure.name)} times the attention "
                f"of candidates with {best.description}, list by list ({_describe_uncertainty(exposure, 1, result)}; "
                f"{worst.size:,} and {best.size:,} candidates)."
            )
        if selection is not None and selection.at and selection.worst:
            worst, best = groups[selection.worst], groups[selection.best]
            low, high = (
                next(_value(part.rate, "rate") for part in group.selection if part.at == selection.at)
                for group in (worst, best)
            )
            yield (
                f"Of candidates with {worst.description} {low} are within the first "
                f"{format_count(selection.at, 'place', 'places')}, of candidates with {best.description} {high} "
                f"(ratio {_value(selection.number, selection.name)}, {_describe_uncertainty(selection, 1, result)})."
            )
        if pairs is not None and pairs.worst and pairs.number.value is not None:
            yield (
                f"Of every two candidates of one list, one with {groups[pairs.best].description} and one with "
                f"{groups[pairs.worst].description}, the former stands above in "
                f"{format_percent(0.5 + pairs.number.value / 2)} of cases; even is 50 % "
                f"(difference {_value(pairs.number, pairs.name)}, {_describe_uncertainty(pairs, 0, result)})."
            )


def _answers(result: RankingResult, breakdown: RankingBreakdown) -> Iterator[Metric]:
    """Yield the gaps of the first screen."""
    for gap in breakdown.gaps:
        title = METRICS[gap.name].title
        if gap.name == "selection_difference":
            continue
        name = title if gap.at is None else f"{title} at {gap.at:,}"
        notes = [f"highest: {gap.best}; lowest: {gap.worst}"] if gap.best else []
        if gap.name == "pairwise_parity_difference" and gap.best:
            notes = [f"{gap.best} above {gap.worst}"]
        notes += _left_out(gap)
        yield Metric(name, _show(gap.number, gap.name, result, breakdown), tuple(notes), about=join_names(breakdown.by))


def _left_out(gap: RankingGap) -> list[str]:
    return [f"not assessable for: {list_counts(gap.not_assessable)}"] if gap.not_assessable else []


def _notes(result: RankingResult) -> Iterator[Note]:
    """Yield the limits of the result: few lists, and rows, lists and groups that are left out."""
    if any(breakdown.inference == "even orders" for breakdown in result.breakdowns):
        yield Note(
            f"{'This is one list' if result.lists == 1 else 'These are few lists'} and no sample of lists, so there "
            "are no intervals for similar lists. Numbers are compared with even orders: random permutations of the "
            "groups within each list, which assume that an order that ignores groups could have been any of these. A "
            "number outside their range is unlikely by chance; unfairness is not the only other explanation.",
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
                "take places and are in no group's numbers.",
                "caution",
            )
        small = {group.label: group.size for group in breakdown.groups if group.small}
        if small:
            few = f"fewer than {result.min_group_size} candidates, or too few lists"
            yield Note(f"Not assessable by {by}: {few}: {list_counts(small)}", "caution")
    if result.tied:
        yield Note(
            f"{result.tied:,} of {result.candidates:,} candidates have equal {column}s in their list. They share their "
            "places: each counts with the average over all orders among them."
        )
    if result.gapped:
        yield Note(
            f"Ranks leave places out in {result.gapped:,} of {lists}. A rank counts as the place that was seen; the "
            "places between stay empty."
        )


def _terms(result: RankingResult) -> str:
    text = (
        f"Attention (exposure) of a place: {_weights(result)}. Numbers compare groups list by list, with those of "
        "orders that ignore the groups, so the lengths of the lists of a group do not matter. Selection at k: being "
        "within the first k places."
    )
    if result.relevance is not None:
        text += (
            f" Attention per relevance: attention divided by attention in proportion to {result.relevance}. Pairwise "
            "accuracy: of two candidates of different groups and unequal relevance, how often the more relevant one "
            "stands above, by its group."
        )
    return text


def _weights(result: RankingResult) -> str:
    return WEIGHTS[result.position_weights].format(patience=result.patience, first=min(result.at))


def _breakdown_blocks(result: RankingResult, breakdown: RankingBreakdown) -> Iterator[Block]:
    by, level, sample = join_names(breakdown.by), format_level(result.confidence), breakdown.inference == "lists"
    interval = f"{level} interval" if sample else f"{level} range of even orders and p"
    yield Heading(f"By {by}", detail=True)
    yield Figure(
        "selection over places",
        f"Share of the first k places that each group has, divided by its share in even orders, by {by}. Bands: "
        f"{level} {'intervals' if sample else 'of even orders'}, simultaneous over all groups and k. The line at 1 is "
        "an even order.",
        result,
        (result.breakdowns.index(breakdown),),
    )
    yield Table(
        f"Gaps by {by}, observed; below each its {interval}, simultaneous over all pairs of groups",
        (Column("what is compared"), Column("gap", numeric=True), Column("highest"), Column("lowest")),
        tuple(
            TableRow(
                (_title(gap), _show(gap.number, gap.name, result, breakdown), gap.best, gap.worst),
                "".join(_left_out(gap)),
            )
            for gap in breakdown.gaps
        ),
        usual="observed",
    )
    yield _group_table(f"Attention by {by}, observed; below each its {interval}", EXPOSURE, result, breakdown)
    yield Fold(f"Selection at k by {by}", (_selection_table(result, breakdown, interval),))
    if result.relevance is not None:
        even = "" if sample else "; even orders permute groups among equally relevant candidates"
        caption = f"Attention and relevance ({result.relevance}) by {by}, observed; below each its {interval}{even}"
        yield _group_table(caption, RELEVANCE, result, breakdown)
    yield from _prefix_blocks(result, breakdown)


def _title(gap: RankingGap) -> str:
    title = METRICS[gap.name].heading
    return title if gap.at is None else title.replace(":", f" at {gap.at:,}:", 1)


def _group_table(caption: str, metrics: dict[str, str], result: RankingResult, breakdown: RankingBreakdown) -> Table:
    titles = (Column(title, numeric=True) for title in metrics.values())
    return Table(
        caption,
        (Column(join_names(breakdown.by)), Column("candidates", numeric=True), *titles),
        tuple(
            TableRow(
                (group.label, group.size, *(_show(group.metrics[name], name, result, breakdown) for name in metrics)),
                "not assessable: in no gap" if group.small else "",
                faint=group.small,
            )
            for group in breakdown.groups
        ),
        usual="observed",
    )


def _selection_table(result: RankingResult, breakdown: RankingBreakdown, interval: str) -> Table:
    def show(number: RankedNumber, name: str) -> ReportedNumber:
        return _show(number, name, result, breakdown)

    rows = [
        TableRow(
            (
                f"{k:,}",
                group.label,
                f"{part.selected:,.{0 if abs(part.selected - round(part.selected)) < 1e-9 else 1}f}",
                show(part.rate, "selection_rate"),
                show(part.representation, "representation"),
                format_percent(part.even_representation),
                show(part.ratio, "representation_ratio"),
            ),
            faint=group.small,
        )
        for place, k in enumerate(result.at)
        for group in breakdown.groups
        for part in group.selection[place : place + 1]
    ]
    numbers = (
        "candidates there",
        "selection rate",
        "share of places",
        "share in even orders",
        "one divided by the other",
    )
    columns = (Column("first places", numeric=True), Column(join_names(breakdown.by)))
    simultaneous = "" if len(result.at) == 1 else ", simultaneous over all k and groups"
    return Table(
        f"Selection, observed; below each its {interval}{simultaneous}",
        (*columns, *(Column(title, numeric=True) for title in numbers)),
        tuple(rows),
        usual="observed",
    )


def _prefix_blocks(result: RankingResult, breakdown: RankingBreakdown) -> Iterator[Block]:
    """Yield the ranked group fairness tests."""
    alpha = format_percent(1 - result.confidence)
    if breakdown.not_tested:
        yield Note(f"The ranked group fairness test was not made: {breakdown.not_tested}.")
    if not breakdown.prefix_tests:
        return
    items = []
    for test in breakdown.prefix_tests:
        if test.p is None:
            rate = f" ({format_percent(test.failed / test.tested)})" if test.tested else ""
            lists = format_count(test.tested, "list", "lists")
            verdict = f"under-represented in {test.failed:,} of {lists}{rate}"
        elif test.p <= 1 - result.confidence and test.first is not None:
            verdict = (
                f"under-represented (p = {_p_value(test.p)}): {test.members} among the first {test.first:,}, where at "
                f"least {test.minimum} are needed"
            )
        else:
            verdict = f"no prefix has significantly too few of them (p = {_p_value(test.p)})"
        items.append(f"{test.group}: {verdict}.")
    many = any(test.p is None for test in breakdown.prefix_tests)
    chance = f" By chance, up to {alpha} of the lists fail." if many else " p is adjusted for lists and groups."
    yield Text(
        f"Ranked group fairness test (FA*IR) of all prefixes up to {breakdown.prefix_tests[0].places:,} places, exact "
        f"for all of them together at the level of {alpha}, with the group's share of each list's candidates as the "
        f"target.{chance}",
        tuple(items),
    )


def _method(result: RankingResult) -> Iterator[Block]:
    yield Heading("How it was done", detail=True)
    entries = [
        ("Data", f"{result.data}; SHA-256 {result.fingerprint}"),
        ("Attention of a place", _weights(result)),
        (
            "Even orders",
            "the numbers of a group in a list if its order ignored the groups: its share of the list's candidates, "
            "times the total. Observed sums over lists are divided by these",
        ),
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


def _show(number: RankedNumber, name: str, result: RankingResult, breakdown: RankingBreakdown) -> ReportedNumber:
    """Format a number with its interval, or with the range of even orders."""
    quantity = result.quantity(breakdown, number)
    basis = f"on {format_count(breakdown.lists, 'list', 'lists')}"
    if isinstance(quantity, Observed | Unknown):
        return show_quantity(quantity, name, basis=basis if isinstance(quantity, Observed) else None)
    return ReportedNumber(
        _value(number, name), number.value, kind="observed", ends=_even_ends(number, name), basis=basis
    )


def _observed(number: RankedNumber, confidence: float) -> Observed | None:
    if number.value is None or number.low is None or number.high is None:
        return None
    ends = {"low": number.low, "high": number.high}
    return Observed(value=number.value, n=1, confidence=confidence, method="", **ends)


def _value(number: RankedNumber, name: str) -> str:
    """Format the value of a number."""
    if number.value is None:
        return "-"
    return format_value(_observed(number, 0.95) or Proved(value=number.value, how=""), name)


def _even_ends(number: RankedNumber, name: str) -> str:
    if number.even_low is None or number.even_high is None or number.p is None:
        return ""
    low, high = (format_value(Proved(value=end, how=""), name) for end in (number.even_low, number.even_high))
    return f"even {low} to {high}, p = {_p_value(number.p)}"


def _p_value(p: float) -> str:
    return f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def _describe_uncertainty(gap: RankingGap, even: float, result: RankingResult) -> str:
    """Describe the interval or range of a gap, and whether it is distinguishable from an ``even`` order."""
    number, quantity = gap.number, _observed(gap.number, result.confidence)
    if quantity is not None:
        significant = not quantity.low <= even <= quantity.high
        text = show_quantity(quantity, gap.name).interval
    else:
        significant = number.p is not None and number.p <= 1 - result.confidence
        text = _even_ends(number, gap.name) or "no even orders to compare it with"
    return text if significant else f"{text}; not distinguishable from an even order"
