"""Wording of searches for subgroups: sentences, tables and documents."""

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
from evenhand.subgroups.result import Finding, RefusedRuleSet, SubgroupResult, SwapEffect, TextSubgroupResult

RATES: dict[str, str] = {
    "favourable": "rate of the favourable decision",
    "false-negative": "rate of wrong refusals",
    "false-positive": "rate of wrong favourable decisions",
    "score": "mean score",
}
"""Names of the compared quantities."""

EVENTS: dict[str, tuple[str, str]] = {
    "favourable": ("get {label}", "get {label}"),
    "false-negative": ("are refused it", "are wrongly refused {label}"),
    "false-positive": ("get it all the same", "wrongly get {label}"),
}
"""Outcome that a rate counts, of people and of texts."""

NOISY = (
    "Rates are of {answers} for each person. Tests and intervals below account for this noise: it is independent "
    "between people, so a significant subgroup is decided differently on average."
)
NOISY_TEXTS = (
    "Rates are of one answer for each text. Tests and intervals below account for this noise: it is independent "
    "between texts. Labels that change with the words only count if both texts get the same labels again."
)

EXPLAINED = (
    "the clearest subgroup, with the largest standardised gap, is listed first; it explains every other subgroup whose "
    "gap is not significant, or within the margin, among the people inside it and among the people outside it; the "
    "clearest of the remaining subgroups is listed next, and so on"
)
WEIGHTED = (
    "rates, gaps and intervals are weighted, with effective sizes on both sides, and the null distribution is "
    "simulated with these weights; minimum sizes apply to effective sizes; numbers of people are unweighted"
)

LISTED = 15
"""Maximum number of subgroups on a screen."""

OPEN = 12
"""Maximum number of subgroups in a page's table before it is unfolded."""

MOST = 100
"""Maximum number of subgroups in a page's table. The JSON contains all."""

# Terms.


def is_about_texts(result: SubgroupResult) -> bool:
    """Check whether subgroups consist of texts, not of people."""
    return isinstance(result, TextSubgroupResult)


def member_noun(result: SubgroupResult) -> str:
    """Return the noun for members of subgroups."""
    return "texts" if is_about_texts(result) else "people"


def is_counted(result: SubgroupResult) -> bool:
    """Check whether rates are shares, so that gaps are in percentage points. Otherwise, they are means."""
    return result.measure not in ("score", "mean", "residual", "absolute-error")


def estimate_kind(result: SubgroupResult) -> Kind:
    """Return the kind of the rates: observed on the people in the data, or estimated on samples."""
    return "observed" if all(finding.samples is None for finding in result.findings) else "estimated"


def comparison_group(result: SubgroupResult) -> str:
    """Describe the group that subgroups are compared with."""
    comparison = "everyone else" if result.against == "rest" else "the best treated other group"
    comparison = "the texts it is compared with" if is_about_texts(result) else comparison
    return f"{comparison} with {result.per} alike" if result.per else comparison


def direction_words(result: SubgroupResult) -> tuple[str, str]:
    """Return the words for worse and better. It is unknown which label of texts is better."""
    if not is_about_texts(result) and not result.is_undirected:
        return "worse off", "better off"
    return ("above", "below") if result.measure == "false-negative" else ("below", "above")


def _rate_name(result: SubgroupResult) -> str:
    return RATES[result.measure] if result.number is None else result.number.describe_rate(result.measure)


def describe_rate(result: SubgroupResult) -> str:
    """Describe the compared quantity, such as ``mean premium, weighted by wt``."""
    return _rate_name(result) if result.weights is None else f"{_rate_name(result)}, weighted by {result.weights}"


# Numbers.


def format_gap(result: SubgroupResult, gap: float) -> str:
    """Format a gap with its sign, in percentage points, or in decimals for means."""
    if result.number is not None and not is_counted(result):
        return result.number.format(gap, sign=True, unit=False)
    value, digits = (100 * gap, 1) if is_counted(result) else (gap, 3)
    text = f"{value:+.{digits}f}"
    if float(text):
        return text
    # Interval ends near 0 get more digits, so that they are not shown as 0.
    return f"{value:+.{digits + 2}f}" if round(value, digits + 2) else text[1:]


