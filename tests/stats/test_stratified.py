"""Totals over strata: exact coverage, hand examples, what was not sampled."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from evenhand.errors import OptionError
from evenhand.stats import clopper_pearson, stratified_total


def test_one_stratum_is_clopper_pearson():
    low, high = clopper_pearson(3, 50, 0.99)
    assert stratified_total(0.1, [(0.2, 3, 50)], 0.99) == pytest.approx(
        (0.1 + 0.2 * 0.06, 0.1 + 0.2 * low, 0.1 + 0.2 * high, 50)
    )


def test_two_strata_by_hand():
    """Each at 97.5 %: the two may miss with 2.5 % each."""
    (a, b), (c, d) = clopper_pearson(3, 50, 0.975), clopper_pearson(0, 200, 0.975)
    found = stratified_total(0.01, [(0.2, 3, 50), (0.4, 0, 200)])
    assert found == pytest.approx((0.01 + 0.012, 0.01 + 0.2 * a + 0.4 * c, 0.01 + 0.2 * b + 0.4 * d, 250))


def test_not_sampled_may_be_all_or_nothing():
    alone = stratified_total(0.1, [(0.2, 3, 50)])
    found = stratified_total(0.1, [(0.2, 3, 50), (0.3, 0, 0)])
    assert found.low == pytest.approx(alone.low)
    assert found.high == pytest.approx(alone.high + 0.3)
    assert found.value == pytest.approx(alone.value + 0.15)
    assert stratified_total(0.1, [(0.3, 0, 0)]) == pytest.approx((0.25, 0.1, 0.4, 0))


def test_nothing_open_is_what_was_proved():
    assert stratified_total(0.25, []) == (0.25, 0.25, 0.25, 0)
    assert stratified_total(0.25, [(0.0, 5, 10)]) == (0.25, 0.25, 0.25, 0)


@pytest.mark.parametrize("rates", [(0.01, 0.9), (0.3, 0.3), (0.0, 0.05), (0.5, 0.02)])
def test_covers_at_least_what_it_says(rates):
    masses, sizes, proved = (0.3, 0.1), (20, 12), 0.05
    truth = proved + sum(mass * rate for mass, rate in zip(masses, rates, strict=True))
    covered = 0.0
    for counts in itertools.product(*(range(n + 1) for n in sizes)):
        found = stratified_total(proved, zip(masses, counts, sizes, strict=True))
        assert proved <= found.low <= found.value <= found.high <= proved + sum(masses) + 1e-12
        covered += np.prod(binom.pmf(counts, sizes, rates)) * (found.low <= truth <= found.high)
    assert covered >= 0.95


def test_impossible_strata_are_refused():
    with pytest.raises(OptionError, match="negative"):
        stratified_total(0.1, [(-0.1, 1, 2)])
    with pytest.raises(OptionError, match="not a count"):
        stratified_total(0.1, [(0.1, 3, 2)])
    with pytest.raises(OptionError, match="between 0 and 1"):
        stratified_total(0.1, [], 1.0)
