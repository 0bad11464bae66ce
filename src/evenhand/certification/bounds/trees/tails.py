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
def tail_means(f, w, begin, end, p, step, tails, out):
    """Compute the means of a tree's lowest leaves under an assignment (step 1), or of its highest (step -1)."""
    # Leaves are listed in the order of their values. The last leaf fills up a tail that rounding leaves short.
    k = begin if step > 0 else end - 1
    weight = total = value = 0.0
    for a in range(len(tails)):
        while begin <= k < end:
            leaf = w.leaf[k]
            if f.members[f.mask[leaf], p]:
                value = float(f.values[0, leaf])
                if weight + w.chance[k] >= tails[a]:
                    break
                weight += w.chance[k]
                total += w.chance[k] * value
            k += step
        out[a] = (total + (tails[a] - weight) * value) / tails[a]


@jit
def prove_tails(f, w, depth, groups, tails):
    """Prove a fair share of a box with one margin from the tails of its trees, after ``group_assignments``."""
    # Rows of ``w.tails``: sums from below and above, the worst assignment of each tree; and the same with the extreme
    # leaves of the trees that depend on the assignment, so that the others answer for all assignments at once.
    count = len(tails)
    for a in range(count):
        w.tails[0, a] = w.tails[1, a] = w.tails[2, a] = w.tails[3, a] = 0.0
    size = 0.0
    k = w.start[depth]
    end = k + w.length[depth]
    while k < end:
        tree, begin, partial = f.tree[w.leaf[k]], k, False
        while k < end and f.tree[w.leaf[k]] == tree:
            partial |= f.mask[w.leaf[k]] != 0
            k += 1
        lowest, greatest = float(f.values[0, w.leaf[begin]]), float(f.values[0, w.leaf[k - 1]])
        size += max(abs(lowest), abs(greatest))
        for p in range(groups if partial and groups <= MAX_GROUPS else 1):
            tail_means(f, w, begin, k, w.member[p], 1, tails, w.low_tail)
            tail_means(f, w, begin, k, w.member[p], -1, tails, w.high_tail)
            for a in range(count):
                if p == 0:
                    w.worst[0, a], w.worst[1, a] = w.low_tail[a], w.high_tail[a]
                else:
                    w.worst[0, a] = min(w.worst[0, a], w.low_tail[a])
                    w.worst[1, a] = max(w.worst[1, a], w.high_tail[a])
        for a in range(count):
            if partial and groups > MAX_GROUPS:
                w.worst[0, a], w.worst[1, a] = lowest, greatest
            w.tails[0, a] += w.worst[0, a]
            w.tails[1, a] += w.worst[1, a]
            w.tails[2, a] += lowest if partial else w.worst[0, a]
            w.tails[3, a] += greatest if partial else w.worst[1, a]
    base_low, base_high = FAR, -FAR
    for p in range(w.base.shape[2]):
        base_low, base_high = min(base_low, w.base[depth, 0, p]), max(base_high, w.base[depth, 0, p])
    # Probabilities come from one ratio per split and one per attribute and list of a group, of four rounded steps each,
    # with a relative error d; the error of a tail mean is then at most 2 d times the largest value, and sums of k
    # terms add 2 k units.
    updates = 8 * (MAX_DEPTH + len(w.outer) * (len(w.lo) + 1)) + 4 * w.length[depth] + 64
    pad = 2 * updates * UNIT * (size + max(abs(float(base_low)), abs(float(base_high)))) + 1
    above, below = f.above[0] + pad - base_low, f.below[0] - pad - base_high
    best = 0.0
    for a in range(count):
        if w.tails[2, a] > above or w.tails[3, a] < below:
            best = max(best, 1 - tails[a])
        if w.tails[0, a] > above or w.tails[1, a] < below:
            best = max(best, 1 - groups * tails[a])
    return max(0.0, best - 1e-12)
