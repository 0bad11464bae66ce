"""The area under the ROC curve: brute force, coverage, and its ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm

from evenhand.stats import Observed, Unknown
from evenhand.stats.auc import auc

people = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({positive for _, positive in rows}) == 2
)


def brute_force(scores, positive):
    """Every pair compared, and DeLong's variance from the pairs' table."""
    above, below = scores[positive], scores[~positive]
    wins = (above[:, None] > below).astype(float) + 0.5 * (above[:, None] == below)
    variance = 0.0
    if len(above) > 1:
        variance += wins.mean(axis=1).var(ddof=1) / len(above)
    if len(below) > 1:
        variance += wins.mean(axis=0).var(ddof=1) / len(below)
    return wins.mean(), variance


@given(people, st.sampled_from([0.8, 0.95]))
def test_agrees_with_brute_force(rows, confidence):
    scores, positive = (np.array(column) for column in zip(*rows, strict=True))
    found = auc(scores.astype(float), positive, confidence)
    area, variance = brute_force(scores, positive)
    assert isinstance(found, Observed)
    assert found.value == pytest.approx(area)
    assert found.n == len(rows)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    m, n, z = positive.sum(), (~positive).sum(), norm.ppf((1 + confidence) / 2)
    for t in (found.low, found.high):
        if 0 < t < 1:
            # An end lies where the distance is z standard errors, by the larger of the two variances.
            middle = (m + n) / 2 - 1
            newcombe = t * (1 - t) * (1 + middle * (1 - t) / (2 - t) + middle * t / (1 + t)) / (m * n)
            delong = variance * t * (1 - t) / (area * (1 - area)) if 0 < area < 1 else 0.0
            assert abs(area - t) == pytest.approx(z * np.sqrt(max(newcombe, delong)), abs=1e-9)


@given(people)
def test_only_the_order_of_scores_matters(rows):
    scores, positive = (np.array(column) for column in zip(*rows, strict=True))
    found = auc(scores.astype(float), positive)
    assert auc(np.exp(scores / 10), positive) == found
    mirrored = auc(-scores.astype(float), positive)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize(("m", "n", "area"), [(15, 15, 0.8), (30, 300, 0.6), (100, 100, 0.95), (10, 10, 0.99)])
def test_covers_what_it_says(m, n, area):
    rng = np.random.default_rng(m)
    positive = np.arange(m + n) < m
    shift = norm.ppf(area) * np.sqrt(2)
    assert ndtr(shift / np.sqrt(2)) == pytest.approx(area)
    covered = 0
    for _ in range(800):
        found = auc(rng.normal(size=m + n) + shift * positive, positive)
        covered += found.low <= area <= found.high
    assert covered / 800 >= 0.93


@pytest.mark.parametrize("area", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("n", "base_rate"), [(60, 0.05), (200, 0.01), (200, 0.05), (60, 0.2)])
@pytest.mark.parametrize("shape", ["normal", "exponential", "two points"])
def test_few_positives_near_the_end_are_covered(area, n, base_rate, shape):
    """DeLong's variance on the logit scale covers .42 to .87 here: few positives show no spread."""
    rng, runs, covered = np.random.default_rng(n), 400, 0
    for _ in range(runs):
        positive = rng.random(n) < base_rate
        positive[0], positive[1] = True, False
        if shape == "normal":
            scores = rng.normal(size=n) + norm.ppf(area) * np.sqrt(2) * positive
        elif shape == "exponential":
            scores = rng.random(n) ** np.where(positive, (1 - area) / area, 1.0)
        else:
            scores = (rng.random(n) < np.where(positive, area, 1 - area)).astype(float)
        found = auc(scores, positive)
        covered += found.low <= area <= found.high
    assert covered / runs >= 0.94 - 3 * np.sqrt(0.94 * 0.06 / runs)


def test_perfect_separation_keeps_a_width():
    """The interval ends where 1 - t = z sqrt(V(t)) of Newcombe's method 5."""
    positive = np.arange(20) < 10
    found = auc(np.where(positive, 0.9, 0.1), positive)
    assert (found.value, found.high) == (1, 1)
    t = found.low
    brackets = 1 + 9 * (1 - t) / (2 - t) + 9 * t / (1 + t)
    assert 1 - t == pytest.approx(norm.ppf(0.975) * np.sqrt(t * (1 - t) * brackets / 100))
    assert 0.7 < t < 0.9
    assert auc(np.where(positive, 0.1, 0.9), positive).low == 0


def test_one_class_is_unknown():
    assert auc(np.array([0.1, 0.2]), np.array([True, True])) == Unknown(reason="all people have the same true label")
    assert isinstance(auc(np.array([0.1, 0.2]), np.array([False, False])), Unknown)
