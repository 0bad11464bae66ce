"""Synthesis for demographic parity and disparate impact, plane by plane.

A plane holds the values of the states with (n_a, n_b) people seen, by (a, b). With these properties n_a + n_b is the
time, so a plane follows from two others: (n_a + 1, n_b) and (n_a, n_b + 1). Blocks of planes with neighbouring n_a are
swept together over all n_b, from the largest to the smallest, and stay in the processor's cache. For a finished
block, only the planes of its smallest n_a are kept, and only the intervals of their rows from which a fair end is
reachable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from evenhand.core.typing import Floats
from evenhand.shields.spec.ends import BandEnd, EndValues
from evenhand.shields.synthesis.kernels import Tables
from evenhand.shields.synthesis.layer import StepMix
from evenhand.shields.synthesis.plane_kernels import EMPTY, SPARE, PlaneBlock, PlaneChecks, PlaneStrip, sweep_strip

BLOCK_VALUES = 2**18
"""Approximate number of values in a block."""
MINIMUM_PLANES = 12
"""Minimum number of planes in a block."""
STRIP = 16
"""Number of n_b that are swept in one call."""


def _new_block(horizon: int, first: int, top: int) -> PlaneBlock:
    """Allocate a block of the planes from ``first`` to ``top`` and the one above them."""
    sizes = np.arange(first, top + 2)
    widths = horizon - sizes + 1 + SPARE
    ends, shape = np.cumsum((sizes + 1) * widths), (len(sizes), top + 2)
    starts = ends - (sizes + 1) * widths
    return PlaneBlock(np.full(ends[-1], np.inf), starts, widths, np.full(shape, EMPTY), np.full(shape, -1))


def _new_strip(planes: int, rows: int, values: Floats) -> PlaneStrip:
    low = np.empty((planes, rows), dtype=np.int64)
    return PlaneStrip(values, low, np.empty_like(low))


def _checks_of_strip(checks: Mapping[int, EndValues], first: int, top: int, begin: int, last: int) -> PlaneChecks:
    """Compute the checks of the planes of a block for n_b from ``begin`` to ``last``."""
    band, price = np.full((2, last - begin + 1, top - first + 1), -1)
    bands, prices = [np.empty((2, 0, top + 1), dtype=np.int64)], [np.empty(0)]
    for end in {id(end): end for end in checks.values()}.values():
        times = [time for time in range(first + begin, top + last + 1) if checks.get(time) is end]
        pairs = [
            (time - n_b, n_b) for time in times for n_b in range(max(begin, time - top), min(last, time - first) + 1)
        ]
        if pairs and isinstance(end, BandEnd):
            n_a, n_b = np.array(pairs).T
            band[n_b - begin, n_a - first] = sum(part.shape[1] for part in bands) + np.arange(len(pairs))
            bands.append(np.stack(end.band(n_a[:, None], np.arange(top + 1), n_b[:, None])))
        elif pairs:
            for n_a, n_b in pairs:
                price[n_b - begin, n_a - first] = sum(map(len, prices))
                prices.append(end.values(n_a, n_b).ravel())
    return PlaneChecks(np.concatenate(bands, axis=1), np.concatenate(prices), band, price)


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
    mixes: tuple[StepMix, ...],
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
    banded = all(isinstance(end, BandEnd) for end in checks.values())
    searched = banded and len(tables.rows_a) > 0 and mixes[0].single >= 0
    if searched:
        # The lower threshold is included, see `single_cost_level`, and the search finds larger gains.
        mixes = tuple(mix._replace(rises=np.nextafter(mix.rises, [-np.inf, mix.rises[1]])) for mix in mixes)
    nothing = _new_strip(0, 0, np.empty(0))
    kept: list[PlaneStrip] = []
    peak, top = 0, horizon
    while top >= 0:
        first = _smallest_size(horizon, top)
        block = _new_block(horizon, first, top)
        buffer = np.empty((first + 1) * STRIP * (horizon - first + 1))
        new: list[PlaneStrip] = []
        last = horizon - first
        while last >= 0:
            number, begin = last // STRIP, last // STRIP * STRIP
            # Planes of the last block are released as they are replaced.
            above = kept.pop() if number < len(kept) else nothing
            strip = _new_strip(last - begin + 1, first + 1, buffer)
            sizes = horizon, first, top, begin, last
            terminal = _checks_of_strip(checks, first, top, begin, last)
            monotone, length = sweep_strip(block, above, strip, sizes, terminal, *mixes, tables, searched)
            if not monotone:
                return None
            new.append(strip._replace(values=buffer[:length].copy()))
            last = begin - 1
        kept = new[::-1]
        peak = max(peak, sum(array.nbytes for planes in (block, *kept) for array in planes) + buffer.nbytes)
        top = first - 1
        progress(horizon - top, horizon + 1)
    return float(kept[0].values[-1]) if kept[0].high[0, 0] == 0 else np.inf, peak
