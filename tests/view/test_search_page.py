"""The page of a search: complete, no script, every number with its kind; and its screen at any width."""

import vl_convert
from page import Page
from pictured import SUBJECT, document, pictured

from evenhand import view
from evenhand.individual import search
from support import small_schema


def test_the_page_of_nothing_and_of_an_interrupt():
    nothing = search.search(
        lambda frame: frame["grade"] / 20,
        small_schema(grade=(0, 20), sex="f m *"),
        method="random",
        seeds=5,
        samples=10,
    )
    root = Page(view.render_page(nothing.document(SUBJECT))).root
    assert [one.attributes["id"] for one in root.one("main").all("section")] == ["summary", "method"]
    assert "evenhand certify" in root.text
    stopped = pictured("search").model_copy(update={"interrupted": True, "stopped_by": "interrupt"})
    assert "was interrupted" in Page(view.render_page(stopped.document(SUBJECT))).root.one("section", id="summary").text


def test_vega_draws_the_gaps_alone(monkeypatch):
    drawn, draw = [], vl_convert.vegalite_to_svg

    def counted(spec, **more):
        drawn.append(spec["description"])
        return draw(spec, **more)

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", counted)
    assert view.render_page(document("search")).count("<figure>") == 1
    assert len(drawn) == 2  # for wide and for narrow screens
    assert all(description.startswith("Score gaps") for description in drawn)
