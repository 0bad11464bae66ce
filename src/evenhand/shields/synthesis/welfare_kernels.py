"""Compiled sweep over the counters of one group.

One layer is overwritten in place: ``values[n(n+1)/2 + a]`` is the minimum expected future cost of this group after
``n`` people, ``a`` of them accepted. A step reads ``n`` (the next person is of another group) and ``n + 1``, so that an
ascending sweep reads no overwritten value.
"""

from __future__ import annotations

import numpy as np

from evenhand.core.kernels import compile_kernel


@compile_kernel(error_model="numpy")
def welfare_level(rejected, accepted, rises):
    """Return the position of the best level (0 rejects everyone), given the values after either decision."""
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
    """Compute the expected value of a step at a level, times the probability of the group."""
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
def value_before_label(stay, following, labels):
    """Compute the value after a decision whose label is open: only label 1 counts."""
    return labels[0] * stay + labels[1] * following if labels[0] > 0.0 else following


@compile_kernel(error_model="numpy")
def sweep_welfare(horizon, values, forbidden, checked, other_groups, mix, labels, levels):
    """Compute the minimum expected cost of one group over the horizon.

    Args:
        values: Values of the ends, ((T+1)(T+2)/2,), infinite if forbidden; overwritten.
        forbidden: Counters that are forbidden at checks, ((T+1)(T+2)/2,).
        checked: Whether each time before the end is checked, (T,).
        other_groups: Probability that the next person is of another group.
        mix: Step of the group, see `StepMix`.
        labels: Probability of either label, (2,). That of label 0 is 0 if everyone counts.
        levels: Output for the levels, (T(T+1)(T+2)/6,) int8: for each time t and counters (n, a), n <= t. If empty,
            none are stored.
    """
    # v_t(n, a) = P(g) * step(v_{t+1}(n + 1, a or a + 1)) + (1 - P(g)) * v_{t+1}(n, a). The bounds of each group are
    # independent, so that expected costs add up and each group has its own table.
    half = len(mix.rises) // 2
    for t in range(horizon - 1, -1, -1):
        layer = t * (t + 1) * (t + 2) // 6
        for n in range(t + 1):
            start, next_start = n * (n + 1) // 2, (n + 1) * (n + 2) // 2
            for a in range(n + 1):
                stay = values[start + a]
                rejected = value_before_label(stay, values[next_start + a], labels)
                accepted = value_before_label(stay, values[next_start + a + 1], labels)
                j = welfare_level(rejected, accepted, mix.rises)
                if len(levels):
                    levels[layer + start + a] = j - half
                values[start + a] = welfare_step_value(rejected, accepted, j, mix) + other_groups * stay
                if checked[t] and forbidden[start + a]:
                    values[start + a] = np.inf
    return values[0]
