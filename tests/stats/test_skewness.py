"""Skewed tails: the hypergeometric's own skewness, and what evening them out brings to a search for rare outcomes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from evenhand.stats import adjusted_p, critical_value, permutation_moments, permuted_counts
from evenhand.stats.skewness import FAR, group_skewness, tail_scales


@given(st.integers(3, 40), st.data())
def test_is_that_of_the_hypergeometric_law(people, data):
    successes, n = (data.draw(st.integers(1, people - 1)) for _ in range(2))
    share = successes / people
    found = group_skewness(n, people, (1 - 2 * share) / np.sqrt(share * (1 - share)))
    k = np.arange(n + 1)
    chances = hypergeom.pmf(k, people, successes, n)
    mean = chances @ k
    second, third = chances @ (k - mean) ** 2, chances @ (k - mean) ** 3
    assert found == pytest.approx(third / second**1.5, abs=1e-9)


def test_no_room_no_skewness():
    assert group_skewness([0, 10, 5], [10, 10, 2], 1.0).tolist() == [0, 0, 0]
    assert tail_scales(0.0) == (1.0, 1.0)


def test_scales_by_hand():
    """Skewness 0.3 moves both ends by 0.3 (3.5^2 - 1) / 6 = 0.5625."""
    above, below = tail_scales(0.3)
    assert above == pytest.approx(FAR / 4.0625)
    assert below == pytest.approx(FAR / 2.9375)
    assert tail_scales(-0.3) == (below, above)


def test_rare_outcomes_in_small_groups_do_not_hide_the_other_gaps():
    """At 2 % groups of 30 expect 0.6. The search errs as it should, scaled or not; scaled it sees more."""
    rng = np.random.default_rng(1)
    sizes = np.array([30] * 20 + [200] * 10 + [1000] * 4)
    people, rate, runs = int(sizes.sum()), 0.02, 300
    planted = len(sizes) - 1
    errors, seen, criticals = np.zeros(2), np.zeros(2), np.zeros(2)
    for run in range(2 * runs):
        rates = np.full(len(sizes), rate)
        if run % 2:
            rates[planted] += 0.02
        dealt = rng.binomial(sizes, rates)
        successes = int(dealt.sum())
        mean, deviation = permutation_moments(sizes, successes, people)
        share = successes / people
        above, below = tail_scales(group_skewness(sizes, people, (1 - 2 * share) / np.sqrt(share * (1 - share))))
        z = (np.vstack([dealt, permuted_counts(sizes, successes, 199, rng)]) - mean) / deviation
        for which, scaled in enumerate((z, np.where(z > 0, z * above, z * below))):
            maxima = abs(scaled[1:]).max(axis=1)
            p = adjusted_p(scaled[0], maxima)
            criticals[which] += critical_value(maxima) / (2 * runs)
            if run % 2:
                seen[which] += p[planted] <= 0.05
            else:
                errors[which] += p.min() <= 0.05
    assert (errors <= 29).all()  # of 300: at 5 %, more happens once in a thousand
    assert (errors >= 3).all()
    assert criticals[0] > criticals[1] + 0.5
    assert seen[1] > seen[0] + 30
