"""Compiled sweeps over one layer of values, in place.

The value of a state is the minimum expected cost of the remaining decisions. A layer holds the values of all states at
one time by (n_a, n_b, a, b); a sweep in ascending order reads only values of the later layer that are not yet
overwritten. A row of states needs the values after a rejection and after an acceptance, for either group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.kernels import compile_kernel

Bytes = NDArray[np.uint8]

DEAD_LEVEL = 255
"""Marker of a state in which no decision about this group keeps a fair end reachable."""
ALL_DEAD = np.uint64(2**64 - 1)
EVERY_BYTE = np.uint64(0x0101010101010101)


class Tables(NamedTuple):
    """Complete tables to fill, as thresholds or packed. The arrays of the other format are empty.

    Attributes:
        rows_a, rows_b: Thresholds, (rows, 2 costs), see `ThresholdTable`.
        cells_a, cells_b: Packed levels, see `PackedTable`.
        bits: Number of bits of a packed level.
        costs: Number of costs.
    """

    rows_a: NDArray[np.unsignedinteger]
    rows_b: NDArray[np.unsignedinteger]
    cells_a: Bytes
    cells_b: Bytes
    bits: int
    costs: int


class LevelRow(NamedTuple):
    """Levels for one group along a row of states, as bytes and as words of eight bytes."""

    level: Bytes
    words: NDArray[np.uint64]


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def empty_row(states):
    """Build levels of 0 for a number of states, rounded up to whole words."""
    words = np.zeros(states // 8 + 1, dtype=np.uint64)
    return LevelRow(words.view(np.uint8), words)


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def single_cost_value(rejected, accepted, accept, reject, cost):
    """Compute the expected value of a step with one cost, given the probabilities of the recommendations."""
    # One step of the recursion of Fairness Shields (AAAI 2025, Theorem 1), with V+ after an acceptance and V- after a
    # rejection: P(r = 1) * min(V+, c + V-) + P(r = 0) * min(V-, c + V+). Infinite means that no fair end is reachable.
    flipped_down, flipped_up = cost + rejected, cost + accepted
    return accept * (accepted if accepted < flipped_down else flipped_down) + reject * (
        rejected if rejected < flipped_up else flipped_up
    )


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def single_cost_level(rejected, accepted, below, above):
    """One cost: the level. A difference of infinities is not a number and compares as false; such a state is dead."""
    # Level 1 follows. A recommendation is overridden if and only if the opposite decision saves more than its cost:
    # acceptance is forced where V- - V+ > c, rejection where V+ - V- > c. Ties are followed.
    gain = rejected - accepted
    level = np.uint8(np.uint8(gain >= below) + np.uint8(gain > above))
    return level if (rejected if rejected < accepted else accepted) < np.inf else np.uint8(DEAD_LEVEL)


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def several_costs_step(rejected, accepted, mix, near):
    """Compute the expected value of a step with several costs and its level, starting the search at ``near``."""
    # With costs c_1 < ... < c_K the step's value is the minimum over levels of accept * V+ + reject * V- + cost:
    # piecewise linear in gain = V- - V+, with breaks at the costs of either recommendation, ``rises``. Neighbouring
    # states have nearly the same level, so the search begins at the last one.
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


@compile_kernel(nogil=True, error_model="numpy", inline="always")
def sweep_row_single(rejected_a, accepted_a, rejected_b, accepted_b, steps, new):
    """Compute the values of neighbouring states with one cost; ``steps`` are (accept, reject) of each group and it."""
    one_a, zero_a, one_b, zero_b, cost = steps
    for k in range(len(new)):
        value_a = single_cost_value(rejected_a[k], accepted_a[k], one_a, zero_a, cost)
        new[k] = value_a + single_cost_value(rejected_b[k], accepted_b[k], one_b, zero_b, cost)


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def sweep_row_levels(sources, mixes, new, level_a, level_b):
    """Compute the values of neighbouring states and their levels for both groups, with any number of costs.

    ``sources`` are the values after a rejection and an acceptance of each group.
    """
    rejected_a, accepted_a, rejected_b, accepted_b = sources
    mix_a, mix_b = mixes
    if mix_a.single >= 0:
        steps = mix_a.accept[1], mix_a.reject[1], mix_b.accept[1], mix_b.reject[1], mix_a.single
        sweep_row_single(rejected_a, accepted_a, rejected_b, accepted_b, steps, new)
        for k in range(len(new)):
            level_a[k] = single_cost_level(rejected_a[k], accepted_a[k], mix_a.rises[0], mix_a.rises[1])
            level_b[k] = single_cost_level(rejected_b[k], accepted_b[k], mix_b.rises[0], mix_b.rises[1])
        return
    # The search for a level starts at that of the previous state.
    near_a = near_b = len(mix_a.rises) // 2
    for k in range(len(new)):
        value_a, near_a = several_costs_step(rejected_a[k], accepted_a[k], mix_a, near_a)
        value_b, near_b = several_costs_step(rejected_b[k], accepted_b[k], mix_b, near_b)
        new[k] = value_a + value_b
        level_a[k] = near_a if value_a < np.inf else DEAD_LEVEL
        level_b[k] = near_b if value_b < np.inf else DEAD_LEVEL


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def thresholds_along_row(row, start, stop, columns, rises, i):
    """Store the thresholds along a row in ``rises[i]``, and return whether the level never falls on its live states.

    Only the states ``start`` to ``stop`` can be live. Most of them have one level or are dead, and are skipped
    eight at a time.
    """
    level, words = row.level, row.words
    # For fixed counts V is submodular in (a, b): the fair ends are a sublattice, and a step is a minimum of submodular
    # functions over a lattice (Topkis 1978). So the level on one group never falls as the other group's count rises,
    # and a row is stored as the positions at which it rises. Dead states may hold anything.
    reached = 0
    same = np.uint64(0)
    for w in range(start // 8, (stop + 7) // 8):
        if words[w] == same or words[w] == ALL_DEAD:
            continue
        for b in range(max(8 * w, start), min(8 * w + 8, stop)):
            now = level[b]
            if now in (reached, DEAD_LEVEL):
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


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def thresholds_across_rows(row, start, stop, a, highest, rises, first, step):
    """Store the thresholds of group b, whose rows run across: the row of count b is ``first + b * step``.

    ``highest``, a `LevelRow`, holds the level reached in each column, and is updated.
    """
    # Invariant: reached[b] is the highest level of column b in the rows before a, and rises[., j] the row where level j
    # + 1 was first reached. Thresholds cannot store a level that falls again. Eight columns are compared as one word:
    # most rows change nothing.
    level, words = row.level, row.words
    reached, reached_words = highest.level, highest.words
    monotone = True
    for w in range(start // 8, (stop + 7) // 8):
        if words[w] == reached_words[w] or words[w] == ALL_DEAD:
            continue
        for b in range(max(8 * w, start), min(8 * w + 8, stop)):
            now = level[b]
            if now != reached[b] and now != DEAD_LEVEL:
                if now < reached[b]:
                    monotone = False
                for j in range(reached[b], now):
                    rises[first + b * step, j] = a
                reached[b] = now
    return monotone


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def pack_levels(table, start, levels, bits, follow):
    """Store levels in a fixed number of bits each, lowest first, in a zeroed table from position ``start``.

    Dead states get the level ``follow``.
    """
    per_byte = 8 // bits
    for i in range(len(levels)):
        position = start + i
        level = levels[i] if levels[i] != DEAD_LEVEL else np.uint8(follow)
        table[position // per_byte] |= np.uint8(level << (position % per_byte * bits))


@compile_kernel(internal=True, nogil=True, error_model="numpy")
def store_levels(tables, row_a, row_b, highest, start, stop, columns, place, position):
    """Store the levels of a row of states, and return whether thresholds store them exactly.

    Args:
        row_a, row_b: Levels. States outside of ``start`` to ``stop`` are dead.
        highest: See `thresholds_across_rows`.
        columns: Number of states.
        place: Row of group a in its table, row of group b at the count 0 in its table, their step, and count of a.
        position: Position of the first state in a packed table.
    """
    row, first, step, a = place
    if len(tables.rows_a):
        along = thresholds_along_row(row_a, start, stop, columns, tables.rows_a, row)
        return thresholds_across_rows(row_b, start, stop, a, highest, tables.rows_b, first, step) and along
    for levels in (row_a.level, row_b.level):
        levels[:start] = DEAD_LEVEL
        levels[stop:] = DEAD_LEVEL
    pack_levels(tables.cells_a, position, row_a.level[:columns], tables.bits, tables.costs)
    pack_levels(tables.cells_b, position, row_b.level[:columns], tables.bits, tables.costs)
    return True


@compile_kernel(nogil=True, error_model="numpy")
def sweep_opportunity(values, planes, t, mix_a, mix_b, labels, starts, tables):
    """Compute the layer at time t from the next one, in place, and return whether thresholds store its levels.

    Args:
        values: Values by (n_a, n_b, a, b), the plane of (n_a, n_b) beginning at ``planes[n_a, n_b]``.
        t: Time. Only people with label 1 are counted, so n_a + n_b is at most t.
        mix_a, mix_b: Steps of the groups.
        labels: Probability of (group, label).
        starts: Rows of thresholds and states before this layer.
        tables: Tables to fill.
    """
    # A state of the plane (n_a, n_b) reads that plane and those of (n_a + 1, n_b) and (n_a, n_b + 1), which come later
    # in this order and are still of time t + 1. Each row is written after it is read.
    row_a, row_b, highest, mixes = empty_row(t), empty_row(t), empty_row(t), (mix_a, mix_b)
    sources = np.empty((4, t + 1))
    not_a, yes_a, not_b, yes_b = labels[0, 0], labels[0, 1], labels[1, 0], labels[1, 1]
    monotone, compact = True, len(tables.rows_a) > 0
    slab_a, state = starts
    for n_a in range(t + 1):
        for n_b in range(t - n_a + 1):
            columns = n_b + 1
            start, above, next_plane = planes[n_a, n_b], planes[n_a + 1, n_b], planes[n_a, n_b + 1]
            own = values[start : start + (n_a + 1) * columns].reshape((n_a + 1, columns))
            up = values[above : above + (n_a + 2) * columns].reshape((n_a + 2, columns))
            right = values[next_plane : next_plane + (n_a + 1) * (columns + 1)].reshape((n_a + 1, columns + 1))
            # Rows before those of this n_b: the sum of (k + 1) (t + 1 - k) over k < n_b, in closed form.
            first_b = starts[0] + (t + 2) * n_b * (n_b + 1) // 2 - n_b * (n_b + 1) * (2 * n_b + 1) // 6 + n_a
            step_b = t - n_b + 1
            if compact:
                for b in range(columns):
                    tables.rows_b[first_b + b * step_b, :] = n_a + 1
                highest.words[:] = 0
            rejected_a, accepted_a = sources[0, :columns], sources[1, :columns]
            rejected_b, accepted_b = sources[2, :columns], sources[3, :columns]
            for a in range(n_a + 1):
                # The label z comes after the decision y and counts only if it is 1: Q_g(y) = P(z = 1 | g) * V(s_g + 1,
                # a_g + y) + P(z = 0 | g) * V(unchanged); then the step as for parity.
                for b in range(columns):
                    stay = not_a * own[a, b]
                    rejected_a[b], accepted_a[b] = yes_a * up[a, b] + stay, yes_a * up[a + 1, b] + stay
                    stay = not_b * own[a, b]
                    rejected_b[b], accepted_b[b] = yes_b * right[a, b] + stay, yes_b * right[a, b + 1] + stay
                sweep_row_levels(
                    (rejected_a, accepted_a, rejected_b, accepted_b), mixes, own[a], row_a.level, row_b.level
                )
                place = slab_a + a * (t - n_a + 1) + n_b, first_b, step_b, a
                monotone &= store_levels(tables, row_a, row_b, highest, 0, columns, columns, place, state)
                state += columns
        slab_a += (n_a + 1) * (t - n_a + 1)
    return monotone


@compile_kernel(nogil=True, error_model="numpy")
def forbid_outside_bands(values, start, columns, low, high):
    """Infinite outside the intervals [low, high]: row i of ``columns[i]`` states begins at ``start[i]``."""
    # Welfare n_g1 / n_g in [l, u] is an interval of accepted counts for each n_g (Static-BW shields, Definition 5).
    for i in range(len(start)):
        row = values[start[i] : start[i] + columns[i]]
        row[: min(max(low[i], 0), columns[i])] = np.inf
        row[max(high[i] + 1, 0) :] = np.inf


@compile_kernel()
def count_live_states(bits, start, counters, outcomes, group):
    """Count the outcomes of open labels from which a fair end is reachable, after either decision about a group.

    Args:
        bits: Live states, one bit each, packed.
        start: Positions of states, see `sweep_live_states`.
        counters: Known counters, (n_a, a, n_b, b).
        outcomes: Possible numbers of labels 1 among the rejected and accepted decisions of the first group, then of the
            second.
        group: Group of the next decision, whose label is open too; negative if there is none.

    Returns:
        Number of outcomes that are live for both labels, after a rejection and after an acceptance.
    """
    after_rejection, after_acceptance = 0, 0
    for rejected_a in outcomes[0]:
        for accepted_a in outcomes[1]:
            n_a, a = counters[0] + rejected_a + accepted_a, counters[1] + accepted_a
            for rejected_b in outcomes[2]:
                for accepted_b in outcomes[3]:
                    n_b, b = counters[2] + rejected_b + accepted_b, counters[3] + accepted_b
                    if not _is_live(bits, start[n_a, n_b] + a * (n_b + 1) + b):
                        continue
                    if group < 0:
                        after_rejection += 1
                        after_acceptance += 1
                    elif group == 0:
                        position = start[n_a + 1, n_b] + a * (n_b + 1) + b
                        after_rejection += _is_live(bits, position)
                        after_acceptance += _is_live(bits, position + n_b + 1)
                    else:
                        position = start[n_a, n_b + 1] + a * (n_b + 2) + b
                        after_rejection += _is_live(bits, position)
                        after_acceptance += _is_live(bits, position + 1)
    return after_rejection, after_acceptance


@compile_kernel(internal=True)
def _is_live(bits, position):
    """Return the bit of a state as a number."""
    return (bits[position >> 3] >> (7 - (position & 7))) & 1


@compile_kernel()
def sweep_live_states(layer, start, t):
    """Compute the live states at time t from those at t + 1, in place.

    States are ordered by the number of people seen, then by ``n_a``: ``start[n_a, n_b] + a * (n_b + 1) + b``. Only
    states with more people seen are read after this one, and these are not overwritten yet.
    """
    # live(s) = live(s, later) and, for either group, live(accepted) or live(rejected): label 0 leaves the counters
    # unchanged, and for label 1 some decision on either group must keep a fair end reachable.
    for total in range(t + 1):
        for n_a in range(total + 1):
            n_b = total - n_a
            start_here, more_a, more_b = start[n_a, n_b], start[n_a + 1, n_b], start[n_a, n_b + 1]
            for a in range(n_a + 1):
                for b in range(n_b + 1):
                    i = start_here + a * (n_b + 1) + b
                    if layer[i]:
                        of_a = layer[more_a + a * (n_b + 1) + b] | layer[more_a + (a + 1) * (n_b + 1) + b]
                        of_b = layer[more_b + a * (n_b + 2) + b] | layer[more_b + a * (n_b + 2) + b + 1]
                        layer[i] = of_a & of_b
