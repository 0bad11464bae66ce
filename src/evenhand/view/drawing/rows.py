"""Charts of rows: names, with dots, intervals, bars or ticks on a common axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from evenhand.view.drawing.axis import Axis
from evenhand.view.drawing.fonts import text_width, wrap_text
from evenhand.view.drawing.theme import LIGHT, Spec, finish_chart, literal_color, mark_layer

WIDTH = 880
"""Width of a chart in a notebook, in pixels. On a page, a chart fills the available width."""


LABEL_GAP, INDENT, LINE = 9, 14, 15
"""Sizes in pixels: gap between a mark and the text to its right, indent per level, and height of a line."""


Shape: TypeAlias = Literal["circle", "diamond"]


@dataclass(frozen=True)
class Dot:
    """A number with its interval; without one, both ends equal the number."""

    value: float
    low: float
    high: float
    role: str = "same"
    shape: Shape = "circle"
    filled: bool = True


def dot_for(quantity: Any, role: str = "same", shape: Shape = "circle", *, filled: bool = True) -> Dot:
    """Build the dot of a quantity with its interval, if it has one."""
    value = quantity.value
    return Dot(value, getattr(quantity, "low", value), getattr(quantity, "high", value), role, shape, filled)


@dataclass(frozen=True)
class Bar:
    """Segment of a bar."""

    low: float
    high: float
    role: str


@dataclass(frozen=True)
class Span:
    """A thin line between two numbers."""

    low: float
    high: float
    role: str


@dataclass(frozen=True)
class Tick:
    """A short vertical line at a number; a heavy one is visible on top of bars."""

    value: float
    heavy: bool = False


@dataclass(frozen=True)
class Label:
    """A text to the right of a number."""

    value: float
    text: str


Mark: TypeAlias = Dot | Bar | Span | Tick | Label


@dataclass(frozen=True)
class Line:
    """A vertical line through all rows."""

    value: float
    role: str = "muted"
    dashed: bool = True


@dataclass(frozen=True)
class Panel:
    """Axis with reference lines.

    Attributes:
        title: title above the panel.
        axis: of all rows.
        lines: vertical lines through all rows.
    """

    axis: Axis
    title: str = ""
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Row:
    """One row of every panel.

    Attributes:
        name: name of the row.
        marks: marks of each panel, in order.
        figures: numbers after the name, one per heading of the block.
        aside: the same numbers in words, for narrow screens.
        indent: nesting level below the rows above it.
        role: colour of the words.
    """

    name: str
    marks: tuple[tuple[Mark, ...], ...]
    figures: tuple[str, ...] = ()
    aside: str = ""
    indent: int = 0
    role: str = "ink"


@dataclass(frozen=True)
class Block:
    """Rows that share their panels.

    Attributes:
        rows: rows from top to bottom.
        panels: panels, side by side, or below each other if there is no room.
        title: title above the rows.
        headings: headings above the figures of the rows.
        names: maximum width of the names in pixels.
        place: position of the names: ``beside`` the panels, or above each row if there is no room; ``left`` of them
            at any width (short names); ``above`` each row at any width.
        height: height of a row in pixels.
    """

    rows: tuple[Row, ...]
    panels: tuple[Panel, ...]
    title: str = ""
    headings: tuple[str, ...] = ()
    names: int = 190
    place: Literal["beside", "left", "above"] = "beside"
    height: int = 24

    @property
    def name_width(self) -> int:
        """Width of the names in pixels."""
        widths = (text_width(row.name) + INDENT * row.indent for row in self.rows)
        return min(self.names, math.ceil(max(widths, default=0)) + 2)

    @property
    def name_lines(self) -> int:
        """Maximum number of lines of a name in a notebook."""
        return max(1, self.height // LINE)

    @property
    def label_width(self) -> int:
        """Width of the texts to the right of marks, in pixels."""
        labels = (mark.text for row in self.rows for marks in row.marks for mark in marks if isinstance(mark, Label))
        return math.ceil(max((text_width(text) + LABEL_GAP for text in labels), default=0))


@dataclass(frozen=True)
class RowChart:
    """Blocks of rows below each other.

    Attributes:
        description: content in words, for screen readers.
        blocks: rows from top to bottom.
        legend: role of a colour -> its meaning.
    """

    description: str
    blocks: tuple[Block, ...]
    legend: tuple[tuple[str, str], ...] = ()

    @property
    def name_width(self) -> int:
        """Width of the names in pixels, equal in all blocks, so that their axes are aligned."""
        return max((block.name_width for block in self.blocks), default=0)

    @property
    def spec(self) -> Spec:
        """The chart for a notebook."""
        legend = [_legend(self.legend)] if self.legend else []
        parts = [_block(block, self.name_width) for block in self.blocks]
        return finish_chart({"vconcat": [*legend, *parts], "spacing": 20}, self.description)


def join_rows(charts: Iterable[RowChart]) -> RowChart:
    """Join charts below each other into one."""
    charts = list(charts)
    return RowChart(
        " ".join(chart.description for chart in charts),
        tuple(block for chart in charts for block in chart.blocks),
        tuple(dict.fromkeys(entry for chart in charts for entry in chart.legend)),
    )


FIGURE = 104
"""Width of a figure in pixels."""

Y: Spec = {"field": "row", "type": "nominal", "axis": None, "sort": None}


def _block(block: Block, names: int) -> Spec:
    height = {"height": {"step": max(block.height, 24)}}
    texts: list[Spec] = [{"layer": [_texts(block, _names(block, names), "left")], "width": names}]
    for i, heading in enumerate(block.headings):
        figures = [{"text": row.figures[i], "x": FIGURE} for row in block.rows]
        title = {"text": heading, "anchor": "end", "fontWeight": "normal", "fontSize": 12, "color": LIGHT["muted"]}
        texts.append({"layer": [_texts(block, figures, "right")], "width": FIGURE, "title": title})
    room = WIDTH - names - len(block.headings) * (FIGURE + 14) - block.label_width
    width = room / len(block.panels) - 34
    panels = [_panel(block, i, width) for i in range(len(block.panels))]
    titled: Spec = {"title": block.title} if block.title else {}
    return titled | {"hconcat": [part | height for part in (*texts, *panels)], "spacing": 14}


def _names(block: Block, names: int) -> list[Spec]:
    return [
        {
            "text": "\n".join(wrap_text(row.name, names - INDENT * row.indent, lines=block.name_lines)),
            "x": INDENT * row.indent,
        }
        for row in block.rows
    ]


def _texts(block: Block, texts: Sequence[Spec], align: str) -> Spec:
    rows = [
        {"row": _key(i), "ink": LIGHT[row.role]} | text
        for i, (row, text) in enumerate(zip(block.rows, texts, strict=True))
    ]
    mark = {"type": "text", "align": align, "lineBreak": "\n", "lineHeight": 14}
    x = {"field": "x", "type": "quantitative", "scale": None, "axis": None}
    return mark_layer(rows, mark, y=Y, x=x, text="text", color=literal_color("ink"))


def _panel(block: Block, i: int, width: float) -> Spec:
    panel = block.panels[i]
    texts = [text for _, text in panel.axis.ticks]
    axis: Spec = {"values": [value for value, _ in panel.axis.ticks], "title": None, "labelSeparation": 6}
    axis["labelExpr"] = f"{texts}[round(datum.index * {len(texts) - 1})]"
    scale: Spec = {"domain": [panel.axis.low, panel.axis.high], "nice": False, "clamp": True}

    def x(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    # An empty layer that has every row, so that one without a number keeps its place.
    every = [{"row": _key(k), "end": panel.axis.low} for k in range(len(block.rows))]
    layers = [mark_layer(every, {"type": "point", "stroke": "transparent"}, y=Y, x=x("end"))]
    for line in panel.lines:
        rule = {"type": "rule", "color": LIGHT[line.role]} | ({"strokeDash": [4, 3]} if line.dashed else {})
        layers.append(mark_layer([{"value": line.value}], rule, x=x("value")))
    every_mark = [(k, mark) for k, row in enumerate(block.rows) for mark in row.marks[i]]
    for kind, draw in _DRAWN.items():
        rows = [_row(k, mark) for k, mark in every_mark if isinstance(mark, kind)]
        layers += draw(rows, x) if rows else []
    return ({"title": panel.title} if panel.title else {}) | {"layer": layers, "width": width}


def _row(k: int, mark: Mark) -> Spec:
    row = {"row": _key(k)} | vars(mark)
    if not isinstance(mark, Label | Tick):
        row["color"] = LIGHT[mark.role]
    if isinstance(mark, Dot):
        row["fill"] = row["color"] if mark.filled else LIGHT["paper"]
    return row


def _bars(rows: list[Spec], x: Any) -> list[Spec]:
    bar = {"type": "bar", "height": 14, "stroke": LIGHT["paper"], "strokeWidth": 1}
    return [mark_layer(rows, bar, y=Y, x=x("low"), x2="high", color=literal_color("color"))]


def _spans(rows: list[Spec], x: Any) -> list[Spec]:
    rule = {"type": "rule", "strokeWidth": 2, "strokeCap": "round"}
    return [mark_layer(rows, rule, y=Y, x=x("low"), x2="high", color=literal_color("color"))]


def _dots(rows: list[Spec], x: Any) -> list[Spec]:
    point = {"type": "point", "size": 64, "opacity": 1, "strokeWidth": 1.8}
    paint = {"stroke": literal_color("color"), "fill": literal_color("fill"), "shape": literal_color("shape")}
    return [*_spans(rows, x), mark_layer(rows, point, y=Y, x=x("value"), **paint)]


def _ticks(rows: list[Spec], x: Any) -> list[Spec]:
    tick = {"type": "tick", "color": LIGHT["ink"], "opacity": 1}
    looks = ((False, {"thickness": 1.5, "size": 15}), (True, {"thickness": 2.5, "size": 26}))
    alike = [([row for row in rows if row["heavy"] is heavy], look) for heavy, look in looks]
    return [mark_layer(own, tick | look, y=Y, x=x("value")) for own, look in alike if own]


def _labels(rows: list[Spec], x: Any) -> list[Spec]:
    text = {"type": "text", "align": "left", "dx": LABEL_GAP}
    return [mark_layer(rows, text, y=Y, x=x("value"), text="text")]


_DRAWN = {Bar: _bars, Span: _spans, Dot: _dots, Tick: _ticks, Label: _labels}
"""Functions that draw each kind of mark, from the bottom up."""


def _legend(entries: Sequence[tuple[str, str]]) -> Spec:
    rows, at = [], 8.0
    for role, text in entries:
        rows.append({"x": at, "text": text, "color": LIGHT[role]})
        at += 40 + text_width(text)
    x = {"field": "x", "type": "quantitative", "scale": None, "axis": None}
    square = {"type": "point", "shape": "square", "size": 100, "opacity": 1}
    words = {"type": "text", "align": "left", "dx": 10}
    return {
        "layer": [
            mark_layer(rows, square, x=x, stroke=literal_color("color"), fill=literal_color("color")),
            mark_layer(rows, words, x=x, text="text"),
        ],
        "width": WIDTH,
        "height": 18,
    }


def _key(i: int) -> str:
    return f"{i:04d}"
