"""Documents as screens, pages and Markdown, and the files that they become."""

import contextlib
import importlib
import io
import os
import pkgutil
import re

import examples
import pytest
from page import Page
from rich.console import Console

import evenhand
from evenhand import view
from evenhand.auditing import AuditResult
from evenhand.core import Document, Result, document
from evenhand.core.document import Column, Facts, Fold, Heading, Metric, Pair, ReportedNumber, Side, TableRow, Text
from evenhand.errors import OptionError
from evenhand.view.charts import FIGURES
from evenhand.view.page_template import scope_styles
from support import ROOT

RATE = ReportedNumber("6.2 %", 0.062, "estimated", 0.058, 0.065, "5.8 to 6.5 %", 0.95, "from 1,002 people")
WHOLE = Document(
    "Search of <b>model</b>",
    "Who is decided differently?",
    (
        document.Note("It was interrupted.", "caution"),
        Text("Somebody | everybody *else*", ("first", "second"), role="finding"),
        Metric("counterfactual flip rate", RATE, ("119 of 1,002",), "sex", "read the pairs"),
        document.NextStep("prove how far it holds", "evenhand certify"),
        Text("small print", role="small"),
        Heading("Kinds of people"),
        document.Table(
            "Kinds, observed",
            (Column("kind"), Column("share", numeric=True), Column("common")),
            (
                TableRow(("1", ReportedNumber("50 %", 0.5, "observed"), "grade 8 to 12"), "in the middle"),
                TableRow(("2", ReportedNumber("-", kind="unknown", basis="nobody"), "region north"), faint=True),
                TableRow(("3", ReportedNumber("1 %", 0.01, "proved"), "none of these")),
            ),
            usual="observed",
            listed=2,
        ),
        Pair("Somebody", Side({"sex": "f"}, "no"), Side({"sex": "m"}, "yes", favourable=True), {"age": "39"}),
        Pair("Another one", Side({"sex": "f"}, "no"), Side({"sex": "m"}, "yes", favourable=True), {"age": "41"}),
        Fold("More", (Text("folded away"),)),
        Heading("How it was done", anchor="method", detail=True),
        Facts((("method", "random"),)),
    ),
    made="Made by evenhand.",
)
EVERYWHERE = ("Who is decided differently?", "6.2 %", "119 of 1,002", "evenhand certify", "grade 8 to 12", "nobody")
IN_FULL = ("folded away", "small print", "random", "Another one", "none of these")


def screen(width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    view.show_document(WHOLE, console=console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_screen_has_the_findings_and_leaves_details_to_pages(width):
    shown = screen(width)
    assert all(len(line) <= width for line in shown.splitlines())
    said = " ".join(shown.split())
    assert all(words in said for words in EVERYWHERE)
    assert not any(words in said for words in IN_FULL)
    assert "and 1 more" in said  # what is left out of the table is said


def test_the_summary_is_the_screen_without_a_width():
    assert " ".join(view.summarize(WHOLE).split()) == " ".join(screen(200).split())


@pytest.mark.parametrize("render", [view.render_page, view.render_fragment])
def test_pages_and_fragments_have_everything(render):
    html = render(WHOLE)
    root = Page(html).root
    assert "<b>model</b>" in root.text  # escaped, so that it is text
    assert all(words in root.text for words in (*EVERYWHERE, *IN_FULL))
    (rate,) = [one for one in root.all("data") if one.attributes["value"] == "0.062"]
    assert rate.parent.attributes["data-kind"] == "estimated"
    assert "proved" in next(row.text for row in root.all("tr") if "none of these" in row.text)
    assert html == render(WHOLE)


def test_markdown_has_everything_and_nothing_of_it_acts():
    text = view.render_markdown(WHOLE)
    assert text.startswith("# Search of \\<b\\>model\\</b\\>\n")
    assert "Somebody \\| everybody \\*else\\*" in text
    assert all(words in text for words in (*EVERYWHERE, *IN_FULL))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_styles_of_a_fragment_reach_nothing_else():
    scoped = scope_styles(":root { --ink: #000; }\n@media print { p, td { color: red; } }\na:hover { top: 0; }", ".own")
    rules = [found.strip() for found in re.findall(r"([^{};]+)\{", scoped)]
    assert rules == [".own", "@media print", ".own p, .own td", ".own a:hover"]
    styles = "".join(map(str, Page(view.render_fragment(WHOLE)).root.one("style").children))
    selectors = [found.strip() for found in re.findall(r"([^{};]+)\{", styles)]
    assert all(one.startswith((".evenhand-result", "@media")) for one in selectors)


@pytest.mark.parametrize("part", ["groups", "individual", "subgroups"])
def test_every_part_of_an_audit_speaks_for_itself(part):
    result = getattr(examples.full(), part)
    title = result.document().title
    assert result.summary().startswith(f"{title}\n")
    assert result.to_markdown().startswith("# ")
    assert title in Page(result._repr_html_()).root.text


def test_a_result_must_say_something():
    class Silent(Result):
        kind: str = "silent"

    with pytest.raises(TypeError, match="Silent must define document"):
        Silent(seed=0, seconds=1.0).summary()


def subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_result_says_its_findings_in_a_document():
    for module in pkgutil.walk_packages(evenhand.__path__, "evenhand."):
        if module.ispkg:
            with contextlib.suppress(ImportError):  # it needs an extra
                door = importlib.import_module(module.name)
                [getattr(door, name, None) for name in getattr(door, "__all__", ())]
    results = {cls for cls in subclasses(Result) if cls.__module__.startswith("evenhand.") and not cls.__subclasses__()}
    assert len(results) >= 15
    assert sorted(cls.__name__ for cls in results if cls.document is Result.document) == []


def test_every_drawing_that_a_document_names_is_known():
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "evenhand").rglob("*.py"))
    named = set(re.findall(r'(?<!class )\bFigure\(\s*"([^"]+)"', source))
    assert len(named) > 25
    assert named == set(FIGURES)
    for figure in FIGURES.values():
        module = figure.module if "." in figure.module else f"evenhand.view.charts.{figure.module}"
        assert callable(getattr(importlib.import_module(module), figure.function))


def test_it_writes_both_files_and_the_json_reads_back(tmp_path):
    audit = examples.minimal()
    written = view.write_report(audit, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["report.html", "report.json"]
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["report.html", "report.json"]
    assert written[0].read_text(encoding="utf-8") == view.render_page(audit.document())
    assert AuditResult.from_json(written[1].read_text(encoding="utf-8")) == audit


def test_it_replaces_an_older_report_and_leaves_other_files_alone(tmp_path):
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    view.write_report(examples.minimal(), tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert sorted(os.listdir(tmp_path)) == ["mine.txt", "report.html", "report.json"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(OptionError, match="cannot be written") as refused:
        view.write_report(examples.minimal(), tmp_path / "taken")
    assert "choose a folder that you can write to" in str(refused.value)
    assert (tmp_path / "taken").read_text() == "mine"


def test_what_cannot_take_its_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "report.html" / "in the way").mkdir(parents=True)
    with pytest.raises(OptionError, match="cannot be written"):
        view.write_report(examples.minimal(), tmp_path)
    assert os.listdir(tmp_path) == ["report.html"]


def test_an_audit_that_cannot_be_shown_makes_no_folder(tmp_path, monkeypatch):
    def broken(audit):
        raise ZeroDivisionError

    monkeypatch.setattr("evenhand.view.files.render_page", broken)
    with pytest.raises(ZeroDivisionError):
        view.write_report(examples.minimal(), tmp_path / "new")
    assert not (tmp_path / "new").exists()
