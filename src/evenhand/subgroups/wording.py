"""Subgroups in words: who they are, how often they get what, and how far that is from whom they are compared with."""

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
from evenhand.subgroups.result import Finding, RefusedRuleSet, SubgroupResult, TextSubgroupResult
from evenhand.subgroups.rules import refines_rules

OTHERS = {
    "rest": "everyone else",
    "best": "the best treated other group",
    "texts": "the texts it is compared with",
}
"""With whom a subgroup is compared."""

RATES: dict[str, str] = {
    "favourable": "rate of the favourable decision",
    "false-negative": "rate of wrong refusals",
    "false-positive": "rate of wrong favourable decisions",
    "score": "mean score",
}
"""What a measure's rate is called."""

CONTROLS = {
    "max-t": "at most {error} chance of even one false finding ({drawn}, max-t)",
    "BY": "at most {error} of the findings false on average (Benjamini-Yekutieli)",
    "none": "no multiple-testing correction",
}
"""What a control promises."""


NOISY = (
    "Rates are of {answers} for each person. Tests and intervals below allow for this noise: it is independent of who "
    "a person is, so a subgroup that is significant is decided differently on average, whatever one answer says."
)
NOISY_TEXTS = (
    "Rates are of one answer for each text. Tests and intervals below allow for this noise: it is independent of what "
    "a text says. Labels that change with the words count only if they repeat when both texts are asked about again."
)
"""What noise means for subgroups."""

LISTED = 15
"""Subgroups on a screen."""

OPEN = 12
"""Subgroups of a page's table that are seen before it is unfolded."""

MOST = 100
"""Subgroups of a page's table; the JSON has all."""

CHILDREN = 3
"""Of the subgroups that one explains, so many are drawn."""


def finding_sentence(result: SubgroupResult, finding: Finding, label: str | None = None) -> str:
    """Return a finding as a sentence: ``Of 1,203 people with sex Female, 20.7 % get >50K; of everyone else 83.1 %.``

    Args:
        result: what it was found in.
        finding: which one.
        label: the favourable label.
    """
    if is_about_texts(result):
        return result.sentence(finding)
    if result.number is not None:
        return result.number.sentence(result.measure, finding, given=result.given)
    sampled = "" if finding.samples is None else f"{finding.samples:,} samples of "
    alike = f"{result.given}, o" if result.given else "O"
    who = f"{sampled or f'{finding.size:,} '}people {'with' if finding.rules else 'for whom'} {finding.words}"
    others = finding.versus.words() if finding.versus else OTHERS["rest"]
    if result.measure == "score":
        the = f"{result.given}, the" if result.given else "The"
        return f"{the} mean score of {who} is {finding.rate:.3f}; of {others} {finding.rest_rate:.3f}."
    own, theirs = format_percent(finding.rate), format_percent(finding.rest_rate)
    if result.measure == "favourable":
        return f"{alike}f {who}, {own} get {label or 'the favourable label'}; of {others} {theirs}."
    truly = "truly" if result.measure == "false-negative" else "not truly"
    what = "are refused it" if result.measure == "false-negative" else "get it all the same"
    return f"{alike}f {who} who are {truly} {label or 'favourable'}, {own} {what}; of {others} {theirs}."


def is_about_texts(result: SubgroupResult) -> bool:
    """Return whether subgroups are of texts, not of people."""
    return isinstance(result, TextSubgroupResult)


def member_noun(result: SubgroupResult) -> str:
    """Return what subgroups are made of."""
    return "texts" if is_about_texts(result) else "people"


def estimate_kind(result: SubgroupResult) -> Kind:
    """Return what kind of number rates and gaps are: counted on the people in the data, or on samples."""
    return "observed" if all(finding.samples is None for finding in result.findings) else "estimated"


def comparison_group(result: SubgroupResult) -> str:
    """Return with whom a subgroup is compared."""
    them = OTHERS["texts" if is_about_texts(result) else result.against]
    return f"{them} with {result.per} alike" if result.per else them


def describe_rate(result: SubgroupResult) -> str:
    """Return what is compared: ``rate of the favourable decision``, ``mean premium, weighted by wt``."""
    rate = RATES[result.measure] if result.number is None else result.number.describe_rate(result.measure)
    return rate if result.weights is None else f"{rate}, weighted by {result.weights}"


