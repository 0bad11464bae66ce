"""The excess of flips over a model's own noise: by hand, from the people themselves, and its coverage by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.stats import clopper_pearson
from evenhand.stats.excess import FlipCounts, excess_over_noise
from evenhand.stats.mean import adjusted_mean_interval
from support import scaled

people = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30)


def test_by_hand():
    """Of 10 people 6 flip; of the 4 who were asked again, 2 flip and 1 disagrees with itself, who flips too."""
    value, (low, high) = excess_over_noise(FlipCounts(4, 2, 1, 1, 6, 4))
    assert value == pytest.approx(0.6 - 0.25)
    # With w = 0.4 the sample has w C - S of 0.4, -0.6, 0 and 0; among the 6 others the rate is 4 of 6.
    (own_low, own_high), (rest_low, rest_high) = (
        adjusted_mean_interval(-0.05, 0.17, 4, lower=-1, upper=0.4),
        clopper_pearson(4, 6),
    )
    assert low == pytest.approx(0.35 - np.hypot(-0.05 - own_low, 0.6 * (4 / 6 - rest_low)))
    assert high == pytest.approx(0.35 + np.hypot(own_high + 0.05, 0.6 * (rest_high - 4 / 6)))


@given(people, st.lists(st.booleans(), max_size=30))
def test_the_value_is_the_difference_of_both_rates_and_lies_in_its_interval(sample, others):
    flips = np.array([flip for flip, _ in sample] + others)
    own = np.array([changed for _, changed in sample])
    value, (low, high) = excess_over_noise(FlipCounts.of(flips, own))
    assert value == pytest.approx(flips.mean() - own.mean())
    assert -1 <= low <= value + 1e-12
    assert value - 1e-12 <= high <= 1


@given(people)
def test_with_everybody_in_the_sample_it_is_the_interval_of_the_paired_mean(sample):
    flips, own = (np.array(column) for column in zip(*sample, strict=True))
    difference = flips.astype(float) - own
    n = len(sample)
    expected = adjusted_mean_interval(difference.mean(), difference.var(ddof=1) if n > 1 else 0.0, n, lower=-1, upper=1)
    _, found = excess_over_noise(FlipCounts.of(flips, own))
    assert found == pytest.approx(expected)


def test_arrays_are_as_one_by_one():
    rows = [(20, 5, 4, 2, 80, 30), (20, 20, 0, 0, 80, 80), (300, 0, 0, 0, 0, 0)]
    value, (low, high) = excess_over_noise(FlipCounts(*np.array(rows).T))
    for i, row in enumerate(rows):
        alone, ends = excess_over_noise(FlipCounts(*row))
        assert (value[i], low[i], high[i]) == pytest.approx((float(alone), *ends))


@pytest.mark.parametrize(("rate", "bias"), [(0.5, 0.0), (0.03, 0.0), (0.35, 0.3), (0.02, 0.96)])
@pytest.mark.parametrize("size", [(20, 20), (300, 300), (300, 3000)])
def test_coverage(rate, bias, size):
    """Benchmarks hold the large grid: python benchmarks/noise.py."""
    sample, total = size
    runs, rng = scaled(2000), np.random.default_rng([sample, total])
    first, second = rate + bias, rate
    # Two protected values; the person is asked again under the first or the second of them at random.
    a, b = rng.random((runs, sample)) < first, rng.random((runs, sample)) < second
    which = rng.random((runs, sample)) < 0.5
    again = rng.random((runs, sample)) < np.where(which, first, second)
    flips, own = a != b, np.where(which, a, b) != again
    chance = first * (1 - second) + second * (1 - first)
    others = rng.binomial(total - sample, chance, runs)
    both = (flips & own).sum(axis=1)
    counts = FlipCounts(sample, flips.sum(axis=1), own.sum(axis=1), both, total - sample, others)
    _, (low, high) = excess_over_noise(counts)
    truth = bias**2
    covered = ((low <= truth) & (truth <= high)).mean()
    assert covered >= 0.94 - 3 * np.sqrt(0.05 * 0.95 / runs)
