"""Numbers by group as quantile curves: maximum of the number for each share of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.view.drawing.theme import SERIES, WIDE, Spec, along, finish_chart, line_style, mark_layer

if TYPE_CHECKING:
    from evenhand.groups.result import GroupMetrics

MAX_LINES = len(SERIES)
"""Maximum number of groups drawn: the largest."""


def draw_quantiles(result: GroupMetrics, by: str, *, width: int = WIDE) -> Spec:
    """Draw a curve for each group by one attribute that is large enough, the largest groups if there are many."""
    assert result.outcome is not None
    curves = [one for one in result.outcome.curves if one.by == by and one.n >= result.min_group_size]
    largest = sorted(curves, key=lambda one: -one.n)[:MAX_LINES]
    drawn = [one for one in curves if one in largest]
    names = [f"{one.group} ({one.n:,})" for one in drawn]
    rows = [
        {"name": name, "share": share, "value": value}
        for name, one in zip(names, drawn, strict=True)
        for share, value in zip(one.shares, one.values, strict=True)
    ]
    unit = "" if result.outcome.unit is None else f" ({result.outcome.unit})"
    line = mark_layer(
        rows,
        {"type": "line", "strokeWidth": 2.2, "interpolate": "step-after"},
        x=along("share", (0, 1), title="share of the group's people", format=".0%", tickCount=5, offset=5),
        y=along("value", zero=False, title=f"{result.outcome.name}{unit}, at most", tickCount=5, offset=5),
        **line_style(names, width),
    )
    medians = "; ".join(
        f"{name}: median {one.values[len(one.values) // 2]:,.4g}" for name, one in zip(names, drawn, strict=True)
    )
    spec = {"layer": [line], "width": width - 84, "height": 240}
    return finish_chart(spec, f"Quantile curves of {result.outcome.name} by {by}: {medians}.")
