"""Bound all margins over a box of cells by one additive function for all trees and assignments, plus intervals.

Inside a box, every tree is split into an additive function of the attributes (its main effects under the population:
the mean of the tree given one attribute, less its mean in all) and a rest. The rest is bounded over the reachable
leaves: a leaf's value minus the function's extremes over the leaf's box. Any additive function would be sound; main
effects leave little rest. A tree that looks at one attribute only has none, and one that is not split in the box is a
constant. Added up over the trees, ``M(x) + low[p] <= margin(x, p) <= M(x) + high[p]`` with the same M for all
assignments: so one sum of independent terms answers for all of them (``shares``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.certification.bounds.trees.forest import FlatForest
from evenhand.core.kernels import compile_kernel, new_arrays
from evenhand.core.typing import Floats, Integers


class TreeWorkspace(NamedTuple):
    """Work arrays of one thread, with the bounds of a box.

    Attributes:
        share: like ``FlatForest.before``, from the box's own first cells on, as shares of the box.
        effect: shape (margins, cells), the additive function M without its constant.
        low, high: shape (margins, assignments), numbers added to M to bound the margins.
        least, greatest: the same without M: sums of extreme leaves.
        ends: shape (margins, 2), the least and the greatest value of M.
        score: per cell, how much a cut before it promises.
    """

    share: Floats
    effect: Floats
    low: Floats
    high: Floats
    least: Floats
    greatest: Floats
    ends: Floats
    score: Floats
    lo: Integers
    hi: Integers
    leaf_lo: Integers
    leaf_hi: Integers
    chance: Floats
    row: Integers
    term: Floats
    extremes: Floats
    ends_of: Floats
    part: Floats
    active: Integers
    visits: Integers
    visited: Floats
    stack: Integers
    stacked: Floats
    trail: Integers


def tree_workspace_for(forest: FlatForest) -> TreeWorkspace:
    """Room for the largest tree."""
    cells, n = int(forest.offsets[-1]), len(forest.offsets) - 1
    margins, assignments = len(forest.base), forest.group.shape[1]
    slots = int(np.diff(forest.slot).max(initial=1)) + 1
    groups = int(forest.groups.max())
    leaves = forest.leaves + 1
    return new_arrays(
        TreeWorkspace,
        {
            "share score": cells + 1,
            "effect": (margins, cells + 1),
            "low high least greatest": (margins, assignments),
            "ends": (margins, 2),
            "lo hi": n,
            "leaf_lo leaf_hi": (leaves, slots),
            "chance row part visited stacked": leaves,
            "term": (slots, forest.widest + 1),
            "extremes": (slots, 3),
            "ends_of": (groups, 4),
            "active": slots,
            "visits": (leaves, 3),
            "stack": (leaves, 4),
            "trail": (4 * leaves + 64, 3),
        },
    )


@compile_kernel(internal=True, nogil=True)
def collect_reachable(f, w, tree):
    """Collect the leaves of a tree that the box ``w.lo``, ``w.hi`` reaches.

    Returns:
        How many leaves, and how many nodes part the box: their attribute and cut are in ``w.visits``.
    """
    begin, end = f.slot[tree], f.slot[tree + 1]
    node = f.root[tree]
    chance = 1.0
    reachable = visits = top = trail = 0
    # Depth first with an undo trail. Invariant: w.lo to w.hi is the part of the box that reaches the node, the trail
    # what to restore on the way back, and chance the share of the box that goes there if attributes are independent.
    while True:
        i = f.attribute[node]
        if i >= 0:
            cut, lo, hi = f.cut[node], w.lo[i], w.hi[i]
            if hi < cut:
                node = f.left[node]
                continue
            if lo >= cut:
                node = f.right[node]
                continue
            # A node parts the box where lo < cut <= hi; its left part is followed first, the right one waits on the
            # stack.
            at = f.offsets[i]
            below = w.share[at + cut] - w.share[at + lo]
            above = w.share[at + hi + 1] - w.share[at + cut]
            part = below / (below + above) if below + above > 0 else 0.5
            w.visits[visits, 0] = i
            w.visits[visits, 1] = cut
            w.visited[visits] = chance
            visits += 1
            w.stack[top, 0] = f.right[node]
            w.stack[top, 1] = i
            w.stack[top, 2] = cut
            w.stack[top, 3] = trail
            w.stacked[top] = chance * (1 - part)
            top += 1
            # The trail keeps the range that is narrowed here.
            w.trail[trail, 0] = i
            w.trail[trail, 1] = lo
            w.trail[trail, 2] = hi
            trail += 1
            w.hi[i] = cut - 1
            chance *= part
            node = f.left[node]
            continue
        for s in range(begin, end):
            w.leaf_lo[reachable, s - begin] = w.lo[f.slots[s]]
            w.leaf_hi[reachable, s - begin] = w.hi[f.slots[s]]
        w.chance[reachable] = chance
        w.row[reachable] = f.row[node]
        reachable += 1
        until = 0
        if top > 0:
            until = w.stack[top - 1, 3]
        while trail > until:
            trail -= 1
            w.lo[w.trail[trail, 0]] = w.trail[trail, 1]
            w.hi[w.trail[trail, 0]] = w.trail[trail, 2]
        if top == 0:
            return reachable, visits
        top -= 1
        i = w.stack[top, 1]
        w.trail[trail, 0] = i
        w.trail[trail, 1] = w.lo[i]
        w.trail[trail, 2] = w.hi[i]
        trail += 1
        w.lo[i] = w.stack[top, 2]
        chance = w.stacked[top]
        node = w.stack[top, 0]


@compile_kernel(internal=True, nogil=True)
def add_whole_leaf(f, w, tree):
    """Add a tree of which the box reaches one leaf. Whether its value depends on the assignment."""
    # In the box the tree is a constant for each assignment: all four bounds shift equally, and M is unchanged.
    varies = False
    margins = len(f.base)
    leaf = w.row[0] // margins
    for g in range(1, f.groups[tree]):
        if f.said[leaf + g] != f.said[leaf]:
            varies = True
    for a in range(f.margin[tree], f.margin[tree + 1]):
        m = f.margins[a]
        for p in range(f.group.shape[1]):
            value = f.values[w.row[0] + f.group[tree, p] * margins + m]
            w.low[m, p] += value
            w.high[m, p] += value
            w.least[m, p] += value
            w.greatest[m, p] += value
    return varies


@compile_kernel(internal=True, nogil=True)
def mark_active(f, w, tree, visits):
    """Note which of a tree's attributes part the box: in ``w.active``, with the chance of such a node. How many."""
    # An attribute on which no node parts the box is the same for all reachable leaves: it has no effect in this tree.
    begin, end = f.slot[tree], f.slot[tree + 1]
    count = 0
    for s in range(end - begin):
        chance = 0.0
        parts = False
        for v in range(visits):
            if w.visits[v, 0] == f.slots[begin + s]:
                chance += w.visited[v]
                w.visits[v, 2] = count
                parts = True
        if parts:
            w.active[count] = s
            w.extremes[count, 2] = chance
            count += 1
    return count


