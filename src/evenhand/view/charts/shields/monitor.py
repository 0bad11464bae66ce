"""Chart of a monitored gap: its mean with its interval, and the recent mean."""

from __future__ import annotations

import math

from evenhand.monitoring.result import MonitorResult
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, along, finish_chart, mark_layer, stack_charts

SCALE = 76
"""Width of the scale to the left of the chart, in pixels."""
HEIGHT = 190
WIDEST = 4.0
"""Multiple of the largest estimate at which early intervals are cut, and maximum ratio."""


def plot_monitor(result: MonitorResult) -> Spec:
    """Draw every comparison over time, those with alarms first, at most eight."""
    places = [(number, k) for number, history in enumerate(result.histories) for k in range(len(history.gaps))]
    counts = [0, *(len(history.gaps) for history in result.histories)]
    ranked = sorted(places, key=lambda place: result.gaps[sum(counts[: place[0] + 1]) + place[1]].alarm or math.inf)
    charts = [draw_course(result, *place) for place in ranked[:8]]
    return stack_charts(charts)


def draw_course(result: MonitorResult, number: int, comparison: int, *, width: int = WIDE) -> Spec:
    """Draw one comparison of one measure over the decisions.

    Args:
        result: of the monitor.
        number: of the measure.
        comparison: of the measure.
        width: in pixels.
    """
    gap = result.gaps[sum(len(history.gaps) for history in result.histories[:number]) + comparison]
    history = result.histories[number]
    ratio = gap.form == "ratio"
    points = [
        (n, *(value if ratio or value is None else 100 * value for value in values))
        for n, values in zip(history.decisions, history.gaps[comparison], strict=True)
    ]
    estimates = [point for point in points if point[1] is not None]
    tolerated = (gap.tolerance, 1 / gap.tolerance) if ratio else (-100 * gap.tolerance, 100 * gap.tolerance)
    distances = [
        abs(float(value))
        for point in estimates[len(estimates) // 8 :]
        for value in (point[1], point[4])
        if value is not None
    ]
    # The current interval is shown in full; wider, earlier intervals are cut.
    ends = [1.15 * abs(float(value)) for point in estimates[-1:] for value in point[2:4] if value is not None]
    limit = WIDEST if ratio else max(3 * max(distances, default=1.0), 3 * tolerated[1], *ends, 1.0)
    low, high = (0.0, limit) if ratio else (-limit, limit)

    def cut(value: float | None, missing: float) -> float:
        return min(max(missing if value is None else value, low), high)

    rows: list[Spec] = [
        {"n": n, "mean": cut(mean, 0.0), "low": cut(below, low), "high": cut(above, high), "recent": cut(recent, 0.0)}
        for n, mean, below, above, recent in estimates
    ]
    end = history.decisions[-1]
    count = max(3, width // 140)
    x = along("n", (0, max(end, 1)), title="decisions", grid=False, tickCount=count, format=",d", offset=5)
    title = f"{gap.first} over {gap.second}" if ratio else "points"
    form = "~g" if ratio else "+.0f" if limit >= 5 else "+.1f"
    axis = {"title": title, "tickCount": 5, "offset": 5, "format": form, "titleLimit": HEIGHT}
    y = {"type": "quantitative", "scale": {"domain": [low, high], "nice": not ratio}, "axis": axis}
    band: list[Spec] = [{"n": n, "low": max(tolerated[0], low), "high": min(tolerated[1], high)} for n in (0, end)]
    line = {"type": "line", "strokeWidth": 2.2}
    layers = [
        mark_layer(band, {"type": "area", "color": LIGHT["grid"]}, x=x, y=y | {"field": "low"}, y2="high"),
        mark_layer(
            rows,
            {"type": "area", "opacity": 0.25, "color": LIGHT["same"]},
            x=x,
            y=y | {"field": "low"},
            y2="high",
        ),
        mark_layer(
            rows,
            line | {"color": LIGHT["third"], "strokeDash": [5, 3], "strokeWidth": 1.6},
            x=x,
            y=y | {"field": "recent"},
        ),
        mark_layer(rows, line | {"color": LIGHT["same"]}, x=x, y=y | {"field": "mean"}),
    ]
    if gap.alarm is not None:
        mark = [{"n": gap.alarm, "text": f"alarm at {gap.alarm:,}"}]
        right = gap.alarm > 0.7 * end
        layers += [
            mark_layer(mark, {"type": "rule", "color": LIGHT["different"], "strokeWidth": 2}, x=x),
            mark_layer(
                mark,
                {
                    "type": "text",
                    "align": "right" if right else "left",
                    "dx": -6 if right else 6,
                    "dy": 10,
                    "y": 0,
                    "color": LIGHT["different"],
                },
                x=x,
                text="text",
            ),
        ]
    summary = "no estimate yet"
    if estimates:
        last = estimates[-1]
        summary = f"{last[1]:.2f}" if ratio else f"{last[1]:+.1f} points"
    alarm = "no alarm" if gap.alarm is None else f"an alarm at decision {gap.alarm:,}"
    return finish_chart(
        {"layer": layers, "width": width - SCALE, "height": HEIGHT},
        f"{gap.by}, {gap.first} and {gap.second}: {summary} after {end:,} decisions, {alarm}.",
    )
