"""Compiled sweep over the counters of one group alone: how many were seen, and how many of them accepted.

One layer, overwritten in place: ``values[n(n+1)/2 + a]`` is what is still to be paid for this group when ``n`` of it
were seen and ``a`` accepted. A step reads ``n`` itself (the next individual is of another group) and ``n + 1``, so that
an ascending sweep reads nothing that it overwrote.
"""

from __future__ import annotations

import numpy as np

from evenhand.core.kernels import compile_kernel


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
