"""Charts: whole, readable in every light, and nothing in them but pictures."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import examples
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenhand import charts
from evenhand.certify.plot import draw_history, draw_shares
from evenhand.certify.slice_plot import draw_slices
from evenhand.groups.plot import MOST, draw_breakdown, draw_calibration, drawn
from evenhand.individual.plot import draw as draw_flips
from evenhand.subgroup.plot import draw_gaps as draw_subgroups
from evenhand.subgroup.plot import draw_nesting

FULL = examples.full()
DRAWINGS = {
    "groups": (draw_breakdown, FULL.groups.breakdowns[2]),
    "calibration": (draw_calibration, FULL.groups.calibration),
    "flips": (draw_flips, FULL.individual),
    "shares": (draw_shares, FULL.certificates),
    "history": (draw_history, FULL.certificates),
    "slices": (draw_slices, FULL.certificates[0]),
    "subgroup gaps": (draw_subgroups, FULL.subgroups),
    "nested subgroups": (draw_nesting, FULL.subgroups),
}


@pytest.mark.parametrize("width", [880, 330])
@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_whole_and_fit(name, width):
    draw, what = DRAWINGS[name]
    drawing = charts.svg(draw(what, width=width), name="one")
    root = ET.fromstring(drawing)
    across = float(root.attrib["viewBox"].split()[2])
    assert across <= width + 1
    assert root.attrib["aria-label"]
    assert re.findall(r'\sid="(?!one-)', drawing) == []
    for element in root.iter():
        assert element.tag.split("}")[1] in (
            "svg",
            "g",
            "path",
            "line",
            "rect",
            "text",
            "tspan",
            "defs",
            "clipPath",
            "title",
        )
        assert not any("href" in attribute for attribute in element.attrib)
        for attribute in ("fill", "stroke"):
            colour = element.attrib.get(attribute, "none")
            # every colour has a counterpart for dark pages; what is drawn in no colour is not seen
            assert colour in (*charts.LIGHT.values(), "none", "transparent"), (
                colour,
                ET.tostring(element)[:200],
            )


def test_words_of_users_cannot_leave_their_place():
    hostile = "</text></svg><script>alert(1)</script> ' \" & \x00\x1b \\ datum.x"
    group = examples.group({"sex": hostile}, 50, 0.2)
    breakdown = examples.breakdown(("sex",), [group, examples.group({"sex": "m"}, 50, 0.3)])
    root = ET.fromstring(charts.svg(draw_breakdown(breakdown, width=330), name="one"))
    words = [element.text or "" for element in root.iter() if element.tag.endswith("}text")]
    assert any(text.startswith("</text></svg><script>") for text in words)
    assert not any(element.tag.endswith("script") for element in root.iter())


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=()), max_size=8))
@example("\x00")
@example("\ud800\uffff")
@example("if")
def test_any_word_can_be_drawn(word):
    text = {"field": "word", "type": "nominal"}
    spec = charts.finished(charts.marks([{"word": word}], {"type": "text"}, text=text) | {"title": word}, word)
    ET.fromstring(charts.svg(spec, name="one"))


def test_identifiers_in_drawings_are_told_apart():
    clipped = {"type": "point", "clip": True}
    x = {"field": "x", "type": "quantitative"}
    spec = charts.finished(charts.marks([{"x": 1}], clipped, x=x), "a point")
    for name in ("one", "two"):
        drawing = charts.svg(spec, name=name)
        (identifier,) = re.findall(r'\sid="([^"]*)"', drawing)
        assert identifier.startswith(f"{name}-")
        assert f"url(#{identifier})" in drawing


def test_the_same_chart_gives_the_same_drawing():
    first, second = (charts.svg(draw_flips(FULL.individual), name="one") for _ in range(2))
    assert first == second


def test_dark_pages_repaint_every_role():
    style = charts.stylesheet()
    assert charts.LIGHT.keys() == charts.DARK.keys()
    for role, light in charts.LIGHT.items():
        assert f'[fill="{light}"] {{ fill: {charts.DARK[role]}; }}' in style
        assert f'[stroke="{light}"] {{ stroke: {charts.DARK[role]}; }}' in style
    assert len(set(charts.LIGHT.values())) == len(charts.LIGHT)


@pytest.mark.parametrize("palette", [charts.LIGHT, charts.DARK])
def test_parts_of_a_bar_differ_in_grey(palette):
    grey = sorted(brightness(palette[role]) for role in ("same", "open", "different"))
    assert grey[1] - grey[0] > 0.1
    assert grey[2] - grey[1] > 0.1


def brightness(colour: str) -> float:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


@pytest.mark.parametrize(
    "result", [FULL, FULL.groups, FULL.individual, FULL.certificates[0]], ids=lambda result: result.kind
)
def test_notebooks_get_altair_charts(result):
    spec = json.loads(result.plot().to_json())  # Altair checks it against the Vega-Lite schema
    assert spec["description"]
    assert spec["config"]["font"] == charts.FONT


def values(spec, mark):
    """Rows of all layers of that mark in a specification."""
    found = []
    if isinstance(spec, dict):
        if isinstance(spec.get("mark"), dict) and spec["mark"]["type"] == mark:
            found += spec["data"]["values"]
        for inner in spec.values():
            found += values(inner, mark)
    elif isinstance(spec, list):
        for inner in spec:
            found += values(inner, mark)
    return found


def test_small_groups_are_hollow_and_grey_in_the_drawing():
    spec = draw_breakdown(FULL.groups.breakdowns[2])
    dots = [row for row in values(spec, "point") if "value" in row]
    small = [row for row in dots if row["group"] == "Other, Female"]
    assert len(small) == 3
    assert {(row["color"], row["fill"]) for row in small} == {(charts.LIGHT["faint"], charts.LIGHT["paper"])}
    assert {row["color"] for row in dots if row not in small} == {charts.LIGHT["same"]}
    assert "Other, Female 4.8 % (small group)" in spec["description"]


def test_dots_and_intervals_stand_where_the_numbers_say():
    breakdown = FULL.groups.breakdowns[1]
    (line,) = [row for row in values(draw_breakdown(breakdown), "rule") if "threshold" in row]
    rates = {group.label: group.metrics["selection_rate"] for group in breakdown.groups}
    assert line["threshold"] == pytest.approx(0.8 * rates["Male"].value)
    selection = draw_breakdown(breakdown)["hconcat"][1]
    for row in [row for row in values(selection, "point") if "value" in row]:
        rate = rates[row["group"]]
        assert (row["low"], row["value"], row["high"]) == (rate.low, rate.value, rate.high)


def test_of_many_groups_the_highest_and_lowest_are_drawn():
    many = [examples.group({"country": str(i)}, 1000, i / 200) for i in range(100)]
    shown = drawn(examples.breakdown(("country",), many))
    assert len(shown) == MOST
    assert [group.label for group in shown] == [str(i) for i in [*range(99, 79, -1), *range(19, -1, -1)]]


def test_bars_add_up_and_the_mark_is_where_the_estimate_is():
    certificate = FULL.certificates[1]
    parts = values(draw_shares([certificate])["vconcat"][0], "bar")
    assert [part["part"] for part in parts] == [
        "provably the same decision", "undecided", "provably different decisions"
    ]  # fmt: skip
    assert [part["right"] - part["left"] for part in parts] == pytest.approx(
        [certificate.certified, certificate.undecided, certificate.falsified]
    )
    assert parts[-1]["right"] == pytest.approx(1)
    (mark,) = values(draw_shares([certificate])["vconcat"][0], "tick")
    assert mark["value"] == pytest.approx(1 - certificate.estimate.unfair)


def test_the_enlarged_end_holds_all_that_is_not_the_same():
    spec = draw_shares(FULL.certificates)
    enlarged = spec["vconcat"][1]
    assert enlarged["title"] == "The last 5 % of the same bars, enlarged"
    assert all(row["left"] >= 0.95 for row in values(enlarged, "bar"))
    assert all(1 - certificate.certified <= 0.05 for certificate in FULL.certificates)


@pytest.mark.parametrize("undecided", [0.0, 1e-12, 0.03, 0.6, 1.0])
def test_history_begins_with_everything_undecided_and_never_leaves_the_axis(undecided):
    certificate = examples.certificate(("sex",), 1 - undecided, 0.0, 0.0)
    spec = draw_history([certificate])
    low, high = spec["encoding"]["y"]["scale"]["domain"]
    rows = values(spec, "line")
    assert (rows[0]["seconds"], rows[0]["undecided"]) == (0.0, 1.0)
    assert all(low <= row["undecided"] <= high for row in rows)
    assert low > 0 or "type" not in spec["encoding"]["y"]["scale"]
    ET.fromstring(charts.svg(spec, name="one"))


@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.999999, 0.0)])
def test_certificates_that_are_all_of_one_kind_can_be_drawn(shares):
    certificate = examples.certificate(("sex",), *shares, shares[1])
    ET.fromstring(charts.svg(draw_shares([certificate]), name="one"))
