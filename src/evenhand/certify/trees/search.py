"""The compiled search: bound boxes, decide them or prove the share of them that is decided, split what stays open."""

from __future__ import annotations

import numpy as np
from numba import njit

from evenhand.certify.trees.bounds import bound
from evenhand.certify.trees.shares import LOST, above, atoms, below, between, distribute

OPEN, FAIR, UNFAIR = 0, 1, 2
WEIGHTS = (1.0, 1.0, 0.5)
"""What a cut is worth: its own promise, that it halves the promise of its attribute's cuts, that it halves the mass."""


@njit(cache=True, nogil=True)
def judge(f, w):  # type: ignore[no-untyped-def]
    """What the bounds in ``w`` say of the whole box, from the sets of labels that each assignment may get in it."""
    margins, assignments = w.low.shape
    everything = (1 << f.classes) - 1
    sets = np.empty(assignments, np.int64)
    for p in range(assignments):
        possible = everything
        for m in range(margins):
            least = max(w.low[m, p] + w.ends[m, 0] - f.pad[m], w.least[m, p] - f.plain[m])
            most = min(w.high[m, p] + w.ends[m, 1] + f.pad[m], w.greatest[m, p] + f.plain[m])
            if least > f.slack[m]:
                possible &= ~(1 << f.pairs[m, 0])
            if most < -f.slack[m] or (f.slack[m] == 0 and most <= 0):
                possible &= ~(1 << f.pairs[m, 1])
        sets[p] = possible
    common = everything
    same = True
    for p in range(assignments):
        common &= sets[p]
        same &= sets[p] == sets[0]
    if same and sets[0] & (sets[0] - 1) == 0:
        return FAIR
    if common == 0:
        for p in range(assignments):
            for q in range(p):
                if sets[p] & sets[q] == 0:
                    return UNFAIR
    return OPEN


@njit(cache=True, nogil=True)
def proved(f, w, t):  # type: ignore[no-untyped-def]
    """Shares of the box that are proved fair and unfair."""
    margins = len(f.base)
    wins = np.zeros(f.classes)
    unfair = 0.0
    exact = True
    for m in range(margins):
        away = f.slack[m] + f.pad[m]
        high, low = away - w.low[m].min(), -away - w.high[m].max()
        some = w.ends[m, 1] > high or w.ends[m, 0] < low
        apart, bpart = away - w.low[m].max(), -away - w.high[m].min()
        mixed = margins == 1 and apart < bpart and w.ends[m, 0] < bpart and w.ends[m, 1] > apart
        first = second = 0.0
        if some or mixed:
            terms, constant = atoms(t, w.effect[m], w.share, f.offsets, w.lo, w.hi)
            size, rest, least, step, last = distribute(t, terms, constant)
            exact &= rest == 0
            second = above(t, high, size, rest, least, step, last)
            first = below(t, low, size, rest, least, step, last)
            if mixed:
                unfair = between(t, apart, bpart, size, rest, least, step, last)
        wins[f.pairs[m, 1]] += 1 - second
        wins[f.pairs[m, 0]] += 1 - first
    fair = 0.0
    for k in range(f.classes):
        fair += max(0.0, 1 - wins[k])
    if fair + unfair > 1 - 1e-10 and exact and margins == 1:
        # All joint values were looked at and none is open: what the sums lack is rounding.
        unfair = min(1.0, unfair)
        return 1 - unfair, unfair
    return max(0.0, fair * (1 - LOST) - LOST), max(0.0, unfair * (1 - LOST) - LOST)


@njit(cache=True, nogil=True)
def cut_for(f, w):  # type: ignore[no-untyped-def]
    """The attribute, and the first cell above the cut, of what promises most; -1 where no cut tells cells apart."""
    n, margins = len(f.offsets) - 1, len(f.base)
    best, chosen = 0.0, -1
    for i in range(n):
        at = f.offsets[i]
        total = 0.0
        for c in range(at + w.lo[i] + 1, at + w.hi[i] + 1):
            total += w.score[c]
        if total > best:
            best, chosen = total, i
    size = 0.0
    for m in range(margins):
        size += f.plain[m] + f.pad[m]
    if chosen < 0 or best <= size:
        # Only sums of terms are left: part the widest.
        best, chosen = 0.0, -1
        for i in range(n):
            at = f.offsets[i]
            width = 0.0
            for m in range(margins):
                part = w.effect[m, at + w.lo[i] : at + w.hi[i] + 1]
                width += part.max() - part.min()
            if width > best:
                best, chosen = width, i
        if chosen < 0:
            return -1, 0
        at = f.offsets[chosen]
        for c in range(at + w.lo[chosen] + 1, at + w.hi[chosen] + 1):
            w.score[c] = 0.0
            for m in range(margins):
                w.score[c] += abs(w.effect[m, c] - w.effect[m, c - 1])
    at = f.offsets[chosen]
    total = 0.0
    for c in range(at + w.lo[chosen] + 1, at + w.hi[chosen] + 1):
        total += w.score[c]
    running, best, cut = 0.0, -1.0, -1
    for c in range(w.lo[chosen] + 1, w.hi[chosen] + 1):
        score = w.score[at + c] / total
        if score <= 0:
            continue
        running += score
        middle = running - score / 2
        share = w.share[at + c]
        worth = WEIGHTS[0] * score + WEIGHTS[1] * min(middle, 1 - middle) + WEIGHTS[2] * min(share, 1 - share)
        if worth > best:
            best, cut = worth, c
    return chosen, cut


