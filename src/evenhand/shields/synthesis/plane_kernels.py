"""Compiled sweeps over planes of values, see `planes`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers
from evenhand.shields.synthesis.kernels import empty_row, store_levels, sweep_row_levels, sweep_row_single

STRIDE = 16
"""Number of states that are computed together. Rows of a block have as many spare values."""

NEVER = 2**62
"""Position of a rise that does not occur."""


class Plane(NamedTuple):
    """Values of a plane: for each count a an interval of b, outside of which the values are infinite.

    Attributes:
        values: Values in the intervals, one row after the other, followed by unused space.
        low, high: First and last b of the rows, (n_a + 1,) or more. An empty row has a high below its low.
    """

    values: Floats
    low: Integers
    high: Integers


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def find_rises(rejected, accepted, below, above):
    """Find the first states of a row with a level of at least 1 and of at least 2, and return whether the level never
    falls.

    The positions are `NEVER` where there is no such state. Dead states may hold anything.
    """
    # The compiler turns a loop without branches into vector code, so conditions are joined by &, not ``and``.
    rise_1 = rise_2 = NEVER
    last_0 = last_1 = -1
    for k in range(len(rejected)):
        minus, plus = rejected[k], accepted[k]
        gain, live = minus - plus, (minus if minus < plus else plus) < np.inf
        at_least_1, at_least_2 = gain >= below, gain > above
        rise_1 = min(rise_1, k if live & at_least_1 else NEVER)
        rise_2 = min(rise_2, k if live & at_least_2 else NEVER)
        last_0 = max(last_0, k if live & (not at_least_1) else -1)
        last_1 = max(last_1, k if live & (not at_least_2) else -1)
    return rise_1, rise_2, (last_0 < rise_1) & (last_1 < rise_2)


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def note_rises(rejected, accepted, below, above, a, rise_1, rise_2):
    """Record the columns whose level first reaches 1 or 2 in row ``a``; return whether no level falls."""
    falls = 0
    for k in range(len(rejected)):
        minus, plus = rejected[k], accepted[k]
        gain, live = minus - plus, (minus if minus < plus else plus) < np.inf
        at_least_1, at_least_2 = live & (gain >= below), live & (gain > above)
        since_1, since_2 = rise_1[k], rise_2[k]
        since_1 = a if at_least_1 & (a < since_1) else since_1
        since_2 = a if at_least_2 & (a < since_2) else since_2
        rise_1[k], rise_2[k] = since_1, since_2
        falls |= (live & (not at_least_1) & (since_1 <= a)) | (live & (not at_least_2) & (since_2 <= a))
    return falls == 0


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def load_row(row, low, high, values, position, new_low, new_high):
    """Load an interval of values into an infinite row, and clear the interval that it held before."""
    previous = row[low : high + 1]
    for k in range(len(previous)):
        previous[k] = np.inf
    loaded, stored = row[new_low : new_high + 1], values[position : position + new_high + 1 - new_low]
    for k in range(len(loaded)):
        loaded[k] = stored[k]


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def sweep_plane(up, own, out, n_a, n_b, mix_a, mix_b, tables, work):
    """Compute the plane (n_a, n_b) from the planes ``up``, (n_a + 1, n_b), and ``own``, (n_a, n_b + 1).

    ``work`` are rows of infinite values for each source, a row of results, rows of levels and positions of rises.

    Returns whether thresholds store its levels exactly.
    """
    # V(n_a, n_b, a, b) = P(g = a) * step(V(n_a + 1, n_b, a or a + 1, b)) + P(g = b) * step(V(n_a, n_b + 1, a, b or b +
    # 1)), where the probabilities of the groups are in the mixes.
    mixes, compact = (mix_a, mix_b), len(tables.rows_a) > 0
    fast = compact and mix_a.single >= 0
    below_a, above_a, below_b, above_b = mix_a.rises[0], mix_a.rises[1], mix_b.rises[0], mix_b.rises[1]
    steps = mix_a.accept[1], mix_a.reject[1], mix_b.accept[1], mix_b.reject[1], mix_a.single
    columns, t = n_b + 1, n_a + n_b
    # The rows of the sources are infinite outside their intervals.
    minus, plus, here, new, row_a, row_b, highest, rises = work
    rises[:] = n_a + 1
    highest.words[:] = 0
    rows_before = t * (t + 1) * (t + 2) // 6
    rows_a, rows_b = rows_before + n_a * (n_a + 1) // 2, rows_before + n_b * (n_b + 1) // 2
    # States before time t, C(t + 3, 4), and before this n_a within it.
    state = (t + 3) * (t + 2) * (t + 1) * t // 24
    state += (t + 2) * n_a * (n_a + 1) // 2 - n_a * (n_a + 1) * (2 * n_a + 1) // 6
    if compact and not fast:
        tables.rows_b[rows_b : rows_b + columns, :] = n_a + 1
    monotone, written = True, 0
    position_up, position_own = 0, 0
    plus_low = minus_low = here_low = np.int64(0)
    plus_high = minus_high = here_high = np.int64(-1)
    for a in range(-1, n_a + 1):
        # The row read as accepted is the rejected row of the next a.
        minus, plus = plus, minus
        minus_low, minus_high, plus_low, plus_high = plus_low, plus_high, minus_low, minus_high
        low, high = up.low[a + 1], up.high[a + 1]
        load_row(plus, plus_low, plus_high, up.values, position_up, low, high)
        plus_low, plus_high = low, high
        position_up += max(0, high - low + 1)
        if a < 0:
            continue
        low, high = own.low[a], own.high[a]
        load_row(here, here_low, here_high, own.values, position_own, low, high)
        here_low, here_high = low, high
        position_own += max(0, high - low + 1)
        # States outside of this interval are dead for both groups.
        start = max(0, min(here_low - 1, minus_low, plus_low))
        stop = max(start, 1 + min(n_b, max(here_high, minus_high, plus_high)))
        # Whole strides are computed, because vector code handles the remainder of a loop one state at a time.
        end = start + ((stop - start + STRIDE - 1) & -STRIDE)
        minus_a, plus_a, minus_b, plus_b = minus[start:end], plus[start:end], here[start:end], here[start + 1 : end + 1]
        new_values = new[start:end]
        if fast:
            sweep_row_single(minus_a, plus_a, minus_b, plus_b, steps, new_values)
            first_1, first_2, rising = find_rises(minus_a, plus_a, below_a, above_a)
            tables.rows_a[rows_a + a, 0] = min(start + first_1, columns)
            tables.rows_a[rows_a + a, 1] = min(start + first_2, columns)
            monotone &= rising
            monotone &= note_rises(minus_b, plus_b, below_b, above_b, a, rises[0, start:end], rises[1, start:end])
        else:
            level_a, level_b = row_a.level[start:end], row_b.level[start:end]
            sweep_row_levels((minus_a, plus_a, minus_b, plus_b), mixes, new_values, level_a, level_b)
            place, position = (rows_a + a, rows_b, 1, a), state + a * columns
            monotone &= store_levels(tables, row_a, row_b, highest, start, stop, columns, place, position)
        while start < stop and new[start] == np.inf:
            start += 1
        while start < stop and new[stop - 1] == np.inf:
            stop -= 1
        kept, target = new[start:stop], out.values[written : written + stop - start]
        for k in range(len(kept)):
            target[k] = kept[k]
        written += stop - start
        out.low[a], out.high[a] = (start, stop - 1) if start < stop else (columns, -1)
    for row, low, high in ((minus, minus_low, minus_high), (plus, plus_low, plus_high), (here, here_low, here_high)):
        row[low : high + 1] = np.inf
    if fast:
        for b in range(columns):
            tables.rows_b[rows_b + b, 0], tables.rows_b[rows_b + b, 1] = rises[0, b], rises[1, b]
    return monotone


@compile_kernel(nogil=True, error_model="numpy")
def sweep_planes(block, above, now, first, n_b, sizes, bands, positions, mix_a, mix_b, tables):
    """Compute the planes (n_a, n_b) of a block for n_a from ``sizes[0]`` down to ``sizes[1]``.

    Args:
        block: Values by side, where each plane from ``first`` on begins, and the intervals by side, plane and row. Side
            ``now`` receives the planes of n_b; the other side holds those of n_b + 1.
        above: Plane (n_a, n_b) of the next block.
        bands: First and last allowed b of the checked planes, by a, (2, checks, rows).
        positions: Position of each plane among the checked ones, or -1.
    """
    values, starts, low, high = block
    monotone, last = True, len(low[0]) - 1
    space = n_b + STRIDE + 2
    rows = np.full(space, np.inf), np.full(space, np.inf), np.full(space, np.inf), np.empty(space)
    work = (*rows, empty_row(space), empty_row(space), empty_row(space), np.empty((2, space), np.int64))
    for n_a in range(sizes[0], sizes[1] - 1, -1):
        i = n_a - first
        up = above if i == last else Plane(values[now][starts[i + 1] :], low[now, i + 1], high[now, i + 1])
        own = Plane(values[1 - now][starts[i] :], low[1 - now, i], high[1 - now, i])
        out = Plane(values[now][starts[i] :], low[now, i], high[now, i])
        monotone &= sweep_plane(up, own, out, n_a, n_b, mix_a, mix_b, tables, work)
        if positions[i] >= 0:
            forbid_outside(out, bands[0, positions[i], : n_a + 1], bands[1, positions[i], : n_a + 1])
    return monotone


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def forbid_outside(plane, least, most):
    """Forbid the states of a plane whose b is outside [least, most], (n_a + 1,) each."""
    # Welfare n_g1 / n_g in [l, u] is an interval of accepted counts for each n_g (Static-BW shields, Definition 5).
    position = 0
    for a in range(len(least)):
        for b in range(plane.low[a], plane.high[a] + 1):
            if b < least[a] or b > most[a]:
                plane.values[position] = np.inf
            position += 1


@compile_kernel(nogil=True, error_model="numpy")
def add_values(plane, values):
    """Add values by (a, b) to a plane."""
    position = 0
    for a in range(len(values)):
        for b in range(plane.low[a], plane.high[a] + 1):
            plane.values[position] += values[a, b]
            position += 1
