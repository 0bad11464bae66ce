"""Errors of the whole search, by simulation: fair models under every measure, and what intervals hold."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

from evenhand import subgroups
from evenhand.schema import People
from evenhand.subgroups import find_members
from support import shortened, small_schema

PEOPLE = 400
SCHEMA = small_schema(race="a b c", age=(0, 4), school="s t", number=(0, PEOPLE - 1)).with_protected(["race", "age"])


def drawn(rng):
    """People of three races, of which two go to one school more often than the third, all as deserving."""
    race, age = rng.choice(3, PEOPLE, p=[0.6, 0.25, 0.15]), rng.binomial(4, 0.4, PEOPLE)
    school = rng.random(PEOPLE) < np.where(race == 0, 0.3, 0.7)
    rows = np.column_stack([race, age, school, np.arange(PEOPLE)]).astype(np.float64)
    return People(SCHEMA, rows, rng.integers(0, 2, PEOPLE), np.arange(PEOPLE), None)


@dataclasses.dataclass
class Given:
    """A model whose score of every person was drawn beforehand."""

    given: np.ndarray
    schema = SCHEMA
    classes = ("no", "yes")
    favourable = 1
    label_only = False
    name = "drawn"

    def scores(self, individuals):
        favourable = self.given[individuals[:, -1].astype(int)]
        return np.stack([1 - favourable, favourable], axis=1)

    def predict(self, individuals):
        return (self.scores(individuals)[:, 1] > 0.5).astype(np.int64)


FAIR = {
    "rest": ({}, 0.3),
    "rare": ({"support": 0.0, "min_size": 10}, 0.03),
    "errors": ({"measure": "false-negative"}, 0.3),
    "score": ({"measure": "score"}, None),
}


@pytest.mark.parametrize("case", shortened(FAIR, to=2))
def test_a_fair_model_is_accused_as_often_as_the_level_says(case):
    options, rate = FAIR[case]
    rng, runs = np.random.default_rng(7), 100
    people = drawn(rng)
    wrong = 0
    for run in range(runs):
        given = rng.beta(0.3, 2, PEOPLE) if rate is None else (rng.random(PEOPLE) < rate).astype(float)
        found = subgroups.find_subgroups(Given(given), people, margin=0.0, permutations=99, seed=run, most=1, **options)
        assert found.tested > 10
        wrong += found.found > 0
    assert wrong <= binom.ppf(1 - 1e-3, runs, 0.05)


@pytest.mark.full
def test_a_gap_between_schools_is_no_gap_within_them():
    """Schools decide unequally and races go to different ones: unfair among all, fair within each school."""
    rng, runs = np.random.default_rng(8), 40
    people = drawn(rng)
    within = among = 0
    for run in range(runs):
        given = (rng.random(PEOPLE) < np.where(people.individuals[:, 2] == 1, 0.7, 0.2)).astype(float)
        settings = {"margin": 0.0, "permutations": 99, "seed": run, "most": 1}
        within += subgroups.find_subgroups(Given(given), people, per="school", **settings).found > 0
        among += subgroups.find_subgroups(Given(given), people, **settings).found > 0
    assert within <= binom.ppf(1 - 1e-3, runs, 0.05)
    assert among > 0.9 * runs


@pytest.mark.parametrize("measure", shortened(["favourable", "score"]))
def test_intervals_hold_the_gaps_that_are_there(measure):
    """People drawn anew, decided about unequally; the truth is that of the population they are drawn from."""
    rng, runs = np.random.default_rng(10), 60
    everybody = [(race, age, school, 0.0) for race in range(3) for age in range(5) for school in range(2)]
    population = People(SCHEMA, np.array(everybody, dtype=np.float64), None, np.arange(30), None)
    race, age, school, _ = population.individuals.T
    second = np.where(race == 0, 0.3, 0.7)
    share = np.array([0.6, 0.25, 0.15])[race.astype(int)] * binom.pmf(age, 4, 0.4)
    share *= np.where(school == 1, second, 1 - second)
    rates = 0.5 - 0.15 * (race == 1) - 0.1 * (age >= 3) - 0.1 * ((race == 2) & (age <= 1))
    held, plain, missed = 0, [], []
    for run in range(runs):
        people = drawn(rng)
        own = 0.5 - 0.15 * (people.individuals[:, 0] == 1) - 0.1 * (people.individuals[:, 1] >= 3)
        own -= 0.1 * ((people.individuals[:, 0] == 2) & (people.individuals[:, 1] <= 1))
        given = rng.beta(2 * own, 2 * (1 - own)) if measure == "score" else (rng.random(PEOPLE) < own).astype(float)
        result = subgroups.find_subgroups(
            Given(given), people, measure=measure, margin=0.0, permutations=99, seed=run, most=10_000
        )
        assert len(result.findings) == result.tested
        inside = np.array([find_members(population, one.rules) for one in result.findings])
        truth = (inside @ (share * rates)) / (inside @ share) - (~inside @ (share * rates)) / (~inside @ share)
        low, high, plain_low, plain_high = np.array(
            [(one.low, one.high, one.plain_low, one.plain_high) for one in result.findings]
        ).T
        adjusted = (low <= truth) & (truth <= high)
        held += adjusted.all()
        plain.append(((plain_low <= truth) & (truth <= plain_high)).mean())
        reported = np.array([one.found for one in result.findings])
        missed.append((reported & ~adjusted).sum() / max(reported.sum(), 1))
    spread = 3.1 / np.sqrt(runs)
    assert held >= binom.ppf(1e-3, runs, 0.95)
    assert np.mean(missed) <= 0.05 + spread * np.std(missed)
    assert np.mean(plain) >= 0.95 - spread * np.std(plain)
    assert np.mean(plain) <= 0.98
