"""Differences that repeat are confirmed; noise is confirmed no more often than stated."""

import numpy as np
import pytest

from evenhand.stats.repetition import FEW, ROUNDS, SAME_DIRECTION, SAME_LABELS, confirm_repeats


class Model:
    """Differences that repeat with given probabilities, and the number of times each was asked about."""

    def __init__(self, probabilities, seed=0):
        self.probabilities = np.asarray(probabilities, dtype=float)
        self.rng = np.random.default_rng(seed)
        self.asked = np.zeros(len(self.probabilities), dtype=int)

    def repeat(self, which):
        self.asked[which] += 1
        return self.rng.random(len(which)) < self.probabilities[which]


class Limit:
    """A time limit that has passed after some checks."""

    def __init__(self, checks):
        self.checks = checks

    def passed(self):
        self.checks -= 1
        return self.checks < 0


@pytest.mark.parametrize(("n", "asked"), [(1, 3), (2, 3), (7, 2), (24, 2), (25, 1), (1000, 1)])
def test_differences_that_always_repeat_are_confirmed_at_little_cost(n, asked):
    model = Model(np.ones(n))
    confirmed, tested = confirm_repeats(model.repeat, n)
    assert (confirmed.all(), tested) == (True, n)
    assert (model.asked == asked).all()


@pytest.mark.parametrize("chance", [SAME_LABELS, SAME_DIRECTION])
@pytest.mark.parametrize("n", [1, 2, 10, 40])
def test_the_worst_noise_is_confirmed_in_at_most_five_percent_of_runs(chance, n):
    runs = 600
    wrong = sum(
        confirm_repeats(Model(np.full(n, chance), seed).repeat, n, chance=chance).confirmed.any()
        for seed in range(runs)
    )
    assert wrong <= 0.05 * runs + 3 * np.sqrt(0.05 * 0.95 * runs)


def test_the_false_discovery_rate_holds_among_real_differences():
    shares = []
    for seed in range(200):
        probabilities = np.r_[np.full(30, 0.95), np.full(30, 0.25)]
        confirmed = confirm_repeats(Model(probabilities, seed).repeat, 60).confirmed
        assert confirmed[:30].mean() > 0.5
        shares.append(confirmed[30:].sum() / max(1, confirmed.sum()))
    assert np.mean(shares) <= 0.05


def test_noise_is_given_up_after_few_rounds():
    model = Model(np.zeros(100))
    assert not confirm_repeats(model.repeat, 100).confirmed.any()
    assert (model.asked == 2).all()
    assert Model(np.full(1000, 0.25)).asked.max() <= ROUNDS


@pytest.mark.parametrize("budget", [0, 3, 10, 70, 1000])
def test_a_budget_is_kept_and_cuts_off_the_last_differences(budget):
    for probability in (1.0, 0.9):
        model = Model(np.full(60, probability))
        confirmed, tested = confirm_repeats(model.repeat, 60, affordable=lambda m=model: budget - m.asked.sum())
        assert model.asked.sum() <= budget
        assert not confirmed[tested:].any()
        assert budget < 1000 or tested == 60


def test_a_time_limit_cuts_off_the_last_differences():
    model = Model(np.ones(1000))
    confirmed, tested = confirm_repeats(model.repeat, 1000, step=100, limit=Limit(2))
    assert (tested, confirmed.sum(), model.asked.sum()) == (300, 300, 300)
    model = Model(np.r_[0.0, np.ones(999)])
    confirmed, tested = confirm_repeats(model.repeat, 1000, step=100, limit=Limit(2))
    assert tested == FEW
    assert confirmed.sum() == FEW - 1


def test_no_differences():
    assert confirm_repeats(Model([]).repeat, 0) == (pytest.approx([]), 0)
