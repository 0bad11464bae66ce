"""How much of a box lies where one additive function is above, below or between thresholds: proved lower bounds.

The function is a sum of independent terms, one per attribute. Some attributes are enumerated exactly, all their joint
values; the sum of the others is put on a grid, every term rounded down, and convolved. Rounding can only lose mass: a
sum on the grid is at most the true one, and falls short of it by less than a step per attribute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.core.kernels import compile_kernel, new_arrays
from evenhand.core.typing import Floats, Integers

MAX_EXACT_VALUES = 2048
"""Joint values enumerated exactly, at most."""
GRID_STEPS = 1024
"""Steps of the grid."""
RELATIVE_MASS_ERROR = 1e-11
"""Relative error of a mass: a sum of at most a million products of shares, each off by a few roundings."""


class SumDistribution(NamedTuple):
    """Arrays that a thread works in.

    Attributes:
        value, mass: the different values of each attribute's term and how likely they are, attribute after attribute.
        start, number: where an attribute's are.
        joint, weight: sums of the enumerated attributes' values, and how likely they are.
        grid, other: the distribution of the sum of the rest, in steps above its least value.
    """

    value: Floats
    mass: Floats
    start: Integers
    number: Integers
    least: Floats
    range: Floats
    joint: Floats
    weight: Floats
    grid: Floats
    other: Floats


def sum_distribution_for(attributes: int, cells: int) -> SumDistribution:
    """Allocate work arrays for attributes with ``cells`` cells in total."""
    return new_arrays(
        SumDistribution,
        {
            "value mass": cells + 1,
            "start number least range": attributes + 1,
            "joint weight": MAX_EXACT_VALUES,
            "grid other": 2 * GRID_STEPS + 2,
        },
    )


@compile_kernel(internal=True, nogil=True)
def collect_values(t, effect, share, offsets, lo, hi):
    """Collect the different values of every term that varies in the box.

    Returns:
        The number of these terms, and the sum of the others.
    """
    # Neighbouring cells with the same value are one; a term with a single value is a number, and not random at all.
    terms = size = 0
    constant = 0.0
    for i in range(len(lo)):
        begin = size
        for c in range(offsets[i] + lo[i], offsets[i] + hi[i] + 1):
            mass = share[c + 1] - share[c]
            if mass <= 0:
                continue
            if size > begin and t.value[size - 1] == effect[c]:
                t.mass[size - 1] += mass
            else:
                t.value[size] = effect[c]
                t.mass[size] = mass
                size += 1
        if size - begin == 1:
            constant += t.value[begin]
            size = begin
        elif size > begin:
            t.start[terms] = begin
            t.number[terms] = size - begin
            t.least[terms] = t.value[begin:size].min()
            t.range[terms] = t.value[begin:size].max() - t.least[terms]
            terms += 1
    return terms, constant


@compile_kernel(internal=True, nogil=True)
def fill_distribution(t, terms, constant):
    """Put the distribution of the sum into ``t``.

    Returns:
        How many joint values are enumerated; of the rest: how many terms, their least sum, step and last index of the
        grid.
    """
    # Enumerate where the grid would lose most for the work: its rounding goes by the range of a term, and a term with n
    # values doubles the joint values log2(n) times.
    chosen = np.zeros(terms, np.bool_)
    number = 1
    while True:
        best, pick = 0.0, -1
        for s in range(terms):
            benefit = t.range[s] / np.log2(t.number[s] + 0.0)
            if not chosen[s] and number * t.number[s] <= MAX_EXACT_VALUES and benefit > best:
                best, pick = benefit, s
        if pick < 0:
            break
        chosen[pick] = True
        number *= t.number[pick]
    # Invariant: joint[k] and weight[k] for k < size are the sums of the listed terms and their probabilities. The last
    # value first, so that the sums to be added to are overwritten last.
    t.joint[0] = constant
    t.weight[0] = 1.0
    size = 1
    for s in range(terms):
        if chosen[s]:
            count, start = t.number[s], t.start[s]
            for a in range(count - 1, -1, -1):
                for k in range(size):
                    t.joint[a * size + k] = t.joint[k] + t.value[start + a]
                    t.weight[a * size + k] = t.weight[k] * t.mass[start + a]
            size *= count
    unlisted, total, lowest = 0, 0.0, 0.0
    for s in range(terms):
        if not chosen[s]:
            unlisted += 1
            total += t.range[s]
            lowest += t.least[s]
    t.grid[0] = 1.0
    if unlisted == 0:
        return size, 0, 0.0, 1.0, 0
    # Each of the rest terms is rounded down by less than a step, so that with G the sum on the grid least + G * step <=
    # S < least + (G + rest) * step. Invariant: grid[j] is P(G = j) for the convolved terms. Every term left has at
    # least two values, so the step is greater than 0. The narrowest are convolved first, while the grid is short.
    step = total / GRID_STEPS
    steps = 0
    for _ in range(unlisted):
        pick = -1
        for s in range(terms):
            if not chosen[s] and (pick < 0 or t.range[s] < t.range[pick]):
                pick = s
        chosen[pick] = True
        start = t.start[pick]
        reach = int(t.range[pick] / step)
        t.other[: steps + reach + 1] = 0.0
        for a in range(t.number[pick]):
            shift = int((t.value[start + a] - t.least[pick]) / step)
            mass = t.mass[start + a]
            for j in range(steps + 1):
                t.other[shift + j] += mass * t.grid[j]
        steps += reach
        t.grid[: steps + 1] = t.other[: steps + 1]
    # From here on grid[j] is P(G >= j).
    for j in range(steps - 1, -1, -1):
        t.grid[j] += t.grid[j + 1]
    return size, unlisted, lowest, step, steps


@compile_kernel(internal=True, nogil=True)
def share_above(t, limit, size, unlisted, lowest, step, steps):
    """Return the share of the box where the sum is greater than a limit, at least."""
    # P(S > limit) >= P(G >= floor(room / step) + 1), by the lower end of S.
    # One summand for each joint value k of the enumerated terms, which are independent of the rest.
    share = 0.0
    for k in range(size):
        room = limit - t.joint[k] - lowest
        if room < 0:
            share += t.weight[k]
        elif unlisted > 0 and room / step < steps:
            share += t.weight[k] * t.grid[int(room / step) + 1] * (1 - RELATIVE_MASS_ERROR)
    return share


@compile_kernel(internal=True, nogil=True)
def share_below(t, limit, size, unlisted, lowest, step, last):
    """Return the share of the box where the sum is smaller than a limit, at least."""
    # P(S < limit) >= P(G <= room / step - rest) = 1 - P(G > that), by the upper end of S.
    share = 0.0
    for k in range(size):
        room = limit - t.joint[k] - lowest
        if room <= 0:
            continue
        if unlisted == 0:
            share += t.weight[k]
            continue
        steps = room / step - unlisted
        if steps >= last:
            share += t.weight[k]
        elif steps >= 0:
            share += t.weight[k] * max(0.0, 1 - t.grid[int(steps) + 1] * (1 + RELATIVE_MASS_ERROR))
    return share


@compile_kernel(internal=True, nogil=True)
def share_between(t, low, high, size, unlisted, lowest, step, last):
    """Return the share of the box where the sum is greater than one limit and smaller than another, at least."""
    # P(low < S < high) >= P(S > low) - P(S >= high), the first from below and the second from above.
    share = 0.0
    for k in range(size):
        room, upper = low - t.joint[k] - lowest, high - t.joint[k] - lowest
        if upper <= 0:
            continue
        if unlisted == 0:
            share += t.weight[k] if room < 0 else 0.0
            continue
        over = 1.0
        if room >= 0:
            over = t.grid[int(room / step) + 1] if room / step < last else 0.0
        steps = upper / step - unlisted
        if steps < 0:
            continue
        beyond = t.grid[int(steps) + 1] if steps < last else 0.0
        share += t.weight[k] * max(0.0, over * (1 - RELATIVE_MASS_ERROR) - beyond * (1 + RELATIVE_MASS_ERROR))
    return share
