"""Compiled sweeps where, at every step, the probabilities are the worst that their ranges allow.

As ``synthesis.kernels``, with the levels of every state written out: a maximum over probabilities does not keep the
value submodular, so that thresholds might not store them.
"""

from __future__ import annotations

from numba import njit

from evenhand.shield.welfare_kernel import level_of, step


@njit(cache=True, error_model="numpy")
def worst_step(rejected, accepted, low, high):
    """The larger of a step's expected values at either end of the group's acceptance rate, and the level."""
    j = level_of(rejected, accepted, low.rises)
    return max(step(rejected, accepted, j, low), step(rejected, accepted, j, high)), j


@njit(cache=True, error_model="numpy")
def worst_label(stay, after, labels):
    """The larger of the values after a decision at either end of the rate of label 1; ``labels`` (2, 2)."""
    return max(labels[0, 0] * stay + labels[0, 1] * after, labels[1, 0] * stay + labels[1, 1] * after)


@njit(cache=True, error_model="numpy")
def worst_group(value_a, value_b, rates):
    """The larger of the values at either end of the rate of group a; ``rates`` (2, 2) by end and group."""
    return max(rates[0, 0] * value_a + rates[0, 1] * value_b, rates[1, 0] * value_a + rates[1, 1] * value_b)


@njit(cache=True, error_model="numpy")
def parity(values, horizon, t, low_a, high_a, low_b, high_b, rates, cells_a, cells_b):
    """The layer at time t from the one after it; ``values`` holds (n_a, a, b) with b up to horizon - n_a."""
    start, cell = 0, 0
    for n_a in range(t + 1):
        stride = horizon - n_a + 1
        after = start + (n_a + 1) * stride
        for a in range(n_a + 1):
            here = start + a * stride
            up = after + a * (stride - 1)
            for b in range(t - n_a + 1):
                value_a, j_a = worst_step(values[up + b], values[up + stride - 1 + b], low_a, high_a)
                value_b, j_b = worst_step(values[here + b], values[here + b + 1], low_b, high_b)
                values[here + b] = worst_group(value_a, value_b, rates)
                cells_a[cell], cells_b[cell] = j_a, j_b
                cell += 1
        start = after


@njit(cache=True, error_model="numpy")
def opportunity(values, planes, t, low_a, high_a, low_b, high_b, rates, labels, cells_a, cells_b):
    """As `parity` where an individual counts only with label 1; ``labels`` (2, 2, 2) by group, end and label."""
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
                    value_a, j_a = worst_step(
                        worst_label(stay, values[up + b], labels[0]),
                        worst_label(stay, values[up + width + b], labels[0]),
                        low_a,
                        high_a,
                    )
                    value_b, j_b = worst_step(
                        worst_label(stay, values[right + b], labels[1]),
                        worst_label(stay, values[right + b + 1], labels[1]),
                        low_b,
                        high_b,
                    )
                    values[here + b] = worst_group(value_a, value_b, rates)
                    cells_a[cell], cells_b[cell] = j_a, j_b
                    cell += 1
