"""The layout of one layer of values, and its checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.synthesis.kernels import forbid
from evenhand.shield.terminal import Band, Terminal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 8192
"""Rows that are checked at once, about: much less than a layer in memory, much more than a call of NumPy costs."""


@dataclass(frozen=True)
class Layer:
    """Where the states of a layer lie, over two groups.

    Attributes:
        horizon: the last time.
        labelled: whether only individuals with label 1 are counted, so that n_a + n_b may be anything up to the time.
    """

    horizon: int
    labelled: bool

    @property
    def size(self) -> int:
        """Values in the layer at the horizon."""
        return comb(self.horizon + 4, 4) if self.labelled else comb(self.horizon + 3, 3)

    @cached_property
    def planes(self) -> Ints:
        """Labelled: where the values of (n_a, n_b) begin, shape (horizon + 1, horizon + 1)."""
        n = np.arange(self.horizon + 1)
        sizes = np.where(n[:, None] + n <= self.horizon, (n[:, None] + 1) * (n + 1), 0)
        ends = np.cumsum(sizes).reshape(sizes.shape)
        return np.asarray(ends - sizes, dtype=np.int64)

    @cached_property
    def slabs(self) -> Ints:
        """Not labelled: where the values of n_a begin, shape (horizon + 1,)."""
        n = np.arange(self.horizon + 1)
        sizes = (n + 1) * (self.horizon - n + 1)
        return np.asarray(np.cumsum(sizes) - sizes, dtype=np.int64)

    def check(self, values: Floats, t: int, terminal: Terminal) -> None:
        """Add what the states at time t are worth by themselves."""
        if isinstance(terminal, Band):
            for n_a, a, n_b in self._rows(t):
                if self.labelled:
                    start = self.planes[n_a, n_b] + a * (n_b + 1)
                else:
                    start = self.slabs[n_a] + a * (self.horizon - n_a + 1)
                low, high = terminal.band(n_a, a, n_b)
                forbid(values, start, n_b + 1, low, high)
            return
        for n in range(t + 1):
            for m in range(t - n + 1) if self.labelled else (t - n,):
                plane = self.plane(values, n, m)
                plane += terminal.values(n, m)

    def _rows(self, t: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        """All (n_a, a, n_b) at time t, some thousands at a time."""
        n = np.arange(t + 1)
        others = t - n + 1 if self.labelled else np.ones_like(n)
        block = np.cumsum((n + 1) * others) // BLOCK
        for part in np.split(n, np.flatnonzero(np.diff(block)) + 1):
            # First the pairs (n_a, n_b), then each with all its a.
            n_a = np.repeat(part, others[part])
            n_b = _counted(others[part]) if self.labelled else t - n_a
            yield np.repeat(n_a, n_a + 1), _counted(n_a + 1), np.repeat(n_b, n_a + 1)

    def plane(self, values: Floats, n_a: int, n_b: int) -> NDArray[Any]:
        """The values of (n_a, n_b) by accepted of each, a view of shape (n_a + 1, n_b + 1)."""
        if self.labelled:
            start, stride = int(self.planes[n_a, n_b]), n_b + 1
        else:
            start, stride = int(self.slabs[n_a]), self.horizon - n_a + 1
        return values[start : start + (n_a + 1) * stride].reshape(n_a + 1, stride)[:, : n_b + 1]


def _counted(sizes: Ints) -> Ints:
    """0, 1, ... up to each size, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
