"""Compiled sweep over the counters of one group.

One layer is overwritten in place: ``values[n(n+1)/2 + a]`` is the minimum expected future cost of this group after
``n`` people, ``a`` of them accepted. A step reads ``n`` (the next person is of another group) and ``n + 1``, so that an
ascending sweep reads no overwritten value.
"""

from __future__ import annotations

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.shields.synthesis.kernels import several_costs_step


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
        labels: Probability of either label, (2,). The probability of label 0 is 0 if everyone counts.
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
                value, j = np.inf, half
                if rejected < np.inf or accepted < np.inf:
                    value, j = several_costs_step(rejected, accepted, mix, half)
                if len(levels):
                    levels[layer + start + a] = j - half
                values[start + a] = value + other_groups * stay
                if checked[t] and forbidden[start + a]:
                    values[start + a] = np.inf
    return values[0]
