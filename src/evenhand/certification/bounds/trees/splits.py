"""Choose the split of a box that reduces the gaps between the extreme values of its trees the most (compiled)."""

from __future__ import annotations

import math

import numpy as np

from evenhand.certification.bounds.trees.lists import (
    FAR,
    cells_between,
    count_bits,
    jit,
    meet,
    names_cells,
    next_run,
    range_weight,
)

TABLE_GAIN = 0.5
"""Weight of a smaller table relative to a smaller gap."""


@jit
def most_balanced(f, w):
    """Find the margin whose bounds are most nearly symmetric around zero."""
    margins, assignments = w.low.shape
    best, chosen = -1, 0
    for m in range(margins):
        low, high = w.low[m, 0], w.high[m, 0]
        for p in range(assignments):
            low, high = min(low, w.low[m, p]), max(high, w.high[m, p])
        if min(-low, high) > best:
            best, chosen = min(-low, high), m
    return chosen


@jit
def mark_cut(w, cell, effect, gain):
    """Add the effect and the gain of a cut before a cell."""
    w.effect[cell] += effect
    # A tiny number marks a cut that only separates leaves without mass or gap.
    w.gap[cell] += gain + 1e-300


@jit
def score_cuts(f, w, depth):
    """Compute the effect of each cell and the gain of each cut in the box; return the number of points of a table."""
    # A leaf with value v and probability c adds c (v - mean) / (share of its cells) to the effect of its cells, and the
    # gap of its tree times c to the gain of the cuts at their ends.
    n, m = len(w.lo), most_balanced(f, w)
    for i in range(n):
        at = f.offsets[i]
        w.total[i], w.named[i] = 0.0, 0
        for c in range(at + w.lo[i], at + w.hi[i] + 2):
            w.effect[c] = w.gap[c] = 0.0
            w.single[c] = False
    k = w.start[depth]
    end = k + w.length[depth]
    while k < end:
        tree, begin = f.tree[w.leaf[k]], k
        low, high = FAR, -FAR
        mean = 0.0
        while k < end and f.tree[w.leaf[k]] == tree:
            leaf = w.leaf[k]
            low, high = min(low, f.values[m, leaf]), max(high, f.values[m, leaf])
            mean += w.chance[k] * f.portion[f.mask[leaf]] * f.values[m, leaf]
            k += 1
        for j in range(begin, k):
            leaf = w.leaf[j]
            chance = w.chance[j] * f.portion[f.mask[leaf]]
            moved, gain = chance * (f.values[m, leaf] - mean), chance * (high - low)
            for x in range(f.first[leaf], f.first[leaf + 1]):
                i = f.tested[x]
                key, lo, hi = f.keys[leaf, i], w.lo[i], w.hi[i]
                cells = cells_between(f, i, lo, hi)
                _, everything, weight = meet(f, i, key, lo, hi, cells)
                if everything:
                    continue
                w.total[i] += gain
                at, effect = f.offsets[i], moved / weight if weight > 0 else 0.0
                if not f.is_set[i]:
                    lower, upper = next_run(f, i, key, lo, hi)
                    mark_cut(w, at + lower, effect, gain)
                    mark_cut(w, at + upper + 1, -effect, gain)
                    continue
                part = key & cells
                w.named[i] |= part if names_cells(key, cells) else cells & ~key
                # Bits of the cells where a run of cells begins, or has ended.
                ends = part ^ (part << np.uint64(1))
                while ends:
                    rest = ends & (ends - np.uint64(1))
                    mark_cut(w, at + count_bits((ends ^ rest) - np.uint64(1)), effect, gain)
                    ends, effect = rest, -effect
    for i in range(n):
        if f.is_set[i]:
            for c in range(w.lo[i], w.hi[i] + 1):
                w.single[f.offsets[i] + c] = (w.named[i] >> np.uint64(c)) & np.uint64(1) != 0
    points = 1.0
    for i in range(n):
        points *= count_rows(f, w, i)
    return points


