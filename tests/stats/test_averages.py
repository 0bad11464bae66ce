"""How far a sum of outcomes is from the sum of their expectations: by hand, and over whole runs."""

import math

import numpy as np
import pytest

from evenhand.stats.sequential.looks import largest_deviation, log_evidence


def test_the_evidence_by_hand():
    rates = [0.9 * 2.0**-j for j in range(14)]
    expected = sum(math.exp(r * 3 + (math.log(1 - r) + r) * 2) for r in rates) / 14
    assert log_evidence(np.array(3.0), np.array(2.0)) == pytest.approx(math.log(expected))


def test_the_deviation_is_where_the_evidence_reaches_the_threshold():
    squares = np.array([0.0, 0.5, 10.0, 1e3, 1e7])
    reach = largest_deviation(squares, math.log(20))
    assert log_evidence(reach, squares) == pytest.approx(np.full(5, math.log(20)))
    assert (np.diff(reach) > 0).all()


def test_no_more_than_twice_as_wide_as_the_law_of_the_iterated_logarithm_asks():
    squares = np.array([1e3, 1e5])
    assert (largest_deviation(squares, math.log(40)) < 2 * np.sqrt(2 * squares * np.log(40))).all()


def test_intervals_hold_at_every_moment_while_the_expectation_drifts():
    rng = np.random.default_rng(5)
    n, runs = 600, 200
    rates = 0.5 + 0.4 * np.sin(np.arange(n) / 80)
    outcomes = (rng.random((runs, n)) < rates).astype(float)
    guesses = np.concatenate([np.full((runs, 1), 0.5), (outcomes.cumsum(1) / np.arange(1, n + 1))[:, :-1]], axis=1)
    squares = ((outcomes - guesses) ** 2).cumsum(1)
    surprise = outcomes.cumsum(1) - rates.cumsum()
    missed = (log_evidence(surprise, squares) >= math.log(1 / 0.1)).any(axis=1)
    assert missed.mean() <= 0.1
