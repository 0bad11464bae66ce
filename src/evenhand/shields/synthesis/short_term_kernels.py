"""Compiled sweeps for shields with a short-term bound: values and probabilities of states that were never beyond it.

Two layers of values are swept side by side. ``after`` is the layer of a shield that has been beyond the bound: nothing
is asked of it but the end. ``values`` is that of one that has not, with ``chances``, the probability that it ever will.
A state beyond the bound is worth the price of getting there and what it is worth ``after``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.kernels import compile_kernel
from evenhand.shields.synthesis.kernels import (
    DEAD_LEVEL,
    Bytes,
    several_costs_step,
)
from evenhand.shields.synthesis.parity_vector import LANES, SPARE, guard_eight_states
from evenhand.typing import Floats, Integers

SMALLEST_CHANCE = 1e-250
"""Smaller probabilities are taken for 0: arithmetic with them is slow, and their sum is far below any rounding."""


class GuardedLayers(NamedTuple):
    """Layers by state, laid out as in `LayerLayout`.

    Attributes:
        values, chances: expected cost and probability of getting beyond the bound, while it has been kept; of the time
            after the one that is swept, and overwritten.
        after: expected cost once the bound was left, of the time that is swept.
        price: of leaving it.
    """

    values: Floats
    chances: Floats
    after: Floats
    price: float


class GuardedBand(NamedTuple):
    """By row of the layer, ascending in (n_a, n_b, a): the accepted b from low to high are within the bound."""

    low: Integers
    high: Integers


class GuardedPlanes(NamedTuple):
    """Values and chances after one more decision: the same counters, one more of group a, one more of group b."""

    own: Floats
    up: Floats
    right: Floats
    own_chance: Floats
    up_chance: Floats
    right_chance: Floats


class GuardedRow(NamedTuple):
    """What a row of states comes to: its values, its chances, and the levels on either group."""

    value: Floats
    chance: Floats
    level_a: Bytes
    level_b: Bytes


@compile_kernel(nogil=True, error_model="numpy")
def guarded_several(planes, a, low, high, labels, mixes, row):
    """Return values, chances and levels of the states b from low to high of a row, with labels or several costs."""
    # Without labels everybody counts, and the values with label 0 are not looked at: they may be infinite.
    own, up, right, own_chance, up_chance, right_chance = planes
    mix_a, mix_b = mixes
    near_a = near_b = len(mix_a.rises) // 2
    not_a, yes_a, not_b, yes_b = labels[0, 0], labels[0, 1], labels[1, 0], labels[1, 1]
    # The chance is linear in the same shares of acceptances and rejections as the value, at the level that is best.
    for b in range(low, high + 1):
        stay, stay_chance = (own[a, b], own_chance[a, b]) if not_a > 0 else (0.0, 0.0)
        rejected, accepted = yes_a * up[a, b] + not_a * stay, yes_a * up[a + 1, b] + not_a * stay
        value_a, near_a = several_costs_step(rejected, accepted, mix_a, near_a)
        chance = mix_a.accept[near_a] * (yes_a * up_chance[a + 1, b] + not_a * stay_chance)
        chance += mix_a.reject[near_a] * (yes_a * up_chance[a, b] + not_a * stay_chance)
        rejected, accepted = yes_b * right[a, b] + not_b * stay, yes_b * right[a, b + 1] + not_b * stay
        value_b, near_b = several_costs_step(rejected, accepted, mix_b, near_b)
        chance += mix_b.accept[near_b] * (yes_b * right_chance[a, b + 1] + not_b * stay_chance)
        chance += mix_b.reject[near_b] * (yes_b * right_chance[a, b] + not_b * stay_chance)
        row.value[b] = value_a + value_b
        row.chance[b] = chance if chance > SMALLEST_CHANCE else 0.0
        row.level_a[b] = near_a if value_a < np.inf else DEAD_LEVEL
        row.level_b[b] = near_b if value_b < np.inf else DEAD_LEVEL


@compile_kernel(nogil=True, error_model="numpy")
def finish_row(planes, past, a, span, price, row, cells):
    """Write a row that was read: states beyond the bound pay its price and go on as ``past`` says, for certain."""
    own, chance = planes.own, planes.own_chance
    low, high, columns = span
    cells_a, cells_b, cell = cells
    for b in range(min(low, columns)):
        own[a, b] = price + past[a, b]
        chance[a, b] = 1.0
    for b in range(low, high + 1):
        own[a, b] = row.value[b]
        chance[a, b] = row.chance[b]
        cells_a[cell + b] = row.level_a[b]
        cells_b[cell + b] = row.level_b[b]
    for b in range(max(high + 1, low), columns):
        own[a, b] = price + past[a, b]
        chance[a, b] = 1.0


@compile_kernel(nogil=True, error_model="numpy")
def sweep_parity_guarded(layers, horizon, t, mixes, band, out):
    """Sweep as ``sweep_parity`` does, for states that were never beyond a bound, see `GuardedLayers`.

    The levels go to the cells of ``out``; those of states beyond the bound are dead. Thresholds would not store them:
    what a state beyond the bound is worth is not submodular together with those within.
    """
    # Invariant: as in ``sweep_parity``, what is before the row being written is of time t, all after it of time t + 1.
    values, chances, after, price = layers
    row = GuardedRow(
        np.empty(horizon + 1), np.empty(horizon + 1), np.empty(horizon + 1, np.uint8), np.empty(horizon + 1, np.uint8)
    )
    everybody = np.array([[0.0, 1.0], [0.0, 1.0]])
    out.cells_a[:] = DEAD_LEVEL
    out.cells_b[:] = DEAD_LEVEL
    start, cell, line = 0, 0, 0
    for n_a in range(t + 1):
        columns, stride = t - n_a + 1, horizon - n_a + 1
        end = start + (n_a + 1) * stride
        further = end + (n_a + 2) * (stride - 1)
        own = values[start:end].reshape((n_a + 1, stride))
        own_chance = chances[start:end].reshape((n_a + 1, stride))
        up = values[end:further].reshape((n_a + 2, stride - 1))
        up_chance = chances[end:further].reshape((n_a + 2, stride - 1))
        past = after[start:end].reshape((n_a + 1, stride))
        # One more of group b is the same plane: its number follows from the time.
        planes = GuardedPlanes(own, up, own, own_chance, up_chance, own_chance)
        for a in range(n_a + 1):
            low, high = band.low[line], band.high[line]
            line += 1
            guarded_several(planes, a, low, high, everybody, mixes, row)
            finish_row(planes, past, a, (low, high, columns), price, row, (out.cells_a, out.cells_b, cell))
            cell += columns
        start = end


@compile_kernel(nogil=True, error_model="numpy")
def sweep_guarded_vectors(layers, horizon, t, mixes, band, out):
    """As `sweep_parity_guarded`, with one cost, eight states at a time; layers need ``SPARE`` more numbers behind."""
    # Invariant: as in ``sweep_parity_vectors``.
    mix_a, mix_b = mixes
    groups = (
        (mix_a.accept[1], mix_a.reject[1], mix_a.rises[0], mix_a.rises[1]),
        (mix_b.accept[1], mix_b.reject[1], mix_b.rises[0], mix_b.rises[1]),
    )
    row = (np.empty(horizon + SPARE, np.uint8), np.empty(horizon + SPARE, np.uint8))
    arrays = (layers.values, layers.chances, layers.after)
    numbers = (mix_a.single, layers.price, SMALLEST_CHANCE)
    out.cells_a[:] = DEAD_LEVEL
    out.cells_b[:] = DEAD_LEVEL
    start, cell, line = 0, 0, 0
    for n_a in range(t + 1):
        columns, stride = t - n_a + 1, horizon - n_a + 1
        after = start + (n_a + 1) * stride
        for a in range(n_a + 1):
            low, high = band.low[line], band.high[line]
            line += 1
            own, above = start + a * stride, after + a * (stride - 1)
            for b in range(0, columns, LANES):
                places = (above + b, above + stride - 1 + b, own + b, b, columns, low, high)
                guard_eight_states(arrays, places, row, groups, numbers)
            if high >= low:
                out.cells_a[cell + low : cell + high + 1] = row[0][low : high + 1]
                out.cells_b[cell + low : cell + high + 1] = row[1][low : high + 1]
            cell += columns
        start = after


@compile_kernel(nogil=True, error_model="numpy")
def sweep_opportunity_guarded(layers, starts, t, mixes, labels, band, out):
    """As `sweep_parity_guarded` where an individual counts only with label 1; see ``sweep_opportunity``."""
    # Invariant: a state of the plane (n_a, n_b) reads that plane and those of (n_a + 1, n_b) and (n_a, n_b + 1), which
    # come later in this order.
    values, chances, after, price = layers
    row = GuardedRow(np.empty(t + 1), np.empty(t + 1), np.empty(t + 1, np.uint8), np.empty(t + 1, np.uint8))
    out.cells_a[:] = DEAD_LEVEL
    out.cells_b[:] = DEAD_LEVEL
    cell, line = 0, 0
    for n_a in range(t + 1):
        for n_b in range(t - n_a + 1):
            columns = n_b + 1
            start, above, beside = starts[n_a, n_b], starts[n_a + 1, n_b], starts[n_a, n_b + 1]
            end, over, far = (
                start + (n_a + 1) * columns,
                above + (n_a + 2) * columns,
                beside + (n_a + 1) * (columns + 1),
            )
            planes = GuardedPlanes(
                values[start:end].reshape((n_a + 1, columns)),
                values[above:over].reshape((n_a + 2, columns)),
                values[beside:far].reshape((n_a + 1, columns + 1)),
                chances[start:end].reshape((n_a + 1, columns)),
                chances[above:over].reshape((n_a + 2, columns)),
                chances[beside:far].reshape((n_a + 1, columns + 1)),
            )
            past = after[start:end].reshape((n_a + 1, columns))
            for a in range(n_a + 1):
                low, high = band.low[line], band.high[line]
                line += 1
                guarded_several(planes, a, low, high, labels, mixes, row)
                finish_row(planes, past, a, (low, high, columns), price, row, (out.cells_a, out.cells_b, cell))
                cell += columns
