"""Report of a language-model audit: gaps, flips by cause, refusals, confirmed pairs, names and cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from textwrap import shorten

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
from evenhand.core.text import format_count, format_level, format_percent, format_significant, list_some
from evenhand.llm.budget import ServiceUsage
from evenhand.llm.result import (
    AskedSide,
    ConfirmedTemplate,
    GroupGap,
    GroupOutcome,
    LanguageModelAudit,
)
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
"""Reasons for the end of an audit."""

CAUSES = {"noise": "own noise", "names": "names", "identity": "identity"}
"""Labels of the causes of flips."""

HEADLINES = 5
"""Maximum number of sentences in the summary."""

PAIRS = 2
"""Number of confirmed pairs that are not folded."""

MAX_LENGTH = 200
"""Maximum number of characters of a value of a row. The JSON contains the full text."""

TERMS = (
    "Templates and names are samples, so the interval of a gap holds for other templates and names like these; "
    "“here” is the gap for exactly these, with the noise of the answers as its only doubt. Flips: the share of pairs, "
    "one person of each group and each asked about once, that get different answers. Own noise is the part that two "
    "identical questions have as well, names the part that two names of one group add, identity the part that the "
    "groups add."
)


def build_document(result: LanguageModelAudit) -> Document:
    """Build the report of a language-model audit."""
    blocks: list[Block] = [Text(items=tuple(_headlines(result))[:HEADLINES], role="finding")]
    blocks += [Note(text, "caution") for text in result.cautions]
    if result.names is not None:
        blocks += [Note(f"Name list: {text}", "caution") for text in result.names.warnings]
    if result.interrupted:
        blocks.append(Note("Interrupted: this was found before.", "caution"))
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
        readings=result.readings,
    )


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
    means = {group.group: group.mean for group in result.groups}
    for comparison in result.comparisons:
        yield _gap_sentence(result, comparison, means)
    for one in result.comparisons:
        if one.flips is not None and not isinstance(one.flips.identity, Unknown):
            yield _flip_sentence(one)
        if not isinstance(one.refusal_gap, Unknown) and certain(one.refusal_gap):
            more, less = one.sides(one.refusal_gap)
            shown = _drop_sign(show_points(_turn(one.refusal_gap)))
            yield (
                f"The model refuses to answer about {more} more often than about {less}, by {shown.text} "
                f"({shown.interval})."
            )
        if not isinstance(one.unreadable_gap, Unknown) and certain(one.unreadable_gap):
            more, less = one.sides(one.unreadable_gap)
            shown = _drop_sign(show_points(_turn(one.unreadable_gap)))
            yield (
                f"Answers about {more} could not be read more often than those about {less}, by {shown.text} "
                f"({shown.interval}), which may explain a part of the gap."
            )
    if result.tested:
        count = result.findings
        yield (
            f"Of {format_count(result.tested, 'template or name', 'templates and names')} that differed most and were "
            f"asked about again, {count or 'none'} {'is' if count == 1 else 'are'} confirmed by fresh questions."
        )


def _gap_sentence(result: LanguageModelAudit, one: GroupGap, means: dict[str, Quantity]) -> str:
    gap = one.gap
    if isinstance(gap, Unknown):
        return f"Whether {one.name} makes a difference is unknown: {gap.reason}."
    family = f", adjusted for {len(result.comparisons)} pairs of groups" if len(result.comparisons) > 1 else ""
    if not certain(gap):
        shown = show_gap(result, gap)
        return (
            f"No difference between {one.group_1} and {one.group_0} is certain: {shown.text}, {shown.interval}{family}."
        )
    shown = _drop_sign(show_gap(result, _turn(gap)))
    more, less = one.sides(gap)
    rates, size = [means.get(group) for group in (more, less)], shown.text
    sentence = {
        "rate": f"The group {more} gets the favourable answer more often than {less}, by {size}",
        "score": f"The group {more} gets a higher probability of the favourable answer than {less}, by {size}",
        "number": f"The group {more} gets a higher number than {less}, by {size}",
        "rank": f"The group {more} is placed higher than {less}, by {size} of the ranking",
    }[result.outcome]
    shares = [format_percent(rate.value) for rate in rates if rate is not None and not isinstance(rate, Unknown)]
    against = f"{shares[0]} against {shares[1]}; " if len(shares) == 2 and result.outcome in ("rate", "score") else ""
    return f"{sentence} ({against}{shown.interval} over other templates and names{family})."


def _flip_sentence(one: GroupGap) -> str:
    """Describe how often answers differ, and the share due to the groups."""
    flips = one.flips
    assert flips is not None
    identity = flips.identity
    assert not isinstance(identity, Unknown)
    if isinstance(flips.asked_once, Unknown):
        return f"The groups themselves make {show_share(identity).text} of pairs differ, {_interval(identity)}."
    different = (
        f"Asked once each, {one.group_1} and {one.group_0} get different answers in "
        f"{show_share(flips.asked_once).text} of pairs"
    )
    identified = f"{show_share(identity).text} identity ({_interval(identity)})"
    verdict = "so the groups play a part" if certain(identity) else "so it is not certain that the groups play a part"
    causes = [
        (name, number)
        for name, number in (("own noise", flips.noise), ("names", flips.names))
        if not isinstance(number, Unknown)
    ]
    if causes and causes[0][1].value >= flips.asked_once.value:
        noise = show_share(causes[0][1]).text
        return f"{different}, no more often than by own noise alone ({noise}); {identified}, {verdict}."
    parts = ", ".join(f"{show_share(number).text} {name}" for name, number in causes)
    return f"{different}: {parts}, and {identified}, {verdict}."


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
    text, start, end = (f"{round(100 * number, digits) + 0.0:+.{digits}f}" for number in (quantity.value, low, high))
    return ReportedNumber(
        f"{text} points",
        number.value,
        number.kind,
        number.low,
        number.high,
        f"{start} to {end} points",
        number.confidence,
        number.basis,
    )


def show_gap(result: LanguageModelAudit, quantity: Quantity, basis: str | None = None) -> ReportedNumber:
    """Format a gap in the unit of the outcome."""
    if result.outcome in ("rate", "score"):
        return show_points(quantity, basis)
    return show_quantity(quantity, "mean_difference" if result.outcome == "number" else "mean_score", basis=basis)


def show_share(quantity: Quantity, basis: str | None = None) -> ReportedNumber:
    """Format a share, rounded to a hundredth of a percent, because estimates can be meaninglessly small."""
    if not isinstance(quantity, Unknown):
        ends = {name: round(getattr(quantity, name), 4) + 0.0 for name in ("value", "low", "high")}
        quantity = quantity.model_copy(update=ends)
    return show_quantity(quantity, "rate", basis=basis)


def _drop_sign(number: ReportedNumber) -> ReportedNumber:
    return replace(number, text=number.text.lstrip("+"), ends=number.ends.replace("+", ""))


def _turn(quantity: Quantity) -> Quantity:
    """Reverse a negative difference."""
    if isinstance(quantity, Unknown) or quantity.value >= 0:
        return quantity
    ends = {name: -getattr(quantity, end) for name, end in (("low", "high"), ("high", "low")) if hasattr(quantity, end)}
    return quantity.model_copy(update={"value": -quantity.value} | ends)


def _interval(quantity: Quantity) -> str:
    return show_share(quantity).interval


def _metrics(result: LanguageModelAudit, one: GroupGap) -> Iterator[Metric]:
    """Yield the main numbers of one pair of groups."""
    basis, answered = (
        f"from {format_count(pairs, 'pair', 'pairs')} of answers, "
        f"{format_count(one.templates, 'template', 'templates')}, {one.names_1:,} and {one.names_0:,} names"
        for pairs in (one.pairs, getattr(one.refusal_gap, "n", 0))
    )
    notes = [] if isinstance(one.gap_here, Unknown) else [_here(result, one)]
    notes += [] if one.narrowing is None else [narrowing_sentence(one)]
    notes += _unread_notes(result, one)
    about = f"{one.group_1} minus {one.group_0}"
    yield Metric(f"gap of the {OUTCOMES[result.outcome]}", show_gap(result, one.gap, basis), tuple(notes), about=about)
    if one.flips is not None:
        parts = ", ".join(
            f"{show_share(number).text} {name}"
            for name, number in (
                ("in all when asked once", one.flips.asked_once),
                ("by own noise", one.flips.noise),
                ("by names", one.flips.names),
            )
            if not isinstance(number, Unknown)
        )
        number = show_share(one.flips.identity, basis)
        yield Metric("flips by identity", number, (parts,) if parts else (), about)
    yield Metric("gap in refusals", show_points(one.refusal_gap, answered), (), about)


def _unread_notes(result: LanguageModelAudit, one: GroupGap) -> list[str]:
    """Describe the shares of unread answers of two groups, and their treatment."""
    shares = {
        group.group: sum(quantity_value(number) or 0.0 for number in (group.unreadable, group.cut_off))
        for group in result.groups
        if group.group in (one.group_1, one.group_0)
    }
    if not any(shares.values()):
        return []
    counted = "counted as unfavourable" if result.refused_as == "unfavourable" else "left out"
    parts = ", ".join(f"{format_percent(share)} of {group}" for group, share in shares.items())
    return [f"answers that could not be read or were cut off, {counted}: {parts}"]


def _here(result: LanguageModelAudit, one: GroupGap) -> str:
    shown = show_gap(result, one.gap_here)
    return f"for exactly these templates and names: {shown.text}, {shown.interval}"


def narrowing_sentence(one: GroupGap) -> str:
    """Describe how to narrow the interval of a gap."""
    narrowing = one.narrowing
    assert narrowing is not None
    if narrowing.what == "nothing":
        return "the interval is as narrow as planned"
    unit = "names per group" if narrowing.what == "names" else narrowing.what
    increase = "more" if narrowing.more is None else f"about {narrowing.more:,} more"
    reason = "" if narrowing.what == "calls" else "; more calls will not help"
    return f"{increase} {unit} would narrow the interval{reason}"


def _gaps(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section of gaps by pair of groups and scenario."""
    yield Heading("Gaps", anchor="gaps")
    yield Figure(
        "language gaps",
        "Gap of each pair of groups, and of each scenario, with its interval. Right of the line the first group is "
        "better off. Hollow diamond: over other templates and names. Filled dot: these templates and names alone.",
        result,
    )
    columns = [Column("groups"), Column("templates", numeric=True), Column("gap", numeric=True)]
    columns += [Column("here", numeric=True), Column("adjusted p", numeric=True)]
    rows = []
    for one in result.comparisons:
        rows.append(
            TableRow(
                (
                    f"{one.group_1} minus {one.group_0}",
                    one.templates,
                    show_gap(result, one.gap),
                    show_gap(result, one.gap_here, f"on {one.pairs:,} pairs"),
                    _show_p(one.p),
                )
            )
        )
        rows += [
            TableRow((item.scenario, item.templates, show_gap(result, item.gap), "", _show_p(item.p)), indent=1)
            for item in one.scenarios
        ]
    yield Table(
        f"Gaps of the {OUTCOMES[result.outcome]}{_describe_adjustment(result)}",
        tuple(columns),
        tuple(rows),
        "estimated",
    )


