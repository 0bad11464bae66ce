"""Score intervals for a difference of proportions: published values, inversion by brute force, coverage."""

import itertools
from statistics import NormalDist

import numpy as np
import pytest
from gaps import permutation_moments, standardised_gap
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom

from evenhand.errors import OptionError
from evenhand.stats import difference_interval, stratified_difference
from evenhand.stats.score_difference import _constrained_estimate
from support import scaled

side = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def score_interval(k1, n1, k2, n2, **options):
    """Compute the interval of a single stratum."""
    tables = np.broadcast_arrays(k1, n1, k2, n2)
    return stratified_difference(*(np.asarray(counts)[..., None] for counts in tables), **options)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0528, 0.3382),  # Newcombe 1998, table II, method 6, whose N/(N - 1) is there too
        ((9, 10, 3, 10), 0.1700, 0.8406),
        ((0, 10, 0, 20), None, None),
    ],
)
def test_published_examples(table, low, high):
    found = score_interval(*table)
    if low is None:
        # Nobody on either side: the ends lie where the score test stops rejecting, by hand for k = 0:
        # d = sqrt-free quadratic d^2 <= z^2 d (1 - d) / n N/(N - 1), so d = c / (1 + c).
        assert found == pytest.approx((-_zero(20, 30), _zero(10, 30)), abs=1e-9)
    else:
        assert found == pytest.approx((low, high), abs=6e-4)


def _zero(n, total, z=1.959963984540054):
    c = z**2 * total / (total - 1) / n
    return c / (1 + c)


@given(side, side, st.floats(-0.98, 0.98))
def test_the_likeliest_proportions_are_those_of_a_root_finder(one, two, d):
    """The derivative of the likelihood along p2 = p1 - d changes sign where the closed form says."""
    (k1, n1), (k2, n2) = one, two
    found = float(_constrained_estimate(*(np.float64(x) for x in (k1, n1, k2, n2, d))))
    low, high = max(0.0, -d), min(1.0, 1 - d)
    assert low <= found <= high

    def slope(p):
        return sum(
            (k / q if k else 0.0) - ((n - k) / (1 - q) if n > k else 0.0) for k, n, q in ((k1, n1, p + d), (k2, n2, p))
        )

    inner_low, inner_high = low + 1e-9, high - 1e-9
    if inner_low >= inner_high:
        return
    if slope(inner_low) <= 0:
        expected = low
    elif slope(inner_high) >= 0:
        expected = high
    else:
        expected = brentq(slope, inner_low, inner_high, xtol=1e-14)
    assert found == pytest.approx(expected, abs=1e-6)


@settings(max_examples=scaled(60))
@given(side, side, st.floats(0.5, 6))
@example((0, 1), (1, 1), 1.5)
def test_excludes_zero_where_the_permutation_test_rejects(one, two, z):
    (k1, n1), (k2, n2) = one, two
    low, high = score_interval(k1, n1, k2, n2, z=z)
    gap = standardised_gap(k1, n1, k1 + k2, n1 + n2)
    if abs(abs(gap) - z) > 1e-6:
        assert (low > 0) == (gap > z)
        assert (high < 0) == (gap < -z)
    assert -1 <= low <= k1 / n1 - k2 / n2 + 1e-12
    assert k1 / n1 - k2 / n2 - 1e-12 <= high <= 1


@settings(max_examples=scaled(40))
@given(side, side)
def test_mirrors_when_sides_or_outcomes_are_swapped(one, two):
    (k1, n1), (k2, n2) = one, two
    low, high = score_interval(k1, n1, k2, n2)
    assert score_interval(k2, n2, k1, n1) == pytest.approx((-high, -low), abs=1e-7)
    assert score_interval(n1 - k1, n1, n2 - k2, n2) == pytest.approx((-high, -low), abs=1e-7)


