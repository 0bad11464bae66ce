"""Anytime-valid statistics: by hand, against exact probabilities, and by simulation of someone who looks every time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm
from tests.support import scaled

from evenhand.errors import OptionError
from evenhand.stats import betting_bounds
from evenhand.stats.sequential.betting import STAKE_WEIGHTS, STAKES, betting_martingales
from evenhand.stats.sequential.looks import AlphaSpending, largest_deviation, log_evidence


def test_the_evidence_by_hand():
    rates = [0.9 * 2.0**-j for j in range(14)]
    expected = sum(math.exp(r * 3 + (math.log(1 - r) + r) * 2) for r in rates) / 14
    assert log_evidence(np.array(3.0), np.array(2.0)) == pytest.approx(math.log(expected))


def test_the_deviation_is_where_the_evidence_reaches_the_threshold():
    squares = np.array([0.0, 0.5, 10.0, 1e3, 1e7])
    reach = largest_deviation(squares, math.log(20))
    assert log_evidence(reach, squares) == pytest.approx(np.full(5, math.log(20)))
    assert (np.diff(reach) > 0).all()


def test_no_more_than_twice_as_wide_as_the_law_of_the_iterated_logarithm_asks():
    squares = np.array([1e3, 1e5])
    assert (largest_deviation(squares, math.log(40)) < 2 * np.sqrt(2 * squares * np.log(40))).all()


def test_intervals_hold_at_every_moment_while_the_expectation_drifts():
    rng = np.random.default_rng(5)
    n, runs = 600, 200
    rates = 0.5 + 0.4 * np.sin(np.arange(n) / 80)
    outcomes = (rng.random((runs, n)) < rates).astype(float)
    guesses = np.concatenate([np.full((runs, 1), 0.5), (outcomes.cumsum(1) / np.arange(1, n + 1))[:, :-1]], axis=1)
    squares = ((outcomes - guesses) ** 2).cumsum(1)
    surprise = outcomes.cumsum(1) - rates.cumsum()
    missed = (log_evidence(surprise, squares) >= math.log(1 / 0.1)).any(axis=1)
    assert missed.mean() <= 0.1


def reach(level):
    return float(norm.ppf((1 + level) / 2))


def test_the_first_look_by_hand():
    """A quarter of the information: alpha / 16 of 5 % is spent, so the first interval is one of 99.6875 %."""
    spending = AlphaSpending(0.95)
    assert spending.look(4.0, 0.25) == pytest.approx(1 - 0.05 / 16)
    assert spending.spent == pytest.approx(0.05 / 16)
    assert AlphaSpending(0.95).look(1.0, 1.0) == pytest.approx(0.95)
    with pytest.raises(OptionError, match="above 0"):
        spending.look(0.0, 0.5)


@given(st.lists(st.floats(0.05, 0.9), min_size=1, max_size=2), st.sampled_from([0.9, 0.95, 0.99]))
@settings(max_examples=scaled(20), deadline=None)
def test_all_looks_together_have_the_level(early, confidence):
    """Against SciPy's integral of the joint normal distribution of all looks."""
    shares = [*np.cumsum(early) / (sum(early) + 0.1), 1.0]
    spending = AlphaSpending(confidence)
    edges = np.array([reach(spending.look(1 / share, share)) for share in shares])
    inside = multivariate_normal(
        cov=[[min(a, b) / np.sqrt(a * b) for a in shares] for b in shares], allow_singular=True
    ).cdf(edges, lower_limit=-edges, rng=np.random.default_rng(1))
    assert inside == pytest.approx(confidence, abs=5e-4)
    assert spending.spent == pytest.approx(1 - confidence)


def test_a_look_without_news_spends_nothing_and_is_survived():
    spending = AlphaSpending()
    first = spending.look(1.0, 0.5)
    again = spending.look(1.02, 0.49)
    assert spending.spent == pytest.approx(0.05 / 4)
    assert again > first
    assert 0.95 < spending.look(0.5, 1.0) < first


