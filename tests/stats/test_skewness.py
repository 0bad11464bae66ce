"""Skewness of what chance deals to a group, and scales that make its tails like normal ones."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom, norm

from evenhand.stats.score_difference import FAR, group_skewness, tail_scales


def third_over_second(numbers):
    away = np.asarray(numbers, dtype=float) - np.mean(numbers)
    second = (away**2).mean()
    return (away**3).mean() / second**1.5 if second > 1e-12 else 0.0


@given(st.lists(st.integers(0, 5), min_size=3, max_size=8), st.integers(1, 7))
def test_skewness_by_every_way_to_choose_a_group(values, size):
    if size >= len(values):
        return
    sums = [sum(chosen) for chosen in itertools.combinations(values, size)]
    found = group_skewness(size, len(values), third_over_second(values))
    assert found == pytest.approx(third_over_second(sums), abs=1e-9)


def test_no_room_no_skewness():
    assert group_skewness([0, 5, 1], [5, 5, 2], 1.3).tolist() == [0.0, 0.0, 0.0]


def test_no_skewness_no_change():
    above, below = tail_scales(np.zeros(3))
    assert above.tolist() == below.tolist() == [1.0] * 3


@pytest.mark.parametrize(("size", "successes"), [(50, 10), (50, 50), (50, 300), (200, 20), (400, 700), (30, 30)])
def test_tails_are_as_heavy_as_normal_ones(size, successes):
    """Of 1,000 people: the scaled deviation of every far outcome says how rare it is, within half a deviation."""
    people = 1000
    chance = hypergeom(people, successes, size)
    share = successes / people
    skewness = group_skewness(size, people, (1 - 2 * share) / math.sqrt(share * (1 - share)))
    scales = dict(zip("ab", tail_scales(skewness), strict=True))
    for k in range(size + 1):
        z = (k - chance.mean()) / chance.std()
        rare = chance.sf(k) + chance.pmf(k) / 2 if z > 0 else chance.cdf(k) - chance.pmf(k) / 2
        if 1e-5 < rare < 1e-3:
            scaled = abs(z) * scales["a" if z > 0 else "b"]
            assert abs(scaled - norm.isf(rare)) < 0.5
            assert abs(scaled - norm.isf(rare)) < abs(abs(z) - norm.isf(rare)) + 0.15


def test_a_scale_is_never_turned_round():
    above, below = tail_scales(np.array([-100.0, 100.0]))
    assert (above > 0).all()
    assert (below > 0).all()
    assert above[0] == below[1] == FAR
