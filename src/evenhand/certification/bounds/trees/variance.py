"""Prove a share of a box from the variance of its margin around a sum of functions of single attributes.

Let f_g be the margin under the assignments of group g, f the mean of the k groups, S a sum of functions of single
attributes with mean zero, and Z the largest |f_g - E f_g - S|. People are treated equally where all E f_g + S are
beyond the same threshold by more than Z; call this distance d(S). For the others, Z >= d(S), so that the integral of
d(S)^2 over them is at most E Z^2. Their probability is at most the largest sum of weights y_s <= P(S = s) for which the
sum of y_s d(s)^2 is at most E Z^2, and the smallest distances attain it.

By Minkowski, the root of E Z^2 is at most the root of E (f - E f - S)^2 plus that of 1 - 1/k times the sum of the
variances of f_g - f: the largest square of k numbers with sum zero is at most 1 - 1/k times the sum of their squares. S
consists of the main effects of f, rounded to a grid. The first expectation is the variance of the interactions, which
are orthogonal to all functions of one attribute, plus that of the rounding.

For two leaves, let a_i be the probability that attribute i agrees with both, divided by the product of the
probabilities that it agrees with each. The covariance of the leaves is the product of their probabilities times
(product of a_i) - 1. That of their interactions is the product of their probabilities times (product of a_i) - 1 - (sum
of a_i - 1). The products and sums are over the attributes that both leaves test; below two, there is no interaction.
"""

from __future__ import annotations

import math

import numpy as np

from evenhand.certification.bounds.trees.lists import (
    GRID,
    MAX_AXES,
    cells_between,
    jit,
    meet,
    next_run,
    range_weight,
)
from evenhand.certification.bounds.trees.tables import UNIT
from evenhand.certification.bounds.trees.tails import MAX_GROUPS


@jit
def describe_leaves(f, w, depth):
    """Compute the tested attributes of the listed leaves, their shares and probabilities; return their number or -1."""
    start, count, axes = w.start[depth], w.length[depth], 0
    for j in range(count):
        w.tested[j], w.likely[j] = 0, 1.0
    for i in range(len(w.lo)):
        lo, hi, tested = w.lo[i], w.hi[i], False
        cells, mass = cells_between(f, i, lo, hi), range_weight(f, i, lo, hi)
        for j in range(count):
            key = f.keys[i, w.leaf[start + j]]
            _, everything, weight = meet(f, i, key, lo, hi, cells)
            if not everything:
                if axes == MAX_AXES:
                    return -1
                tested = True
                w.tested[j] |= np.uint64(1) << np.uint64(axes)
                w.key[j, axes], w.share[j, axes] = key, weight / mass
                w.likely[j] *= weight / mass
        if tested:
            w.axis[axes] = i
            axes += 1
    for j in range(count):
        if w.likely[j] == 0.0:
            w.tested[j] = 0
    return axes


@jit
def pair_variances(f, w, axes, count, groups):
    """Sum the covariances of all pairs of leaves: of the interactions of f, and of the groups' differences from f."""
    interactions = differences = 0.0
    for a in range(axes):
        i = w.axis[a]
        w.cells[a], w.inverse[a] = cells_between(f, i, w.lo[i], w.hi[i]), 1 / range_weight(f, i, w.lo[i], w.hi[i])
    for j in range(count):
        row = row_differences = 0.0
        for k in range(j + 1):
            common, agree = w.tested[j] & w.tested[k], 0.0
            if common == 0:
                continue
            if w.portion[j] < 1 and w.portion[k] < 1:
                both = w.reached[j] & w.reached[k]
                while both:
                    both &= both - 1
                    agree += 1
                agree -= groups * w.portion[j] * w.portion[k]
            if common & (common - np.uint64(1)) == 0 and agree == 0.0:
                continue
            product, single = 1.0, 0.0
            for a in range(axes):
                if (common >> np.uint64(a)) & np.uint64(1):
                    i = w.axis[a]
                    weight, one, other = 0.0, w.key[j, a], w.key[k, a]
                    if f.is_set[i]:
                        part, octet = one & other & w.cells[a], 0
                        while part:
                            weight += f.set_weights[i, octet, part & np.uint64(255)]
                            part >>= np.uint64(8)
                            octet += 1
                    else:
                        half, upper = np.uint64(0xFFFFFFFF), min(one, other, w.cells[a]) >> np.uint64(32)
                        lower = max(one & half, other & half, w.cells[a] & half)
                        if lower <= upper:
                            weight = range_weight(f, i, np.int64(lower), np.int64(upper))
                    ratio = weight * w.inverse[a] / (w.share[j, a] * w.share[k, a])
                    product *= ratio
                    single += ratio - 1
            twice = 1 + (k < j)
            row += twice * w.portion[k] * w.term[k] * (product - 1 - single)
            row_differences += twice * agree * w.term[k] * (product - 1)
        interactions += row * w.portion[j] * w.term[j]
        differences += row_differences * w.term[j]
    return interactions, differences


