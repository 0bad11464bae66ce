"""Charts: what they show, where their texts stand, and how numbers are written."""

import doctest
import itertools
import json
import math
import re
import string
from typing import NamedTuple
from xml.etree import ElementTree as ET

import examples
import layout
import pytest
import vl_convert
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from layout import Face, Placed
from page import Element, Page
from pictured import PICTURED, collect_figures, document, pictured

from evenhand import view
from evenhand.core import document as document_module
from evenhand.core import text
from evenhand.core.document import Figure, SubjectCard
from evenhand.core.text import (
    format_against,
    format_duration,
    format_percent,
    list_some,
    percent_at_least,
    percent_at_most,
    strip_unprintable,
)
from evenhand.stats import Estimated, Observed
from evenhand.stats.quantity import COMBINED, explain_position, format_ends, format_interval, format_value
from evenhand.view.charts import FIGURES, draw
from evenhand.view.charts.certification import draw_shares, draw_slices
from evenhand.view.charts.groups import DRAWN as MOST
from evenhand.view.charts.groups import PANELS, draw_breakdown, draw_calibration, select_groups
from evenhand.view.charts.individual import draw_flips
from evenhand.view.charts.mitigation import place_names
from evenhand.view.charts.shields.simulation import draw_over_time
from evenhand.view.charts.subgroups import draw_gaps as draw_subgroups
from evenhand.view.drawing import axis, fonts, theme
from evenhand.view.drawing.axis import NARROW_PERCENT, Axis, differences, spread
from evenhand.view.drawing.rows import Bar, Block, Dot, Label, Panel, Row, RowChart, Span, Tick
from evenhand.view.drawing.theme import DARK, FONT, LIGHT, NARROW, WIDE, finish_chart, mark_layer, to_svg
from evenhand.view.page_template import template_environment
from support import scaled, shortened

FULL = examples.full()
ROWS = {
    "groups": draw_breakdown(FULL.groups.breakdowns[2]),
    "flips": draw_flips(FULL.individual),
    "shares": draw_shares(FULL.certificates),
    "slices": draw_slices(FULL.certificates[0]),
    "subgroup gaps": draw_subgroups(FULL.subgroups),
}


def page(chart) -> Element:
    """A chart as a page draws it."""
    source = '{% import "charts.html" as draw %}{{ draw.rows(chart, "about it") }}'
    return Page(template_environment().from_string(source).render(chart=chart)).root


def shown(text: str) -> str:
    """A text as a page has it: readable, and no line breaks before a unit."""
    return strip_unprintable(text).replace(" %", NARROW_PERCENT)


def colours(element) -> set[str]:
    return {element.attributes.get(attribute, "none") for attribute in ("fill", "stroke")}


@pytest.mark.parametrize("name", ROWS)
def test_a_page_draws_in_colours_that_dark_pages_have_too_and_says_it_in_words(name):
    root = page(ROWS[name])
    (image,) = root.all("div", role="img")
    assert image.attributes["aria-label"] == shown(ROWS[name].description)
    assert "chart" in image.attributes["class"].split()
    assert image.all("svg")
    for element in image.all():
        assert element.tag in ("div", "span", "svg", "path", "line", "rect", "text")
        assert not any("href" in attribute for attribute in element.attributes)
        assert colours(element) <= {*LIGHT.values(), "none"}


def percents(*values: float) -> list[str]:
    return [f"{value:.2f}%" for value in values]


def drawn_marks(root: Element) -> list[list[list[Element]]]:
    """What a page draws, by panel and row."""
    return [
        [[one for one in row.children if isinstance(one, Element)] for row in panel.all("svg", class_="marks")]
        for panel in root.all("div", class_="panel")
    ]


@pytest.mark.parametrize("name", ROWS)
def test_marks_stand_where_the_numbers_say(name):
    chart = ROWS[name]
    panels = [(block, i, panel) for block in chart.blocks for i, panel in enumerate(block.panels)]
    seen = 0
    for (block, i, panel), drawn_rows in zip(panels, drawn_marks(page(chart)), strict=True):
        at = panel.axis.at
        for row, elements in zip(block.rows, drawn_rows, strict=True):
            left = iter(elements)
            for mark in row.marks[i]:
                seen += 1
                if isinstance(mark, Bar):
                    bar = next(left)
                    assert percents(at(mark.low), at(mark.high) - at(mark.low)) == [
                        bar.attributes["x"],
                        bar.attributes["width"],
                    ]
                    continue
                if isinstance(mark, Span) or (isinstance(mark, Dot) and mark.low < mark.high):
                    line = next(left)
                    assert [line.attributes["x1"], line.attributes["x2"]] == percents(at(mark.low), at(mark.high))
                if not isinstance(mark, Span):
                    assert [next(left).attributes["x"]] == percents(at(mark.value))
            assert list(left) == []
    assert seen


