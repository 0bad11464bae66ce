"""A simulated shield as people see it: the page, the screen at any width, the pictures in words."""

import io
from fractions import Fraction

import pytest
from page import Page, foreign_scripts
from rich.cells import cell_len
from rich.console import Console

from evenhand import view
from evenhand.core.document import Metric
from evenhand.shields import FairnessProperty, Inputs, ShieldPlan, simulate_shield
from evenhand.view.charts.shields.simulation import draw_over_time

INPUTS = Inputs(("a", "<b>"), (0.3, 0.7), (0.35, 0.6))


def plan(**given):
    return ShieldPlan(FairnessProperty("demographic_parity", Fraction("0.1")), INPUTS, 20, **given)


FINITE = simulate_shield(plan(), runs=300)
PERIODS = simulate_shield(plan(kind="static-fair"), runs=200, periods=3)
GREEDY = simulate_shield(plan(kind="greedy"), runs=100)


def screen(result, width=100):
    console = Console(file=io.StringIO(), width=width)
    view.show_document(result.document(), console=console)
    return console.file.getvalue()


@pytest.mark.parametrize("result", [FINITE, PERIODS, GREEDY], ids=["finite", "periods", "greedy"])
def test_the_page(result):
    html = view.render_page(result.document())
    assert html == view.render_page(type(result).from_json(result.to_json()).document())
    page = Page(html).root
    assert foreign_scripts(page) == []
    assert "://" not in html.replace("http://www.w3.org/", "")
    links = [link.attributes["href"] for link in page.one("nav").all("a")]
    assert links == [f"#{section.attributes['id']}" for section in page.one("main").all("section")]
    assert "a, <b>" in page.one("header").text
    quantities = page.one("section", id="summary").all("span", class_="quantity")
    answers = [block for block in result.document().blocks if isinstance(block, Metric)]
    assert [one.attributes["data-kind"] for one in quantities] == [answer.number.kind for answer in answers]
    values = [float(data.attributes["value"]) for data in page.one("section", id="summary").all("data")]
    assert values[:2] == [result.fair_share, result.fair_share_unshielded]
    rows = page.one("section", id="over-time").one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == [str(m.decisions) for m in result.over_time if m.checked]


def test_dots_where_it_is_checked():
    dots = [layer for layer in draw_over_time(PERIODS)["layer"] if layer["mark"]["type"] == "point"]
    assert {row["decisions"] for row in dots[0]["data"]["values"]} == {20, 40, 60}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_screen_fits(width):
    lines = screen(PERIODS, width).splitlines()
    assert max(map(cell_len, lines)) <= width