def is_counted(result: SubgroupResult) -> bool:
    """Return whether rates are shares of people, so that gaps are points; else they are means."""
    return result.measure not in ("score", "mean", "residual", "absolute-error")


def reason_unclear(result: SubgroupResult, finding: Finding) -> str:
    """Return why a finding is not significant; nothing if it does."""
    if finding.found:
        return ""
    if finding.low > 0 or finding.high < 0:
        reach = max(abs(finding.low), abs(finding.high))
        return "certainly within the margin" if reach < result.margin else "not clear enough after adjustment"
    return "not significant"


def direction_words(result: SubgroupResult) -> tuple[str, str]:
    """Return what ``worse`` and its contrary are called; for texts it is unknown which label is the better one."""
    unknown = result.number is not None and result.number.favourable == "neither" and result.measure != "absolute-error"
    if not is_about_texts(result) and not unknown:
        return "worse off", "better off"
    return ("above", "below") if result.measure == "false-negative" else ("below", "above")


def format_gap(result: SubgroupResult, gap: float) -> str:
    """Return a gap with its sign, in percentage points, or in decimals for means: ``-22.1``."""
    if result.number is not None and not is_counted(result):
        return result.number.format(gap, sign=True, unit=False)
    value, digits = (100 * gap, 1) if is_counted(result) else (gap, 3)
    written = f"{value:+.{digits}f}"
    if float(written):
        return written
    # What is not 0 does not look like it, where an interval ends close to it.
    return f"{value:+.{digits + 2}f}" if round(value, digits + 2) else written[1:]


def gap_unit(result: SubgroupResult) -> str:
    """Return what gaps are measured in."""
    if result.number is not None and not is_counted(result):
        return result.number.unit or f"units of {result.number.name}"
    return "points" if is_counted(result) else "units of the score"


def format_rate(result: SubgroupResult, value: float) -> str:
    """Return a rate in percent, or a mean in decimals."""
    if result.number is not None and not is_counted(result):
        return result.number.format(value, unit=False)
    return format_percent(value) if is_counted(result) else f"{value:.3f}"


def added_rules(result: SubgroupResult, finding: Finding) -> str:
    """Return what a finding says beyond the one it stands under: ``and age 60 or more``."""
    if finding.under is None:
        return finding.words
    shown = result.findings[finding.under]
    if (finding.size, finding.rest) == (shown.rest, shown.size):
        return f"the others: {finding.words}"
    more = {name: rule for name, rule in finding.rules.items() if shown.rules.get(name) != rule}
    return f"and {result.words(more)}" if more and refines_rules(finding.rules, shown.rules) else finding.words


def gap_in_people(result: SubgroupResult, finding: Finding) -> str:
    """Return the gap counted in people: how many more, or fewer, would have the outcome at the others' rate."""
    if not is_counted(result) or result.weights is not None:
        return ""
    n = round(finding.size * (finding.rate - finding.rest_rate))
    return f"{abs(n):,} {'fewer' if n < 0 else 'more'}"


def describe_tested(result: SubgroupResult) -> str:
    """Say how many subgroups were tested, and what the correction promises about all of them together."""
    if result.method != "exact":
        return f"of {result.rule_sets:,} there are, by the published method {result.method}"
    drawn = "permutations" if result.weights is None else "multipliers of the weights"
    promise = CONTROLS[result.control].format(error=f"{100 * (1 - result.confidence):.6g} %", drawn=drawn)
    floor = f"{100 * result.support:.6g} % of them or " if result.support else ""
    return (
        f"different subgroups, out of {result.rule_sets:,} rule sets (the others describe the same "
        f"{member_noun(result)} again, or have fewer than {floor}{result.min_size:,} inside or outside); {promise}"
    )


def describe_significant(result: SubgroupResult) -> str:
    """Say how many are significant, to be read after the number."""
    if result.method != "exact":
        return "by that method's own rule; the notes say what it does not account for"
    own = sum(finding.under is None and finding.found for finding in result.findings)
    said = f"of the {result.tested:,} subgroups tested"
    return f"{said}; {own:,} of those listed are not explained by another" if result.found else said


