"""Compiled walks from one layer of states to the next, with the probability of every state.

The states of a layer lie by (n_a, n_b, a, b), as in packed tables; without labels n_a + n_b is the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers


class WalkInputs(NamedTuple):
    """What is the same in every layer of a walk.

    Attributes:
        come: (2,) probability of each group.
        label: (2,) probability of label 1.
        accept: (2, levels) probability that somebody of the group is accepted at the level.
        forced: (2, levels, 2) probability of an override, to accept and to reject.
        paid: (2, levels) expected cost of the overrides.
        start: (4,) counters carried over.
        ratio: whether the bias is 1 - min / max and not a difference.
        limit: differences beyond plus or minus this share the outermost bins.
    """

    come: Floats
    label: Floats
    accept: Floats
    forced: Floats
    paid: Floats
    start: Integers
    ratio: bool
    limit: float


@compile_kernel()
def plane_offset(t, labelled, n_a, n_b):
    """Return where the states (n_a, n_b, ., .) begin in the layer of time t."""
    # Without labels n_b = t - n_a, and a plane has (n_a + 1)(n_b + 1) states: before it lie as many as the sum over k <
    # n_a of (k + 1)(t - k + 1).
    if not labelled:
        return (t + 2) * n_a * (n_a + 1) // 2 - n_a * (n_a + 1) * (2 * n_a + 1) // 6
    # With labels n_a + n_b <= t: C(t + 4, 4) states in all, of which C(r + 4, 4) + n_a C(r + 3, 3) have n_a or more,
    # with r = t - n_a; then the planes of this n_a with a smaller n_b.
    rest = t - n_a
    whole = (t + 4) * (t + 3) * (t + 2) * (t + 1) // 24
    after = (rest + 4) * (rest + 3) * (rest + 2) * (rest + 1) // 24
    more = n_a * ((rest + 3) * (rest + 2) * (rest + 1) // 6)
    return whole - after - more + (n_a + 1) * n_b * (n_b + 1) // 2


@compile_kernel()
def threshold_row(t, labelled, n, k, m):
    """Where the thresholds lie of a group with n seen and k accepted, m of the other seen, among those of time t."""
    # A row for each k <= n, and with labels for each m <= t - n too: before those of n lie the sum over i < n of (i +
    # 1)(t - i + 1) rows, or of i + 1.
    if labelled:
        return (3 * t + 5 - 2 * n) * n * (n + 1) // 6 + k * (t - n + 1) + m
    return n * (n + 1) // 2 + k


@compile_kernel()
def unpack_levels(rows_a, rows_b, t, labelled, costs, out):
    """Levels plus costs of every state of a layer, from the rows of thresholds of its time; out is (2, states)."""
    # Levels grow with the count of the other group, so a row of thresholds says from which count on each is reached:
    # the level of a state is how many thresholds its count has passed.
    at = 0
    for n_a in range(t + 1):
        for n_b in range(0 if labelled else t - n_a, t - n_a + 1):
            for a in range(n_a + 1):
                row_a = threshold_row(t, labelled, n_a, a, n_b)
                for b in range(n_b + 1):
                    row_b = threshold_row(t, labelled, n_b, b, n_a)
                    level_a = level_b = 0
                    for i in range(2 * costs):
                        level_a += b >= rows_a[row_a, i]
                        level_b += a >= rows_b[row_b, i]
                    out[0, at] = level_a
                    out[1, at] = level_b
                    at += 1


@compile_kernel()
def advance_layer(t, labelled, layer, following, levels, inputs, seen, counts):
    """Compute the next layer from this one.

    Args:
        t: the time of the layer.
        labelled: whether only individuals with label 1 are counted.
        layer: (states,) probabilities; negative: no run gets there.
        following: the layer after, filled with -1.
        levels: (2, states) levels plus costs.
        inputs: see `WalkInputs`.
        seen: (bins, 2, 3) is added to: probability that somebody of the group comes, and of overrides of either kind.
        counts: (4,) is added to: states reached, states where decisions on either group are overridden, on any.

    Returns:
        The expected cost of the overrides at this time.
    """
    # p'(s') = sum over states s and arrivals of p(s) * P(arrival) * P(decision): group g comes with come_g, counts with
    # label_g, and is accepted with accept_g(level). Invariant: a layer's probabilities add up to one; a state stays at
    # -1 until some run gets there, if only with probability 0.
    come, label, accept, forced, paid, start, ratio, limit = inputs
    cost = 0.0
    taken = np.zeros(2)
    bins = seen.shape[0]
    top = accept.shape[1] - 1
    at = 0
    for n_a in range(t + 1):
        for n_b in range(0 if labelled else t - n_a, t - n_a + 1):
            to_a = plane_offset(t + 1, labelled, n_a + 1, n_b)
            to_b = plane_offset(t + 1, labelled, n_a, n_b + 1)
            # With labels, somebody with label 0 changes no counter: time passes in the same plane.
            to_none = plane_offset(t + 1, labelled, n_a, n_b) if labelled else 0
            for a in range(n_a + 1):
                for b in range(n_b + 1):
                    here = layer[at]
                    if here < 0:
                        at += 1
                        continue
                    level_a, level_b = levels[0, at], levels[1, at]
                    at += 1
                    # Levels are stored with the number of costs added: the middle of the range, 0, means that the
                    # recommendation stands.
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
                    # Classes of equal width over the possible gaps; a gap on the last edge belongs to the last class.
                    place = int((gap + limit) / (2 * limit) * bins)
                    place = min(max(place, 0), bins - 1)
                    for group, level in ((0, level_a), (1, level_b)):
                        comes = here * come[group]
                        seen[place, group, 0] += comes
                        for way in (0, 1):
                            seen[place, group, 1 + way] += comes * forced[group, level, way]
                        cost += comes * paid[group, level]
                        taken[group] = accept[group, level]

                    # Somebody of group a: one more row of b's for an acceptance, the same place without it.
                    index_a = to_a + a * (n_b + 1) + b
                    chance = here * come[0] * label[0]
                    if level_a > 0:
                        add_probability(following, index_a + n_b + 1, chance * taken[0])
                    if level_a < top:
                        add_probability(following, index_a, chance * (1 - taken[0]))
                    index_b = to_b + a * (n_b + 2) + b
                    chance = here * come[1] * label[1]
                    if level_b > 0:
                        add_probability(following, index_b + 1, chance * taken[1])
                    if level_b < top:
                        add_probability(following, index_b, chance * (1 - taken[1]))
                    if labelled:
                        none = here * (come[0] * (1 - label[0]) + come[1] * (1 - label[1]))
                        add_probability(following, to_none + a * (n_b + 1) + b, none)
    return cost


@compile_kernel()
def add_probability(layer, at, chance):
    """Add probability to a state of the next layer; it may be 0, and the state counts as reached."""
    layer[at] = max(layer[at], 0.0) + chance


@compile_kernel()
def count_unfair(layer, first, n_a, n_b, low, high):
    """Of the states (n_a, n_b, ., .), which begin at ``first``: reached, unfair among them, probability of those.

    Args:
        low, high: (n_a + 1,) counts b that are fair, by a.
    """
    # For each a the fair b are the whole numbers of an interval, because the bias falls and then rises along b.
    reached, wrong, chance = 0, 0, 0.0
    for a in range(n_a + 1):
        for b in range(n_b + 1):
            here = layer[first + a * (n_b + 1) + b]
            if here >= 0:
                reached += 1
                if b < low[a] or b > high[a]:
                    wrong += 1
                    chance += here
    return reached, wrong, chance
