"""The compiled search: bound boxes, decide them or prove the share of them that is decided, split what stays open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.bounds import bound_margins
from evenhand.certification.bounds.trees.shares import (
    RELATIVE_MASS_ERROR,
    collect_values,
    fill_distribution,
    share_above,
    share_below,
    share_between,
)
from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats

OPEN, FAIR, UNFAIR = 0, 1, 2
WEIGHTS = (1.0, 1.0, 0.5)
"""Weights of a cut's own score, of halving the score of its attribute's cuts, and of halving the mass."""


class TreeBoxArrays(NamedTuple):
    """Boxes one below the other: cells, mass and proved masses, and where to cut; see ``TreeFrontier``.

    ``kind`` is the outcome of whole boxes. If it is empty, decided parts are not returned.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    known: Floats
    attribute: NDArray[np.int32]
    cut: NDArray[np.int32]
    kind: NDArray[np.int8]


@compile_kernel(internal=True, nogil=True)
def decide_box(f, w):
    """Decide the whole box by the bounds in ``w``, from the sets of possible labels under each assignment."""
    # Margin m under p is, over the whole box, in [low + min M, high + max M], and in [least, greatest] from the leaves
    # alone: the narrower of both, widened by our own rounding. Beyond the slack it rules one label of its pair out, for
    # the deployed model too. FAIR: one label is left, the same under all assignments. UNFAIR: two assignments have no
    # possible label in common.
    margins, assignments = w.low.shape
    if f.demanded:
        return decide_demanded(f, w)
    everything = (1 << f.classes) - 1
    sets = np.empty(assignments, np.int64)
    for p in range(assignments):
        possible = everything
        for m in range(margins):
            lowest = max(w.low[m, p] + w.ends[m, 0] - f.pad[m], w.least[m, p] - f.plain[m])
            highest = min(w.high[m, p] + w.ends[m, 1] + f.pad[m], w.greatest[m, p] + f.plain[m])
            if lowest > f.slack[m]:
                possible &= ~(1 << f.pairs[m, 0])
            # A margin of exactly zero goes to the first label; that counts only where nothing rounds.
            if highest < -f.slack[m] or (f.slack[m] == 0 and highest <= 0):
                possible &= ~(1 << f.pairs[m, 1])
        sets[p] = possible
    common = everything
    same = True
    for p in range(assignments):
        common &= sets[p]
        same &= sets[p] == sets[0]
    if same and sets[0] & (sets[0] - 1) == 0:
        return FAIR
    if f.least > 2:
        return count_labels(f, sets)
    if common == 0:
        for p in range(assignments):
            for q in range(p):
                if sets[p] & sets[q] == 0:
                    return UNFAIR
    return OPEN


@compile_kernel(internal=True, nogil=True)
def decide_demanded(f, w):
    """The same where label 0 is demanded: every margin sets it against another label."""
    within = True
    for m in range(len(f.base)):
        lowest = max(w.low[m, 0] + w.ends[m, 0] - f.pad[m], w.least[m, 0] - f.plain[m])
        highest = min(w.high[m, 0] + w.ends[m, 1] + f.pad[m], w.greatest[m, 0] + f.plain[m])
        if lowest > f.slack[m]:
            return UNFAIR
        within &= highest < -f.slack[m]
    return FAIR if within else OPEN


@compile_kernel(internal=True, nogil=True)
def count_labels(f, sets):
    """Whether fewer than ``f.least`` labels, or that many, occur wherever in a box, from each assignment's set."""
    # As many occur, at least, as are the only one left somewhere; at most all that are left anywhere, or one more than
    # these for every assignment that is left several.
    union = certain = unsure = 0
    for labels in sets:
        union |= labels
        if labels & (labels - 1) == 0:
            certain |= labels
        else:
            unsure += 1
    possible = known = 0
    for k in range(f.classes):
        possible += (union >> k) & 1
        known += (certain >> k) & 1
    if known >= f.least:
        return UNFAIR
    return FAIR if min(possible, known + unsure) < f.least else OPEN


@compile_kernel(internal=True, nogil=True)
def prove_box(f, w, t):
    """Return the shares of the box that are proved fair and unfair."""
    # margin_m(x, p) is in M_m(x) + [low_p, high_p], and M_m is the same for all p. So M_m > away - min_p low_p makes
    # margin m positive under every assignment, M_m < -away - max_p high_p negative: two tails of one sum.
    margins = len(f.base)
    wins = np.zeros(f.classes)
    beaten = np.zeros(margins + 1)
    unfair = 0.0
    exact = True
    for m in range(margins):
        away = f.slack[m] + f.pad[m]
        high, low = away - w.low[m].min(), -away - w.high[m].max()
        some = w.ends[m, 1] > high or w.ends[m, 0] < low
        # Unfair with two labels: positive under the assignment with the largest low_p, negative under the one with the
        # smallest high_p, which holds if M is between these two.
        unfair_share, bpart = away - w.low[m].max(), -away - w.high[m].min()
        mixed = margins == 1 and unfair_share < bpart and w.ends[m, 0] < bpart and w.ends[m, 1] > unfair_share
        first_label = second = 0.0
        if some or mixed:
            terms, constant = collect_values(t, w.effect[m], w.share, f.offsets, w.lo, w.hi)
            size, unlisted, lowest, step, steps = fill_distribution(t, terms, constant)
            exact &= unlisted == 0
            second = share_above(t, high, size, unlisted, lowest, step, steps)
            first_label = share_below(t, low, size, unlisted, lowest, step, steps)
            if mixed:
                unfair = share_between(t, unfair_share, bpart, size, unlisted, lowest, step, steps)
        # By label, the chances that it does not surely beat some other: label k wins everywhere with at least 1 - their
        # sum (Bonferroni).
        beaten[m] = second
        wins[f.pairs[m, 1]] += 1 - second
        wins[f.pairs[m, 0]] += 1 - first_label
    fair = 0.0
    for k in range(1 if f.demanded else f.classes):
        fair += max(0.0, 1 - wins[k])
    if f.demanded:
        # Margins 2k and 2k + 1 exclude each other: the likeliest and its opposite.
        best = np.argmax(beaten[:margins])
        unfair = beaten[best] + beaten[best ^ 1]
    elif f.least > 2:
        unfair = 0.0
    if fair + unfair > 1 - 1e-10 and exact and margins == 1:
        # All joint values were enumerated and none is open, so the rest is rounding.
        unfair = min(1.0, unfair)
        return 1 - unfair, unfair
    return max(0.0, fair * (1 - RELATIVE_MASS_ERROR) - RELATIVE_MASS_ERROR), max(
        0.0, unfair * (1 - RELATIVE_MASS_ERROR) - RELATIVE_MASS_ERROR
    )


