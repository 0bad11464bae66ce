"""Means of bounded numbers: references by SciPy, coverage, and samples without spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp, ttest_ind

from evenhand.stats import observed_means, student, welch

LEVELS = (0.8, 0.95, 0.999)


def moments(sample):
    return np.mean(sample), np.var(sample, ddof=1), len(sample)


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize(("n1", "n2"), [(12, 40), (300, 25)])
def test_agrees_with_scipy(n1, n2, confidence):
    rng = np.random.default_rng(n1)
    first, second = rng.beta(2, 3, n1), rng.beta(5, 2, n2)
    expected = ttest_1samp(first, 0).confidence_interval(confidence)
    assert student(*moments(first), confidence) == pytest.approx((expected.low, expected.high))
    expected = ttest_ind(first, second, equal_var=False).confidence_interval(confidence)
    assert welch(*moments(first), *moments(second), confidence) == pytest.approx((expected.low, expected.high))


def test_covers_what_it_says_for_skewed_scores():
    rng = np.random.default_rng(3)
    first, second = rng.beta(0.5, 2, (4000, 40)), rng.beta(4, 1, (4000, 60))
    (mean1, variance1), (mean2, variance2) = (
        (sample.mean(axis=1), sample.var(axis=1, ddof=1)) for sample in (first, second)
    )
    low, high = student(mean1, variance1, 40)
    assert np.mean((low <= 0.2) & (high >= 0.2)) == pytest.approx(0.95, abs=0.02)
    low, high = welch(mean1, variance1, 40, mean2, variance2, 60)
    assert np.mean((low <= 0.2 - 0.8) & (high >= 0.2 - 0.8)) == pytest.approx(0.95, abs=0.02)


def test_without_spread_hoeffding_by_hand():
    """n equal scores of 0.5: 0.5 -+ sqrt(ln(2 / 0.05) / (2 n))."""
    half = np.sqrt(np.log(40) / 100)
    assert student(0.5, 0.0, 50) == pytest.approx((0.5 - half, 0.5 + half))
    assert student(0.5, 0.0, 50, lower=-1) == pytest.approx((0.5 - 2 * half, 0.5 + 2 * half))
    half = np.sqrt((1 / 50 + 1 / 80) * np.log(40) / 2)
    assert welch(0.5, 0, 50, 0.4, 0, 80) == pytest.approx((0.1 - half, 0.1 + half))


def test_one_person_says_nothing():
    assert student(0.7, 0.0, 1) == (0, 1)
    low, high = welch(0.7, 0, 1, 0.1, 0.01, 500)
    assert low < -0.4
    assert high == 1


def test_rounding_is_no_spread():
    sample = np.full(1000, 0.1) + np.array([0, 1e-17] * 500)
    assert student(0.1, sample.var(ddof=1), 1000)[0] < 0.06


@given(st.floats(0, 1), st.floats(0, 0.25), st.integers(1, 1000), st.sampled_from(LEVELS))
def test_stays_in_range_and_holds_the_mean(mean, variance, n, confidence):
    low, high = student(mean, variance, n, confidence)
    assert 0 <= low <= mean <= high <= 1


@given(
    st.tuples(st.floats(0, 1), st.floats(0, 0.25), st.integers(1, 1000)),
    st.tuples(st.floats(0, 1), st.floats(0, 0.25), st.integers(1, 1000)),
)
def test_welch_is_antisymmetric(first, second):
    low, high = welch(*first, *second)
    assert welch(*second, *first) == pytest.approx((-high, -low), abs=1e-12)
    assert low <= first[0] - second[0] <= high


def test_every_group_says_how():
    constant, varied = observed_means([0.5, 0.5], [0.0, 0.04], [40, 40])
    assert (constant.method, varied.method) == ("Hoeffding", "Student's t")
    assert (varied.n, varied.value, varied.confidence) == (40, 0.5, 0.95)
    assert (varied.low, varied.high) == pytest.approx(tuple(student(0.5, 0.04, 40)))