@pytest.mark.parametrize("name", ROWS)
def test_no_number_lies_beyond_its_axis(name):
    for block in ROWS[name].blocks:
        for row in block.rows:
            for panel, marks in zip(block.panels, row.marks, strict=True):
                for mark in marks:
                    ends = [mark.value] if hasattr(mark, "value") else [mark.low, mark.high]
                    assert all(panel.axis.low - 1e-9 <= end <= panel.axis.high + 1e-9 for end in ends), mark


TAGS = {"svg", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath", "title"}


@pytest.mark.parametrize("name", ROWS)
def test_charts_of_notebooks_are_whole_and_fit(name):
    drawing = to_svg(ROWS[name].spec, name="one")
    root = ET.fromstring(drawing)
    assert float(root.attrib["viewBox"].split()[2]) <= 900
    assert root.attrib["aria-label"] == ROWS[name].description
    assert re.findall(r'\sid="(?!one-)', drawing) == []
    for element in root.iter():
        assert element.tag.split("}")[1] in TAGS
        assert not any("href" in attribute for attribute in element.attrib)
        for attribute in ("fill", "stroke"):
            colour = element.attrib.get(attribute, "none")
            # every colour has a counterpart for dark pages; what is drawn in no colour is not seen
            assert colour in (*LIGHT.values(), "none", "transparent"), ET.tostring(element)[:200]


HOSTILE = "</text></svg><script>alert(1)</script> ' \" & \x00\x1b \\ datum.x {{ 7 * 7 }}"


def test_words_of_users_cannot_leave_their_place():
    group = examples.group({"sex": HOSTILE}, 50, 0.2)
    chart = draw_breakdown(examples.breakdown(("sex",), [group, examples.group({"sex": "m"}, 50, 0.3)]))
    root = ET.fromstring(to_svg(chart.spec, name="one"))
    words = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("}text")]
    assert any(text.startswith("</text></svg><script>") for text in words)
    assert not any(element.tag.endswith("script") for element in root.iter())
    drawing = page(chart)
    names = [one.text for one in drawing.all("span", class_="name")]
    assert names == ["", shown(HOSTILE), "m"]
    assert [one.text for one in drawing.all("div", class_="above")][::2] == [f"{shown(HOSTILE)} 50 people"] * 3
    assert not drawing.all("script")
    assert shown(HOSTILE) in drawing.one("div", role="img").attributes["aria-label"]


@pytest.mark.parametrize("where", ["title", "heading", "figure", "label", "tick", "legend"])
def test_no_text_of_a_chart_is_taken_for_markup(where):
    text = {"title": "t", "heading": "h", "figure": "f", "label": "l", "tick": "k", "legend": "g"}
    text[where] = "<script>alert(1)</script>"
    axis = Axis(0, 1, ((0, text["tick"]),))
    row = Row("name", ((Label(0.5, text["label"]),),), figures=(text["figure"],))
    block = Block((row,), (Panel(axis),), text["title"], (text["heading"],))
    chart = RowChart("It shows something.", (block,), (("same", text["legend"]),))
    root = page(chart)
    assert not root.all("script")
    assert "<script>alert(1)</script>" in [child for one in root.all() for child in one.children]


