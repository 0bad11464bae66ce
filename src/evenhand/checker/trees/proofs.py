"""Proving the claims of many boxes about trees again: bounded and counted as a whole, then cut where most is open."""

from __future__ import annotations

import threading

import numpy as np

from evenhand.checker.reading import WHOLE, ClaimedBoxes
from evenhand.checker.reprove import BoxProof
from evenhand.checker.trees.bounds import FAIR, UNFAIR, bound_box, choose_cut, copy_row, decide_box
from evenhand.checker.trees.counting import ALL, count_shares, multiply, share_of
from evenhand.checker.trees.forest import WholeForest, tree_arrays_for, whole_forest_of
from evenhand.checker.trees.question import RecordedTrees
from evenhand.core.kernels import compile_kernel, is_compiled

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)

QUICK_PARTS = 64
"""Parts that a box is cut into at first."""
MAX_PARTS = 4096
"""Parts that a box is cut into before it counts as not confirmed."""


class TreeProver:
    """Proves shares of boxes of a question about trees.

    Args:
        question: Question of the certificate.
        least: how many different outcomes a person must be able to get to count as treated unfairly.
    """

    quick = True

    def __init__(self, question: RecordedTrees, least: int = 2) -> None:
        self._forest: WholeForest = whole_forest_of(question, least)
        self._own = threading.local()

    @property
    def compiled(self) -> bool:
        """Whether its kernels have been compiled."""
        return is_compiled(prove_boxes)

    def prove_quickly(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove claims again, cutting boxes into few parts."""
        return self._prove(boxes, QUICK_PARTS)

    def prove(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove claims again."""
        return self._prove(boxes, MAX_PARTS)

    def _prove(self, boxes: ClaimedBoxes, most: int) -> list[BoxProof]:
        low, high, fair, unfair = boxes
        # Claimed in parts of ALL, rounded up: a share of WHOLE parts is all of it.
        claims = [[-(-int(parts) * ALL // WHOLE) for parts in shares] for shares in (fair, unfair)]
        wanted = np.array(claims, dtype=np.int64).T.copy()
        proved = np.zeros((len(low), 3), dtype=np.int64)
        if not hasattr(self._own, "work"):
            self._own.work = tree_arrays_for(self._forest)
        axes = low.shape[1]
        parts = np.zeros((2, most + 1, axes), dtype=np.int64)
        known = np.zeros((most + 1, 5), dtype=np.int64)
        prove_boxes(
            self._forest, self._own.work, low.astype(np.int64), high.astype(np.int64), wanted, proved, parts, known
        )
        found = []
        for (a, b), (one, other, number) in zip(wanted.tolist(), proved.tolist(), strict=True):
            confirmed = one >= a and other >= b
            refuted = not confirmed and (one > ALL - b or other > ALL - a)
            found.append(BoxProof(confirmed, one / ALL, other / ALL, number, refuted))
        return found


@compile_kernel(nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
def prove_boxes(f, w, low, high, wanted, proved, parts, known):
    """Prove claims about boxes.

    Args:
        f, w: the trees, and work arrays.
        low, high: boxes, shape (n, axes).
        wanted: shares to reach, fair and unfair, out of ``ALL``, shape (n, 2).
        proved: takes shares that were proved, and the number of parts, shape (n, 3).
        parts: room for the parts of a box, (2, most + 1, axes).
        known: of each part mass, shares proved fair and unfair, where to cut it, (most + 1, 5).
    """
    most = len(known) - 1
    for b in range(len(low)):
        fair, unfair = wanted[b, 0], wanted[b, 1]
        if fair == 0 and unfair == 0:
            proved[b, :] = 0
            continue
        copy_row(parts[0, 0], low[b], low.shape[1])
        copy_row(parts[1, 0], high[b], low.shape[1])
        known[0, 0] = ALL
        _prove_part(f, w, parts, known, 0)
        n = 1
        while n < most and not _is_settled(known, n, fair, unfair):
            # The part with the most open mass is cut next.
            best, chosen = 0, -1
            for p in range(n):
                left = multiply(known[p, 0], ALL - known[p, 1] - known[p, 2])
                if known[p, 3] >= 0 and left > best:
                    best, chosen = left, p
            if chosen < 0:
                break
            i, cut = known[chosen, 3], known[chosen, 4]
            at, first, last = f.cell[i] + i, parts[0, chosen, i], parts[1, chosen, i]
            whole = f.before[at + last + 1] - f.before[at + first]
            mass = known[chosen, 0]
            copy_row(parts[0, n], parts[0, chosen], low.shape[1])
            copy_row(parts[1, n], parts[1, chosen], low.shape[1])
            parts[0, n, i] = cut
            parts[1, chosen, i] = cut - 1
            known[n, 0] = multiply(mass, share_of(f.before[at + last + 1] - f.before[at + cut], whole))
            known[chosen, 0] = multiply(mass, share_of(f.before[at + cut] - f.before[at + first], whole))
            _prove_part(f, w, parts, known, chosen)
            _prove_part(f, w, parts, known, n)
            n += 1
        for kind in range(2):
            proved[b, kind] = _sum_parts(known, n, 1 + kind)
        proved[b, 2] = n


@jit
def _sum_parts(known, n, kind):
    """Return the share of a box from those of its parts, rounded down; all of it if it is all everywhere."""
    total, everywhere = 0, True
    for p in range(n):
        total += multiply(known[p, 0], known[p, kind])
        everywhere = everywhere and known[p, kind] == ALL
    return ALL if everywhere else total


@jit
def _is_settled(known, n, fair, unfair):
    """Return whether the claim is reached, or so much is proved of one kind that the other cannot be."""
    one, other = _sum_parts(known, n, 1), _sum_parts(known, n, 2)
    return (one >= fair and other >= unfair) or one > ALL - unfair or other > ALL - fair


@jit
def _prove_part(f, w, parts, known, p):
    """Bound a part of a box and count it; note its shares, and where to cut it (-1: nowhere)."""
    copy_row(w.low, parts[0, p], len(w.low))
    copy_row(w.high, parts[1, p], len(w.high))
    known[p, 1] = known[p, 2] = 0
    known[p, 3] = -1
    varies, followed = bound_box(f, w)
    if not varies:
        known[p, 1] = ALL
        return
    if followed:
        kind = decide_box(f, w)
        if kind == FAIR:
            known[p, 1] = ALL
            return
        if kind == UNFAIR:
            known[p, 2] = ALL
            return
        known[p, 1], known[p, 2] = count_shares(f, w)
    known[p, 3], known[p, 4] = choose_cut(f, w)