@compile_kernel(internal=True, nogil=True)
def best_cut(f, w):
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
    # A cut's own score says how much of the gap it takes away; ``middle`` is the score on its left (with half its own),
    # so the second term is largest where both parts keep as much, and the third where both weigh as much.
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


@compile_kernel(internal=True, nogil=True)
def box_mass(f, lo, hi):
    """Return the share of the population in a box."""
    # Attributes are independent: the masses of the ranges multiply.
    mass = 1.0
    for i in range(len(lo)):
        at = f.offsets[i]
        mass *= f.before[at + hi[i] + 1] - f.before[at + lo[i]]
    return mass


@compile_kernel(internal=True, nogil=True)
def inspect_box(f, w, t, lo, hi):
    """Prove one box: its outcome as a whole, proved shares (fair, unfair), and the best cut."""
    # If no tree differs between the assignments anywhere in the box, the decision is equal.
    w.lo[:] = lo
    w.hi[:] = hi
    if not bound_margins(f, w):
        return FAIR, 1.0, 0.0, -1, 0
    kind = decide_box(f, w)
    if kind != OPEN:
        return kind, 1.0 if kind == FAIR else 0.0, 1.0 if kind == UNFAIR else 0.0, -1, 0
    fair, unfair = prove_box(f, w, t)
    attribute, cut = best_cut(f, w)
    return OPEN, fair, unfair, attribute, cut


@compile_kernel(nogil=True)
def refine_tree_boxes(f, w, t, boxes, threshold, limit, out, totals):
    """Split boxes until no part has more open mass than a threshold, or a number of boxes is bounded.

    Args:
        f, w, t: forest and work arrays.
        boxes: to be split, those with attribute -1 to be bounded first.
        threshold: open mass at which a part is put out.
        limit: boxes to bound at most.
        out: Output of undecided parts, and of decided ones if it has ``kind``.
        totals: takes mass decided fair, mass decided unfair, and boxes bounded.

    Returns:
        How many parts were put out.
    """
    low, high, attribute, cut = boxes.low, boxes.high, boxes.attribute, boxes.cut
    # Depth first, box by box. Invariant: the parts on the stack, in the output and in ``totals`` partition the
    # processed boxes, except for parts without mass. Boxes beyond the limits are returned unchanged.
    n = low.shape[1]
    room = len(out.known)
    recording = len(out.kind) > 0
    out.kind[:] = OPEN
    stack_low = np.empty((room + 2, n), np.int32)
    stack_high = np.empty((room + 2, n), np.int32)
    count = 0
    for b in range(len(low)):
        top = 0
        if totals[2] >= limit or count + 2 * (len(low) - b) + 2 >= room:
            out.low[count] = low[b]
            out.high[count] = high[b]
            out.known[count] = boxes.known[b]
            out.attribute[count] = attribute[b]
            out.cut[count] = cut[b]
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
            mass = box_mass(f, lo, hi)
            if mass <= 0:
                continue
            if totals[2] >= limit or count + top + 2 * (len(low) - b) + 2 >= room:
                out.low[count] = lo
                out.high[count] = hi
                out.known[count, 0] = mass
                out.known[count, 1] = 0.0
                out.known[count, 2] = 0.0
                out.attribute[count] = -1
                out.cut[count] = 0
                count += 1
                continue
            kind, fair, unfair, where, place = inspect_box(f, w, t, lo, hi)
            totals[2] += 1
            # A share of one is a proof too, because every joint value was enumerated.
            if kind in (FAIR, UNFAIR) or fair == 1.0:
                totals[1 if kind == UNFAIR else 0] += mass
                if recording:
                    out.low[count] = lo
                    out.high[count] = hi
                    out.known[count, 0] = mass
                    out.attribute[count] = -1
                    out.kind[count] = UNFAIR if kind == UNFAIR else FAIR
                    count += 1
                continue
            if where < 0 or mass * (1 - fair - unfair) <= threshold:
                out.low[count] = lo
                out.high[count] = hi
                out.known[count, 0] = mass
                out.known[count, 1] = mass * fair
                out.known[count, 2] = mass * unfair
                out.attribute[count] = where
                out.cut[count] = place
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
