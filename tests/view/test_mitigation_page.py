"""A mitigation as people see it: the page, the screen at any width, the pictures in words."""

import io
import re
from functools import cache

import pytest
from page import Page, foreign_scripts
from rich.cells import cell_len
from rich.console import Console

from evenhand import view
from evenhand.mitigation import CandidateResult, MitigationResult
from evenhand.mitigation.candidate import Trial
from evenhand.mitigation.result import Change, ComparisonLine, SplitSizes
from evenhand.stats import Estimated, Observed, Proved, Unknown
from evenhand.view.charts.mitigation import draw_candidate
from evenhand.view.drawing.rows import Dot


def observed(value, half=0.02):
    return Observed(value=value, n=900, low=value - half, high=value + half, confidence=0.95, method="Newcombe")


def change(value, half):
    return Change(value=value, low=value - half, high=value + half, confidence=0.998, p=0.004, n=900, method="Tango")


def line(part, name, of, words, before, after, verdict, change=None, better_if="down", note=""):
    return ComparisonLine(
        part=part,
        name=name,
        of=of,
        words=words,
        before=before,
        after=after,
        change=change,
        better_if=better_if,
        verdict=verdict,
        note=note,
    )


def sampled(value):
    return Estimated(
        value=value,
        low=value - 0.005,
        high=value + 0.005,
        confidence=0.95,
        n=20_000,
        population="independent attributes, each as in the data",
        method="Clopper-Pearson",
    )


def proved(value):
    return Proved(value=value, how="linear, 4,000 boxes")


LINES = (
    line(
        "performance",
        "accuracy",
        "",
        "accuracy",
        observed(0.85),
        observed(0.846),
        "within noise",
        change(-0.004, 0.009),
        "up",
    ),
    line(
        "performance",
        "auc",
        "",
        "area under the ROC curve",
        observed(0.9041),
        Unknown(reason="labels, no scores"),
        "not comparable",
        None,
        "up",
    ),
    line(
        "asked",
        "flip_rate",
        "sex",
        "decisions that flip with sex",
        observed(0.12),
        observed(0.01),
        "better",
        change(-0.11, 0.03),
    ),
    line(
        "asked",
        "subgroup_gap",
        "town <b>",
        "the gap of town <b>",
        observed(0.3),
        observed(0.08),
        "better",
        change(-0.22, 0.05),
    ),
    line(
        "groups",
        "demographic_parity_difference",
        "race",
        "selection rates by race: highest minus lowest",
        observed(0.1),
        observed(0.2),
        "worse",
        change(0.1, 0.06),
    ),
    line(
        "individuals",
        "population_flip_rate",
        "sex",
        "decisions that flip with sex, in the population",
        sampled(0.11),
        sampled(0.01),
        "better",
        change(-0.1, 0.01),
    ),
    line(
        "proof",
        "certified",
        "sex",
        "certified whatever sex says",
        proved(0.9),
        proved(0.95),
        "more is proved",
        None,
        "up",
        "what is undecided could turn it: the true shares may be equal",
    ),
    line("proof", "undecided", "sex", "not decided by proof, for sex", proved(0.1), proved(0.05), "more is proved"),
)
TRIALS = tuple(
    Trial(
        setting="added", value=value, accuracy=0.85 - value / 1e5, harms=(0.1 / (1 + value), 0.2), chosen=value == 100
    )
    for value in (0, 50, 100)
)
FIRST = CandidateResult(
    method="retrain",
    words="retrained with 100 instances added",
    lines=LINES,
    trials=TRIALS,
    notes=("the given model's file is read as it is",),
)
CONTROL = CandidateResult(method="refit", words="fitted again, nothing added", control=True, lines=LINES[:4])
RESULT = MitigationResult(
    model="income <i>.pkl",
    data="people & co",
    favourable="yes",
    people=SplitSizes(train=2700, validation=900, test=900),
    harms=("decisions that flip with sex", "the gap of town <b>"),
    sources=("search.json",),
    confidence=0.95,
    accuracy_loss=0.01,
    candidates=(FIRST, CONTROL),
    chosen="retrain",
    notes=("The given model may have learnt from them.",),
    seed=7,
    seconds=83.0,
)


def screen(result=RESULT, width=100, **given):
    console = Console(file=io.StringIO(), width=width)
    view.show_document(result.document(), console=console, **given)
    return console.file.getvalue()


@cache
def rendered():
    return view.render_page(RESULT.document())


def page(result=None):
    html = rendered() if result is None else view.render_page(result.document())
    return html, Page(html).root


def test_the_page_stands_alone_and_travels():
    html, root = page()
    assert html == view.render_page(MitigationResult.from_json(RESULT.to_json()).document())
    assert foreign_scripts(root) == []
    assert root.all("img") == []
    assert "://" not in html.replace("http://www.w3.org/", "")
    assert "<b>" not in html
    assert "<i>" not in html
    links = [link.attributes["href"] for link in root.one("nav").all("a")]
    assert links == [f"#{section.attributes['id']}" for section in root.one("main").all("section")]
    assert len(html) < 1_000_000


def test_every_line_stands_in_the_candidate_s_table():
    _, root = page()
    body = root.one("section", id="candidate-0").all("table")[0].one("tbody")
    rows = [row for row in body.all("tr") if "part" not in row.attributes.get("class", "")]
    assert len(rows) == len(LINES)
    for row, one in zip(rows, LINES, strict=True):
        assert row.one("th").text.startswith(one.words)
        kinds = [quantity.attributes["data-kind"] for quantity in row.all("span", class_="quantity")]
        assert kinds[:2] == [one.before.kind, one.after.kind]
        assert len(kinds) == (3 if one.change else 2)
        assert row.all("td")[0].text.endswith(one.verdict)


def test_never_a_verdict_of_fairness_nor_a_single_score():
    _, root = page()
    assert not re.search(r"\b(un)?fair(ness)?\b", root.one("main").text)
    assert "score" not in screen().replace("no scores", "")
    assert "3 better" in screen()


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_the_screen_fits(width):
    text = screen(width=width)
    assert max(cell_len(row) for row in text.splitlines()) <= max(width, 60)


def test_the_screen_says_what_was_written_and_what_was_interrupted(tmp_path):
    assert str(tmp_path / "new.pkl") in screen(width=60, written=[tmp_path / "new.pkl"])
    stopped = RESULT.model_copy(update={"interrupted": True})
    assert screen(stopped) != screen()


def test_marks_differ_in_shape_and_colour():
    marks = [mark for block in draw_candidate(FIRST).blocks for row in block.rows for mark in row.marks[0]]
    dots = {(mark.role, mark.shape) for mark in marks if isinstance(mark, Dot) and mark.filled}
    assert dots == {("same", "circle"), ("different", "diamond")}
