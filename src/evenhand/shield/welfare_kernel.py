"""Compiled sweep over the counters of one group alone: how many were seen, and how many of them accepted.

One layer, overwritten in place: ``values[n(n+1)/2 + a]`` is what is still to be paid for this group when ``n`` of it
were seen and ``a`` accepted. A step reads ``n`` itself (the next individual is of another group) and ``n + 1``, so that
an ascending sweep reads nothing that it overwrote.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def level_of(rejected, accepted, rises):
    """The position among the levels, 0 rejecting everybody, given the values after either decision."""
    if rejected == np.inf and accepted == np.inf:
        return len(rises) // 2
    if rejected == np.inf:
        return len(rises)
    if accepted == np.inf:
        return 0
    gain = rejected - accepted
    j = 0
    while j < len(rises) and gain > rises[j]:
        j += 1
    return j


@njit(cache=True, error_model="numpy")
def step(rejected, accepted, j, mix):
    """The expected value of a step at a level, times the probability that the group comes."""
    if rejected == np.inf and accepted == np.inf:
        return np.inf
    if rejected == np.inf:
        return mix.accept[j] * accepted + mix.cost[j]
    if accepted == np.inf:
        return mix.reject[j] * rejected + mix.cost[j]
    return mix.accept[j] * accepted + mix.reject[j] * rejected + mix.cost[j]


@njit(cache=True, error_model="numpy")
def counted(stay, after, labels):
    """The value after a decision whose label is open: only label 1 counts."""
    return labels[0] * stay + labels[1] * after if labels[0] > 0.0 else after


@njit(cache=True, error_model="numpy")
def sweep(horizon, values, forbidden, checked, others, mix, labels, levels):
    """The least expected cost of one group over the horizon.

    Args:
        values: ((T+1)(T+2)/2,) what an end is worth, infinite where it is forbidden; overwritten.
        forbidden: as long, counters that must not be at a time that is checked.
        checked: (T,) which times before the end are.
        others: probability that the next individual is of another group.
        mix: the group's step, see ``synthesis.kernels.Mix``.
        labels: (2,) probability of either label; that of label 0 is 0 where everybody counts.
        levels: (T(T+1)(T+2)/6,) int8, filled: for each time t and counters (n, a), n <= t; empty: not wanted.
    """
    half = len(mix.rises) // 2
    for t in range(horizon - 1, -1, -1):
        layer = t * (t + 1) * (t + 2) // 6
        for n in range(t + 1):
            here, after = n * (n + 1) // 2, (n + 1) * (n + 2) // 2
            for a in range(n + 1):
                stay = values[here + a]
                rejected = counted(stay, values[after + a], labels)
                accepted = counted(stay, values[after + a + 1], labels)
                j = level_of(rejected, accepted, mix.rises)
                if len(levels):
                    levels[layer + here + a] = j - half
                values[here + a] = step(rejected, accepted, j, mix) + others * stay
                if checked[t] and forbidden[here + a]:
                    values[here + a] = np.inf
    return values[0]
