"""An assessed generator as people see it: the page with its pictures, the screen at any width, the charts in words."""

import base64
import io

import pytest
from page import Page
from rich.cells import cell_len
from rich.console import Console

from evenhand import charts
from evenhand.genai.assess import assess
from evenhand.genai.assessment_plot import ITEMS, LANES, draw_coverage, draw_timeline
from evenhand.genai.sequence import Recorded
from evenhand.report import assessment
from evenhand.report.assessment import render_assessment, show_assessment
from evenhand.report.thumbnails import LARGEST, thumbnails

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>'


def recorded(name="<run>"):
    labels = {"sex": ("m", "m", "m", None, "f"), "age": ("o", "y", None, "o", "o")}
    return Recorded(name, labels, {"sex": ("f", "m"), "age": ("o", "y")}, ("a.png", None, "b.svg", "no.png", "c.txt"))


RESULT = assess(
    [recorded()], repeated={"sex": 2, ("sex", "age"): 4}, conditions={"asked": "leader"}, source="some & such"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.svg").write_bytes(SVG)
    (tmp_path / "c.txt").write_bytes(b"no picture")
    return tmp_path


def test_the_page_stands_alone_and_says_what_was_found(folder):
    html = render_assessment(RESULT, folder=folder)
    page = Page(html).root
    assert page.all("script") == []
    assert "http" not in html.replace("http://www.w3.org/", "")
    links = [link.attributes["href"] for link in page.one("nav").all("a")]
    assert links == [f"#{section.attributes['id']}" for section in page.one("main").all("section")]
    assert page.one("h1").text == "asked = leader"
    rows = page.one("section", id="summary").one("tbody").all("tr")
    assert [row.all("td")[1].text for row in rows] == [v.verdict for v in RESULT.sequences[0].verdicts]
    assert {row.one("th").text for row in rows} == {"<run>"}
    sex = page.one("section", id="sequence-1").all("tbody")[0]
    assert [cell.text for cell in sex.all("tr")[0].all("td")[2:]] == ["too few items", "2", "2"]
    assert "f + y" in page.one("section", id="coverage").one("details").text


def test_pictures_are_in_the_page_with_what_they_show(folder):
    page = Page(render_assessment(RESULT, folder=folder)).root
    pictures = page.one("ol", class_="pictures").all("li")
    assert [picture.text for picture in pictures] == ["1 m, o", "3 m"]
    sources = [picture.one("img").attributes["src"] for picture in pictures]
    assert base64.b64decode(sources[0].removeprefix("data:image/png;base64,")) == PNG
    assert base64.b64decode(sources[1].removeprefix("data:image/svg+xml;base64,")) == SVG
    assert "3 could not be shown" in page.one("section", id="sequence-1").text
    assert page.all("ol", class_="pictures") != Page(render_assessment(RESULT)).root.all("ol", class_="pictures")


def test_a_picture_where_a_value_was_due_is_marked(folder):
    # Two of them: the woman who was due at the second item came at the third.
    one = Recorded("s", {"sex": ("m", "m", "f", "m")}, {"sex": ("f", "m")}, ("x", "a.png", "a.png", "a.png"))
    page = Page(render_assessment(assess([one], repeated=2), folder=folder)).root
    assert [li.text for li in page.one("ol", class_="pictures").all("li")] == ["2 m due: f", "3 f", "4 m"]
    assert [li.text for li in page.all("li", class_="due")] == ["2 m due: f"]


def test_thumbnails_are_small_pictures_alone(folder):
    (folder / "large.png").write_bytes(PNG + bytes(LARGEST))
    (folder / "x.webp").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    (folder / "x.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    (folder / "x.gif").write_bytes(b"GIF89a")
    given = ["large.png", "x.webp", "x.jpg", "x.gif", "", ".", "a\0b", str(folder / "a.png")]
    kinds = [None if one is None else one.split(";")[0] for one in thumbnails(given, folder)]
    assert kinds == [None, "data:image/webp", "data:image/jpeg", "data:image/gif", None, None, None, "data:image/png"]


@pytest.mark.parametrize("width", [30, 60, 100, 200])
def test_the_screen_fits(width):
    console = Console(file=io.StringIO(), width=width)
    show_assessment(RESULT, console=console)
    said = console.file.getvalue()
    assert "violated" in said
    assert "some & such: asked = leader" in " ".join(said.split())
    assert max(cell_len(line) for line in said.splitlines()) <= max(width, 60)


def test_the_charts_say_in_words_what_they_show():
    sex, age, both = RESULT.sequences[0].groups
    said = draw_timeline(sex)["description"]
    assert "f in 1 of 4 items, too few items for any beta, overdue at 2" in said
    assert "m in 3 of 4 items, least beta 2" in said
    assert "o in 3 of 4 items" in draw_timeline(age)["description"]
    for draw, what in ((draw_timeline, both), (draw_coverage, RESULT)):
        for width in (880, 330):
            assert "<svg" in charts.svg(draw(what, width=width), name="x")
    assert "75.0 % of the pairs of values appear (3 of 4)" in draw_coverage(RESULT)["description"]


def test_of_a_long_sequence_the_last_items_are_drawn():
    column = ("m", "f") + ("m",) * (2 * ITEMS) + ("f",)
    long = assess([Recorded("s", {"g": column, "h": column}, {"g": ("f", "m"), "h": ("f", "m")})], repeated=ITEMS)
    spec = draw_timeline(long.sequences[0].groups[0])
    assert spec["title"]["text"] == f"g: when each value appeared, the last {ITEMS} items"
    _, waits, overdue, ticks, _, _ = (layer["data"]["values"] for layer in spec["layer"])
    assert {row["item"] for row in ticks} == set(range(ITEMS + 4, 2 * ITEMS + 4))
    assert [(row["from"], row["to"]) for row in waits] == [(ITEMS + 3, 2 * ITEMS + 3)]
    assert overdue == []  # it was due before
    (line,) = draw_coverage(long)["layer"]
    assert [(row["item"], row["share"]) for row in line["data"]["values"]] == [
        (0, 0),
        (1, 1 / 4),
        (2, 2 / 4),
        (2 * ITEMS + 3, 2 / 4),
    ]


def test_many_values_and_many_sequences_are_drawn_in_part(monkeypatch):
    monkeypatch.setattr(assessment, "DRAWN", 1)
    values = tuple(f"v{i}" for i in range(LANES + 3))
    labels = {"g": values, "h": ("a", "b") * (len(values) // 2) + ("a",)}
    many = assess([Recorded(str(i), labels, {"g": values, "h": ("a", "b")}) for i in range(2)])
    assert draw_timeline(many.sequences[0].groups[0])["title"]["text"].endswith("; 3 more values")
    page = Page(render_assessment(many)).root
    assert len(page.one("section", id="sequence-1").all("figure")) == 2
    assert page.one("section", id="sequence-2").all("figure") == []
    assert len(page.one("section", id="sequence-2").all("tbody")) == 2
