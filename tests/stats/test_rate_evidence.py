"""Bets on a rate: what they are worth by hand, against betting item by item, and that they are fair."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.stats import betting_bounds
from evenhand.stats.sequential.betting import STAKE_WEIGHTS, STAKES, betting_martingales

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


def test_by_hand():
    assert betting_martingales(0, 0, 0.5) == (pytest.approx(1), pytest.approx(1))
    # Everything staked on one success against 1/2 doubles, and is lost on a failure; the others do in part.
    doubled = float(sum(part * (1 + stake) for part, stake in zip(STAKE_WEIGHTS, STAKES, strict=True)))
    assert betting_martingales(1, 1, 0.5)[0] == pytest.approx(doubled)
    assert betting_bounds(0, 0, 20, 20) == (0.0, 1.0)
    # It takes 95 items of one kind to be as sure as 1 in 40 that it comes 95 % of the time.
    assert betting_martingales(94, 94, 0.95)[0] < 40 < betting_martingales(95, 95, 0.95)[0]


@pytest.mark.parametrize(("k", "n", "rate"), [(3, 2, 0.5), (-1, 2, 0.5), (1, 2, 0.0), (1, 2, 1.0)])
def test_nonsense_is_refused(k, n, rate):
    with pytest.raises(OptionError):
        betting_martingales(k, n, rate)
