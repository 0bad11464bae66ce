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
from evenhand.core.typing import Floats

Bytes = NDArray[np.uint8]

DEAD_LEVEL = 255
"""Mark of a state in which no decision on this group keeps a fair end reachable."""
ALL_DEAD = np.uint64(2**64 - 1)
EVERY_BYTE = np.uint64(0x0101010101010101)


class LevelOutputs(NamedTuple):
    """Outputs for the levels: thresholds of either group, or the level of every state. The other arrays are empty.

    Attributes:
        rows_a, rows_b: (rows of the layer, 2 costs), see `ThresholdTable`.
        cells_a, cells_b: (states of the layer,) levels plus costs.
    """

    rows_a: NDArray[np.unsignedinteger]
    rows_b: NDArray[np.unsignedinteger]
    cells_a: Bytes
    cells_b: Bytes


class LevelRow(NamedTuple):
    """Levels for one group along a row of states, as bytes and as words of eight bytes."""

    level: Bytes
    words: NDArray[np.uint64]


class RowOutputs(NamedTuple):
    """Outputs of a row of states: its values, and the levels for each group."""

    value: Floats
    a: LevelRow
    b: LevelRow


@compile_kernel(nogil=True, error_model="numpy")
def empty_row(states):
    """Build levels of 0 for a number of states, rounded up to whole words."""
    words = np.zeros(states // 8 + 1, dtype=np.uint64)
    return LevelRow(words.view(np.uint8), words)


@compile_kernel(nogil=True, error_model="numpy")
def single_cost_value(rejected, accepted, accept, reject, cost):
    """Compute the expected value of a step with one cost, given the probabilities of the recommendations."""
    # One step of the recursion of Fairness Shields (AAAI 2025, Theorem 1), with V+ after an acceptance and V- after a
    # rejection: P(r = 1) * min(V+, c + V-) + P(r = 0) * min(V-, c + V+). Infinite means that no fair end is reachable.
    flipped_down, flipped_up = cost + rejected, cost + accepted
    return accept * (accepted if accepted < flipped_down else flipped_down) + reject * (
        rejected if rejected < flipped_up else flipped_up
    )


@compile_kernel(nogil=True, error_model="numpy")
def single_cost_level(rejected, accepted, below, above):
    """One cost: the level. A difference of infinities is not a number and compares as false; such a state is dead."""
    # Level 1 follows. A recommendation is overridden iff the other decision saves more than its cost: acceptance is
    # forced where V- - V+ > c, rejection where V+ - V- > c. Ties are followed.
    gain = rejected - accepted
    level = np.uint8(np.uint8(gain >= below) + np.uint8(gain > above))
    return level if (rejected if rejected < accepted else accepted) < np.inf else np.uint8(DEAD_LEVEL)


@compile_kernel(nogil=True, error_model="numpy")
def several_costs_step(rejected, accepted, mix, near):
    """Several costs: compute the expected value of a step and its level, searched from ``near`` on."""
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


@compile_kernel(nogil=True, error_model="numpy")
def opportunity_single(up, right, own, a, columns, labels, mixes, row):
    """Compute the values of a row and levels for both groups with one cost; label 0 changes no counter.

    ``up`` has the values with one more of group a seen, ``right`` with one more of group b.
    """
    mix_a, mix_b = mixes
    new, level_a, level_b = row.value, row.a.level, row.b.level
    cost = mix_a.single
    one_a, zero_a, below_a, above_a = mix_a.accept[1], mix_a.reject[1], mix_a.rises[0], mix_a.rises[1]
    one_b, zero_b, below_b, above_b = mix_b.accept[1], mix_b.reject[1], mix_b.rises[0], mix_b.rises[1]
    not_a, yes_a, not_b, yes_b = labels[0, 0], labels[0, 1], labels[1, 0], labels[1, 1]
    # The label z comes after the decision y and counts only if it is 1: Q_g(y) = P(z = 1 | g) * V(s_g + 1, a_g + y) +
    # P(z = 0 | g) * V(unchanged); then the step as for parity.
    for b in range(columns):
        stay = not_a * own[a, b]
        rejected, accepted = yes_a * up[a, b] + stay, yes_a * up[a + 1, b] + stay
        value = single_cost_value(rejected, accepted, one_a, zero_a, cost)
        level_a[b] = single_cost_level(rejected, accepted, below_a, above_a)
        stay = not_b * own[a, b]
        rejected, accepted = yes_b * right[a, b] + stay, yes_b * right[a, b + 1] + stay
        new[b] = value + single_cost_value(rejected, accepted, one_b, zero_b, cost)
        level_b[b] = single_cost_level(rejected, accepted, below_b, above_b)


@compile_kernel(nogil=True, error_model="numpy")
def opportunity_several(up, right, own, a, columns, labels, mixes, row):
    """`opportunity_single` with several costs."""
    mix_a, mix_b = mixes
    new, level_a, level_b = row.value, row.a.level, row.b.level
    not_a, yes_a, not_b, yes_b = labels[0, 0], labels[0, 1], labels[1, 0], labels[1, 1]
    near_a = near_b = len(mix_a.rises) // 2
    # A person with label 0 is not counted: V after a decision on group g is P(0 | g) * V(here) + P(1 | g) * V(one more
    # of g, accepted or not).
    for b in range(columns):
        stay = not_a * own[a, b]
        value_a, near_a = several_costs_step(yes_a * up[a, b] + stay, yes_a * up[a + 1, b] + stay, mix_a, near_a)
        stay = not_b * own[a, b]
        value_b, near_b = several_costs_step(yes_b * right[a, b] + stay, yes_b * right[a, b + 1] + stay, mix_b, near_b)
        new[b] = value_a + value_b
        level_a[b] = near_a if value_a < np.inf else DEAD_LEVEL
        level_b[b] = near_b if value_b < np.inf else DEAD_LEVEL


@compile_kernel(nogil=True, error_model="numpy")
def thresholds_along_row(row, start, stop, columns, rises, i):
    """Store the thresholds along a row in ``rises[i]``, and return whether the level never falls on its live states.

    Only the states from ``start`` to ``stop`` can be live. Most of them have one level or are dead, and are skipped
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


@compile_kernel(nogil=True, error_model="numpy")
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


@compile_kernel(nogil=True, error_model="numpy")
def sweep_opportunity(values, planes, t, mix_a, mix_b, labels, out):
    """Compute the layer at time t from the next one, in place, and return whether thresholds store its levels.

    Args:
        values: Values by (n_a, n_b, a, b), the plane of (n_a, n_b) beginning at ``planes[n_a, n_b]``.
        t: Time. Only people with label 1 are counted, so n_a + n_b is at most t.
        mix_a, mix_b: Steps of the groups.
        labels: Probability of (group, label).
        out: Outputs for the levels.
    """
    # A state of the plane (n_a, n_b) reads that plane and those of (n_a + 1, n_b) and (n_a, n_b + 1), which come later
    # in this order and are still of time t + 1. A row is written when it has been read.
    row = RowOutputs(np.empty(t + 1), empty_row(t), empty_row(t))
    highest, mixes = empty_row(t), (mix_a, mix_b)
    single, compact = mix_a.single >= 0, len(out.rows_a) > 0
    monotone = True
    cell, slab_a = 0, 0
    for n_a in range(t + 1):
        for n_b in range(t - n_a + 1):
            columns = n_b + 1
            start, above, next_plane = planes[n_a, n_b], planes[n_a + 1, n_b], planes[n_a, n_b + 1]
            own = values[start : start + (n_a + 1) * columns].reshape((n_a + 1, columns))
            up = values[above : above + (n_a + 2) * columns].reshape((n_a + 2, columns))
            right = values[next_plane : next_plane + (n_a + 1) * (columns + 1)].reshape((n_a + 1, columns + 1))
            # Rows before those of this n_b: the sum of (k + 1) (t + 1 - k) over k < n_b, in closed form.
            slab_b = (t + 2) * n_b * (n_b + 1) // 2 - n_b * (n_b + 1) * (2 * n_b + 1) // 6
            first_b, step_b = slab_b + n_a, t - n_b + 1
            if compact:
                for b in range(columns):
                    out.rows_b[first_b + b * step_b, :] = n_a + 1
                highest.words[:] = 0
            for a in range(n_a + 1):
                if single:
                    opportunity_single(up, right, own, a, columns, labels, mixes, row)
                else:
                    opportunity_several(up, right, own, a, columns, labels, mixes, row)
                if compact:
                    monotone &= thresholds_along_row(
                        row.a, 0, columns, columns, out.rows_a, slab_a + a * (t - n_a + 1) + n_b
                    )
                    monotone &= thresholds_across_rows(row.b, 0, columns, a, highest, out.rows_b, first_b, step_b)
                else:
                    out.cells_a[cell : cell + columns] = row.a.level[:columns]
                    out.cells_b[cell : cell + columns] = row.b.level[:columns]
                    cell += columns
                for b in range(columns):
                    own[a, b] = row.value[b]
        slab_a += (n_a + 1) * (t - n_a + 1)
    return monotone


@compile_kernel(nogil=True, error_model="numpy", internal=True)
def put_level(table, position, level, bits, per_byte, follow):
    """Store a level in its byte."""
    level = level if level != DEAD_LEVEL else np.uint8(follow)
    table[position // per_byte] |= np.uint8(level << (position % per_byte * bits))


@compile_kernel(nogil=True, error_model="numpy")
def pack_levels(table, start, levels, bits, follow):
    """Store levels with a number of bits each, the lowest first, from position ``start`` of a zeroed table on.

    Dead states get the level ``follow``.
    """
    # Several levels share a byte: position p is in byte p // per_byte, at bit p % per_byte * bits. Layers are stored
    # from the last one backwards, so the bytes at either end may hold levels of the layer after.
    per_byte = 8 // bits
    size = len(levels)
    # Up to the first whole byte, whole bytes, and the rest: most of it without a branch.
    head = min(-start % per_byte, size)
    whole_bytes = (size - head) // per_byte
    for i in range(head):
        put_level(table, start + i, levels[i], bits, per_byte, follow)
    first_byte = (start + head) // per_byte
    if bits == 2:
        # Four in a byte, without an inner loop: the compiler takes many bytes at once.
        for byte in range(whole_bytes):
            i = head + 4 * byte
            level_1 = levels[i] if levels[i] != DEAD_LEVEL else follow
            level_2 = levels[i + 1] if levels[i + 1] != DEAD_LEVEL else follow
            level_3 = levels[i + 2] if levels[i + 2] != DEAD_LEVEL else follow
            level_4 = levels[i + 3] if levels[i + 3] != DEAD_LEVEL else follow
            table[first_byte + byte] = np.uint8(level_1 | level_2 << 2 | level_3 << 4 | level_4 << 6)
    else:
        for byte in range(whole_bytes):
            gathered = np.uint8(0)
            for place in range(per_byte):
                level = levels[head + byte * per_byte + place]
                gathered |= np.uint8((level if level != DEAD_LEVEL else np.uint8(follow)) << (place * bits))
            table[first_byte + byte] = gathered
    for i in range(head + whole_bytes * per_byte, size):
        put_level(table, start + i, levels[i], bits, per_byte, follow)


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
    """Count the outcomes of open labels from which a fair end is reachable, after either decision on a group.

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

    States are ordered by the number of seen people, then by ``n_a``: ``start[n_a, n_b] + a * (n_b + 1) + b``. Only
    states with more seen people are read after this one, and those are not overwritten yet.
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
