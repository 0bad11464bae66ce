"""Holm's adjustment by hand and step by step, and reference distributions against SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, poisson

from evenhand.stats import holm
from evenhand.stats.level import poisson_cdf, poisson_mean
from evenhand.stats.permutation import normal_p_value


def test_holm_by_hand():
    """Three times the smallest, twice the next and never less than before, once the largest."""
    assert holm([0.02, 0.002, 0.06]) == pytest.approx([0.04, 0.006, 0.06])
    assert holm([0.02, 0.03, 0.01]) == pytest.approx([0.04, 0.04, 0.03])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 0.5))
def test_holm_rejects_step_by_step(p, level):
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - step) > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p) <= level)) == rejected


def test_poisson_is_scipys():
    k, mean = np.meshgrid(np.arange(0, 40, 3), [0.0, 1e-9, 0.3, 5.0, 326.8])
    assert poisson_cdf(k, mean) == pytest.approx(poisson.cdf(k, mean), rel=1e-10, abs=1e-300)
    assert poisson_cdf(k, poisson_mean(k, 0.01)) == pytest.approx(np.full(k.shape, 0.01))


def test_normal_p_is_scipys():
    z = np.array([-40.0, -3.6, -1.0, 0.0, 1.96, 12.0])
    assert normal_p_value(z) == pytest.approx(2 * norm.sf(abs(z)), rel=1e-12)
