"""Counterfactual flip rates as dots with intervals: of people, of texts, and below the groups of a whole audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.core.text import SIMULATED, format_percent
from evenhand.individual.flips import FlipRate
from evenhand.individual.result import IndividualResult
from evenhand.individual.search.texts import TextSearchResult
from evenhand.stats.quantity import Estimated, Observed, Proved, Unknown
from evenhand.view.charts.groups import draw_groups, plot_groups
from evenhand.view.drawing.axis import percentages, spread
from evenhand.view.drawing.rows import Block, Dot, Label, Panel, Row, RowChart, together
from evenhand.view.drawing.theme import LIGHT, Spec, finish_chart, mark_layer

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult


def draw_flips(result: IndividualResult) -> RowChart:
    """Return one row per protected attribute and set of people. Filled dots are observed, hollow diamonds estimated."""
    known = [(rate, number) for rate in result.rates if not isinstance(number := rate.headline.rate, Unknown)]
    rows = tuple(Row(_name(rate), (_marks(quantity),)) for rate, quantity in known)
    top = max((getattr(quantity, "high", quantity.value) for _, quantity in known), default=0.0) or 0.01
    axis = spread(0.0, top, percentages, about=4, whole=True)
    parts = "; ".join(f"{_name(rate)}: {format_percent(one.value)} ({one.kind})" for rate, one in known)
    changing = "with these attributes" if result.compares_counterparts else "when only these attributes change"
    return RowChart(
        f"Counterfactual flip rate: share of people whose decision changes {changing}. {parts}.",
        (Block(rows=rows, panels=(Panel(axis),), names=280),),
    )


def _name(rate: FlipRate) -> str:
    people = "people in the data" if rate.over == "data" else SIMULATED
    return f"{' x '.join(rate.protected)}, {people}"


def _marks(quantity: Proved | Observed | Estimated) -> tuple[Dot, Label]:
    low, high = getattr(quantity, "low", quantity.value), getattr(quantity, "high", quantity.value)
    observed = quantity.kind == "observed"
    dot = Dot(quantity.value, low, high, shape="circle" if observed else "diamond", filled=observed)
    return dot, Label(high, format_percent(quantity.value))


def draw_text_flips(result: TextSearchResult, *, width: int = 880) -> Spec:
    """Return one row per category, the highest rate first."""
    known = [(rate.protected[0], rate.rate) for rate in result.rates if not isinstance(rate.rate, Unknown)]
    rows = [
        {
            "name": name.replace("_", " "),
            "value": rate.value,
            "low": getattr(rate, "low", rate.value),
            "high": getattr(rate, "high", rate.value),
            "shown": format_percent(rate.value),
        }
        for name, rate in sorted(known, key=lambda one: -one[1].value)
    ]
    axis = {"format": "%", "tickCount": 5, "title": None}
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "axis": {"title": None, "grid": False}}

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "axis": axis}

    blue = {"value": LIGHT["same"]}
    layers = [
        mark_layer(rows, {"type": "rule", "strokeWidth": 2}, y=y, x=x("low"), x2={"field": "high"}, color=blue),
        mark_layer(rows, {"type": "point", "filled": True, "size": 70, "opacity": 1}, y=y, x=x("value"), color=blue),
        mark_layer(
            rows,
            {"type": "text", "align": "left", "dx": 9},
            y=y,
            x=x("high"),
            text={"field": "shown", "type": "nominal"},
        ),
    ]
    said = "; ".join(f"{row['name']} {row['shown']}" for row in rows)
    description = f"Share of texts whose label flips when identity terms are swapped, observed. {said}."
    return finish_chart({"layer": layers, "width": width - 200, "height": {"step": 28}}, description)


def plot_audit(audit: AuditResult) -> Spec | RowChart:
    """Draw group metrics above counterfactual flip rates; of numbers quantile curves, of labels confusions."""
    if audit.groups.outcome is not None or audit.groups.by_label is not None:
        return plot_groups(audit.groups)
    flips = [] if audit.individual is None else [draw_flips(audit.individual)]
    return together([draw_groups(audit.groups), *flips])