def test_pages_of_audits_and_subgroups_are_drawn_without_vega(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a chart was drawn by Vega")

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", refuse)
    subject = SubjectCard("model", "people.csv", 9769, "income", "yes", label_only=False)
    assert view.render_page(FULL.subgroups.document(subject)).count("<figure>") == 1
    text = view.render_page(FULL.document())
    assert text.count('role="img"') >= len(FULL.groups.breakdowns) + len(FULL.certificates) + 3


@given(st.floats(-1e3, 1e3), st.floats(1e-6, 1e3), st.integers(3, 8))
def test_ticks_are_few_round_and_within(low, width, about):
    axis = spread(low, low + width, differences, about=about)
    values = [value for value, _ in axis.ticks]
    assert about / 2 - 1 <= len(values) <= 2 * about + 1
    slack = 1e-9 * width + 4 * math.ulp(abs(low) + width)
    assert all(axis.low - slack <= value <= axis.high + slack for value in values)
    gaps = [(after - before) / width for before, after in itertools.pairwise(values)]
    assert gaps == pytest.approx([gaps[0]] * len(gaps), rel=1e-5)
    assert 0 <= axis.at(low - 1) <= axis.at(low + width / 2) <= axis.at(low + width + 1) == 100


@given(st.floats(1e-9, 1e9), st.integers(3, 8))
def test_a_whole_axis_ends_in_a_tick(value, about):
    axis = spread(0, value, differences, about=about, whole=True)
    assert value * (1 - 1e-9) <= axis.high <= 2 * value
    assert axis.ticks[0][0] == 0
    assert axis.ticks[-1][0] == pytest.approx(axis.high)


@settings(max_examples=scaled(40))
@given(st.text(st.characters(exclude_categories=()), max_size=8))
@example("\x00")
@example("\ud800\uffff")
@example("if")
def test_any_word_can_be_drawn(word):
    text = {"field": "word", "type": "nominal"}
    spec = finish_chart(mark_layer([{"word": word}], {"type": "text"}, text=text) | {"title": word}, word)
    ET.fromstring(to_svg(spec, name="one"))


def test_identifiers_in_drawings_are_told_apart():
    clipped = {"type": "point", "clip": True}
    x = {"field": "x", "type": "quantitative"}
    spec = finish_chart(mark_layer([{"x": 1}], clipped, x=x), "a point")
    for name in ("one", "two"):
        drawing = to_svg(spec, name=name)
        (identifier,) = re.findall(r'\sid="([^"]*)"', drawing)
        assert identifier.startswith(f"{name}-")
        assert f"url(#{identifier})" in drawing


def test_dark_pages_repaint_every_role():
    style = theme.dark_stylesheet()
    assert LIGHT.keys() == DARK.keys()
    for role, light in LIGHT.items():
        assert f'[fill="{light}"] {{ fill: {DARK[role]}; }}' in style
        assert f'[stroke="{light}"] {{ stroke: {DARK[role]}; }}' in style
    assert len(set(LIGHT.values())) == len(LIGHT)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_parts_of_a_bar_differ_in_grey(palette):
    grey = sorted(brightness(palette[role]) for role in ("same", "open", "different"))
    assert grey[1] - grey[0] > 0.1
    assert grey[2] - grey[1] > 0.1


def brightness(colour: str) -> float:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


@pytest.mark.parametrize(
    "result",
    shortened([FULL.certificates[0], FULL.individual, FULL.groups, FULL], to=2),
    ids=lambda result: result.kind,
)
def test_notebooks_get_altair_charts(result):
    spec = json.loads(result.plot().to_json())  # Altair checks it against the Vega-Lite schema
    assert spec["description"]
    assert spec["config"]["font"] == FONT


def marks_of(chart, kind, panel=0):
    """Marks of a kind in one panel of each block, with the row's name."""
    return [
        (row.name, mark)
        for block in chart.blocks
        for row in block.rows
        for mark in row.marks[panel]
        if isinstance(mark, kind)
    ]


@pytest.mark.parametrize("panel", range(3))
def test_small_groups_are_hollow_and_grey_in_the_drawing(panel):
    chart = ROWS["groups"]
    dots = {name: (dot.role, dot.filled) for name, dot in marks_of(chart, Dot, panel)}
    assert dots.pop("Other, Female") == ("faint", False)
    assert len(dots) > 5
    assert set(dots.values()) == {("same", True)}
    assert "Other, Female 4.8 % (small group)" in chart.description


def test_dots_and_intervals_stand_for_the_numbers():
    breakdown = FULL.groups.breakdowns[1]
    chart = draw_breakdown(breakdown)
    (block,) = chart.blocks
    rates = {group.label: group.metrics for group in breakdown.groups}
    for i, metric in enumerate(PANELS):
        dots = marks_of(chart, Dot, i)
        assert [name for name, _ in dots] == list(rates)
        for name, dot in dots:
            rate = rates[name][metric]
            assert (dot.low, dot.value, dot.high) == (rate.low, rate.value, rate.high)
    (line,) = block.panels[0].lines
    assert line.value == pytest.approx(0.8 * rates["Male"]["selection_rate"].value)
    truths = {name: tick.value for name, tick in marks_of(chart, Tick)}
    assert truths == {name: metrics["base_rate"].value for name, metrics in rates.items()}


def test_flips_stand_for_the_rates():
    known = [rate for rate in FULL.individual.rates if rate.rate.kind != "unknown"]
    dots = [dot for _, dot in marks_of(ROWS["flips"], Dot)]
    assert [(dot.low, dot.value, dot.high) for dot in dots] == [
        (rate.rate.low, rate.rate.value, rate.rate.high) for rate in known
    ]
    assert [dot.filled for dot in dots] == [rate.rate.kind == "observed" for rate in known]
    labels = [label.text for _, label in marks_of(ROWS["flips"], Label)]
    assert labels == [format_percent(rate.rate.value) for rate in known]


def test_reliability_stands_for_the_bins():
    breakdown = FULL.groups.calibration[0]
    panels = draw_calibration(FULL.groups, breakdown.by[0])
    pairs = [(group.metrics["mean_score"], group.metrics["base_rate"]) for group in breakdown.groups]
    known = [(score.value, rate) for score, rate in pairs if rate.kind != "unknown"]
    assert [point[:4] for panel in panels for point in panel.bins] == [
        (score, rate.value, rate.low, rate.high) for score, rate in known
    ]
    source = '{% import "charts.html" as draw %}{{ draw.reliability(panels, "sex", "about it") }}'
    root = Page(template_environment().from_string(source).render(panels=panels)).root
    circles = [(float(one.attributes["cx"]), float(one.attributes["cy"])) for one in root.all("circle")]
    assert circles == [pytest.approx((140 * score, 140 - 140 * rate.value), abs=0.051) for score, rate in known]


def test_of_many_groups_the_highest_and_lowest_are_drawn():
    many = [examples.group({"country": str(i)}, 1000, i / 200) for i in range(100)]
    shown = select_groups(examples.breakdown(("country",), many))
    assert len(shown) == MOST
    assert [group.label for group in shown] == [str(i) for i in [*range(99, 79, -1), *range(19, -1, -1)]]


def test_bars_add_up_and_the_mark_is_where_the_estimate_is():
    certificate = FULL.certificates[1]
    chart = draw_shares([certificate])
    bars = [bar for _, bar in marks_of(RowChart("", chart.blocks[:1]), Bar)]
    assert [dict(chart.legend)[bar.role] for bar in bars] == [
        "certified fair: the same decision",
        "undecided",
        "certified unfair: different decisions",
    ]
    assert [bar.high - bar.low for bar in bars] == pytest.approx(
        [certificate.certified, certificate.undecided, certificate.falsified]
    )
    assert bars[-1].high == pytest.approx(1)
    ticks = [tick.value for _, tick in marks_of(chart, Tick)]
    assert ticks == pytest.approx([1 - certificate.estimate.unfair] * 2)


def test_the_enlarged_end_holds_all_that_is_not_the_same():
    _, enlarged = draw_shares(FULL.certificates).blocks
    assert enlarged.title == "The last 5 % of the same bars, enlarged"
    bars = [bar for _, bar in marks_of(RowChart("", (enlarged,)), Bar)]
    assert all(bar.low >= 0.95 for bar in bars)
    assert sum(bar.role == "different" for bar in bars) == len(FULL.certificates)
    assert all(1 - certificate.certified <= 0.05 for certificate in FULL.certificates)


@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.999999, 0.0)])
def test_certificates_that_are_all_of_one_kind_can_be_drawn(shares):
    certificate = examples.certificate(("sex",), *shares, shares[1])
    chart = draw_shares([certificate])
    ET.fromstring(to_svg(chart.spec, name="one"))
    assert page(chart).all("rect")


