"""A labelled sample as a picture: what is said of the items that show each value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.view import drawing
from evenhand.view.drawing import LIGHT, WIDE, Spec

if TYPE_CHECKING:
    import altair as alt

    from evenhand.genai import ConfusionResult

CELL_SIZE = 84
"""Width of a square at most; it is half as high."""

NAMES_WIDTH = 130
"""Pixels for the names of the rows."""

MAX_VALUES = 20
"""Values drawn at most; more names and numbers do not fit."""


def plot_confusion(result: ConfusionResult) -> alt.TopLevelMixin:
    """Return the counts as squares."""
    return drawing.to_altair(draw_counts(result))


def draw_counts(result: ConfusionResult, *, width: int = WIDE) -> Spec:
    """Draw a square for every true value and what is said of it: blue where that is right, orange where it is wrong."""
    names = [*result.sample.values[:MAX_VALUES], None]
    words = {name: "no value" if name is None else name for name in names}
    rows = [
        {
            "shown": words[one["true"]],
            "said": "cannot tell" if one["said"] is None else one["said"],
            "items": f"{one['items']:,}",
            "share": one["share"] or 0.0,
            "colour": LIGHT["same"] if one["true"] == one["said"] else LIGHT["different"],
        }
        for one in result.cells()
        if one["true"] in names and one["said"] in names
    ]
    across = [*names[:-1], "cannot tell"]
    down = [words[name] for name in names]
    x: Spec = {"field": "said", "type": "nominal", "sort": across, "axis": {"title": "said", "orient": "top",
                                                                           "labelAngle": 0}}  # fmt: skip
    y: Spec = {"field": "shown", "type": "nominal", "sort": down, "axis": {"title": "shown"}}
    layers = [
        drawing.mark_layer(
            rows,
            {"type": "rect", "stroke": LIGHT["grid"]},
            x=x,
            y=y,
            color=drawing.literal_color("colour"),
            opacity={
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 1], "range": [0.03, 0.5]},
                "legend": None,
            },
        ),
        drawing.mark_layer(rows, {"type": "text"}, x=x, y=y, text={"field": "items", "type": "nominal"}),
    ]
    said = "; ".join(f"{row['shown']} said to be {row['said']}: {row['items']}" for row in rows)
    side = min(CELL_SIZE, (width - NAMES_WIDTH) // len(names))
    return drawing.finish_chart({"layer": layers, "width": side * len(names), "height": side * len(names) // 2}, said)
