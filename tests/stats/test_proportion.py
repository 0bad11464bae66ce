"""Intervals for one proportion, and the quantities that hold them: exact coverage, published examples, references."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.stats import binom, binomtest

from evenhand.errors import OptionError
from evenhand.stats import Estimated, Observed, Proved, Quantity, Unknown, clopper_pearson
from evenhand.stats.distribution import sample_quantile
from evenhand.stats.proportion import count_needed, estimated_rate, observed_rate, observed_rates, zero_count_upper
from evenhand.stats.quantity import format_quantity, quantity_value

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
    assert isinstance(found, Estimated)
    assert (found.value, found.low, found.n, found.population) == (0, 0, 1000, "everyone in the domain")
    assert found.high == pytest.approx(1 - 0.005 ** (1 / 1000))


def test_nobody_counted_is_unknown_never_nan():
    assert observed_rate(0, 0) == Unknown(reason="there are no people to count")
    assert observed_rate(0, 0, if_empty="no women") == Unknown(reason="no women")
    assert estimated_rate(0, 0, "everyone") == Unknown(reason="no one was sampled")
    mixed = observed_rates([1, 0], [2, 0])
    assert [type(rate) for rate in mixed] == [Observed, Unknown]


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
    adapter = TypeAdapter(Quantity)
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
