"""The relaxation of ReLU, enumerated: its lines enclose ReLU everywhere and are as near as they may be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from evenhand.certification.bounds.relu import relax_constant, relax_relu, relax_weights

ENDS = [-3.0, -2.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 2.0, 3.0]
INTERVALS = np.array([pair for pair in itertools.product(ENDS, ENDS) if pair[0] <= pair[1]])


@pytest.fixture(params=["numpy", "torch"])
def xp(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param, reason=f"needs {request.param}")


def array(values: np.ndarray, xp: Any) -> Any:
    return xp.asarray(values)


def test_lines_enclose_relu(xp: Any) -> None:
    low, high = INTERVALS.T
    lines = relax_relu(array(low, xp), array(high, xp), xp)
    slope, shift, adaptive, flat = map(np.asarray, (lines.slope, lines.shift, lines.adaptive, lines.flat))
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
def test_a_layer_back_bounds_every_point(xp: Any, up: bool, line: str) -> None:
    rng = np.random.default_rng(0)
    for units in (1, 2, 3):
        chosen = INTERVALS[rng.integers(0, len(INTERVALS), (40, units))]
        low, high = chosen[..., 0], chosen[..., 1]
        weights = rng.integers(-2, 3, (40, units)).astype(np.float64)
        lines = relax_relu(array(low, xp), array(high, xp), xp)
        given, below = array(weights, xp), getattr(lines, line)
        found = np.asarray(relax_weights(given, lines.slope, below, up=up, xp=xp))
        constant = np.asarray(relax_constant(given, lines.shift, up=up, xp=xp))
        for share in itertools.product(np.linspace(0, 1, 9), repeat=units):
            z = low + np.array(share) * (high - low)
            exact, bound = (weights * np.maximum(z, 0)).sum(axis=1), (found * z).sum(axis=1) + constant
            assert ((bound - exact) * (1 if up else -1) >= -1e-12).all()


def test_numpy_and_torch_agree() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    low, high = INTERVALS.T
    ours, theirs = relax_relu(low, high, np), relax_relu(torch.asarray(low), torch.asarray(high), torch)
    for name in ("slope", "shift", "adaptive", "flat"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name).numpy())


def test_gradients_are_numbers() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    low, high = (torch.tensor(end, requires_grad=True) for end in INTERVALS.T)
    lines = relax_relu(low, high, torch)
    (lines.slope.sum() + lines.shift.sum()).backward()
    assert torch.isfinite(low.grad).all()
    assert torch.isfinite(high.grad).all()
