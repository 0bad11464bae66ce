"""Drawings of papers, made again: published points hollow, ours filled, a colour for each line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.reproduce.comparison.record import ComparedFigure, PaperReproductionRecord
from evenhand.view import LIGHT, SERIES, FigureSource, Spec, add_figures, drawing

if TYPE_CHECKING:
    import altair as alt

WIDE = 880
KINDS = {
    "published": ([4, 3], "circle"),
    "published method": ([1, 0], "square"),
    "our method": ([8, 2, 2, 2], "triangle-up"),
}
"""Whose figures: how a line is dashed, and the shape of its points."""


def plot_comparisons(found: PaperReproductionRecord) -> alt.TopLevelMixin:
    """Return all drawings above each other; of a paper without any, published figures against ours."""
    places = [i for i, table in enumerate(found.tables) if table.horizontal]
    parts = [draw_comparison(found, place) for place in places] or [draw_agreement(found)]
    return drawing.to_altair(drawing.stack_charts(parts, " ".join(part["description"] for part in parts)))


def draw_comparison(found: PaperReproductionRecord, position: int, *, width: int = WIDE) -> Spec:
    """Draw one drawing of the paper: a panel for each measure, a colour for each row."""
    table = found.tables[position]
    placed = [figure for figure in table.figures if figure.at is not None]
    names = list(dict.fromkeys(figure.row for figure in placed))
    panels = []
    for measure in dict.fromkeys(figure.measure for figure in placed):
        own = [figure for figure in placed if figure.measure == measure]
        unit = f", {own[0].unit}" if own[0].unit else ""
        panels.append(
            _panel(_points(own), names, horizontal=table.horizontal, vertical=measure + unit, width=width - 90)
        )
    said = "; ".join(dict.fromkeys(figure.measure for figure in placed))
    return drawing.finish_chart({"vconcat": panels, "spacing": 26}, f"{table.number}, {table.title}: {said}.")


def draw_agreement(found: PaperReproductionRecord, *, width: int = WIDE) -> Spec:
    """Draw how many figures of each table agree, are better, differ, or are not compared."""
    roles = {"agrees": "same", "better": "third", "differs": "different", "not compared": "open"}
    rows = [
        {"table": table.number, "verdict": verdict, "count": sum(one.verdict == verdict for one in table.figures)}
        for table in found.tables
        for verdict in roles
    ]
    chart = drawing.mark_layer(
        rows,
        {"type": "bar"},
        x={"field": "count", "type": "quantitative", "axis": {"title": "figures", "tickMinStep": 1}},
        y={
            "field": "table",
            "type": "nominal",
            "sort": [table.number for table in found.tables],
            "axis": {"title": None},
        },
        color={
            "field": "verdict",
            "type": "nominal",
            "scale": {"domain": list(roles), "range": [LIGHT[role] for role in roles.values()]},
            "legend": {"title": None},
        },
    ) | {"width": width - 220, "height": {"step": 26}}
    return drawing.finish_chart(chart, "How many figures of each table agree with the published ones.")


def _points(figures: list[ComparedFigure]) -> list[Spec]:
    points = []
    for figure in figures:
        values = (
            figure.published,
            None if figure.ours is None else figure.ours.value,
            None if figure.default is None else figure.default.value,
        )
        points += [
            {"at": figure.at, "value": value, "row": figure.row, "kind": kind}
            for kind, value in zip(KINDS, values, strict=True)
            if value is not None
        ]
    return points


def _panel(points: list[Spec], names: list[str], *, horizontal: str, vertical: str, width: int) -> Spec:
    colours = [LIGHT[SERIES[i % len(SERIES)]] for i in range(len(names))]
    scale = {"zero": False, "padding": 14}
    # Away from the lowest number of the other axis, and as many as fit.
    ticks = {"grid": False, "labelPadding": 8, "tickCount": max(2, width // 90)}
    x: Spec = {"field": "at", "type": "quantitative", "axis": ticks | {"title": horizontal}, "scale": scale}
    y: Spec = {"field": "value", "type": "quantitative", "axis": {"title": vertical, "tickCount": 5}}
    color: Spec = {
        "field": "row",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {"title": None, "columns": max(1, width // 190)} if len(names) > 1 else None,
    }
    by_kind: Spec = {
        "field": "kind",
        "type": "nominal",
        "legend": {"title": None, "columns": 3 if width > 300 else 2, "orient": "bottom"},
    }
    kinds = [kind for kind in KINDS if any(point["kind"] == kind for point in points)]
    looks = [KINDS[kind] for kind in kinds]
    dash = by_kind | {"scale": {"domain": kinds, "range": [dashes for dashes, _ in looks]}}
    shape = by_kind | {"scale": {"domain": kinds, "range": [shape for _, shape in looks]}}
    return {
        "layer": [
            drawing.mark_layer(points, {"type": "line", "strokeWidth": 1.6}, x=x, y=y, color=color, strokeDash=dash),
            drawing.mark_layer(points, {"type": "point", "size": 45}, x=x, y=y, color=color, shape=shape),
        ],
        "width": width,
        "height": 220,
    }


add_figures({"published beside ours": FigureSource(__name__, "draw_comparison", "svg")})
