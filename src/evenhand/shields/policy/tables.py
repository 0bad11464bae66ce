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


def row_start(t: int, labelled: bool) -> int:
    """Count the rows of thresholds before time t."""
    return comb(t + 3, 4) if labelled else comb(t + 2, 3)


def state_start(t: int, labelled: bool) -> int:
    """Count the states before time t."""
    return comb(t + 4, 5) if labelled else comb(t + 3, 4)


def threshold_row(t: Any, labelled: Any, n: Any, k: Any, m: Any) -> Any:
    """Compute the row of thresholds of a group with n seen and k accepted, and m of the other group seen, at time t.

    Integers give an integer, and arrays an array.
    """
    # There is a row for each k <= n and, with labels, for each m <= t - n: the rows of n are preceded by the sum
    # over i < n of (i + 1)(t - i + 1) rows, or of i + 1.
    if labelled:
        return (3 * t + 5 - 2 * n) * n * (n + 1) // 6 + k * (t - n + 1) + m
    return n * (n + 1) // 2 + k


def plane_offset(t: Any, labelled: Any, n_a: Any, n_b: Any) -> Any:
    """Compute the position of the first state (n_a, n_b, ., .) among the states of time t, by (n_a, n_b, a, b).

    Integers give an integer, and arrays an array.
    """
    # Without labels n_b = t - n_a, and a plane has (n_a + 1)(n_b + 1) states. The sum over k < n_a of (k + 1)(t - k +
    # 1) states precede it.
    if not labelled:
        return (t + 2) * n_a * (n_a + 1) // 2 - n_a * (n_a + 1) * (2 * n_a + 1) // 6
    # With labels n_a + n_b <= t: C(t + 4, 4) states in all, of which C(r + 4, 4) + n_a C(r + 3, 3) have n_a or more,
    # with r = t - n_a; then the planes of this n_a with a smaller n_b.
    remaining = t - n_a
    all_states = (t + 4) * (t + 3) * (t + 2) * (t + 1) // 24
    later_states = (remaining + 4) * (remaining + 3) * (remaining + 2) * (remaining + 1) // 24
    more = n_a * ((remaining + 3) * (remaining + 2) * (remaining + 1) // 6)
    return all_states - later_states - more + (n_a + 1) * n_b * (n_b + 1) // 2


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
        # The group of the individual comes first. The level is the number of thresholds that the other group's count b
        # has passed.
        if group:
            n_a, a, n_b, b = n_b, b, n_a, a
        before = (t + 3) * (t + 2) * (t + 1) * t // 24 if self.labelled else t * (t + 1) * (t + 2) // 6
        row: int = before + threshold_row(t, self.labelled, n_a, a, n_b)
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

    def levels(self, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
        second = group == 1
        n_own, own = np.where(second, sizes[1], sizes[0]), np.where(second, accepted[1], accepted[0])
        n_other, other = np.where(second, sizes[0], sizes[1]), np.where(second, accepted[0], accepted[1])
        row = row_start(t, self.labelled) + threshold_row(t, self.labelled, n_own, own, n_other)
        rows_a, rows_b = (positions.reshape(-1, 2 * self.costs) for positions in self.positions)
        thresholds = np.where(second[:, None], rows_b[row], rows_a[row])
        return np.asarray((other[:, None] >= thresholds).sum(axis=1) - self.costs)


def bits_for(costs: int) -> int:
    """Return the number of bits per level: 2, 4 or 8, so that no level straddles two bytes."""
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
        state: int = self._state(t, *counters)
        bits = self._bits
        per_byte = 8 // bits
        return ((self._views[group][state // per_byte] >> (state % per_byte * bits)) & ((1 << bits) - 1)) - self.costs

    def levels(self, t: int, sizes: Integers, accepted: Integers, group: Integers) -> Integers:
        state, bits = self._state(t, sizes[0], accepted[0], sizes[1], accepted[1]), self._bits
        per_byte = 8 // bits
        cells = np.where(group == 1, self.cells[1][state // per_byte], self.cells[0][state // per_byte])
        levels: Integers = (cells.astype(np.int64) >> (state % per_byte * bits)) & ((1 << bits) - 1)
        return levels - self.costs

    def _state(self, t: int, n_a: Any, a: Any, n_b: Any, b: Any) -> Any:
        """Return the position of a state among all states; integers or arrays."""
        return state_start(t, self.labelled) + plane_offset(t, self.labelled, n_a, n_b) + a * (n_b + 1) + b


def apply_levels(level: Integers, recommendation: Integers, cost: Floats, costs: tuple[float, ...]) -> Integers:
    """Return the decisions of levels, shape (runs,): `apply_level` for arrays."""
    # The outermost level overrides at any cost, even beyond the expected costs.
    limits = np.array([-np.inf, *costs[:-1], np.inf])
    against = np.where(recommendation == 1, level < 0, level > 0) & (cost <= limits[np.abs(level)])
    return np.asarray(recommendation ^ against)
