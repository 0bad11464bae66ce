"""SIGTERM: what was found by then is written, as after Ctrl-C, and the exit code is 143."""

import json
import signal

import pytest

from evenhand.core.interrupts import InterruptCounter

MODEL = """
import signal

calls = 0

def score(frame):
    return (frame["grade"] + 4 * (frame["sex"] == "m") > 12).map({True: "yes", False: "no"})

def terminated(frame):
    global calls
    calls += 1
    if calls == 14:  # after the questions about its column types and its noise; signals may be blocked where tests run
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
    return score(frame)

fits = 0

def fit(frame, labels):
    global fits
    fits += 1
    if fits == 2:
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
    return score
"""


@pytest.fixture
def folder(case, tmp_path, monkeypatch):
    (tmp_path / "stopped_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_terminated_search_of_a_function_is_written(evenhand, case, folder):
    about = ["stopped_model:terminated", case.data, "--schema", case.schema, "--json", "found.json"]
    ran = evenhand("search", *about, "--quiet")
    assert ran.code == 143, ran.err
    assert json.loads((folder / "found.json").read_text())["interrupted"]


def test_a_terminated_report_is_written(evenhand, case, folder):
    about = ["stopped_model:terminated", case.data, "--schema", case.schema, "--json", "found.json"]
    ran = evenhand("audit", *about, "--out", "report")
    assert ran.code == 143, ran.err
    assert "interrupted" in ran.out
    assert (folder / "report" / "report.html").exists()
    assert json.loads((folder / "found.json").read_text())["interrupted"]


def test_a_terminated_certificate_is_written(evenhand, case, folder, monkeypatch):
    entered = InterruptCounter.__enter__

    def enter(counter):
        """Terminate as soon as the proof has begun."""
        entered(counter)
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
        return counter

    monkeypatch.setattr(InterruptCounter, "__enter__", enter)
    (folder / "real.yaml").write_text(case.schema.read_text().replace("kind: integer", "kind: real"))
    ran = evenhand("certify", case.model, "--schema", "real.yaml", "--method", "interval", "--json", "found.json")
    assert ran.code == 143, ran.err
    assert json.loads((folder / "found.json").read_text())["stopped_by"] == "interrupt"


def test_a_terminated_mitigation_is_written(evenhand, case, folder):
    about = ["stopped_model:score", case.data, "--schema", case.schema]
    search = ["--json", "search.json", "--quiet", "--budget", 2000, "--show-people"]
    assert evenhand("search", *about, *search).code == 0
    more = ["--from", "search.json", "--fit", "stopped_model:fit", "--certify-effort", 0, "--json", "found.json"]
    ran = evenhand("mitigate", *about, *more, "--save", "new.joblib", "--quiet")
    assert ran.code == 143, ran.err
    assert json.loads((folder / "found.json").read_text())["interrupted"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_before_there_is_any_result_says_so(evenhand, case, monkeypatch, interruptible, number, code):
    def stop(*given, **more):
        signal.getsignal(number)(number, None)

    monkeypatch.setattr("evenhand.datasets.read_frame", stop)
    ran = evenhand("audit", case.model, case.data, "--schema", case.schema)
    assert (ran.code, ran.err) == (code, "interrupted before any result\n")


def test_a_current_folder_that_is_gone_is_a_clear_error(evenhand, case, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = evenhand("audit", "--example", "german")
    assert (ran.code, ran.out) == (2, "")
    assert "the current folder was deleted" in ran.err
    monkeypatch.chdir(tmp_path)
