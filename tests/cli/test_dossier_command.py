"""``evenhand dossier`` and ``evenhand card`` as an auditor uses them."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from evenhand import audit_predictions
from evenhand.cli.main import app
from evenhand.dossier import write_card
from evenhand.errors import DossierError, OptionError

CONFIG = """\
outcome: {column: selected}
attributes:
  sex: {column: sex, categories: {M: Male, F: Female, NA: Not any}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"sex": ["M", "F", "", "NA"] * 25, "selected": [1, 0, 1, 1] * 25}).to_csv("people.csv", index=False)
    (tmp_path / "dossier.yaml").write_text(CONFIG)
    return tmp_path


def run(*arguments, catch=True):
    return CliRunner().invoke(app, ["dossier", *arguments], catch_exceptions=catch)


def test_files_are_written_and_checked(folder):
    done = run("people.csv", "--config", "dossier.yaml", "--for", "ll144", "--for", "ugesp", "--out", "out", "--quiet")
    assert done.exit_code == 0, done.output
    names = {path.name for path in (folder / "out").iterdir()}
    assert {name for name in names if not name.endswith((".pdf", ".docx"))} == {
        "ll144.html",
        "ugesp.html",
        "dossier.json",
        "ll144-sex.csv",
        "four-fifths-sex.csv",
    }
    written = json.loads((folder / "out" / "dossier.json").read_text())
    # NA is a category here, and only the empty cell is unknown.
    assert [row["n"] for row in written["runs"][0]["ll144"][0]["rows"]] == [25, 25, 25]
    assert run("--check", "out/dossier.json", "people.csv").exit_code == 0
    text = (folder / "people.csv").read_text().replace("M,1", "M,0", 1)
    (folder / "people.csv").write_text(text)
    failed = run("--check", "out/dossier.json", "people.csv")
    assert failed.exit_code == 1
    assert "runs[0].ll144[0].rows[0].k: written 25, computed 24" in failed.output


def test_a_final_dossier_has_no_open_entry(folder):
    arguments = ("people.csv", "--config", "dossier.yaml", "--for", "ugesp", "--json", "-", "--final")
    assert run(*arguments).exit_code == 1
    said = "system: {name: Ranker}\naudit: {date: 2024-05-01}\ndata: {explanation: applications of 2023}\n"
    (folder / "dossier.yaml").write_text(CONFIG + said)
    assert run(*arguments).exit_code == 0


def test_a_template_can_be_filled_and_the_list_names_the_law():
    assert "race_ethnicity:" in run("--template", "ll144").output
    listed = run("--list").output
    assert all(word in listed for word in ("ll144", "ugesp", "disparity", "6 RCNY 5-300", "being repealed"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "expected DATA"),
        (("people.csv",), "expected a dossier"),
        (("people.csv", "--for", "gdpr"), "no dossier 'gdpr'"),
        (("people.csv", "--for", "ll144"), "expected --config"),
        (("people.csv", "--for", "ll144", "--config", "dossier.yaml", "--as-of", "soon"), "expected a date"),
        (("people.csv", "--for", "ll144", "--config", "absent.yaml"), "cannot be read"),
        (("absent.csv", "--for", "ll144", "--config", "dossier.yaml"), "no file 'absent.csv'"),
        (("--template", "gdpr"), "no dossier 'gdpr'"),
    ],
)
def test_a_wrong_option_is_one_clear_error(folder, arguments, said):
    failed = run(*arguments)
    assert isinstance(failed.exception, OptionError)
    assert said in str(failed.exception)
    assert not (folder / "evenhand-dossier").exists()


def test_bad_people_write_nothing(folder):
    (folder / "people.csv").write_text("sex,selected\nM,1\nX,0\n")
    failed = run("people.csv", "--config", "dossier.yaml", "--for", "ll144")
    assert isinstance(failed.exception, DossierError)
    assert failed.exception.place == {"column": "sex", "value": "X", "row": 2}
    assert not (folder / "evenhand-dossier").exists()


def test_a_folder_of_parquet_files_is_counted_where_it_is(folder, monkeypatch):
    for extra in ("duckdb", "pyarrow"):
        pytest.importorskip(extra, reason="needs the extra duckdb")
    frame = pd.read_csv("people.csv", keep_default_na=False)
    (folder / "parts").mkdir()
    for part in range(2):
        frame.iloc[part::2].to_parquet(folder / "parts" / f"{part}.parquet")
    frame.to_parquet("whole.parquet")
    monkeypatch.setattr("evenhand.datasets.tables.read_rows", None)
    common = ("--config", "dossier.yaml", "--for", "ll144", "--for", "ugesp", "--quiet")
    assert run("whole.parquet", *common, "--json", "whole.json", catch=False).exit_code == 0
    assert run("parts", *common, "--json", "parts.json", catch=False).exit_code == 0
    whole, parts = (json.loads((folder / name).read_text()) for name in ("whole.json", "parts.json"))
    assert parts.pop("data") == {"name": "parts", "sha256": None}
    assert whole.pop("data")["sha256"] is not None
    assert parts == whole
    assert run("--check", "whole.json", "parts", "--quiet").exit_code == 0
    frame.loc[7, "sex"] = "X"
    frame.to_parquet(folder / "parts" / "2.parquet")
    failed = run("parts", *common, "--json", "parts.json")
    assert isinstance(failed.exception, DossierError)
    assert "'X' (1 row, the first of them in row 8 of parts/2.parquet)" in str(failed.exception)


@pytest.fixture(scope="module")
def audit():
    return audit_predictions([1, 0, 1, 1] * 20, sensitive_features={"sex": ["F", "M"] * 40}, favourable=1)


def test_a_card_is_written(evenhand, audit, tmp_path):
    (tmp_path / "report.json").write_text(audit.to_json())
    assert evenhand("card", tmp_path, "--save", tmp_path / "card").out == ""
    assert (tmp_path / "card").read_text("utf-8") == write_card(audit)
    assert evenhand("card", tmp_path / "report.json").out == write_card(audit)


@pytest.mark.parametrize("content", [None, "{}", '{"kind": "subgroups"}', "not JSON"])
def test_what_is_no_audit_is_refused(evenhand, tmp_path, content):
    report = tmp_path / "report.json"
    if content is not None:
        report.write_text(content)
    ran = evenhand("card", report, "--save", tmp_path / "card", code=2)
    assert str(report) in ran.err
    assert not (tmp_path / "card").exists()
