"""An audit searches too: briefly, for each protected attribute, and shows whom it found."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand import auditing, certification, view
from evenhand.errors import OptionError
from evenhand.models import QuestionLedger, Subject
from evenhand.schema.people import ColumnRoles

QUICK = auditing.AuditConfig(time_limit=60, samples=500, searched=400)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "grade": rng.integers(0, 40, n),
            "sex": rng.choice(["f", "m"], n),
            "city": rng.choice(["a", "b"], n),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    return frame.assign(hired=np.where(frame["grade"] + rng.normal(0, 3, n) > 20, "yes", "no"))


def southern(frame):
    """Men in the south need four points less; the city changes nothing."""
    return 1 / (1 + np.exp(20.5 - frame["grade"] - 4 * ((frame["sex"] == "m") & (frame["region"] == "south"))))


def audited(people, config=QUICK, model=southern):
    return auditing.audit(Subject(model, ColumnRoles("hired", ["sex", "city"]).read(people)), config)


@pytest.fixture(scope="module")
def result(people):
    return audited(people)


def test_one_search_per_protected_attribute(result):
    by_sex, by_city = result.searches
    assert (by_sex.protected, by_city.protected) == (("sex",), ("city",))
    assert by_sex.profiles > 0
    assert by_city.profiles == 0
    assert all(example.unprotected["region"] == "south" for example in by_sex.examples)
    assert all(example.valid for example in by_sex.examples)


def test_rates_stay_as_they_are(people, result):
    without = audited(people, auditing.AuditConfig.of(QUICK, {"searched": 0}))
    assert without.searches == ()
    assert without.individual.rates == result.individual.rates
    assert without.individual.examples == result.individual.examples
    assert without.flip_rate == result.flip_rate


def test_what_cannot_be_searched_is_listed(people):
    alone = people[["sex", "hired"]]
    subject = Subject(lambda frame: frame["sex"] == "m", ColumnRoles("hired", ["sex"]).read(alone))
    result = auditing.audit(subject, QUICK)
    assert result.searches == ()
    (item,) = [item for item in result.not_run if item.what == "search for individuals by sex"]
    assert "every attribute is protected" in item.reason
    assert item.reason in view.render_page(result.document())


def test_an_interrupt_while_searching_ends_the_audit_with_what_was_found(people, monkeypatch):
    def stopped(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.individual.search.search", stopped)
    result = audited(people)
    assert result.interrupted
    assert result.searches == ()
    assert len(result.individual.rates) == 6


def test_a_model_of_scikit_learn_is_searched_by_its_inside(people):
    given = people.assign(
        sex=(people["sex"] == "m").astype(int), city=(people["city"] == "b").astype(int), region=people["grade"] % 3
    )
    names = ["grade", "sex", "city", "region"]
    fitted = LogisticRegression().fit(given[names], given["hired"])
    result = auditing.audit(Subject(fitted, ColumnRoles("hired", ["sex"]).read(given)), QUICK)
    assert [search.asked for search in result.searches] == ["white box"]


@pytest.mark.parametrize("limit", [None, 7.0])
def test_proofs_end_early_only_without_a_time_limit(people, monkeypatch, limit):
    asked = []

    def certify(network, **settings):
        asked.append((settings["effort"] is None, settings["min_progress"], settings["target_undecided"]))
        raise OptionError("not today")

    monkeypatch.setattr(certification, "certify", certify)
    given = people.assign(sex=(people["sex"] == "m").astype(int))
    fitted = LogisticRegression().fit(given[["grade", "sex"]], given["hired"])
    config = auditing.AuditConfig(time_limit=limit, samples=100, searched=0)
    people = ColumnRoles("hired", ["sex"]).read(given[["grade", "sex", "hired"]])
    auditing.audit(Subject(fitted, people), config)
    assert asked == [(True, None, None) if limit else (False, 0.0005, 0.005)]


@pytest.mark.parametrize("budget", [700, 2_000, 6_000, 20_000])
def test_a_budget_ends_searches_and_no_audit(people, budget):
    """Even where the searches ask a white box and only what they found is asked of the model."""
    words = make_column_transformer((OneHotEncoder(), ["sex", "city", "region"]), remainder="passthrough")
    pipeline = make_pipeline(words, LogisticRegression()).fit(people.drop(columns="hired"), people["hired"])
    ledger = QuestionLedger(budget)
    subject = Subject(pipeline, ColumnRoles("hired", ["sex", "city"]).read(people), ledger=ledger)
    result = auditing.audit(subject, auditing.AuditConfig(max_boxes=10, samples=500, searched=400))
    assert result.queries == ledger.sent <= budget
    assert len(result.searches) + len(result.not_run) >= 2
