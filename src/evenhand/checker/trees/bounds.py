"""Bound all margins over a box of cells in integers, by an additive function and its error (compiled).

Within a box, each tree is traversed for all kinds of assignments in parallel, which yields parts in which every
kind has reached a leaf. An additive function of the attributes is fitted to each tree: the mean of the tree given the
value of each attribute. Any function is sound, so it may be rounded to integers. In a part the tree exceeds it by at
least the leaf minus the maximum of the function there, and at most the leaf minus its minimum, in exact arithmetic. So
``M(x) + least[p] <= margin(x, p) <= M(x) + most[p]`` holds with the same function M for all assignments p.
"""

from __future__ import annotations

from evenhand.checker.kernels import decide_sets, jit
from evenhand.checker.trees.forest import MAX_LEAVES, MAX_WAITING

FAR = 1 << 61
"""Number larger than all margins."""


@jit
def copy_row(out, source, n):
    """Copy the first numbers of an array."""
    for k in range(n):
        out[k] = source[k]


@jit
def bound_box(f, w):
    """Bound all margins over the box ``w.low``, ``w.high``.

    Returns:
        Whether the margins depend on the assignment anywhere in the box, and whether all trees could be traversed.
    """
    margins, axes = len(f.base_low), len(f.cell) - 1
    for i in range(axes):
        for c in range(f.cell[i] + w.low[i], f.cell[i] + w.high[i] + 1):
            w.score[c] = 0.0
            for m in range(margins):
                w.effect[m, c] = 0
    for m in range(margins):
        for p in range(f.kind.shape[1]):
            w.least[m, p] = w.plain_least[m, p] = f.base_low[m]
            w.most[m, p] = w.plain_most[m, p] = f.base_high[m]
    varies = False
    # Invariant: the sum of the first trees in margin m under p is between M + w.least and M + w.most, and between
    # w.plain_least and w.plain_most.
    for tree in range(len(f.root) - 1):
        leaves, visits = _follow_tree(f, w, tree)
        if leaves < 0:
            return True, False
        for k in range(leaves):
            for g in range(1, f.kinds[tree]):
                varies |= f.same[w.leaf[k, g]] != f.same[w.leaf[k, 0]]
        for m in range(margins):
            if f.largest[tree, m] > 0:
                gap = _add_tree(f, w, tree, m, leaves)
                for v in range(visits):
                    w.score[f.cell[w.visit[v, 0]] + w.visit[v, 1]] += gap * w.visit_share[v]
    return varies, True


@jit
def _share(f, i, low, high):
    """Approximate the mass of cells of an axis."""
    # Running sums have one number more than there are cells, for every axis.
    at = f.cell[i] + i
    return float(f.before[at + high + 1] - f.before[at + low])


