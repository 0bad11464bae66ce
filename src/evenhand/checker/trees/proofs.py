"""Prove the claims of many boxes about trees: each box is bounded and counted, then its most open part is cut."""

from __future__ import annotations

import threading

import numpy as np

from evenhand.checker.kernels import FAIR, UNFAIR, compile_entry, jit
from evenhand.checker.reading import WHOLE, ClaimedBoxes
from evenhand.checker.reprove import BoxProof
from evenhand.checker.trees.bounds import bound_box, choose_cut, copy_row, decide_box
from evenhand.checker.trees.counting import ALL, count_shares, multiply, share_of
from evenhand.checker.trees.forest import WholeForest, tree_arrays_for, whole_forest_of
from evenhand.checker.trees.question import RecordedTrees
from evenhand.core.kernels import is_compiled

QUICK_PARTS = 64
"""Initial number of parts of a box."""
MAX_PARTS = 4096
"""Maximum number of parts of a box. Above it, the box counts as not confirmed."""


class TreeProver:
    """Prover of the shares of boxes for trees.

    Args:
        question: Question of the certificate.
        least: Minimum number of different outcomes that counts as unfair treatment.
    """

    quick = True

    def __init__(self, question: RecordedTrees, least: int = 2) -> None:
        self._forest: WholeForest = whole_forest_of(question, least)
        self._own = threading.local()

    @property
    def compiled(self) -> bool:
        """Whether the kernels are compiled."""
        return is_compiled(prove_boxes)

    def prove_quickly(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes, each cut into few parts."""
        return self._prove(boxes, QUICK_PARTS)

    def prove(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes."""
        return self._prove(boxes, MAX_PARTS)

    def _prove(self, boxes: ClaimedBoxes, max_parts: int) -> list[BoxProof]:
        low, high, fair, unfair = boxes
        # Claims in parts of ALL, rounded up; a share of WHOLE parts becomes ALL.
        claims = [[-(-int(parts) * ALL // WHOLE) for parts in shares] for shares in (fair, unfair)]
        claimed = np.array(claims, dtype=np.int64).T.copy()
        proved = np.zeros((len(low), 2), dtype=np.int64)
        if not hasattr(self._own, "work"):
            self._own.work = tree_arrays_for(self._forest)
        axes = low.shape[1]
        parts = np.zeros((2, max_parts + 1, axes), dtype=np.int64)
        part_shares = np.zeros((max_parts + 1, 5), dtype=np.int64)
        prove_boxes(
            self._forest,
            self._own.work,
            low.astype(np.int64),
            high.astype(np.int64),
            claimed,
            proved,
            parts,
            part_shares,
        )
        proofs = []
        for (a, b), (fair_share, unfair_share) in zip(claimed.tolist(), proved.tolist(), strict=True):
            confirmed = fair_share >= a and unfair_share >= b
            refuted = not confirmed and (fair_share > ALL - b or unfair_share > ALL - a)
            proofs.append(BoxProof(confirmed, fair_share / ALL, unfair_share / ALL, refuted))
        return proofs


@compile_entry
def prove_boxes(f, w, low, high, claimed, proved, parts, part_shares):
    """Prove claims about boxes.

    Args:
        f, w: Trees, and work arrays.
        low, high: Boxes, shape (n, axes).
        claimed: Claimed fair and unfair shares, in parts of ``ALL``, shape (n, 2).
        proved: Receives the proved shares, shape (n, 2).
        parts: Work array for the parts of a box, shape (2, parts + 1, axes).
        part_shares: Mass, proved fair and unfair shares, axis and cell of the next cut of each part, shape (parts + 1,
            5).
    """
    max_parts = len(part_shares) - 1
    for b in range(len(low)):
        fair, unfair = claimed[b, 0], claimed[b, 1]
        if fair == 0 and unfair == 0:
            proved[b, :] = 0
            continue
        copy_row(parts[0, 0], low[b], low.shape[1])
        copy_row(parts[1, 0], high[b], low.shape[1])
        part_shares[0, 0] = ALL
        _prove_part(f, w, parts, part_shares, 0)
        n = 1
        while n < max_parts and not _is_settled(part_shares, n, fair, unfair):
            # The part with the most open mass is cut next.
            best, chosen = 0, -1
            for p in range(n):
                left = multiply(part_shares[p, 0], ALL - part_shares[p, 1] - part_shares[p, 2])
                if part_shares[p, 3] >= 0 and left > best:
                    best, chosen = left, p
            if chosen < 0:
                break
            i, cut = part_shares[chosen, 3], part_shares[chosen, 4]
            at, begin, end = f.cell[i] + i, parts[0, chosen, i], parts[1, chosen, i]
            total = f.before[at + end + 1] - f.before[at + begin]
            mass = part_shares[chosen, 0]
            copy_row(parts[0, n], parts[0, chosen], low.shape[1])
            copy_row(parts[1, n], parts[1, chosen], low.shape[1])
            parts[0, n, i] = cut
            parts[1, chosen, i] = cut - 1
            part_shares[n, 0] = multiply(mass, share_of(f.before[at + end + 1] - f.before[at + cut], total))
            part_shares[chosen, 0] = multiply(mass, share_of(f.before[at + cut] - f.before[at + begin], total))
            _prove_part(f, w, parts, part_shares, chosen)
            _prove_part(f, w, parts, part_shares, n)
            n += 1
        for kind in range(2):
            proved[b, kind] = _sum_parts(part_shares, n, 1 + kind)


@jit
def _sum_parts(part_shares, n, kind):
    """Compute the share of a box from those of its parts, rounded down; ``ALL`` if all parts have it."""
    total, everywhere = 0, True
    for p in range(n):
        total += multiply(part_shares[p, 0], part_shares[p, kind])
        everywhere = everywhere and part_shares[p, kind] == ALL
    return ALL if everywhere else total


@jit
def _is_settled(part_shares, n, fair, unfair):
    """Check whether the claim is reached, or contradicted by the proved share of the other kind."""
    proved_fair, proved_unfair = _sum_parts(part_shares, n, 1), _sum_parts(part_shares, n, 2)
    return (proved_fair >= fair and proved_unfair >= unfair) or proved_fair > ALL - unfair or proved_unfair > ALL - fair


@jit
def _prove_part(f, w, parts, part_shares, p):
    """Bound a part of a box and count it; store its shares, and where to cut it (-1: nowhere)."""
    copy_row(w.low, parts[0, p], len(w.low))
    copy_row(w.high, parts[1, p], len(w.high))
    part_shares[p, 1] = part_shares[p, 2] = 0
    part_shares[p, 3] = -1
    varies, followed = bound_box(f, w)
    if not varies:
        part_shares[p, 1] = ALL
        return
    if followed:
        kind = decide_box(f, w)
        if kind == FAIR:
            part_shares[p, 1] = ALL
            return
        if kind == UNFAIR:
            part_shares[p, 2] = ALL
            return
        part_shares[p, 1], part_shares[p, 2] = count_shares(f, w)
    part_shares[p, 3], part_shares[p, 4] = choose_cut(f, w)
