"""Compiled steps from one layer of states to the next, with the probability of every state.

The states of a layer are sorted by (n_a, n_b, a, b), as in packed tables. Without labels n_a + n_b is the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers
from evenhand.shields.policy.tables import plane_offset, threshold_row


class WalkInputs(NamedTuple):
    """Inputs that are the same for every layer.

    Attributes:
        come: Probability of each group, (2,).
        label: Probability of label 1, (2,).
        accept: Probability of an acceptance at each level, (2, levels).
        forced: Probability of an override, to accept and to reject, (2, levels, 2).
        paid: Expected cost of the overrides, (2, levels).
        start: Counters of the past, (4,).
        ratio: Whether the bias is 1 - min / max instead of a difference.
        limit: Absolute difference beyond which people are counted in the outermost bins.
    """

    come: Floats
    label: Floats
    accept: Floats
    forced: Floats
    paid: Floats
    start: Integers
    ratio: bool
    limit: float


_plane_offset, _threshold_row = (compile_kernel(internal=True)(rule) for rule in (plane_offset, threshold_row))


@compile_kernel()
def unpack_levels(rows_a, rows_b, t, labelled, costs, out):
    """Compute the level plus the number of costs of every state of a layer from its thresholds; ``out`` is (2,
    states).
    """
    # Levels rise with the count of the other group, and a row stores the counts at which they rise: the level of a
    # state is the number of thresholds that its count has passed.
    at = 0
    for n_a in range(t + 1):
        for n_b in range(0 if labelled else t - n_a, t - n_a + 1):
            for a in range(n_a + 1):
                row_a = _threshold_row(t, labelled, n_a, a, n_b)
                for b in range(n_b + 1):
                    row_b = _threshold_row(t, labelled, n_b, b, n_a)
                    level_a = level_b = 0
                    for i in range(2 * costs):
                        level_a += b >= rows_a[row_a, i]
                        level_b += a >= rows_b[row_b, i]
                    out[0, at] = level_a
                    out[1, at] = level_b
                    at += 1


@compile_kernel()
def advance_layer(t, labelled, layer, following, levels, inputs, sums, counts):
    """Compute the next layer from this one.

    Args:
        t: Time of the layer.
        labelled: Whether only people with label 1 are counted.
        layer: Probabilities, (states,). Negative: no run reaches the state.
        following: Next layer, filled with -1.
        levels: Levels plus the number of costs, (2, states).
        inputs: See `WalkInputs`.
        sums: Sums of the probabilities of a person and of both kinds of overrides, (bins, 2, 3), which are increased.
        counts: Numbers of reached states and of states with overrides on the first, the second or any group, (4,),
            which are increased.

    Returns:
        Expected cost of the overrides at this time.
    """
    # p'(s') = sum over states s and arrivals of p(s) * P(arrival) * P(decision): group g comes with come_g, counts with
    # label_g, and is accepted with accept_g(level). Invariant: a layer's probabilities add up to one; a state stays at
    # -1 until some run reaches it, even with probability 0.
    come, label, accept, forced, paid, start, ratio, limit = inputs
    cost = 0.0
    accepting = np.zeros(2)
    bins = sums.shape[0]
    top = accept.shape[1] - 1
    at = 0
    for n_a in range(t + 1):
        for n_b in range(0 if labelled else t - n_a, t - n_a + 1):
            to_a = _plane_offset(t + 1, labelled, n_a + 1, n_b)
            to_b = _plane_offset(t + 1, labelled, n_a, n_b + 1)
            # With labels, a person with label 0 changes no counter: the state stays in the same plane.
            to_none = _plane_offset(t + 1, labelled, n_a, n_b) if labelled else 0
            for a in range(n_a + 1):
                for b in range(n_b + 1):
                    probability = layer[at]
                    if probability < 0:
                        at += 1
                        continue
                    level_a, level_b = levels[0, at], levels[1, at]
                    at += 1
                    # Levels are stored with the number of costs added: level 0, the middle of the range, means that the
                    # recommendation is followed.
                    follow_a, follow_b = 2 * level_a == top, 2 * level_b == top
                    counts[0] += 1
                    counts[1] += not follow_a
                    counts[2] += not follow_b
                    counts[3] += not (follow_a and follow_b)

                    all_a, all_b = n_a + start[0], n_b + start[2]
                    rate_a = (a + start[1]) / all_a if all_a else 0.0
                    rate_b = (b + start[3]) / all_b if all_b else 0.0
                    gap = rate_a - rate_b
                    if ratio and gap != 0:
                        gap /= max(rate_a, rate_b)
                    # Bins of equal width over the possible gaps. A gap on the last edge belongs to the last bin.
                    place = int((gap + limit) / (2 * limit) * bins)
                    place = min(max(place, 0), bins - 1)
                    for group, level in ((0, level_a), (1, level_b)):
                        comes = probability * come[group]
                        sums[place, group, 0] += comes
                        for way in (0, 1):
                            sums[place, group, 1 + way] += comes * forced[group, level, way]
                        cost += comes * paid[group, level]
                        accepting[group] = accept[group, level]

                    # A person of group a: an acceptance moves the state by one row of b's.
                    index_a = to_a + a * (n_b + 1) + b
                    chance = probability * come[0] * label[0]
                    if level_a > 0:
                        add_probability(following, index_a + n_b + 1, chance * accepting[0])
                    if level_a < top:
                        add_probability(following, index_a, chance * (1 - accepting[0]))
                    index_b = to_b + a * (n_b + 2) + b
                    chance = probability * come[1] * label[1]
                    if level_b > 0:
                        add_probability(following, index_b + 1, chance * accepting[1])
                    if level_b < top:
                        add_probability(following, index_b, chance * (1 - accepting[1]))
                    if labelled:
                        none = probability * (come[0] * (1 - label[0]) + come[1] * (1 - label[1]))
                        add_probability(following, to_none + a * (n_b + 1) + b, none)
    return cost


@compile_kernel()
def add_probability(layer, at, chance):
    """Add probability to a state of the next layer. The state counts as reached even if it is 0."""
    layer[at] = max(layer[at], 0.0) + chance


@compile_kernel()
def count_unfair(layer, offset, n_a, n_b, low, high):
    """Count the reached states (n_a, n_b, ., .), which begin at ``offset``, and the unfair ones with their probability.

    Args:
        low, high: Range of the fair counts b, by a, (n_a + 1,).
    """
    # For each a the fair b are the whole numbers of an interval, because the bias falls and then rises along b.
    reached, wrong, chance = 0, 0, 0.0
    for a in range(n_a + 1):
        for b in range(n_b + 1):
            probability = layer[offset + a * (n_b + 1) + b]
            if probability >= 0:
                reached += 1
                if b < low[a] or b > high[a]:
                    wrong += 1
                    chance += probability
    return reached, wrong, chance
