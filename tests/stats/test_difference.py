"""Differences and ratios of two proportions: exact coverage, published examples, independent references."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom
from scipy.stats.contingency import relative_risk

from evenhand.errors import OptionError
from evenhand.stats import clopper_pearson, difference_interval, ratio_interval

counted = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
RATES = np.r_[0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5]
RATES = np.r_[RATES, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99]
"""True proportions of either group for which coverage is computed."""

SMALL = (5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 29, 30, 31)
LARGE = (40, 50, 70, 100, 150, 200)


def cover(interval, truth, n1, n2, *, absolute):
    """Return the exact probability that a 95 % interval contains the truth, for every pair of RATES.

    With ``absolute``, of the gap or the smaller over the larger proportion, as audits report them.
    """
    k1, k2 = np.arange(n1 + 1)[:, None], np.arange(n2 + 1)[None]
    low, high = interval(k1, n1, k2, n2)
    neutral = float(truth(1, 1))
    if absolute and neutral == 0:
        low, high = np.maximum(0, np.maximum(low, -high)), np.maximum(high, -low)
    elif absolute:
        with np.errstate(divide="ignore"):
            low, high = np.minimum(low, 1 / high), np.minimum(np.minimum(high, 1 / low), 1)
    known = np.ones(low.shape, dtype=bool) if neutral == 0 else (k1 + k2) > 0
    first, second = (binom.pmf(np.arange(n + 1)[:, None], n, RATES) for n in (n1, n2))
    covered = np.empty((len(RATES), len(RATES)))
    for i, p1 in enumerate(RATES):
        for j, p2 in enumerate(RATES):
            value = truth(p1, p2)
            if absolute:
                value = abs(value) if neutral == 0 else min(value, 1 / value)
            inside = known & (low - 1e-9 <= value) & (value <= high + 1e-9)
            covered[i, j] = first[:, i] @ inside @ second[:, j] / (first[:, i] @ known @ second[:, j])
    return covered


@pytest.mark.parametrize(
    ("n1", "n2"),
    [
        pytest.param(n1, n2, marks=[] if (n1, n2) in {(5, 5), (10, 100), (31, 31), (30, 200)} else pytest.mark.slow)
        for n1, n2 in itertools.combinations_with_replacement(SMALL + LARGE, 2)
    ],
)
def test_intervals_cover_for_all_rates(n1, n2):
    """At least 93 % in every cell; the docs name the smallest figures, 93.9 % and 94.4 %."""
    for absolute in (True, False):
        difference = cover(difference_interval, np.subtract, n1, n2, absolute=absolute)
        ratio = cover(ratio_interval, np.divide, n1, n2, absolute=absolute)
        assert difference.min() >= 0.939
        assert ratio.min() >= 0.944
        assert difference.mean() <= 0.995


def test_difference_extends_squared_and_added_limits_to_agresti_and_caffo():
    """Independent reference: both formulas written out for one table."""
    (k1, n1), (k2, n2), z = (30, 31), (1, 31), 1.959963984540054
    (l1, u1), (l2, u2) = clopper_pearson(k1, n1), clopper_pearson(k2, n2)
    gap = k1 / n1 - k2 / n2
    added = gap - np.hypot(k1 / n1 - l1, u2 - k2 / n2), gap + np.hypot(u1 - k1 / n1, k2 / n2 - l2)
    pseudo = z**2 / 4
    q1, q2 = (k1 + pseudo) / (n1 + 2 * pseudo), (k2 + pseudo) / (n2 + 2 * pseudo)
    half = z * np.sqrt(q1 * (1 - q1) / (n1 + 2 * pseudo) + q2 * (1 - q2) / (n2 + 2 * pseudo))
    caffo = q1 - q2 - half, q1 - q2 + half
    assert difference_interval(k1, n1, k2, n2) == pytest.approx(
        (min(added[0], caffo[0]), min(1, max(added[1], caffo[1]))), abs=1e-12
    )


@given(counted, counted, st.sampled_from([0.8, 0.95, 0.999]))
def test_difference_has_the_symmetries_of_the_problem(first, second, confidence):
    low, high = difference_interval(*first, *second, confidence)
    (k1, n1), (k2, n2) = first, second
    assert -1 <= low <= k1 / n1 - k2 / n2 <= high <= 1
    assert difference_interval(*second, *first, confidence) == pytest.approx((-high, -low), abs=1e-12)
    assert difference_interval(n1 - k1, n1, n2 - k2, n2, confidence) == pytest.approx((-high, -low), abs=1e-9)


@given(counted, counted, st.sampled_from([0.8, 0.95, 0.999]))
def test_ratio_inverts_with_its_arguments(first, second, confidence):
    low, high = ratio_interval(*first, *second, confidence)
    inverse = ratio_interval(*second, *first, confidence)
    with np.errstate(divide="ignore"):
        assert (1 / inverse[1], 1 / inverse[0]) == pytest.approx((low, high), rel=1e-9)
    assert 0 <= low <= high
    if second[0] > 0:
        assert low <= first[0] / first[1] / (second[0] / second[1]) <= high


@given(counted.filter(lambda c: c[0] > 0), counted.filter(lambda c: c[0] > 0))
def test_ratio_solves_fiellers_equation(first, second):
    """Independent reference: the t at which 0 is on the edge of the hybrid interval of p1 - t p2, by root search."""
    (k1, n1), (k2, n2) = first, second
    p1, p2 = k1 / n1, k2 / n2
    (l1, u1), (l2, u2) = clopper_pearson(k1, n1), clopper_pearson(k2, n2)
    low = brentq(lambda t: p1 - t * p2 - np.hypot(p1 - l1, t * (u2 - p2)), 0, p1 / p2)
    high = brentq(lambda t: p1 - t * p2 + np.hypot(u1 - p1, t * (p2 - l2)), p1 / p2, 2 * u1 / l2)
    assert ratio_interval(k1, n1, k2, n2) == pytest.approx((low, high), rel=1e-6)


def test_ratio_agrees_with_the_logarithmic_interval_on_many_people():
    katz = relative_risk(3000, 10_000, 2000, 8000).confidence_interval(0.95)
    assert ratio_interval(3000, 10_000, 2000, 8000) == pytest.approx((katz.low, katz.high), rel=2e-3)


def test_where_nothing_was_counted():
    assert difference_interval(0, 0, 3, 10) == (-1, 1)
    assert difference_interval(3, 10, 0, 0) == (-1, 1)
    assert ratio_interval(0, 0, 3, 10) == (0, np.inf)
    assert ratio_interval(3, 10, 0, 0) == (0, np.inf)
    assert ratio_interval(0, 10, 0, 10) == (0, np.inf)
    low, high = ratio_interval(9, 10, 0, 10)
    assert low > 1
    assert high == np.inf
    low, high = ratio_interval(0, 10, 9, 10)
    assert low == 0
    assert high < 1


def test_arrays_and_broadcasting():
    for interval in (difference_interval, ratio_interval):
        k, n = np.array([0, 3, 10]), np.array([10, 0, 10])
        low, high = interval(4, 9, np.minimum(k, n), n)
        for i in range(3):
            assert (low[i], high[i]) == pytest.approx(interval(4, 9, min(k[i], n[i]), n[i]))


@pytest.mark.parametrize("interval", [difference_interval, ratio_interval])
def test_impossible_counts_are_refused(interval):
    with pytest.raises(OptionError, match="got 5 of 4"):
        interval(1, 2, 5, 4)