@compile_kernel(internal=True, nogil=True)
def main_effects(f, w, tree, leaves, active, m):
    """The main effects of a tree's reachable leaves on a margin, into ``w.term``; their ends, into ``w.extremes``."""
    # One function for all assignments, so that M stays common: it is fitted to the mean over the groups, and the
    # difference of a group belongs to the rest. E[tree] = sum_k chance_k * mean over groups of v_k.
    begin = f.slot[tree]
    margins, groups = len(f.base), f.groups[tree]
    mean = total = 0.0
    for k in range(leaves):
        value = f.values[w.row[k] + m]
        for g in range(1, groups):
            value += f.values[w.row[k] + g * margins + m]
        value *= w.chance[k] / groups
        w.part[k] = value
        mean += value
        total += w.chance[k]
    mean = mean / total if total > 0 else 0.0
    for a in range(active):
        s = w.active[a]
        i = f.slots[begin + s]
        lo, hi, at = w.lo[i], w.hi[i], f.offsets[i]
        # The effect of cell c is E[value | x_i = c] - E[value] over the box, the first-order term of the functional
        # ANOVA (Hoeffding 1948). A leaf adds value * chance / (share of its range) on its range: a difference array
        # takes that at both ends, and a running sum gives the cells.
        term = w.term[a]
        term[: hi - lo + 2] = 0.0
        everywhere = -mean
        for k in range(leaves):
            first, end = w.leaf_lo[k, s], w.leaf_hi[k, s]
            if first == lo and end == hi:
                everywhere += w.part[k]
                continue
            part = w.share[at + end + 1] - w.share[at + first]
            if part <= 0:
                continue
            # Given x_i in the leaf's range, the chance of the leaf is chance / (share of the range).
            value = w.part[k] / part
            term[first - lo] += value
            term[end + 1 - lo] -= value
        running = everywhere
        lowest, greatest = np.inf, -np.inf
        for c in range(hi - lo + 1):
            running += term[c]
            # Cells without mass are in no leaf that counts: nothing is known there, and any number will do.
            value = running if w.share[at + lo + c + 1] > w.share[at + lo + c] else 0.0
            term[c] = value
            w.effect[m, at + lo + c] += value
            lowest = min(lowest, value)
            greatest = max(greatest, value)
        w.extremes[a, 0] = lowest
        w.extremes[a, 1] = greatest


