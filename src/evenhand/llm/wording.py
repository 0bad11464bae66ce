"""Report of a language-model audit: gaps, flips by cause, refusals, confirmed pairs, names and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from textwrap import shorten
from typing import Literal

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
    Pair,
    ReportedNumber,
    Side,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import PEOPLE_HIDDEN
from evenhand.core.text import format_count, format_level, format_percent, list_some
from evenhand.llm.result import ConfirmedTemplate, FlipShares, GroupGap, LanguageModelAudit
from evenhand.stats.quantity import Quantity, Unknown, format_value, quantity_value, show_quantity

OUTCOMES = {"rate": "favourable rate", "score": "favourable score", "number": "number", "rank": "scaled rank"}
"""Compared outcome, by kind of answer."""

STOPPED = {
    "half-width": "every interval was as narrow as planned",
    "names": "more calls would not have narrowed the intervals",
    "decided": "every gap was decided",
    "sweeps": "all planned sweeps were done",
    "calls": "the limit of calls was reached",
    "budget": "the limit of calls or money was reached",
    "time": "the time limit was reached",
    "interrupt": "interrupted",
}
"""Reasons why an audit ended."""

HEADLINES = 5
"""Maximum number of sentences in the summary."""

PAIRS = 2
"""Number of confirmed pairs that are not collapsed."""

MAX_LENGTH = 200
"""Maximum number of characters of a value of a row. The JSON contains the full text."""

TERMS = (
    "Templates and names are samples. The interval of a gap holds for other templates and names like these; “here” is "
    "the gap for exactly these, whose interval only includes the noise of the answers. Flips: the share of pairs with "
    "different answers, if one person of each group is asked about once. Own noise is the part that also occurs "
    "between two identical questions, names is the additional part between two names of one group, and identity is "
    "the additional part between the groups."
)

MORE_REFUSALS = "The model refuses to answer about {more} more often than about {less}, by {size}."

MORE_UNREADABLE = (
    "Answers about {more} are unreadable more often than answers about {less}, by {size}, which may explain a part of "
    "the gap."
)


def build_document(result: LanguageModelAudit) -> Document:
    """Build the report of a language-model audit."""
    blocks: list[Block] = [Text(items=tuple(_headlines(result))[:HEADLINES], role="finding")]
    warnings = [] if result.names is None else [f"Name list: {warning}" for warning in result.names.warnings]
    interruption = ["The audit was interrupted. The results cover the completed sweeps."] * result.interrupted
    blocks += [Note(text, "caution") for text in (*result.cautions, *warnings, *interruption)]
    blocks += [metric for comparison in result.comparisons for metric in _metrics(result, comparison)]
    blocks.append(Text(TERMS, role="small"))
    for section in (_gaps, _flips, _outcomes, _pairs, _names, _cost, _method):
        blocks += section(result)
    return Document(
        f"Audit of the language model {result.model} on {result.data}",
        f"{format_count(result.templates, 'template', 'templates')}; {_describe_outcome(result)}.",
        tuple(blocks),
        brand="Evenhand audit",
        made=f"{result.provenance} All numbers at full precision are in the JSON.",
    )


def number_table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[TableRow],
    kind: Literal["estimated", "observed"] = "estimated",
) -> Table:
    """Build a table with labels in its first column and numbers in the other columns."""
    names = (Column(columns[0]), *(Column(name, numeric=True) for name in columns[1:]))
    return Table(caption, names, tuple(rows), kind)


def _describe_outcome(result: LanguageModelAudit) -> str:
    """Describe the compared outcome."""
    if result.outcome == "rate":
        counted = "count as unfavourable" if result.refused_as == "unfavourable" else "are left out"
        return f"favourable answer: “{result.favourable}”; refused and unreadable answers {counted}"
    if result.outcome == "score":
        return f"compared: the probability that the model gives to “{result.favourable}”"
    if result.outcome == "rank":
        return "compared: the place in the ranking, scaled from 0 (last) to 1 (first)"
    return "compared: the number in the answer"


def _headlines(result: LanguageModelAudit) -> Iterator[str]:
    """Yield the main findings: gaps, then causes, refusals and confirmed pairs."""
    for comparison in result.comparisons:
        yield _gap_sentence(result, comparison)
    for comparison in result.comparisons:
        if comparison.flips is not None and not isinstance(comparison.flips.identity, Unknown):
            yield _flip_sentence(comparison, comparison.flips, comparison.flips.identity)
        for gap, sentence in (
            (comparison.refusal_gap, MORE_REFUSALS),
            (comparison.unreadable_gap, MORE_UNREADABLE),
        ):
            if certain(gap):
                more, less = comparison.sides(gap)
                size = _show_size(show_points, gap)
                yield sentence.format(more=more, less=less, size=f"{size.text} ({size.interval})")
    if result.tested:
        count = result.findings
        yield (
            f"Of {format_count(result.tested, 'template', 'templates')} that differed most, "
            f"{count or 'none'} {'is' if count == 1 else 'are'} confirmed by fresh questions."
        )


def _gap_sentence(result: LanguageModelAudit, comparison: GroupGap) -> str:
    gap = comparison.gap
    if isinstance(gap, Unknown):
        return f"The gap of {comparison.name} is unknown: {gap.reason}."
    family = f", adjusted for {len(result.comparisons)} pairs of groups" if len(result.comparisons) > 1 else ""
    if not certain(gap):
        number = show_gap(result, gap)
        groups = f"{comparison.group_1} and {comparison.group_0}"
        return f"The difference between {groups} is not significant: {number.text}, {number.interval}{family}."
    number = _show_size(partial(show_gap, result), gap)
    more, less = comparison.sides(gap)
    sentence = {
        "rate": f"The group {more} gets the favourable answer more often than {less}, by {number.text}",
        "score": f"The group {more} gets a higher probability of the favourable answer than {less}, by {number.text}",
        "number": f"The group {more} gets a higher number than {less}, by {number.text}",
        "rank": f"The group {more} is placed higher than {less}, by {number.text} of the ranking",
    }[result.outcome]
    means = {group.group: quantity_value(group.mean) for group in result.groups}
    rates = [format_percent(rate) for rate in map(means.get, (more, less)) if rate is not None]
    against = f"{rates[0]} against {rates[1]}; " if len(rates) == 2 and _in_points(result) else ""
    return f"{sentence} ({against}{number.interval} over other templates and names{family})."


def _flip_sentence(comparison: GroupGap, flips: FlipShares, identity: Quantity) -> str:
    """Describe how often answers differ, and the share due to the groups."""
    shares = {name: quantity_value(getattr(flips, name)) for name in ("asked_once", "noise", "names")}
    texts = {name: show_share(getattr(flips, name)).text for name in shares}
    interval = show_share(identity).interval
    verdict = "so the groups play a part" if certain(identity) else "so it is not certain that the groups play a part"
    identified = f"{show_share(identity).text} identity ({interval}), {verdict}."
    different = (
        f"Asked once each, {comparison.group_1} and {comparison.group_0} get different answers in "
        f"{texts['asked_once']} of pairs"
    )
    if (shares["noise"] or 0.0) >= (shares["asked_once"] or 0.0):
        return f"{different}, no more often than by own noise alone ({texts['noise']}); {identified}"
    return f"{different}: {texts['noise']} own noise, {texts['names']} names, and {identified}"


def certain(quantity: Quantity) -> bool:
    """Check whether an interval excludes 0."""
    return not isinstance(quantity, Unknown) and (getattr(quantity, "low", 0.0) > 0 or getattr(quantity, "high", 0) < 0)


def show_points(quantity: Quantity, basis: str | None = None) -> ReportedNumber:
    """Format a difference of shares in percentage points, with its sign."""
    number = show_quantity(quantity, "rate", basis=basis)
    if isinstance(quantity, Unknown):
        return number
    low, high = (getattr(quantity, end, quantity.value) for end in ("low", "high"))
    # Hundredths of a point are only meaningful if the interval is at most a fifth of a point wide.
    digits = 1 if high - low > 0.002 else max(1, len(format_value(quantity, "rate").rstrip(" %").partition(".")[2]))
    text, start, end = (f"{round(100 * share, digits) + 0.0:+.{digits}f}" for share in (quantity.value, low, high))
    return replace(number, text=f"{text} points", ends=f"{start} to {end} points")


def show_gap(result: LanguageModelAudit, quantity: Quantity, basis: str | None = None) -> ReportedNumber:
    """Format a gap in the unit of the outcome."""
    if _in_points(result):
        return show_points(quantity, basis)
    return show_quantity(quantity, "mean_difference" if result.outcome == "number" else "mean_score", basis=basis)


def show_mean(result: LanguageModelAudit, quantity: Quantity, basis: str | None = None) -> ReportedNumber:
    """Format a mean outcome."""
    return show_quantity(quantity, {"number": "mean", "rank": "mean_score"}.get(result.outcome, "rate"), basis=basis)


def _in_points(result: LanguageModelAudit) -> bool:
    """Check whether the outcome is a share, whose differences are percentage points."""
    return result.outcome in ("rate", "score")


def show_share(quantity: Quantity, basis: str | None = None) -> ReportedNumber:
    """Format a share, rounded to a hundredth of a percent, because estimates can be meaninglessly small."""
    if not isinstance(quantity, Unknown):
        ends = {name: round(getattr(quantity, name), 4) + 0.0 for name in ("value", "low", "high")}
        quantity = quantity.model_copy(update=ends)
    return show_quantity(quantity, "rate", basis=basis)


def _show_size(show: Callable[[Quantity], ReportedNumber], gap: Quantity) -> ReportedNumber:
    """Format the size of a gap, without its sign."""
    if not isinstance(gap, Unknown) and gap.value < 0:
        ends = {name: -getattr(gap, end) for name, end in (("low", "high"), ("high", "low")) if hasattr(gap, end)}
        gap = gap.model_copy(update={"value": -gap.value} | ends)
    number = show(gap)
    return replace(number, text=number.text.lstrip("+"), ends=number.ends.replace("+", ""))


def _metrics(result: LanguageModelAudit, comparison: GroupGap) -> Iterator[Metric]:
    """Yield the main numbers of one pair of groups."""
    basis, answered = (
        f"from {format_count(pairs, 'pair', 'pairs')} of answers, "
        f"{format_count(comparison.templates, 'template', 'templates')}, {comparison.names_1:,} and "
        f"{comparison.names_0:,} names"
        for pairs in (comparison.pairs, getattr(comparison.refusal_gap, "n", 0))
    )
    about = f"{comparison.group_1} minus {comparison.group_0}"
    gap, notes = show_gap(result, comparison.gap, basis), tuple(_unread_notes(result, comparison))
    yield Metric(f"gap of the {OUTCOMES[result.outcome]}", gap, notes, about=about)
    if comparison.flips is not None:
        yield Metric("flips by identity", show_share(comparison.flips.identity, basis), (), about)
    yield Metric("gap in refusals", show_points(comparison.refusal_gap, answered), (), about)


def _unread_notes(result: LanguageModelAudit, comparison: GroupGap) -> list[str]:
    """Describe the shares of unread answers of two groups, and their treatment."""
    shares = {
        group.group: sum(quantity_value(number) or 0.0 for number in (group.unreadable, group.cut_off))
        for group in result.groups
        if group.group in (comparison.group_1, comparison.group_0)
    }
    if not any(shares.values()):
        return []
    counted = "counted as unfavourable" if result.refused_as == "unfavourable" else "left out"
    parts = ", ".join(f"{format_percent(share)} of {group}" for group, share in shares.items())
    return [f"answers that could not be read or were cut off, {counted}: {parts}"]


def _gaps(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section on gaps by pair of groups and scenario."""
    yield Heading("Gaps", anchor="gaps")
    yield Figure(
        "language gaps",
        "Gap of each pair of groups, and of each scenario, with its interval. To the right of the line, the first "
        "group is better off. Hollow diamond: over other templates and names. Filled dot: these templates and "
        "names only.",
        result,
    )
    rows = []
    for comparison in result.comparisons:
        label = f"{comparison.group_1} minus {comparison.group_0}"
        gap = show_gap(result, comparison.gap)
        here = show_gap(result, comparison.gap_here, f"on {comparison.pairs:,} pairs")
        rows.append(TableRow((label, comparison.templates, gap, here, _show_p(comparison.p))))
        for scenario in comparison.scenarios:
            cells = (scenario.scenario, scenario.templates, show_gap(result, scenario.gap), "", _show_p(scenario.p))
            rows.append(TableRow(cells, indent=1))
    pairs, scenarios = len(result.comparisons), sum(len(comparison.scenarios) for comparison in result.comparisons)
    adjustment = f"; adjusted for {pairs} pairs of groups" if pairs > 1 else ""
    adjustment += f"; scenarios adjusted for all {scenarios} of them" if scenarios > 1 else ""
    caption = f"Gaps of the {OUTCOMES[result.outcome]}{adjustment}"
    yield number_table(caption, ("groups", "templates", "gap", "here", "adjusted p"), rows)


