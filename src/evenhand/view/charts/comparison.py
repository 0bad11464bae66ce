"""Chart of the changes between two audits: dots with intervals."""

from __future__ import annotations

from evenhand.auditing.changes import AuditComparison, ChangeLine
from evenhand.auditing.comparison_wording import name_line
from evenhand.stats.metric_specs import unit_of
from evenhand.stats.quantity import Observed
from evenhand.view.drawing.axis import differences, spread
from evenhand.view.drawing.rows import Block, Dot, Line, Panel, Row, RowChart

ROLES = {"better": "same", "worse": "different"}
"""Verdict -> colour; all others are grey and hollow."""


def draw_changes(result: AuditComparison) -> RowChart:
    """Draw one row per number: its change with its interval; blue is better, orange worse.

    For numeric targets, only numbers in the unit of the target are drawn, not shares.
    """
    changes = [(line, line.change) for line in result.lines if isinstance(line.change, Observed)]
    measured = [(line, change) for line, change in changes if unit_of(line.name) == "target"]
    changes = measured or changes
    rows = tuple(
        Row(
            name_line(line),
            ((_dot(line, change),),),
            aside=line.verdict,
        )
        for line, change in changes
    )
    low = min((change.low for _, change in changes), default=-0.01)
    high = max((change.high for _, change in changes), default=0.01)
    axis = spread(min(low, -0.001), max(high, 0.001), differences, about=5)
    title = f"change, {result.unit}" if measured and result.unit else "change"
    return RowChart(
        "Changes between two audits. " + "; ".join(map(_say, (line for line, _ in changes))) + ".",
        (Block(rows=rows, panels=(Panel(axis, title, (Line(0.0),)),), names=330),),
    )


def _dot(line: ChangeLine, change: Observed) -> Dot:
    return Dot(
        change.value,
        change.low,
        change.high,
        role=ROLES.get(line.verdict, "faint"),
        shape="diamond" if line.verdict == "worse" else "circle",
        filled=line.verdict in ROLES,
    )


def _say(line: ChangeLine) -> str:
    assert isinstance(line.change, Observed)
    return f"{name_line(line)} {line.change.value:+.3f} ({line.verdict})"
