"""The page of a search: complete, no script, every number with its kind; and its screen at any width."""

import io

import numpy as np
import pandas as pd
import pytest
import vl_convert
from page import Page, foreign_scripts
from rich.cells import cell_len
from rich.console import Console

from evenhand import view
from evenhand.core.document import SubjectCard
from evenhand.individual import search
from evenhand.schema import Attribute, Schema, Target, encode

SCHEMA = Schema(
    target=Target(name="hired", favourable="<yes>", values=("no", "<yes>")),
    attributes=(
        Attribute(name="grade", kind="integer", lower=0, upper=20),
        Attribute(name="sex", kind="categorical", values=("f", "m"), protected=True),
        Attribute(name="region", kind="categorical", values=("<b>north</b>", "south & west")),
    ),
)
SUBJECT = SubjectCard("model", "people.csv", 200, "hired", "<yes>", label_only=False)


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"grade": rng.integers(0, 21, 200), "sex": rng.choice(["f", "m"], 200)}
        | {"region": rng.choice(["<b>north</b>", "south & west"], 200)}
    )
    return search.search(
        lambda frame: 1 / (1 + np.exp(10.5 - frame["grade"] - 3 * (frame["sex"] == "m"))),
        encode(SCHEMA, frame),
        method="random",
        seeds=80,
        samples=200,
    )


def test_the_page(found):
    html = view.render_page(found.document(SUBJECT))
    assert html == view.render_page(found.document(SUBJECT))
    root = Page(html).root
    assert foreign_scripts(root) == []
    links = [link.attributes["href"] for link in root.one("nav").all("a")]
    assert links == [f"#{section.attributes['id']}" for section in root.one("main").all("section")]
    kinds = [one.attributes["data-kind"] for one in root.all("span", class_="quantity")]
    assert set(kinds) == {"estimated", "observed"}
    assert kinds.count("estimated") == len(found.rates)
    assert len(root.one("section", id="pairs").all("table", class_="pair")) == len(found.examples)
    assert "<b>north</b>" in root.one("section", id="pairs").text  # escaped, so that it is text
    assert "://" not in html.replace("http://www.w3.org/", "")


def test_the_page_of_nothing_and_of_an_interrupt(found):
    nothing = search.search(lambda frame: frame["grade"] / 20, SCHEMA, method="random", seeds=5, samples=10)
    root = Page(view.render_page(nothing.document(SUBJECT))).root
    assert [one.attributes["id"] for one in root.one("main").all("section")] == ["summary", "method"]
    assert "evenhand certify" in root.text
    stopped = found.model_copy(update={"interrupted": True, "stopped_by": "interrupt"})
    assert "was interrupted" in Page(view.render_page(stopped.document(SUBJECT))).root.one("section", id="summary").text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_screen_fits(found, width):
    console = Console(file=io.StringIO(), width=width)
    view.show_document(found.document(SUBJECT), console=console)
    text = console.file.getvalue()
    assert all(cell_len(line) <= width for line in text.splitlines())


def test_vega_draws_the_gaps_alone(found, monkeypatch):
    drawn, draw = [], vl_convert.vegalite_to_svg

    def counted(spec, **more):
        drawn.append(spec["description"])
        return draw(spec, **more)

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", counted)
    assert view.render_page(found.document(SUBJECT)).count("<figure>") == 1
    assert len(drawn) == 2  # for wide and for narrow screens
    assert all(description.startswith("Score gaps") for description in drawn)