def gap_unit(result: SubgroupResult) -> str:
    """Return the unit of gaps."""
    if result.number is not None and not is_counted(result):
        return result.number.unit or f"units of {result.number.name}"
    return "points" if is_counted(result) else "units of the score"


def format_rate(result: SubgroupResult, value: float, *, unit: bool = False) -> str:
    """Format a rate in percent, or a mean in decimals."""
    if result.number is not None and not is_counted(result):
        return result.number.format(value, unit=unit)
    return format_percent(value) if is_counted(result) else f"{value:.3f}"


def _report_gap(result: SubgroupResult, finding: Finding) -> ReportedNumber:
    gap, low, high = (format_gap(result, value).replace("-", "\N{MINUS SIGN}") for value in _interval(finding))
    return ReportedNumber(
        gap, finding.gap, estimate_kind(result), finding.low, finding.high, f"{low} to {high}", result.confidence
    )


def _interval(finding: Finding) -> tuple[float, float, float]:
    return finding.gap, finding.low, finding.high


def _describe_gap(result: SubgroupResult, finding: Finding) -> str:
    gap, low, high = (format_gap(result, value) for value in _interval(finding))
    return f"{gap} {gap_unit(result)}, interval {low} to {high}"


def _interval_name(result: SubgroupResult) -> str:
    return f"{'adjusted' if result.control != 'none' else 'unadjusted'} {format_level(result.confidence)} interval"


# Sentences.


def finding_sentence(result: SubgroupResult, finding: Finding, label: str | None = None) -> str:
    """Describe a finding: ``Of 1,203 people with sex Female, 20.7 % get >50K; of everyone else 83.1 %.``

    Args:
        result: The search.
        finding: The finding.
        label: The favourable label.
    """
    if isinstance(result, TextSubgroupResult):
        members, comparison = _text_sides(result, finding)
        label = result.favourable
    else:
        members, comparison = _people_sides(result, finding, label)
    own, theirs = (format_rate(result, rate, unit=True) for rate in (finding.rate, finding.rest_rate))
    if is_counted(result):
        if result.number is not None:
            event = f"have {result.number.describe_level()}"
        else:
            event = EVENTS[result.measure][is_about_texts(result)].format(label=label or "the favourable label")
        sentence = f"of {members}, {own} {event}; of {comparison} {theirs}."
    else:
        sentence = f"the {_rate_name(result)} of {members} is {own}; of {comparison} {theirs}."
    weighted = f"weighted by {result.weights}, " if result.weights else ""
    alike = f"with {result.per} alike, " if result.per else ""
    sentence = weighted + alike + sentence
    return sentence[0].upper() + sentence[1:]


def _people_sides(result: SubgroupResult, finding: Finding, label: str | None) -> tuple[str, str]:
    number = f"{finding.size:,}" if finding.samples is None else f"{finding.samples:,} samples of"
    members = f"{number} people with {finding.words}"
    if result.measure in ("false-negative", "false-positive"):
        truly = "truly" if result.measure == "false-negative" else "not truly"
        members += f" who are {truly} {label or 'favourable'}"
    return members, finding.versus.words() if finding.versus else "everyone else"


def _text_sides(result: TextSubgroupResult, finding: Finding) -> tuple[str, str]:
    if isinstance(finding, SwapEffect):
        return f"{finding.size:,} texts made to speak of {finding.words}", "the same texts about others"
    if finding.samples is not None:
        return f"{finding.samples:,} samples made to speak of {finding.words}", "samples about others"
    comparison = (
        f"{finding.rest:,} about others" if result.compared == "others" else f"the {finding.rest:,} other texts"
    )
    return f"{finding.size:,} texts that speak of {finding.words}", comparison


def reason_unclear(result: SubgroupResult, finding: Finding) -> str:
    """Describe why a finding is not significant. Empty if it is."""
    if finding.found:
        return ""
    if finding.low > 0 or finding.high < 0:
        within = max(abs(finding.low), abs(finding.high)) < result.margin
        return "certainly within the margin" if within else "not clear enough after adjustment"
    return "not significant"