@compile_kernel(internal=True, nogil=True)
def add_residual_bounds(f, w, tree, leaves, active, m):
    """Add the bounds on the error of a tree's additive function to those of all trees. The widest gap of a group."""
    # ends of a group: the least and the greatest of tree - effects (0, 1), and of the tree alone (2, 3).
    begin = f.slot[tree]
    margins, groups = len(f.base), f.groups[tree]
    ends = w.ends_of
    for g in range(groups):
        ends[g, 0] = np.inf
        ends[g, 1] = -np.inf
        ends[g, 2] = np.inf
        ends[g, 3] = -np.inf
    for k in range(leaves):
        # In leaf k the tree is v_k, and the sum of its effects between fewest and most: the error is between v_k - most
        # and v_k - fewest. The union over the reachable leaves holds for the whole box.
        highest = fewest = 0.0
        for a in range(active):
            s = w.active[a]
            i = f.slots[begin + s]
            lo = w.lo[i]
            first, end = w.leaf_lo[k, s] - lo, w.leaf_hi[k, s] - lo
            if first == 0 and end == w.hi[i] - lo:
                fewest += w.extremes[a, 0]
                highest += w.extremes[a, 1]
                continue
            # The extremes of a sum of independent terms over the leaf's box are the sums of theirs.
            term = w.term[a]
            smallest = largest = term[first]
            for c in range(first + 1, end + 1):
                value = term[c]
                smallest = min(smallest, value)
                largest = max(largest, value)
            fewest += smallest
            highest += largest
        for g in range(groups):
            value = f.values[w.row[k] + g * margins + m]
            ends[g, 0] = min(ends[g, 0], value - highest)
            ends[g, 1] = max(ends[g, 1], value - fewest)
            ends[g, 2] = min(ends[g, 2], value)
            ends[g, 3] = max(ends[g, 3], value)
    # M(x) + sum of low <= margin(x, p) <= M(x) + sum of high, for each assignment p by its group in this tree.
    gap = 0.0
    for g in range(groups):
        gap = max(gap, ends[g, 1] - ends[g, 0])
    for p in range(f.group.shape[1]):
        g = f.group[tree, p]
        w.low[m, p] += ends[g, 0]
        w.high[m, p] += ends[g, 1]
        w.least[m, p] += ends[g, 2]
        w.greatest[m, p] += ends[g, 3]
    return gap


@compile_kernel(internal=True, nogil=True)
def bound_margins(f, w):
    """Bound all margins over the box ``w.lo``, ``w.hi``. Whether they depend on the assignment anywhere in it."""
    # The population inside the box, attribute by attribute, as running sums: a range of cells costs one difference.
    n, margins = len(f.offsets) - 1, len(f.base)
    for i in range(n):
        at, lo, hi = f.offsets[i], w.lo[i], w.hi[i]
        weight = f.before[at + hi + 1] - f.before[at + lo]
        for c in range(lo, hi + 2):
            w.share[at + c] = (f.before[at + c] - f.before[at + lo]) / weight if weight > 0 else 0.0
            w.score[at + c] = 0.0
            for m in range(margins):
                w.effect[m, at + c] = 0.0
    for m in range(margins):
        w.low[m] = f.base[m]
        w.high[m] = f.base[m]
        w.least[m] = f.base[m]
        w.greatest[m] = f.base[m]
    varies = False
    # Invariant: each margin is sum_i effect_i(x_i) plus something in [low, high], by assignment; and within [least,
    # greatest], from the leaves alone. Bounds of trees add up.
    for tree in range(len(f.root)):
        leaves, visits = collect_reachable(f, w, tree)
        if leaves == 1:
            varies |= add_whole_leaf(f, w, tree)
            continue
        for k in range(leaves):
            leaf = w.row[k] // margins
            for g in range(1, f.groups[tree]):
                if f.said[leaf + g] != f.said[leaf]:
                    varies = True
        active = mark_active(f, w, tree, visits)
        for a in range(f.margin[tree], f.margin[tree + 1]):
            m = f.margins[a]
            main_effects(f, w, tree, leaves, active, m)
            gap = add_residual_bounds(f, w, tree, leaves, active, m)
            score_cuts(f, w, tree, visits, active, gap)
    # min M and max M over the box: attributes are independent, so their extremes add up.
    for m in range(margins):
        w.ends[m] = 0.0
        for i in range(n):
            at = f.offsets[i]
            lowest = greatest = w.effect[m, at + w.lo[i]]
            for c in range(at + w.lo[i], at + w.hi[i] + 1):
                lowest = min(lowest, w.effect[m, c])
                greatest = max(greatest, w.effect[m, c])
            w.ends[m, 0] += lowest
            w.ends[m, 1] += greatest
    return varies


@compile_kernel(internal=True, nogil=True)
def score_cuts(f, w, tree, visits, active, gap):
    """Share out a tree's gap to the cuts that part the box: by how much their attribute does, and how often."""
    # score of a cut = gap * (part of its attribute) * (chance of its node) / (chance of all nodes of that attribute),
    # where an attribute's part goes by how much its effect varies; a tenth of the gap each keeps those that act only
    # together with others.
    total = 0.0
    for a in range(active):
        total += w.extremes[a, 1] - w.extremes[a, 0] + 0.1 * gap
    if total <= 0:
        return
    for v in range(visits):
        a = w.visits[v, 2]
        if w.extremes[a, 2] <= 0:
            continue
        weight = (w.extremes[a, 1] - w.extremes[a, 0] + 0.1 * gap) / total
        w.score[f.offsets[w.visits[v, 0]] + w.visits[v, 1]] += gap * weight * w.visited[v] / w.extremes[a, 2]
