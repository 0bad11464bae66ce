"""Proportions, and differences and ratios of two."""

import itertools
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from gaps import permutation_moments, standardised_gap
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.optimize import brentq
from scipy.stats import binom, binomtest
from scipy.stats.contingency import relative_risk

from evenhand import stats
from evenhand.errors import OptionError
from evenhand.stats import Proved, Unknown, clopper_pearson, difference_interval, ratio_interval, stratified_difference
from evenhand.stats.distribution import sample_quantile
from evenhand.stats.proportion import (
    _constrained_estimate,
    count_needed,
    estimated_rate,
    observed_rate,
    observed_rates,
    zero_count_upper,
)
from evenhand.stats.quantity import format_quantity, quantity_value
from support import scaled

LEVELS = (0.8, 0.95, 0.999)
counted = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def coverage(interval, n, p, confidence):
    """The probability that the interval holds p, summed over all counts: nothing is sampled."""
    k = np.arange(n + 1)
    low, high = interval(k, n, confidence)
    inside = (low <= p[:, None]) & (p[:, None] <= high)
    return (binom.pmf(k, n, p[:, None]) * inside).sum(axis=1)


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("n", [1, 2, 5, 12, 30, 100, 400])
def test_clopper_pearson_never_covers_less_than_it_says(n, confidence):
    low, high = clopper_pearson(np.arange(n + 1), n, confidence)
    # Coverage jumps at the limits themselves, so it is lowest just beside them.
    beside = np.concatenate([low, high])
    p = np.concatenate([np.linspace(0, 1, 301), beside - 1e-9, beside + 1e-9])
    assert coverage(clopper_pearson, n, np.clip(p, 0, 1), confidence).min() >= confidence - 1e-7


def test_examples_from_the_literature():
    """Newcombe, Statistics in Medicine 1998 ("Two-sided confidence intervals for the single proportion"), table I."""
    published = {
        (81, 263): (0.2527, 0.3676),
        (15, 148): (0.0578, 0.1617),
        (0, 20): (0.0000, 0.1684),
        (1, 29): (0.0009, 0.1776),
    }
    for (k, n), exact in published.items():
        assert clopper_pearson(k, n) == pytest.approx(exact, abs=5e-5)


@given(counted, st.sampled_from(LEVELS))
def test_agrees_with_scipy(count, confidence):
    k, n = count
    test = binomtest(k, n)
    exact = test.proportion_ci(confidence, method="exact")
    assert clopper_pearson(k, n, confidence) == pytest.approx((exact.low, exact.high), abs=1e-9)


@given(count=counted, confidence=st.floats(0.01, 0.999999))
def test_holds_the_share_and_mirrors(count, confidence):
    k, n = count
    low, high = clopper_pearson(k, n, confidence)
    assert 0 <= low <= k / n <= high <= 1
    mirrored = clopper_pearson(n - k, n, confidence)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-9)


def test_arrays_and_broadcasting():
    assert clopper_pearson(0, 0) == (0, 1)
    k = np.array([[0, 3], [5, 10]])
    low, high = clopper_pearson(k, 10)
    for at in np.ndindex(k.shape):
        assert (low[at], high[at]) == pytest.approx(clopper_pearson(k[at], 10))


@pytest.mark.parametrize(("k", "n"), [(3, 2), (-1, 2), ([1, 5], [2, 4]), (float("nan"), 3)])
def test_impossible_counts_are_refused(k, n):
    with pytest.raises(OptionError, match="expected counts"):
        clopper_pearson(k, n)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, float("nan")])
def test_impossible_confidence_is_refused(confidence):
    with pytest.raises(OptionError, match="between 0 and 1"):
        clopper_pearson(1, 2, confidence)


def test_tiny_error_probabilities_keep_their_precision():
    """As used with many simultaneous statements: the exact upper end at 0 of n is 1 - (side)^(1/n)."""
    for confidence in (1 - 1e-6, 1 - 1e-9):
        side = (1 - confidence) / 2
        assert clopper_pearson(0, 50, confidence)[1] == pytest.approx(1 - side ** (1 / 50), rel=1e-9)


@given(st.integers(1, 10**7), st.sampled_from(LEVELS))
def test_none_seen_is_exact(n, confidence):
    bound = zero_count_upper(n, confidence)
    assert n * np.log1p(-bound) == pytest.approx(np.log1p(-confidence), rel=1e-9)


@given(counted)
@example((55, 77))
@example((7, 25))
@example((10**9 + 1, 3 * 10**9))
def test_a_share_that_is_a_count_needs_that_count(case):
    k, n = case
    assert count_needed(k / n, n) == k
    if k < n:
        assert count_needed(float(np.nextafter(k / n, 1)), n) == k + 1