def describe_tested(result: SubgroupResult) -> str:
    """Describe the tested subgroups and the guarantee of the correction, in words that follow their number."""
    if result.method != "exact":
        return f"of {result.rule_sets:,} there are, by the published method {result.method}"
    draws = "permutations" if result.weights is None else "multipliers of the weights"
    promise = f"at most {100 * (1 - result.confidence):.6g} % chance of even one false finding ({draws}, max-t)"
    floor = f"{100 * result.support:.6g} % of them or " if result.support else ""
    return (
        f"different subgroups, out of {result.rule_sets:,} rule sets (the others describe the same "
        f"{member_noun(result)} again, or have fewer than {floor}{result.min_size:,} inside or outside); {promise}"
    )


def describe_significant(result: SubgroupResult) -> str:
    """Describe the significant subgroups, in words that follow their number."""
    if result.method != "exact":
        return "by that method's own rule; the notes say what it does not account for"
    own = sum(finding.under is None and finding.found for finding in result.findings)
    text = f"of the {result.tested:,} subgroups tested"
    return f"{text}; {own:,} of those listed are not explained by another" if result.found else text


def _describe_criterion(result: SubgroupResult) -> str:
    if result.method != "exact":
        return "by the rule of the published method; the notes say what it does not account for"
    margin = f"{100 * result.margin:g} points" if is_counted(result) else f"{result.margin:.3g} {gap_unit(result)}"
    text = "a gap whose adjusted interval excludes 0"
    return f"{text}, and does not rule out a gap of {margin}" if result.margin else text


def describe_unknown(result: SubgroupResult) -> str:
    """Describe the people left out because the value of an attribute is unknown."""
    names = " or ".join(cells.name for cells in result.attributes)
    return f"left out: {format_count(result.unknown, 'person', 'people')} of unknown {names}"


# Selection.