def describe_criterion(result: SubgroupResult) -> str:
    """Say what it takes to be significant."""
    if result.method != "exact":
        return "by the rule of the published method; the notes say what it does not account for"
    margin = f"{100 * result.margin:g} points" if is_counted(result) else f"{result.margin:.3g} {gap_unit(result)}"
    said = f"a gap whose {'' if result.control == 'none' else 'adjusted '}interval excludes 0"
    return f"{said}, and does not rule out a gap of {margin}" if result.margin else said


def select_findings(result: SubgroupResult, most: int) -> list[Finding]:
    """Return the first findings that no other explains, in their order.

    Neither those worse off nor those better off take more than half of the room that the other has use for.
    """
    own = [finding for finding in result.findings if finding.under is None]
    worse = [finding for finding in own if finding.found and result.is_worse(finding)]
    better = [finding for finding in own if finding.found and not result.is_worse(finding)]
    left_out = {id(finding) for finding in worse[max(most // 2, most - len(better)) :]}
    return [finding for finding in own if id(finding) not in left_out][:most]


def nest_findings(result: SubgroupResult, most: int | None = None) -> list[tuple[Finding, int]]:
    """Return findings in their order, each followed by those it explains, with the depth at which they stand.

    Args:
        result: the search.
        most: of those that a finding explains, only so many, the first of the ranking; None: all.
    """
    tree = result.tree()
    positions = {id(finding): i for i, finding in enumerate(result.findings)}

    def walk(position: int, depth: int) -> Iterator[tuple[Finding, int]]:
        yield result.findings[position], depth
        for below in tree.get(position, [])[:most]:
            yield from walk(below, depth + 1)

    return [
        pair for finding in select_findings(result, len(result.findings)) for pair in walk(positions[id(finding)], 0)
    ]


def say_left_out(result: SubgroupResult) -> str:
    """Say how many people were left out because a value that would describe them is unknown."""
    names = " or ".join(cells.name for cells in result.attributes)
    return f"left out: {format_count(result.unknown, 'person', 'people')} of unknown {names}"


def subgroup_blocks(result: SubgroupResult, label: str | None = None, *, level: int = 2) -> Iterator[Block]:
    """Yield the drawings and tables of a search: gaps, then where they sit, then what was asked about.

    Args:
        result: the search.
        label: the favourable label.
        level: of the headings.
    """
    own = select_findings(result, len(result.findings))
    if own:
        yield Heading("Subgroups" if level == 2 else "Gaps", level, "findings")
        yield Figure("subgroup gaps", _gap_caption(result), result)
        yield _finding_table(result, own[:OPEN], 0, label)
        if own[OPEN:]:
            more: list[Block] = [_finding_table(result, own[OPEN:MOST], OPEN, label)]
            if len(own) > MOST:
                more.append(Note(f"{format_count(len(own) - MOST, 'more is', 'more are')} in the JSON."))
            yield Fold(format_count(len(own) - OPEN, "more subgroup", "more subgroups"), tuple(more))
        yield Heading("Where the gaps sit", level, "nesting", detail=True)
        yield from _nesting_blocks(result)
    if result.judged:
        yield Heading("Asked about", level, "judged")
        yield _judged_table(result, label)


def method_facts(result: SubgroupResult) -> Facts:
    """Return how subgroups were searched for."""
    entries = [("method", result.method), ("subgroups tested", f"{result.tested:,} {describe_tested(result)}")]
    for cells in result.attributes:
        together = " (neighbouring ones together)" if cells.ordered else ""
        entries.append((f"rules over {cells.name}", f"{list_some(cells.cells)}{together}"))
    alone = result.critical is None or result.control == "none"
    entries.append(
        (
            "intervals",
            "each for itself"
            if alone or result.critical is None
            else f"{format_decimal(result.critical)} standard errors to each side, simultaneous over all subgroups",
        )
    )
    entries.append(("significant after adjustment", describe_criterion(result)))
    if result.weights is not None:
        entries.append(
            (
                "weights",
                f"{result.weights}: rates, gaps and intervals are weighted, by effective sizes on both sides, and what "
                "chance alone shows is drawn with these weights; a subgroup needs its smallest number in effective "
                "size; people are counted without weights",
            )
        )
    if result.method == "exact":
        entries.append(
            (
                "explained",
                "the clearest subgroup, whose standardised gap is the largest, is shown first; under it stands every "
                "other whose gap is not significant, or within the margin, among the people inside the one shown and "
                "among those outside it; of those left the clearest is shown next, and so on",
            )
        )
    if result.unknown:
        entries.append(("unknown", say_left_out(result)))
    entries += [("note", note) for note in result.notes]
    return Facts(tuple(entries))


def build_document(result: SubgroupResult, subject: SubjectCard | None = None) -> Document:
    """Return what a search for subgroups says."""
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
        answers = "one answer" if result.repeats == 1 else f"the majority of {result.repeats:,} answers"
        if is_about_texts(result):
            blocks.append(result.noise.caution(NOISY_TEXTS, ("text", "texts")))
        else:
            blocks.append(result.noise.caution(NOISY.format(answers=answers)))
    if result.interrupted:
        blocks.append(Note("This search was stopped. It holds what was found before.", "caution"))
    own = select_findings(result, len(result.findings))
    blocks += [Text(finding_sentence(result, own[0], label), role="finding")] if own else []
    rate = ReportedNumber(
        format_rate(result, result.rate), result.rate, "observed", basis=f"of all {result.people:,} {nouns}"
    )
    blocks += [
        Metric(describe_rate(result), rate),
        Metric(
            "subgroups tested",
            ReportedNumber(f"{result.tested:,}", result.tested, "observed", basis=describe_tested(result)),
        ),
        Metric(
            "significant after adjustment",
            ReportedNumber(f"{result.found:,}", result.found, "observed", basis=describe_significant(result)),
        ),
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


def _interval_name(result: SubgroupResult) -> str:
    return f"{'adjusted' if result.control != 'none' else 'unadjusted'} {format_level(result.confidence)} interval"


def _gap_caption(result: SubgroupResult) -> str:
    worse, better = direction_words(result)
    others = comparison_group(result)
    return (
        f"Gap to {others} in the {describe_rate(result)}, in {gap_unit(result)}, with its {_interval_name(result)}. "
        f"Orange circles: {worse}. Blue diamonds: {better}. Hollow and grey: not significant, or within the margin. "
        f"Dashed lines: the margin. Numbers beside: how many {member_noun(result)}, and the "
        f"{'rate' if is_counted(result) else 'mean'} of the subgroup against that of {others}."
    )


def _show_gap(result: SubgroupResult, finding: Finding) -> ReportedNumber:
    def points(gap: float) -> str:
        return format_gap(result, gap).replace("-", "\N{MINUS SIGN}")

    return ReportedNumber(
        points(finding.gap),
        finding.gap,
        estimate_kind(result),
        finding.low,
        finding.high,
        f"{points(finding.low)} to {points(finding.high)}",
        result.confidence,
    )


def _finding_table(result: SubgroupResult, findings: Sequence[Finding], first: int, label: str | None) -> Table:
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
    for rank, finding in enumerate(findings, first + 1):
        more = finding.explains
        words = finding.words + (f" (explains {format_count(more, 'other finding', 'other findings')})" if more else "")
        if not finding.found:
            words += f" ({reason_unclear(result, finding)})"
        if finding.others:
            words += f"; {format_count(finding.others, 'other description', 'other descriptions')} of the same {nouns}"
        rows.append(
            TableRow(
                (
                    str(rank),
                    _show_gap(result, finding),
                    finding.size,
                    ReportedNumber(format_rate(result, finding.rate), finding.rate, kind),
                    ReportedNumber(format_rate(result, finding.rest_rate), finding.rest_rate, kind),
                    "" if finding.adjusted_p is None else f"{finding.adjusted_p:.2g}",
                    words,
                ),
                finding_sentence(result, finding, label),
                faint=not finding.found,
            )
        )
    caption = (
        f"Subgroups that no other one explains: {describe_rate(result)}, {kind}; with each gap its "
        f"{_interval_name(result)}"
    )
    return Table(caption, columns, tuple(rows), usual=kind, listed=LISTED)


def _nesting_blocks(result: SubgroupResult) -> Iterator[Block]:
    nouns, kind = member_noun(result), estimate_kind(result)
    yield Text(
        f"A subgroup stands under the one that explains it: once it is known who belongs to that one and to those "
        f"shown before it, nothing significant is left of its gap. All is {kind}."
    )
    in_people = is_counted(result) and result.weights is None
    if in_people:
        yield Figure(
            "subgroup nesting",
            f"Each bar is as long as the subgroup has {nouns}. Blue: those counted in the rate. Orange: how many more "
            f"there would be at the rate of {comparison_group(result)}; green: how many fewer. Indented: subgroups "
            f"that the one above explains, of which the first {CHILDREN} are drawn.",
            result,
        )
    counted = (Column(f"in {nouns}", numeric=True),) if in_people else ()
    columns = (
        Column("subgroup"),
        Column(nouns, numeric=True),
        Column(f"gap, {gap_unit(result)}", numeric=True),
        *counted,
    )
    rows = tuple(
        TableRow(
            (
                added_rules(result, finding),
                finding.size,
                _show_gap(result, finding),
                *((gap_in_people(result, finding),) if counted else ()),
            ),
            faint=not finding.found,
            indent=depth,
        )
        for finding, depth in nest_findings(result)
    )
    caption = f"Subgroups under the one that explains them, {kind}"
    yield Fold("The nesting in numbers", (Table(caption, columns, rows, usual=kind),))


def _judged_table(result: SubgroupResult, label: str | None) -> Table:
    nouns = member_noun(result)
    columns = (
        Column("subgroup"),
        Column(nouns, numeric=True),
        Column("outside", numeric=True),
        Column("what can be said"),
    )
    rows = tuple(
        TableRow(
            (judged.words, judged.size, judged.rest, describe_judged(result, judged, label)),
            faint=isinstance(judged, RefusedRuleSet),
        )
        for judged in result.judged
    )
    return Table(f"Subgroups that were asked about, {estimate_kind(result)}", columns, rows)


def describe_judged(result: SubgroupResult, judged: Finding | RefusedRuleSet, label: str | None) -> str:
    """Return what can be said of a subgroup that was asked about."""
    if isinstance(judged, RefusedRuleSet):
        return f"refused: {judged.reason}"
    low, high = format_gap(result, judged.low), format_gap(result, judged.high)
    verdict = reason_unclear(result, judged) or "significant after adjustment"
    return (
        f"{finding_sentence(result, judged, label)} Gap {format_gap(result, judged.gap)} {gap_unit(result)}, interval "
        f"{low} to {high}: {verdict}."
    )


def _next_step(result: SubgroupResult) -> str:
    if result.method != "exact":
        return "compare with --method exact, whose intervals are about the people and hold for all subgroups together"
    if not result.found:
        return "none of those tested is significant; more data or a lower --support would show smaller ones"
    if is_about_texts(result):
        return "see whether the same texts fare otherwise with other words: that is the model\u2019s own doing"
    errors = f"the errors (--measure {'false-negative' if result.number is None else 'residual'}), "
    asked = "" if result.measure in ("residual", "absolute-error") else errors
    return f"see what explains the gap: {asked}the gap within the values of another attribute (--per NAME)"


def _swap_blocks(result: TextSubgroupResult) -> Iterator[Block]:
    yield Heading("The same texts with other words", anchor="swapped")
    clear = [effect for effect in result.effects if effect.found and effect.under is None]
    said = [
        f"{result.sentence(effect)} Difference {format_gap(result, effect.gap)} {gap_unit(result)}, interval "
        f"{format_gap(result, effect.low)} to {format_gap(result, effect.high)}."
        for effect in clear[:LISTED]
    ]
    if not clear:
        said.append(f"None of {len(result.effects):,} groups makes a significant difference.")
    yield Text(
        "Nothing but the words by which a text says who somebody is was changed: what then differs is the "
        "model\u2019s own doing. All is observed on the texts asked about.",
        tuple(said),
    )
