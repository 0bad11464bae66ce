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
ALL_DEAD = np.uint64(2**64 - 1)
EVERY_BYTE = np.uint64(0x0101010101010101)


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


@njit(cache=True, nogil=True, error_model="numpy")
def settled(rejected, accepted, one, zero, cost):
    """One cost: the expected value of a step, ``one`` and ``zero`` being the probabilities of the recommendations."""
    flipped_down, flipped_up = cost + rejected, cost + accepted
    return one * (accepted if accepted < flipped_down else flipped_down) + zero * (
        rejected if rejected < flipped_up else flipped_up
    )


@njit(cache=True, nogil=True, error_model="numpy")
def risen(rejected, accepted, below, above):
    """One cost: the level. A difference of infinities is no number and compares as false; such a state is dead."""
    gain = rejected - accepted
    level = np.uint8(np.uint8(gain >= below) + np.uint8(gain > above))
    return level if (rejected if rejected < accepted else accepted) < np.inf else np.uint8(DEAD)


@njit(cache=True, nogil=True, error_model="numpy")
def mixed(rejected, accepted, mix, near):
    """Several costs: the expected value of a step and its level, searched for from ``near`` on."""
    top = len(mix.rises)
    if rejected == np.inf:
        return mix.accept[top] * accepted + mix.cost[top], top
    if accepted == np.inf:
        return mix.reject[0] * rejected + mix.cost[0], 0
    gain = rejected - accepted
    while near < top and gain > mix.rises[near]:
        near += 1
    while near > 0 and gain <= mix.rises[near - 1]:
        near -= 1
    return mix.accept[near] * accepted + mix.reject[near] * rejected + mix.cost[near], near


@njit(cache=True, nogil=True, error_model="numpy")
def parity_single(up, own, a, columns, mix_a, mix_b, new, level_a, level_b):
    """The values of a row and the levels on both groups; ``up`` has the values with one more of group a seen."""
    cost = mix_a.single
    one_a, zero_a, below_a, above_a = mix_a.accept[1], mix_a.reject[1], mix_a.rises[0], mix_a.rises[1]
    one_b, zero_b, below_b, above_b = mix_b.accept[1], mix_b.reject[1], mix_b.rises[0], mix_b.rises[1]
    for b in range(columns):
        rejected, accepted = up[a, b], up[a + 1, b]
        value = settled(rejected, accepted, one_a, zero_a, cost)
        level_a[b] = risen(rejected, accepted, below_a, above_a)
        rejected, accepted = own[a, b], own[a, b + 1]
        new[b] = value + settled(rejected, accepted, one_b, zero_b, cost)
        level_b[b] = risen(rejected, accepted, below_b, above_b)


@njit(cache=True, nogil=True, error_model="numpy")
def parity_several(up, own, a, columns, mix_a, mix_b, new, level_a, level_b):
    """`parity_single` with several costs."""
    near_a = near_b = len(mix_a.rises) // 2
    for b in range(columns):
        value_a, near_a = mixed(up[a, b], up[a + 1, b], mix_a, near_a)
        value_b, near_b = mixed(own[a, b], own[a, b + 1], mix_b, near_b)
        new[b] = value_a + value_b
        level_a[b] = near_a if value_a < np.inf else DEAD
        level_b[b] = near_b if value_b < np.inf else DEAD


