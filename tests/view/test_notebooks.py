"""Results in a notebook: the page's own fragment, charts without a network, names of ours after the dot, progress."""

import re
import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace

import pydantic
import pytest
from pictured import PICTURED, pictured

import evenhand
from evenhand import view
from evenhand.view import notebook, terminal

FETCHES = re.compile(
    r"<script|<link|@import|(?:src|href)\s*=\s*[\"']?(?:https?:)?//|url\(\s*[\"']?(?:https?:)?//", re.I
)
"""What makes a page fetch something, or run something; a link that a reader may follow does not."""


def quick_audit(**settings):
    return evenhand.audit_predictions(
        [1, 0, 1, 1] * 20, sensitive_features={"sex": ["F", "M"] * 40}, favourable=1, **settings
    )


@pytest.fixture(scope="module")
def result():
    return quick_audit()


def without_links(html):
    return re.sub(r"<a\s[^>]*>", "", html)


def test_what_fetches_is_recognised():
    for found in ('<script src="https://cdn.example/x.js">', "<img src=//cdn.example/x>", "a{b:url(http://x)}"):
        assert FETCHES.search(found)


@pytest.mark.parametrize("name", PICTURED)
def test_a_result_of_every_kind_is_shown_offline(name):
    result = pictured(name)
    shown = result._repr_html_()
    assert not FETCHES.search(without_links(shown))
    assert "<svg" in shown
    drawn = result.plot()._repr_mimebundle_()
    assert set(drawn) == {"image/svg+xml", "text/plain"}
    assert drawn["image/svg+xml"].startswith("<svg")
    assert not FETCHES.search(drawn["image/svg+xml"])
    names = {one for one in dir(result) if not one.startswith("_")}
    assert names.isdisjoint(dir(pydantic.BaseModel))
    assert {"plot", "summary", "to_frame", "to_json", "seed", "kind"} <= names


def test_a_chart_stays_one_of_altair(result):
    chart = result.plot().properties(title="mine")
    assert chart.to_dict()["title"] == "mine"
    assert set(chart._repr_mimebundle_()) == {"image/svg+xml", "text/plain"}


def test_ipython_in_a_terminal_prints_the_summary(result):
    printed = []
    result._repr_pretty_(SimpleNamespace(text=printed.append), False)
    assert printed == [result.summary()]


def test_after_the_dot_of_a_part_stand_our_names_alone(result):
    names = {name for name in dir(result.groups) if not name.startswith("_")}
    assert names.isdisjoint(dir(pydantic.BaseModel))


class Cell:
    """The output of a cell: what its display shows, and every state that it showed before."""

    def __init__(self):
        self.states = []
        self.drawn = threading.Event()

    def display(self, bundle, *, raw):
        assert raw
        self.states.append(bundle)
        self.drawn.set()

    def update(self, bundle, *, raw):
        assert self.states, "what was not displayed cannot be updated"
        self.display(bundle, raw=raw)


@pytest.fixture
def cell(monkeypatch):
    """The kernel of a notebook, as the modules that are loaded in one say, and its cell; lines appear at once."""
    cell = Cell()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.DisplayHandle = lambda: cell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(notebook, "DELAY", 0.001)
    monkeypatch.setattr(notebook, "EVERY", 0.001)
    return cell


def test_a_notebook_shows_what_is_being_done_and_empties_the_line(cell, capsys):
    with view.follow_progress() as say:
        say("proving: <sex>", 0.42)
        while "42 %" not in (cell.states or [{"text/plain": ""}])[-1]["text/plain"]:
            cell.drawn.clear()
            cell.drawn.wait(5)
    shown = cell.states[-2]
    assert "proving: &lt;sex&gt;" in shown["text/html"]
    assert 'value="0.420"' in shown["text/html"]
    assert shown["text/plain"].endswith("proving: <sex>")
    assert cell.states[-1] == {"text/plain": "", "text/html": ""}
    assert capsys.readouterr() == ("", "")


def test_the_line_appears_where_the_work_says_nothing(cell):
    with view.follow_progress():
        assert cell.drawn.wait(5)
    assert "starting" in cell.states[0]["text/plain"]


def test_the_line_is_emptied_where_the_work_fails(cell):
    with pytest.raises(ZeroDivisionError), view.follow_progress():
        cell.drawn.wait(5) / 0
    assert cell.states[-1] == {"text/plain": "", "text/html": ""}
    assert "evenhand-progress" not in {thread.name for thread in threading.enumerate()}


def test_what_is_quick_shows_nothing(cell, monkeypatch):
    monkeypatch.setattr(notebook, "DELAY", 60.0)
    with view.follow_progress() as say:
        say("counting", 0.5)
    assert cell.states == []


def test_a_notebook_is_told_by_its_kernel(cell, monkeypatch):
    assert terminal.in_notebook()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)  # imported by a script
    assert not terminal.in_notebook()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", object)  # in a terminal
    assert not terminal.in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not terminal.in_notebook()
    assert "IPython" not in sys.modules, "to look must not import it"


def test_progress_is_shown_or_told_as_asked(cell):
    told = []
    quick_audit(progress=lambda what, share: told.append((what, share)))
    assert told[0] == ("comparing groups", 0.0)
    assert told[-1] == ("done", 1.0)
    with view.follow_progress(False):
        assert not cell.drawn.wait(0.02)
    with view.follow_progress(True):
        assert cell.drawn.wait(5)
    with view.show_progress():
        cell.drawn.clear()
        assert cell.drawn.wait(5)


def test_a_script_stays_silent(tmp_path):
    code = (
        "import evenhand, pandas as pd\n"
        "evenhand.audit_predictions([1, 0, 1, 1] * 20, sensitive_features={'sex': ['F', 'M'] * 40}, favourable=1)\n"
        "evenhand.assess_generator(pd.DataFrame({'gender': ['a', 'b', 'a']}), ['gender'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