@njit(cache=True, nogil=True)
def mass_of(f, lo, hi):  # type: ignore[no-untyped-def]
    """Share of the population in a box."""
    mass = 1.0
    for i in range(len(lo)):
        at = f.offsets[i]
        mass *= f.before[at + hi[i] + 1] - f.before[at + lo[i]]
    return mass


@njit(cache=True, nogil=True)
def look(f, w, t, lo, hi):  # type: ignore[no-untyped-def]
    """One box: what it is as a whole, proved shares (fair, unfair), and where to cut it."""
    w.lo[:] = lo
    w.hi[:] = hi
    if not bound(f, w):
        return FAIR, 1.0, 0.0, -1, 0
    kind = judge(f, w)
    if kind != OPEN:
        return kind, 1.0 if kind == FAIR else 0.0, 1.0 if kind == UNFAIR else 0.0, -1, 0
    fair, unfair = proved(f, w, t)
    attribute, cut = cut_for(f, w)
    return OPEN, fair, unfair, attribute, cut


@njit(cache=True, nogil=True)
def refine(  # type: ignore[no-untyped-def]
    f, w, t, low, high, before, attribute, cut, threshold, limit, out_low, out_high, out, out_attribute, out_cut, totals
):
    """Split boxes again and again until no part has more than a threshold open, or so many boxes were bounded.

    Args:
        f, w, t: forest and work arrays.
        low, high, before, attribute, cut: boxes, what is known of them (as ``out``), and where each is to be cut
            (attribute -1: not bounded yet).
        threshold: open mass at which a part is put out.
        limit: boxes to bound at most.
        out_low, out_high, out_attribute, out_cut: take the parts that are not decided as a whole.
        out: (parts, 3) takes mass and proved masses, fair and unfair.
        totals: takes mass decided fair, mass decided unfair, and boxes bounded.

    Returns:
        How many parts were put out.
    """
    n = low.shape[1]
    room = len(out)
    stack_low = np.empty((room + 2, n), np.int32)
    stack_high = np.empty((room + 2, n), np.int32)
    count = 0
    for b in range(len(low)):
        top = 0
        if totals[2] >= limit or count + 2 * (len(low) - b) + 2 >= room:
            out_low[count] = low[b]
            out_high[count] = high[b]
            out[count] = before[b]
            out_attribute[count] = attribute[b]
            out_cut[count] = cut[b]
            count += 1
            continue
        if attribute[b] < 0:
            stack_low[0] = low[b]
            stack_high[0] = high[b]
            top = 1
        else:
            for side in range(2):
                stack_low[top] = low[b]
                stack_high[top] = high[b]
                if side:
                    stack_low[top, attribute[b]] = cut[b]
                else:
                    stack_high[top, attribute[b]] = cut[b] - 1
                top += 1
        while top > 0:
            top -= 1
            lo, hi = stack_low[top].copy(), stack_high[top].copy()
            mass = mass_of(f, lo, hi)
            if mass <= 0:
                continue
            if totals[2] >= limit or count + top + 2 * (len(low) - b) + 2 >= room:
                out_low[count] = lo
                out_high[count] = hi
                out[count, 0] = mass
                out[count, 1] = 0.0
                out[count, 2] = 0.0
                out_attribute[count] = -1
                out_cut[count] = 0
                count += 1
                continue
            kind, fair, unfair, where, place = look(f, w, t, lo, hi)
            totals[2] += 1
            if kind == FAIR or fair == 1.0:
                totals[0] += mass
                continue
            if kind == UNFAIR:
                totals[1] += mass
                continue
            if where < 0 or mass * (1 - fair - unfair) <= threshold:
                out_low[count] = lo
                out_high[count] = hi
                out[count, 0] = mass
                out[count, 1] = mass * fair
                out[count, 2] = mass * unfair
                out_attribute[count] = where
                out_cut[count] = place
                count += 1
                continue
            for side in range(2):
                stack_low[top] = lo
                stack_high[top] = hi
                if side:
                    stack_low[top, where] = place
                else:
                    stack_high[top, where] = place - 1
                top += 1
    return count