def test_a_bias_over_time_has_dots_where_it_is_checked():
    dots = [layer for layer in draw_over_time(pictured("simulation"))["layer"] if layer["mark"]["type"] == "point"]
    assert {row["decisions"] for row in dots[0]["data"]["values"]} == {24, 48, 72}


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


SHARES = st.floats(0, 1) | st.floats(1e-9, 1e-3) | st.floats(1e-9, 1e-3).map(lambda x: 1 - x)


def read(text: str) -> float:
    assert text.endswith(" %")
    return float(text.removesuffix(" %")) / 100


@pytest.mark.parametrize("module", [axis, fonts, text, document_module])
def test_the_examples_in_the_text_hold(module):
    tested = doctest.testmod(module)
    assert tested.failed == 0
    assert tested.attempted


@given(SHARES)
def test_percent_is_close_and_reaches_the_ends_only_there(share):
    assume(share == 0 or share > 1e-8)
    assume(share == 1 or share < 1 - 1e-8)
    shown = read(format_percent(share))
    assert abs(shown - share) <= 0.0005 + 1e-12
    assert (shown == 0) == (share == 0)
    assert (shown == 1) == (share == 1)


@given(SHARES)
def test_proved_bounds_are_rounded_to_the_safe_side(share):
    low, high = read(percent_at_least(share)), read(percent_at_most(share))
    assert low <= share + 1e-10
    assert high >= share - 1e-10
    assert high - low <= 0.0011


