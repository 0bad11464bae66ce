"""An audit of rankings in words: attention, selection and pairs by group, and how it was done."""

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
from evenhand.core.text import format_count, format_level, format_percent, join_names, list_some
from evenhand.groups.rankings.result import (
    METHOD,
    RankedGroup,
    RankedNumber,
    RankingBreakdown,
    RankingGap,
    RankingResult,
)
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Observed, Proved, Unknown, format_value, show_quantity

WEIGHTS = {
    "log": "1 / log2(1 + rank), the discount of DCG",
    "reciprocal": "1 / rank",
    "geometric": "patience to the power of rank - 1, with patience {patience:g} (rank-biased precision)",
    "top": "1 for each of the first {first} places, 0 below",
}
RELEVANCE_NAMES = ("exposure_per_relevance", "attention_minus_merit", "pairwise_accuracy", "accuracy_within")


def build_document(result: RankingResult) -> Document:
    """Return what an audit of rankings says."""
    blocks: list[Block] = [Text(items=tuple(_headlines(result)), role="finding")]
    blocks += [metric for breakdown in result.breakdowns for metric in _answers(result, breakdown)]
    blocks += _notes(result)
    blocks.append(Text(_terms(result), role="small"))
    for breakdown in result.breakdowns:
        blocks += _breakdown_blocks(result, breakdown)
    blocks += _method(result)
    order = "scores, the highest first" if result.by_score else "recorded ranks"
    per = "" if result.query is None else f", one per {result.query}"
    return Document(
        f"Audit of rankings by {result.ranked_by} in {result.data}",
        f"{format_count(result.lists, 'list', 'lists')}{per}, of "
        f"{format_count(result.candidates, 'candidate', 'candidates')}; order: {order}; "
        f"protected: {', '.join(result.breakdowns[-1].by)}",
        tuple(blocks),
        brand="Evenhand audit",
        made=f"{result.provenance} All numbers at full precision are in the JSON.",
        readings=result.readings,
    )


def _headlines(result: RankingResult) -> Iterator[str]:
    """Yield what a manager may repeat: attention, selection at the first k, and pairs, by each attribute."""
    for breakdown in result.breakdowns:
        groups = {group.label: group for group in breakdown.groups}
        exposure = breakdown.gap("exposure_ratio")
        selected = breakdown.gap("selection_ratio", 10) or breakdown.gap("selection_ratio")
        if exposure is not None and exposure.number.value is not None and exposure.worst:
            worst, best = groups[exposure.worst], groups[exposure.best]
            yield (
                f"Candidates with {_name(worst)} get {_value(exposure.number, exposure.name)} times the attention of "
                f"candidates with {_name(best)}, list by list ({_doubt(exposure.number, exposure.name, result)}"
                f"{_unclear(exposure.number, 1, result)}; {worst.size:,} and {best.size:,} candidates)."
            )
        if selected is not None and selected.at and selected.worst and selected.number.value is not None:
            worst, best = groups[selected.worst], groups[selected.best]
            rates = [next(one.rate for one in group.selection if one.at == selected.at) for group in (worst, best)]
            yield (
                f"Of candidates with {_name(worst)} {_value(rates[0], 'rate')} are within the first "
                f"{format_count(selected.at, 'place', 'places')}, of candidates with {_name(best)} "
                f"{_value(rates[1], 'rate')} (ratio {_value(selected.number, selected.name)}, "
                f"{_doubt(selected.number, selected.name, result)}{_unclear(selected.number, 1, result)})."
            )
        pairs = breakdown.gap("pairwise_parity_difference")
        if pairs is not None and pairs.worst and pairs.number.value is not None:
            often = 0.5 + pairs.number.value / 2
            yield (
                f"Of every two candidates of one list, one with {_name(groups[pairs.best])} and one with "
                f"{_name(groups[pairs.worst])}, the former stands above in {format_percent(often)} of cases; even is "
                f"50 % (difference {_value(pairs.number, pairs.name)}, {_doubt(pairs.number, pairs.name, result)}"
                f"{_unclear(pairs.number, 0, result)})."
            )


