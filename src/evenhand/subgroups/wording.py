"""Wording of searches for subgroups: sentences, tables and documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Kind,
    Metric,
    NextStep,
    Note,
    ReportedNumber,
    SubjectCard,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_decimal, format_level, format_percent, join_names, list_some
from evenhand.stats.quantity import Observed, show_quantity
from evenhand.subgroups.result import Finding, RefusedRuleSet, SubgroupResult, SwapEffect, TextSubgroupResult

MEASURES: dict[str, tuple[str, str, str]] = {
    "favourable": ("rate of the favourable decision", "", "get {label}"),
    "false-negative": ("rate of wrong refusals", " whose true label is {label}", "do not get it"),
    "false-positive": ("rate of wrong favourable decisions", " whose true label is not {label}", "get it anyway"),
    "above": ("share with {level}", "", "have {level}"),
    "score": ("mean score", "", ""),
    "mean": ("mean {number}", "", ""),
    "residual": ("mean residual of {number} (decided minus true)", "", ""),
    "absolute-error": ("mean absolute error of {number}", "", ""),
}
"""Name of each compared quantity, members that it covers, and counted outcome (empty for means)."""

NOISY = (
    "Rates are of {answers} for each {noun}. Tests and intervals below account for this noise: it is independent "
    "between {nouns}, so a significant subgroup is decided differently on average."
)
EXPLAINED = (
    "the subgroup with the largest {score} is listed first; it explains every other subgroup whose gap is not "
    "significant, or within the margin, among the people inside it and among those outside it; the clearest of the "
    "remaining subgroups is listed next, and so on"
)
WEIGHTED = (
    "rates, gaps and intervals are weighted, with effective sizes on both sides, and the null distribution is "
    "simulated with these weights; minimum sizes apply to effective sizes; numbers of people are unweighted"
)
PUBLISHED = "by the rule of the published method; the notes say what it does not account for"

DRAWN = 12
"""Maximum number of subgroups in a figure."""

LISTED = 15
"""Maximum number of subgroups on a screen."""


# Terms and numbers.


def member_noun(result: SubgroupResult) -> str:
    """Return the noun for members of subgroups."""
    return "texts" if isinstance(result, TextSubgroupResult) else "people"


def is_counted(result: SubgroupResult) -> bool:
    """Check whether rates are shares, so that gaps are in percentage points. Otherwise, they are means."""
    return bool(MEASURES[result.measure][2])


def estimate_kind(result: SubgroupResult) -> Kind:
    """Return the kind of the rates: observed on the people in the data, or estimated on samples."""
    return "observed" if all(finding.samples is None for finding in result.findings) else "estimated"


def comparison_group(result: SubgroupResult) -> str:
    """Describe the group that subgroups are compared with."""
    comparison = "the texts it is compared with" if isinstance(result, TextSubgroupResult) else "everyone else"
    return f"{comparison} with the same {result.per}" if result.per else comparison


def describe_rate(result: SubgroupResult) -> str:
    """Describe the compared quantity, such as ``mean premium, weighted by wt``."""
    name = _measure_words(result)[0]
    return name if result.weights is None else f"{name}, weighted by {result.weights}"


def _measure_words(result: SubgroupResult, label: str | None = None) -> list[str]:
    number, level = result.number, ""
    if number is not None and number.above is not None:
        level = f"{number.name} above {number.above:,.10g}{f' {number.unit}' if number.unit else ''}"
    values = {"label": label or "the favourable label", "number": number and number.name, "level": level}
    return [template.format(**values) for template in MEASURES[result.measure]]


def _scale(result: SubgroupResult) -> tuple[str, float, int]:
    """Return the unit of gaps, the factor that converts them to it, and the number of decimals."""
    if is_counted(result):
        return "points", 100.0, 1
    if result.number is None:
        return "units of the score", 1.0, 3
    return result.number.unit or f"units of {result.number.name}", 1.0, result.number.digits


def gap_unit(result: SubgroupResult) -> str:
    """Return the unit of gaps."""
    return _scale(result)[0]


def format_gap(result: SubgroupResult, gap: float) -> str:
    """Format a gap with its sign, in its unit."""
    _, factor, digits = _scale(result)
    # Interval ends near 0 get more digits, so that they are not shown as 0.
    for places in (digits, digits + 2):
        text = f"{factor * gap:+,.{places}f}"
        if float(text.replace(",", "")):
            return text
    return f"{0:.{digits}f}"


def format_rate(result: SubgroupResult, value: float, *, unit: bool = False) -> str:
    """Format a rate in percent, or a mean in decimals, optionally with its unit."""
    if is_counted(result):
        return format_percent(value)
    suffix = f" {result.number.unit}" if unit and result.number is not None and result.number.unit else ""
    return f"{value:z,.{_scale(result)[2]}f}{suffix}"


def _report_gap(result: SubgroupResult, finding: Finding) -> ReportedNumber:
    gap, low, high = (
        format_gap(result, value).replace("-", "\N{MINUS SIGN}") for value in (finding.gap, finding.low, finding.high)
    )
    return ReportedNumber(
        gap, finding.gap, estimate_kind(result), finding.low, finding.high, f"{low} to {high}", result.confidence
    )


# Sentences.


def finding_sentence(result: SubgroupResult, finding: Finding, label: str | None = None) -> str:
    """Describe a finding: ``Of 1,203 people with sex Female, 20.7 % get >50K; of everyone else 83.1 %.``

    Args:
        result: The search.
        finding: The finding.
        label: The favourable label.
    """
    label = result.favourable if isinstance(result, TextSubgroupResult) else label
    name, condition, event = _measure_words(result, label)
    members, comparison = _describe_sides(result, finding)
    rate, rest_rate = (format_rate(result, value, unit=True) for value in (finding.rate, finding.rest_rate))
    sentence = f"weighted by {result.weights}, " if result.weights else ""
    sentence += f"within the same {result.per}, " if result.per else ""
    if event:
        sentence += f"of {members}{condition}, {rate} {event}; of {comparison} {rest_rate}."
    else:
        sentence += f"the {name} of {members} is {rate}; of {comparison} {rest_rate}."
    return sentence[0].upper() + sentence[1:]


def _describe_sides(result: SubgroupResult, finding: Finding) -> tuple[str, str]:
    number = f"{finding.size:,}" if finding.samples is None else f"{finding.samples:,} samples of"
    if not isinstance(result, TextSubgroupResult):
        return f"{number} people with {finding.words}", "everyone else"
    if isinstance(finding, SwapEffect):
        return f"{number} texts rewritten to mention {finding.words}", "texts rewritten to mention others"
    rest = f"{finding.rest:,} that mention others" if result.compared == "others" else f"{finding.rest:,} other texts"
    return f"{number} texts that mention {finding.words}", rest


def reason_unclear(result: SubgroupResult, finding: Finding) -> str:
    """Describe why a finding is not significant. Empty for significant findings."""
    if finding.found:
        return ""
    within = max(abs(finding.low), abs(finding.high)) < result.margin and (finding.low > 0 or finding.high < 0)
    return "certainly within the margin" if within else "not significant"


def describe_tested(result: SubgroupResult) -> str:
    """Describe the tested subgroups and the guarantee of the correction. The text follows the number of subgroups."""
    if result.method != "exact":
        return f"of {result.rule_sets:,} rule sets, by the published method {result.method}"
    if result.starts is not None:
        return (
            f"subgroups that climbs from {result.starts} starts end at, out of more than {result.rule_sets:,} rule "
            f"sets; at most {100 * (1 - result.confidence):.6g} % chance of a finding if outcomes do not depend on the "
            "attributes (the same climbs on permuted outcomes)"
        )
    draws = "permutations" if result.weights is None else "multipliers of the weights"
    floor = f"{100 * result.support:.6g} % of them or " if result.support else ""
    return (
        f"different subgroups, out of {result.rule_sets:,} rule sets (the others describe the same "
        f"{member_noun(result)} again, or have fewer than {floor}{result.min_size:,} inside or outside); at most "
        f"{100 * (1 - result.confidence):.6g} % chance of even one false finding ({draws}, max-t)"
    )


def describe_significant(result: SubgroupResult) -> str:
    """Describe the significant subgroups, as a text to append to their number."""
    if result.method != "exact":
        return PUBLISHED
    unexplained = sum(finding.found for finding in result.unexplained)
    text = f"of the {result.tested:,} subgroups tested"
    listed = f"of those listed, {format_count(unexplained, 'is', 'are')} not explained by another"
    return f"{text}; {listed}" if result.found else text


def describe_unknown(result: SubgroupResult) -> str:
    """Describe the people left out because the value of an attribute is unknown."""
    names = " or ".join(cells.name for cells in result.attributes)
    return f"left out: {format_count(result.unknown, 'person', 'people')} of unknown {names}"


# Blocks.


def subgroup_blocks(result: SubgroupResult, label: str | None = None, *, level: int = 2) -> Iterator[Block]:
    """Yield the figures and tables of a search: gaps, and requested subgroups.

    Args:
        result: The search.
        label: The favourable label.
        level: Level of the headings.
    """
    rate, kind, members, unit = describe_rate(result), estimate_kind(result), member_noun(result), gap_unit(result)
    interval = f"{'adjusted' if result.control != 'none' else 'unadjusted'} {format_level(result.confidence)} interval"
    comparison = comparison_group(result)
    if result.findings:
        yield Heading("Subgroups" if level == 2 else "Gaps", level, "findings")
        undirected = isinstance(result, TextSubgroupResult) or result.is_undirected
        worse, better = ("lower", "higher") if undirected else ("worse off", "better off")
        caption = (
            f"Gap to {comparison} in the {rate}, in {unit}, with its {interval}. Orange circles: {worse}. Blue "
            f"diamonds: {better}. Hollow and grey: not significant, or within the margin. Dashed lines: the margin. "
            f"Numbers beside the name: number of {members}, and both {'rates' if is_counted(result) else 'means'}."
        )
        if len(result.shown) > DRAWN:
            caption += f" Only the first {DRAWN} of {len(result.shown)} subgroups are drawn."
        yield Figure("subgroup gaps", caption, result)
        after = "" if result.shown == result.unexplained else ", after the one that is most clearly worse off"
        caption = f"Subgroups that no other one explains{after}: {rate}, {kind}; with each gap its {interval}"
        yield _finding_table(result, result.shown, label, caption)
    if result.judged:
        yield Heading("Requested subgroups", level, "judged")
        caption = f"Requested subgroups: {rate}, {kind}; with each gap its {interval}"
        yield _finding_table(result, result.judged, label, caption)


def _finding_table(
    result: SubgroupResult, findings: Sequence[Finding | RefusedRuleSet], label: str | None, caption: str
) -> Table:
    kind, members, ranks = estimate_kind(result), member_noun(result), count(1)
    columns = (
        Column("rank", numeric=True),
        Column(f"gap, {gap_unit(result)}", numeric=True),
        Column(members, numeric=True),
        Column("its rate" if is_counted(result) else "its mean", numeric=True),
        Column(comparison_group(result), numeric=True),
        Column("adjusted p", numeric=True),
        Column("subgroup"),
    )
    rows = []
    for finding in findings:
        if isinstance(finding, RefusedRuleSet):
            refusal = f"{finding.words} (refused: {finding.reason})"
            rows.append(TableRow(("", "", finding.size, "", "", "", refusal), faint=True))
            continue
        remarks = [] if finding.found else [reason_unclear(result, finding)]
        if finding.under is not None:
            remarks.append(f"explained by {result.findings[finding.under].words}")
        if finding.explains:
            remarks.append(f"explains {format_count(finding.explains, 'other finding', 'other findings')}")
        if finding.others:
            remarks.append(
                f"{format_count(finding.others, 'other description', 'other descriptions')} of the same {members}"
            )
        cells = (
            str(next(ranks)),
            _report_gap(result, finding),
            finding.size,
            ReportedNumber(format_rate(result, finding.rate), finding.rate, kind),
            ReportedNumber(format_rate(result, finding.rest_rate), finding.rest_rate, kind),
            "" if finding.adjusted_p is None else f"{finding.adjusted_p:.2g}",
            f"{finding.words} ({'; '.join(remarks)})" if remarks else finding.words,
        )
        rows.append(TableRow(cells, finding_sentence(result, finding, label), faint=not finding.found))
    return Table(caption, columns, tuple(rows), usual=kind, listed=LISTED)


def method_facts(result: SubgroupResult) -> Facts:
    """Build the facts about the search method."""
    facts = [("method", result.method), ("subgroups tested", f"{result.tested:,} {describe_tested(result)}")]
    for cells in result.attributes:
        adjacent = " (neighbouring ones together)" if cells.ordered else ""
        facts.append((f"rules over {cells.name}", f"{list_some(cells.cells)}{adjacent}"))
    if result.critical is None:
        facts.append(("significant after adjustment", PUBLISHED))
    else:
        width = format_decimal(result.critical)
        scope, score = "all subgroups", "standardised gap"
        if result.starts is not None:
            scope = "the subgroups that climbs end at (requested ones have their own)"
            score = "z² / 2 minus the description length in nats"
        facts.append(("intervals", f"{width} standard errors to each side, simultaneous over {scope}"))
        criterion = "a gap whose adjusted interval excludes 0"
        if result.margin:
            unit, factor, _ = _scale(result)
            criterion += f", and does not rule out a gap of {factor * result.margin:.3g} {unit}"
        facts += [("significant after adjustment", criterion), ("explained", EXPLAINED.format(score=score))]
    if result.weights is not None:
        facts.append(("weights", f"{result.weights}: {WEIGHTED}"))
    if result.unknown:
        facts.append(("unknown", describe_unknown(result)))
    return Facts((*facts, *(("note", note) for note in result.notes)))


def build_document(result: SubgroupResult, subject: SubjectCard | None = None) -> Document:
    """Build the document of a search."""
    names, members = join_names(cells.name for cells in result.attributes), member_noun(result)
    title = f"Subgroups by {names}"
    lead = f"Which {members}, described by {names}, fare differently from {comparison_group(result)}?"
    label = None
    if subject is not None:
        label = subject.favourable
        title = f"Subgroups of {subject.name} on {subject.data}"
        if result.number is not None:
            lead += f" {result.number.describe()}."
        elif result.table_reading is None or result.table_reading.true_label is None:
            lead += f" Favourable decision: {subject.target} = {subject.favourable}."
    blocks: list[Block] = []
    if result.noise is not None and result.noise.noisy:
        nouns = ("text", "texts") if isinstance(result, TextSubgroupResult) else ("person", "people")
        answers = "one answer" if result.repeats == 1 else f"the majority of {result.repeats:,} answers"
        blocks.append(result.noise.caution(NOISY.format(answers=answers, noun=nouns[0], nouns=nouns[1]), nouns))
    if result.interrupted:
        blocks.append(Note("This search was stopped early. The results cover only the completed part.", "caution"))
    blocks += [Text(finding_sentence(result, finding, label), role="finding") for finding in result.shown[:1]]
    metrics = (
        (describe_rate(result), format_rate(result, result.rate), result.rate, f"of all {result.people:,} {members}"),
        ("subgroups tested", f"{result.tested:,}", result.tested, describe_tested(result)),
        ("significant after adjustment", f"{result.found:,}", result.found, describe_significant(result)),
    )
    blocks += [
        *(Metric(name, ReportedNumber(text, value, "observed", basis=basis)) for name, text, value, basis in metrics),
        NextStep(_describe_next_step(result)),
        *(Note(note) for note in result.notes),
        *subgroup_blocks(result, label),
    ]
    if isinstance(result, TextSubgroupResult) and result.effects:
        blocks += _swap_blocks(result)
    blocks += [Heading("How it was done", anchor="method", detail=True), method_facts(result)]
    return Document(title, lead, tuple(blocks), brand="Evenhand subgroups")


def _describe_next_step(result: SubgroupResult) -> str:
    if result.method != "exact":
        return "compare with --method exact, whose intervals are about the people and hold for all subgroups together"
    if not result.found:
        return "none is significant; more data or a lower minimum share (`support`) would show smaller subgroups"
    if isinstance(result, TextSubgroupResult):
        return "check whether labels change if identity terms are swapped, which only the model can cause"
    measure = "false-negative" if result.number is None else "residual"
    return f"see what explains the gap: the errors (--measure {measure}), or another attribute (--per NAME)"


def _swap_blocks(result: TextSubgroupResult) -> Iterator[Block]:
    yield Heading("The same texts with swapped words", anchor="swapped")
    sentences = []
    for effect in result.effects:
        if effect.found and effect.under is None:
            gap, low, high = (format_gap(result, value) for value in (effect.gap, effect.low, effect.high))
            difference = f"Difference {gap} {gap_unit(result)}, interval {low} to {high}."
            sentences.append(f"{finding_sentence(result, effect)} {difference}")
    yield Text(
        "Only the words that name a group were changed, so the model alone causes these differences. All numbers are "
        "observed on the texts sent to the model.",
        tuple(sentences[:LISTED]) or (f"None of {len(result.effects):,} groups makes a significant difference.",),
    )


# The worst subgroup, as a metric of an audit.


def worst_answer(result: SubgroupResult) -> Metric:
    """Build the metric of the subgroup that is most clearly worse off, for the summary of an audit."""
    worst = result.widest
    name = "worst subgroup"
    if result.number is not None:
        name = f"subgroup that differs most: {describe_rate(result)}"
    about = f"subgroups by {join_names(cells.name for cells in result.attributes)}"
    tested = f"{format_count(result.tested, 'subgroup', 'subgroups')} tested"
    scope = tested if result.starts is None else f"the search among {result.rule_sets:,} rule sets"
    if worst is None:
        reason = f"none is worse off among {tested}" if result.tested else "no subgroup is large enough"
        return Metric(name, ReportedNumber("-", kind="unknown", basis=reason), about=about)
    numbers = (worst.gap, worst.low, worst.high)
    if result.number is None:
        # As elsewhere in an audit, the gap of labels is a positive difference of rates.
        numbers = (-worst.gap, -worst.high, -worst.low)
        value, low, high = numbers
        answer = show_quantity(
            Observed(value=value, n=result.people, low=low, high=high, confidence=result.confidence, method=""),
            "demographic_parity_difference",
        )
    else:
        gap, *ends = (format_gap(result, number) for number in numbers)
        answer = ReportedNumber(
            f"{gap} {gap_unit(result)}",
            numbers[0],
            "observed",
            *numbers[1:],
            " to ".join(ends),
            result.confidence,
            f"gap of {worst.words}, on {result.people:,} people",
        )
    notes = [finding_sentence(result, worst).rstrip("."), f"adjusted interval, simultaneous over {scope}"]
    step = "the Subgroups section lists the other affected groups; look closer with evenhand subgroups"
    if not worst.found:
        step = f"{reason_unclear(result, worst)}; see the Subgroups section"
    return Metric(name, answer, tuple(notes), about, step, describe_unknown(result) if result.unknown else "")
