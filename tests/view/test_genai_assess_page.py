"""An assessed generator as people see it: the page with its pictures, the screen at any width, the charts in words."""

import base64
import io
import sys

import pandas as pd
import pytest
from page import Page
from rich.console import Console

from evenhand.genai import GenerationConfig, RecordedSequence, assess_sequences
from evenhand.genai.assessment import wording
from evenhand.genai.assessment.evaluation import evaluate_config, read_condition_sequences, read_fixed_groups
from evenhand.genai.assessment.prompts import answers_by_prompt, estimate_prompt_bias
from evenhand.view import render_page, show_document
from evenhand.view.charts.assessment import MAX_ITEMS, MAX_LANES, draw_coverage, draw_prompts, draw_timeline
from evenhand.view.charts.items import EXCERPT, LARGEST, SIDE, make_thumbnails, read_excerpts

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>'


def recorded(name="<run>"):
    labels = {"sex": ("m", "m", "m", None, "f"), "age": ("o", "y", None, "o", "o")}
    return RecordedSequence(
        name, labels, {"sex": ("f", "m"), "age": ("o", "y")}, ("a.png", None, "b.svg", "no.png", "c.txt")
    )


RESULT = assess_sequences(
    [recorded()], repeated={"sex": 2, ("sex", "age"): 4}, conditions={"asked": "leader"}, source="some & such"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.svg").write_bytes(SVG)
    (tmp_path / "c.txt").write_bytes(b"no picture")
    return tmp_path


def test_pictures_are_in_the_page_with_what_they_show(folder):
    page = Page(render_page(RESULT.document(str(folder)))).root
    pictures = page.one("ol", class_="pictures").all("li")
    assert [picture.text for picture in pictures] == ["1 m, o", "3 m", "no picture 5 f, o"]
    sources = [picture.one("img").attributes["src"] for picture in pictures[:2]]
    assert base64.b64decode(sources[0].removeprefix("data:image/png;base64,")) == PNG
    assert base64.b64decode(sources[1].removeprefix("data:image/svg+xml;base64,")) == SVG
    assert "2 could not be shown" in page.one("section", id="sequence-1").text
    assert page.all("ol", class_="pictures") != Page(render_page(RESULT.document())).root.all("ol", class_="pictures")


def test_a_picture_where_a_value_was_due_is_marked(folder):
    # Two of them: the woman who was due at the second item came at the third.
    one = RecordedSequence("s", {"sex": ("m", "m", "f", "m")}, {"sex": ("f", "m")}, ("x", "a.png", "a.png", "a.png"))
    page = Page(render_page(assess_sequences([one], repeated=2).document(str(folder)))).root
    assert [li.text for li in page.one("ol", class_="pictures").all("li")] == ["2 m due: f", "3 f", "4 m"]
    assert [li.text for li in page.all("li", class_="due")] == ["2 m due: f"]


def test_thumbnails_are_small_pictures_alone(folder):
    (folder / "damaged.png").write_bytes(PNG[:20] + bytes(LARGEST))
    (folder / "x.webp").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    (folder / "x.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    (folder / "x.gif").write_bytes(b"GIF89a")
    given = ["damaged.png", "x.webp", "x.jpg", "x.gif", "", ".", "a\0b", str(folder / "a.png")]
    kinds = [None if one is None else one.split(";")[0] for one in make_thumbnails(given, folder)]
    assert kinds == [None, "data:image/webp", "data:image/jpeg", "data:image/gif", None, None, None, "data:image/png"]


def test_of_a_long_sequence_the_last_items_are_drawn():
    column = ("m", "f") + ("m",) * (2 * MAX_ITEMS) + ("f",)
    long = assess_sequences(
        [RecordedSequence("s", {"g": column, "h": column}, {"g": ("f", "m"), "h": ("f", "m")})], repeated=MAX_ITEMS
    )
    spec = draw_timeline(long.sequences[0].groups[0])
    assert spec["title"]["text"] == f"g: when each value appeared, the last {MAX_ITEMS} items"
    _, waits, overdue, ticks, crosses, _ = (layer["data"]["values"] for layer in spec["layer"])
    assert {row["item"] for row in ticks} == set(range(MAX_ITEMS + 4, 2 * MAX_ITEMS + 4))
    assert [(row["from"], row["to"]) for row in waits] == [(MAX_ITEMS + 3, 2 * MAX_ITEMS + 3)]
    # It was due before, and again one item before it came.
    assert [(row["from"], row["to"]) for row in overdue] == [(MAX_ITEMS + 3, 2 * MAX_ITEMS + 3)]
    assert [row["from"] for row in crosses] == [2 * MAX_ITEMS + 2]
    (line,) = draw_coverage(long)["layer"]
    assert [(row["item"], row["share"]) for row in line["data"]["values"]] == [
        (0, 0),
        (1, 1 / 4),
        (2, 2 / 4),
        (2 * MAX_ITEMS + 3, 2 / 4),
    ]


def test_many_values_and_many_sequences_are_drawn_in_part(monkeypatch):
    monkeypatch.setattr(wording, "DRAWN", 1)
    values = tuple(f"v{i}" for i in range(MAX_LANES + 3))
    labels = {"g": values, "h": ("a", "b") * (len(values) // 2) + ("a",)}
    many = assess_sequences([RecordedSequence(str(i), labels, {"g": values, "h": ("a", "b")}) for i in range(2)])
    assert draw_timeline(many.sequences[0].groups[0])["title"]["text"].endswith("; 3 more values")
    page = Page(render_page(many.document())).root
    assert len(page.one("section", id="sequence-1").all("figure")) == 2
    assert page.one("section", id="sequence-2").all("figure") == []
    assert len(page.one("section", id="sequence-2").all("table")) == 2


def test_large_pictures_are_made_smaller_where_that_can_be_done(folder, monkeypatch):
    pillow = pytest.importorskip("PIL.Image", reason="needs the extra pictures")
    noise = pillow.effect_noise((1000, 500), 90)
    noise.save(folder / "large.png")
    assert (folder / "large.png").stat().st_size > LARGEST
    (small,) = make_thumbnails(["large.png"], folder)
    data = base64.b64decode(small.removeprefix("data:image/jpeg;base64,"))
    assert pillow.open(io.BytesIO(data)).size == (SIDE, SIDE // 2)
    assert len(data) < LARGEST
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert make_thumbnails(["large.png"], folder) == [None]


def test_texts_are_shown_by_their_beginnings(folder):
    (folder / "long.txt").write_text("A  leader\n" + "thanked her team. " * 50, "utf-8")
    found = read_excerpts(["c.txt", "long.txt", "a.png", None, "no.txt"], folder)
    assert found[0] == "no picture"
    assert found[1].startswith("A leader thanked")
    assert len(found[1]) == EXCERPT
    assert found[2:] == [None] * 3


# With a configuration


CONFIGURATION = GenerationConfig.read(
    {
        "conditions": [{"name": "leader", "keywords": ["leader"]}],
        "groups": {"sex": ["f", "m"], "age": ["y", "o"]},
        "specifications": [
            {"condition": "leader", "group": "sex", "repeated": {"f": 3, "m": 2}, "name": "both sexes"},
            {"condition": "leader", "group": "age", "eventual": True},
        ],
    }
)
TABLE = pd.DataFrame(
    {
        "prompt": ["a leader", "<b>a leader who is f</b>"] * 6,
        "sex": ["m", "f"] * 5 + ["f", "f"],
        "age": ["y", "o", "o", "y"] * 3,
        "fixed": [None, "sex"] * 6,
    }
)


def specified(how="judged"):
    found = read_condition_sequences(TABLE, CONFIGURATION)
    answered = answers_by_prompt(found)
    values = CONFIGURATION.values
    bias = estimate_prompt_bias(answered, values, fixed=read_fixed_groups(TABLE) if how == "judged" else None)
    return evaluate_config(found, CONFIGURATION, prompts=bias)


@pytest.mark.parametrize("how", ["judged", "estimated"])
def test_what_every_prompt_shows(how):
    result = specified(how)
    html = render_page(result.document())
    assert "<b>a leader" not in html
    section = Page(html).root.one("section", id="prompts")
    assert len(section.all("figure")) == 2
    sex = section.all("tbody")[0].all("tr")
    assert {row.one("th").text for row in sex} == {"a leader", "<b>a leader who is f</b>"}
    biased = next(row for row in sex if row.one("th").text != "a leader")
    assert biased.all("td")[0].text == ("biased" if how == "judged" else "unknown")
    assert biased.all("td")[1].text == "f"
    text = io.StringIO()
    show_document(result.document(), verbose=True, console=Console(file=text, width=100))
    assert "<b>a leader" in text.getvalue()
    assert f"sex by prompt, {how}" in text.getvalue()
    drawn = str(result.plot().to_dict())
    assert "sex: what each prompt shows" in drawn
    assert "age: what each prompt shows" in drawn
    assert list(result.to_frame()["prompts"]) == ["all"] * 4 + ["neutral"] * 4


@pytest.mark.parametrize("values", [2, 5, 9])
def test_bars_of_prompts_are_shares(values):
    names = tuple(f"v{i}" for i in range(values))
    found = estimate_prompt_bias(
        {"a": [{"g": name} for name in names for _ in range(2)], "b": [{"g": names[0]}]}, {"g": names}
    )
    chart = draw_prompts(found, "g")
    (block,) = chart.blocks
    for row in block.rows:
        (bars,) = row.marks
        assert len(bars) == min(values, 5)
        assert bars[0].low == 0
        assert bars[-1].high == pytest.approx(1)
    assert block.rows[0].marks[0][0].high == pytest.approx(1 / values)
    assert len(chart.legend) == min(values, 5)
