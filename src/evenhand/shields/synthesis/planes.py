"""Synthesis for demographic parity and disparate impact, plane by plane.

A plane holds the values of the states with (n_a, n_b) seen people, by (a, b). With these properties n_a + n_b is the
time, so a plane follows from two others: (n_a + 1, n_b) and (n_a, n_b + 1). Blocks of planes with neighbouring n_a are
swept together over all n_b, from the largest to the smallest, and stay in the processor's cache. For a finished
block, only the planes of its smallest n_a are kept, and only the intervals of their rows from which a fair end is
reachable.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping

import numpy as np

from evenhand.core.typing import Integers
from evenhand.shields.spec.ends import BandEnd, EndValues
from evenhand.shields.synthesis.kernels import Tables
from evenhand.shields.synthesis.layer import StepMix
from evenhand.shields.synthesis.plane_kernels import Plane, add_values, sweep_planes

BLOCK_VALUES = 2**18
"""Approximate number of values in a block."""
MINIMUM_PLANES = 4
"""Minimum number of planes in a block."""


class PlaneBlock:
    """Planes with neighbouring n_a, which are swept together over all n_b.

    Args:
        horizon: Number of decisions.
        first, top: The smallest and largest n_a.
        checks: Values of the states, by time.
    """

    def __init__(self, horizon: int, first: int, top: int, checks: Mapping[int, EndValues]) -> None:
        self._horizon, self._first, self._top, self._checks = horizon, first, top, checks
        self._times = sorted(checks)
        planes, rows = top + 1 - first, top + 1
        # The planes of an n_b are on the side n_b & 1, those of n_b + 1 on the other.
        sizes = np.arange(first, top + 1)
        self._starts = np.concatenate([[0], np.cumsum((sizes + 1) * (horizon - sizes + 1))])
        self._values = np.empty((2, int(self._starts[-1])))
        self._low = np.zeros((2, planes, rows), dtype=np.int64)
        self._high = np.full((2, planes, rows), -1)

    def sweep(self, n_b: int, above: Plane, mixes: tuple[StepMix, StepMix], tables: Tables) -> bool:
        """Compute the planes of ``n_b``, and return whether thresholds store their levels exactly.

        Args:
            n_b: The planes of n_b + 1 were computed before, if there are any.
            above: Plane (top + 1, n_b), if there is one.
            mixes: Steps of both groups.
            tables: Tables to fill.
        """
        newest = min(self._top, self._horizon - n_b)
        if newest + n_b == self._horizon:
            plane, rows = self._plane(newest, n_b), newest + 1
            plane.values[: rows * (n_b + 1)] = 0.0
            plane.low[:rows], plane.high[:rows] = 0, n_b
            if self._horizon in self._checks:
                add_values(plane, self._checks[self._horizon].values(newest, n_b))
            newest -= 1
        block = self._values, self._starts, self._low, self._high
        while newest >= self._first:
            oldest, bands, positions = self._next_checks(newest, n_b)
            sizes = (newest, oldest)
            if not sweep_planes(block, above, n_b & 1, self._first, n_b, sizes, bands, positions, *mixes, tables):
                return False
            end = self._checks.get(oldest + n_b)
            if end is not None and not isinstance(end, BandEnd):
                add_values(self._plane(oldest, n_b), end.values(oldest, n_b))
            newest = oldest - 1
        return True

    def smallest(self, n_b: int) -> Plane:
        """Copy the plane of the smallest n_a."""
        plane, rows = self._plane(self._first, n_b), self._first + 1
        low, high = plane.low[:rows].copy(), plane.high[:rows].copy()
        return Plane(plane.values[: int(np.maximum(high - low + 1, 0).sum())].copy(), low, high)

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self._values.nbytes + self._low.nbytes + self._high.nbytes

    def _plane(self, n_a: int, n_b: int) -> Plane:
        side, i = n_b & 1, n_a - self._first
        values = self._values[side, self._starts[i] : self._starts[i + 1]]
        return Plane(values, self._low[side, i], self._high[side, i])

    def _next_checks(self, newest: int, n_b: int) -> tuple[int, Integers, Integers]:
        """Return the planes up to the next end that is not a band or differs, and the bands of their checks.

        Returns:
            The last n_a; first and last allowed b, (2, checks, rows); for each plane the position of its check or -1.
        """
        sizes: list[int] = []
        common, oldest = None, self._first
        for time in self._times[bisect(self._times, self._first + n_b - 1) : bisect(self._times, newest + n_b)][::-1]:
            n_a, end = time - n_b, self._checks[time]
            if not isinstance(end, BandEnd):
                oldest = n_a
                break
            if common not in (None, end):
                oldest = n_a + 1
                break
            common = end
            sizes.append(n_a)
        positions = np.full(len(self._low[0]), -1)
        bands = np.zeros((2, len(sizes), newest + 1), dtype=np.int64)
        if common is not None:
            checked = np.array(sizes)
            positions[checked - self._first] = np.arange(len(sizes))
            bands[0], bands[1] = common.band(checked[:, None], np.arange(newest + 1), n_b)
        return oldest, bands, positions


def _smallest_size(horizon: int, top: int) -> int:
    """Return the smallest n_a of the block that ends with ``top``."""
    size = 0
    for first in range(top, -1, -1):
        size += (first + 1) * (horizon - first + 1)
        if size > BLOCK_VALUES:
            return max(0, min(first + 1, top - MINIMUM_PLANES + 1))
    return 0


def solve_planes(
    horizon: int,
    checks: Mapping[int, EndValues],
    mixes: tuple[StepMix, StepMix],
    tables: Tables,
    progress: Callable[[int, int], None],
) -> tuple[float, int] | None:
    """Fill the tables of a shield.

    Args:
        horizon: Number of decisions.
        checks: Values of the states, by time.
        mixes: Steps of both groups.
        tables: Tables to fill.
        progress: Callback that receives the number of finished n_a and their total.

    Returns:
        Minimum expected cost from the start and peak memory of the values, or None if thresholds do not store the
        levels exactly.
    """
    nothing = Plane(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    kept: list[Plane] = []
    peak, top = 0, horizon
    while top >= 0:
        first = _smallest_size(horizon, top)
        block = PlaneBlock(horizon, first, top, checks)
        new: list[Plane] = []
        for n_b in range(horizon - first, -1, -1):
            # Planes of the last block are released as they are replaced.
            above = kept.pop() if n_b < len(kept) else nothing
            if not block.sweep(n_b, above, mixes, tables):
                return None
            if first or not n_b:
                new.append(block.smallest(n_b))
        kept = new[::-1]
        peak = max(peak, block.nbytes + sum(array.nbytes for plane in kept for array in plane))
        del block  # before the next one is allocated
        top = first - 1
        progress(horizon - top, horizon + 1)
    return float(kept[0].values[0]) if len(kept[0].values) else np.inf, peak
