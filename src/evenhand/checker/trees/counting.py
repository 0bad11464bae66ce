"""Count the mass of a box for which an additive function is within limits, in integers (compiled).

The joint values of some attributes are enumerated. The sum of the other terms is tabulated on a grid, to which every
term is rounded down, so a sum of n terms is too low by at most n times (a step - 1). Masses are integers, with ``ALL``
for the whole population. Each is rounded down, so their sums are lower bounds.
"""

from __future__ import annotations

import numpy as np

from evenhand.checker.kernels import jit
from evenhand.checker.trees.bounds import FAR, copy_row
from evenhand.checker.trees.forest import LISTED, STEPS

ALL: int = 1 << 60
"""Mass of the whole population."""
HALF_BITS = 30
DOWN = 1 - 2.0**-48
"""Factor that covers the rounding when a mass is converted to a share."""


@jit
def multiply(a, b):
    """Multiply two masses; the result is at most three units too small."""
    mask = (1 << HALF_BITS) - 1
    return (
        (a >> HALF_BITS) * (b >> HALF_BITS)
        + (((a >> HALF_BITS) * (b & mask)) >> HALF_BITS)
        + (((a & mask) * (b >> HALF_BITS)) >> HALF_BITS)
    )


@jit
def share_of(part, total):
    """Compute the share of a part, rounded down unless it is 1."""
    return ALL if part == total else int(float(part) / float(total) * float(ALL) * DOWN)


@jit
def collect_terms(f, w, m):
    """Collect the different terms of every axis of a margin's additive function.

    Returns:
        Number of axes with several terms, and the sum of the other terms.
    """
    axes = size = constant = 0
    for i in range(len(f.cell) - 1):
        at, low, high = f.cell[i], w.low[i], w.high[i]
        begin = size
        first = low
        small, large = FAR, -FAR
        for c in range(low, high + 1):
            # Neighbours with the same term are merged.
            if c < high and w.effect[m, at + c + 1] == w.effect[m, at + c]:
                continue
            w.value[size] = w.effect[m, at + c]
            small, large = min(small, w.value[size]), max(large, w.value[size])
            masses = at + i
            w.mass[size] = share_of(
                f.before[masses + c + 1] - f.before[masses + first],
                f.before[masses + high + 1] - f.before[masses + low],
            )
            size += 1
            first = c + 1
        if size - begin == 1:
            constant += w.value[begin]
            size = begin
        else:
            w.start[axes] = begin
            w.number[axes] = size - begin
            w.bottom[axes] = small
            w.span[axes] = large - small
            axes += 1
    return axes, constant


@jit
def list_sums(w, axes, constant):
    """Enumerate the joint values of some axes in ``w.joint``, and tabulate the sum of the others on a grid.

    Returns:
        Number of joint values; for the other axes, their number, smallest sum, step, and number of steps.
    """
    # Axes with the largest loss on the grid per number of values are listed first. w.number is negative for used axes.
    size = 1
    w.joint[0] = constant
    w.weight[0] = ALL
    while True:
        best, pick = 0.0, -1
        for s in range(axes):
            n = w.number[s]
            if n > 0 and size * n <= LISTED:
                benefit = float(w.span[s]) / np.log2(float(n))
                if benefit > best:
                    best, pick = benefit, s
        if pick < 0:
            break
        start, n = w.start[pick], w.number[pick]
        # The last value comes first, so that no sum is overwritten before it is read.
        for a in range(n - 1, -1, -1):
            for k in range(size):
                w.joint[a * size + k] = w.joint[k] + w.value[start + a]
                w.weight[a * size + k] = multiply(w.weight[k], w.mass[start + a])
        size *= n
        w.number[pick] = -n
    unlisted = lowest = total = 0
    for s in range(axes):
        if w.number[s] > 0:
            unlisted += 1
            lowest += w.bottom[s]
            total += w.span[s]
    step = total // STEPS + 1
    w.grid[0] = ALL
    top = 0
    # Invariant: grid[j] is the mass of people whose rounded terms sum to j steps.
    for _ in range(unlisted):
        pick, narrowest = -1, FAR
        for s in range(axes):
            if w.number[s] > 0 and w.span[s] < narrowest:
                pick, narrowest = s, w.span[s]
        start, n, smallest = w.start[pick], w.number[pick], w.bottom[pick]
        reach = narrowest // step
        for j in range(top + reach + 1):
            w.other[j] = 0
        for a in range(n):
            shift = (w.value[start + a] - smallest) // step
            for j in range(top + 1):
                w.other[shift + j] += multiply(w.mass[start + a], w.grid[j])
        top += reach
        copy_row(w.grid, w.other, top + 1)
        w.number[pick] = -n
    # Now grid[j] becomes the mass of sums of fewer than j steps.
    running = 0
    for j in range(top + 1):
        running, w.grid[j] = running + w.grid[j], running
    w.grid[top + 1] = running
    return size, unlisted, lowest, step, top + 1


