"""Anytime-valid statistics: by hand, against exact probabilities, and by simulation of someone who looks every time."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from evenhand.errors import OptionError
from evenhand.stats import SequentialDifference, clopper_pearson, difference_interval, sequential_rate
from evenhand.stats.sequential.betting import STAKE_WEIGHTS, STAKES


def observed(first_only, second_only, alike=0):
    found = SequentialDifference()
    found.add([1] * first_only + [0] * second_only + [1] * alike, [0] * first_only + [1] * second_only + [1] * alike)
    return found


def test_by_hand():
    """Against no difference one pair won multiplies by 1 + s, one lost by 1 - s; a pair alike changes nothing."""
    found = observed(3, 1, alike=7)
    by_hand = (STAKE_WEIGHTS * (1 + STAKES) ** 3 * (1 - STAKES)).sum() / 2
    assert found.evidence() == pytest.approx(by_hand)
    assert found.pairs == 11
    assert found.difference == pytest.approx(2 / 11)
    assert STAKE_WEIGHTS.sum() == pytest.approx(1)
    # Against a difference of -1/2, a mean of 1/4 on the scale from 0 to 1: 1 + 3 s, 1 + s and 1 - s.
    wealth = (STAKE_WEIGHTS * (1 + 3 * STAKES) ** 3 * (1 - STAKES) * (1 + STAKES) ** 7).sum() / 2
    assert found.evidence(-0.5) == pytest.approx(wealth)


def test_nothing_seen_says_nothing():
    found = SequentialDifference()
    assert (found.pairs, found.difference, found.p) == (0, 0.0, 1.0)
    assert found.evidence() == pytest.approx(0.5)
    assert found.interval() == (-1.0, 1.0)
    assert sequential_rate(0, 0) == (0.0, 1.0)
    with pytest.raises(OptionError, match="3 of 2"):
        sequential_rate(3, 2)


def test_order_and_batches_do_not_matter_but_looks_are_remembered():
    rng = np.random.default_rng(1)
    first, second = rng.random(200) < 0.5, rng.random(200) < 0.3
    together, one_by_one = SequentialDifference(), SequentialDifference()
    together.add(first, second)
    for a, b in zip(first, second, strict=True):
        one_by_one.add(bool(a), bool(b))
    assert one_by_one.evidence() == together.evidence()
    assert one_by_one.most_evidence >= together.most_evidence
    one_by_one.add(np.zeros(500), np.ones(500) * (np.arange(500) % 8 == 0))
    assert one_by_one.p == 1 / one_by_one.most_evidence <= together.p


def test_the_interval_is_what_the_evidence_does_not_reject():
    found = observed(40, 12, alike=60)
    low, high = found.interval(0.9)
    for difference in np.linspace(-0.99, 0.99, 199):
        assert (low <= difference <= high) == (found.evidence(difference) < 10)
    assert found.interval(0.99)[0] < low < found.difference < high < found.interval(0.99)[1]


@pytest.mark.parametrize(("ties", "difference"), [(0.0, 0.0), (0.6, 0.0), (0.5, 0.3), (0.1, -0.6)])
def test_expected_wealth_never_grows(ties, difference):
    """Summed over all outcomes of eight pairs: on average the gambler keeps at most what he had."""
    win = (1 - ties + difference) / 2
    mean = 0.0
    for outcome in itertools.product(range(9), repeat=2):
        wins, losses = outcome
        if wins + losses <= 8:
            ways = math.comb(8, wins) * math.comb(8 - wins, losses)
            chance = ways * win**wins * (1 - ties - win) ** losses * ties ** (8 - wins - losses)
            mean += chance * observed(wins, losses, 8 - wins - losses).evidence(difference)
    assert mean <= 1 + 1e-12


@pytest.mark.parametrize(("first", "second"), [(0.3, 0.3), (0.05, 0.05), (0.5, 0.5)])
def test_whoever_looks_after_every_pair_is_seldom_fooled(first, second):
    rng, runs, pairs = np.random.default_rng(2), 300, 400
    fooled = peeking = 0
    for _ in range(runs):
        a, b = rng.random(pairs) < first, rng.random(pairs) < second
        wins, losses = np.cumsum(a & ~b), np.cumsum(~a & b)
        fooled += _evidence(wins, losses).max() >= 20
        n = np.arange(20, pairs + 1)
        low, high = difference_interval(np.cumsum(a)[19:], n, np.cumsum(b)[19:], n)
        peeking += bool(((low > 0) | (high < 0)).any())
    assert fooled <= binom.ppf(1 - 1e-4, runs, 0.05)
    # An ordinary interval, looked at after every pair, is fooled far more often.
    assert peeking > binom.ppf(1 - 1e-4, runs, 0.1)


def test_a_difference_is_seen_after_about_as_many_pairs_as_it_takes():
    """0.3 against 0.1: half of the runs need no more than about 70 pairs, and all see it in the end."""
    rng = np.random.default_rng(3)
    needed = []
    for _ in range(200):
        a, b = rng.random(600) < 0.3, rng.random(600) < 0.1
        evidence = _evidence(np.cumsum(a & ~b), np.cumsum(~a & b))
        needed.append(int(np.argmax(evidence >= 20)) if (evidence >= 20).any() else 600)
    assert 50 <= np.median(needed) <= 90
    assert max(needed) < 600


def _evidence(wins, losses):
    """Against no difference, after every pair at once: the formula of the class for arrays."""
    up = ((1 + STAKES) ** wins[:, None] * (1 - STAKES) ** losses[:, None]) @ STAKE_WEIGHTS
    down = ((1 - STAKES) ** wins[:, None] * (1 + STAKES) ** losses[:, None]) @ STAKE_WEIGHTS
    return np.maximum(up, down) / 2


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_the_rate_stays_inside_all_its_intervals(rate):
    """All intervals of a run hold together in at least 95 % of the runs: the likelihood ratio stays below 20."""
    from scipy.special import betaln

    rng, runs, n = np.random.default_rng(4), 1000, 1500
    k = np.cumsum(rng.random((runs, n)) < rate, axis=1)
    trials = np.arange(1, n + 1)
    ratio = betaln(k + 0.5, trials - k + 0.5) - betaln(0.5, 0.5) - k * np.log(rate) - (trials - k) * np.log1p(-rate)
    missed = int((ratio >= np.log(20)).any(axis=1).sum())
    assert missed <= binom.ppf(1 - 1e-4, runs, 0.05)
    assert missed > 0
    # ... and that is what the interval says, at some of these looks.
    for run, at in itertools.product(range(0, runs, 100), (9, 99, n - 1)):
        low, high = sequential_rate(int(k[run, at]), at + 1)
        assert (low <= rate <= high) == (ratio[run, at] < np.log(20))


def test_a_rate_costs_less_than_twice_the_width():
    for k, n in ((0, 50), (3, 100), (50, 100), (900, 3000)):
        low, high = sequential_rate(k, n)
        exact_low, exact_high = clopper_pearson(k, n)
        assert low <= exact_low <= k / n <= exact_high <= high
        assert high - low < 2 * (exact_high - exact_low)


@pytest.mark.parametrize(("ties", "difference"), [(0.0, 0.1), (0.8, 0.1), (0.5, -0.4), (0.97, 0.02)])
def test_the_difference_stays_inside_all_its_intervals(ties, difference):
    rng, runs, pairs = np.random.default_rng(5), 300, 400
    win, mean = (1 - ties + difference) / 2, (1 + difference) / 2
    draws = rng.random((runs, pairs))
    wins = np.cumsum(draws < win, axis=1)
    losses = np.cumsum((draws >= win) & (draws < 1 - ties), axis=1)
    alike = np.arange(1, pairs + 1) - wins - losses
    up = sum(
        part * (1 + s * (1 / mean - 1)) ** wins * (1 + s * (0.5 / mean - 1)) ** alike * (1 - s) ** losses
        for part, s in zip(STAKE_WEIGHTS, STAKES, strict=True)
    )
    down = sum(
        part * (1 - s) ** wins * (1 + s * (0.5 / (1 - mean) - 1)) ** alike * (1 + s * (1 / (1 - mean) - 1)) ** losses
        for part, s in zip(STAKE_WEIGHTS, STAKES, strict=True)
    )
    evidence = np.maximum(up, down) / 2
    assert (evidence >= 20).any(axis=1).sum() <= binom.ppf(1 - 1e-4, runs, 0.05)
    # ... and that is what the interval says, at some of these looks.
    for run, at in itertools.product(range(0, runs, 50), (9, 99, pairs - 1)):
        found = observed(int(wins[run, at]), int(losses[run, at]), int(alike[run, at]))
        assert found.evidence(difference) == pytest.approx(evidence[run, at])
        low, high = found.interval()
        assert (low <= difference <= high) == (evidence[run, at] < 20)
