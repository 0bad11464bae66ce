"""Charts of confusion matrices: of a classifier of items, and of the labels of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenhand.view.drawing.fonts import cut_text, text_width
from evenhand.view.drawing.theme import LIGHT, WIDE, Spec, finish_chart, literal_color, mark_layer

if TYPE_CHECKING:
    from evenhand.genai.classifiers.confusion import ConfusionResult
    from evenhand.groups.breakdown import Group
    from evenhand.groups.result import GroupMetrics

CELL_SIZE = 84
"""Width of a cell, unless names above it are wider or there is no room. Its height is half the width."""

LONGEST_NAME = 150
"""Maximum width of a name in pixels. Longer names are cut."""

MAX_VALUES = 20
"""Maximum number of values drawn, because more names and numbers do not fit."""

MAX_LABELS, MAX_GROUPS = 12, 8
"""Maximum numbers of labels and groups drawn, because more do not fit. The largest groups are drawn."""

LABEL_NAME, LARGEST_CELL, ROOM_FOR_COUNTS = 96, 62, 44
"""Sizes in pixels: maximum of a label's name, maximum of a cell, and size of a cell that also shows counts."""


def draw_counts(result: ConfusionResult, *, width: int = WIDE) -> Spec:
    """Draw a cell for each pair of a true and a predicted value: blue if they agree, orange otherwise."""
    values = result.sample.values[:MAX_VALUES]
    names = [*values, None]
    words = {name: "no value" if name is None else name for name in names}
    rows = [
        {
            "shown": words[cell["true"]],
            "said": "cannot tell" if cell["said"] is None else cell["said"],
            "items": f"{cell['items']:,}",
            "share": cell["share"] or 0.0,
            "colour": LIGHT["same"] if cell["true"] == cell["said"] else LIGHT["different"],
        }
        for cell in result.cells()
        if cell["true"] in names and cell["said"] in names
    ]
    across = [*values, "cannot tell"]
    down = [words[name] for name in names]
    name_width = min(LONGEST_NAME, max(map(text_width, down)))
    widest = math.ceil(max(map(text_width, across))) + 8
    side = min(max(CELL_SIZE, widest), (width - math.ceil(name_width) - 34) // len(names))
    x, y, squares = _draw_squares(rows, across, down, ("said", "shown"), LONGEST_NAME, upright=side < widest)
    layers = [squares, mark_layer(rows, {"type": "text"}, x=x, y=y, text="items")]
    description = "; ".join(f"{row['shown']} said to be {row['said']}: {row['items']}" for row in rows)
    height = max(18, min(side, CELL_SIZE) // 2) * len(names)
    return finish_chart({"layer": layers, "width": side * len(names), "height": height}, description)


def draw_group_confusions(result: GroupMetrics, by: str, *, width: int = WIDE) -> Spec:
    """Draw the confusion matrix of every group by one attribute: rows are true labels, columns assigned labels.

    A cell is the share of its row, blue if the assigned label is the true one and orange otherwise; the number
    of people is below it if there is room. Only the most frequent true labels are drawn.
    """
    groups = [group for each in result.breakdowns if each.by == (by,) for group in each.groups if group.confusion]
    assert result.label_set is not None
    largest, labels = sorted(groups, key=lambda group: -group.size)[:MAX_GROUPS], result.label_set.labels
    truly = [sum(row) for row in result.everyone.confusion]
    commonest = sorted(range(len(truly)), key=lambda i: -truly[i])[:MAX_LABELS]
    indices = [i for i in range(len(truly)) if i in commonest]
    names = [labels[i] for i in indices]
    name_width = min(LABEL_NAME, math.ceil(max(map(text_width, names)))) + 44
    across = 1 if width < WIDE else min(len(largest), 3)
    side = min(LARGEST_CELL, ((width - 20 * (across - 1)) // across - name_width) // len(names))
    side = max(side, 18)
    panels = [_draw_cells(group, result.min_group_size, indices, names, side) for group in groups if group in largest]
    right = "; ".join(
        f"{group.label} {name}: {group.confusion[i][i]:,} of {sum(group.confusion[i]):,}"
        for group in groups
        if group in largest
        for i, name in zip(indices, names, strict=True)
    )
    spec: Spec = {"concat": panels, "columns": across, "spacing": 20}
    return finish_chart(spec, f"True and assigned labels by {by}; assigned the true label: {right}.")


def _draw_cells(group: Group, min_group_size: int, indices: list[int], names: list[str], side: int) -> Spec:
    """Draw the confusion matrix of one group."""
    rows = []
    for i, true in zip(indices, names, strict=True):
        people = sum(group.confusion[i])
        for j, predicted in zip(indices, names, strict=True):
            share = group.confusion[i][j] / people if people else 0.0
            rows.append(
                {
                    "true": true,
                    "given": predicted,
                    "share": share,
                    "percent": f"{100 * share:.0f}" if people else "-",
                    "people": f"{group.confusion[i][j]:,}",
                    "colour": LIGHT["same"] if i == j else LIGHT["different"],
                }
            )
    upright = side < max(map(text_width, names)) + 4
    x, y, squares = _draw_squares(rows, names, names, ("given", "true"), LABEL_NAME, upright=upright)
    counts = side >= ROOM_FOR_COUNTS
    percent = {"type": "text", "fontSize": 12 if side >= 34 else 9, "dy": -6 if counts else 0}
    layers = [squares, mark_layer(rows, percent, x=x, y=y, text="percent")]
    if counts:
        small = {"type": "text", "fontSize": 10, "dy": 9, "color": LIGHT["muted"]}
        layers.append(mark_layer(rows, small, x=x, y=y, text="people"))
    room = side * len(names)
    few = ", too few" if group.size < min_group_size else ""
    size = cut_text(f"{group.size:,} people{few}", room)
    # Bold letters of a title are about a fifth wider.
    title = {"text": cut_text(group.label, room / 1.2), "subtitle": size, "subtitleFontSize": 12}
    return {
        "title": title,
        "layer": layers,
        "width": side * len(names),
        "height": max(side, 24) * len(names),
    }


def _draw_squares(
    rows: Sequence[Spec],
    across: Sequence[str],
    down: Sequence[str],
    titles: tuple[str, str],
    limit: int,
    *,
    upright: bool,
) -> tuple[Spec, Spec, Spec]:
    """Return both axes, which have the names of their fields, and a layer of squares that are darker for more."""
    looks = {"labelLimit": limit, "labelOverlap": False}
    top = looks | {"title": titles[0], "orient": "top", "labelAngle": -90 if upright else 0}
    x: Spec = {"field": titles[0], "type": "nominal", "sort": list(across), "axis": top}
    y: Spec = {"field": titles[1], "type": "nominal", "sort": list(down), "axis": looks | {"title": titles[1]}}
    scale = {"domain": [0, 1], "range": [0.03, 0.5]}
    opacity = {"field": "share", "type": "quantitative", "scale": scale, "legend": None}
    rect = {"type": "rect", "stroke": LIGHT["grid"]}
    return x, y, mark_layer(rows, rect, x=x, y=y, color=literal_color("colour"), opacity=opacity)