@jit
def _follow_tree(f, w, tree):
    """Traverse a tree into all parts of the box. Return the numbers of parts and cuts, -1 if there are too many."""
    begin, slots, kinds = f.place[tree], f.place[tree + 1] - f.place[tree], f.kinds[tree]
    for s in range(slots):
        i = f.axes[begin + s]
        w.slot[i] = s
        w.at_low[0, s] = w.low[i]
        w.at_high[0, s] = w.high[i]
        w.cut[s] = 0
    w.at[0, :kinds] = f.root[tree]
    w.at_share[0] = 1.0
    waiting, leaves, visits = 1, 0, 0
    # Invariant: the pending parts and the leaves are disjoint and fill the box.
    while waiting:
        top = waiting - 1
        split_test = -1
        # A test with the same result for all cells of the part is followed; the first test with different results
        # splits the part.
        for g in range(kinds):
            node = w.at[top, g]
            while f.test[node] >= 0:
                t = f.test[node]
                i = f.axis[t]
                if i < 0:
                    left = f.assigned[t, f.first[tree, g]]
                else:
                    s = w.slot[i]
                    place = f.begin[t] + w.at_low[top, s]
                    if f.until[place] < w.at_high[top, s]:
                        if split_test < 0:
                            split_test = t
                        break
                    left = f.answer[place]
                node = f.left[node] if left else f.right[node]
            w.at[top, g] = node
        if split_test < 0:
            if leaves == MAX_LEAVES:
                return -1, 0
            copy_row(w.leaf[leaves], w.at[top], kinds)
            copy_row(w.leaf_low[leaves], w.at_low[top], slots)
            copy_row(w.leaf_high[leaves], w.at_high[top], slots)
            w.leaf_share[leaves] = w.at_share[top]
            leaves += 1
            waiting -= 1
            continue
        if waiting == MAX_WAITING or visits == MAX_LEAVES:
            return -1, 0
        i = f.axis[split_test]
        s = w.slot[i]
        low, high = w.at_low[top, s], w.at_high[top, s]
        cut = f.until[f.begin[split_test] + low] + 1
        # The cut is before the first cell with the other result. The lower part is pushed onto the stack; the upper
        # part is processed next.
        below = _share(f, i, low, cut - 1) / _share(f, i, low, high)
        w.visit[visits, 0] = i
        w.visit[visits, 1] = cut
        w.cut[s] = 1
        w.visit_share[visits] = w.at_share[top]
        visits += 1
        copy_row(w.at[waiting], w.at[top], kinds)
        copy_row(w.at_low[waiting], w.at_low[top], slots)
        copy_row(w.at_high[waiting], w.at_high[top], slots)
        w.at_share[waiting] = w.at_share[top] * below
        w.at_share[top] *= 1.0 - below
        w.at_low[top, s] = cut
        w.at_high[waiting, s] = cut - 1
        waiting += 1
    return leaves, visits


@jit
def _add_tree(f, w, tree, m, leaves):
    """Add a tree to the bounds of a margin; return the widest gap that its additive function leaves."""
    kinds, assignments = f.kinds[tree], f.kind.shape[1]
    if leaves == 1:
        for p in range(assignments):
            node = w.leaf[0, f.kind[tree, p]]
            w.least[m, p] += f.low[node, m]
            w.most[m, p] += f.high[node, m]
            w.plain_least[m, p] += f.low[node, m]
            w.plain_most[m, p] += f.high[node, m]
        return 0.0
    _fit_function(f, w, tree, m, leaves)
    # In leaf k the tree is between low and high, and its function between fewest and greatest, the sums of its terms'
    # extremes over the leaf. The error of the function is therefore between low - greatest and high - fewest, and over
    # the box between the minimum and the maximum of these.
    begin, slots = f.place[tree], f.place[tree + 1] - f.place[tree]
    widest = 0
    for g in range(kinds):
        lowest, highest, plain_least, plain_most = FAR, -FAR, FAR, -FAR
        for k in range(leaves):
            fewest = greatest = 0
            for s in range(slots):
                if not w.cut[s]:
                    continue
                low = w.low[f.axes[begin + s]]
                first, end = w.leaf_low[k, s] - low, w.leaf_high[k, s] - low
                if first == 0 and end == w.high[f.axes[begin + s]] - low:
                    fewest += w.ends[s, 0]
                    greatest += w.ends[s, 1]
                    continue
                small = large = w.term[s, first]
                for c in range(first + 1, end + 1):
                    small = min(small, w.term[s, c])
                    large = max(large, w.term[s, c])
                fewest += small
                greatest += large
            below, beyond = f.low[w.leaf[k, g], m], f.high[w.leaf[k, g], m]
            lowest = min(lowest, below - greatest)
            highest = max(highest, beyond - fewest)
            plain_least = min(plain_least, below)
            plain_most = max(plain_most, beyond)
        for p in range(assignments):
            if f.kind[tree, p] == g:
                w.least[m, p] += lowest
                w.most[m, p] += highest
                w.plain_least[m, p] += plain_least
                w.plain_most[m, p] += plain_most
        widest = max(widest, highest - lowest)
    return float(widest)


