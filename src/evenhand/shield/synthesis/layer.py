"""The layout of one layer of values, and its checks."""

from __future__ import annotations

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
        for n_a in range(t + 1):
            a = np.arange(n_a + 1)
            if isinstance(terminal, Band):
                start, n_b = self._rows(t, n_a)
                low, high = terminal.band(n_a, np.tile(a, len(n_b)), np.repeat(n_b, n_a + 1))
                forbid(values, start, np.repeat(n_b + 1, n_a + 1), low, high)
            else:
                for other in range(t - n_a + 1) if self.labelled else (t - n_a,):
                    plane = self.plane(values, n_a, other)
                    plane += terminal.values(n_a, other)

    def _rows(self, t: int, n_a: int) -> tuple[Ints, Ints]:
        a = np.arange(n_a + 1)
        if not self.labelled:
            return self.slabs[n_a] + a * (self.horizon - n_a + 1), np.array([t - n_a])
        n_b = np.arange(t - n_a + 1)
        return (self.planes[n_a, : t - n_a + 1, None] + a * (n_b[:, None] + 1)).ravel(), n_b

    def plane(self, values: Floats, n_a: int, n_b: int) -> NDArray[Any]:
        """The values of (n_a, n_b) by accepted of each, a view of shape (n_a + 1, n_b + 1)."""
        if self.labelled:
            start, stride = int(self.planes[n_a, n_b]), n_b + 1
        else:
            start, stride = int(self.slabs[n_a]), self.horizon - n_a + 1
        return values[start : start + (n_a + 1) * stride].reshape(n_a + 1, stride)[:, : n_b + 1]
