"""`evenhand reproduce` as a user runs it."""

import sys

import pytest

from evenhand.reproduce import mitigation
from evenhand.reproduce.comparison import PaperReproduction

mitigation_settings = sys.modules["evenhand.reproduce.mitigation.record"]


def test_a_papers_table_on_the_screen_json_and_page(evenhand, tmp_path):
    page, file, out = tmp_path / "page.html", tmp_path / "out.json", tmp_path / "out"
    options = ("reproduce", "shields", "--quick", "--table", "figure 3", "--out", out, "--json", file, "--html", page)
    ran = evenhand(*options)
    assert ran.code == 0
    assert "processor time" in ran.out.lower()
    assert str(page) in ran.out
    found = PaperReproduction.from_json(file.read_text("utf-8"))
    assert (found.paper, found.quick, [table.number for table in found.tables]) == ("shields", True, ["Figure 3"])
    assert found == PaperReproduction.from_json((out / "shields.json").read_text("utf-8"))
    assert "run again" in page.read_text("utf-8")
    again = evenhand(*options, "--resume", "--quiet")
    assert (again.code, again.out, again.err) == (0, "", "")
    tables = PaperReproduction.from_json(file.read_text("utf-8")).tables
    assert tables == found.tables  # times too: the pieces were not done again


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "VII"], "expected a table of shields, got 'VII'"),
        (["--resume"], "expected the folder to go on from"),
        (["--html", "nowhere/page.html"], "there is no folder"),
    ],
)
def test_bad_options_are_refused_before_any_work(evenhand, options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = evenhand("reproduce", "shields", "--quick", *options)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_mitigation_tables_on_the_screen_json_and_page(evenhand, tmp_path, monkeypatch):
    small = mitigation.MitigationExperimentSettings(
        runs=1, methods=("retrain",), hidden=(8,), epochs=1, least_steps=60, permutations=60, samples=100,
        classifiers=("ERM",), layers=(8,),
    )  # fmt: skip
    monkeypatch.setattr(mitigation_settings, "QUICK", small)
    page, file = tmp_path / "page.html", tmp_path / "out.json"
    ran = evenhand("reproduce", "mitigation", "--quick", "--only", "german", "--json", file, "--html", page)
    assert ran.code == 0
    assert "(21.9)" in ran.out  # the published gap
    assert str(page) in ran.out
    found = mitigation.MitigationTables.from_json(file.read_text("utf-8"))
    assert (found.settings, found.wanted) == (small, 3)
    assert "Mitigation, made again" in page.read_text("utf-8")
    ran = evenhand(
        "reproduce", "mitigation", "--quick", "--only", "german:sex", "--runs", 2, "--seed", 5, "--json", "-"
    )
    assert (ran.code, ran.err) == (0, "")
    assert (ran.json["kind"], ran.json["seed"], len(ran.json["classifiers"])) == ("mitigation-tables", 5, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "adlut"], "nothing called 'adlut'"),
        (["--runs", "0"], "expected 1 run or more, got 0"),
        (["--html", "nowhere/page.html"], "there is no folder"),
    ],
)
def test_bad_options_of_mitigation_are_refused(evenhand, options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = evenhand("reproduce", "mitigation", "--quick", *options)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert list(tmp_path.iterdir()) == []