@pytest.mark.parametrize("n", [1, 2, 25, 77, 300])
def test_the_quantile_at_a_count_is_the_number_of_that_rank(n):
    ordered = np.arange(1, n + 1.0)
    assert [sample_quantile(ordered, k / n) for k in range(1, n + 1)] == ordered.tolist()


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_written_share_needs_the_count_of_its_fraction(millionths, n):
    share = Fraction(millionths, 10**6)
    assert count_needed(float(share), n) == -(-share.numerator * n // share.denominator)


@given(st.floats(0, 1), st.floats(0.5, 1e6))
def test_the_needed_count_is_the_smallest_that_reaches_the_share(share, total):
    count = count_needed(share, total)
    assert count / total >= share
    assert count == 0 or (count - 1) / total < share


def test_observed_rate_is_exact():
    found = observed_rate(3, 40, 0.9)
    assert (found.value, found.n, found.confidence) == (0.075, 40, 0.9)
    assert (found.low, found.high) == pytest.approx(tuple(clopper_pearson(3, 40, 0.9)))
    assert "Clopper-Pearson" in found.method


def test_estimated_rate_names_its_population():
    found = estimated_rate(0, 1000, "everyone in the domain", 0.99)
    assert isinstance(found, stats.Estimated)
    assert (found.value, found.low, found.n, found.population) == (0, 0, 1000, "everyone in the domain")
    assert found.high == pytest.approx(1 - 0.005 ** (1 / 1000))


def test_nobody_counted_is_unknown_never_nan():
    assert observed_rate(0, 0) == Unknown(reason="there are no people to count")
    assert observed_rate(0, 0, if_empty="no women") == Unknown(reason="no women")
    assert estimated_rate(0, 0, "everyone") == Unknown(reason="no one was sampled")
    mixed = observed_rates([1, 0], [2, 0])
    assert [type(rate) for rate in mixed] == [stats.Observed, Unknown]


def test_rates_of_impossible_counts_are_refused():
    for build in (lambda: observed_rate(3, 2), lambda: estimated_rate(3, 2, "everyone")):
        with pytest.raises(OptionError, match="got 3 of 2"):
            build()


EVERY_KIND = [
    Proved(value=0.5, how="counting"),
    observed_rate(1, 4),
    estimated_rate(1, 4, "everyone"),
    Unknown(reason="nobody"),
]


@pytest.mark.parametrize("quantity", EVERY_KIND, ids=lambda quantity: quantity.kind)
def test_every_kind_survives_json(quantity):
    adapter = TypeAdapter(stats.Quantity)
    assert adapter.validate_json(adapter.dump_json(quantity)) == quantity
    assert quantity_value(quantity) == (None if quantity.kind == "unknown" else quantity.value)


def test_every_kind_says_what_it_is():
    assert format_quantity(EVERY_KIND[0]) == "50.0 % (proved)"
    assert format_quantity(EVERY_KIND[1]) == "25.0 % (observed on 4 people, 95 % interval 0.6 to 80.6 %)"
    assert (
        format_quantity(EVERY_KIND[2]) == "25.0 % (estimated from 4 sampled individuals, 95 % interval 0.6 to 80.6 %)"
    )
    assert format_quantity(EVERY_KIND[3]) == "unknown (nobody)"
    assert format_quantity(EVERY_KIND[0], "auc") == "0.50 (proved)"


difference_counted = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
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


@given(difference_counted, difference_counted, st.sampled_from([0.8, 0.95, 0.999]))
def test_difference_has_the_symmetries_of_the_problem(first, second, confidence):
    low, high = difference_interval(*first, *second, confidence)
    (k1, n1), (k2, n2) = first, second
    assert -1 <= low <= k1 / n1 - k2 / n2 <= high <= 1
    assert difference_interval(*second, *first, confidence) == pytest.approx((-high, -low), abs=1e-12)
    assert difference_interval(n1 - k1, n1, n2 - k2, n2, confidence) == pytest.approx((-high, -low), abs=1e-9)


@given(difference_counted, difference_counted, st.sampled_from([0.8, 0.95, 0.999]))
def test_ratio_inverts_with_its_arguments(first, second, confidence):
    low, high = ratio_interval(*first, *second, confidence)
    inverse = ratio_interval(*second, *first, confidence)
    with np.errstate(divide="ignore"):
        assert (1 / inverse[1], 1 / inverse[0]) == pytest.approx((low, high), rel=1e-9)
    assert 0 <= low <= high
    if second[0] > 0:
        assert low <= first[0] / first[1] / (second[0] / second[1]) <= high


@given(difference_counted.filter(lambda c: c[0] > 0), difference_counted.filter(lambda c: c[0] > 0))
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


def test_difference_arrays_and_broadcasting():
    for interval in (difference_interval, ratio_interval):
        k, n = np.array([0, 3, 10]), np.array([10, 0, 10])
        low, high = interval(4, 9, np.minimum(k, n), n)
        for i in range(3):
            assert (low[i], high[i]) == pytest.approx(interval(4, 9, min(k[i], n[i]), n[i]))


@pytest.mark.parametrize("interval", [difference_interval, ratio_interval])
def test_difference_impossible_counts_are_refused(interval):
    with pytest.raises(OptionError, match="got 5 of 4"):
        interval(1, 2, 5, 4)


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
