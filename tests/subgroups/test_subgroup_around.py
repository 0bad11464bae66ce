"""Sampling around the data: what the gaps converge to, budgets, and errors under looking all the time."""

import math

import numpy as np
import pytest
from deciders import SCHEMA, Decider, people

from evenhand import datasets, subgroups
from evenhand.core import WorkClock
from evenhand.errors import BudgetError, OptionError
from evenhand.schema import encode
from evenhand.stats import SequentialDifference
from evenhand.subgroups import NeighbourhoodConfig, Perturbation, find_members, sample_neighbourhood
from evenhand.subgroups.neighbourhood import MOST_PAIRS

SENSITIVE = ("sex", "race", "age")
WOMEN = {"sex": ("f",)}


def exact_gap(model, everybody, rules):
    """The gap among the people, each nudged in every way."""
    nudge, inside = Perturbation(SCHEMA, SENSITIVE), find_members(everybody, rules)
    first, second = (
        np.mean([model.decide(nudge.all_outcomes(person)).mean() for person in everybody.individuals[side]])
        for side in (inside, ~inside)
    )
    return first - second


def by_income(extra_for_women):
    return Decider(lambda rows: rows[:, 3] >= np.where(rows[:, 0] == 0, 5 + extra_for_women, 5))


# A fixed sample


def test_worked_example_of_the_fixed_sample():
    """797 is the smallest n with 1.96 sqrt(1 / 2n) + 1 / (n sqrt(2)) <= 0.05, enough for any pair of rates."""
    seen = sample_neighbourhood(by_income(2), people(300), [WOMEN], sensitive=SENSITIVE)
    (women,) = seen.rule_sets
    assert women.pairs == 797
    assert women.high - women.low <= 0.1
    assert women.answer == "gap"
    assert women.p is None
    assert women.rate - women.rest_rate == pytest.approx(women.gap)
    assert women.people + women.rest == 300
    assert "Around the data" in women.sentence()


def test_the_fixed_sample_estimates_the_enumerated_gap():
    everybody = people(80, seed=4)
    model = Decider(lambda rows: rows[:, 3] + 2 * (rows[:, 5] == 2) >= 5 + 2 * (rows[:, 1] == 1))
    rule_sets = [WOMEN, {"race": ("b",)}, {"race": ("a", "c"), "sex": ("m",)}, {"age": subgroups.Range(low=40)}]
    covered = 0
    for seed in range(25):
        seen = sample_neighbourhood(
            model, everybody, rule_sets, config=NeighbourhoodConfig(seed=seed, margin=0.1), sensitive=SENSITIVE
        )
        covered += all(
            around.low <= exact_gap(model, everybody, rules) <= around.high
            for around, rules in zip(seen.rule_sets, rule_sets, strict=True)
        )
    assert covered >= 22  # all four together hold with at least 95 %
    close = sample_neighbourhood(
        model, everybody, rule_sets[:1], config=NeighbourhoodConfig(margin=0.01), sensitive=SENSITIVE
    )
    assert close.rule_sets[0].gap == pytest.approx(exact_gap(model, everybody, WOMEN), abs=0.01)


def test_more_evidence_than_a_number_holds():
    """19,349 pairs, each a man with the loan and a woman without."""
    model = Decider(lambda rows: rows[:, 0] == 1)
    (women,) = sample_neighbourhood(
        model, people(60), [WOMEN], config=NeighbourhoodConfig(margin=0.01), sensitive=SENSITIVE
    ).rule_sets
    assert (women.pairs, women.gap, women.answer) == (19_349, -1.0, "gap")


# The sequential test


def test_worked_example_of_the_sequential_test():
    """Men always, women never: each pair multiplies the boldest bet by 2, so 16 pairs are far more than enough."""
    seen = sample_neighbourhood(
        Decider(lambda rows: rows[:, 0] == 1),
        people(300),
        [WOMEN],
        config=NeighbourhoodConfig(how="sequential", margin=0.05),
        sensitive=SENSITIVE,
    )
    (women,) = seen.rule_sets
    assert (women.pairs, women.gap, women.answer) == (16, -1.0, "gap")
    # A 25th of the wealth was bet boldly, half of it in this direction.
    assert women.p <= 50 / 2**16
    by_hand = SequentialDifference()
    by_hand.add(np.zeros(16, dtype=bool), np.ones(16, dtype=bool))
    assert (women.low, women.high) == by_hand.interval(0.95)


def test_no_difference_is_said_when_the_interval_lies_within_the_margin():
    model = Decider(lambda rows: rows[:, 3] >= 0)
    (women,) = sample_neighbourhood(
        model, people(300), [WOMEN], config=NeighbourhoodConfig(how="sequential", margin=0.1), sensitive=SENSITIVE
    ).rule_sets
    assert women.answer == "no gap"
    assert -0.1 <= women.low <= women.high <= 0.1
    assert women.pairs < 2000


