"""No text of a chart leaves its frame or covers another one, at any width that pages and notebooks have."""

from __future__ import annotations

import doctest
import itertools
import re
import string
from typing import NamedTuple
from xml.etree import ElementTree as ET

import layout
import pytest
from layout import Face, Placed
from pictured import PICTURED, collect_figures, document, pictured

from evenhand.core.document import Figure
from evenhand.view.charts import FIGURES, draw
from evenhand.view.charts.mitigation import place_names
from evenhand.view.drawing import axis, fonts, theme
from evenhand.view.drawing.axis import Axis
from evenhand.view.drawing.rows import Block, RowChart
from evenhand.view.drawing.theme import NARROW, WIDE, finish_chart, mark_layer, to_svg
from evenhand.view.page_template import template_environment

NOTEBOOK = 950
"""Pixels of a chart in a notebook at most."""

MARGIN = 16
"""Pixels beside everything that a page or a fragment in a notebook shows."""


class Sheet(NamedTuple):
    """What the style sheet says: how wide figures are, and what blocks of rows leave to their panels."""

    figure: int
    padding: int
    gap: int
    names: int
    narrow: bool


SHEETS = (Sheet(896, 32, 48, 1000, narrow=False), Sheet(358, 20, 12, 120, narrow=True))
"""On a desk, and on a telephone of 390 pixels."""


def panel_width(chart: RowChart, block: Block, sheet: Sheet) -> float:
    """Return how wide the panels of a block are drawn."""
    room = sheet.figure - sheet.padding
    if block.place == "above":
        return room - 13
    if block.place == "beside" and sheet.narrow:
        return room - block.label_width
    figures = sum((56, 104)[i > 0] + 16 for i in range(len(block.headings)))
    names = min(chart.name_width, sheet.names) + (figures if block.place == "beside" else 0)
    return (room - names) / len(block.panels) - sheet.gap - block.label_width


def ticks(axis: Axis, width: float, left: float) -> list[Placed]:
    """Return where the numbers at a level axis stand."""
    widths = layout.measure_texts(Face(text, 12, False) for _, text in axis.ticks if text)
    return [
        Placed(face.text, at - one / 2, 0, at + one / 2, 9)
        for face, one in widths.items()
        for at in (left + width * axis.at(value) / 100 for value, text in axis.ticks if text == face.text)
    ]


def complaints(svg: str, width: float) -> list[object]:
    frame, texts = layout.place_texts(svg)
    assert texts
    wide = [] if frame[0] <= width else [f"{frame[0]} pixels wide"]
    return [*wide, *layout.outside(texts, frame), *layout.collisions(texts)]


def figures(name: str, *forms: str) -> list[Figure]:
    """Return the figures of a result that are drawn in one of some ways."""
    return [one for one in collect_figures(document(name).blocks) if FIGURES[one.chart].form in forms]


def drawn_as(*forms: str) -> list[str]:
    return [name for name, (_, charts) in PICTURED.items() if {FIGURES[one].form for one in charts} & set(forms)]


def test_every_chart_of_the_package_is_here():
    assert set().union(*(charts for _, charts in PICTURED.values())) == set(FIGURES)


@pytest.mark.parametrize("name", PICTURED)
def test_texts_of_drawings_keep_clear_of_each_other(name):
    assert {one.chart for one in collect_figures(document(name).blocks)} == PICTURED[name][1]
    for figure in figures(name, "svg"):
        drawn = draw(figure, "x").chart
        assert complaints(drawn.wide, WIDE) == [], figure.chart
        assert complaints(drawn.narrow, NARROW) == [], figure.chart


@pytest.mark.parametrize("name", PICTURED)
def test_texts_in_notebooks_keep_clear_of_each_other(name, monkeypatch):
    # What Altair would check against its schema is checked elsewhere, in a second for each chart.
    monkeypatch.setattr(theme, "to_altair", lambda chart: chart if isinstance(chart, dict) else chart.spec)
    assert complaints(to_svg(pictured(name).plot(), name="x"), NOTEBOOK) == []


