"""Differences and ratios of two proportions: exact coverage, published examples, independent references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom
from scipy.stats.contingency import relative_risk

from evenhand.errors import OptionError
from evenhand.stats import newcombe, ratio_interval, wilson

counted = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
GRID = np.linspace(0.02, 0.98, 25)


def coverage(interval, truth, n1: int, n2: int, confidence: float) -> np.ndarray:
    """The probability that the interval holds the truth, for every pair of proportions in GRID; no sampling."""
    k1, k2 = np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij")
    low, high = interval(k1, n1, k2, n2, confidence)
    first = binom.pmf(np.arange(n1 + 1), n1, GRID[:, None])
    second = binom.pmf(np.arange(n2 + 1), n2, GRID[:, None])
    covered = np.empty((len(GRID), len(GRID)))
    for i, p1 in enumerate(GRID):
        for j, p2 in enumerate(GRID):
            value = truth(p1, p2)
            covered[i, j] = first[i] @ ((low <= value) & (value <= high)) @ second[j]
    return covered


@pytest.mark.parametrize(("n1", "n2"), [(10, 20), (30, 30), (30, 100), (100, 80)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize(("interval", "truth"), [(newcombe, np.subtract), (ratio_interval, np.divide)])
def test_covers_what_it_says(interval, truth, n1, n2, confidence):
    covered = coverage(interval, truth, n1, n2, confidence)
    assert covered.mean() == pytest.approx(confidence, abs=0.012)
    assert covered.min() >= confidence - 0.09
    assert np.mean(covered >= confidence - 0.02) >= 0.93


def test_newcombe_examples_from_the_literature():
    """Newcombe, Statistics in Medicine 1998 ("... comparison of eleven methods"), table II, method 10."""
    published = {
        (56, 70, 48, 80): (0.0524, 0.3339),
        (9, 10, 3, 10): (0.1705, 0.8090),
        (6, 7, 2, 7): (0.0582, 0.8062),
        (5, 56, 0, 29): (-0.0381, 0.1926),
        (0, 10, 0, 20): (-0.1611, 0.2775),
        (0, 10, 0, 10): (-0.2775, 0.2775),
        (10, 10, 0, 20): (0.6791, 1.0000),
        (10, 10, 0, 10): (0.6075, 1.0000),
    }
    for arguments, expected in published.items():
        assert newcombe(*arguments) == pytest.approx(expected, abs=5e-5)


@given(counted, counted, st.sampled_from([0.8, 0.95, 0.999]))
def test_newcombe_symmetries(first, second, confidence):
    low, high = newcombe(*first, *second, confidence)
    (k1, n1), (k2, n2) = first, second
    assert -1 <= low <= k1 / n1 - k2 / n2 <= high <= 1
    assert newcombe(*second, *first, confidence) == pytest.approx((-high, -low), abs=1e-12)
    assert newcombe(n1 - k1, n1, n2 - k2, n2, confidence) == pytest.approx((-high, -low), abs=1e-9)


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
    (l1, u1), (l2, u2) = wilson(k1, n1), wilson(k2, n2)
    low = brentq(lambda t: p1 - t * p2 - np.hypot(p1 - l1, t * (u2 - p2)), 0, p1 / p2)
    high = brentq(lambda t: p1 - t * p2 + np.hypot(u1 - p1, t * (p2 - l2)), p1 / p2, 2 * u1 / l2)
    assert ratio_interval(k1, n1, k2, n2) == pytest.approx((low, high), rel=1e-6)


def test_ratio_agrees_with_the_logarithmic_interval_on_many_people():
    katz = relative_risk(3000, 10_000, 2000, 8000).confidence_interval(0.95)
    assert ratio_interval(3000, 10_000, 2000, 8000) == pytest.approx((katz.low, katz.high), rel=2e-3)


def test_where_nothing_was_counted():
    assert newcombe(0, 0, 3, 10) == (-1, 1)
    assert newcombe(3, 10, 0, 0) == (-1, 1)
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
    for interval in (newcombe, ratio_interval):
        k, n = np.array([0, 3, 10]), np.array([10, 0, 10])
        low, high = interval(4, 9, np.minimum(k, n), n)
        for i in range(3):
            assert (low[i], high[i]) == pytest.approx(interval(4, 9, min(k[i], n[i]), n[i]))


@pytest.mark.parametrize("interval", [newcombe, ratio_interval])
def test_impossible_counts_are_refused(interval):
    with pytest.raises(OptionError, match="5 of 4 is not a count"):
        interval(1, 2, 5, 4)
