"""Subgroups of a model that answers differently each time: its noise is not a finding, a planted gap is one."""

import math

import numpy as np
import pandas as pd
import pytest
from deciders import CLASSES, Decider, people

from evenhand import subgroups
from evenhand.errors import BudgetError
from evenhand.models import QuestionLedger
from evenhand.models.replies import Reply
from evenhand.models.scorer import ask_once
from evenhand.schema import encode
from evenhand.subgroups import SubgroupResult
from support import scaled, small_schema

FEW = small_schema(target="loan", race="a b c d *", **{"class": CLASSES})


class KeptCoin:
    """A coin per answer behind a cache, as a model behind HTTP has one: the same row gets its first answer again."""

    can_vary = True

    def __init__(self, rate, seed):
        self.rate, self.rng, self.known = rate, np.random.default_rng(seed), {}
        self.schema, self.name, self.label_only, self.favourable = FEW, "coin", True, 1
        self.classes = FEW.target.values

    def reply_again(self, individuals):
        labels = (self.rng.random(len(individuals)) < self.rate(individuals)).astype(np.int64)
        return Reply(np.eye(2)[labels], labels, True)

    def predict(self, individuals):

        def ask(rows):
            return self.reply_again(rows).labels[:, None].astype(float)

        return ask_once(individuals, self.known, ask, batch=1000, width=1)[:, 0].astype(np.int64)

    def scores(self, individuals):
        return np.eye(2)[self.predict(individuals)]


def few(n, seed):
    rng = np.random.default_rng(seed)
    values = {attribute.name: rng.choice(np.array(attribute.values), n) for attribute in FEW.attributes}
    return encode(FEW, pd.DataFrame(values))


def test_a_fair_coin_has_no_subgroups_although_many_people_are_alike():
    """Kept answers would give everybody of a row the same answer, and nearly every run would find a gap."""
    runs = scaled(60)
    false = sum(
        subgroups.find_subgroups(KeptCoin(lambda rows: 0.5, seed), few(600, seed), permutations=100).found > 0
        for seed in range(runs)
    )
    assert false <= 3 + 0.1 * runs  # expected: at most one in twenty


def test_a_planted_gap_is_found_behind_the_noise_and_the_noise_is_said_first():
    model = KeptCoin(lambda rows: np.where(rows[:, 0] == 1, 0.3, 0.6), 0)
    result = subgroups.find_subgroups(model, few(2000, 1), permutations=100)
    assert result.findings[0].rules == {"race": ("b",)}
    assert result.noise.noisy
    first = result.document().blocks[0]
    assert first.tone == "caution"
    assert first.text.startswith("The model answers differently each time")
    assert SubgroupResult.from_json(result.to_json()) == result


def test_a_model_that_repeats_itself_is_counted_as_before():
    world = people(800, seed=3)
    model = Decider(lambda rows: rows[:, 0] == 0)
    before = subgroups.find_subgroups(model, world, permutations=100)
    assert before.noise is None  # nothing says that it may vary
    model.can_vary = True
    result = subgroups.find_subgroups(model, world, permutations=100)
    assert (result.noise.people, result.noise.changed) == (300, 0)
    assert result.model_copy(update={"noise": None, "seconds": before.seconds}) == before


class CountedCoin(KeptCoin):
    """The same with a ledger, as an endpoint has one."""

    def __init__(self, rate, seed, budget=None):
        super().__init__(rate, seed)
        self.ledger = QuestionLedger(budget)
        self.sent = 0

    def reply_again(self, individuals):
        self.ledger.charge(len(individuals))
        self.sent += len(individuals)
        return super().reply_again(individuals)


def test_the_majority_of_several_answers():
    """Five answers turn favourable rates of 0.7 and 0.3 into those of majorities: 0.837 and 0.163, by hand."""

    def rate(rows):
        return np.where(rows[:, 0] == 1, 0.3, 0.7)

    model = CountedCoin(rate, 0)
    result = subgroups.find_subgroups(model, few(4000, 1), permutations=100, repeats=5)
    first = result.findings[0]
    expected = [sum(math.comb(5, k) * p**k * (1 - p) ** (5 - k) for k in (3, 4, 5)) for p in (0.3, 0.7)]
    assert first.rules == {"race": ("b",)}
    assert [first.rate, first.rest_rate] == pytest.approx(expected, abs=0.05)
    assert result.repeats == 5
    assert result.queries == model.sent == 5 * 4000 + 2 * 300 - (300 - len(model.known))
    assert "Rates are of the majority of 5 answers for each person." in result.summary()


def test_repeats_are_for_models_that_may_vary():
    world, model = people(800, seed=3), Decider(lambda rows: rows[:, 0] == 0)
    one, five = (subgroups.find_subgroups(model, world, permutations=100, repeats=k) for k in (1, 5))
    assert five.repeats == 1
    assert five.model_copy(update={"seconds": one.seconds}) == one


def test_repeats_within_a_budget():
    model = CountedCoin(lambda rows: np.where(rows[:, 0] == 1, 0.2, 0.7), 0, budget=6000)
    result = subgroups.find_subgroups(model, few(900, 1), permutations=100, repeats=5, budget=6000)
    assert result.queries == model.sent <= 6000
    short = CountedCoin(lambda rows: 0.5, 0, budget=4000)
    with pytest.raises(BudgetError, match="does not cover 5 answers about each of the 900 people"):
        subgroups.find_subgroups(short, few(900, 1), permutations=100, repeats=5, budget=4000)
    assert short.sent == 0


def test_a_model_without_a_ledger_is_charged_for_every_answer():
    model = KeptCoin(lambda rows: 0.5, 0)
    result = subgroups.find_subgroups(model, few(600, 1), permutations=100, repeats=3, budget=6000)
    assert result.queries == 3 * 600
