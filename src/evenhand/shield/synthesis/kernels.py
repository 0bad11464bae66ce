"""Compiled sweeps over one layer of values, in place.

The value of a state is the least expected cost of what is still to come. A layer holds the values of all states at one
time by (n_a, n_b, a, b); sweeping them in ascending order, every read of the layer after is of a value that has not
been overwritten. What a row of states needs: the values after a rejection and after an acceptance, for either group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

DEAD = 255
"""Instead of a level: no decision on this group keeps the property within reach."""


class Mix(NamedTuple):
    """The expected value of a group's step, by the level that is best: linear in the values after either decision.

    Attributes:
        rises: (2 costs,), the gain in accepting above which the level is one more.
        accept, reject: (2 costs + 1,), probability that the group comes and the decision is this.
        cost: (2 costs + 1,), expected cost of the overrides.
    """

    rises: Floats
    accept: Floats
    reject: Floats
    cost: Floats


class Out(NamedTuple):
    """Where the levels go: thresholds of either group, or every state's level (the other pair is empty).

    Attributes:
        rows_a, rows_b: (rows of the layer, 2 costs), see `Thresholds`.
        cells_a, cells_b: (states of the layer,) levels plus costs.
    """

    rows_a: NDArray[np.unsignedinteger]
    rows_b: NDArray[np.unsignedinteger]
    cells_a: Bytes
    cells_b: Bytes


@njit(cache=True, error_model="numpy")
def single(rejected, accepted, mix, out, level, first):
    """One cost: the step of one group along a row, added to ``out`` (or written, if first); its levels."""
    above, below = mix.rises[1], mix.rises[0]
    cost = mix.cost[2] / mix.reject[1]
    one, zero = mix.accept[1], mix.reject[1]
    for b in range(len(out)):
        r, a = rejected[b], accepted[b]
        flipped_r, flipped_a = cost + r, cost + a
        value = one * (a if a < flipped_r else flipped_r) + zero * (r if r < flipped_a else flipped_a)
        out[b] = value if first else out[b] + value
        # Differences of two infinities compare as false: such a state is dead, whatever its level.
        gain = r - a
        risen = np.uint8(gain >= below) + np.uint8(gain > above)
        level[b] = np.uint8(risen if (r if r < a else a) < np.inf else DEAD)


@njit(cache=True, error_model="numpy")
def several(rejected, accepted, mix, out, level, first):
    """Several costs: as `single`; neighbours have near levels, so that the search for one starts at the last."""
    top = len(mix.rises)
    j = top // 2
    for b in range(len(out)):
        r, a = rejected[b], accepted[b]
        if r == np.inf:
            value = mix.accept[top] * a + mix.cost[top]
            j = top
        elif a == np.inf:
            value = mix.reject[0] * r + mix.cost[0]
            j = 0
        else:
            gain = r - a
            while j < top and gain > mix.rises[j]:
                j += 1
            while j > 0 and gain <= mix.rises[j - 1]:
                j -= 1
            value = mix.accept[j] * a + mix.reject[j] * r + mix.cost[j]
        level[b] = DEAD if value == np.inf else j
        out[b] = value if first else out[b] + value


@njit(cache=True, error_model="numpy")
def along(level, rises):
    """Thresholds along a row; whether the level never falls on its live states."""
    reached = 0
    for b in range(len(level)):
        now = level[b]
        if now in (reached, DEAD):
            continue
        if now < reached:
            return False
        for j in range(reached, now):
            rises[j] = b
        reached = now
    for j in range(reached, len(rises)):
        rises[j] = len(level)
    return True


@njit(cache=True, error_model="numpy")
def across(level, a, reached, rises, start, step):
    """Thresholds of the other group, rows of which run across: those of its count b begin at ``start + b * step``."""
    kept = True
    for b in range(len(level)):
        now = level[b]
        if now != reached[b] and now != DEAD:
            if now < reached[b]:
                kept = False
            for j in range(reached[b], now):
                rises[start + b * step, j] = a
            reached[b] = now
    return kept


@njit(cache=True, error_model="numpy")
def parity(values, horizon, t, mix_a, mix_b, out):
    """The layer at time t from the one after it; n_b is t - n_a. Whether thresholds store its levels.

    ``values`` holds (n_a, a, b) with b up to horizon - n_a.
    """
    new = np.empty(horizon + 1)
    level = np.empty(horizon + 1, dtype=np.uint8)
    reached = np.empty(horizon + 1, dtype=np.uint8)
    one = len(mix_a.rises) == 2
    compact = len(out.rows_a) > 0
    kept = True
    plane, cell = 0, 0
    for n_a in range(t + 1):
        columns = t - n_a + 1
        stride = horizon - n_a + 1
        after = plane + (n_a + 1) * stride
        if compact:
            # Rows of group b with n_b = t - n_a, its accepted running across.
            first_b = columns * (columns - 1) // 2
            out.rows_b[first_b : first_b + columns, :] = n_a + 1
            reached[:columns] = 0
        for a in range(n_a + 1):
            here = plane + a * stride
            up = after + a * (stride - 1)
            row, marks = new[:columns], level[:columns]
            rejected = values[up : up + columns]
            accepted = values[up + stride - 1 : up + stride - 1 + columns]
            if one:
                single(rejected, accepted, mix_a, row, marks, True)
            else:
                several(rejected, accepted, mix_a, row, marks, True)
            if compact:
                kept &= along(marks, out.rows_a[n_a * (n_a + 1) // 2 + a])
            else:
                out.cells_a[cell : cell + columns] = marks
            rejected = values[here : here + columns]
            accepted = values[here + 1 : here + 1 + columns]
            if one:
                single(rejected, accepted, mix_b, row, marks, False)
            else:
                several(rejected, accepted, mix_b, row, marks, False)
            if compact:
                kept &= across(marks, a, reached, out.rows_b, first_b, 1)
            else:
                out.cells_b[cell : cell + columns] = marks
            values[here : here + columns] = row
            cell += columns
        plane = after
    return kept


@njit(cache=True, error_model="numpy")
def opportunity(values, planes, t, mix_a, mix_b, labels, out):
    """As `parity` where an individual counts only with label 1, of which (group, label) has the probability ``labels``.

    ``values`` holds (n_a, n_b, a, b), the plane of (n_a, n_b) beginning at ``planes[n_a, n_b]``.
    """
    size = t + 2
    new, rejected, accepted = np.empty(size), np.empty(size), np.empty(size)
    level = np.empty(size, dtype=np.uint8)
    reached = np.empty(size, dtype=np.uint8)
    one = len(mix_a.rises) == 2
    compact = len(out.rows_a) > 0
    kept = True
    cell = 0
    slab_a = 0
    for n_a in range(t + 1):
        for n_b in range(t - n_a + 1):
            columns = n_b + 1
            plane, up, right = planes[n_a, n_b], planes[n_a + 1, n_b], planes[n_a, n_b + 1]
            if compact:
                slab_b = (t + 2) * n_b * (n_b + 1) // 2 - n_b * (n_b + 1) * (2 * n_b + 1) // 6
                first_b, step_b = slab_b + n_a, t - n_b + 1
                for b in range(columns):
                    out.rows_b[first_b + b * step_b, :] = n_a + 1
                reached[:columns] = 0
            for a in range(n_a + 1):
                here = plane + a * columns
                row, marks = new[:columns], level[:columns]
                low, high = up + a * columns, up + (a + 1) * columns
                for b in range(columns):
                    same = labels[0, 0] * values[here + b]
                    rejected[b] = labels[0, 1] * values[low + b] + same
                    accepted[b] = labels[0, 1] * values[high + b] + same
                if one:
                    single(rejected, accepted, mix_a, row, marks, True)
                else:
                    several(rejected, accepted, mix_a, row, marks, True)
                if compact:
                    kept &= along(marks, out.rows_a[slab_a + a * (t - n_a + 1) + n_b])
                else:
                    out.cells_a[cell : cell + columns] = marks
                low = right + a * (columns + 1)
                for b in range(columns):
                    same = labels[1, 0] * values[here + b]
                    rejected[b] = labels[1, 1] * values[low + b] + same
                    accepted[b] = labels[1, 1] * values[low + b + 1] + same
                if one:
                    single(rejected, accepted, mix_b, row, marks, False)
                else:
                    several(rejected, accepted, mix_b, row, marks, False)
                if compact:
                    kept &= across(marks, a, reached, out.rows_b, first_b, step_b)
                else:
                    out.cells_b[cell : cell + columns] = marks
                values[here : here + columns] = row
                cell += columns
        slab_a += (n_a + 1) * (t - n_a + 1)
    return kept


@njit(cache=True, error_model="numpy")
def forbid(values, start, columns, low, high):
    """Infinite outside the intervals [low, high]: row i of ``columns[i]`` states begins at ``start[i]``."""
    for i in range(len(start)):
        row = values[start[i] : start[i] + columns[i]]
        row[: min(max(low[i], 0), columns[i])] = np.inf
        row[max(high[i] + 1, 0) :] = np.inf