@njit(cache=True, nogil=True, error_model="numpy")
def opportunity_single(up, right, own, a, columns, labels, mix_a, mix_b, new, level_a, level_b):
    """As `parity_single`, where with label 0 the counters stay; ``right`` has one more of group b seen."""
    cost = mix_a.single
    one_a, zero_a, below_a, above_a = mix_a.accept[1], mix_a.reject[1], mix_a.rises[0], mix_a.rises[1]
    one_b, zero_b, below_b, above_b = mix_b.accept[1], mix_b.reject[1], mix_b.rises[0], mix_b.rises[1]
    not_a, yes_a, not_b, yes_b = labels[0, 0], labels[0, 1], labels[1, 0], labels[1, 1]
    for b in range(columns):
        stay = not_a * own[a, b]
        rejected, accepted = yes_a * up[a, b] + stay, yes_a * up[a + 1, b] + stay
        value = settled(rejected, accepted, one_a, zero_a, cost)
        level_a[b] = risen(rejected, accepted, below_a, above_a)
        stay = not_b * own[a, b]
        rejected, accepted = yes_b * right[a, b] + stay, yes_b * right[a, b + 1] + stay
        new[b] = value + settled(rejected, accepted, one_b, zero_b, cost)
        level_b[b] = risen(rejected, accepted, below_b, above_b)


@njit(cache=True, nogil=True, error_model="numpy")
def opportunity_several(up, right, own, a, columns, labels, mix_a, mix_b, new, level_a, level_b):
    """`opportunity_single` with several costs."""
    not_a, yes_a, not_b, yes_b = labels[0, 0], labels[0, 1], labels[1, 0], labels[1, 1]
    near_a = near_b = len(mix_a.rises) // 2
    for b in range(columns):
        stay = not_a * own[a, b]
        value_a, near_a = mixed(yes_a * up[a, b] + stay, yes_a * up[a + 1, b] + stay, mix_a, near_a)
        stay = not_b * own[a, b]
        value_b, near_b = mixed(yes_b * right[a, b] + stay, yes_b * right[a, b + 1] + stay, mix_b, near_b)
        new[b] = value_a + value_b
        level_a[b] = near_a if value_a < np.inf else DEAD
        level_b[b] = near_b if value_b < np.inf else DEAD