def fair_world(seed):
    """As many women as men, with the very same incomes: around the data there is no gap at all."""
    everybody = people(200, seed=seed)
    everybody.individuals[100:] = everybody.individuals[:100]
    everybody.individuals[:, 0] = np.arange(200) >= 100
    return everybody, Decider(lambda rows: rows[:, 3] >= 5)


@pytest.mark.slow
def test_false_alarms_under_looking_all_the_time():
    """Each rule set is looked at after every batch; in at most 5 % of fair worlds does one ever show a gap."""
    alarms = 0
    for seed in range(200):
        everybody, model = fair_world(seed)
        seen = sample_neighbourhood(
            model,
            everybody,
            [WOMEN],
            config=NeighbourhoodConfig(how="sequential", margin=0.02, budget=500, seed=seed),
            sensitive=SENSITIVE,
        )
        alarms += seen.rule_sets[0].answer == "gap"
    assert alarms <= 10


@pytest.mark.slow
def test_false_alarms_of_several_rule_sets_together():
    alarms = 0
    for seed in range(100):
        everybody, model = fair_world(seed)
        # Women and men have the same incomes within every race, so that these have no gap either.
        halves = [WOMEN, {"sex": ("m",)}]
        seen = sample_neighbourhood(
            model,
            everybody,
            halves,
            config=NeighbourhoodConfig(how="sequential", margin=0.02, budget=600, seed=seed),
            sensitive=SENSITIVE,
        )
        alarms += any(around.answer == "gap" for around in seen.rule_sets)
    assert alarms <= 5


def test_the_usual_interval_looked_at_all_the_time_fails():
    """The contrast: with a plain 95 % interval after every batch, far more than 5 % of fair worlds show a gap."""
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        outcomes = rng.random((2, 1600)) < 0.5
        for n in range(16, 1601, 16):
            k1, k2 = outcomes[:, :n].sum(axis=1).tolist()
            p = (k1 + k2) / (2 * n)
            if abs(k1 - k2) / n > 1.96 * math.sqrt(2 * p * (1 - p) / n):
                alarms += 1
                break
    assert alarms > 20


def test_a_gap_of_twenty_points_is_seen_in_far_fewer_pairs_than_a_fixed_sample():
    pairs, found = [], 0
    for seed in range(30):
        (women,) = sample_neighbourhood(
            by_income(3),
            people(400, seed=seed),
            [WOMEN],
            config=NeighbourhoodConfig(how="sequential", seed=seed),
            sensitive=SENSITIVE,
        ).rule_sets
        pairs.append(women.pairs)
        found += women.answer == "gap"
    assert found == 30
    assert np.mean(pairs) < 200


# Budgets and stops


@pytest.mark.parametrize("how", ["sampled", "sequential"])
@pytest.mark.parametrize("budget", [2, 37, 400])
def test_the_budget_is_kept_and_shared(how, budget):
    model = by_income(0)
    rule_sets = [WOMEN, {"race": ("a",)}, {"race": ("b",)}]
    seen = sample_neighbourhood(
        model,
        people(500),
        rule_sets,
        config=NeighbourhoodConfig(how=how, budget=budget, margin=0.01),
        sensitive=SENSITIVE,
    )
    questions = model.questions
    assert len(questions) == len(np.unique(questions, axis=0)) == seen.asked <= budget
    pairs = [around.pairs for around in seen.rule_sets]
    if budget >= 37:
        assert max(pairs) <= 2 * min(pairs)
    for around in seen.rule_sets:
        if around.pairs == 0:
            assert (around.rate, around.gap, around.low, around.high) == (None, None, -1.0, 1.0)
            assert "budget was spent" in around.sentence()


def test_a_gap_as_large_as_the_margin_does_not_go_on_forever():
    everybody, model = people(20, seed=1), by_income(2)
    margin = abs(exact_gap(model, everybody, {"race": ("a",)}))
    (around,) = sample_neighbourhood(
        model,
        everybody,
        [{"race": ("a",)}],
        config=NeighbourhoodConfig(how="sequential", margin=max(margin, 0.001)),
        sensitive=SENSITIVE,
    ).rule_sets
    assert around.pairs <= MOST_PAIRS


def test_deadline_and_interrupt_keep_what_was_seen():
    late = sample_neighbourhood(by_income(0), people(100), [WOMEN], sensitive=SENSITIVE, limit=WorkClock().limit(0.0))
    assert late.interrupted
    assert late.rule_sets[0].pairs == 0

    calls = iter(range(3))

    def impatient(rows):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return rows[:, 3] >= 5

    seen = sample_neighbourhood(
        Decider(impatient),
        people(500),
        [WOMEN],
        config=NeighbourhoodConfig(how="sequential", margin=0.01),
        sensitive=SENSITIVE,
    )
    assert seen.interrupted
    assert seen.rule_sets[0].pairs == 16 + 16 + 16


