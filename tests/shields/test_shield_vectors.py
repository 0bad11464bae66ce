"""Eight states at a time come to the same numbers as one at a time, to the last bit, and to the same levels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from evenhand.shields import FairnessProperty, Inputs
from evenhand.shields.spec.ends import FairEnd
from evenhand.shields.synthesis.kernels import DEAD_LEVEL
from evenhand.shields.synthesis.layer import LayerLayout, mix_of_group
from evenhand.shields.synthesis.parity_vector import sweep_parity_vectors
from evenhand.shields.synthesis.solve import SynthesisProblem, TableWriter


def plain_step(rejected, accepted, mix):
    """The formulas of `single_cost_value` and `single_cost_level`, with whole arrays."""
    one, zero, cost = mix.accept[1], mix.reject[1], mix.single
    down, up = cost + rejected, cost + accepted
    value = one * np.where(accepted < down, accepted, down) + zero * np.where(rejected < up, rejected, up)
    with np.errstate(invalid="ignore"):
        gain = rejected - accepted
    level = (gain >= mix.rises[0]).astype(int) + (gain > mix.rises[1])
    return value, np.where(np.minimum(rejected, accepted) < np.inf, level, DEAD_LEVEL)


def plain_sweep(layer, values, t, mixes):
    """The layer at time t from that at t + 1, plane by plane; the levels of either group by plane."""
    before = values.copy()
    levels = []
    for n_a in range(t + 1):
        n_b = t - n_a
        own, up = layer.plane_values(before, n_a, n_b + 1), layer.plane_values(before, n_a + 1, n_b)
        value_a, level_a = plain_step(up[:-1], up[1:], mixes[0])
        value_b, level_b = plain_step(own[:, :-1], own[:, 1:], mixes[1])
        layer.plane_values(values, n_a, n_b)[:] = value_a + value_b
        levels.append((level_a, level_b))
    return levels


def thresholds_of(levels):
    """Rows of both groups, and whether they store the levels."""
    rows, kept = ([], []), True
    for group in (0, 1):
        for level_a, level_b in levels if group == 0 else levels[::-1]:
            lines = level_a if group == 0 else level_b.T
            for line in lines:
                live = line != DEAD_LEVEL
                rises = [next((b for b in np.flatnonzero(live) if line[b] >= j), len(line)) for j in (1, 2)]
                rows[group].append(rises)
                again = (np.arange(len(line)) >= rises[0]).astype(int) + (np.arange(len(line)) >= rises[1])
                kept &= bool((again == line)[live].all())
    return rows, kept


@pytest.mark.parametrize("horizon", [1, 7, 8, 9, 66])
@pytest.mark.parametrize("form", ["thresholds", "packed"])
def test_a_sweep_of_vectors_is_that_of_single_states(horizon, form):
    inputs = Inputs(("a", "b"), (0.37, 0.63), (0.21, 0.58))
    layer = LayerLayout(horizon, labelled=False)
    end = FairEnd(FairnessProperty("demographic_parity", Fraction(1, 5)), (3, 2, 4, 1))
    problem = SynthesisProblem(horizon, False, inputs, {horizon: end})
    values, plain = layer.allocate(), layer.allocate()
    layer.check(values, horizon, end)
    layer.check(plain, horizon, end)
    mixes = tuple(mix_of_group(inputs, group, 1e-9) for group in (0, 1))
    for t in reversed(range(horizon)):
        out = TableWriter(problem, form).outputs(t)
        kept = sweep_parity_vectors(values, horizon, t, *mixes, out)
        levels = plain_sweep(layer, plain, t, mixes)
        assert (values == plain).all()  # also what is not of this layer any more
        if form == "packed":
            assert (out.cells_a == np.concatenate([one.ravel() for one, _ in levels])).all()
            assert (out.cells_b == np.concatenate([one.ravel() for _, one in levels])).all()
        elif form == "thresholds" and (t < 12 or t % 20 == 0):
            rows, stored = thresholds_of(levels)
            assert kept == stored
            assert (out.rows_a == rows[0]).all()
            assert (out.rows_b == rows[1]).all()


def test_levels_that_fall_again_are_not_said_to_be_stored():
    horizon = 3
    inputs = Inputs(("a", "b"), (0.5, 0.5), (0.5, 0.5))
    layer = LayerLayout(horizon, labelled=False)
    mixes = tuple(mix_of_group(inputs, group, 1e-9) for group in (0, 1))
    problem = SynthesisProblem(horizon, False, inputs, {})
    drawn, found = np.random.default_rng(1), set()
    for _ in range(50):
        values = layer.allocate()
        values[:] = drawn.integers(0, 4, layer.size)
        plain = values.copy()
        out = TableWriter(problem, "thresholds").outputs(2)
        kept = sweep_parity_vectors(values, horizon, 2, *mixes, out)
        assert kept == thresholds_of(plain_sweep(layer, plain, 2, mixes))[1]
        found.add(bool(kept))
    assert found == {True, False}
