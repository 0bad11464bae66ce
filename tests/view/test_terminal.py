"""The first screen in a terminal: its lines by hand, aligned, complete, plain when piped."""

import io
import re
from pathlib import Path

import examples
import pytest
from pictured import PICTURED, document
from rich.console import Console
from test_html import replaced

from evenhand import view
from evenhand.core.document import Document, Metric, ReportedNumber, Text
from evenhand.groups import Gap
from evenhand.groups.wording.gaps import four_fifths_sentence
from evenhand.stats import Observed, Proved, Unknown


def screen(audit, width: int = 80, written=(), *, verbose: bool = True, **how) -> str:
    console = Console(file=io.StringIO(), width=width, **how)
    view.show_document(audit.document(), written=written, verbose=verbose, console=console)
    return console.file.getvalue()


@pytest.fixture(params=["full", "minimal"])
def audit(request):
    return getattr(examples, request.param)()


@pytest.mark.parametrize("name", PICTURED)
def test_a_short_screen_has_at_most_40_lines(name):
    console = Console(file=io.StringIO(), width=80)
    written = [Path("/folder/report.html"), Path("/folder/report.json")]
    view.show_document(document(name), written=written, console=console)
    assert len(console.file.getvalue().splitlines()) <= 40


def test_a_short_screen_names_what_numbers_leave_out():
    """The counts of small groups, of skipped parts, and of people whom a number leaves out."""
    metric = Metric("rate", ReportedNumber("1 %", 0.01, "observed"), left_out="left out: 3 people of unknown sex")
    unknown = Metric("gap", ReportedNumber("-", kind="unknown", basis="there is one group only"), about="sex")
    document = Document("Rates", blocks=(metric, unknown, *(Text(f"line {i}") for i in range(60))))
    console = Console(file=io.StringIO(), width=80)
    view.show_document(document, console=console)
    shown = console.file.getvalue()
    assert "left out: 3 people of unknown sex (rate)" in shown
    assert "unknown: there is one group only (gap by sex)" in shown
    assert "line 59" not in shown
    shown = flat(screen(examples.full(), verbose=False))
    assert "1 group of fewer than 30 people, 21 people in all" in shown
    assert "Not run: certification for race x sex" in shown


def flat(text: str) -> str:
    return " ".join(text.split())


def test_it_ends_with_the_files_and_how_to_read_them(tmp_path):
    written = (tmp_path / "my report" / "report.html", tmp_path / "my report" / "report.json")
    text = screen(examples.full(), 200, written=written)
    assert f"written  {written[0]}\n         {written[1]}\n" in text
    assert text.splitlines()[-1].endswith(f" -m webbrowser {written[0].as_uri()}")


def test_a_path_stays_whole_so_that_it_can_be_copied():
    path = Path("/" + "/".join(f"folder{i}" for i in range(20)), "report.html")
    assert str(path) in screen(examples.minimal(), 80, written=(path,))


def test_colour_adds_nothing_to_the_words():
    plain = screen(examples.full())
    styled = screen(examples.full(), force_terminal=True, color_system="truecolor", legacy_windows=False)
    assert "\x1b[" in styled
    assert re.sub(r"\x1b\[[0-9;]*m", "", styled) == plain


def test_words_of_users_are_only_words():
    hostile = "[red]x[/red]\n:smile: \x1b[31m\x07\u202e"
    text = screen(replaced(examples.full(), Female=hostile, sex="[bold]s[/]"), 200)
    assert "[red]x[/red] :smile: \ufffd[31m\ufffd\ufffd" in text
    assert "[bold]s[/]" in text
    assert "\x1b" not in text


def test_no_colour_and_no_control_characters_when_piped(capsys):
    view.show_document(examples.full().document())
    assert "\x1b" not in capsys.readouterr().out


class TestProgress:
    def test_on_a_terminal_it_says_what_is_done(self):
        console = Console(file=io.StringIO(), force_terminal=True, width=100)
        with view.show_progress(console=console) as say:
            say("asking [about] \x1beverybody", 0.4)
            console.file.truncate(0)
            say("proving: sex", 2.0)
        assert "proving: sex" in console.file.getvalue()
        assert "100%" in console.file.getvalue()

    @pytest.mark.parametrize(
        "how", [{"quiet": True, "force_terminal": True}, {"quiet": False, "force_terminal": False}]
    )
    def test_otherwise_it_is_silent(self, how):
        quiet = how.pop("quiet")
        console = Console(file=io.StringIO(), **how)
        with view.show_progress(quiet=quiet, console=console) as say:
            say("asking", 0.4)
        assert console.file.getvalue() == ""

    @pytest.mark.parametrize(("quiet", "printed"), [(False, "compiling the prover\n"), (True, "")])
    def test_where_there_is_no_terminal_it_says_once_that_something_is_compiled(self, capsys, quiet, printed):
        with view.show_progress(quiet=quiet) as say:
            for what in "asking", "compiling the prover", "proving: sex", "compiling the prover":
                say(what, 0.4)
        assert capsys.readouterr().err == printed

    def test_an_error_inside_comes_out(self):
        console = Console(file=io.StringIO(), force_terminal=True)
        with pytest.raises(KeyError), view.show_progress(console=console):
            raise KeyError("inside")


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (0.31, 0.28, 0.34, "not met (0.31)"),
        (0.92, 0.88, 0.96, "met (0.92)"),
        (0.83, 0.76, 0.91, "met (0.83), but the interval 0.76 to 0.91 leaves it open"),
        (0.86, 0.72, 0.9963, "met (0.86), but the interval 0.72 to 1.00 leaves it open"),
        (0.79, 0.70, 0.88, "not met (0.79), but the interval 0.70 to 0.88 leaves it open"),
        (0.7996, 0.7991, 0.7999, "not met (0.7996)"),
        (0.8, 0.8, 0.91, "met (0.80)"),
    ],
)
def test_four_fifths_rule(ratio, low, high, said):
    quantity = Observed(value=ratio, n=900, low=low, high=high, confidence=0.95, method="m")
    assert four_fifths_sentence(ratio_gap(quantity)) == said


def ratio_gap(quantity, **left_out: int) -> Gap:
    return Gap(
        name="demographic_parity_ratio",
        metric="selection_rate",
        value=quantity,
        best="a",
        worst="b",
        not_assessable=left_out,
    )


def test_four_fifths_rule_without_an_interval():
    assert four_fifths_sentence(ratio_gap(Unknown(reason="no one is selected"))) == "unknown (no one is selected)"
    assert four_fifths_sentence(ratio_gap(Proved(value=0.7, how="counted"))) == "not met (0.70)"


def test_four_fifths_rule_with_groups_left_out():
    """What is not met by some is not met, no matter who is left out; what is met by some says who is left out."""
    assert four_fifths_sentence(ratio_gap(Proved(value=0.7, how="counted"), c=24)) == "not met (0.70)"
    said = four_fifths_sentence(ratio_gap(Proved(value=0.9, how="counted"), c=24, d=3))
    assert said == "met (0.90) by the groups that can be assessed; not assessable for: c (24), d (3)"