def test_same_seed_same_answer():
    one, same, other = (
        sample_neighbourhood(
            by_income(1), people(200), [WOMEN], config=NeighbourhoodConfig(seed=seed), sensitive=SENSITIVE
        ).rule_sets
        for seed in (3, 3, 4)
    )
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("rules", "options", "said"),
    [
        ({"sex": ("f", "m")}, {}, "everybody"),
        ({"age": subgroups.Range(low=99)}, {}, "no one"),
        (WOMEN, {"margin": 0.0}, "margin"),
        (WOMEN, {"budget": 1}, "budget"),
    ],
)
def test_what_makes_no_sense_is_refused(rules, options, said):
    with pytest.raises(OptionError, match=said):
        sample_neighbourhood(
            by_income(0), people(100), [rules], config=NeighbourhoodConfig(**options), sensitive=SENSITIVE
        )


# In a search


def test_a_search_keeps_it_apart_from_the_people():
    everybody, model = people(1500, seed=2), by_income(3)
    plain = subgroups.find_subgroups(model, everybody, attributes=("sex", "race"))
    both = subgroups.find_subgroups(model, everybody, attributes=("sex", "race"), augment="sequential", budget=5000)
    assert plain.around == ()
    assert both.findings == plain.findings
    assert both.around
    # Those that stand out on their own, in their order.
    alone = [f.rules for f in plain.findings if f.found and f.under is None]
    assert [around.rules for around in both.around] == alone[:10]
    for around in both.around:
        assert around.people == find_members(everybody, around.rules).sum()
        assert around.confidence == 0.95
    assert any("Around the data" in note for note in both.notes)
    assert subgroups.SubgroupResult.from_json(both.to_json()) == both


def test_rule_sets_asked_about_come_first_even_those_of_few_people():
    everybody, model = people(600, seed=3), by_income(3)
    result = subgroups.find_subgroups(
        model,
        everybody,
        attributes=("sex", "age"),
        judged=("age >= 77", "sex == f", "age >= 18"),
        augment="sequential",
    )
    few, women, _ = result.judged
    assert few.size < 30
    assert [around.rules for around in result.around] == [few.rules, women.rules]
    assert result.around[0].people == few.size
    assert any("hold no one or everybody" in note for note in result.notes)


def test_nothing_stands_out_and_nothing_is_asked():
    model = Decider(lambda rows: rows[:, 3] >= 5)
    result = subgroups.find_subgroups(model, fair_world(1)[0], attributes=("sex",), augment="sampled")
    assert result.around == ()
    assert any("Nothing is significant" in note for note in result.notes)


@pytest.mark.parametrize("measure", ["false-negative", "false-positive"])
def test_error_rates_draw_from_those_concerned(measure):
    everybody = people(3000, seed=6, truth=True)
    model = by_income(4)
    result = subgroups.find_subgroups(model, everybody, attributes=("sex",), measure=measure, augment="sampled")
    concerned = everybody.favourable if measure == "false-negative" else ~everybody.favourable
    finding = result.findings[0]
    around = next(around for around in result.around if around.rules == finding.rules)
    assert around.people + around.rest == concerned.sum()
    assert around.rate == pytest.approx(finding.rate, abs=0.1)
    assert around.rest_rate == pytest.approx(finding.rest_rate, abs=0.1)


def test_mean_scores_are_refused():
    model = by_income(0)
    model.label_only = False
    with pytest.raises(OptionError, match="mean score"):
        subgroups.find_subgroups(
            model, people(100), attributes=("sex",), measure="score", augment="sampled", control="none"
        )


def test_a_budget_is_for_the_people_and_for_those_around_them():
    model, settings = by_income(0), {"judged": ("sex == f",), "augment": "sampled", "attributes": ("sex",)}
    with pytest.raises(BudgetError, match="does not pay for the 100 people"):
        subgroups.find_subgroups(model, people(100), budget=99, **settings)
    found = subgroups.find_subgroups(model, people(100), budget=100, **settings)
    assert found.queries == 100
    assert found.around == ()
    assert "nothing was asked around them" in found.notes[-1]


def test_german():
    data = datasets.load_dataset("german")
    everybody = encode(data.schema, data.frame)
    sex, duration = everybody.schema.positions(["sex", "duration"])
    favourable = everybody.schema.target.values.index(everybody.schema.target.favourable)
    model = Decider(
        lambda rows: (rows[:, duration] < 12 + 15 * rows[:, sex]) == (favourable == 1),
        everybody.schema,
        favourable=favourable,
    )
    result = subgroups.find_subgroups(model, everybody, attributes=("age", "sex"), augment="sequential", budget=3000)
    women = data.schema["sex"].values[0]
    around = next(around for around in result.around if around.rules == {"sex": (women,)})
    assert around.answer == "gap"
    assert around.pairs < 300
    finding = next(f for f in result.findings if f.rules == around.rules)
    assert around.low <= finding.gap <= around.high