@pytest.mark.parametrize("sheet", SHEETS, ids=["desk", "telephone"])
@pytest.mark.parametrize("name", drawn_as("rows"))
def test_numbers_at_axes_of_pages_keep_clear_of_each_other(name, sheet):
    for figure in figures(name, "rows"):
        chart = draw(figure, "x").chart
        axes = [(panel.axis, panel_width(chart, block, sheet)) for block in chart.blocks for panel in block.panels]
        for along, width in axes:
            if not along.ticks:
                continue
            placed = ticks(along, width, sheet.figure - sheet.padding - width)
            assert width > 90
            assert layout.collisions(placed) == [], figure.chart
            assert max(one.right for one in placed) <= sheet.figure + MARGIN, figure.chart
            assert min(one.left for one in placed) >= -MARGIN, figure.chart


def test_numbers_of_reliability_squares_keep_clear_of_each_other():
    (figure,) = (one for one in figures("audit", "squares") if one.arguments == ("sex",))
    source = '{% import "charts.html" as draw %}{{ draw.reliability(panels, "sex", "about it") }}'
    drawn = template_environment().from_string(source).render(panels=draw(figure, "x").chart)
    squares = re.findall(r"<svg.*?</svg>", drawn, re.S)
    assert len(squares) == 2
    for square in squares:
        frame, texts = layout.place_texts(square)
        assert len(texts) == 8
        assert layout.collisions(texts) == []
        assert layout.outside(texts, frame) == []


def test_widths_are_those_of_the_font():
    letters = string.printable.strip() + "\N{MINUS SIGN}\N{HORIZONTAL ELLIPSIS}"
    faces = [Face(f"H{letter}H", 12, bold) for letter in letters for bold in (False, True)]
    for face, width in layout.measure_texts(faces).items():
        assert fonts.text_width(face.text, face.size, bold=face.bold) == pytest.approx(width, abs=0.1), face


def test_examples_in_the_texts_hold():
    for module in (axis, fonts):
        tested = doctest.testmod(module)
        assert tested.attempted
        assert not tested.failed


@pytest.mark.parametrize("room", [30, 90, 200])
def test_lines_of_a_name_fit(room):
    name = "Married-civ-spouse, Amer-Indian-Eskimo, Female, 36 to 47 years"
    for lines in (1, 2, 3):
        made = fonts.wrap_text(name, room, lines=lines)
        assert len(made) <= lines
        assert all(fonts.text_width(line) <= room for line in made)
        assert name.startswith("".join(made)[:2])
        assert made[-1].endswith("\N{HORIZONTAL ELLIPSIS}") or " ".join(made) == name
    assert fonts.wrap_text("", room) == [""]


def test_a_wider_font_of_the_reader_changes_nothing():
    spec = finish_chart(
        mark_layer(
            [{"word": "a & b"}, {"word": "\N{CJK UNIFIED IDEOGRAPH-4E2D}"}],
            {"type": "text"},
            text={"field": "word", "type": "nominal"},
        ),
        "words",
    )
    texts = [one for one in ET.fromstring(to_svg(spec, name="x")).iter() if one.tag.endswith("}text")]
    widths = {one.text: one.get("textLength") for one in texts}
    assert widths == {"a & b": f"{fonts.text_width('a & b'):.1f}", "\N{CJK UNIFIED IDEOGRAPH-4E2D}": None}


def test_names_of_points_never_overlap():
    points = itertools.product((0.0, 0.3, 1.0), repeat=2)
    rows = [{"name": f"{100 * i}", "gap": gap, "accuracy": accuracy} for i, (gap, accuracy) in enumerate(points)] * 3
    whole = Axis(0.0, 1.0, ())
    placed = place_names(rows, whole, whole, 300)
    assert 9 <= sum(map(len, placed.values())) < 27
