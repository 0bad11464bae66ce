"""A mitigation as people see it: the page, the screen at any width, the pictures in words."""

import io
import re
from functools import cache

from page import Page
from pictured import pictured
from rich.console import Console

from evenhand import view
from evenhand.view.charts.mitigation import draw_candidate
from evenhand.view.drawing.rows import Dot

RESULT = pictured("mitigation")
FIRST = RESULT.candidates[0]
LINES = FIRST.lines


def screen(result=RESULT, width=100, **given):
    console = Console(file=io.StringIO(), width=width)
    view.show_document(result.document(), console=console, **given)
    return console.file.getvalue()


@cache
def root():
    return Page(view.render_page(RESULT.document())).root


def test_every_line_stands_in_the_candidate_s_table():
    body = root().one("section", id="candidate-0").all("table")[0].one("tbody")
    rows = [row for row in body.all("tr") if "part" not in row.attributes.get("class", "")]
    assert len(rows) == len(LINES)
    for row, one in zip(rows, LINES, strict=True):
        assert row.one("th").text.startswith(one.words)
        kinds = [quantity.attributes["data-kind"] for quantity in row.all("span", class_="quantity")]
        assert kinds[:2] == [one.before.kind, one.after.kind]
        assert len(kinds) == (3 if one.change else 2)
        assert row.all("td")[0].text.endswith(one.verdict)


def test_never_a_verdict_of_fairness_nor_a_single_score():
    assert not re.search(r"\b(un)?fair(ness)?\b", root().one("main").text.replace("certified fair", ""))
    assert "score" not in screen()
    assert "3 better" in screen()


def test_the_screen_says_what_was_written_and_what_was_interrupted(tmp_path):
    assert str(tmp_path / "new.pkl") in screen(width=60, written=[tmp_path / "new.pkl"])
    stopped = RESULT.model_copy(update={"interrupted": True})
    assert screen(stopped) != screen()


def test_marks_differ_in_shape_and_colour():
    marks = [mark for block in draw_candidate(FIRST).blocks for row in block.rows for mark in row.marks[0]]
    dots = {(mark.role, mark.shape) for mark in marks if isinstance(mark, Dot) and mark.filled}
    assert dots == {("same", "circle"), ("different", "diamond")}


def test_rounding_turns_no_end_of_a_change_into_0():
    flips = LINES[2].model_copy(update={"change": LINES[2].change.model_copy(update={"low": -0.2, "high": -0.0004})})
    changed = FIRST.model_copy(update={"lines": (*LINES[:2], flips, *LINES[3:])})
    assert "\N{MINUS SIGN}0.04" in screen(RESULT.model_copy(update={"candidates": (changed,)}), verbose=True)