def test_who_looks_at_every_step_is_seldom_wrong():
    """Sums of normal numbers looked at 20 times: spending misses in 5 % of walks, ordinary intervals in far more."""
    rng = np.random.default_rng(2)
    shares = np.arange(1, 21) / 20
    spending = AlphaSpending(0.95)
    edges = np.array([reach(spending.look(1 / share, share)) for share in shares])
    walks = rng.normal(size=(20_000, 20)).cumsum(axis=1) / np.sqrt(np.arange(1, 21))
    assert (np.abs(walks) > edges).any(axis=1).mean() == pytest.approx(0.05, abs=0.005)
    assert (np.abs(walks) > 1.96).any(axis=1).mean() > 0.2


OUTCOMES = st.lists(st.booleans(), max_size=40)
RATES = st.floats(0.05, 0.95)


def wealth(outcomes, rate):
    """Of gamblers who bet on successes, each with the same stake all the time: their money, item by item."""
    money = [float(part) for part in STAKE_WEIGHTS]
    for success in outcomes:
        for i, stake in enumerate(STAKES):
            money[i] += money[i] * stake * ((1 / rate if success else 0) - 1)
    return sum(money)


@given(OUTCOMES, RATES)
def test_it_is_what_betting_item_by_item_makes(outcomes, rate):
    above, below = betting_martingales(sum(outcomes), len(outcomes), rate)
    assert above == pytest.approx(wealth(outcomes, rate), rel=1e-9)
    assert below == pytest.approx(wealth([not one for one in outcomes], 1 - rate), rel=1e-9)


@given(st.integers(1, 60), RATES)
def test_the_bets_are_fair(n, rate):
    """On average over all outcomes nothing is won if the rate is the one that is bet against."""
    average = [0.0, 0.0]
    for k in range(n + 1):
        chance = math.comb(n, k) * rate**k * (1 - rate) ** (n - k)
        average = [
            sum(pair) for pair in zip(average, (chance * one for one in betting_martingales(k, n, rate)), strict=True)
        ]
    assert average == pytest.approx([1, 1], rel=1e-9)


@given(OUTCOMES, RATES, st.floats(2, 1000), st.floats(2, 1000))
def test_the_bounds_are_the_rates_that_are_not_rejected(outcomes, rate, more, less):
    k, n = sum(outcomes), len(outcomes)
    low, high = betting_bounds(k, n, more, less)
    assert 0 <= low <= (k / n if n else 0.5) <= high <= 1
    above, below = betting_martingales(k, n, rate)
    if abs(rate - low) > 1e-9:
        assert (above >= more) == (rate < low)
    if abs(rate - high) > 1e-9:
        assert (below >= less) == (rate > high)


def test_bets_by_hand():
    assert betting_martingales(0, 0, 0.5) == (pytest.approx(1), pytest.approx(1))
    # Everything staked on one success against 1/2 doubles, and is lost on a failure; the others do in part.
    doubled = float(sum(part * (1 + stake) for part, stake in zip(STAKE_WEIGHTS, STAKES, strict=True)))
    assert betting_martingales(1, 1, 0.5)[0] == pytest.approx(doubled)
    assert betting_bounds(0, 0, 20, 20) == (0.0, 1.0)
    # It takes 95 items of one kind to be as sure as 1 in 40 that it comes 95 % of the time.
    assert betting_martingales(94, 94, 0.95)[0] < 40 < betting_martingales(95, 95, 0.95)[0]


@pytest.mark.parametrize(("k", "n", "rate"), [(3, 2, 0.5), (-1, 2, 0.5), (1, 2, 0.0), (1, 2, 1.0)])
def test_nonsense_bets_are_refused(k, n, rate):
    with pytest.raises(OptionError):
        betting_martingales(k, n, rate)
