"""Looks while data come: levels against exact normal probabilities, and someone who looks all the time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm
from tests.support import scaled

from evenhand.errors import OptionError
from evenhand.stats.sequential.looks import AlphaSpending


def reach(level):
    return float(norm.ppf((1 + level) / 2))


def test_the_first_look_by_hand():
    """A quarter of the information: alpha / 16 of 5 % is spent, so the first interval is one of 99.6875 %."""
    spending = AlphaSpending(0.95)
    assert spending.look(4.0, 0.25) == pytest.approx(1 - 0.05 / 16)
    assert spending.spent == pytest.approx(0.05 / 16)
    assert AlphaSpending(0.95).look(1.0, 1.0) == pytest.approx(0.95)
    with pytest.raises(OptionError, match="above 0"):
        spending.look(0.0, 0.5)


@given(st.lists(st.floats(0.05, 0.9), min_size=1, max_size=2), st.sampled_from([0.9, 0.95, 0.99]))
@settings(max_examples=scaled(20), deadline=None)
def test_all_looks_together_have_the_level(early, confidence):
    """Against SciPy's integral of the joint normal distribution of all looks."""
    shares = [*np.cumsum(early) / (sum(early) + 0.1), 1.0]
    spending = AlphaSpending(confidence)
    edges = np.array([reach(spending.look(1 / share, share)) for share in shares])
    inside = multivariate_normal(
        cov=[[min(a, b) / np.sqrt(a * b) for a in shares] for b in shares], allow_singular=True
    ).cdf(edges, lower_limit=-edges, rng=np.random.default_rng(1))
    assert inside == pytest.approx(confidence, abs=5e-4)
    assert spending.spent == pytest.approx(1 - confidence)


def test_a_look_without_news_spends_nothing_and_is_survived():
    spending = AlphaSpending()
    first = spending.look(1.0, 0.5)
    again = spending.look(1.02, 0.49)
    assert spending.spent == pytest.approx(0.05 / 4)
    assert again > first
    assert 0.95 < spending.look(0.5, 1.0) < first


def test_who_looks_at_every_step_is_seldom_wrong():
    """Sums of normal numbers looked at 20 times: spending misses in 5 % of walks, ordinary intervals in far more."""
    rng = np.random.default_rng(2)
    shares = np.arange(1, 21) / 20
    spending = AlphaSpending(0.95)
    edges = np.array([reach(spending.look(1 / share, share)) for share in shares])
    walks = rng.normal(size=(20_000, 20)).cumsum(axis=1) / np.sqrt(np.arange(1, 21))
    assert (np.abs(walks) > edges).any(axis=1).mean() == pytest.approx(0.05, abs=0.005)
    assert (np.abs(walks) > 1.96).any(axis=1).mean() > 0.2