def observed(value: float, low: float, high: float) -> Observed:
    return Observed(value=value, n=1200, low=low, high=high, confidence=0.95, method="m")


@pytest.mark.parametrize(
    ("name", "quantity", "value", "ends"),
    [
        ("demographic_parity_difference", observed(0.1849, 0.1671, 0.2031), "0.18", "0.17 to 0.20"),
        ("auc", observed(0.8914, 0.8844, 0.8981), "0.891", "0.884 to 0.898"),
        ("calibration_gap", observed(-0.00042, -0.0063, 0.0061), "-0.0004", "-0.0063 to 0.0061"),
        ("demographic_parity_ratio", observed(0.31, 0.0, math.inf), "0.31", "0 to without limit"),
        ("demographic_parity_ratio", observed(0.00013, 0.00001, 0.2), "0.00013", "0.00001 to 0.20000"),
        ("selection_rate", observed(0.2061, 0.1981, 0.2142), "20.6 %", "19.8 to 21.4 %"),
        ("selection_rate", observed(0.00005, 0.000001, 0.00028), "0.0050 %", "0.0001 to 0.0280 %"),
        ("selection_rate", observed(1.0, 0.97, 1.0), "100 %", "97.0 to 100 %"),
        ("demographic_parity_difference", observed(0.11, 0.0031, 0.22), "0.11", "0.00 to 0.22"),
        ("rate", observed(0.1820889147, 0.18208891469, 0.18208891471), "18.2 %", "18.2 to 18.2 %"),
        ("rate", observed(0.1820889147, 0.18208, 0.18209), "18.2089 %", "18.2080 to 18.2090 %"),
        ("auc", observed(0.8123456789, 0.8123456789, 0.8123456789 + 1e-15), "0.81", "0.81 to 0.81"),
        ("mean", observed(1234.56789, 1234.56789, 1234.56789 + 1e-12), "1,234.57", "1,234.57 to 1,234.57"),
    ],
)
def test_a_number_and_its_interval_have_fitting_digits(name, quantity, value, ends):
    assert format_value(quantity, name) == value
    assert format_ends(quantity, name) == ends
    assert format_interval(quantity, name) == f"95 % interval {ends}"


@pytest.mark.parametrize(
    ("value", "low", "high", "method", "explained"),
    [
        (0.0732, 0.0727, 0.0732, COMBINED, True),
        (0.0730, 0.0727, 0.0732, COMBINED, False),
        (0.0732, 0.0727, 0.0732, "exact", False),
    ],
)
def test_an_estimate_at_an_end_of_its_interval_is_explained(value, low, high, method, explained):
    estimate = Estimated(value=value, low=low, high=high, confidence=0.95, n=9, population="p", method=method)
    assert bool(explain_position(estimate)) == explained
    assert not explain_position(observed(value, low, high))


@given(st.floats(0, 1.2))
def test_a_ratio_never_crosses_the_threshold_by_rounding(value):
    assume(abs(value - 0.8) > 1e-7)
    assert (float(format_against(value, 0.8)) < 0.8) == (value < 0.8)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (41.72, "41.7 s"), (185.2, "3 min 5 s"), (7384, "123 min 4 s")]
)
def test_durations(seconds, shown):
    assert format_duration(seconds) == shown


def test_lists_say_how_many_are_left_out():
    assert list_some(["a", "b"]) == "a, b"
    assert list_some([str(i) for i in range(15)], limit=3) == "0, 1, 2 and 12 more"