def _describe_adjustment(result: LanguageModelAudit) -> str:
    pairs, scenarios = len(result.comparisons), sum(len(comparison.scenarios) for comparison in result.comparisons)
    adjustment = f"; adjusted for {pairs} pairs of groups" if pairs > 1 else ""
    return adjustment + (f"; scenarios adjusted for all {scenarios} of them" if scenarios > 1 else "")


def _show_p(p: float | None) -> str:
    return "-" if p is None else "below 0.001" if p < 0.001 else f"{p:.3f}"


def _flips(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section of different answers by cause."""
    split = [(comparison, comparison.flips) for comparison in result.comparisons if comparison.flips is not None]
    if not split:
        return
    yield Heading("Noise, names and identity", anchor="flips")
    yield Figure(
        "causes of flips",
        "Share of pairs with different answers when each is asked about once, by cause; the interval is that of "
        "identity.",
        result,
    )
    columns = (Column("groups"), *(Column(name, numeric=True) for name in ("asked once", *CAUSES.values())))
    rows = tuple(
        TableRow(
            (gap.name, *(show_share(number) for number in (flips.asked_once, flips.noise, flips.names, flips.identity)))
        )
        for gap, flips in split
    )
    yield Table("Flips by cause", columns, rows, "estimated")
    if not isinstance(result.noise, Unknown):
        yield Text(
            f"Asked the same question twice, the model answers differently in {show_share(result.noise).text} of "
            f"cases ({_interval(result.noise)})."
        )


def _outcomes(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section of answers, refusals and unreadable answers by group."""
    yield Heading("Answers, refusals and unreadable answers", anchor="answers")
    columns = (
        Column("group"),
        *(
            Column(name, numeric=True)
            for name in ("names", "calls", OUTCOMES[result.outcome], "refused", "unreadable", "cut off", "failed")
        ),
    )
    yield Table(
        "What was answered about each group; failed questions are in no number",
        columns,
        tuple(_outcome_row(result, group) for group in result.groups),
        "observed",
    )


def _outcome_row(result: LanguageModelAudit, group: GroupOutcome) -> TableRow:
    name = {"number": "mean", "rank": "mean_score"}.get(result.outcome, "rate")
    shares = (show_share(number) for number in (group.refused, group.unreadable, group.cut_off))
    mean = show_quantity(group.mean, name, basis="")
    return TableRow((group.group, group.names, group.calls, mean, *shares, group.failed))


def _pairs(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section of confirmed templates, by decreasing gap."""
    if not result.template_findings:
        return
    yield Heading("Confirmed pairs", anchor="pairs")
    yield Text(
        "These templates differed most and were asked about again with fresh pairs of names; the exact sign test of "
        "the fresh pairs alone is adjusted for all templates that were asked about again (Holm)."
    )
    pairs = [_pair(result, finding) for finding in result.template_findings]
    yield from pairs[:PAIRS]
    if pairs[PAIRS:]:
        yield Fold(format_count(len(pairs) - PAIRS, "more pair", "more pairs"), tuple(pairs[PAIRS:]))
    notice = "The pairs show rows of the data: handle this document as you handle the data."
    yield Note(PEOPLE_HIDDEN if result.people_left_out else notice)


def _pair(result: LanguageModelAudit, one: ConfirmedTemplate) -> Pair:
    side_1, side_0 = (_side(result, side) for side in (one.side_1, one.side_0))
    shares = f"{one.group_1} {_mean(result, one.mean_1)}, {one.group_0} {_mean(result, one.mean_0)}"
    note = (
        f"Of {one.pairs:,} fresh pairs {one.group_1} had the better answer in {one.better_1:,}, {one.group_0} in "
        f"{one.better_0:,}; {OUTCOMES[result.outcome]}: {shares}; adjusted p {_show_p(one.p)}"
    )
    title = f"Row {one.template + 1}" + f", {one.scenario}" * bool(one.scenario)
    row = {name: shorten(str(value), MAX_LENGTH, placeholder="...") for name, value in one.row.items()}
    return Pair(title, side_1, side_0, row, note)


def _mean(result: LanguageModelAudit, value: float) -> str:
    return format_percent(value) if result.outcome in ("rate", "score") else f"{value:.3g}"


def _side(result: LanguageModelAudit, side: AskedSide) -> Side:
    return Side({"group": side.group, "name": side.name}, side.label, side.label == result.favourable)


def _names(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section of the name list."""
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
    """Yield the section of calls, cost, reason for the end, and advice on narrower intervals."""
    yield Heading("Calls and cost", anchor="cost")
    yield Facts(
        (
            *describe_usage(result.usage),
            ("sweeps", f"{result.sweeps:,}; looked at {format_count(result.looks, 'time', 'times')}"),
            ("stopped because", STOPPED[result.stopped_by]),
            *((f"to narrow {gap.name}", narrowing_sentence(gap)) for gap in result.comparisons if gap.narrowing),
        )
    )


def describe_usage(usage: ServiceUsage) -> Iterator[tuple[str, str]]:
    """Yield the calls to a service and their cost, as facts."""
    again = f"; {usage.remembered:,} more answers were remembered and cost nothing" if usage.remembered else ""
    failed = f"; {usage.failed:,} failed" if usage.failed else ""
    yield "calls", f"{usage.calls:,}{again}{failed}"
    uncounted = (
        f"; the service did not count those of {format_count(usage.assumed, 'call', 'calls')}, which enter with "
    )
    tokens = f"{usage.tokens_in:,} in, {usage.tokens_out:,} out"
    yield "tokens", f"{tokens}{uncounted}their maximum" if usage.assumed else tokens
    if usage.money is None:
        yield "price", "the file gives no prices"
        return
    assumed = (
        f", of which at most {format_significant(usage.assumed_money)} for calls not counted"
        if usage.assumed_money
        else ""
    )
    earlier = f"; {format_significant(usage.remembered_money)} in earlier runs" if usage.remembered_money else ""
    yield "price", f"{format_significant(usage.money)}{assumed}{earlier}"


def _method(result: LanguageModelAudit) -> Iterator[Block]:
    """Yield the section of the method."""
    yield Heading("How it was done", anchor="method", detail=True)
    level = next(
        (format_level(item.gap.confidence) for item in result.comparisons if hasattr(item.gap, "confidence")), ""
    )
    goal = "a precision of the gaps" if result.goal == "precision" else "a decision about the gaps"
    methods = dict.fromkeys(getattr(comparison.gap, "method", "") for comparison in result.comparisons)
    settings = [f"{name} {value}" for name, value in result.settings.items()]
    entries = [
        ("model", f"{result.model} at {result.service}"),
        ("file", result.file),
        ("asked until", goal),
        ("intervals", ", ".join(filter(None, (level, *methods)))),
        ("settings", list_some(settings, 40)),
    ]
    yield Facts(tuple((term, text) for term, text in entries if text))
