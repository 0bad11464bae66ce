"""Prove a share of a box from the tail means of its trees, for any dependence between the trees.

Let m_t be the mean of the lowest part a of tree t. If the sum of all m_t exceeds s, then P(sum of the trees <= s) <= a:
on an event of probability a within {sum <= s}, the mean of the sum would be at most s, and the mean of each tree at
least m_t (Rueschendorf 1982; the worst dependence is comonotone tails). The same holds from above.
"""

from __future__ import annotations

import numpy as np

from evenhand.certification.bounds.trees.lists import FAR, MAX_DEPTH, jit
from evenhand.certification.bounds.trees.tables import UNIT

TAILS = np.array([0.003, 0.006, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.11, 0.15, 0.2, 0.27, 0.36, 0.5, 0.65])
"""Parts of the box in a tail, increasing."""

MAX_GROUPS = 16
"""Maximum number of groups of assignments whose tails are computed separately."""


@jit
def tail_mean(f, w, begin, end, p, step, tail):
    """Compute the mean of a tree's lowest leaves (step 1), or minus that of its highest (step -1).

    ``p`` is the assignment, -1 if the tree does not depend on it.
    """
    # Leaves are listed in the order of their values. The last leaf fills up a tail that rounding leaves short.
    k = begin if step > 0 else end - 1
    weight = total = value = 0.0
    while begin <= k < end:
        leaf = w.leaf[k]
        if p < 0 or f.members[f.mask[leaf], p]:
            value = float(step * f.values[0, leaf])
            if weight + w.chance[k] >= tail:
                break
            weight += w.chance[k]
            total += w.chance[k] * value
        k += step
    return (total + (tail - weight) * value) / tail


@jit
def sum_tails(f, w, trees, groups, step, tail):
    """Sum the tail means of the trees, each under its worst assignment; and with extreme leaves (``prove_tails``)."""
    worst = extreme = 0.0
    for t in range(trees):
        begin, end, partial = w.tree_start[t], w.tree_start[t + 1], w.is_partial[t]
        lowest = float(step * f.values[0, w.leaf[begin if step > 0 else end - 1]])
        mean = lowest
        if not partial:
            mean = lowest = tail_mean(f, w, begin, end, -1, step, tail)
        elif groups <= MAX_GROUPS:
            mean = np.inf
            for g in range(groups):
                mean = min(mean, tail_mean(f, w, begin, end, w.member[g], step, tail))
        worst += mean
        extreme += lowest
    return worst, extreme


@jit
def prove_tails(f, w, depth, groups, tails):
    """Prove a fair share of a box with one margin from the tails of its trees, after ``group_assignments``."""
    size, trees = 0.0, 0
    k = w.start[depth]
    end = k + w.length[depth]
    while k < end:
        tree, begin, partial = f.tree[w.leaf[k]], k, False
        while k < end and f.tree[w.leaf[k]] == tree:
            partial |= f.mask[w.leaf[k]] != 0
            k += 1
        size += max(abs(float(f.values[0, w.leaf[begin]])), abs(float(f.values[0, w.leaf[k - 1]])))
        w.tree_start[trees], w.is_partial[trees] = begin, partial
        trees += 1
    w.tree_start[trees] = end
    base_low, base_high = FAR, -FAR
    for p in range(w.base.shape[2]):
        base_low, base_high = min(base_low, w.base[depth, 0, p]), max(base_high, w.base[depth, 0, p])
    # Probabilities come from one ratio per split and one per attribute and list of a group, of four rounded steps each,
    # with a relative error d; the error of a tail mean is then at most 2 d times the largest value, and sums of k
    # terms add 2 k units.
    updates = 8 * (MAX_DEPTH + len(w.outer) * (len(w.lo) + 1)) + 4 * w.length[depth] + 64
    pad = 2 * updates * UNIT * (size + max(abs(float(base_low)), abs(float(base_high)))) + 1
    best = 0.0
    for step in (1, -1):
        limit = f.above[0] + pad - base_low if step > 0 else pad + base_high - f.below[0]
        last = len(tails)
        if sum_tails(f, w, trees, groups, step, tails[last - 1])[0] <= limit:
            continue
        # The smallest tail of each kind: with the worst assignment of each tree, where a tail counts for each group;
        # and with the extreme leaves of the trees that depend on the assignment, so that the others answer for all
        # assignments at once. The sums increase with the tail, and those of the second kind are smaller.
        low = 0
        for kind in range(0 if groups <= MAX_GROUPS else 1, 2):
            copies, high = 1 if kind else groups, last
            while high > 0 and copies * tails[high - 1] >= 1:
                high -= 1
            useful = high
            while low < high:
                middle = high - 1 if high == useful else (low + high) // 2
                if sum_tails(f, w, trees, groups, step, tails[middle])[kind] > limit:
                    high = middle
                else:
                    low = middle + 1
            if high < useful:
                best = max(best, 1 - copies * tails[high])
    return max(0.0, best - 1e-12)
