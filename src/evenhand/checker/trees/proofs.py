"""Bound parts of boxes of trees, and count their people, in integers (compiled)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from evenhand.checker.kernels import FAIR, UNFAIR, compile_entry, jit
from evenhand.checker.reprove import PartBounds, Prover
from evenhand.checker.trees.bounds import bound_box, choose_cut, copy_row, decide_box
from evenhand.checker.trees.counting import ALL, count_shares
from evenhand.checker.trees.forest import tree_arrays_for, whole_forest_of
from evenhand.checker.trees.question import RecordedTrees
from evenhand.core.kernels import is_compiled
from evenhand.core.typing import Integers


class TreeProver(Prover):
    """Prover of claims about boxes of trees.

    Args:
        question: Question of the certificate.
        least: Minimum number of different outcomes that counts as unfair treatment.
    """

    quick_parts: ClassVar[int] = 64

    def __init__(self, question: RecordedTrees, least: int = 2) -> None:
        super().__init__(question)
        self._forest = whole_forest_of(question, least)
        self.compiled = is_compiled(bound_parts)

    def workspace(self) -> Any:
        """Allocate the work arrays of one thread."""
        return tree_arrays_for(self._forest)

    def bound_parts(self, low: Integers, high: Integers, level: Integers, work: Any, *, quickly: bool) -> PartBounds:
        """Bound and count parts of boxes; see ``Prover``. ``quickly`` has no effect."""
        parts = np.empty((4, len(low)), dtype=np.int64)
        bound_parts(self._forest, work, low, high, parts)
        # Shares below the whole stay below 1. The rounding error of the division is far below ``MASS_LOSS``.
        shares = np.where(parts[:2] == ALL, 1.0, np.minimum(parts[:2] / ALL, 1 - 2.0**-53))
        return PartBounds(shares, parts[2], parts[3])


@compile_entry
def bound_parts(f, w, low, high, out):
    """Bound parts of boxes.

    Args:
        f, w: Trees, and work arrays.
        low, high: Parts, shape (parts, axes).
        out: Receives the proved fair and unfair shares in parts of ``ALL``, axis and cell of the next cut, (4, parts).
    """
    for p in range(len(low)):
        copy_row(w.low, low[p], len(w.low))
        copy_row(w.high, high[p], len(w.high))
        out[0, p], out[1, p] = _prove_part(f, w)
        out[2, p], out[3, p] = (-1, 0) if max(out[0, p], out[1, p]) == ALL else choose_cut(f, w)


@jit
def _prove_part(f, w):
    """Bound the part in ``w``, and count its people if that does not decide it."""
    varies, followed = bound_box(f, w)
    if not varies:
        return ALL, 0
    if not followed:
        return 0, 0
    kind = decide_box(f, w)
    if kind == FAIR:
        return ALL, 0
    if kind == UNFAIR:
        return 0, ALL
    return count_shares(f, w)
