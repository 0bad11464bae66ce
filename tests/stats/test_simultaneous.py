"""The widest gap among groups: coverage of the truly widest one, and brute force over pairs."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.stats import bonferroni, difference_interval, ratio_interval
from evenhand.stats.mean import adjusted_mean_interval
from evenhand.stats.proportion import (
    count_pairs,
    largest_difference_of_proportions,
    mean_limits,
    smallest_ratio_of_proportions,
)

groups = st.lists(
    st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=6
)


def columns(rows):
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def largest_difference_of_means(mean, variance, n):
    """Compute the simultaneous interval for the largest difference of means."""
    level = bonferroni(0.95, count_pairs(len(n)))
    return mean_limits((mean, variance, n), level, lower=0.0, upper=1.0).largest_difference()


def test_two_groups_have_the_plain_interval_without_its_sign():
    assert largest_difference_of_proportions([30, 10], [50, 60]) == pytest.approx(difference_interval(30, 50, 10, 60))
    assert largest_difference_of_proportions([10, 30], [60, 50]) == pytest.approx(difference_interval(30, 50, 10, 60))
    low, high = difference_interval(10, 50, 12, 60)
    assert low < 0 < high
    assert largest_difference_of_proportions([10, 12], [50, 60]) == pytest.approx((0, max(-low, high)))
    assert smallest_ratio_of_proportions([30, 10], [50, 60]) == pytest.approx(ratio_interval(10, 60, 30, 50))


@pytest.mark.parametrize(
    ("sizes", "rates"),
    [
        ([10_000, 10_000, 30], [0.3, 0.5, 0.55]),  # the truly best is small: the observed pair is often another
        ([100_000] + [30] * 50, [0.005] * 51),  # rare events in many small groups
        ([5000] * 2 + [100] * 20, [0.01] * 22),
        ([100] * 8, list(np.linspace(0.1, 0.5, 8))),
    ],
)
def test_many_groups_cover_the_truly_widest_gap(sizes, rates):
    rng = np.random.default_rng(5)
    n, p = np.array(sizes), np.array(rates)
    difference, quotient = p.max() - p.min(), p.min() / p.max()
    covered = np.zeros(2)
    for _ in range(200):
        k = rng.binomial(n, p)
        for which, (truth, (low, high)) in enumerate(
            [(difference, largest_difference_of_proportions(k, n)), (quotient, smallest_ratio_of_proportions(k, n))]
        ):
            covered[which] += low <= truth + 1e-12 and truth <= high + 1e-12
    assert (covered / 200 >= 0.95).all()


@given(groups, st.sampled_from([0.8, 0.95]))
def test_agrees_with_brute_force_over_pairs(rows, confidence):
    k, n = columns(rows)
    level = bonferroni(confidence, count_pairs(len(k)))
    low, high = 0.0, 0.0
    for i, j in itertools.permutations(range(len(k)), 2):
        below, above = difference_interval(k[i], n[i], k[j], n[j], level)
        low, high = max(low, below), max(high, above)
    assert largest_difference_of_proportions(k, n, confidence) == pytest.approx((low, high), abs=1e-12)


@given(groups, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_the_observed_gap_is_inside(rows, random):
    k, n = columns(rows)
    shares = k / n
    difference, quotient = largest_difference_of_proportions(k, n), smallest_ratio_of_proportions(k, n)
    assert 0 <= difference[0] <= shares.max() - shares.min() <= difference[1] <= 1
    if shares.max() > 0:
        assert 0 <= quotient[0] <= shares.min() / shares.max() * (1 + 1e-12)
        assert shares.min() / shares.max() * (1 - 1e-12) <= quotient[1] <= 1
    random.shuffle(rows)
    k, n = columns(rows)
    assert largest_difference_of_proportions(k, n) == pytest.approx(difference, abs=1e-12)
    assert smallest_ratio_of_proportions(k, n) == pytest.approx(quotient, abs=1e-12)


def test_nobody_succeeds_anywhere():
    low, high = largest_difference_of_proportions([0, 0, 0], [40, 50, 60])
    assert low == 0
    assert 0 < high < 0.2
    assert smallest_ratio_of_proportions([0, 0, 0], [40, 50, 60]) == (0, 1)


def test_means_by_pairs():
    mean, variance, n = np.array([0.2, 0.35, 0.3]), np.array([0.01, 0.02, 0.015]), np.array([100, 200, 150])
    level = bonferroni(0.95, 3)
    low, high = adjusted_mean_interval(mean, variance, n, level)
    intervals = [
        (
            mean[i] - mean[j] - np.hypot(mean[i] - low[i], high[j] - mean[j]),
            mean[i] - mean[j] + np.hypot(high[i] - mean[i], mean[j] - low[j]),
        )
        for i, j in [(1, 0), (1, 2), (2, 0)]
    ]
    expected = max(below for below, _ in intervals), max(above for _, above in intervals)
    assert largest_difference_of_means(mean, variance, n) == pytest.approx(expected)


def test_means_cover_the_truly_widest_gap():
    rng = np.random.default_rng(6)
    shapes = [(2, 8), (2, 6), (2, 8), (3, 9)]
    truth = max(a / (a + b) for a, b in shapes) - min(a / (a + b) for a, b in shapes)
    sizes = [40, 35, 200, 90]
    covered = 0
    for _ in range(300):
        samples = [rng.beta(a, b, n) for (a, b), n in zip(shapes, sizes, strict=True)]
        mean, variance = (np.array([f(sample) for sample in samples]) for f in (np.mean, lambda s: np.var(s, ddof=1)))
        low, high = largest_difference_of_means(mean, variance, np.array(sizes))
        covered += low <= truth <= high
    assert covered / 300 >= 0.95


def test_one_group_has_no_gap():
    assert (count_pairs(2), count_pairs(5)) == (1, 10)
    for gap in (largest_difference_of_proportions, smallest_ratio_of_proportions):
        with pytest.raises(OptionError, match="at least two groups"):
            gap([1], [2])
    with pytest.raises(OptionError, match="at least two groups"):
        largest_difference_of_means([0.1], [0.1], [5])
