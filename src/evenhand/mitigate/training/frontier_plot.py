"""The frontier as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.charts import LIGHT, Spec
from evenhand.stats import number

if TYPE_CHECKING:
    from evenhand.mitigate.training.frontier_result import FrontierPoint, FrontierResult

WIDE, HIGH = 620, 360


def draw(result: FrontierResult, *, width: int = WIDE) -> Spec:
    """Accuracy against the gap with their intervals; filled: on the frontier; a square: the given model."""
    points = [point for point in result.points if number(point.gap) is not None]
    rows = [_row(point) for point in points]
    given = [_row(result.given)] if result.given is not None and number(result.given.gap) is not None else []
    across = {
        "field": "gap",
        "type": "quantitative",
        "scale": {"zero": True, "nice": True},
        "axis": {"title": "largest gap between groups (fairer to the left)", "format": ".0%"},
    }
    up = {
        "field": "accuracy",
        "type": "quantitative",
        "scale": {"zero": False, "nice": True},
        "axis": {"title": "accuracy", "format": ".1%", "tickCount": 6},
    }
    on = sorted((row for row in rows if row["on"]), key=lambda row: (row["gap"], row["accuracy"]))
    both = [*rows, *given]
    layers = [
        charts.marks(both, {"type": "rule", "color": LIGHT["open"]}, x={**across, "field": "gap_low"},
                     x2={"field": "gap_high"}, y=up),
        charts.marks(both, {"type": "rule", "color": LIGHT["open"]}, x=across, y={**up, "field": "accuracy_low"},
                     y2={"field": "accuracy_high"}),
        charts.marks(on, {"type": "line", "color": LIGHT["same"], "strokeWidth": 1.5}, x=across, y=up,
                     order={"field": "gap"}),
        charts.marks(on, {"type": "point", "filled": True, "size": 80, "opacity": 1, "color": LIGHT["same"]},
                     x=across, y=up),
        charts.marks([row for row in rows if not row["on"]],
                     {"type": "point", "filled": True, "size": 70, "opacity": 1, "fill": LIGHT["paper"],
                      "stroke": LIGHT["faint"], "strokeWidth": 1.5}, x=across, y=up),
        charts.marks(given, {"type": "point", "shape": "square", "filled": True, "size": 80, "opacity": 1,
                             "color": LIGHT["different"]}, x=across, y=up),
        charts.marks(both, {"type": "text", "align": "left", "dx": 8, "dy": -8, "color": LIGHT["ink"]}, x=across, y=up,
                     text={"field": "name"}),
    ]  # fmt: skip
    said = "; ".join(
        f"{row['name']}: accuracy {row['accuracy']:.1%}, gap {row['gap']:.1%}".replace("%", " %") for row in both
    )
    return charts.finished(
        {"layer": layers, "width": width, "height": HIGH},
        f"Accuracy against the largest gap between groups, {result.method} by strength. {said}.",
    )


def _row(point: FrontierPoint) -> Spec:
    row: Spec = {
        "name": "given model" if point.strength is None else f"{point.strength:g}",
        "on": point.on_frontier,
    }
    for name in ("accuracy", "gap"):
        quantity = getattr(point, name)
        value = number(quantity)
        row |= {
            name: value,
            f"{name}_low": getattr(quantity, "low", value),
            f"{name}_high": getattr(quantity, "high", value),
        }
    return row
