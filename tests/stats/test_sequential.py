"""Anytime-valid statistics: by hand, against exact probabilities, and by simulation of someone who looks every time."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from evenhand.errors import OptionError
from evenhand.stats import clopper_pearson, sequential_rate


def test_nothing_observed_gives_the_whole_range():
    assert sequential_rate(0, 0) == (0.0, 1.0)
    with pytest.raises(OptionError, match="3 of 2"):
        sequential_rate(3, 2)


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
