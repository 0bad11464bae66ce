"""Choose the split of a box that takes most from the gaps between the extreme values of its trees (compiled)."""

from __future__ import annotations

import math

from evenhand.certification.bounds.trees.lists import (
    FAR,
    cells_between,
    has_cell,
    jit,
    meet,
    names_cells,
    next_run,
    range_weight,
)

TABLE_GAIN = 0.5
"""Weight of a smaller table against a smaller gap."""


@jit
def most_balanced(f, w):
    """Find the margin whose bounds are most evenly around zero."""
    margins, assignments = w.bounds.shape
    best, chosen = -1, 0
    for m in range(margins):
        low, high = FAR, -FAR
        for p in range(assignments):
            low, high = min(low, w.bounds[m, p].low), max(high, w.bounds[m, p].high)
        if min(-low, high) > best:
            best, chosen = min(-low, high), m
    return chosen


@jit
def score_cuts(f, w, depth):
    """Compute the effect of each cell and the gain of each cut in the box; return the number of points of a table."""
    # A leaf with value v and probability c adds c (v - mean) / (share of its cells) to the effect of its cells, and the
    # gap of its tree times c to the gain of the cuts at their ends.
    n, m = len(w.axes), most_balanced(f, w)
    for i in range(n):
        at = f.axes[i].start
        w.axes[i].total = 0.0
        for c in range(at + w.axes[i].low, at + w.axes[i].high + 2):
            w.cells[c].effect = w.cells[c].gap = 0.0
            w.cells[c].single = False
    k = w.levels[depth].start
    end = k + w.levels[depth].length
    while k < end:
        tree, begin = f.leaves[w.entries[k].leaf].tree, k
        low, high = FAR, -FAR
        mean = 0.0
        while k < end and f.leaves[w.entries[k].leaf].tree == tree:
            leaf = w.entries[k].leaf
            low, high = min(low, f.values[m, leaf]), max(high, f.values[m, leaf])
            mean += w.entries[k].chance * f.portion[f.leaves[leaf].mask] * f.values[m, leaf]
            k += 1
        for j in range(begin, k):
            leaf = w.entries[j].leaf
            chance = w.entries[j].chance * f.portion[f.leaves[leaf].mask]
            moved, gain = chance * (f.values[m, leaf] - mean), chance * (high - low)
            for i in range(n):
                key, lo, hi = f.keys[i, leaf], w.axes[i].low, w.axes[i].high
                cells = cells_between(f, i, lo, hi)
                _, everything, weight = meet(f, i, key, lo, hi, cells)
                if everything:
                    continue
                at = f.axes[i].start
                if f.axes[i].is_set:
                    inside = names_cells(key, cells)
                    for c in range(lo, hi + 1):
                        w.cells[at + c].single |= has_cell(key, c) == inside
                w.axes[i].total += gain
                part = moved / weight if weight > 0 else 0.0
                lower, upper = next_run(f, i, key, lo, hi)
                while lower <= hi:
                    w.cells[at + lower].effect += part
                    w.cells[at + upper + 1].effect -= part
                    # A tiny number marks a cut that only separates leaves without mass or gap.
                    if lower > lo:
                        w.cells[at + lower].gap += gain + 1e-300
                    if upper < hi:
                        w.cells[at + upper + 1].gap += gain + 1e-300
                    lower, upper = next_run(f, i, key, upper + 1, hi)
    points = 1.0
    for i in range(n):
        points *= count_rows(f, w, i)
    return points


@jit
def count_rows(f, w, i):
    """Count the rows of an attribute in a table: the parts between cuts, or the named cells and all others."""
    rows, at = 1, f.axes[i].start
    for c in range(at + w.axes[i].low, at + w.axes[i].high + 1):
        rows += w.cells[c].single if f.axes[i].is_set else w.cells[c].gap > 0
    return rows


@jit
def table_gain(is_set, share, rows, parts, singles, cells):
    """Compute by how much a cut shrinks a table, on average, as a logarithm.

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
    """Choose the attribute, and the first cell above the cut, after ``score_cuts``; -1 if no leaf divides the box."""
    # An attribute's score is its share of all gain, plus the gain of its best cut for a table that is too
    # large by the factor points / limit.
    n, all_gain = len(w.axes), 1e-300
    for i in range(n):
        all_gain += w.axes[i].total
    excess = 1 + math.log(max(1.0, points / limit))
    best, chosen, chosen_gain, chosen_rows = -1.0, -1, 0.0, 1
    for i in range(n):
        rows = count_rows(f, w, i)
        if rows == 1:
            continue
        at, lo, hi = f.axes[i].start, w.axes[i].low, w.axes[i].high
        mass, parts, singles, gain = range_weight(f, i, lo, hi), 1, 0, 0.0
        for c in range(lo + 1, hi + 1):
            singles += w.cells[at + c - 1].single
            if w.cells[at + c].gap > 0:
                share = range_weight(f, i, lo, c - 1) / mass
                gain = max(gain, table_gain(f.axes[i].is_set, share, rows, parts, singles, c - lo))
                parts += 1
        score = w.axes[i].total / all_gain + TABLE_GAIN * gain / excess
        if score > best:
            best, chosen, chosen_gain, chosen_rows = score, i, gain, rows
    if chosen < 0:
        return -1, 0
    at, lo, hi = f.axes[chosen].start, w.axes[chosen].low, w.axes[chosen].high
    mass = range_weight(f, chosen, lo, hi)
    gain = mean = running = 0.0
    for c in range(lo, hi + 1):
        running += w.cells[at + c].effect
        w.cells[at + c].effect = running * mass
        mean += range_weight(f, chosen, c, c) / mass * w.cells[at + c].effect
        if c > lo:
            gain += w.cells[at + c].gap
    # Two passes: the largest variance between the parts of a cut, and then the best cut. A cut is good if the effects
    # of its parts differ, if its own gain is large, if both parts keep as much gain, and if they weigh the same; or,
    # as far as the attribute was chosen for its table, if it makes the table small.
    for_table = TABLE_GAIN * chosen_gain / excess / max(best, 1e-300)
    spread = 0.0
    best, cut = -1.0, lo + 1
    for attempt in range(2):
        share = between = below = 0.0
        parts, singles = 1, 0
        for c in range(lo + 1, hi + 1):
            singles += w.cells[at + c - 1].single
            part = range_weight(f, chosen, c - 1, c - 1) / mass
            share += part
            between += part * (w.cells[at + c - 1].effect - mean)
            variance = between * between / max(share * (1 - share), 1e-300)
            if attempt == 0:
                spread = max(spread, variance)
                continue
            if w.cells[at + c].gap <= 0:
                continue
            own = w.cells[at + c].gap / gain
            below += own
            middle = below - own / 2
            score = own + min(middle, 1 - middle) + 0.5 * min(share, 1 - share)
            if spread > 0:
                score += variance / spread
            score *= 1 - for_table
            if chosen_gain > 0:
                smaller = table_gain(f.axes[chosen].is_set, share, chosen_rows, parts, singles, c - lo)
                score += for_table * 3 * smaller / chosen_gain
            parts += 1
            if score > best:
                best, cut = score, c
    return chosen, cut
