"""`evenhand reproduce` as a user runs it."""

import sys

import pytest

from evenhand.reproduce import mitigation
from evenhand.reproduce.shields import Reproduction, ShieldExperimentSettings

mitigation_settings = sys.modules["evenhand.reproduce.mitigation.record"]
settings = sys.modules["evenhand.reproduce.shields.record"]

TINY = ShieldExperimentSettings(
    kappas=("0.2",),
    horizons={"demographic_parity": 20, "equal_opportunity": 12},
    runs=5,
    period=10,
    periods=2,
    periodic_runs=2,
    classifiers=("ERM",),
    layers=(8,),
)


@pytest.fixture
def tiny(monkeypatch):
    """Quick is quicker still."""
    monkeypatch.setattr(settings, "QUICK", TINY)


def test_tables_on_the_screen_json_and_page(evenhand, tiny, tmp_path):
    page, file = tmp_path / "page.html", tmp_path / "out.json"
    ran = evenhand("reproduce", "shields", "--quick", "--only", "german:sex", "--json", file, "--html", page)
    assert ran.code == 0
    assert "no shield" in ran.out
    assert "42.46 %" in ran.out  # the published share
    assert str(page) in ran.out
    found = Reproduction.from_json(file.read_text("utf-8"))
    assert found.environments == ("german, sex",)
    assert found.settings == TINY
    assert "Fairness Shields, run again" in page.read_text("utf-8")


def test_json_alone(evenhand, tiny):
    ran = evenhand("reproduce", "shields", "--quick", "--only", "german:age", "--runs", 3, "--seed", 7, "--json", "-")
    assert ran.code == 0
    assert ran.json["kind"] == "reproduction"
    assert (ran.json["seed"], ran.json["settings"]["runs"], ran.json["settings"]["periodic_runs"]) == (7, 3, 1)
    assert len(ran.json["cells"]) == ran.json["wanted"] == 2 * 2 * 7
    assert ran.err == ""


def test_one_classifier_alone(evenhand, tiny):
    ran = evenhand(
        "reproduce", "shields", "--quick", "--only", "german:sex", "--classifier", "ERM", "--runs", 2, "--json", "-"
    )
    assert ran.code == 0
    assert ran.json["settings"]["classifiers"] == ["ERM"]


def test_quiet_says_nothing(evenhand, tiny):
    ran = evenhand("reproduce", "shields", "--quick", "--only", "german:sex", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_what_was_complete_is_written_when_interrupted(evenhand, tiny, tmp_path, monkeypatch):
    running = sys.modules["evenhand.reproduce.shields.run"]
    whole, calls = running.simulate_runs, []

    def stop(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr(running, "simulate_runs", stop)
    ran = evenhand("reproduce", "shields", "--quick", "--only", "german", "--json", tmp_path / "out.json")
    assert ran.code == 130
    found = Reproduction.from_json((tmp_path / "out.json").read_text("utf-8"))
    assert found.interrupted
    assert len(found.cells) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "adlut"], "no environment 'adlut'"),
        (["--classifier", "SVM", "--only", "german:sex"], "no classifier 'SVM'"),
        (["--runs", "0"], "expected 1 run or more, got 0"),
        (["--html", "nowhere/page.html"], "there is no folder"),
    ],
)
def test_bad_options_are_refused_before_any_work(evenhand, tiny, options, said, tmp_path, monkeypatch):
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
