"""Pages and screens of results: they stand alone, fit any width, stay small, and say what they leave out."""

import io
import re
from functools import cache

import examples
import pytest
import vl_convert
from page import Page, foreign_scripts
from pictured import PICTURED, SUBJECT, document, pictured
from rich.cells import cell_len
from rich.console import Console

from evenhand import view
from evenhand.auditing.gates.conditions import AUDITED_FAMILIES
from evenhand.core import Document
from evenhand.core.document import PAGE_ROWS, WIDE_ROWS, Column, Heading, SubjectCard, Table, TableRow
from evenhand.individual import search
from evenhand.stats.metric_specs import names_of
from evenhand.subgroups import wording as sentences
from evenhand.view.charts.mitigation import draw_candidate
from evenhand.view.drawing.rows import Dot
from support import small_schema


def shown(name):
    return examples.minimal().document() if name == "interrupted" else document(name)


@pytest.mark.parametrize("name", [*PICTURED, "interrupted"])
def test_a_page_stands_alone(name):
    html = view.render_page(shown(name))
    assert html == view.render_page(shown(name))
    assert not re.search(r'(href|src)="(?!#|data:)', html)
    assert len(html) < 1_000_000
    root = Page(html).root
    assert foreign_scripts(root) == []
    links = [link.attributes["href"] for link in root.one("nav").all("a")]
    assert links == [f"#{section.attributes['id']}" for section in root.one("main").all("section")]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize(
    ("name", "width"),
    [
        *((name, width) for name in [*PICTURED, "interrupted"] for width in (80, 200)),
        *((name, 60) for name in ("audit", "interrupted", "search", "grades", "mitigation")),
    ],
)
def test_a_screen_fits_and_has_nothing_but_text(name, width, verbose):
    console = Console(file=io.StringIO(), width=width)
    view.show_document(shown(name), verbose=verbose, console=console)
    for line in console.file.getvalue().splitlines():
        assert cell_len(line) <= width
        assert "\x1b" not in line
        if name in ("audit", "interrupted"):
            assert line == line.rstrip()
            assert not line.strip().startswith("%")  # a number keeps its unit


@pytest.mark.parametrize(("columns", "most"), [(2, PAGE_ROWS), (7, WIDE_ROWS)])
@pytest.mark.parametrize("more", [0, 1])
def test_a_table_is_cut_and_its_caption_says_so(columns, most, more):
    rows = tuple(TableRow((f"row {i}.", *([i] * (columns - 1)))) for i in range(most + more))
    table = Table("Rows", tuple(Column(f"c{i}") for i in range(columns)), rows, order="largest first")
    document = Document("Many", blocks=(Heading("Part"), table))
    page = view.render_page(document)
    assert f"row {most - 1}." in page
    assert f"row {most}." not in page
    left_out = f"Rows. The first {most} of {most + 1} rows, largest first; all of them are in the JSON"
    assert (left_out in page) == bool(more)
    assert all(f"row {i}." in view.render_markdown(document) for i in range(most + more))


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
    assert "Interrupted" in Page(view.render_page(stopped.document(SUBJECT))).root.one("section", id="summary").text


def test_vega_draws_the_gaps_alone(monkeypatch):
    drawn, draw = [], vl_convert.vegalite_to_svg

    def counted(spec, **more):
        drawn.append(spec["description"])
        return draw(spec, **more)

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", counted)
    assert view.render_page(document("search")).count("<figure>") == 1
    assert len(drawn) == 2  # for wide and for narrow screens
    assert all(description.startswith("Score gaps") for description in drawn)


FOUND = examples.subgroups()

RICH = SubjectCard("model", "people.csv", 9769, "income", "<b>rich</b>", label_only=False)


def subgroup_page(result=FOUND):
    return Page(view.render_page(result.document(RICH))).root


def test_every_finding_is_there_with_its_size_rates_and_interval():
    section = subgroup_page().one("section", id="findings")
    rows = section.one("table", class_="wide-table").one("tbody").all("tr")
    own = [finding for finding in FOUND.findings if finding.under is None]
    assert len(rows) == len(own)
    for row, finding in zip(rows, own, strict=True):
        assert f"{finding.size:,}" in row.text
        values = [data.attributes["value"] for data in row.all("data")]
        assert values == [str(finding.gap), str(finding.rate), str(finding.rest_rate)]
        ends = row.one("span", class_="interval").attributes
        assert (ends["data-low"], ends["data-high"]) == (str(finding.low), str(finding.high))
        assert ("(not significant)" in row.text) == (not finding.found)
        assert sentences.finding_sentence(FOUND, finding, "<b>rich</b>") in row.text


@pytest.mark.parametrize(("measure", "worse"), [("favourable", [True, False]), ("false-negative", [False, True])])
def test_fewer_favourable_decisions_and_more_wrong_refusals_are_worse(measure, worse):
    result = examples.subgroups(measure=measure)
    assert [result.is_worse(finding) for finding in result.findings[::2][:2]] == worse


def test_nothing_to_show():
    empty = examples.subgroups(findings=(), judged=(), tested=0, found=0)
    ids = [section.attributes["id"] for section in subgroup_page(empty).one("main").all("section")]
    assert ids == ["summary", "method"]


RESULT = pictured("mitigation")

FIRST = RESULT.candidates[0]

LINES = FIRST.lines


def screen(result=RESULT, width=100, **given):
    console = Console(file=io.StringIO(), width=width)
    view.show_document(result.document(), console=console, **given)
    return console.file.getvalue()


@cache
def mitigation_page():
    return Page(view.render_page(RESULT.document())).root


def test_never_a_verdict_of_fairness_nor_a_single_score():
    assert not re.search(r"\b(un)?fair(ness)?\b", mitigation_page().one("main").text.replace("certified fair", ""))
    assert "score" not in screen()
    assert "3 better" in screen(verbose=True)


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


@pytest.mark.parametrize("name", ["audit", "thresholds", "premiums", "labels", "grades", "rankings"])
def test_conditions_may_name_every_number_of_an_audit(name):
    """What is refused before an audit is what no audit of such a target has."""
    result = pictured(name)
    families = ["ranking gap"]
    if name != "rankings":
        families = [*AUDITED_FAMILIES[result.described.target.kind], "individual", "proof"]
    assert {number.name for number in result.numbers() if not number.group} <= set(names_of(*families))
