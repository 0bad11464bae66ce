"""The false discovery rate: by hand, against scipy, and by simulation with dependent tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, false_discovery_control, norm, poisson

from evenhand.errors import OptionError
from evenhand.stats import benjamini_yekutieli, bonferroni, holm
from evenhand.stats.level import normal_quantile, poisson_cdf
from evenhand.stats.permutation import false_coverage_confidence, normal_p_value


def test_by_hand():
    """Three tests, c = 1 + 1/2 + 1/3 = 11/6, m c = 5.5: 0.011, 0.0275 and 0.11 times 5.5 over their ranks."""
    found = benjamini_yekutieli([0.02, 0.002, 0.06])
    assert found == pytest.approx([0.02 * 5.5 / 2, 0.002 * 5.5, 0.06 * 5.5 / 3])
    assert benjamini_yekutieli([0.5, 0.5]) == pytest.approx([0.75, 0.75])
    assert benjamini_yekutieli([0.9]) == pytest.approx([0.9])
    assert benjamini_yekutieli([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_is_scipys(p):
    assert benjamini_yekutieli(p) == pytest.approx(false_discovery_control(p, method="by"), abs=1e-12)


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


def test_normal_p_is_scipys():
    z = np.array([-40.0, -3.6, -1.0, 0.0, 1.96, 12.0])
    assert normal_p_value(z) == pytest.approx(2 * norm.sf(abs(z)), rel=1e-12)


def test_confidence_of_reported_intervals_by_hand():
    assert false_coverage_confidence(2, 3) == pytest.approx(1 - 0.05 * 2 / 5.5)
    assert false_coverage_confidence(1, 1) == pytest.approx(0.95)
    assert false_coverage_confidence(0, 10) == false_coverage_confidence(1, 10) < bonferroni(0.95, 10) + 0.05
    with pytest.raises(OptionError, match="3 of 2"):
        false_coverage_confidence(3, 2)


def test_few_of_the_reported_are_false_and_few_of_their_intervals_miss():
    """A hundred groups whose z share a common part, thirty with a true gap; each error is averaged over the runs."""
    rng, runs, groups = np.random.default_rng(1), 1500, 100
    truth = np.where(np.arange(groups) < 30, 4.0, 0.0)
    common = rng.standard_normal((runs, 1)) * np.where(np.arange(groups) % 2, 1, -1)
    z = truth + np.sqrt(0.6) * common + np.sqrt(0.4) * rng.standard_normal((runs, groups))
    false, missed, any_found = [], [], 0
    for row in z:
        reported = benjamini_yekutieli(normal_p_value(row)) <= 0.2
        confidence = false_coverage_confidence(int(reported.sum()), groups, 0.8)
        reach = normal_quantile(confidence)
        count = max(reported.sum(), 1)
        any_found += reported[:30].mean()
        false.append((reported & (truth == 0)).sum() / count)
        missed.append((reported & (abs(row - truth) > reach)).sum() / count)
        # What is reported has an interval that leaves 0 out, and nothing else has.
        assert ((abs(row) > reach) == reported).all() or not reported.any()
    for errors in (false, missed):
        error = np.std(errors) / np.sqrt(runs)
        assert np.mean(errors) <= 0.2 + 3 * error
    assert any_found / runs > 0.8
    # Without the correction more than the allowed share of what looks significant is false.
    naive = normal_p_value(z) <= 0.2
    assert np.mean([(row & (truth == 0)).sum() / row.sum() for row in naive]) > 0.25
    assert binom.sf(0, 70, 0.2) > 0.999