def select_findings(result: SubgroupResult, max_findings: int | None = None) -> list[Finding]:
    """Select the first findings that no other explains, in their order.

    If there are too many, subgroups worse off and better off each get at most half of the places, plus any that the
    other kind leaves unused.
    """
    own = [finding for finding in result.findings if finding.under is None]
    if max_findings is None:
        return own
    worse = [finding for finding in own if finding.found and result.is_worse(finding)]
    better = sum(finding.found for finding in own) - len(worse)
    left_out = {id(finding) for finding in worse[max(max_findings // 2, max_findings - better) :]}
    return [finding for finding in own if id(finding) not in left_out][:max_findings]


# Blocks.


def subgroup_blocks(result: SubgroupResult, label: str | None = None, *, level: int = 2) -> Iterator[Block]:
    """Yield the figures and tables of a search: gaps, explanations, and requested subgroups.

    Args:
        result: The search.
        label: The favourable label.
        level: Level of the headings.
    """
    own = select_findings(result)
    if own:
        yield Heading("Subgroups" if level == 2 else "Gaps", level, "findings")
        yield Figure("subgroup gaps", _gap_caption(result), result)
        yield _finding_table(result, own[:OPEN], 0, label)
        if own[OPEN:]:
            more: list[Block] = [_finding_table(result, own[OPEN:MOST], OPEN, label)]
            if len(own) > MOST:
                more.append(Note(f"{format_count(len(own) - MOST, 'more is', 'more are')} in the JSON."))
            yield Fold(format_count(len(own) - OPEN, "more subgroup", "more subgroups"), tuple(more))
    if result.judged:
        yield Heading("Requested subgroups", level, "judged")
        yield _judged_table(result, label)


def method_facts(result: SubgroupResult) -> Facts:
    """Build the facts about the search method."""
    facts = [("method", result.method), ("subgroups tested", f"{result.tested:,} {describe_tested(result)}")]
    for cells in result.attributes:
        adjacent = " (neighbouring ones together)" if cells.ordered else ""
        facts.append((f"rules over {cells.name}", f"{list_some(cells.cells)}{adjacent}"))
    intervals = "each for itself"
    if result.critical is not None:
        intervals = f"{format_decimal(result.critical)} standard errors to each side, simultaneous over all subgroups"
    facts += [("intervals", intervals), ("significant after adjustment", _describe_criterion(result))]
    if result.weights is not None:
        facts.append(("weights", f"{result.weights}: {WEIGHTED}"))
    if result.method == "exact":
        facts.append(("explained", EXPLAINED))
    if result.unknown:
        facts.append(("unknown", describe_unknown(result)))
    return Facts((*facts, *(("note", note) for note in result.notes)))


def build_document(result: SubgroupResult, subject: SubjectCard | None = None) -> Document:
    """Build the document of a search."""
    names, nouns = join_names(cells.name for cells in result.attributes), member_noun(result)
    title = f"Subgroups by {names}"
    lead = f"Which {nouns}, described by {names}, fare differently from {comparison_group(result)}?"
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
        if is_about_texts(result):
            blocks.append(result.noise.caution(NOISY_TEXTS, ("text", "texts")))
        else:
            answers = "one answer" if result.repeats == 1 else f"the majority of {result.repeats:,} answers"
            blocks.append(result.noise.caution(NOISY.format(answers=answers)))
    if result.interrupted:
        blocks.append(Note("This search was stopped early. The results cover only the completed part.", "caution"))
    blocks += [
        Text(finding_sentence(result, finding, label), role="finding") for finding in select_findings(result)[:1]
    ]
    metrics = (
        (describe_rate(result), format_rate(result, result.rate), result.rate, f"of all {result.people:,} {nouns}"),
        ("subgroups tested", f"{result.tested:,}", result.tested, describe_tested(result)),
        ("significant after adjustment", f"{result.found:,}", result.found, describe_significant(result)),
    )
    blocks += [
        *(Metric(name, ReportedNumber(text, value, "observed", basis=basis)) for name, text, value, basis in metrics),
        NextStep(_next_step(result)),
        *(Note(note) for note in result.notes),
        *subgroup_blocks(result, label),
    ]
    if isinstance(result, TextSubgroupResult) and result.effects:
        blocks += _swap_blocks(result)
    blocks += [Heading("How it was done", anchor="method", detail=True), method_facts(result)]
    return Document(
        title, lead, tuple(blocks), brand="Evenhand subgroups", made=result.provenance, readings=result.readings
    )


def _gap_caption(result: SubgroupResult) -> str:
    worse, better = direction_words(result)
    comparison = comparison_group(result)
    return (
        f"Gap to {comparison} in the {describe_rate(result)}, in {gap_unit(result)}, with its "
        f"{_interval_name(result)}. Orange circles: {worse}. Blue diamonds: {better}. Hollow and grey: not "
        "significant, or within the margin. Dashed lines: the margin. Numbers on the right: number of "
        f"{member_noun(result)}, and the {'rate' if is_counted(result) else 'mean'} of the subgroup against that of "
        f"{comparison}."
    )


def _finding_table(result: SubgroupResult, findings: Sequence[Finding], first_rank: int, label: str | None) -> Table:
    kind, nouns = estimate_kind(result), member_noun(result)
    columns = (
        Column("rank", numeric=True),
        Column(f"gap, {gap_unit(result)}", numeric=True),
        Column(nouns, numeric=True),
        Column("its rate" if is_counted(result) else "its mean", numeric=True),
        Column(comparison_group(result), numeric=True),
        Column("adjusted p", numeric=True),
        Column("subgroup"),
    )
    rows = []
    for rank, finding in enumerate(findings, first_rank + 1):
        words = finding.words
        if finding.explains:
            words += f" (explains {format_count(finding.explains, 'other finding', 'other findings')})"
        if not finding.found:
            words += f" ({reason_unclear(result, finding)})"
        if finding.others:
            words += f"; {format_count(finding.others, 'other description', 'other descriptions')} of the same {nouns}"
        cells = (
            str(rank),
            _report_gap(result, finding),
            finding.size,
            ReportedNumber(format_rate(result, finding.rate), finding.rate, kind),
            ReportedNumber(format_rate(result, finding.rest_rate), finding.rest_rate, kind),
            "" if finding.adjusted_p is None else f"{finding.adjusted_p:.2g}",
            words,
        )
        rows.append(TableRow(cells, finding_sentence(result, finding, label), faint=not finding.found))
    caption = (
        f"Subgroups that no other one explains: {describe_rate(result)}, {kind}; with each gap its "
        f"{_interval_name(result)}"
    )
    return Table(caption, columns, tuple(rows), usual=kind, listed=LISTED)


def _judged_table(result: SubgroupResult, label: str | None) -> Table:
    columns = (
        Column("subgroup"),
        Column(member_noun(result), numeric=True),
        Column("outside", numeric=True),
        Column("result"),
    )
    rows = tuple(
        TableRow(
            (judged.words, judged.size, judged.rest, _describe_judged(result, judged, label)),
            faint=isinstance(judged, RefusedRuleSet),
        )
        for judged in result.judged
    )
    return Table(f"Requested subgroups, {estimate_kind(result)}", columns, rows)


def _describe_judged(result: SubgroupResult, judged: Finding | RefusedRuleSet, label: str | None) -> str:
    if isinstance(judged, RefusedRuleSet):
        return f"refused: {judged.reason}"
    verdict = reason_unclear(result, judged) or "significant after adjustment"
    return f"{finding_sentence(result, judged, label)} Gap {_describe_gap(result, judged)}: {verdict}."


def _next_step(result: SubgroupResult) -> str:
    if result.method != "exact":
        return "compare with --method exact, whose intervals are about the people and hold for all subgroups together"
    if not result.found:
        return "none of those tested is significant; more data or a lower --support would show smaller ones"
    if is_about_texts(result):
        return "see whether the same texts get other labels with other words, which only the model causes"
    errors = f"the errors (--measure {'false-negative' if result.number is None else 'residual'}), "
    errors_step = "" if result.measure in ("residual", "absolute-error") else errors
    return f"see what explains the gap: {errors_step}the gap within the values of another attribute (--per NAME)"


def _swap_blocks(result: TextSubgroupResult) -> Iterator[Block]:
    yield Heading("The same texts with other words", anchor="swapped")
    sentences = [
        f"{result.sentence(effect)} Difference {_describe_gap(result, effect)}."
        for effect in result.effects
        if effect.found and effect.under is None
    ] or [f"None of {len(result.effects):,} groups makes a significant difference."]
    yield Text(
        "Only the words that name a group were changed, so the model alone causes these differences. All numbers are "
        "observed on the texts sent to the model.",
        tuple(sentences[:LISTED]),
    )


# The worst subgroup, as an answer in an audit.


def worst_answer(result: SubgroupResult) -> Metric:
    """Build the answer of an audit about the subgroup that is most clearly worse off."""
    worst = result.widest
    name = "worst subgroup" if result.number is None else f"subgroup that departs most: {describe_rate(result)}"
    names = join_names(cells.name for cells in result.attributes)
    about = f"subgroups of {names}" if result.number is None and len(result.attributes) > 1 else f"subgroups by {names}"
    tested = f"{format_count(result.tested, 'subgroup', 'subgroups')} tested"
    if worst is None:
        worse = "below the rest" if result.number is None else direction_words(result)[0]
        reason = f"none is {worse} among {tested}" if result.tested else "no subgroup is large enough"
        return Metric(name, ReportedNumber("-", kind="unknown", basis=reason), about=about)
    basis = f"on {result.people:,} people"
    if result.number is None:
        gap, low, high = -worst.gap, -worst.high, -worst.low
        texts = [format_decimal(value) for value in (gap, low, high)]
        weighted = "" if result.weights is None else f", weighted by {result.weights}"
        sentence = (
            f"{worst.words}: {format_percent(worst.rate)} of {worst.size:,} people are selected, of everyone else "
            f"{format_percent(worst.rest_rate)}{weighted}"
        )
    else:
        gap, low, high = _interval(worst)
        texts = [format_gap(result, value) for value in (gap, low, high)]
        texts[0] += f" {gap_unit(result)}"
        sentence = result.sentence(worst)
    number = ReportedNumber(texts[0], gap, "observed", low, high, f"{texts[1]} to {texts[2]}", result.confidence, basis)
    notes = [sentence, f"adjusted interval, simultaneous over {tested}"]
    if result.unknown:
        notes.append(describe_unknown(result))
    step = "the Subgroups section lists the other affected groups; look closer with evenhand subgroups"
    if not worst.found:
        step = f"{reason_unclear(result, worst)}; see the Subgroups section"
    return Metric(name, number, tuple(notes), about, step)