@njit(cache=True, nogil=True, error_model="numpy")
def along(level, words, columns, rises, i):
    """Thresholds along a row into ``rises[i]``; whether the level never falls on its live states.

    ``words`` are the same levels, eight in one: most of a row is the same level or dead, and is passed over so.
    """
    reached = 0
    same = np.uint64(0)
    for w in range((columns + 7) // 8):
        if words[w] == same or words[w] == ALL_DEAD:
            continue
        for b in range(8 * w, min(8 * w + 8, columns)):
            now = level[b]
            if now in (reached, DEAD):
                continue
            if now < reached:
                return False
            for j in range(reached, now):
                rises[i, j] = b
            reached = now
        same = np.uint64(reached) * EVERY_BYTE
    for j in range(reached, rises.shape[1]):
        rises[i, j] = columns
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def across(level, words, columns, a, reached, reached_words, rises, start, step):
    """Thresholds of group b, whose rows run across: that of its count b is ``start + b * step``."""
    kept = True
    for w in range((columns + 7) // 8):
        if words[w] == reached_words[w] or words[w] == ALL_DEAD:
            continue
        for b in range(8 * w, min(8 * w + 8, columns)):
            now = level[b]
            if now != reached[b] and now != DEAD:
                if now < reached[b]:
                    kept = False
                for j in range(reached[b], now):
                    rises[start + b * step, j] = a
                reached[b] = now
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def parity(values, horizon, t, mix_a, mix_b, out):
    """The layer at time t from the one after it; n_b is t - n_a. Whether thresholds store its levels.

    ``values`` holds (n_a, a, b) with b up to horizon - n_a.
    """
    new = np.empty(horizon + 1)
    words_a = np.zeros(horizon // 8 + 1, dtype=np.uint64)
    words_b, reached_words = np.zeros_like(words_a), np.zeros_like(words_a)
    level_a, level_b, reached = words_a.view(np.uint8), words_b.view(np.uint8), reached_words.view(np.uint8)
    one, compact = mix_a.single >= 0, len(out.rows_a) > 0
    kept = True
    start, cell = 0, 0
    for n_a in range(t + 1):
        columns = t - n_a + 1
        stride = horizon - n_a + 1
        after = start + (n_a + 1) * stride
        own = values[start:after].reshape((n_a + 1, stride))
        up = values[after : after + (n_a + 2) * (stride - 1)].reshape((n_a + 2, stride - 1))
        first_b = columns * (columns - 1) // 2
        if compact:
            # Rows of group b with n_b = t - n_a, its accepted running across.
            out.rows_b[first_b : first_b + columns, :] = n_a + 1
            reached_words[:] = 0
        for a in range(n_a + 1):
            if one:
                parity_single(up, own, a, columns, mix_a, mix_b, new, level_a, level_b)
            else:
                parity_several(up, own, a, columns, mix_a, mix_b, new, level_a, level_b)
            if compact:
                kept &= along(level_a, words_a, columns, out.rows_a, n_a * (n_a + 1) // 2 + a)
                kept &= across(level_b, words_b, columns, a, reached, reached_words, out.rows_b, first_b, 1)
            else:
                out.cells_a[cell : cell + columns] = level_a[:columns]
                out.cells_b[cell : cell + columns] = level_b[:columns]
                cell += columns
            for b in range(columns):
                own[a, b] = new[b]
        start = after
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def opportunity(values, planes, t, mix_a, mix_b, labels, out):
    """As `parity` where an individual counts only with label 1, of which (group, label) has the probability ``labels``.

    ``values`` holds (n_a, n_b, a, b), the plane of (n_a, n_b) beginning at ``planes[n_a, n_b]``.
    """
    new = np.empty(t + 1)
    words_a = np.zeros(t // 8 + 1, dtype=np.uint64)
    words_b, reached_words = np.zeros_like(words_a), np.zeros_like(words_a)
    level_a, level_b, reached = words_a.view(np.uint8), words_b.view(np.uint8), reached_words.view(np.uint8)
    one, compact = mix_a.single >= 0, len(out.rows_a) > 0
    kept = True
    cell, slab_a = 0, 0
    for n_a in range(t + 1):
        for n_b in range(t - n_a + 1):
            columns = n_b + 1
            start, above, beside = planes[n_a, n_b], planes[n_a + 1, n_b], planes[n_a, n_b + 1]
            own = values[start : start + (n_a + 1) * columns].reshape((n_a + 1, columns))
            up = values[above : above + (n_a + 2) * columns].reshape((n_a + 2, columns))
            right = values[beside : beside + (n_a + 1) * (columns + 1)].reshape((n_a + 1, columns + 1))
            slab_b = (t + 2) * n_b * (n_b + 1) // 2 - n_b * (n_b + 1) * (2 * n_b + 1) // 6
            first_b, step_b = slab_b + n_a, t - n_b + 1
            if compact:
                for b in range(columns):
                    out.rows_b[first_b + b * step_b, :] = n_a + 1
                reached_words[:] = 0
            for a in range(n_a + 1):
                if one:
                    opportunity_single(up, right, own, a, columns, labels, mix_a, mix_b, new, level_a, level_b)
                else:
                    opportunity_several(up, right, own, a, columns, labels, mix_a, mix_b, new, level_a, level_b)
                if compact:
                    kept &= along(level_a, words_a, columns, out.rows_a, slab_a + a * (t - n_a + 1) + n_b)
                    kept &= across(level_b, words_b, columns, a, reached, reached_words, out.rows_b, first_b, step_b)
                else:
                    out.cells_a[cell : cell + columns] = level_a[:columns]
                    out.cells_b[cell : cell + columns] = level_b[:columns]
                    cell += columns
                for b in range(columns):
                    own[a, b] = new[b]
        slab_a += (n_a + 1) * (t - n_a + 1)
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def forbid(values, start, columns, low, high):
    """Infinite outside the intervals [low, high]: row i of ``columns[i]`` states begins at ``start[i]``."""
    for i in range(len(start)):
        row = values[start[i] : start[i] + columns[i]]
        row[: min(max(low[i], 0), columns[i])] = np.inf
        row[max(high[i] + 1, 0) :] = np.inf