@jit
def _fit_function(f, w, tree, m, leaves):
    """Fit an additive function to a tree: add it to ``w.effect``, and leave its terms in ``w.term``."""
    # The term of cell c of an axis is the mean of the tree among people with c, minus the overall mean. The proof is
    # sound for any terms; these are bounded so that no sum can overflow.
    begin, slots, kinds = f.place[tree], f.place[tree + 1] - f.place[tree], f.kinds[tree]
    mean = 0.0
    for k in range(leaves):
        value = 0.0
        for g in range(kinds):
            value += f.low[w.leaf[k, g], m]
        mean += value / kinds * w.leaf_share[k]
    for s in range(slots):
        if not w.cut[s]:
            continue
        i = f.axes[begin + s]
        low, high = w.low[i], w.high[i]
        total = _share(f, i, low, high)
        for c in range(high - low + 2):
            w.chance[c] = 0.0
        everywhere = -mean
        for k in range(leaves):
            value = 0.0
            for g in range(kinds):
                value += f.low[w.leaf[k, g], m]
            value = value / kinds * w.leaf_share[k]
            first, end = w.leaf_low[k, s], w.leaf_high[k, s]
            if first == low and end == high:
                everywhere += value
                continue
            value = value * total / _share(f, i, first, end)
            w.chance[first - low] += value
            w.chance[end + 1 - low] -= value
        running = everywhere
        bound = 3.0 * f.largest[tree, m]
        lowest, highest = FAR, -FAR
        for c in range(high - low + 1):
            running += w.chance[c]
            term = int(min(bound, max(-bound, running)))
            w.term[s, c] = term
            w.effect[m, f.cell[i] + low + c] += term
            lowest = min(lowest, term)
            highest = max(highest, term)
        w.ends[s, 0] = lowest
        w.ends[s, 1] = highest


@jit
def decide_box(f, w):
    """Decide the whole box by the labels that are possible under each assignment."""
    margins, assignments = w.least.shape
    for p in range(assignments):
        w.sets[p] = (1 << f.labels) - 1
    # The extremes of M over the box are the sums of those of its terms. A margin beyond ``above`` or ``below`` rules
    # out one label of its pair. Both of its bounds hold, and the tighter one is used.
    for m in range(margins):
        low = high = 0
        for i in range(len(f.cell) - 1):
            at = f.cell[i]
            small = large = w.effect[m, at + w.low[i]]
            for c in range(at + w.low[i], at + w.high[i] + 1):
                small = min(small, w.effect[m, c])
                large = max(large, w.effect[m, c])
            low += small
            high += large
        for p in range(assignments):
            if max(low + w.least[m, p], w.plain_least[m, p]) > f.above[m]:
                w.sets[p] &= ~(1 << f.pairs[m, 0])
            if min(high + w.most[m, p], w.plain_most[m, p]) < f.below[m]:
                w.sets[p] &= ~(1 << f.pairs[m, 1])
    return decide_sets(w.sets, f.labels, f.least)


@jit
def choose_cut(f, w):
    """Return the axis and the first cell above the most promising cut; -1 if the box is a single point."""
    axes, margins = len(f.cell) - 1, len(f.base_low)
    best, chosen = 0.0, -1
    for i in range(axes):
        total = 0.0
        for c in range(f.cell[i] + w.low[i] + 1, f.cell[i] + w.high[i] + 1):
            total += w.score[c]
        if total > best:
            best, chosen = total, i
    if chosen >= 0:
        # Choose the cut that divides the score most evenly.
        running, at = 0.0, f.cell[chosen]
        for c in range(w.low[chosen] + 1, w.high[chosen] + 1):
            running += w.score[at + c]
            if w.score[at + c] > 0 and 2 * running >= best:
                return chosen, c
    # Only sums remain: cut the axis whose terms differ most at the middle, or any axis with several cells.
    width = -1
    for i in range(axes):
        if w.low[i] == w.high[i]:
            continue
        spread = 0
        for m in range(margins):
            small, large = FAR, -FAR
            for c in range(f.cell[i] + w.low[i], f.cell[i] + w.high[i] + 1):
                small = min(small, w.effect[m, c])
                large = max(large, w.effect[m, c])
            spread += large - small
        if spread > width:
            width, chosen = spread, i
    if width < 0:
        return -1, 0
    return chosen, (w.low[chosen] + w.high[chosen]) // 2 + 1
