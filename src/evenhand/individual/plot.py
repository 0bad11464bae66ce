"""Violation rates as dots with intervals: over the data and over everyone who could apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import charts
from evenhand.charts import LIGHT, Spec
from evenhand.individual.result import IndividualResult, Rate
from evenhand.stats import Unknown

if TYPE_CHECKING:
    import altair as alt

WIDE = 880
"""Pixels from which names stand beside the dots; below, they stand above them."""

LABELS = 280
Y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}


def plot(result: IndividualResult) -> alt.TopLevelMixin:
    """One row per protected attribute and set of people: the share whose decision flips, with its interval."""
    return charts.altair(draw(result))


def draw(result: IndividualResult, *, width: int = WIDE) -> Spec:
    """One row per protected attribute and set of people. Filled dots are observed, hollow diamonds estimated."""
    rows = [row for i, rate in enumerate(result.rates) if (row := _row(i, rate)) is not None]
    beside = width >= WIDE
    top = max((row["high"] for row in rows), default=0.0) or 0.01
    axis = {"format": "%" if top > 0.06 else ".1%" if top > 0.006 else ".2%", "tickCount": 5, "title": None}

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": {"domain": [0, top], "nice": True}, "axis": axis}

    color = charts.painted("color")
    layers = [
        charts.marks(
            rows,
            {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
            y=Y,
            x=x("low"),
            x2={"field": "high"},
            color=color,
        ),
        charts.marks(
            rows,
            {"type": "point", "size": 70, "opacity": 1, "strokeWidth": 1.8},
            y=Y,
            x=x("value"),
            shape=charts.painted("shape"),
            stroke=color,
            fill=charts.painted("fill"),
        ),
        charts.marks(
            rows,
            {"type": "text", "align": "left", "dx": 9},
            y=Y,
            x=x("high"),
            text={"field": "shown", "type": "nominal"},
        ),
    ]
    name = {"y": Y, "x": {"value": 0}, "text": {"field": "name", "type": "nominal"}}
    parts = "; ".join(row["words"] for row in rows)
    description = f"Share of people whose decision flips when only these attributes change. {parts}."
    if beside:
        names = charts.marks(rows, {"type": "text", "align": "left", "limit": LABELS - 10}, **name)
        names |= {"width": LABELS, "height": {"step": 26}}
        dots = {"layer": layers, "width": width - LABELS - 70, "height": {"step": 26}}
        return charts.finished({"hconcat": [names, dots], "spacing": 10}, description)
    layers.append(charts.marks(rows, {"type": "text", "align": "left", "dy": -15, "limit": width}, **name))
    return charts.finished({"layer": layers, "width": width - 60, "height": {"step": 42}}, description)


def _row(i: int, rate: Rate) -> Spec | None:
    quantity = rate.rate
    if isinstance(quantity, Unknown):
        return None
    people = "people in the data" if rate.over == "data" else "everyone who could apply"
    name = f"{' x '.join(rate.protected)}, {people}"
    return {
        "row": f"{i:04d}",
        "name": name,
        "words": f"{name}: {charts.percent(quantity.value)} ({quantity.kind})",
        "value": quantity.value,
        "low": getattr(quantity, "low", quantity.value),
        "high": getattr(quantity, "high", quantity.value),
        "shown": charts.percent(quantity.value),
        "color": LIGHT["same"],
        "fill": LIGHT["same" if quantity.kind == "observed" else "paper"],
        "shape": "circle" if quantity.kind == "observed" else "diamond",
    }
