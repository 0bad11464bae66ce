"""Tables of actions, as thresholds or a few bits per state.

For fixed numbers of seen individuals the level on group a rises with b, and the level on group b with a: the value of a
state is submodular in (a, b), because the fair ends are a sublattice and every step preserves submodularity (Topkis).
It therefore suffices to store the counts at which the level rises, two numbers per row with one cost. Soft terminals
may violate this. Then the level of every state is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.shields.policy.policy import ActionTable
from evenhand.shields.synthesis.separable import SeparableTable


def row_start(t: int, labelled: bool) -> int:
    """Count the rows of thresholds before time t."""
    return comb(t + 3, 4) if labelled else comb(t + 2, 3)


def state_start(t: int, labelled: bool) -> int:
    """Count the states before time t."""
    return comb(t + 4, 5) if labelled else comb(t + 3, 4)


def slab_start(t: int, n: int) -> int:
    """Count the states (n_a, a, n_b or b) with n_a + n_b <= t and a <= n_a before the first one with n_a = n."""
    return (t + 2) * n * (n + 1) // 2 - n * (n + 1) * (2 * n + 1) // 6


@dataclass(frozen=True)
class ThresholdTable:
    """Counts of the other group at which the level rises.

    Attributes:
        horizon: Number of decisions.
        labelled: Whether only people with label 1 are counted.
        costs: Number of costs. A row has 2 costs positions.
        positions: Two arrays (rows * 2 costs,) of uint8 or uint16: the first accepted count of the other group at which
            the level is at least -costs + 1, ..., costs. Rows of group a: by time, n_a, a (and n_b if labelled).
    """

    horizon: int
    labelled: bool
    costs: int
    positions: tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]
    form = "thresholds"

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.positions

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        # A memory view returns Python integers quickly; indexing a NumPy array takes far longer.
        return self.positions[0].data, self.positions[1].data

    def level(self, t: int, counters: Sequence[int], group: int) -> int:
        n_a, a, n_b, b = counters
        # The group of the individual comes first. C(t + 2, 3) rows, with labels C(t + 3, 4), precede the rows of time
        # t; ``threshold_row`` gives the order within a time. The level is the number of thresholds that the other
        # group's count b has passed.
        if group:
            n_a, a, n_b, b = n_b, b, n_a, a
        if self.labelled:
            row = (
                (t + 3) * (t + 2) * (t + 1) * t // 24
                + (3 * t + 5 - 2 * n_a) * n_a * (n_a + 1) // 6
                + a * (t - n_a + 1)
                + n_b
            )
        else:
            row = t * (t + 1) * (t + 2) // 6 + n_a * (n_a + 1) // 2 + a
        view = self._views[group]
        if self.costs == 1:
            return (b >= view[2 * row]) + (b >= view[2 * row + 1]) - 1
        width = 2 * self.costs
        risen = 0
        for position in view[width * row : width * row + width]:
            if b < position:
                break
            risen += 1
        return risen - self.costs


def bits_for(costs: int) -> int:
    """Return the number of bits of a level: 2, 4 or 8, so that none straddles two bytes."""
    return 2 if costs == 1 else 4 if costs <= 7 else 8


@dataclass(frozen=True)
class PackedTable:
    """Level of every state, in 2 bits per group with one cost.

    Attributes:
        horizon, labelled, costs: As for `ThresholdTable`.
        cells: Two arrays of bytes: levels plus ``costs`` of the states by time, n_a, (n_b,) a, b, lowest bits first.
    """

    horizon: int
    labelled: bool
    costs: int
    cells: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    form = "packed"

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.cells

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        return self.cells[0].data, self.cells[1].data

    @cached_property
    def _bits(self) -> int:
        return bits_for(self.costs)

    def level(self, t: int, counters: Sequence[int], group: int) -> int:
        n_a, a, n_b, b = counters
        state = state_index(t, n_a, a, n_b, b, self.labelled)
        bits = self._bits
        per_byte = 8 // bits
        return ((self._views[group][state // per_byte] >> (state % per_byte * bits)) & ((1 << bits) - 1)) - self.costs


def state_index(t: int, n_a: int, a: int, n_b: int, b: int, labelled: bool) -> int:
    """Return the position of a state among all states."""
    if not labelled:
        return state_start(t, False) + slab_start(t, n_a) + a * (t - n_a + 1) + b
    return state_start(t, True) + plane_start(t, n_a) + (n_a + 1) * n_b * (n_b + 1) // 2 + a * (n_b + 1) + b


def plane_start(t: int, n: int) -> int:
    """Count the states (n_a, n_b, a, b) with n_a + n_b <= t before the first one with n_a = n."""
    # All of them, C(t + 4, 4), less those with n_a >= n: n more accepted counts each, or as many as without the n.
    remaining = t - n
    return comb(t + 4, 4) - comb(remaining + 4, 4) - n * comb(remaining + 3, 3)


# Levels of many states at once.


def look_up_levels(actions: ActionTable, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
    """Return the levels of a table of actions after t decisions, shape (runs,).

    Args:
        sizes, accepted: Counters of the groups since the start of the plan, shape (groups, runs).
        group: Position of the group, shape (runs,).
    """
    if isinstance(actions, ThresholdTable):
        return _threshold_levels(actions, t, sizes, accepted, group)
    if isinstance(actions, PackedTable):
        return _packed_levels(actions, t, sizes, accepted, group)
    if isinstance(actions, SeparableTable):
        return actions.levels(t, sizes, accepted, group)
    counters = np.stack([sizes, accepted], axis=1).reshape(-1, len(group))
    states = np.concatenate([counters, group[None]]).T
    different, inverse = np.unique(states, axis=0, return_inverse=True)
    levels = [actions.level(t, [int(count) for count in state[:-1]], int(state[-1])) for state in different]
    return np.array(levels, dtype=np.int64)[inverse.reshape(-1)]


def apply_levels(level: Integers, recommendation: Integers, cost: Floats, costs: tuple[float, ...]) -> Integers:
    """Return the decisions of levels, shape (runs,): `apply_level` for arrays."""
    # The outermost level overrides at any cost, also beyond the expected ones.
    limits = np.array([-np.inf, *costs[:-1], np.inf])
    against = np.where(recommendation == 1, level < 0, level > 0) & (cost <= limits[np.abs(level)])
    return np.asarray(recommendation ^ against)


def _threshold_levels(
    actions: ThresholdTable, t: int, sizes: Integers, accepted: Integers, group: Integers
) -> Integers:
    second = group == 1
    n_own, own = np.where(second, sizes[1], sizes[0]), np.where(second, accepted[1], accepted[0])
    n_other, other = np.where(second, sizes[0], sizes[1]), np.where(second, accepted[0], accepted[1])
    if actions.labelled:
        # Rows of one time run through n_own, own and n_other.
        row = (3 * t + 5 - 2 * n_own) * n_own * (n_own + 1) // 6 + own * (t - n_own + 1) + n_other
    else:
        row = n_own * (n_own + 1) // 2 + own
    row += row_start(t, actions.labelled)
    width = 2 * actions.costs
    rows_a, rows_b = (positions.reshape(-1, width) for positions in actions.positions)
    thresholds = np.where(second[:, None], rows_b[row], rows_a[row])
    return np.asarray((other[:, None] >= thresholds).sum(axis=1) - actions.costs)


def _packed_levels(actions: PackedTable, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
    n_a, n_b = sizes
    a, b = accepted
    if actions.labelled:
        state = _plane_starts(t, n_a) + (n_a + 1) * n_b * (n_b + 1) // 2 + a * (n_b + 1) + b
    else:
        state = slab_start(t, n_a) + a * (t - n_a + 1) + b
    state = state + state_start(t, actions.labelled)
    bits = bits_for(actions.costs)
    per_byte = 8 // bits
    cells = np.where(group == 1, actions.cells[1][state // per_byte], actions.cells[0][state // per_byte])
    levels: Integers = (cells.astype(np.int64) >> (state % per_byte * bits)) & ((1 << bits) - 1)
    return levels - actions.costs


def _plane_starts(t: int, n: Integers) -> Integers:
    """``tables.plane_start`` for arrays."""

    def four(k: Integers | int) -> Integers | int:
        return k * (k - 1) * (k - 2) * (k - 3) // 24

    def three(k: Integers) -> Integers:
        return k * (k - 1) * (k - 2) // 6

    # C(rest + 4, 4) + n C(rest + 3, 3) of the C(t + 4, 4) states of a layer have n or more seen of the first group.
    remaining = t - n
    return np.asarray(four(t + 4) - four(remaining + 4) - n * three(remaining + 3))