@jit
def spread_effects(f, w, depth, axes):
    """Compute the distribution of S on a grid from the main effects of f.

    Returns:
        The number of values, the first value, their distance, and the variance of the rounding.
    """
    count, reach = w.length[depth], 0.0
    for a in range(axes):
        i = w.axis[a]
        at, hi = f.offsets[i], w.hi[i]
        for c in range(at + w.lo[i], at + hi + 1):
            w.effect[c] = 0.0
        for j in range(count):
            if (w.tested[j] >> np.uint64(a)) & np.uint64(1):
                part = w.portion[j] * w.term[j] / w.share[j, a]
                lower, upper = next_run(f, i, w.key[j, a], w.lo[i], hi)
                while lower <= hi:
                    for c in range(at + lower, at + upper + 1):
                        w.effect[c] += part
                    lower, upper = next_run(f, i, w.key[j, a], upper + 1, hi)
        w.total[a], most = np.inf, -np.inf
        for c in range(w.lo[i], hi + 1):
            if range_weight(f, i, c, c) > 0:
                w.total[a], most = min(w.total[a], w.effect[at + c]), max(most, w.effect[at + c])
        reach += most - w.total[a]
    step = max(1.0, reach / GRID)
    used, first, rounding = 1, 0.0, 0.0
    w.grid[0] = 1.0
    for a in range(axes):
        i = w.axis[a]
        mass, longest = range_weight(f, i, w.lo[i], w.hi[i]), 0
        for x in range(len(w.grid)):
            w.steps[x] = 0.0
            w.grid[x] = w.grid[x] if x < used else 0.0
        for c in range(w.lo[i], w.hi[i] + 1):
            chance = range_weight(f, i, c, c) / mass
            if chance > 0:
                effect = w.effect[f.offsets[i] + c] - w.total[a]
                steps = int(np.rint(effect / step))
                w.steps[steps] += chance
                longest = max(longest, steps)
                first -= chance * steps * step
                rounding += chance * (effect - steps * step) ** 2
        used += longest
        # From the last value on, the old values are still needed below.
        for x in range(used - 1, -1, -1):
            total = 0.0
            for s in range(min(x, longest) + 1):
                total += w.steps[s] * w.grid[x - s]
            w.grid[x] = total
    return used, first, step, rounding


@jit
def prove_variance(f, w, depth, groups):
    """Prove a fair share of a box with one margin from its variance, after ``group_assignments``."""
    start, count, assignments = w.start[depth], w.length[depth], w.base.shape[2]
    axes = describe_leaves(f, w, depth) if count <= len(w.likely) and groups <= MAX_GROUPS else -1
    if axes < 0:
        return 0.0
    for g in range(groups):
        w.mean[g] = 0.0
    size = root = 0.0
    for j in range(count):
        leaf, value = w.leaf[start + j], float(f.values[0, w.leaf[start + j]])
        w.reached[j], reaching = 0, 0
        w.term[j] = value * w.likely[j]
        for g in range(groups):
            if f.members[f.mask[leaf], w.member[g]]:
                w.reached[j] |= 1 << g
                reaching += 1
                w.mean[g] += w.term[j]
        w.portion[j] = reaching / groups
        size += abs(value)
        scale, bits = w.likely[j], w.tested[j]
        while bits:
            bits &= bits - np.uint64(1)
            scale *= 2
        root += abs(value) * math.sqrt(scale)
    lowest, highest = np.inf, -np.inf
    for p in range(assignments):
        base = float(w.base[depth, 0, p])
        lowest, highest = min(lowest, base + w.mean[w.group[p]]), max(highest, base + w.mean[w.group[p]])
        size = max(size, abs(base))
    used, first, step, rounding = spread_effects(f, w, depth, axes)
    interactions, differences = pair_variances(f, w, axes, count, groups)
    # Rounding, in units. A probability is a product of at most n = ``axes`` quotients of whole numbers: 2 n. A mean or
    # an effect is a sum of at most ``count`` products of a probability and a value, of absolute sum at most ``size``:
    # 2 n + count + 4, times ``size``. Sums over two tested attributes and more have 1 + a_i <= 2 / (larger probability
    # of the two leaves to agree), so a term of a pair, and each of the parts that cancel in it, is at most
    # |v w| 2^(common attributes) min(P, Q) <= |v| sqrt(2^n_v P) |w| sqrt(2^n_w Q) for values v and w and probabilities
    # P and Q. The sum over all pairs is at most the square of ``root`` (k times this for the groups), and its error at
    # most 14 n + 2 count + 40 times this: 14 n for a term and twice ``count`` for nested sums.
    error = (16 * axes + 4 * count + 64) * UNIT
    spread = math.sqrt(max(0.0, interactions) + rounding + error * root * root)
    spread += math.sqrt((1 - 1 / groups) * (max(0.0, differences) + error * groups * root * root))
    # Errors of effects change f - E f - S, those of means and of the grid change distances: n + 1 terms of each kind.
    # Some are up to eight times as large, because a sum of n effects is up to n times the size. One is a scaled unit.
    pad = 16 * (axes + 1) * error * size + 1
    spread += pad
    above, below = f.above[0] + pad - lowest - first, f.below[0] - pad - highest - first
    # From the thresholds outwards on both sides, the smallest distance first. Chances are sums of products of at most n
    # shares, and all are positive, so their relative error is below (2 n + cells) units, which the result gives up.
    fair, budget = 0.0, spread * spread * (1 + error + 4 * len(w.effect) * UNIT)
    up, down = 0, used - 1
    while up < used and up * step <= above:
        up += 1
    while down >= 0 and down * step >= below:
        down -= 1
    while up < used or down >= 0:
        rise, fall = up * step - above if up < used else np.inf, below - down * step if down >= 0 else np.inf
        distance, x = min(rise, fall), up if rise < fall else down
        if rise < fall:
            up += 1
        else:
            down -= 1
        unfair = min(w.grid[x], budget / (distance * distance))
        budget = max(0.0, budget - unfair * distance * distance)
        fair += w.grid[x] - unfair
    return max(0.0, fair * (1 - error - 4 * len(w.effect) * UNIT) - 1e-12)
