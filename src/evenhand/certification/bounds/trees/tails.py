"""Prove a share of a box by the means of its trees' tails, for any dependence between the trees.

Let m_t be the mean of the lowest part a of tree t. If the sum of all m_t exceeds s, then P(sum of the trees <= s) <= a:
on an event of probability a within {sum <= s}, the mean of the sum would be at most s, and the mean of each tree at
least m_t (Rueschendorf 1982; the worst dependence is comonotone tails). The same holds from above.
"""

from __future__ import annotations

import math

from evenhand.certification.bounds.trees.lists import FAR, MAX_DEPTH, MAX_LEVELS, jit
from evenhand.certification.bounds.trees.tables import UNIT, group_assignments

MAX_GROUPS = 16
"""Maximum number of groups of assignments whose tails are computed one by one."""


@jit
def tail_means(f, w, begin, end, p, step):
    """Compute the means of a tree's lowest leaves under an assignment (step 1), or of its highest (step -1)."""
    # Leaves are listed in the order of their values. The last leaf fills up a tail that rounding leaves short.
    k = begin if step > 0 else end - 1
    weight = total = value = 0.0
    for a in range(len(w.tails)):
        part = w.tails[a].part
        while begin <= k < end:
            leaf, chance = w.entries[k].leaf, w.entries[k].chance
            if f.members[f.leaves[leaf].mask, p]:
                value = float(f.values[0, leaf])
                if weight + chance >= part:
                    break
                weight += chance
                total += chance * value
            k += step
        mean = (total + (part - weight) * value) / part
        if step > 0:
            w.tails[a].tree_low = min(w.tails[a].tree_low, mean)
        else:
            w.tails[a].tree_high = max(w.tails[a].tree_high, mean)


@jit
def prove_tails(f, w, depth):
    """Prove a fair share of a box with one margin from the tails of its trees."""
    # Sums from below and above, with the worst assignment of each tree; and "free" sums with the extreme leaves of the
    # trees that depend on the assignment, so that the others answer for all assignments at once.
    groups = group_assignments(f, w, depth)
    for a in range(len(w.tails)):
        tail = w.tails[a]
        tail.low = tail.high = tail.free_low = tail.free_high = 0.0
    size = 0.0
    k = w.levels[depth].start
    end = k + w.levels[depth].length
    while k < end:
        tree, begin, partial = f.leaves[w.entries[k].leaf].tree, k, False
        while k < end and f.leaves[w.entries[k].leaf].tree == tree:
            partial |= f.leaves[w.entries[k].leaf].mask != 0
            k += 1
        lowest, greatest = float(f.values[0, w.entries[begin].leaf]), float(f.values[0, w.entries[k - 1].leaf])
        size += max(abs(lowest), abs(greatest))
        many = partial and groups > MAX_GROUPS
        for a in range(len(w.tails)):
            w.tails[a].tree_low, w.tails[a].tree_high = (lowest, greatest) if many else (math.inf, -math.inf)
        for g in range(0 if many else groups if partial else 1):
            for step in (1, -1):
                tail_means(f, w, begin, k, w.groups[g].member, step)
        for a in range(len(w.tails)):
            tail = w.tails[a]
            tail.low += tail.tree_low
            tail.high += tail.tree_high
            tail.free_low += lowest if partial else tail.tree_low
            tail.free_high += greatest if partial else tail.tree_high
    base_low, base_high = FAR, -FAR
    for g in range(groups):
        base_low, base_high = min(base_low, w.groups[g].low), max(base_high, w.groups[g].high)
    # Probabilities come from one ratio per split and one per attribute and list of a group, of four rounded steps each,
    # with a relative error d; a tail mean then errs by at most 2 d times the largest value, and sums of k terms by
    # 2 k units more.
    updates = 8 * (MAX_DEPTH + MAX_LEVELS * (len(w.axes) + 1)) + 4 * w.levels[depth].length + 64
    pad = 2 * updates * UNIT * (size + max(abs(float(base_low)), abs(float(base_high)))) + 1
    above, below = f.margins[0].above + pad - base_low, f.margins[0].below - pad - base_high
    best = 0.0
    for a in range(len(w.tails)):
        tail = w.tails[a]
        if tail.free_low > above or tail.free_high < below:
            best = max(best, 1 - tail.part)
        if tail.low > above or tail.high < below:
            best = max(best, 1 - groups * tail.part)
    return max(0.0, best - 1e-12)
