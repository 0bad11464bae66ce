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
    MAX_KINDS,
    cells_between,
    common_cells,
    count_bits,
    jit,
    meet,
    next_run,
    range_weight,
    weight_of,
)
from evenhand.certification.bounds.trees.tables import UNIT
from evenhand.certification.bounds.trees.tails import MAX_GROUPS


@jit
def describe_leaves(f, w, depth):
    """List the tested attributes, with the leaves that test each of them, and compute the probabilities of the leaves.

    Returns:
        The number of tested attributes, -1 if the work arrays are too small.
    """
    start, count, axes = w.start[depth], w.length[depth], 0
    for i in range(len(w.lo)):
        w.row[i] = -1
    for j in range(count):
        leaf = w.leaf[start + j]
        w.tests[j], w.likely[j] = 0, 1.0
        for x in range(f.first[leaf], f.first[leaf + 1]):
            i = f.tested[x]
            key, lo, hi = f.keys[leaf, i], w.lo[i], w.hi[i]
            cells = cells_between(f, i, lo, hi)
            _, everything, weight = meet(f, i, key, lo, hi, cells)
            if everything:
                continue
            key, a = common_cells(f, i, key, cells), w.row[i]
            if a < 0:
                if axes == MAX_AXES:
                    return -1
                a = w.row[i] = axes
                w.axis[a], w.kinds[a], w.users[a] = i, 0, 0
                axes += 1
            kind = 0
            while kind < w.kinds[a] and w.key[a, kind] != key:
                kind += 1
            if kind == w.kinds[a]:
                if kind == MAX_KINDS:
                    return -1
                w.key[a, kind], w.share[a, kind] = key, weight / range_weight(f, i, lo, hi)
                w.kinds[a] += 1
            w.tests[j] += 1
            w.likely[j] *= w.share[a, kind]
            if weight > 0:
                w.user[a, w.users[a]], w.kind[a, w.users[a]] = j, kind
                w.users[a] += 1
    return axes


@jit
def relate_kinds(f, w, axes):
    """Compute a_i for all pairs of keys of each tested attribute; return whether there is enough space."""
    at = 0
    for a in range(axes):
        i, kinds = w.axis[a], w.kinds[a]
        w.place_of[a] = at
        if at + kinds * kinds > len(w.agree):
            return False
        inverse = 1 / range_weight(f, i, w.lo[i], w.hi[i])
        for one in range(kinds):
            for other in range(one + 1):
                key, product = common_cells(f, i, w.key[a, one], w.key[a, other]), w.share[a, one] * w.share[a, other]
                weight = weight_of(f, i, key)
                ratio = weight * inverse / product if product > 0 else 1.0
                w.agree[at + one * kinds + other] = w.agree[at + other * kinds + one] = ratio
        at += kinds * kinds
    return True


@jit
def pair_variances(w, axes, count, groups):
    """Sum the covariances of all pairs of leaves: of the interactions of f, and of the groups' differences from f."""
    interactions = differences = 0.0
    partials = 0
    for a in range(axes):
        w.done[a] = 0
    for k in range(count):
        w.product[k], w.excess[k], w.sum_of[k] = 1.0, 0.0, 0.0
    for j in range(count):
        # The products and sums over the attributes that leaf j and an earlier leaf (or j) test.
        for a in range(axes):
            x = w.done[a]
            if x < w.users[a] and w.user[a, x] == j:
                w.done[a] = x + 1
                at = w.place_of[a] + w.kind[a, x] * w.kinds[a]
                for y in range(x + 1):
                    k, ratio = w.user[a, y], w.agree[at + w.kind[a, y]]
                    w.product[k] *= ratio
                    w.excess[k] += ratio - 1
        if w.portion[j] < 1:
            w.partial[partials] = j
            partials += 1
            for x in range(partials):
                k = w.partial[x]
                both = float(count_bits(np.uint64(w.reached[j] & w.reached[k]))) - groups * w.portion[j] * w.portion[k]
                differences += (1 + (k < j)) * both * w.term[k] * (w.product[k] - 1) * w.term[j]
        own = w.portion[j] * w.term[j]
        interactions += own * own * (w.product[j] - 1 - w.excess[j])
        for k in range(j):
            w.sum_of[k] += own * (w.product[k] - 1 - w.excess[k])
        for k in range(j + 1):
            w.product[k], w.excess[k] = 1.0, 0.0
    for k in range(count):
        interactions += 2 * w.sum_of[k] * w.portion[k] * w.term[k]
    return interactions, differences


@jit
def spread_effects(f, w, axes):
    """Compute the distribution of S on a grid from the main effects of f.

    Returns:
        The number of values, the first value, their distance, and the variance of the rounding.
    """
    reach = 0.0
    for a in range(axes):
        i = w.axis[a]
        at, hi = f.offsets[i], w.hi[i]
        for c in range(at + w.lo[i], at + hi + 1):
            w.effect[c] = 0.0
        for kind in range(w.kinds[a]):
            w.sum_of[kind] = 0.0
        for x in range(w.users[a]):
            w.sum_of[w.kind[a, x]] += w.portion[w.user[a, x]] * w.term[w.user[a, x]]
        for kind in range(w.kinds[a]):
            part = w.sum_of[kind] / w.share[a, kind] if w.share[a, kind] > 0 else 0.0
            lower, upper = next_run(f, i, w.key[a, kind], w.lo[i], hi)
            while lower <= hi:
                for c in range(at + lower, at + upper + 1):
                    w.effect[c] += part
                lower, upper = next_run(f, i, w.key[a, kind], upper + 1, hi)
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
    if axes < 0 or not relate_kinds(f, w, axes):
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
        root += abs(value) * math.sqrt(w.likely[j] * 2.0 ** w.tests[j])
    lowest, highest = np.inf, -np.inf
    for p in range(assignments):
        base = float(w.base[depth, 0, p])
        lowest, highest = min(lowest, base + w.mean[w.group[p]]), max(highest, base + w.mean[w.group[p]])
        size = max(size, abs(base))
    used, first, step, rounding = spread_effects(f, w, axes)
    interactions, differences = pair_variances(w, axes, count, groups)
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
