"""Searches and subgroups inside an audit: what is found, gates, interrupts, and what could not be done."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand import audit_rankings as measure_rankings
from evenhand import auditing, certification, view
from evenhand.core.document import Metric
from evenhand.errors import OptionError
from evenhand.groups.rankings.result import RankingResult
from evenhand.models import QuestionLedger, Subject
from evenhand.schema.people import ColumnRoles

QUICK = auditing.AuditConfig(time_limit=60, samples=500, searched=400)


SUBGROUPS = auditing.AuditConfig(time_limit=60, samples=300, searched=0)


def draw_people(n):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"grade": rng.integers(0, 40, n), "sex": rng.choice(["f", "m"], n)})
    frame = frame.assign(city=rng.choice(["a", "b"], n), region=rng.choice(["north", "south", "west"], n))
    return frame.assign(hired=np.where(frame["grade"] + rng.normal(0, 3, n) > 20, "yes", "no"))


@pytest.fixture(scope="module")
def people():
    return draw_people(400)


@pytest.fixture(scope="module")
def many():
    return draw_people(2000)


def southern(frame):
    """Men in the south need four points less; the city changes nothing."""
    return 1 / (1 + np.exp(20.5 - frame["grade"] - 4 * ((frame["sex"] == "m") & (frame["region"] == "south"))))


def audited(people, config=QUICK, model=southern, protected=("sex", "city")):
    return auditing.audit(Subject(model, ColumnRoles("hired", list(protected)).read(people)), config)


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


@pytest.mark.parametrize(
    ("analysis", "part", "nothing"),
    [("individual.search.search", "searches", ()), ("subgroups.find_subgroups", "subgroups", None)],
)
def test_an_interrupt_ends_the_audit_with_what_was_found(people, monkeypatch, analysis, part, nothing):
    def stopped(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"evenhand.{analysis}", stopped)
    result = audited(people)
    assert result.interrupted
    assert getattr(result, part) == nothing
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


def western_women(frame):
    """Women in the west need ten points more."""
    return 1 / (1 + np.exp(20.5 - frame["grade"] + 10 * ((frame["sex"] == "f") & (frame["region"] == "west"))))


def blind(frame):
    return frame["grade"] > 20


@pytest.fixture(scope="module")
def subgroups_result(many):
    return audited(many, SUBGROUPS, western_women, ("sex", "region"))


def test_the_worst_subgroup_is_found(many, subgroups_result):
    worst = subgroups_result.subgroups.widest
    assert worst.rules == {"sex": ("f",), "region": ("west",)}
    inside = (many["sex"] == "f") & (many["region"] == "west")
    assert worst.size == inside.sum()
    assert worst.rate == pytest.approx((western_women(many[inside]) > 0.5).mean())
    assert worst.found
    assert not [item for item in subgroups_result.not_run if "subgroup" in item.what]
    assert auditing.AuditResult.from_json(subgroups_result.to_json()) == subgroups_result


def test_a_gate_asks_about_it(subgroups_result):
    gap = -subgroups_result.subgroups.widest.gap
    low, high = -subgroups_result.subgroups.widest.high, -subgroups_result.subgroups.widest.low
    for name, value in (
        ("worst_subgroup_gap", gap),
        ("worst_subgroup_gap.low", low),
        ("worst_subgroup_gap.high", high),
    ):
        assert auditing.parse_gate(f"{name} > {value - 1e-9}").holds(subgroups_result)
        assert not auditing.parse_gate(f"{name} > {value + 1e-9}").holds(subgroups_result)


def test_a_model_that_ignores_them_passes_the_gate_on_the_certain_end(many):
    result = audited(many, SUBGROUPS, blind, ("sex", "region"))
    assert result.subgroups.found == 0
    assert not auditing.parse_gate("worst_subgroup_gap.low > 0").holds(result)
    (line,) = [one for one in result.document().blocks if isinstance(one, Metric) and one.name == "worst subgroup"]
    assert "not significant" in line.next_step


def test_nobody_large_enough(many):
    result = audited(many.head(50), SUBGROUPS, western_women, ("sex", "region"))
    assert result.subgroups.tested == 0
    (line,) = [one for one in result.document().blocks if isinstance(one, Metric) and one.name == "worst subgroup"]
    assert line.number.basis == "no subgroup is large enough"
    assert not auditing.parse_gate("worst_subgroup_gap > 0").holds(result)


class AuditWithRankings(auditing.AuditResult):
    """Audit with a further analysis."""

    rankings: RankingResult | None = None


def test_an_analysis_without_a_section_of_its_own_is_shown_and_gated_on(subgroups_result):
    exposure = measure_rankings(rank_by=list(range(60)), sensitive_features={"sex": ["f", "m"] * 30}, min_group_size=1)
    whole = AuditWithRankings(**dict(subgroups_result), rankings=exposure)
    assert "## Audit of rankings" in view.render_markdown(whole.document())
    assert {number.name for number in exposure.numbers()} <= {number.name for number in whole.numbers()}
    assert AuditWithRankings.from_json(whole.to_json()) == whole