@jit
def count_rows(f, w, i):
    """Count the rows of an attribute in a table: the parts between cuts, or the named cells and all others."""
    rows, at = 1, f.offsets[i]
    for c in range(w.lo[i], w.hi[i] + 1):
        rows += w.single[at + c] if f.is_set[i] else c > w.lo[i] and w.gap[at + c] > 0
    return rows


@jit
def table_gain(is_set, share, rows, parts, singles, cells):
    """Compute the average logarithm of the factor by which a cut shrinks a table.

    Args:
        is_set: Whether the rows are named cells and all others.
        share: Share of the box below the cut.
        rows: Number of rows.
        parts, singles, cells: Number of parts, named cells, and cells below the cut.
    """
    left, right = parts, rows - parts
    if is_set:
        left, right = max(1, singles + (cells > singles)), rows - singles
    return share * math.log(rows / left) + (1 - share) * math.log(rows / right)


@jit
def choose_cut(f, w, points, limit):
    """Choose the attribute and the first cell above the cut from the scores; -1 if no leaf divides the box."""
    # An attribute's score is its share of all gain, plus the gain of its best cut for a table that is too
    # large by the factor points / limit.
    n, all_gain = len(w.lo), 1e-300
    for i in range(n):
        all_gain += w.total[i]
    excess = 1 + math.log(max(1.0, points / limit))
    best, chosen, chosen_gain, chosen_rows = -1.0, -1, 0.0, 1
    for i in range(n):
        rows = count_rows(f, w, i)
        if rows == 1:
            continue
        at, lo, hi = f.offsets[i], w.lo[i], w.hi[i]
        mass, parts, singles, gain = range_weight(f, i, lo, hi), 1, 0, 0.0
        for c in range(lo + 1, hi + 1):
            singles += w.single[at + c - 1]
            if w.gap[at + c] > 0:
                share = range_weight(f, i, lo, c - 1) / mass
                gain = max(gain, table_gain(f.is_set[i], share, rows, parts, singles, c - lo))
                parts += 1
        score = w.total[i] / all_gain + TABLE_GAIN * gain / excess
        if score > best:
            best, chosen, chosen_gain, chosen_rows = score, i, gain, rows
    if chosen < 0:
        return -1, 0
    at, lo, hi = f.offsets[chosen], w.lo[chosen], w.hi[chosen]
    mass = range_weight(f, chosen, lo, hi)
    gain = mean = running = 0.0
    for c in range(lo, hi + 1):
        running += w.effect[at + c]
        w.effect[at + c] = running * mass
        mean += range_weight(f, chosen, c, c) / mass * w.effect[at + c]
        if c > lo:
            gain += w.gap[at + c]
    # Two passes: the largest variance between the parts of a cut, and then the best cut. A cut is good if the effects
    # of its parts differ, if its own gain is large, if both parts keep as much gain, and if they have equal mass; or,
    # to the extent that the attribute was chosen for its table, if it makes the table small.
    for_table = TABLE_GAIN * chosen_gain / excess / max(best, 1e-300)
    spread = 0.0
    best, cut = -1.0, lo + 1
    for attempt in range(2):
        share = between = below = 0.0
        parts, singles = 1, 0
        for c in range(lo + 1, hi + 1):
            singles += w.single[at + c - 1]
            part = range_weight(f, chosen, c - 1, c - 1) / mass
            share += part
            between += part * (w.effect[at + c - 1] - mean)
            variance = between * between / max(share * (1 - share), 1e-300)
            if attempt == 0:
                spread = max(spread, variance)
                continue
            if w.gap[at + c] <= 0:
                continue
            own = w.gap[at + c] / gain
            below += own
            middle = below - own / 2
            score = own + min(middle, 1 - middle) + 0.5 * min(share, 1 - share)
            if spread > 0:
                score += variance / spread
            score *= 1 - for_table
            if chosen_gain > 0:
                smaller = table_gain(f.is_set[chosen], share, chosen_rows, parts, singles, c - lo)
                score += for_table * 3 * smaller / chosen_gain
            parts += 1
            if score > best:
                best, cut = score, c
    return chosen, cut
