"""`evenhand subgroups` as a user runs it."""

import json

import numpy as np
import pandas as pd
import pytest

from evenhand.subgroups import SubgroupResult
from support import draw_frame

FIELDS = ("rules", "size", "rest", "rate", "rest_rate", "gap", "low", "high", "adjusted_p")


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A rule that refuses young women of one district more often, and people to ask it about."""
    folder = tmp_path_factory.mktemp("town")
    rng = np.random.default_rng(0)
    n = 3000
    frame = draw_frame(rng, n, age=(18, 79), sex="f m", district="north south west")
    frame["grade"] = rng.normal(0, 1, n).round(3)
    frame["hired"] = np.where(frame["grade"] + rng.normal(0, 1, n) > 0, "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "townhall.py").write_text(
        "def model(frame):\n"
        "    worse = (frame['sex'] == 'f') & (frame['district'] == 'west')\n"
        "    return 1 / (1 + 2.718 ** (2.0 * worse - frame['grade']))\n"
    )
    return folder


@pytest.fixture
def command(town, monkeypatch):
    monkeypatch.chdir(town)
    return ["subgroups", "townhall:model", "people.csv", "--target", "hired"]


SENSITIVE = ["--protected", "sex", "--protected", "district"]


def test_json_is_what_scripts_read(evenhand, command, tmp_path):
    ran = evenhand(*command, *SENSITIVE, "--json", "-")
    assert ran.err == ""
    found = ran.json
    assert found["kind"] == "subgroups"
    assert found["control"] == "max-t"
    assert found["confidence"] == 0.95
    # 2 subsets of the sexes and 6 of the districts, alone or together
    assert found["rule_sets"] == 2 + 6 + 2 * 6
    assert 0 < found["tested"] <= found["rule_sets"]
    for finding in found["findings"]:
        assert set(FIELDS) <= set(finding)
        assert finding["size"] + finding["rest"] == 3000
        assert finding["low"] <= finding["gap"] <= finding["high"]
        assert finding["gap"] == pytest.approx(finding["rate"] - finding["rest_rate"])
    assert found["findings"][0]["rules"] == {"sex": ["f"], "district": ["west"]}
    assert found["findings"][0]["adjusted_p"] == pytest.approx(1 / 1001)
    assert SubgroupResult.from_json(ran.out).tested == found["tested"]
    first, people = found["findings"][0], pd.read_csv("people.csv")
    inside = (people["sex"] == "f") & (people["district"] == "west")
    given = people["grade"] - 2.0 * inside > 0
    assert first["size"] == inside.sum()
    assert first["rate"] == pytest.approx(given[inside].mean())
    assert first["rest_rate"] == pytest.approx(given[~inside].mean())
    again = evenhand(*command, *SENSITIVE, "--json", tmp_path / "again.json", "--quiet")
    assert (again.out, again.err) == ("", "")
    assert json.loads((tmp_path / "again.json").read_text("utf-8")) | {"seconds": 0} == found | {"seconds": 0}


def test_every_option_reaches_the_search(evenhand, command):
    more = ["--protected", "age", "--measure", "false-negative", "--depth", "2", "--seed", "5", "--json", "-"]
    ran = evenhand(*command, *SENSITIVE, *more)
    assert ran.json == ran.json | {"measure": "false-negative", "seed": 5}
    assert all(len(finding["rules"]) <= 2 for finding in ran.json["findings"])


def test_what_is_asked_about_is_judged_or_refused(evenhand, command):
    far = "age >= 79 and sex == m and district == west"
    ran = evenhand(*command, *SENSITIVE, "--judge", "sex == f", "--judge", far, "--json", "-")
    judged, refused = ran.json["judged"]
    assert judged["size"] + judged["rest"] == 3000
    assert refused["size"] < 30
    assert refused["reason"]
    shown = evenhand(*command, *SENSITIVE, "--judge", far)
    assert refused["reason"] in " ".join(shown.out.split())


def test_an_interrupt_before_any_result(evenhand, command, tmp_path, monkeypatch):
    (tmp_path / "stopped.py").write_text("def model(frame):\n    raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)
    page = tmp_path / "page.html"
    ran = evenhand("subgroups", "stopped:model", *command[2:], *SENSITIVE, "--html", page, code=130)
    assert ran.out == ""
    assert not page.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--protected", "sex", "--protected", "sex"], "2 times"),
        ([*SENSITIVE, "--measure", "luck"], "--measure: expected one of: favourable"),
        ([*SENSITIVE, "--method", "magic"], "--method: expected one of: exact, sampled"),
        ([*SENSITIVE, "--depth", "0"], "--depth: expected a whole number of at least 1"),
        ([*SENSITIVE, "--per", "height"], "height"),
        ([*SENSITIVE, "--judge", "age >"], "age"),
        ([*SENSITIVE, "--judge", "height > 3"], "height"),
        ([*SENSITIVE, "--json", "absent/found.json"], "there is no folder"),
    ],
)
def test_bad_options(refuses, command, arguments, complaint):
    refuses(complaint, *command, *arguments)


def test_an_interrupt_keeps_what_was_found(evenhand, command, tmp_path, monkeypatch):
    (tmp_path / "patient_townhall.py").write_text(
        "import townhall\n"
        "asked, stopped = 0, False\n"
        "def model(frame):\n"
        "    global asked, stopped\n"
        "    if asked > 11000 and not stopped:\n"
        "        stopped = True\n"
        "        raise KeyboardInterrupt\n"
        "    asked += len(frame)\n"
        "    return townhall.model(frame)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    page, table = tmp_path / "page.html", tmp_path / "found.csv"
    stopped = f"subgroups patient_townhall:model --method sampled --html {page} --table {table}"
    evenhand(stopped, *command[2:5], *SENSITIVE, code=130)
    assert "This search was stopped early." in page.read_text("utf-8")
    assert len(pd.read_csv(table)) > 0


def test_a_budget_that_does_not_pay_for_the_people_is_refused_before_they_are_asked_about(evenhand, command):
    ran = evenhand(*command, *SENSITIVE, "--budget", 100, code=3)
    assert "the budget of 100 rows does not cover the 3,000 people who are compared" in ran.err
