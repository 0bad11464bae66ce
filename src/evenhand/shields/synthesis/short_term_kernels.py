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
    single_cost_level,
    single_cost_value,
)
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
def parity_values(up, own, a, low, high, mixes, row):
    """Return the values and levels of the states b from low to high of a row: ``parity_single`` of a part of it."""
    # Values and chances in loops of their own: over more arrays at once they are not compiled to vectors.
    mix_a, mix_b = mixes
    cost = mix_a.single
    one_a, zero_a, below_a, above_a = mix_a.accept[1], mix_a.reject[1], mix_a.rises[0], mix_a.rises[1]
    one_b, zero_b, below_b, above_b = mix_b.accept[1], mix_b.reject[1], mix_b.rises[0], mix_b.rises[1]
    value, level_a, level_b = row.value, row.level_a, row.level_b
    for b in range(low, high + 1):
        rejected, accepted = up[a, b], up[a + 1, b]
        level_a[b] = single_cost_level(rejected, accepted, below_a, above_a)
        here = single_cost_value(rejected, accepted, one_a, zero_a, cost)
        rejected, accepted = own[a, b], own[a, b + 1]
        level_b[b] = single_cost_level(rejected, accepted, below_b, above_b)
        value[b] = here + single_cost_value(rejected, accepted, one_b, zero_b, cost)


@compile_kernel(nogil=True, error_model="numpy")
def parity_chances(up, own, a, low, high, mixes, row):
    """Return the chances of the same states from their levels."""
    # With C+ after an acceptance and C- after a rejection, C = P(accepted) * C+ + P(rejected) * C-. At level 0 no one
    # is accepted, at level 1 who is recommended, at level 2 everybody; a dead state is as good as that.
    mix_a, mix_b = mixes
    one_a, zero_a, one_b, zero_b = mix_a.accept[1], mix_a.reject[1], mix_b.accept[1], mix_b.reject[1]
    all_a, all_b = one_a + zero_a, one_b + zero_b
    chance, level_a, level_b = row.chance, row.level_a, row.level_b
    for b in range(low, high + 1):
        taken = (one_a if level_a[b] > 0 else 0.0) + (zero_a if level_a[b] > 1 else 0.0)
        left = taken * up[a + 1, b] + (all_a - taken) * up[a, b]
        taken = (one_b if level_b[b] > 0 else 0.0) + (zero_b if level_b[b] > 1 else 0.0)
        left += taken * own[a, b + 1] + (all_b - taken) * own[a, b]
        chance[b] = left if left > SMALLEST_CHANCE else 0.0


@compile_kernel(nogil=True, error_model="numpy")
def guarded_several(planes, a, low, high, labels, mixes, row):
    """Return the same with labels, or with several costs."""
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
    one = mixes[0].single >= 0
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
            if one:
                parity_values(up, own, a, low, high, mixes, row)
                parity_chances(up_chance, own_chance, a, low, high, mixes, row)
            else:
                guarded_several(planes, a, low, high, everybody, mixes, row)
            finish_row(planes, past, a, (low, high, columns), price, row, (out.cells_a, out.cells_b, cell))
            cell += columns
        start = end


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