def test_critical_z_in_place_of_a_confidence():
    assert score_interval(30, 50, 40, 150, z=1.959963984540054) == pytest.approx(score_interval(30, 50, 40, 150))
    wide, narrow = score_interval(30, 50, 40, 150, z=3.6), score_interval(30, 50, 40, 150)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    # For thousands of people two intervals at one level are nearly equal.
    level = 1 - 2 * (1 - NormalDist().cdf(3.6))
    assert score_interval(3000, 5000, 4000, 15000, z=3.6) == pytest.approx(
        difference_interval(3000, 5000, 4000, 15000, level), abs=1e-3
    )


def test_nobody_on_a_side_claims_nothing():
    assert score_interval(0, 0, 5, 10) == (-1, 1)
    assert score_interval(1, 1, 0, 1)[1] == 1
    with pytest.raises(OptionError, match="11 of 10"):
        score_interval(11, 10, 5, 10)


@pytest.mark.parametrize(("n1", "n2"), [(30, 300), (50, 50), (15, 1000)])
def test_coverage_summed_over_every_outcome(n1, n2):
    """On average over the rates 95 %, and nowhere far below."""
    k1, k2 = np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij")
    low, high = score_interval(k1, n1, k2, n2)
    covered = []
    for p1, p2 in itertools.product([0.02, 0.1, 0.3, 0.5, 0.8], repeat=2):
        weight = np.outer(binom.pmf(np.arange(n1 + 1), n1, p1), binom.pmf(np.arange(n2 + 1), n2, p2))
        covered.append(weight[(low <= p1 - p2) & (p1 - p2 <= high)].sum())
    assert np.mean(covered) >= 0.945
    assert np.min(covered) >= 0.91


strata = st.lists(st.tuples(side, side), min_size=1, max_size=4)


@settings(max_examples=scaled(60))
@given(strata)
def test_strata_exclude_zero_where_mantel_haenszel_rejects(drawn):
    k1, n1, k2, n2 = np.array([(*one, *two) for one, two in drawn]).T
    low, high = stratified_difference(k1, n1, k2, n2, z=2.5)
    mean, deviation = permutation_moments(n1, k1 + k2, n1 + n2)
    excess, spread = (k1 - mean).sum(), np.sqrt((deviation**2).sum())
    z = excess / spread if spread else 0.0
    if abs(abs(z) - 2.5) > 1e-6:
        assert (low > 0) == (z > 2.5)
        assert (high < 0) == (z < -2.5)
    weights = n1 * n2 / np.maximum(n1 + n2, 1)
    if weights.any():
        assert low - 1e-9 <= np.average(k1 / np.maximum(n1, 1) - k2 / np.maximum(n2, 1), weights=weights) <= high + 1e-9


def test_empty_strata_change_nothing():
    table = [[30], [50], [40], [150]]
    assert stratified_difference([30, 0], [50, 0], [40, 7], [150, 9]) == pytest.approx(stratified_difference(*table))
    assert stratified_difference([0, 3], [0, 5], [4, 0], [9, 0]) == (-1, 1)
    # Simpson's paradox: equal rates in each stratum, unequal rates in total.
    low, high = stratified_difference([8, 4], [10, 20], [80, 2], [100, 10])
    assert low < 0 < high


def test_strata_cover_the_gap_within_them():
    """Four schools of unequal rates, groups spread unequally over them, one gap of 0.1 in all: 95 % of the runs."""
    rng, runs = np.random.default_rng(2), 2000
    n1, n2 = np.array([40, 30, 20, 10]), np.array([50, 100, 300, 500])
    base = np.array([0.7, 0.5, 0.2, 0.05])
    k1, k2 = rng.binomial(n1, base + 0.1, (runs, 4)), rng.binomial(n2, base, (runs, 4))
    low, high = stratified_difference(k1, n1, k2, n2)
    inside = int(((low <= 0.1) & (high >= 0.1)).sum())
    assert binom.ppf(1e-4, runs, 0.95) <= inside <= binom.ppf(1 - 1e-4, runs, 0.97)
    # Without the strata the groups' schools are taken for their treatment: the interval misses as a rule.
    low, high = score_interval(k1.sum(axis=1), n1.sum(), k2.sum(axis=1), n2.sum())
    assert ((low <= 0.1) & (high >= 0.1)).mean() < 0.1
