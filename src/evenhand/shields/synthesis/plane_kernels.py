"""Compiled sweeps over planes of values, see `planes`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers
from evenhand.shields.synthesis.kernels import empty_row, single_cost_value, store_levels, sweep_row_levels

STRIDE = 8
"""Number of states that are computed together."""
SPARE = STRIDE + 2
"""Number of infinite values after each row, so that whole strides can be computed and cleared."""
EMPTY = 2**30
"""First b of an empty row."""


class PlaneBlock(NamedTuple):
    """Planes with neighbouring n_a, and above them the plane that they follow from.

    Attributes:
        values: Values by plane, a and b. They are infinite outside of an interval of each row.
        starts: Positions of the planes.
        widths: Lengths of the rows of the planes.
        low, high: First and last b of the intervals, (planes, rows). An empty row begins at `EMPTY` and ends at -1.
    """

    values: Floats
    starts: Integers
    widths: Integers
    low: Integers
    high: Integers


class PlaneStrip(NamedTuple):
    """Planes with one n_a and neighbouring n_b, without the infinite values outside of their intervals.

    Attributes:
        values: Values by n_b, descending, and a.
        low, high: First and last b of the intervals, (planes, rows).
    """

    values: Floats
    low: Integers
    high: Integers


class PlaneChecks(NamedTuple):
    """Checks of the planes of a strip of a block.

    Attributes:
        bands: First and last allowed b by a, (2, checks, rows).
        prices: Values of other checks, one plane after the other.
        band, price: Position of the band and of the first price of each plane, or -1, (n_b, planes).
    """

    bands: Integers
    prices: Floats
    band: Integers
    price: Integers


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def gain_at(values, rejected, accepted, offset):
    """Compute the gain of an acceptance in a state: NaN if the state is dead."""
    return values[np.uint64(rejected + offset)] - values[np.uint64(accepted + offset)]


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def find_rise(values, rejected, accepted, step, start, stop, limit, guess):
    """Find the first state of a line whose gain exceeds a limit, from ``start`` to ``stop``, or ``stop``.

    The values of state i after either decision are at ``rejected + i * step`` and ``accepted + i * step``. The search
    begins at ``guess``.
    """
    # The gain never falls along the live states, see `thresholds_along_row`. Dead states compare as false. Mostly, all
    # live states of a line have one level.
    if start < stop and gain_at(values, rejected, accepted, start * step) > limit:
        return start
    if start < stop and gain_at(values, rejected, accepted, (stop - 1) * step) <= limit:
        return stop
    position = min(max(guess, start), stop)
    rise = stop
    for i in range(min(position, stop - 1), start - 1, -1):
        gain = gain_at(values, rejected, accepted, i * step)
        if gain <= limit:
            break
        if gain > limit:
            rise = i
    while rise == stop and position + 1 < stop:
        position += 1
        if gain_at(values, rejected, accepted, position * step) > limit:
            rise = position
    return rise


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def find_thresholds(block, i, n_a, n_b, rises_a, rises_b, tables):
    """Store the thresholds of the plane (n_a, n_b), the i-th of its block, before it is overwritten."""
    values, starts, widths, low, high = block
    t = n_a + n_b
    rows_before = t * (t + 1) * (t + 2) // 6
    rows_a, rows_b = rows_before + n_a * (n_a + 1) // 2, rows_before + n_b * (n_b + 1) // 2
    own, up, width, width_up = starts[i], starts[i + 1], widths[i], widths[i + 1]
    # The thresholds of (n_a, n_b + 1) are near those of group a, and those of (n_a + 1, n_b) near those of group b.
    rows_after = (t + 1) * (t + 2) * (t + 3) // 6
    near_a, near_b = rows_after + n_a * (n_a + 1) // 2, rows_after + n_b * (n_b + 1) // 2
    known = rows_after < len(tables.rows_a)
    for a in range(n_a + 1):
        start = min(low[i + 1, a], low[i + 1, a + 1])
        stop = max(start, max(high[i + 1, a], high[i + 1, a + 1]) + 1)
        row = up + a * width_up
        for j in range(len(rises_a)):
            guess = np.int64(tables.rows_a[near_a + a, j]) if known else 0
            rise = find_rise(values, row, row + width_up, 1, start, stop, rises_a[j], guess)
            tables.rows_a[rows_a + a, j] = rise if rise < stop else n_b + 1
    # The live states of a column are among the rows from start to stop, because low and high never fall.
    start = stop = 0
    for b in range(n_b + 1):
        while start <= n_a and high[i, start] < b:
            start += 1
        while stop <= n_a and (low[i, stop] <= b + 1 or high[i, stop] < 0):
            stop += 1
        for j in range(len(rises_b)):
            guess = np.int64(tables.rows_b[near_b + b, j]) if known else 0
            rise = find_rise(values, own + b, own + b + 1, width, start, max(start, stop), rises_b[j], guess)
            tables.rows_b[rows_b + b, j] = rise if rise < stop else n_a + 1


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def copy_values(source, start, target, position, size):
    """Copy values. Unlike slices, positions need no reference counts."""
    for k in range(np.uint64(size)):
        target[np.uint64(position) + k] = source[np.uint64(start) + k]


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def sweep_row(values, row, rejected, accepted, size, steps, new):
    """Compute values from position ``row`` on with one cost, in place, from those at ``rejected`` and ``accepted``.

    ``steps`` are (accept, reject) of each group and the cost.
    """
    # The compiler makes vector code only of loops whose positions cannot be negative and whose results are elsewhere.
    one_a, zero_a, one_b, zero_b, cost = steps
    for k in range(np.uint64(size)):
        i = np.uint64(row) + k
        minus, plus = values[np.uint64(rejected) + k], values[np.uint64(accepted) + k]
        value_a = single_cost_value(minus, plus, one_a, zero_a, cost)
        new[k] = value_a + single_cost_value(values[i], values[i + np.uint64(1)], one_b, zero_b, cost)
    copy_values(new, 0, values, row, size)


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def shrink_interval(low, high, i, a):
    """Set the interval of a row to the states after which both groups have a live state."""
    least = max(0, low[i, a] - 1, min(low[i + 1, a], low[i + 1, a + 1]))
    most = min(high[i, a], max(high[i + 1, a], high[i + 1, a + 1]))
    low[i, a], high[i, a] = (least, most) if least <= most else (EMPTY, -1)


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def sweep_plane(block, i, n_a, n_b, mix_a, mix_b, new):
    """Compute the plane (n_a, n_b), the i-th of its block, from (n_a + 1, n_b) and, in its place, (n_a, n_b + 1).

    ``new`` is a row of values.
    """
    # V(n_a, n_b, a, b) = P(g = a) * step(V(n_a + 1, n_b, a or a + 1, b)) + P(g = b) * step(V(n_a, n_b + 1, a, b or b +
    # 1)), where the probabilities of the groups are in the mixes.
    values, starts, widths, low, high = block
    steps = mix_a.accept[1], mix_a.reject[1], mix_b.accept[1], mix_b.reject[1], mix_a.single
    width, width_up = widths[i], widths[i + 1]
    for a in range(n_a + 1):
        start = max(0, low[i, a] - 1)
        # Vector code handles the remainder of a loop one state at a time.
        size = (high[i, a] + 1 - start + STRIDE - 1) & -STRIDE
        row = starts[i + 1] + a * width_up + start
        sweep_row(values, starts[i] + a * width + start, row, row + width_up, size, steps, new)
        shrink_interval(low, high, i, a)


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def sweep_levels(block, i, n_a, n_b, mixes, tables, work):
    """Compute a plane as `sweep_plane` does, with any number of costs, and store its levels state by state.

    ``work`` are a row of values and rows of levels. Returns whether thresholds store the levels exactly.
    """
    values, starts, widths, low, high = block
    new, row_a, row_b, highest = work
    columns, t = n_b + 1, n_a + n_b
    width, width_up = widths[i], widths[i + 1]
    rows_before = t * (t + 1) * (t + 2) // 6
    rows_a, rows_b = rows_before + n_a * (n_a + 1) // 2, rows_before + n_b * (n_b + 1) // 2
    # States before time t, C(t + 3, 4), and before this n_a within it.
    state = (t + 3) * (t + 2) * (t + 1) * t // 24
    state += (t + 2) * n_a * (n_a + 1) // 2 - n_a * (n_a + 1) * (2 * n_a + 1) // 6
    highest.words[:] = 0
    if len(tables.rows_b):
        tables.rows_b[rows_b : rows_b + columns, :] = n_a + 1
    monotone = True
    for a in range(n_a + 1):
        # States outside of this interval are dead for both groups.
        start = max(0, min(low[i, a] - 1, low[i + 1, a], low[i + 1, a + 1]))
        stop = max(start, max(high[i, a], high[i + 1, a], high[i + 1, a + 1]) + 1)
        row, minus, size = starts[i] + a * width + start, starts[i + 1] + a * width_up + start, stop - start
        here, further = values[row : row + size], values[row + 1 : row + 1 + size]
        rejected, accepted = values[minus : minus + size], values[minus + width_up : minus + width_up + size]
        levels = row_a.level[start:stop], row_b.level[start:stop]
        sweep_row_levels((rejected, accepted, here, further), mixes, new[:size], *levels)
        here[:] = new[:size]
        start, stop = min(start, columns), min(stop, columns)
        place, position = (rows_a + a, rows_b, 1, a), state + a * columns
        monotone &= store_levels(tables, row_a, row_b, highest, start, stop, columns, place, position)
        shrink_interval(low, high, i, a)
    return monotone


@compile_kernel(nogil=True, error_model="numpy")
def sweep_strip(block, above, strip, sizes, checks, mix_a, mix_b, tables, searched):
    """Compute the planes of a block for neighbouring n_b, from the largest to the smallest.

    Args:
        block: The block. It holds the planes of the n_b after these, and receives these.
        above: Planes of the next block with these n_b.
        strip: Output for the planes of the smallest n_a, with enough space.
        sizes: Horizon, smallest and largest n_a, smallest and largest n_b.
        checks: The checks of these planes.
        searched: Whether there is one cost, and thresholds are known to store the levels exactly: they are searched.

    Returns:
        Whether thresholds store the levels exactly, and the number of packed values.
    """
    horizon, first, top, begin, last = sizes
    space = last + 1 + SPARE
    work = np.empty(space), empty_row(space), empty_row(space), empty_row(space)
    read = written = 0
    monotone = True
    for n_b in range(last, begin - 1, -1):
        if top + 1 + n_b <= horizon:
            read = load_plane(block, top + 1 - first, above, n_b - begin, read)
        for n_a in range(min(top, horizon - n_b), first - 1, -1):
            i = n_a - first
            if n_a + n_b < horizon:
                if searched:
                    find_thresholds(block, i, n_a, n_b, mix_a.rises, mix_b.rises, tables)
                    sweep_plane(block, i, n_a, n_b, mix_a, mix_b, work[0])
                else:
                    monotone &= sweep_levels(block, i, n_a, n_b, (mix_a, mix_b), tables, work)
            else:
                clear_plane(block, i, n_a, n_b)
            if checks.band[n_b - begin, i] >= 0:
                forbid_outside(block, i, n_a, checks.bands[:, checks.band[n_b - begin, i]])
            if checks.price[n_b - begin, i] >= 0:
                add_prices(block, i, n_a, n_b, checks.prices[checks.price[n_b - begin, i] :])
        written = pack_plane(block, first, strip, n_b - begin, written)
    return monotone, written


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def load_plane(block, i, strip, line, position):
    """Load a plane into a block, and return the position of the next one in the strip."""
    for a in range(strip.low.shape[1]):
        row = block.starts[i] + a * block.widths[i]
        for b in range(block.low[i, a], block.high[i, a] + 1):
            block.values[row + b] = np.inf
        low, high = strip.low[line, a], strip.high[line, a]
        size = max(0, high + 1 - low)
        copy_values(strip.values, position, block.values, row + low, size)
        position += size
        block.low[i, a], block.high[i, a] = low, high
    return position


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def pack_plane(block, first, strip, line, position):
    """Append the plane of the smallest n_a to a strip, and return the end of its values."""
    for a in range(first + 1):
        low, high = block.low[0, a], block.high[0, a]
        strip.low[line, a], strip.high[line, a] = low, high
        size = max(0, high + 1 - low)
        copy_values(block.values, a * block.widths[0] + low, strip.values, position, size)
        position += size
    return position


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def clear_plane(block, i, n_a, n_b):
    """Set the values of a plane at the horizon to 0."""
    for a in range(n_a + 1):
        start = block.starts[i] + a * block.widths[i]
        block.values[start : start + n_b + 1] = 0.0
        block.low[i, a], block.high[i, a] = 0, n_b


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def forbid_outside(block, i, n_a, band):
    """Forbid the states of a plane whose b is outside [band[0], band[1]]."""
    # Welfare n_g1 / n_g in [l, u] is an interval of accepted counts for each n_g (Static-BW shields, Definition 5).
    for a in range(n_a + 1):
        start, low, high = block.starts[i] + a * block.widths[i], block.low[i, a], block.high[i, a]
        for b in range(low, high + 1):
            if b < band[0, a] or b > band[1, a]:
                block.values[start + b] = np.inf
        low, high = max(low, band[0, a]), min(high, band[1, a])
        block.low[i, a], block.high[i, a] = (low, high) if low <= high else (EMPTY, -1)


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def add_prices(block, i, n_a, n_b, prices):
    """Add the prices of states to a plane."""
    for a in range(n_a + 1):
        start = block.starts[i] + a * block.widths[i]
        for b in range(n_b + 1):
            block.values[start + b] += prices[a * (n_b + 1) + b]
