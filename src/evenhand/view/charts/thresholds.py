"""Curves of metrics over the threshold, with their bands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evenhand.core.text import format_percent
from evenhand.groups.result import Curve, ThresholdCurves
from evenhand.stats.metric_specs import METRICS
from evenhand.view.drawing.theme import LIGHT, SERIES, WIDE, Spec, along, line_style, mark_layer, stack_charts

SCALE = 70
"""Pixels left of a panel for its scale."""

HEIGHT = 230
POINTS = 60
"""Approximate maximum number of points of a curve."""

LINES = ("accuracy", "demographic_parity_difference", "equal_opportunity_difference")


def draw_curves(curves: ThresholdCurves, by: str, *, width: int = WIDE) -> Spec:
    """Draw the accuracy and the gaps by one attribute above the selection rates of its groups."""
    upper = [curve for name in LINES if (curve := curves.curve(name, "" if name == "accuracy" else by)) is not None]
    groups = [curve for curve in curves.curves if curve.by == by and curve.group]
    largest = sorted(groups, key=lambda curve: -curve.n)[: len(SERIES)]
    selected = [curve for curve in groups if curve in largest]
    few = f" ({len(selected)} largest)" if len(selected) < len(groups) else ""
    panels = [
        _panel(curves, [(METRICS[curve.name].title, curve) for curve in upper], "accuracy and gaps", width),
        _panel(curves, [(curve.group, curve) for curve in selected], f"selected, by {by}{few}", width),
    ]
    description = (
        f"Over the threshold from {curves.thresholds[0]:g} to {curves.thresholds[-1]:g}, by {by}: "
        + "; ".join(
            f"{METRICS[rate.name].title} from {format_percent(min(rate.values))} to {format_percent(max(rate.values))}"
            for rate in upper
        )
    )
    return stack_charts([panel for panel in panels if panel], f"{description}.")


def _places(curves: ThresholdCurves) -> list[int]:
    """Return the indices of the thresholds to draw: about sixty, including both ends and those in force."""
    last = len(curves.thresholds) - 1
    step = 1 + last // POINTS
    return [i for i, value in enumerate(curves.thresholds) if i % step == 0 or i == last or value == curves.applied]


def _panel(curves: ThresholdCurves, lines: Sequence[tuple[str, Curve]], title: str, width: int) -> Spec:
    """Return one panel: each line inside its band; the thresholds in force are dashed."""
    own = () if curves.applied is None else (curves.applied,)
    places = _places(curves)
    rows: list[Spec] = [
        {
            "name": name,
            "threshold": curves.thresholds[i],
            "value": curve.values[i],
            "low": curve.low[i],
            "high": curve.high[i],
        }
        for name, curve in lines
        for i in places
    ]
    names = [name for name, _ in lines]
    style = line_style(names, width)
    ends = (curves.thresholds[0], curves.thresholds[-1])
    x = along("threshold", ends, title="threshold", grid=False, tickCount=max(5, width // 110), offset=5)
    top = max((row["high"] for row in rows), default=1.0)
    y = partial(along, domain=(0, top), title=title, format="~%", tickCount=5, offset=5)
    inside = [
        {"threshold": threshold} for threshold in own if curves.thresholds[0] <= threshold <= curves.thresholds[-1]
    ]
    layers = [
        mark_layer(rows, {"type": "area", "opacity": 0.2}, x=x, y=y("low"), y2="high", color=style["color"]),
        mark_layer(inside, {"type": "rule", "color": LIGHT["ink"], "strokeWidth": 1, "strokeDash": [3, 3]}, x=x),
        mark_layer(rows, {"type": "line", "strokeWidth": 2.2}, x=x, y=y("value"), **style),
    ]
    return {"layer": layers, "width": width - SCALE, "height": HEIGHT}
