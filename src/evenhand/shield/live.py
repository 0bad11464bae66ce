"""From which counters a fair end can be reached whoever comes, for properties whose labels come after the decision."""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.live_kernel import sweep
from evenhand.shield.terminal import Terminal

Integers = NDArray[np.int64]


class Live:
    """The live states at every time, one bit each.

    A state is live if some decision on every possible individual leads to live states, whatever the label turns out to
    be: those with finite value, as hard fairness does not depend on how likely anything is.

    Args:
        terminal: what is allowed at the checks.
        horizon: decisions.
        times: of the checks, the horizon among them.
    """

    def __init__(self, terminal: Terminal, horizon: int, times: tuple[int, ...]) -> None:
        self._start = np.zeros((horizon + 1, horizon + 1), dtype=np.int64)
        allowed = np.zeros(comb(horizon + 4, 4), dtype=np.uint8)
        position = 0
        for seen in range(horizon + 1):
            for n_a in range(seen + 1):
                n_b = seen - n_a
                values = np.isfinite(terminal.values(n_a, n_b))
                self._start[n_a, n_b] = position
                allowed[position : position + values.size] = values.reshape(-1)
                position += values.size
        layer = allowed.copy()
        self._bits = [np.packbits(layer)]
        for t in range(horizon - 1, -1, -1):
            sweep(layer, self._start, t)
            size = comb(t + 4, 4)
            if t in times:
                layer[:size] &= allowed[:size]
            self._bits.append(np.packbits(layer[:size]))
        self._bits.reverse()

    def of(self, t: int, counters: Integers) -> NDArray[np.bool_]:
        """Which of these are live after t decisions; counters (n, 4) as (n_a, a, n_b, b), possible ones."""
        n_a, a, n_b, b = counters.T
        position = self._start[n_a, n_b] + a * (n_b + 1) + b
        return np.asarray(self._bits[t][position >> 3] >> (7 - (position & 7)) & 1, dtype=bool)


@lru_cache(maxsize=4)
def live(terminal: Any, horizon: int, times: tuple[int, ...]) -> Live:
    """The live states, kept for the next shield of the same problem."""
    return Live(terminal, horizon, times)
