"""Charts of subgroups: gaps with adjusted intervals."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.subgroups.result import Finding, SubgroupResult
from evenhand.subgroups.wording import (
    DRAWN,
    comparison_group,
    describe_rate,
    format_gap,
    format_rate,
    gap_unit,
    is_counted,
    member_noun,
    reason_unclear,
)
from evenhand.view.drawing.axis import differences, spread
from evenhand.view.drawing.rows import Block, Dot, Line, Panel, Row, RowChart

NAMES = 330
"""Width of the names in pixels."""

HEIGHT = 36
"""Height of a row in pixels, for two lines of a name."""


def draw_gaps(result: SubgroupResult) -> RowChart:
    """Draw one row per subgroup: its gap with the adjusted interval, its size, and both rates.

    Significant gaps are filled; the others are hollow and grey.
    """
    findings = result.shown[:DRAWN]
    scale = 100 if is_counted(result) else 1
    reach = _axis_reach(findings, result.margin) * scale
    margin = scale * result.margin
    lines = [Line(0.0, dashed=False)]
    lines += [Line(end, role="faint") for end in (-margin, margin) if margin > 0]
    panel = Panel(spread(-reach, reach, differences), lines=tuple(lines))
    rows = [_row(result, finding, scale) for finding in findings]
    text = "; ".join(_gap_in_words(result, finding) for finding in findings)
    gaps = f"Gaps to {comparison_group(result)} in the {describe_rate(result)}"
    return _chart(result, rows, panel, f"{gaps}, with adjusted intervals. {text}.")


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


def _row(result: SubgroupResult, finding: Finding, scale: float) -> Row:
    own, rest = format_rate(result, finding.rate), format_rate(result, finding.rest_rate)
    return Row(
        name=finding.words,
        marks=((_dot(result, finding, scale),),),
        figures=(f"{finding.size:,}", f"{own} : {rest}"),
        aside=f"{finding.size:,} {member_noun(result)}; {own}, the others {rest}",
        role="ink" if finding.found else "muted",
    )


def _chart(result: SubgroupResult, rows: list[Row], panel: Panel, description: str) -> RowChart:
    headings = (member_noun(result), "rate : others" if is_counted(result) else "mean : others")
    block = Block(rows=tuple(rows), panels=(panel,), headings=headings, names=NAMES, height=HEIGHT)
    return RowChart(description, (block,)) if rows else RowChart("No subgroup is large enough.", ())


def _axis_reach(findings: Sequence[Finding], margin: float) -> float:
    """Compute the end of the symmetric axis, beyond every interval."""
    ends = [abs(end) for finding in findings for end in (finding.low, finding.high)]
    return 1.04 * max([*ends, 1.5 * margin]) or 1.0
