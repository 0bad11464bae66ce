"""Commands that ask an endpoint: agreed to before, never beyond the ceiling, and the report counts what it counts."""

from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import evenhand as api
from evenhand.schema import read_schema
from serving import serving

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
def test_the_server_counts_what_the_report_says_and_no_more_than_the_budget(evenhand, people, command):
    with serving(reply) as service:
        ran = evenhand(command, service.url, *people, "--budget", 400, "--json", "-")
        assert ran.json["queries"] == service.asked <= 400


@pytest.mark.parametrize("command", ["search", "audit", "subgroups"])
def test_without_a_budget_somebody_has_to_agree_to_the_forecast(evenhand, people, command):
    with serving(reply) as service:
        refused = evenhand(command, service.url, *people, "--json", "-", code=2)
        assert "up to " in refused.err
        assert "--budget ROWS" in refused.err
        assert service.asked == 0
        forecast = int(refused.err.split("up to ")[1].split(" rows")[0].replace(",", ""))
        agreed = evenhand(command, service.url, *people, "--budget", forecast, "--json", "-")
        assert 0 < agreed.json["queries"] == service.asked <= forecast


def test_a_budget_below_what_an_audit_needs_is_refused_before_people_are_asked_about(evenhand, people):
    with serving(reply) as service:
        ran = evenhand("audit", service.url, *people, "--budget", 100, code=3)
        assert "budget of 100 rows is not sufficient for the 120 people" in ran.err
        # The meaning of the outputs is decided on 32 individuals and on people for a quarter of the budget at most.
        assert 32 <= service.asked <= 32 + 100 // 4


def test_what_only_answers_cannot_be_certified_and_is_not_asked(evenhand, people, tmp_path, monkeypatch):
    """Neither an endpoint nor a function has an inside, and each question may cost money."""
    domain = people[1:]
    with serving(reply) as service:
        ran = evenhand("certify", service.url, *domain, code=2)
        assert "an HTTP endpoint cannot be certified" in ran.err
        assert "give the model's file" in ran.err
        assert service.asked == 0
    (tmp_path / "counted_rule.py").write_text("def decide(frame):\n    raise SystemExit('it was asked')\n")
    monkeypatch.chdir(tmp_path)
    ran = evenhand("certify", "counted_rule:decide", *domain, code=2)
    assert "counted_rule:decide: a function cannot be certified" in ran.err


FIT = """
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder

def fit(frame, labels):
    words = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(words, LogisticRegression(max_iter=1000)).fit(frame, labels)
"""


@pytest.fixture
def mending(evenhand, people, tmp_path, monkeypatch):
    """A folder to mitigate in: what was found about the endpoint, how its successor is trained, and the options."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit_over_http.py").write_text(FIT)
    with serving(reply) as service:
        found = tmp_path / "found.json"
        search = [service.url, *people, "--budget", 1500, "--show-people", "--examples", 1000, "--json", found]
        evenhand("search", *search, "--quiet")
    options = ["--fit", "fit_over_http:fit", "--from", found, "--rounds", 0, "--certify-effort", 0]
    return [*people, *options, "--save", tmp_path / "new.joblib", "--json", "-"]


def test_mitigation_asks_nobody_twice_and_no_more_than_its_forecast(evenhand, mending, tmp_path):
    with serving(reply) as service:
        refused = evenhand("mitigate", service.url, *mending, code=2)
        assert "--budget ROWS" in refused.err
        assert service.asked == 0
        assert not (tmp_path / "new.joblib").exists()
        forecast = int(refused.err.split("up to ")[1].split(" rows")[0].replace(",", ""))
        agreed = evenhand("mitigate", service.url, *mending, "--budget", forecast)
        assert 0 < agreed.json["queries"] == service.asked <= forecast
        rows = [tuple(one.values()) for request in service.requests for one in request]
    # Again asked about are the 24 people of the test set, to see whether the model answers differently each time, and
    # both sides of flips: on the test set, and in what is learnt from.
    assert 24 < len(rows) - len(set(rows)) <= 24 + 2 * len(set(rows))
    assert (tmp_path / "new.joblib").exists()
    names = {line["name"] for line in agreed.json["candidates"][0]["lines"]}
    assert {"accuracy", "flip_rate"} <= names


def test_mitigation_within_a_budget(evenhand, mending):
    with serving(reply) as service:
        ran = evenhand("mitigate", service.url, *mending, "--budget", 400)
        assert 0 < ran.json["queries"] == service.asked <= 400


def test_mitigation_with_a_budget_that_pays_for_nothing(evenhand, mending, tmp_path):
    with serving(reply) as service:
        ran = evenhand("mitigate", service.url, *mending, "--budget", 60, code=3)
        assert "the budget of 60 rows does not cover the validation and test sets of 47 people" in ran.err
        assert 32 <= service.asked <= 32 + 60 // 4
    assert not (tmp_path / "new.joblib").exists()


COUNTED = """
import numpy as np

ROWS = []

def points(frame):
    ROWS.append(len(frame))
    return (frame["points"] + 9 * (frame["sex"] == "m")).to_numpy() / 109

def score(frame):
    return points(frame)

def noisy(frame):
    return np.random.default_rng(len(ROWS)).random(len(frame)) < points(frame)

class Classifier:
    classes_ = np.array(["no", "yes"])

    def get_params(self, deep=True):
        return {}

    def predict(self, frame):
        return np.where(points(frame) > 0.5, "yes", "no")

classifier = Classifier()
"""


@pytest.mark.parametrize("verb", [api.search, api.audit, api.find_subgroups, api.mitigate])
@pytest.mark.parametrize("kind", ["score", "noisy", "classifier"])
def test_in_python_no_more_than_the_budget_is_asked_either(people, verb, kind):
    counted = ModuleType("counted")
    exec(COUNTED, vars(counted))  # a module of its own, so that its count begins at 0
    schema, frame, more = read_schema(people[2]), pd.read_csv(people[0]), {}
    if verb is api.mitigate:
        training = ModuleType("training")
        exec(FIT, vars(training))
        searched = ModuleType("searched")
        exec(COUNTED, vars(searched))
        found = api.search(searched.score, frame, schema=schema, budget=1000)
        more = {"fit": training.fit, "findings": [found], "rounds": 0, "certify_effort": 0}
    result = verb(getattr(counted, kind), frame, schema=schema, budget=1000, **more)
    result = getattr(result, "result", result)
    assert 0 < result.queries == sum(counted.ROWS) <= 1000
