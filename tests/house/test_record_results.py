"""The record of what commands compute: its cases can run, and its comparison finds what differs."""

import importlib.util
import json

import pytest
import typer

from evenhand.cli.main import app
from support import ROOT

SPEC = importlib.util.spec_from_file_location("record_results", ROOT / "tools" / "record_results.py")
recorder = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(recorder)

APP = typer.main.get_command(app)
CASES = list(recorder.cases())
NOT_RECORDED = {"card", "keys add", "keys list", "keys rotate", "keys revoke", "store backup", "store restore"}
"""Compute nothing."""


def command_of(arguments):
    """The name of the command and the command itself, in a group or not."""
    found, name = APP, []
    for word in arguments:
        if not hasattr(found, "commands"):
            break
        found = found.commands[word]
        name.append(word)
    return " ".join(name), found


def leaves(group, before=""):
    for name, command in group.commands.items():
        yield from leaves(command, f"{before}{name} ") if hasattr(command, "commands") else [before + name]


def test_every_command_is_recorded():
    recorded = {command_of(arguments)[0] for _, arguments in CASES}
    assert recorded == set(leaves(APP)) - NOT_RECORDED


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=[name for name, _ in CASES])
def test_the_options_of_a_case_exist(name, arguments):
    _, command = command_of(arguments)
    known = {option for parameter in command.get_params(typer.Context(command)) for option in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= known


@pytest.fixture
def record(tmp_path):
    def write(folder, name="search-x", **result):
        place = tmp_path / folder / "results"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.json").write_text(json.dumps({"exit": 0, "result": result}), "utf-8")
        return tmp_path / folder

    return write


def test_records_that_agree(record, capsys):
    old, new = record("old", rate=0.5, found=[], rows=[{"n": 1}]), record("new", rate=0.5, found=[], rows=[{"n": 1.0}])
    assert recorder.compare(old, new, {}) == 0
    assert "4 values" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changed",
    [{"rate": 0.5000000000000001}, {"rate": None}, {"rate": "0.5"}, {"rows": [{"n": True}]}, {"rows": []}, {"more": 1}],
)
def test_whatever_differs_is_listed(record, capsys, changed):
    values = {"rate": 0.5, "rows": [{"n": 1}]}
    assert recorder.compare(record("old", **values), record("new", **values | changed), {}) > 0
    assert f"search-x: result.{next(iter(changed))}" in capsys.readouterr().out


def test_what_was_renamed_is_the_same(record):
    old = record("old", least_people=30, stopped_by="done", words="of whom", effort={"boxes": 7})
    new = record("new", "find-x", min_size=30, stopped_by="complete", words="of people", boxes=7)
    renames = {
        "cases": {"search-x": "find-x"},
        "keys": {"least_people": "min_size"},
        "paths": {r"\.effort\.boxes$": ".boxes"},
        "strings": {"done": "complete"},
        "ignore": {"paths": [r"\.words$"]},
    }
    assert recorder.compare(old, new, renames) == 0
    for table in renames:
        assert recorder.compare(old, new, {name: renames[name] for name in renames if name != table}) > 0


def test_what_changes_from_run_to_run_is_left_out(tmp_path):
    value = {
        "seconds": 3.2,
        "rows": [{"at": 1.5, "n": 2}],
        "head": f"7 {'ab' * 32}",
        "fingerprint": "ab" * 32,
        "file": f"{tmp_path}/x.csv",
    }
    assert recorder.steady(value, tmp_path) == {
        "rows": [{"n": 2}],
        "head": "7 (hash)",
        "fingerprint": "ab" * 32,
        "file": "work/x.csv",
    }
