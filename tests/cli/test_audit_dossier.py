"""``evenhand audit --dossier``: the report and the dossier of the same people, linked."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from evenhand.cli.main import app
from evenhand.errors import OptionError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"sex": ["M", "F"] * 60, "hired": ["yes", "no", "yes", "yes"] * 30})
    frame.loc[[0, 1], "sex"] = ""
    frame.loc[2, "hired"] = ""
    frame.to_csv("people.csv", index=False)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(
        app,
        [
            "audit-decisions",
            "people.csv",
            "--decision",
            "hired",
            "--favourable",
            "yes",
            "--protected",
            "sex",
            *arguments,
        ],
    )


def test_both_are_written_and_linked(folder):
    done = run("--dossier", "ll144", "--out", "out", "--quiet")
    assert done.exit_code == 0, done.output
    names = {path.name for path in (folder / "out").iterdir()}
    assert {"report.html", "report.json", "ll144.html", "dossier.json", "ll144-sex.csv"} <= names
    assert '<a href="ll144.html">' in (folder / "out" / "report.html").read_text()
    dossier = json.loads((folder / "out" / "dossier.json").read_text())
    (table,) = dossier["runs"][0]["ll144"]
    assert table["unknown"] == 2
    assert (dossier["people"], dossier["no_outcome"]) == (120, 1)
    assert [(row["category"], row["n"], row["k"]) for row in table["rows"]] == [(["F"], 59, 30), (["M"], 58, 58)]


def test_a_report_without_a_dossier_links_none(folder):
    assert run("--out", "out", "--quiet").exit_code == 0
    assert "ll144.html" not in (folder / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dossier", "fria"), "audits do not write a dossier 'fria'"),
        (("--dossier", "ll144", "--json", "-"), "requires a folder for the report"),
    ],
)
def test_a_dossier_that_an_audit_cannot_write_is_refused_first(folder, arguments, said):
    failed = run(*arguments)
    assert isinstance(failed.exception, OptionError)
    assert said in str(failed.exception)
    assert not (folder / "evenhand-report").exists()
