"""A reproduction as pictures: where runs end, what shields cost, how long runs stay fair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenhand.reproduce.shields import tables
from evenhand.reproduce.shields.record import FINITE, PERIODIC, ReproductionRecord, SettingRuns
from evenhand.reproduce.shields.tables import LONG, NONE, PROPERTIES, UNSHIELDED, shield_label
from evenhand.text import format_percent
from evenhand.view import DASHES, LIGHT, SERIES, FigureSource, Spec, add_figures, drawing

if TYPE_CHECKING:
    import altair as alt


WIDE = 880
BESIDE = 700
"""Pixels from which two panels stand side by side."""

CLASS = 0.2
MOST = 4.0
"""Width of the classes of the normalised bias, and where the last one, which holds everything above, begins."""

ROLES = {NONE: "different", FINITE: "same"}
PERIODIC_ROLES = dict(zip(PERIODIC, ("third", "fourth", "same", "same", "muted"), strict=True)) | {NONE: "different"}
PERIODIC_DASHES = dict(
    zip(PERIODIC, (DASHES[1], DASHES[2], DASHES[0], DASHES[4], DASHES[3]), strict=True)
) | {NONE: DASHES[0]}  # fmt: skip


def plot_reproduction(found: ReproductionRecord) -> alt.TopLevelMixin:
    """Return all pictures above each other."""
    parts = [draw_bias(found), draw_losses(found), draw_periods(found)]
    return drawing.to_altair(drawing.stack_charts(parts, " ".join(part["description"] for part in parts)))


def draw_bias(found: ReproductionRecord, *, width: int = WIDE) -> Spec:
    """Draw the bias at the end divided by kappa: one column per property, without a shield above, with FinHzn below."""
    columns, said = [], []
    for name in PROPERTIES:
        cells = [
            cell for cell in tables.select_published(found.cells) if cell.shield == FINITE and cell.property == name
        ]
        if not cells:
            continue
        panels = []
        for which in (NONE, FINITE):
            shares, unfair = _bias_classes(cells, which)
            said.append(
                f"{LONG[name]}, {shield_label(which)}: {format_percent(unfair)} of runs end above the threshold"
            )
            panels.append(_histogram(shares, unfair, which, last=which == FINITE, width=_panel_width(width)))
        columns.append(
            {"vconcat": panels, "spacing": 10, "title": LONG[name].capitalize(), "resolve": {"scale": {"y": "shared"}}}
        )
    return drawing.finish_chart(
        side_by_side(columns, width), f"Bias at the end of a run divided by kappa. {'; '.join(said)}."
    )


def draw_losses(found: ReproductionRecord, *, width: int = WIDE) -> Spec:
    """Draw utility loss of FinHzn by environment: one dot per threshold, one panel per property."""
    rows = tables.finite_losses(found)
    kappas = list(found.settings.kappas)
    roles = [LIGHT[SERIES[i % len(SERIES)]] for i in range(len(kappas))]
    shapes = ["circle", "square", "triangle-up", "diamond", "cross"]
    panels, said = [], []
    for name in PROPERTIES:
        own = [row for row in rows if row.property == name]
        if not own:
            continue
        points = [
            {"environment": row.environment, "loss": loss, "kappa": kappa}
            for row in own
            for kappa, loss in zip(kappas, row.losses, strict=True)
            if loss is not None
        ]
        worst = max(points, key=lambda point: float(str(point["loss"])), default=None)
        if worst is not None:
            said.append(f"{LONG[name]}, at most {float(str(worst['loss'])):.1f} % ({worst['environment']})")
        legend = {"title": "threshold", "symbolOpacity": 1}
        scale = {"domain": kappas}
        panels.append(
            drawing.mark_layer(
                points,
                {"type": "point", "filled": True, "size": 70, "opacity": 0.95},
                x={
                    "field": "loss",
                    "type": "quantitative",
                    "scale": {"zero": True},
                    "axis": {"title": "right decisions lost, percent", "tickCount": 5},
                },
                y={
                    "field": "environment",
                    "type": "nominal",
                    "sort": list(found.environments),
                    "axis": {"title": None, "labelLimit": 160, "grid": True},
                },
                color={"field": "kappa", "type": "nominal", "scale": scale | {"range": roles}, "legend": legend},
                shape={
                    "field": "kappa",
                    "type": "nominal",
                    "scale": scale | {"range": shapes[: len(kappas)]},
                    "legend": legend,
                },
            )
            | {
                "title": LONG[name].capitalize(),
                "width": _panel_width(width) - 70,
                "height": {"step": 26},
            }
        )
    return drawing.finish_chart(
        side_by_side(panels, width), f"Utility loss of FinHzn by environment and threshold: {'; '.join(said)}."
    )


def draw_periods(found: ReproductionRecord, *, width: int = WIDE) -> Spec:
    """Draw share of runs that are fair at the end of each period, all periods before counted: one line per shield."""
    panels, said = [], []
    names = [shield_label(which) for which in (NONE, *PERIODIC)]
    colours = [LIGHT[PERIODIC_ROLES[which]] for which in (NONE, *PERIODIC)]
    dashes = [list(PERIODIC_DASHES[which]) for which in (NONE, *PERIODIC)]
    for name in PROPERTIES:
        rows = []
        for which in (NONE, *PERIODIC):
            shares = tables.period_shares(found, name, which)
            rows += [
                {"shield": shield_label(which), "period": period + 1, "share": share}
                for period, share in enumerate(shares)
            ]
            if shares:
                said.append(f"{LONG[name]}, {shield_label(which)}: {format_percent(shares[-1])} after the last")
        if not rows:
            continue
        legend = {
            "symbolType": "stroke",
            "symbolSize": 300,
            "symbolStrokeWidth": 2.5,
            "columns": 3 if width >= BESIDE else 2,
        }
        panels.append(
            drawing.mark_layer(
                rows,
                {"type": "line", "strokeWidth": 2.2, "point": {"size": 30}},
                x={
                    "field": "period",
                    "type": "quantitative",
                    "scale": {"domain": [1, found.settings.periods], "nice": False},
                    "axis": {
                        "title": "end of period",
                        "grid": False,
                        "format": "d",
                        "values": _whole_ticks(found.settings.periods),
                    },
                },
                y={
                    "field": "share",
                    "type": "quantitative",
                    "scale": {"domain": [0, 1]},
                    "axis": {"title": "fair runs", "format": "%", "tickCount": 5, "offset": 5},
                },
                color={
                    "field": "shield",
                    "type": "nominal",
                    "scale": {"domain": names, "range": colours},
                    "legend": legend,
                },
                strokeDash={
                    "field": "shield",
                    "type": "nominal",
                    "scale": {"domain": names, "range": dashes},
                    "legend": legend,
                },
            )
            | {"title": LONG[name].capitalize(), "width": _panel_width(width), "height": 210}
        )
    return drawing.finish_chart(
        side_by_side(panels, width), f"Share of runs that are fair at the end of each period. {'; '.join(said)}."
    )


def _bias_classes(cells: list[SettingRuns], which: str) -> tuple[list[float], float]:
    """Share of runs by class of their normalised bias, and of those that are not fair: exact tests decide that."""
    fair = np.array([one for cell in cells for one in (cell.fair_unshielded if which == NONE else cell.fair)])
    values = np.array(tables.normalise_bias(cells, which))
    # A fair run never lies beyond the line, nor an unfair one before it, whatever the division gives.
    values = np.where(fair, np.minimum(values, 1.0), np.maximum(values, np.nextafter(1.0, 2.0)))
    count = round(MOST / CLASS) + 1
    # Classes (low, high], so that a bias of exactly kappa is fair.
    place = np.clip(np.ceil(np.round(values / CLASS, 9)).astype(int) - 1, 0, count - 1)
    place = np.where(~fair, np.maximum(place, round(1 / CLASS)), place)
    shares = np.bincount(place, minlength=count) / len(values)
    return [float(share) for share in shares], float((~fair).mean())


def _histogram(shares: list[float], unfair: float, which: str, *, last: bool, width: int) -> Spec:
    rows = [{"low": i * CLASS, "high": (i + 1) * CLASS, "share": share} for i, share in enumerate(shares)]
    x: Spec = {
        "field": "low",
        "type": "quantitative",
        "scale": {"domain": [0, MOST + CLASS], "nice": False},
        "axis": {
            "title": "bias at the end / kappa" if last else None,
            "labels": last,
            "values": [0, 1, 2, 3, MOST],
            "labelExpr": f"datum.value == {MOST:g} ? '{MOST:g} or more' : datum.label",
            "grid": False,
        },
    }
    line = [{"low": 1.0, "said": f"{format_percent(unfair)} unfair"}]
    mark = {"type": "bar", "color": LIGHT[ROLES[which]], "stroke": LIGHT["paper"], "strokeWidth": 0.8}
    y = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, 1.3 * max(shares)], "nice": False},
        "axis": {"format": "~%", "title": "runs", "tickCount": 3, "offset": 5},
    }
    return {
        "layer": [
            drawing.mark_layer(rows, mark, x=x | {"bin": "binned"}, x2={"field": "high"}, y=y),
            drawing.mark_layer(line, {"type": "rule", "color": LIGHT["ink"], "strokeWidth": 1.2}, x=x),
            drawing.mark_layer(
                line,
                {"type": "text", "align": "left", "baseline": "top", "dx": 5, "y": 0},
                x=x,
                text={"field": "said", "type": "nominal"},
            ),
        ],
        "width": width,
        "height": 90,
        "title": {"text": UNSHIELDED if which == NONE else f"with {FINITE}", "fontWeight": "normal"},
    }


def _panel_width(width: int) -> int:
    """Return the width of one panel's drawing."""
    return (width - 170) // 2 if width >= BESIDE else width - 76


def side_by_side(panels: list[Spec], width: int) -> Spec:
    """Return panels beside each other, or above each other where there is no room."""
    return {"hconcat" if width >= BESIDE else "vconcat": panels, "spacing": 34}


def _whole_ticks(most: int) -> list[int]:
    return list(range(1, most + 1)) if most <= 12 else sorted({1, most, *range(0, most, 5)} - {0})


add_figures(
    {
        "reproduced bias": FigureSource(__name__, "draw_bias", "svg"),
        "reproduced losses": FigureSource(__name__, "draw_losses", "svg"),
        "reproduced periods": FigureSource(__name__, "draw_periods", "svg"),
    }
)
