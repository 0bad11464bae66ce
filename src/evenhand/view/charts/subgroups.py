"""Subgroups as pictures: gaps with adjusted intervals, and where they sit, under the subgroup that explains them."""

from __future__ import annotations

from evenhand.subgroups.result import Finding, SubgroupResult
from evenhand.subgroups.wording import (
    CHILDREN,
    added_rules,
    comparison_group,
    describe_rate,
    format_gap,
    format_rate,
    gap_in_people,
    gap_unit,
    is_counted,
    member_noun,
    nest_findings,
    reason_unclear,
    select_findings,
)
from evenhand.view.drawing.axis import differences, spread, whole_numbers
from evenhand.view.drawing.rows import Bar, Block, Dot, Label, Line, Mark, Panel, Row, RowChart, together

MOST = 24
"""Subgroups drawn: the first of the ranking."""

NAMES = 330
"""Pixels for the names beside the drawing."""

HEIGHT = 36
"""Pixels of a row: room for two lines of a name."""


def plot_subgroups(result: SubgroupResult) -> RowChart:
    """Plot the gaps above where they sit."""
    return together([draw_gaps(result), draw_nesting(result)])


def draw_gaps(result: SubgroupResult) -> RowChart:
    """Draw one row per subgroup: its gap with the adjusted interval, how many people it has, both rates.

    Filled: told apart from chance, however many subgroups were looked at. Hollow and grey: not.
    """
    findings = select_findings(result, MOST)
    scale = 100 if is_counted(result) else 1
    reach = _axis_reach(findings, result.margin) * scale
    margin = scale * result.margin
    lines = [Line(0.0, dashed=False)]
    lines += [Line(end, role="faint") for end in (-margin, margin) if margin > 0]
    panel = Panel(spread(-reach, reach, differences), lines=tuple(lines))
    rows = [_row(result, finding, finding.words, (_dot(result, finding, scale),)) for finding in findings]
    said = "; ".join(_gap_in_words(result, finding) for finding in findings)
    gaps = f"Gaps to {comparison_group(result)} in the {describe_rate(result)}"
    return _chart(result, rows, panel, f"{gaps}, with adjusted intervals. {said}.")


def draw_nesting(result: SubgroupResult) -> RowChart:
    """Where the gaps sit: one bar per subgroup as long as it has people, nested under the one that explains it.

    Dark: who has the outcome. Bright: the gap counted in people, those who would have it too at the rate of the others,
    or would not. The rest is pale.
    """
    findings = nest_findings(result, CHILDREN)[:MOST]
    top = max((finding.size for finding, _ in findings), default=1)
    panel = Panel(spread(0.0, float(top), whole_numbers, about=3))
    rows = [
        _row(result, finding, added_rules(result, finding), _bar(result, finding), depth) for finding, depth in findings
    ]
    said = "; ".join(_bar_in_words(result, finding) for finding, _ in findings)
    nouns = member_noun(result)
    description = f"Where the gaps sit, subgroups nested under those that explain them, as numbers of {nouns}. {said}."
    return _chart(result, rows, panel, description)


def _dot(result: SubgroupResult, finding: Finding, scale: float) -> Dot:
    worse = result.is_worse(finding)
    return Dot(
        scale * finding.gap,
        scale * finding.low,
        scale * finding.high,
        role="faint" if not finding.found else "different" if worse else "same",
        shape="circle" if worse else "diamond",
        filled=finding.found,
    )


def _gap_in_words(result: SubgroupResult, finding: Finding) -> str:
    unclear = "" if finding.found else f" ({reason_unclear(result, finding)})"
    return f"{finding.words}: {format_gap(result, finding.gap)} {gap_unit(result)}{unclear}"


def _bar(result: SubgroupResult, finding: Finding) -> tuple[Mark, ...]:
    """Return up to three parts of a bar, and the gap counted in people behind it."""
    size, own, others = finding.size, finding.size * finding.rate, finding.size * finding.rest_rate
    bright = "faint" if not finding.found else "different" if result.is_worse(finding) else "third"
    ends = (0.0, min(own, others), max(own, others), float(size))
    parts = zip(ends[:-1], ends[1:], ("same", bright, "open"), strict=True)
    bars = [Bar(low, high, role) for low, high, role in parts if high > low]
    more = gap_in_people(result, finding)
    return (*bars, Label(float(size), more)) if more else tuple(bars)


def _bar_in_words(result: SubgroupResult, finding: Finding) -> str:
    more = gap_in_people(result, finding)
    return f"{finding.words}, {finding.size:,} {member_noun(result)}{': ' + more if more else ''}"


def _row(result: SubgroupResult, finding: Finding, words: str, marks: tuple[Mark, ...], depth: int = 0) -> Row:
    own, others = format_rate(result, finding.rate), format_rate(result, finding.rest_rate)
    return Row(
        name=words,
        marks=(marks,),
        figures=(f"{finding.size:,}", f"{own} : {others}"),
        aside=f"{finding.size:,} {member_noun(result)}; {own}, the others {others}",
        indent=depth,
        role="ink" if finding.found else "muted",
    )


def _chart(result: SubgroupResult, rows: list[Row], panel: Panel, description: str) -> RowChart:
    headings = (member_noun(result), "rate : others" if is_counted(result) else "mean : others")
    block = Block(rows=tuple(rows), panels=(panel,), headings=headings, names=NAMES, height=HEIGHT)
    return RowChart(description, (block,)) if rows else RowChart("No subgroup is large enough.", ())


def _axis_reach(findings: list[Finding], margin: float) -> float:
    """Where the axis ends, as far to the left as to the right: past every interval."""
    ends = [abs(end) for finding in findings for end in (finding.low, finding.high)]
    return 1.04 * max([*ends, 1.5 * margin]) or 1.0