def _name(group: RankedGroup) -> str:
    return " and ".join(f"{name} {value}" for name, value in group.values.items())


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
        if gap.not_assessable:
            notes.append(_small(gap.not_assessable))
        yield Metric(name, _show(gap.number, gap.name, result, breakdown), tuple(notes), about=join_names(breakdown.by))


def _small(groups: dict[str, int]) -> str:
    return f"not assessable for: {list_some([f'{label} ({n:,})' for label, n in groups.items()])}"


def _notes(result: RankingResult) -> Iterator[Note]:
    """Yield what a reader must know of what was counted, and of what was not."""
    if any(one.inference == "even orders" for one in result.breakdowns):
        yield Note(
            f"{'This is one list' if result.lists == 1 else 'These are few lists'}, no sample of lists, so there is no "
            "interval for others like it. Numbers are compared with even orders: the groups of each list dealt out at "
            "random, which assumes that an order that ignores groups could have been any of these. A number outside "
            "their range is unlikely to be there by chance; chance is not the only reason beside unfairness.",
        )
    lists = format_count(result.lists, "list", "lists")
    if result.unranked:
        what = "score" if result.by_score else "rank"
        yield Note(f"Left out: {format_count(result.unranked, 'row', 'rows')} without a {what}.", "caution")
    if result.dropped:
        rows = format_count(result.dropped, "candidate", "candidates")
        yield Note(f"Left out: {rows} who lack a value of a protected attribute; their places stay empty.", "caution")
    for breakdown in result.breakdowns:
        by = join_names(breakdown.by)
        if breakdown.left_out:
            yield Note(
                f"By {by}, {breakdown.left_out:,} of {lists} with {breakdown.left_out_candidates:,} candidates are "
                "left out: all their candidates are of one group, so their order says nothing of groups.",
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
            yield Note(f"Not assessable by {by}: {few}: {_small(small).partition(': ')[2]}", "caution")
    if result.tied:
        what = "scores" if result.by_score else "ranks"
        yield Note(
            f"{result.tied:,} of {result.candidates:,} candidates have equal {what} in their list. They share their "
            "places: each counts with the average over all orders among them."
        )
    if result.gapped:
        yield Note(
            f"Ranks leave places out in {result.gapped:,} of {lists}. A rank counts as the place that was seen; the "
            "places between stay empty."
        )


def _terms(result: RankingResult) -> str:
    weights = _weights(result)
    text = (
        f"Attention (exposure) of a place: {weights}. Numbers compare groups list by list: with what each group would "
        "have if the order of every list ignored the groups. So it does not matter whether a group's candidates are in "
        "long or short lists. Selection at k: being within the first k places."
    )
    if result.relevance is not None:
        text += (
            f" Attention per relevance: attention divided by what it would be in proportion to {result.relevance}. "
            "Pairwise accuracy: of two candidates of different groups and unequal relevance, how often the more "
            "relevant one stands above, by its group."
        )
    return text


def _weights(result: RankingResult) -> str:
    return WEIGHTS[result.position_weights].format(patience=result.patience, first=min(result.at))


def _breakdown_blocks(result: RankingResult, breakdown: RankingBreakdown) -> Iterator[Block]:
    by, level = join_names(breakdown.by), format_level(result.confidence)
    sure = f"{level} interval" if breakdown.inference == "lists" else f"{level} range of even orders and p"
    yield Heading(f"By {by}", detail=True)
    yield Figure(
        "selection over places",
        f"Share of the first k places that each group has, divided by what even orders give, by {by}. Bands: "
        + (f"{level} intervals" if breakdown.inference == "lists" else f"{level} of even orders")
        + ", for all groups and k together. The line at 1 is an even order.",
        result,
        (result.breakdowns.index(breakdown),),
    )
    yield Table(
        f"Gaps by {by}, observed; below each its {sure}, for all pairs of groups together",
        (Column("what is compared"), Column("gap", numeric=True), Column("highest"), Column("lowest")),
        tuple(_gap_row(gap, result, breakdown) for gap in breakdown.gaps),
        usual="observed",
    )
    yield _exposure_table(result, breakdown, sure)
    yield Fold(f"Selection at k by {by}", (_selection_table(result, breakdown, sure),))
    if result.relevance is not None:
        yield _relevance_table(result, breakdown, sure)
    yield from _prefix_blocks(result, breakdown)


def _gap_row(gap: RankingGap, result: RankingResult, breakdown: RankingBreakdown) -> TableRow:
    title = METRICS[gap.name].heading
    if gap.at is not None:
        title = title.replace(":", f" at {gap.at:,}:", 1)
    detail = _small(gap.not_assessable) if gap.not_assessable else ""
    return TableRow((title, _show(gap.number, gap.name, result, breakdown), gap.best, gap.worst), detail)


def _exposure_table(result: RankingResult, breakdown: RankingBreakdown, sure: str) -> Table:
    names = ("exposure", "exposure_share", "even_exposure_share", "relative_exposure", "above_rate")
    titles = (
        "attention per candidate",
        "share of attention",
        "share in even orders",
        "one divided by the other",
        "stands above another group",
    )
    return _group_table(
        f"Attention by {join_names(breakdown.by)}, observed; below each its {sure}", names, titles, result, breakdown
    )


def _relevance_table(result: RankingResult, breakdown: RankingBreakdown, sure: str) -> Table:
    given = "" if breakdown.inference == "lists" else "; even orders deal groups out among equally relevant candidates"
    return _group_table(
        f"Attention and relevance ({result.relevance}) by {join_names(breakdown.by)}, observed; below each its {sure}"
        + given,
        RELEVANCE_NAMES,
        tuple(METRICS[name].title for name in RELEVANCE_NAMES),
        result,
        breakdown,
    )


def _group_table(
    caption: str, names: Sequence[str], titles: Sequence[str], result: RankingResult, breakdown: RankingBreakdown
) -> Table:
    return Table(
        caption,
        (Column(join_names(breakdown.by)), Column("candidates", numeric=True), *(Column(one, True) for one in titles)),
        tuple(
            TableRow(
                (group.label, group.size, *(_show(group.metrics[name], name, result, breakdown) for name in names)),
                "not assessable: in no gap" if group.small else "",
                faint=group.small,
            )
            for group in breakdown.groups
        ),
        usual="observed",
    )


def _selection_table(result: RankingResult, breakdown: RankingBreakdown, sure: str) -> Table:
    rows = [
        TableRow(
            (
                f"{k:,}",
                group.label,
                _count(one.selected),
                _show(one.rate, "selection_rate", result, breakdown),
                _show(one.representation, "representation", result, breakdown),
                format_percent(one.even_representation),
                _show(one.ratio, "representation_ratio", result, breakdown),
            ),
            faint=group.small,
        )
        for place, k in enumerate(result.at)
        for group in breakdown.groups
        for one in [group.selection[place]]
    ]
    columns = (
        Column("first places", numeric=True),
        Column(join_names(breakdown.by)),
        Column("candidates there", numeric=True),
        Column("selection rate", numeric=True),
        Column("share of places", numeric=True),
        Column("share in even orders", numeric=True),
        Column("one divided by the other", numeric=True),
    )
    together = "" if len(result.at) == 1 else ", for all k and groups together"
    return Table(f"Selection, observed; below each its {sure}{together}", columns, tuple(rows), usual="observed")


def _count(number: float) -> str:
    return f"{number:,.0f}" if abs(number - round(number)) < 1e-9 else f"{number:,.1f}"


def _prefix_blocks(result: RankingResult, breakdown: RankingBreakdown) -> Iterator[Block]:
    """Yield the ranked group fairness tests."""
    alpha = format_percent(1 - result.confidence)
    if breakdown.not_tested:
        yield Note(f"The ranked group fairness test was not made: {breakdown.not_tested}.")
    if not breakdown.prefix_tests:
        return
    items = []
    for one in breakdown.prefix_tests:
        lists = format_count(one.tested, "list", "lists")
        if one.p is None:
            rate = f" ({format_percent(one.failed / one.tested)})" if one.tested else ""
            items.append(f"{one.group}: under-represented in {one.failed:,} of {lists}{rate}.")
            continue
        verdict = f"no prefix has clearly too few of them (p = {_p_value(one.p)})"
        if one.p <= 1 - result.confidence and one.first is not None:
            verdict = (
                f"under-represented (p = {_p_value(one.p)}): {one.members} among the first {one.first:,}, where at "
                f"least {one.minimum} are needed"
            )
        items.append(f"{one.group}: {verdict}.")
    many = any(one.p is None for one in breakdown.prefix_tests)
    chance = f" By chance alone at most {alpha} of the lists fail." if many else " p is adjusted for lists and groups."
    yield Text(
        f"Ranked group fairness test (FA*IR) of all prefixes up to {breakdown.prefix_tests[0].places:,} places, exact "
        f"for all of them together at the level of {alpha}, with the group's share of each list's candidates as the "
        f"target.{chance}",
        tuple(items),
    )


def _method(result: RankingResult) -> Iterator[Block]:
    yield Heading("How it was done", detail=True)
    lists = any(one.inference == "lists" for one in result.breakdowns)
    entries = [
        ("Data", f"{result.data}; SHA-256 {result.fingerprint}"),
        ("Attention of a place", _weights(result)),
        (
            "Even orders",
            "what a group would have in a list if its order ignored the groups: its share of the list's candidates, "
            "times what there is to share. Summed over lists, it is what observed numbers are divided by",
        ),
    ]
    if lists:
        entries.append(
            (
                "Intervals",
                f"{METHOD}; the lists are taken for an independent sample, and candidates of one list may depend on "
                "each other in any way. Intervals of one kind of number hold for all groups, pairs of groups and k "
                "together",
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
    entries.append(("Seed", str(result.seed)))
    yield Facts(tuple(entries))


def _show(number: RankedNumber, name: str, result: RankingResult, breakdown: RankingBreakdown) -> ReportedNumber:
    """Return a number of a document: with its interval, or with what even orders give."""
    quantity = result.quantity(breakdown, number)
    basis = f"on {format_count(breakdown.lists, 'list', 'lists')}"
    if isinstance(quantity, Observed | Unknown):
        return show_quantity(quantity, name, basis=basis if isinstance(quantity, Observed) else None)
    return ReportedNumber(
        _value(number, name), number.value, kind="observed", ends=_even_ends(number, name), basis=basis
    )


def _value(number: RankedNumber, name: str) -> str:
    """Return the value of a number without what it rests on."""
    if number.value is None:
        return "-"
    if number.low is not None and number.high is not None:
        ends = {"low": number.low, "high": number.high}
        return format_value(Observed(value=number.value, n=1, confidence=0.95, method="", **ends), name)
    return format_value(Proved(value=number.value, how=""), name)


def _even_ends(number: RankedNumber, name: str) -> str:
    if number.even_low is None or number.even_high is None or number.p is None:
        return ""
    low, high = (format_value(Proved(value=end, how=""), name) for end in (number.even_low, number.even_high))
    return f"even {low} to {high}, p = {_p_value(number.p)}"


def _p_value(p: float) -> str:
    return f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def _unclear(number: RankedNumber, even: float, result: RankingResult) -> str:
    """Return a clause where chance alone may explain that a number is not the ``even`` one, else nothing."""
    if number.low is not None and number.high is not None:
        clear = not number.low <= even <= number.high
    else:
        clear = number.p is not None and number.p <= 1 - result.confidence
    return "" if clear else "; not distinguishable from an even order"


def _doubt(number: RankedNumber, name: str, result: RankingResult) -> str:
    """Return how sure a number is, to stand in brackets."""
    if number.low is not None and number.high is not None:
        shown = show_quantity(
            Observed(
                value=number.value or 0.0,
                n=1,
                low=number.low,
                high=number.high,
                confidence=result.confidence,
                method="",
            ),
            name,
        )
        return shown.interval
    return _even_ends(number, name) or "no even orders to compare it with"
