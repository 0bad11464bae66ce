"""A labelled sample as a picture: what is said of the items that show each value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from evenhand.view import drawing
from evenhand.view.drawing import LIGHT, WIDE, Spec

if TYPE_CHECKING:
    import altair as alt

    from evenhand.genai import ConfusionResult

CELL_SIZE = 84
"""Width of a square, unless names above it are wider or there is no room; it is half as high."""

LONGEST_NAME = 150
"""Pixels of a name at most; what is longer is cut."""

MAX_VALUES = 20
"""Values drawn at most; more names and numbers do not fit."""


def plot_confusion(result: ConfusionResult) -> alt.TopLevelMixin:
    """Return the counts as squares."""
    return drawing.to_altair(draw_counts(result))


def draw_counts(result: ConfusionResult, *, width: int = WIDE) -> Spec:
    """Draw a square for every true value and what is said of it: blue where that is right, orange where it is wrong."""
    values = result.sample.values[:MAX_VALUES]
    names = [*values, None]
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
    across = [*values, "cannot tell"]
    down = [words[name] for name in names]
    beside = min(LONGEST_NAME, max(map(drawing.text_width, down)))
    widest = math.ceil(max(map(drawing.text_width, across))) + 8
    side = min(max(CELL_SIZE, widest), (width - math.ceil(beside) - 34) // len(names))
    looks = {"labelLimit": LONGEST_NAME, "labelOverlap": False}
    top = looks | {"title": "said", "orient": "top", "labelAngle": -90 if side < widest else 0}
    x: Spec = {"field": "said", "type": "nominal", "sort": across, "axis": top}
    y: Spec = {"field": "shown", "type": "nominal", "sort": down, "axis": looks | {"title": "shown"}}
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
    height = max(18, min(side, CELL_SIZE) // 2) * len(names)
    return drawing.finish_chart({"layer": layers, "width": side * len(names), "height": height}, said)
