"""Tables of actions: thresholds, or a few bits per state.

For fixed numbers of seen individuals the level on group a rises with b, and the level on group b with a: the value of a
state is submodular in (a, b), as the fair ends are a sublattice and every step keeps it so (Topkis). So it is enough to
store where it rises, two numbers per row with one cost. Soft terminals may break this; then every state has its bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray


def row_start(t: int, labelled: bool) -> int:
    """Rows of thresholds before time t."""
    return comb(t + 3, 4) if labelled else comb(t + 2, 3)


def state_start(t: int, labelled: bool) -> int:
    """States before time t."""
    return comb(t + 4, 5) if labelled else comb(t + 3, 4)


def slab(t: int, n: int) -> int:
    """States (n_a, a, n_b or b) with n_a + n_b <= t, a <= n_a that come before those with n_a = n."""
    return (t + 2) * n * (n + 1) // 2 - n * (n + 1) * (2 * n + 1) // 6


@dataclass(frozen=True)
class Thresholds:
    """Where the level rises along the accepted of the other group.

    Attributes:
        horizon: decisions.
        labelled: whether only individuals with label 1 are counted.
        costs: how many there are; 2 costs positions per row.
        positions: two arrays (rows * 2 costs,) uint8 or uint16: the first count of the other group's accepted at which
            the level is at least -costs + 1, ..., costs. Rows of group a: by time, n_a, a (and n_b if labelled).
    """

    horizon: int
    labelled: bool
    costs: int
    positions: tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]
    form = "thresholds"

    @property
    def parts(self) -> tuple[bytes, ...]:
        return tuple(positions.tobytes() for positions in self.positions)

    @property
    def bytes(self) -> int:
        return sum(positions.nbytes for positions in self.positions)

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        # A memory view gives Python integers at once; a NumPy array takes far longer for one.
        return self.positions[0].data, self.positions[1].data

    def level(self, t: int, n_a: int, a: int, n_b: int, b: int, group: int) -> int:
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
    """Bits that hold a level: 2, 4 or 8, so that none straddles two bytes."""
    return 2 if costs == 1 else 4 if costs <= 7 else 8


@dataclass(frozen=True)
class Packed:
    """The level of every state, in 2 bits per group with one cost.

    Attributes:
        horizon, labelled, costs: as for `Thresholds`.
        cells: two arrays of bytes, levels plus ``costs`` of the states by time, n_a, (n_b,) a, b, lowest bits first.
    """

    horizon: int
    labelled: bool
    costs: int
    cells: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    form = "packed"

    @property
    def parts(self) -> tuple[bytes, ...]:
        return tuple(cells.tobytes() for cells in self.cells)

    @property
    def bytes(self) -> int:
        return sum(cells.nbytes for cells in self.cells)

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        return self.cells[0].data, self.cells[1].data

    @cached_property
    def _bits(self) -> int:
        return bits_for(self.costs)

    def level(self, t: int, n_a: int, a: int, n_b: int, b: int, group: int) -> int:
        state = state_index(t, n_a, a, n_b, b, self.labelled)
        bits = self._bits
        per_byte = 8 // bits
        return ((self._views[group][state // per_byte] >> (state % per_byte * bits)) & ((1 << bits) - 1)) - self.costs


def state_index(t: int, n_a: int, a: int, n_b: int, b: int, labelled: bool) -> int:
    """Position of a state among all states."""
    if not labelled:
        return state_start(t, False) + slab(t, n_a) + a * (t - n_a + 1) + b
    return state_start(t, True) + plane_start(t, n_a) + (n_a + 1) * n_b * (n_b + 1) // 2 + a * (n_b + 1) + b


def plane_start(t: int, n: int) -> int:
    """States (n_a, n_b, a, b) with n_a + n_b <= t that come before those with n_a = n."""
    # All of them, C(t + 4, 4), less those with n_a >= n: n more accepted counts each, or as many as without the n.
    rest = t - n
    return comb(t + 4, 4) - comb(rest + 4, 4) - n * comb(rest + 3, 3)
