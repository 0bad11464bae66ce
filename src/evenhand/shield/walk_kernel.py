"""Compiled walks from one layer of states to the next, with the probability of every state.

The states of a layer lie by (n_a, n_b, a, b), as in packed tables; without labels n_a + n_b is the time.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def start_of(t, labelled, n_a, n_b):
    """Where the states (n_a, n_b, ., .) begin in the layer of time t."""
    if not labelled:
        return (t + 2) * n_a * (n_a + 1) // 2 - n_a * (n_a + 1) * (2 * n_a + 1) // 6
    rest = t - n_a
    whole = (t + 4) * (t + 3) * (t + 2) * (t + 1) // 24
    after = (rest + 4) * (rest + 3) * (rest + 2) * (rest + 1) // 24
    more = n_a * ((rest + 3) * (rest + 2) * (rest + 1) // 6)
    return whole - after - more + (n_a + 1) * n_b * (n_b + 1) // 2


@njit(cache=True)
def row_of(t, labelled, n, k, m):
    """Where the thresholds lie of a group with n seen and k accepted, m of the other seen, among those of time t."""
    if labelled:
        return (3 * t + 5 - 2 * n) * n * (n + 1) // 6 + k * (t - n + 1) + m
    return n * (n + 1) // 2 + k


@njit(cache=True)
def levels_of(rows_a, rows_b, t, labelled, costs, out):
    """Levels plus costs of every state of a layer, from the rows of thresholds of its time; out is (2, states)."""
    at = 0
    for n_a in range(t + 1):
        for n_b in range(0 if labelled else t - n_a, t - n_a + 1):
            for a in range(n_a + 1):
                row_a = row_of(t, labelled, n_a, a, n_b)
                for b in range(n_b + 1):
                    row_b = row_of(t, labelled, n_b, b, n_a)
                    level_a = level_b = 0
                    for i in range(2 * costs):
                        level_a += b >= rows_a[row_a, i]
                        level_b += a >= rows_b[row_b, i]
                    out[0, at] = level_a
                    out[1, at] = level_b
                    at += 1


@njit(cache=True)
def advance(
    t, labelled, layer, following, levels, come, label, accept, forced, paid, start, ratio, limit, seen, counts
):
    """From one layer to the next.

    Args:
        t: the time of the layer.
        labelled: whether only individuals with label 1 are counted.
        layer: (states,) probabilities; negative: no run gets there.
        following: the layer after, filled with -1.
        levels: (2, states) levels plus costs.
        come: (2,) probability of each group.
        label: (2,) probability of label 1.
        accept: (2, levels) probability that somebody of the group is accepted at the level.
        forced: (2, levels, 2) probability of an override, to accept and to reject.
        paid: (2, levels) expected cost of the overrides.
        start: counters carried over.
        ratio: whether the bias is 1 - min / max and not a difference.
        limit: differences beyond plus or minus this share the outermost bins.
        seen: (bins, 2, 3) is added to: probability that somebody of the group comes, and of overrides of either kind.
        counts: (4,) is added to: states reached, states where decisions on either group are overridden, on any.

    Returns:
        The expected cost of the overrides at this time.
    """
    cost = 0.0
    bins = seen.shape[0]
    top = accept.shape[1] - 1
    at = 0
    for n_a in range(t + 1):
        for n_b in range(0 if labelled else t - n_a, t - n_a + 1):
            to_a = start_of(t + 1, labelled, n_a + 1, n_b)
            to_b = start_of(t + 1, labelled, n_a, n_b + 1)
            to_none = start_of(t + 1, labelled, n_a, n_b) if labelled else 0
            for a in range(n_a + 1):
                for b in range(n_b + 1):
                    here = layer[at]
                    if here < 0:
                        at += 1
                        continue
                    level_a, level_b = levels[0, at], levels[1, at]
                    at += 1
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
                    place = int((gap + limit) / (2 * limit) * bins)
                    place = min(max(place, 0), bins - 1)
                    for group, level in ((0, level_a), (1, level_b)):
                        comes = here * come[group]
                        seen[place, group, 0] += comes
                        seen[place, group, 1] += comes * forced[group, level, 0]
                        seen[place, group, 2] += comes * forced[group, level, 1]
                        cost += comes * paid[group, level]

                    index_a = to_a + a * (n_b + 1) + b
                    chance = here * come[0] * label[0]
                    if level_a > 0:
                        add(following, index_a + n_b + 1, chance * accept[0, level_a])
                    if level_a < top:
                        add(following, index_a, chance * (1 - accept[0, level_a]))
                    index_b = to_b + a * (n_b + 2) + b
                    chance = here * come[1] * label[1]
                    if level_b > 0:
                        add(following, index_b + 1, chance * accept[1, level_b])
                    if level_b < top:
                        add(following, index_b, chance * (1 - accept[1, level_b]))
                    if labelled:
                        none = here * (come[0] * (1 - label[0]) + come[1] * (1 - label[1]))
                        add(following, to_none + a * (n_b + 1) + b, none)
    return cost


@njit(cache=True)
def add(layer, at, chance):
    """Give a state of the next layer a chance, which may be 0: it can then be reached all the same."""
    layer[at] = max(layer[at], 0.0) + chance


@njit(cache=True)
def unfair(layer, first, n_a, n_b, low, high):
    """Of the states (n_a, n_b, ., .), which begin at ``first``: reached, unfair among them, probability of those.

    Args:
        low, high: (n_a + 1,) counts b that are fair, by a.
    """
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