def _show_p(p: float | None) -> str:
    return "-" if p is None else "below 0.001" if p < 0.001 else f"{p:.3f}"


def _flips(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section on different answers by cause."""
    rows = []
    for comparison in result.comparisons:
        if (flips := comparison.flips) is not None:
            shares = (flips.asked_once, flips.noise, flips.names, flips.identity)
            rows.append(TableRow((comparison.name, *map(show_share, shares))))
    if not rows:
        return
    yield Heading("Noise, names and identity", anchor="flips")
    yield Figure(
        "causes of flips",
        "Share of pairs whose answers differ when each person is asked about once, by cause, with the interval of "
        "identity.",
        result,
    )
    yield number_table("Flips by cause", ("groups", "asked once", "own noise", "names", "identity"), rows)
    if not isinstance(result.noise, Unknown):
        noise = show_share(result.noise)
        yield Text(
            f"Asked the same question twice, the model answers differently in {noise.text} of cases ({noise.interval})."
        )


def _outcomes(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section on answers, refusals and unreadable answers by group."""
    yield Heading("Answers, refusals and unreadable answers", anchor="answers")
    rows = []
    for group in result.groups:
        shares = map(show_share, (group.refused, group.unreadable, group.cut_off))
        mean = show_mean(result, group.mean, basis="")
        rows.append(TableRow((group.group, group.names, group.calls, mean, *shares, group.failed)))
    kinds = ("refused", "unreadable", "cut off", "failed")
    columns = ("group", "names", "calls", OUTCOMES[result.outcome], *kinds)
    yield number_table("Answers about each group; failed questions are excluded", columns, rows, "observed")


def _pairs(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section on confirmed templates, by decreasing gap."""
    if not result.template_findings:
        return
    yield Heading("Confirmed pairs", anchor="pairs")
    yield Text(
        "The templates that differed most, with fresh pairs of names. The exact sign test uses the fresh pairs only. "
        "Its p-values are adjusted for all tested templates (Holm)."
    )
    pairs = [_pair(result, finding) for finding in result.template_findings]
    yield from pairs[:PAIRS]
    if pairs[PAIRS:]:
        yield Fold(format_count(len(pairs) - PAIRS, "more pair", "more pairs"), tuple(pairs[PAIRS:]))
    notice = "The pairs show rows of the data: handle this document as you handle the data."
    yield Note(PEOPLE_HIDDEN if result.people_left_out else notice)


def _pair(result: LanguageModelAudit, finding: ConfirmedTemplate) -> Pair:
    """Show the example of a confirmed template, with the numbers of all fresh pairs."""
    means = [format_percent(mean) if _in_points(result) else f"{mean:.3g}" for mean in (finding.mean_1, finding.mean_0)]
    sides = [
        Side({"group": side.group, "name": side.name}, side.label, side.label == result.favourable)
        for side in (finding.side_1, finding.side_0)
    ]
    note = (
        f"Of {finding.pairs:,} fresh pairs {finding.group_1} had the better answer in {finding.better_1:,}, "
        f"{finding.group_0} in {finding.better_0:,}; {OUTCOMES[result.outcome]}: {finding.group_1} {means[0]}, "
        f"{finding.group_0} {means[1]}; adjusted p {_show_p(finding.p)}"
    )
    title = f"Row {finding.template + 1}" + f", {finding.scenario}" * bool(finding.scenario)
    row = {name: shorten(str(value), MAX_LENGTH, placeholder="...") for name, value in finding.row.items()}
    return Pair(title, sides[0], sides[1], row, note)


def _names(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section on the name list."""
    card = result.names
    if card is None:
        return
    yield Heading("Names", anchor="names", detail=True)
    groups = ", ".join(f"{group} ({count:,})" for group, count in card.groups.items())
    entries = [
        ("list", card.name),
        ("language", card.language),
        ("source", card.source),
        ("licence", card.licence),
        ("groups", groups),
    ]
    yield Facts(tuple((term, text) for term, text in entries if text))


def _cost(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section on calls, cost and the reason why the audit ended."""
    usage = result.usage
    stored = f"; {usage.remembered:,} more answers were stored and cost nothing" if usage.remembered else ""
    failed = f"; {usage.failed:,} failed" if usage.failed else ""
    yield Heading("Calls and cost", anchor="cost")
    yield Facts(
        (
            ("calls", f"{usage}{stored}{failed}"),
            ("tokens", f"{usage.tokens_in:,} in, {usage.tokens_out:,} out"),
            ("sweeps", f"{result.sweeps:,}; gaps evaluated {format_count(result.looks, 'time', 'times')}"),
            ("stopped because", STOPPED[result.stopped_by]),
        )
    )


def _method(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section on the method."""
    yield Heading("Method", anchor="method", detail=True)
    level = next(
        (format_level(item.gap.confidence) for item in result.comparisons if hasattr(item.gap, "confidence")), ""
    )
    methods = dict.fromkeys(getattr(comparison.gap, "method", "") for comparison in result.comparisons)
    settings = [f"{name} {value}" for name, value in result.settings.items()]
    entries = [
        ("model", f"{result.model} at {result.service}"),
        ("file", result.file),
        ("goal", result.goal),
        ("intervals", ", ".join(filter(None, (level, *methods)))),
        ("settings", list_some(settings, 40)),
    ]
    yield Facts(tuple((term, text) for term, text in entries if text))
