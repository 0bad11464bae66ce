"""Bands that hold for all thresholds at once: formulas by hand, the same by brute force, coverage by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from evenhand.errors import OptionError
from evenhand.stats.curves import RateCurves, gap_band, kolmogorov_width, rate_bands
from support import scaled

CELLS = 12


def count(up, down=None):
    down = np.zeros_like(up) if down is None else down
    return RateCurves.count(up, up, down, down)


def test_the_width_of_the_inequality_by_hand():
    # 2 exp(-2 n e^2) = 0.05 at n = 200: e = sqrt(log(40) / 400)
    assert kolmogorov_width(200, 0.95) == pytest.approx(math.sqrt(math.log(40) / 400))
    assert kolmogorov_width(200, 0.95) == pytest.approx(0.0960, abs=1e-4)
    with pytest.raises(OptionError, match="at least one person"):
        kolmogorov_width(0)


def test_rates_over_thresholds_by_hand():
    # Three thresholds. Deserving people in cells 0, 2, 2; others in 0, 1: decided rightly at each threshold?
    curves = count(np.array([[1.0, 0, 2]]), np.array([[1.0, 1, 0]]))
    # at t0 everybody is selected: 3 of 5 right; at t1 the other in cell 0 is right too, the deserving one there is not:
    # 2 + 1 = 3; at t2: 2 + 2 = 4
    assert curves.rates.tolist() == [[0.6, 0.6, 0.8]]
    assert curves.effective.tolist() == [5]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=scaled(50), deadline=None)
def test_rates_and_random_errors_are_those_of_single_people(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 30))
    cell, good, weight = rng.integers(0, CELLS, n), rng.random(n) < 0.5, rng.integers(1, 4, n).astype(float)
    sums = [
        np.bincount(cell[chosen], weights=weight[chosen] ** power, minlength=CELLS)[None, :]
        for chosen in (good, ~good)
        for power in (1, 2)
    ]
    curves = RateCurves.count(*sums)
    right = np.where(good[:, None], cell[:, None] >= np.arange(CELLS), cell[:, None] < np.arange(CELLS))
    rates = weight @ right / weight.sum()
    assert curves.rates[0] == pytest.approx(rates)
    # The covariance over thresholds of the errors drawn is that of the people's influences.
    influence = weight[:, None] * (right - rates) / weight.sum()
    effective = max(2.0, weight.sum() ** 2 / (weight**2).sum())
    expected = influence.T @ influence * effective / (effective - 1)
    drawn = curves.draw(rng, 4000)[:, 0]
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs(drawn.T @ drawn / 4000 - expected).max() <= 6 * spread.max() / math.sqrt(4000) + 1e-12


def simulate(sizes, shapes, runs, seed):
    """Yield, for each run, curves of groups whose scores are Beta distributed in 40 cells, and the true rates."""
    rng = np.random.default_rng(seed)
    edges = np.arange(40) / 40
    truth = np.array([beta.sf(edges, *shape) for shape in shapes])
    for _ in range(runs):
        cells = [
            np.bincount((rng.beta(*shape, n) * 40).astype(int), minlength=40)
            for n, shape in zip(sizes, shapes, strict=True)
        ]
        yield np.array(cells, dtype=float), truth, rng


def assert_covers(hits, confidence=0.95):
    """A band that covers so often passes by all but one in 1,000 of such simulations; one at 2 % less mostly fails."""
    n = len(hits)
    assert np.mean(hits) >= confidence - 3.1 * math.sqrt(confidence * (1 - confidence) / n)


@pytest.mark.parametrize(
    ("sizes", "shapes"),
    [
        ((400, 300), ((2, 2), (2, 3))),
        ((40, 1000), ((1, 1), (3, 1))),
        pytest.param((60, 60, 60), ((2, 2), (2, 2), (2, 2)), marks=pytest.mark.full),
        pytest.param((30, 30), ((0.3, 3), (0.3, 2)), marks=pytest.mark.full),
    ],
)
def test_the_band_of_the_largest_gap_covers_all_thresholds(sizes, shapes):
    hits = []
    for cells, truth, rng in simulate(sizes, shapes, scaled(1000), 1):
        low, high = gap_band(count(cells), 0.95, rng, draws=200)
        gap = truth.max(axis=0) - truth.min(axis=0)
        hits.append(bool(((low <= gap + 1e-9) & (gap <= high + 1e-9)).all()))
    assert_covers(hits)


@pytest.mark.parametrize("n", [50, 500])
def test_the_band_of_a_selection_rate_covers_all_thresholds(n):
    width, hits = kolmogorov_width(n), []
    for cells, truth, _ in simulate((n,), ((2, 3),), scaled(5000), 2):
        hits.append(bool((np.abs(count(cells).rates - truth) <= width).all()))
    assert_covers(hits)


@pytest.mark.parametrize("n", [60, 600])
def test_the_band_of_the_accuracy_covers_all_thresholds(n):
    rng, hits = np.random.default_rng(3), []
    middle = (np.arange(40) + 0.5) / 40
    mass = np.full(40, 1 / 40)
    # P(right at t) = P(score >= t, deserving) + P(score < t, not): scores are probabilities here
    truth = np.array([(mass * np.where(np.arange(40) >= t, middle, 1 - middle)).sum() for t in range(40)])
    for _ in range(scaled(1000)):
        cell = rng.integers(0, 40, n)
        good = rng.random(n) < middle[cell]
        up, down = (np.bincount(cell[one], minlength=40)[None, :].astype(float) for one in (good, ~good))
        low, high = rate_bands(count(up, down), 0.95, rng, draws=200)
        hits.append(bool(((low[0] <= truth) & (truth <= high[0])).all()))
    assert_covers(hits)


def test_bands_are_no_wider_than_they_must_be():
    """A separate interval at each threshold misses somewhere far more often than the band does."""
    separate, together = [], []
    for cells, truth, rng in simulate((400, 300), ((2, 2), (2, 3)), 300, 4):
        curves = count(cells)
        gap = np.abs(truth[0] - truth[1])
        p = curves.rates
        error = np.sqrt((p * (1 - p) / curves.effective[:, None]).sum(axis=0))
        separate.append(bool((np.abs(np.abs(p[0] - p[1]) - gap) <= 1.96 * error + 1e-12).all()))
        low, high = gap_band(curves, 0.95, rng, draws=200)
        together.append(bool(((low <= gap) & (gap <= high)).all()))
        assert (high - low).max() < 4 * 1.96 * error.max()
    assert np.mean(separate) < 0.85 < np.mean(together)
