"""The relaxation of ReLU, enumerated: its lines enclose ReLU everywhere and are as tight as possible."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evenhand.certification.bounds.relu import relax_relu, relax_sums

ENDS = [-3.0, -2.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 2.0, 3.0]
INTERVALS = np.array([pair for pair in itertools.product(ENDS, ENDS) if pair[0] <= pair[1]])


def test_lines_enclose_relu() -> None:
    low, high = INTERVALS.T
    lines = relax_relu(low, high)
    slope, shift, adaptive, flat = lines.slope, lines.shift, lines.adaptive, lines.flat
    z = np.linspace(low, high, 201)
    relu = np.maximum(z, 0)
    above = slope * z + shift
    assert (above >= relu - 1e-12).all()
    assert (adaptive * z <= relu + 1e-12).all()
    assert (flat * z <= relu).all()
    # The chord meets ReLU at both ends: no line above is lower there.
    np.testing.assert_allclose(above[[0, -1]], relu[[0, -1]], atol=1e-12)
    # Neither slope of a line below encloses a smaller area than the adaptive one; what is on or off is exact.
    area = (relu - adaptive * z).sum(axis=0)
    assert (area <= np.minimum(relu.sum(axis=0), np.where(high > 0, (relu - z).sum(axis=0), np.inf)) + 1e-9).all()
    settled = (low >= 0) | (high <= 0)
    for line in (above, adaptive * z, flat * z):
        np.testing.assert_array_equal(line[:, settled], relu[:, settled])


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("line", ["adaptive", "flat"])
def test_relaxed_weights_bound_every_point(up: bool, line: str) -> None:
    rng = np.random.default_rng(0)
    for units in (1, 2, 3):
        chosen = INTERVALS[rng.integers(0, len(INTERVALS), (40, units))]
        low, high = chosen[..., 0], chosen[..., 1]
        weights = rng.integers(-2, 3, (40, units)).astype(np.float64)
        lines = relax_relu(low, high)
        relaxed, constant = relax_sums(weights, lines.slope, lines.shift, getattr(lines, line), up=up)
        for share in itertools.product(np.linspace(0, 1, 9), repeat=units):
            z = low + np.array(share) * (high - low)
            exact, bound = (weights * np.maximum(z, 0)).sum(axis=1), (relaxed * z).sum(axis=1) + constant
            assert ((bound - exact) * (1 if up else -1) >= -1e-12).all()