@jit
def mass_between(w, above, below, sums):
    """Compute a lower bound on the mass of people whose sum is above one limit and below another."""
    size, unlisted, lowest, step, steps = sums
    mass = 0
    for k in range(size):
        low, high = above - w.joint[k] - lowest, below - w.joint[k] - lowest - unlisted * (step - 1)
        # least + G * step > above - joint, and least + (G + rest) * step - rest < below - joint.
        begin = 0 if low < 0 else low // step + 1
        end = 0 if high <= 0 else (high - 1) // step + 1
        end = min(end, steps)
        if begin < end:
            mass += multiply(w.weight[k], w.grid[end] - w.grid[begin])
    return mass


@jit
def none_outside(w, above, below, sums):
    """Check whether all joint values are listed and between two limits."""
    size, unlisted = sums[0], sums[1]
    if unlisted > 0:
        return False
    inside = True
    for k in range(size):
        inside = inside and above < w.joint[k] < below
    return inside


@jit
def count_shares(f, w):
    """Compute the shares of the box that the bounds prove fair and unfair, as parts of ``ALL``."""
    margins, assignments = w.least.shape
    fair = unfair = 0
    for label in range(f.labels):
        # Label k must win all its margins, so the mass that it does not win is subtracted for each.
        w.wins[label] = ALL
    for m in range(margins):
        lowest = highest = w.least[m, 0]
        smallest = largest = w.most[m, 0]
        for p in range(assignments):
            lowest, highest = min(lowest, w.least[m, p]), max(highest, w.least[m, p])
            smallest, largest = min(smallest, w.most[m, p]), max(largest, w.most[m, p])
        axes, constant = collect_terms(f, w, m)
        sums = list_sums(w, axes, constant)
        # Masses of the second label of the pair under every assignment, and of the first.
        second_label = mass_between(w, f.above[m] - lowest, FAR, sums)
        first_label = mass_between(w, -FAR, f.below[m] - largest, sums)
        w.wins[f.pairs[m, 1]] += second_label - ALL
        w.wins[f.pairs[m, 0]] += first_label - ALL
        if margins == 1 and f.least == 2:
            # Mass of the second label under one assignment and the first under another.
            unfair = mass_between(w, f.above[m] - highest, f.below[m] - smallest, sums)
            if none_outside(w, f.above[m] - highest, f.below[m] - smallest, sums):
                return 0, ALL
            if sums[1] == 0 and unfair == 0 and _all_same(w, f.above[m] - lowest, f.below[m] - largest, sums[0]):
                return ALL, 0
    for label in range(f.labels):
        fair += max(0, w.wins[label])
    return fair, unfair


@jit
def _all_same(w, above, below, size):
    """Check whether every enumerated joint value is decided for one label under all assignments."""
    decided = True
    for k in range(size):
        decided = decided and (w.joint[k] > above or w.joint[k] < below)
    return decided
