"""The mitigation tables as pictures: gaps before and after, and gaps of classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenhand.reproduce.mitigation import tables
from evenhand.reproduce.mitigation.record import MitigationRecord
from evenhand.reproduce.mitigation.subgroups import GIVEN
from evenhand.reproduce.mitigation.tables import method_label
from evenhand.view import LIGHT, SERIES, FigureSource, Spec, add_figures, drawing

if TYPE_CHECKING:
    import altair as alt


LABELS = 120
"""Of these, the names of the rows."""

SHAPES = ("diamond", "circle", "square", "triangle-up", "cross")

WIDE = 880
BESIDE = 700
"""Pixels from which two panels stand side by side."""


def plot_mitigation_tables(found: MitigationRecord) -> alt.TopLevelMixin:
    """Return both pictures above each other, as far as their tables were made."""
    parts = [draw(found) for draw, made in ((draw_gaps, found.mended), (draw_classifiers, found.classifiers)) if made]
    return drawing.to_altair(drawing.stack_charts(parts, " ".join(part["description"] for part in parts)))


def draw_gaps(found: MitigationRecord, *, width: int = WIDE) -> Spec:
    """The widest gap by data set: one mark per method, people kept aside left, samples as the paper counts right."""
    rows = tables.subgroup_rows(found)
    names = [GIVEN, *found.settings.methods]
    panels = [
        _dot_panels(
            [
                {"row": row.case, "gap": 100 * float(getattr(row, name)), "series": method_label(row.method)}
                for row in rows
            ],
            [method_label(name) for name in names],
            title=title,
            axis="gap in percentage points",
            width=width,
        )
        for name, title in (("gap", "People kept aside"), ("sampled_gap", "Samples, as the paper counts"))
    ]  # fmt: skip
    said = "; ".join(
        f"{row.case} {100 * row.gap:.1f} points"
        + "".join(
            f", {other.method} {100 * other.gap:.1f}"
            for other in rows
            if other.case == row.case and other.method != GIVEN
        )
        for row in rows
        if row.method == GIVEN
    )
    return drawing.finish_chart(_side_by_side(panels, width), f"The widest gap on people kept aside, before: {said}.")


def draw_classifiers(found: MitigationRecord, *, width: int = WIDE) -> Spec:
    """Draw gaps of the classifiers by environment: demographic parity left, equal opportunity right."""
    rows = tables.classifier_rows(found)
    names = list(dict.fromkeys(row.classifier for row in rows))
    panels = [
        _dot_panels(
            [
                {"row": row.environment, "gap": 100 * float(getattr(row, name)), "series": row.classifier}
                for row in rows
            ],
            names,
            title=title,
            axis="gap in percentage points",
            width=width,
        )
        for name, title in (("demographic_parity", "Demographic parity"), ("equal_opportunity", "Equal opportunity"))
    ]  # fmt: skip
    said = "; ".join(f"{row.environment}, {row.classifier} {100 * row.demographic_parity:.1f} points" for row in rows)
    return drawing.finish_chart(_side_by_side(panels, width), f"Gap of demographic parity by environment: {said}.")


def _dot_panels(rows: Sequence[Spec], series: Sequence[str], *, title: str, axis: str, width: int) -> Spec:
    colours = [LIGHT["ink"], *(LIGHT[role] for role in SERIES)]
    scale = {"domain": list(series)}
    legend = {"title": None, "symbolOpacity": 1, "columns": 3 if width >= BESIDE else 2}
    return drawing.mark_layer(
        rows,
        {"type": "point", "filled": True, "size": 75, "opacity": 0.9},
        x={
            "field": "gap",
            "type": "quantitative",
            "scale": {"zero": True},
            "axis": {"title": axis, "tickCount": 5},
        },
        y={
            "field": "row",
            "type": "nominal",
            "sort": list(dict.fromkeys(str(row["row"]) for row in rows)),
            "axis": {"title": None, "labelLimit": LABELS, "grid": True},
        },
        color={
            "field": "series",
            "type": "nominal",
            "scale": scale | {"range": colours[: len(series)]},
            "legend": legend,
        },
        shape={
            "field": "series",
            "type": "nominal",
            "scale": scale | {"range": [SHAPES[i % len(SHAPES)] for i in range(len(series))]},
            "legend": legend,
        },
    ) | {"title": title, "width": _panel_width(width), "height": {"step": 30}}


def _panel_width(width: int) -> int:
    """Return the width of one panel's drawing."""
    return (width - 34) // 2 - LABELS if width >= BESIDE else width - LABELS


add_figures(
    {
        "reproduced classifiers": FigureSource(__name__, "draw_classifiers", "svg"),
        "reproduced gaps": FigureSource(__name__, "draw_gaps", "svg"),
    }
)


def _side_by_side(panels: list[Spec], width: int) -> Spec:
    """Return panels beside each other, or above each other where there is no room."""
    return {"hconcat" if width >= BESIDE else "vconcat": panels, "spacing": 34}
