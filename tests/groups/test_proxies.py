"""Groups known by probability: estimates by hand, and coverage: where their assumption holds, and where not."""

import numpy as np
import pandas as pd
import pytest

from evenhand.errors import DataError, OptionError
from evenhand.groups import measure_proxies


def test_the_estimate_by_hand():
    """(.8 + .6) / 2 against (.2 + .4) / 2; the bounds of one cell with half selected: nothing to all of it."""
    found = measure_proxies([1, 1, 0, 0], {"a": [0.8, 0.6, 0.4, 0.2], "b": [0.2, 0.4, 0.6, 0.8]})
    a, b = found.rates
    assert (a.estimate.value, b.estimate.value) == pytest.approx((0.7, 0.3))
    assert a.expected_people == pytest.approx(2.0)
    assert (a.low, a.high) == (0.0, 1.0)
    assert found.differences["a - b"].value == pytest.approx(0.4)
    assert "does not depend on the group" in found.assumption


def test_certain_memberships_are_plain_rates_and_the_bounds_meet():
    rng = np.random.default_rng(0)
    member = rng.random(4000) < 0.3
    selected = rng.random(4000) < np.where(member, 0.2, 0.5)
    found = measure_proxies(selected, pd.DataFrame({"a": member * 1.0, "b": 1.0 - member}))
    for one, who in zip(found.rates, (member, ~member), strict=True):
        assert one.estimate.value == pytest.approx(selected[who].mean())
        assert one.low <= one.estimate.value <= one.high
        assert one.high - one.low < 0.1


@pytest.mark.parametrize(
    ("probabilities", "error", "words"),
    [
        ({"a": [0.5, 0.5]}, OptionError, "two groups"),
        ({"a": [0.5, 0.5], "b": [0.5, 0.6]}, DataError, "row 2"),
        ({"a": [0.5, np.nan], "b": [0.5, 0.5]}, DataError, "add up to 1"),
        ({"a": [0.5, 0.5], "b": [0.5]}, DataError, "shape"),
        ({"a": [0.0, 0.0], "b": [1.0, 1.0]}, DataError, "no one belongs to 'a'"),
    ],
)
def test_what_are_no_probabilities_is_refused(probabilities, error, words):
    with pytest.raises(error, match=words):
        measure_proxies([1, 0], probabilities)


def draw(rng, direct):
    """Probabilities from a surname's origin and place; decisions by these, and by the group itself where ``direct``."""
    p = rng.beta(0.7, 1.2, 1500)
    member = rng.random(1500) < p
    return p, member, rng.random(1500) < 0.6 - 0.3 * p - direct * member


@pytest.mark.full
def test_estimates_hold_where_decisions_depend_on_the_proxy_alone():
    """The rate of the population: integrals over 4 million people."""
    rng, runs, inside, apart = np.random.default_rng(0), 200, 0, 0
    p = rng.beta(0.7, 1.2, 4_000_000)
    rate = 0.6 - 0.3 * p
    a, b = (p * rate).sum() / p.sum(), ((1 - p) * rate).sum() / (1 - p).sum()
    for _ in range(runs):
        p, _, selected = draw(rng, 0.0)
        found = measure_proxies(selected, {"a": p, "b": 1 - p})
        inside += found.rates[0].estimate.low <= a <= found.rates[0].estimate.high
        difference = found.differences["a - b"]
        apart += difference.low <= a - b <= difference.high
    assert min(inside, apart) / runs >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)


@pytest.mark.full
def test_bounds_hold_where_the_assumption_fails_and_the_estimate_does_not():
    rng, runs, bounded, inside = np.random.default_rng(0), 60, 0, 0
    p = rng.beta(0.7, 1.2, 4_000_000)
    a = (p * (0.6 - 0.3 * p - 0.2)).sum() / p.sum()
    for _ in range(runs):
        p, _, selected = draw(rng, 0.2)
        one = measure_proxies(selected, {"a": p, "b": 1 - p}).rates[0]
        bounded += one.low <= a <= one.high
        inside += one.estimate.low <= a <= one.estimate.high
    assert bounded == runs
    assert inside < 0.5 * runs
