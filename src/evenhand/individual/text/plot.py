"""The share of texts whose label flips, by category, as dots with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.charts import LIGHT, Spec
from evenhand.individual.text.result import TextResult
from evenhand.stats import Unknown

if TYPE_CHECKING:
    import altair as alt


def plot(result: TextResult) -> alt.TopLevelMixin:
    """One row per category: the share of texts with such words whose label some swap changes."""
    return charts.altair(draw(result))


def draw(result: TextResult, *, width: int = 880) -> Spec:
    """One row per category, the highest rate first."""
    known = [(count.category, count.rate) for count in result.counts if not isinstance(count.rate, Unknown)]
    rows = [
        {
            "name": name.replace("_", " "),
            "value": rate.value,
            "low": getattr(rate, "low", rate.value),
            "high": getattr(rate, "high", rate.value),
            "shown": charts.percent(rate.value),
        }
        for name, rate in sorted(known, key=lambda one: -one[1].value)
    ]
    axis = {"format": "%", "tickCount": 5, "title": None}
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "axis": {"title": None, "grid": False}}

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "axis": axis}

    blue = {"value": LIGHT["same"]}
    layers = [
        charts.marks(rows, {"type": "rule", "strokeWidth": 2}, y=y, x=x("low"), x2={"field": "high"}, color=blue),
        charts.marks(rows, {"type": "point", "filled": True, "size": 70, "opacity": 1}, y=y, x=x("value"), color=blue),
        charts.marks(
            rows,
            {"type": "text", "align": "left", "dx": 9},
            y=y,
            x=x("high"),
            text={"field": "shown", "type": "nominal"},
        ),
    ]
    said = "; ".join(f"{row['name']} {row['shown']}" for row in rows)
    description = f"Share of texts whose label flips when identity terms are swapped, observed. {said}."
    return charts.finished({"layer": layers, "width": width - 200, "height": {"step": 28}}, description)
