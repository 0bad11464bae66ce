"""Real people: the bundled Adult and German data."""

import numpy as np
import pandas as pd
import pytest

from evenhand import datasets
from evenhand.schema import encode
from evenhand.subgroups import SubgroupConfig, exact, find_members
from evenhand.subgroups.measures import MeasuredOutcomes


@pytest.fixture(scope="module")
def adult():
    data = datasets.load_dataset("adult")
    return encode(data.schema, data.frame)


def outcome(values):
    return lambda: MeasuredOutcomes(np.arange(len(values)), np.asarray(values, dtype=np.float64), True)


@pytest.fixture(scope="module")
def true_incomes(adult):
    """What people truly earn, as if a perfect model had said so."""
    judged = ("sex == Male and 40 <= age < 80 and race in {White, Asian-Pac-Islander}", "age >= 90 and sex == Female")
    config = SubgroupConfig(attributes=("sex", "race", "age"), judged=judged, most=3000)
    return exact.search_exactly(adult, outcome(adult.favourable), config)


def test_adult_by_group_by(adult, true_incomes):
    assert true_incomes.people == 48_842
    assert true_incomes.rule_sets == 3 * 31 * 55 - 1
    frame = pd.DataFrame(adult.frame).iloc[adult.rows].assign(rich=adult.favourable)
    rates = frame.groupby("sex")["rich"].agg(["mean", "size"])
    women = next(found for found in true_incomes.findings if found.rules == {"sex": ("Female",)})
    assert (women.size, women.rate) == (rates.loc["Female", "size"], pytest.approx(rates.loc["Female", "mean"]))
    assert women.gap == pytest.approx(rates.loc["Female", "mean"] - rates.loc["Male", "mean"])
    assert women.found
    assert len(true_incomes.findings) == true_incomes.tested
    for found in true_incomes.findings[::50]:
        inside = find_members(adult, found.rules)
        assert found.size == inside.sum() >= 0.05 * 48_842
        assert found.gap == pytest.approx(adult.favourable[inside].mean() - adult.favourable[~inside].mean())


def test_a_person_can_read_the_list(true_incomes):
    """Of some two thousand findings few stand on their own, and the first are those that everybody knows."""
    alone = [found for found in true_incomes.findings if found.found and found.under is None]
    assert true_incomes.found > 1500
    assert len(alone) <= 10
    assert [found.words for found in alone[:2]] == ["age 29 or less", "sex Female"]
    assert sum(found.explains for found in alone) + len(alone) == true_incomes.found


@pytest.mark.parametrize("rate", [0.7, 0.03])
def test_fair_models_on_german_people(rate):
    """5 % of 40 fair models may have a finding. More than 7 would occur once in a thousand such tests."""
    data = datasets.load_dataset("german")
    people = encode(data.schema, data.frame)
    rng = np.random.default_rng(1)
    alarms = 0
    for seed in range(40):
        config = SubgroupConfig(attributes=("sex", "age"), permutations=99, seed=seed, most=1, margin=0.0)
        alarms += exact.search_exactly(people, outcome(rng.random(len(people)) < rate), config).found > 0
    assert alarms <= 7
