"""Commands that ask an endpoint: agreed to before, never beyond the ceiling, and the report counts what it counts."""

import json

import numpy as np
import pandas as pd
import pytest

from serving import serving
from support import leaves_but_clocks

SCHEMA = """
target: {name: hired, favourable: "yes", values: ["no", "yes"]}
attributes:
  - {name: points, kind: integer, lower: 0, upper: 99}
  - {name: hours, kind: integer, lower: 0, upper: 59}
  - {name: sex, kind: categorical, values: [f, m], protected: true}
"""


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"points": rng.integers(0, 100, 120), "hours": rng.integers(0, 60, 120)})
    frame["sex"] = rng.choice(["f", "m"], 120)
    frame["hired"] = np.where(frame["points"] + rng.integers(-20, 20, 120) > 50, "yes", "no")
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return [tmp_path / "people.csv", "--schema", tmp_path / "schema.yaml"]


def reply(instances):
    return {"predictions": [min(1.0, (one["points"] + 9 * (one["sex"] == "m")) / 109) for one in instances]}


@pytest.mark.parametrize("command", ["search", "audit", "subgroups"])
@pytest.mark.parametrize("budget", [400, 2000])
def test_the_server_counts_what_the_report_says_and_no_more_than_the_budget(evenhand, people, command, budget):
    with serving(reply) as service:
        ran = evenhand(command, service.url, *people, "--budget", budget, "--json", "-")
        assert ran.code == 0, ran.err
        assert ran.json["queries"] == service.asked <= budget


@pytest.mark.parametrize("command", ["search", "audit", "subgroups"])
def test_without_a_budget_somebody_has_to_agree_to_the_forecast(evenhand, people, command):
    with serving(reply) as service:
        refused = evenhand(command, service.url, *people, "--json", "-")
        assert refused.code == 2
        assert "up to " in refused.err
        assert "--yes, or set a ceiling: --budget ROWS" in refused.err
        assert service.asked == 0
        forecast = int(refused.err.split("up to ")[1].split(" rows")[0].replace(",", ""))
        agreed = evenhand(command, service.url, *people, "--yes", "--json", "-")
        assert agreed.code == 0, agreed.err
        assert 0 < agreed.json["queries"] == service.asked <= forecast


def test_a_budget_below_what_an_audit_needs_is_refused_before_people_are_asked_about(evenhand, people):
    with serving(reply) as service:
        ran = evenhand("audit", service.url, *people, "--budget", 100)
        assert ran.code == 3
        assert "budget of 100 rows does not pay for the 120 people" in ran.err
        assert service.asked == 32


@pytest.mark.parametrize("command", ["search", "audit", "subgroups"])
def test_a_run_is_repeated_by_its_work(evenhand, people, tmp_path, command):
    first, again = tmp_path / "first.json", tmp_path / "again.json"
    with serving(reply) as service:
        asked = [command, service.url, *people, "--budget", 1500, "--time-limit", 30]
        assert evenhand(*asked, "--json", first).code == 0
        # As a machine would have recorded it that was slower from the fourth look at the clock on.
        slow = json.loads(first.read_text())
        slow["work"]["checks"] = [3, 10_000]
        first.write_text(json.dumps(slow))
        assert evenhand(*asked, "--work", first, "--json", again).code == 0
        assert evenhand(*asked, "--work", again, "--json", first).code == 0
        assert leaves_but_clocks(json.loads(first.read_text())) == leaves_but_clocks(json.loads(again.read_text()))
        other = evenhand(*asked, "--work", again, "--seed", 7)
        assert other.code == 2
        assert "had seed 0, not 7" in other.err


def test_work_that_is_none_is_refused_before_anything_is_asked(evenhand, people, tmp_path):
    with serving(reply) as service:
        ran = evenhand("search", service.url, *people, "--budget", 500, "--work", tmp_path / "none.json")
        assert ran.code == 2
        assert "cannot be read" in ran.err
        assert service.asked == 0


def test_what_only_answers_cannot_be_certified_and_is_not_asked(evenhand, people, tmp_path, monkeypatch):
    """Neither an endpoint nor a function has an inside, and each question may cost money."""
    domain = people[1:]
    with serving(reply) as service:
        ran = evenhand("certify", service.url, *domain)
        assert ran.code == 2
        assert "this one only answers questions (an HTTP endpoint)" in ran.err
        assert "give the model's file" in ran.err
        assert service.asked == 0
    (tmp_path / "counted_rule.py").write_text("def decide(frame):\n    raise SystemExit('it was asked')\n")
    monkeypatch.chdir(tmp_path)
    ran = evenhand("certify", "counted_rule:decide", *domain)
    assert ran.code == 2
    assert "counted_rule:decide: certification needs the inside of the model" in ran.err
    assert "this one only answers questions (a function)" in ran.err
