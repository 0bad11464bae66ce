"""Compiled sweeps where, at every step, the probabilities are the worst that their ranges allow.

As ``synthesis.kernels``, with the levels of every state written out: a maximum over probabilities does not keep the
value submodular, so that thresholds might not store them.
"""

from __future__ import annotations

import numpy as np

from evenhand.kernels import compile_kernel


@compile_kernel(error_model="numpy")
def worst_step_value(rejected, accepted, low, high):
    """Return the larger of a step's expected values at either end of the group's acceptance rate, and the level."""
    # The level depends on V- - V+ and the costs, not on how often anything comes. For a fixed level the value is linear
    # in the rate, so its maximum over a range of rates is at an end.
    j = welfare_level(rejected, accepted, low.rises)
    return max(welfare_step_value(rejected, accepted, j, low), welfare_step_value(rejected, accepted, j, high)), j


@compile_kernel(error_model="numpy")
def worst_label_value(stay, after, labels):
    """Return the larger of the values after a decision at either end of the rate of label 1; ``labels`` (2, 2)."""
    # P(0) * V(stay) + P(1) * V(after) is linear in P(1): its maximum over a range is at an end.
    return max(labels[0, 0] * stay + labels[0, 1] * after, labels[1, 0] * stay + labels[1, 1] * after)


@compile_kernel(error_model="numpy")
def worst_group_value(value_a, value_b, rates):
    """Return the larger of the values at either end of the rate of group a; ``rates`` (2, 2) by end and group."""
    # Linear in the rate of group a, as above.
    return max(rates[0, 0] * value_a + rates[0, 1] * value_b, rates[1, 0] * value_a + rates[1, 1] * value_b)


@compile_kernel(error_model="numpy")
def sweep_parity_robust(values, horizon, t, steps, rates, cells):
    """Compute the layer at time t from the one after it; ``values`` holds (n_a, a, b) with b up to horizon - n_a.

    Args:
        steps: of group a at the low and the high end of its acceptance rate, and of group b, see `StepMix`.
        rates: (2, 2) probability that each group comes, by end and group.
        cells: of either group, (states of the layer,) levels plus costs, filled.
    """
    low_a, high_a, low_b, high_b = steps
    cells_a, cells_b = cells
    # V_t(n_a, a, b) = max over p_a of p_a * step(V(n_a + 1, a or a + 1, b)) + p_b * step(V(n_a, a, b or b + 1)), with
    # n_b = t - n_a. In place: a value is read for the last time where it is overwritten.
    start, cell = 0, 0
    for n_a in range(t + 1):
        stride = horizon - n_a + 1
        after = start + (n_a + 1) * stride
        for a in range(n_a + 1):
            here = start + a * stride
            up = after + a * (stride - 1)
            for b in range(t - n_a + 1):
                value_a, j_a = worst_step_value(values[up + b], values[up + stride - 1 + b], low_a, high_a)
                value_b, j_b = worst_step_value(values[here + b], values[here + b + 1], low_b, high_b)
                values[here + b] = worst_group_value(value_a, value_b, rates)
                cells_a[cell], cells_b[cell] = j_a, j_b
                cell += 1
        start = after


@compile_kernel(error_model="numpy")
def sweep_opportunity_robust(values, planes, t, steps, rates, labels, cells):
    """As `sweep_parity_robust`, but only label 1 counts; ``labels`` (2, 2, 2) by group, end and label."""
    # Q_g(y) = max over P(z = 1 | g) of P(z = 0 | g) * V(unchanged) + P(z = 1 | g) * V(one more of g seen, y more
    # accepted); then as above. In place: the other planes that are read come later in this order.
    low_a, high_a, low_b, high_b = steps
    cells_a, cells_b = cells
    cell = 0
    for n_a in range(t + 1):
        for n_b in range(t - n_a + 1):
            width = n_b + 1
            for a in range(n_a + 1):
                here = planes[n_a, n_b] + a * width
                up = planes[n_a + 1, n_b] + a * width
                right = planes[n_a, n_b + 1] + a * (width + 1)
                for b in range(width):
                    stay = values[here + b]
                    value_a, j_a = worst_step_value(
                        worst_label_value(stay, values[up + b], labels[0]),
                        worst_label_value(stay, values[up + width + b], labels[0]),
                        low_a,
                        high_a,
                    )
                    value_b, j_b = worst_step_value(
                        worst_label_value(stay, values[right + b], labels[1]),
                        worst_label_value(stay, values[right + b + 1], labels[1]),
                        low_b,
                        high_b,
                    )
                    values[here + b] = worst_group_value(value_a, value_b, rates)
                    cells_a[cell], cells_b[cell] = j_a, j_b
                    cell += 1


# Compiled sweep over the counters of one group alone: how many were seen, and how many of them accepted.
#
# One layer, overwritten in place: ``values[n(n+1)/2 + a]`` is what is still to be paid for this group when ``n`` of it
# were seen and ``a`` accepted. A step reads ``n`` itself (the next individual is of another group) and ``n + 1``, so
# that an ascending sweep reads nothing that it overwrote.


@compile_kernel(error_model="numpy")
def welfare_level(rejected, accepted, rises):
    """Return the position among the levels, 0 rejecting everybody, given the values after either decision."""
    if rejected == np.inf and accepted == np.inf:
        return len(rises) // 2
    if rejected == np.inf:
        return len(rises)
    if accepted == np.inf:
        return 0
    # Level j is best where rises[j - 1] < V- - V+ <= rises[j]; ``rises`` increase.
    gain = rejected - accepted
    j = 0
    while j < len(rises) and gain > rises[j]:
        j += 1
    return j


@compile_kernel(error_model="numpy")
def welfare_step_value(rejected, accepted, j, mix):
    """Return the expected value of a step at a level, times the probability that the group comes."""
    # accept_j * V+ + reject_j * V- + cost_j. An infinite value has probability 0 at such a level: leaving it out avoids
    # 0 * infinity.
    if rejected == np.inf and accepted == np.inf:
        return np.inf
    if rejected == np.inf:
        return mix.accept[j] * accepted + mix.cost[j]
    if accepted == np.inf:
        return mix.reject[j] * rejected + mix.cost[j]
    return mix.accept[j] * accepted + mix.reject[j] * rejected + mix.cost[j]


@compile_kernel(error_model="numpy")
def value_before_label(stay, after, labels):
    """Return the value after a decision whose label is open: only label 1 counts."""
    return labels[0] * stay + labels[1] * after if labels[0] > 0.0 else after


@compile_kernel(error_model="numpy")
def sweep_welfare(horizon, values, forbidden, checked, others, mix, labels, levels):
    """Return the least expected cost of one group over the horizon.

    Args:
        values: ((T+1)(T+2)/2,) what an end is worth, infinite where it is forbidden; overwritten.
        forbidden: as long, counters that must not be at a time that is checked.
        checked: (T,) which times before the end are.
        others: probability that the next individual is of another group.
        mix: the group's step, see `StepMix`.
        labels: (2,) probability of either label; that of label 0 is 0 where everybody counts.
        levels: (T(T+1)(T+2)/6,) int8, filled: for each time t and counters (n, a), n <= t; empty: not wanted.
    """
    # v_t(n, a) = P(g) * step(v_{t+1}(n + 1, a or a + 1)) + (1 - P(g)) * v_{t+1}(n, a). Groups with bounds of their own
    # do not touch each other, so expected costs of the groups add up, and each has a table of its own.
    half = len(mix.rises) // 2
    for t in range(horizon - 1, -1, -1):
        layer = t * (t + 1) * (t + 2) // 6
        for n in range(t + 1):
            here, after = n * (n + 1) // 2, (n + 1) * (n + 2) // 2
            for a in range(n + 1):
                stay = values[here + a]
                rejected = value_before_label(stay, values[after + a], labels)
                accepted = value_before_label(stay, values[after + a + 1], labels)
                j = welfare_level(rejected, accepted, mix.rises)
                if len(levels):
                    levels[layer + here + a] = j - half
                values[here + a] = welfare_step_value(rejected, accepted, j, mix) + others * stay
                if checked[t] and forbidden[here + a]:
                    values[here + a] = np.inf
    return values[0]
