"""Prove the claimed shares of boxes: bound each box, and repeatedly split the parts with the most open mass.

Parts of a box are disjoint and cover it, and the proved shares of each are lower bounds. All numbers are nonnegative,
so only relative errors add up: a few roundings for each split and each addition, which ``MASS_LOSS`` covers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.question import DomainAxis, RecordedDomain
from evenhand.checker.reading import WHOLE, ClaimedBoxes
from evenhand.core.typing import Booleans, Floats, Integers

MAX_PARTS = 4096
"""Approximate maximum number of parts of a box. A box that needs more is not confirmed."""
MASS_LOSS = 2.0**-36
"""Bound on the relative error of a sum of masses of parts, with a safety margin."""
UPWARD = 1 + 2.0**-50
"""Factor that keeps a claimed share from becoming smaller when it is converted to a float."""
ROUNDING = 1e-9
"""Minimum excess of a proved share over the claim's complement that refutes the claim."""
OPEN_SHARE = 0.5
"""Open mass, as a share of the largest open mass of a part of the box, from which a part is split."""


class BoxProofs(NamedTuple):
    """Proofs of the claims of boxes, each of shape (boxes,).

    Attributes:
        confirmed, refuted: Whether the proof confirms or contradicts the claim.
        fair, unfair: Proved lower bounds on the shares.
    """

    confirmed: Booleans
    refuted: Booleans
    fair: Floats
    unfair: Floats


class PartBounds(NamedTuple):
    """Proved shares of parts, and where to split them.

    Attributes:
        shares: Fair and unfair shares, exactly 1 for a part that is decided as a whole, shape (2, parts).
        axis, cut: Axis to split (-1 for none), and first cell of the upper half, shape (parts,).
    """

    shares: Floats
    axis: Integers
    cut: Integers


class Prover(ABC):
    """Prover of claims about boxes of one question.

    Attributes:
        quick_parts: Maximum number of parts of a box in quick proofs.
        levels: Number of ways to count the people of a box, from fast to precise.
        quick: Whether all boxes are checked by default.
        compiled: Whether the kernels are compiled.
    """

    quick_parts: ClassVar[int]
    levels: int = 0
    quick: bool = True
    compiled: bool = True

    def __init__(self, question: RecordedDomain) -> None:
        self._axes: tuple[DomainAxis, ...] = question.axes

    @abstractmethod
    def workspace(self) -> Any:
        """Allocate the work arrays of one thread."""

    @abstractmethod
    def bound_parts(self, low: Integers, high: Integers, level: Integers, work: Any, *, quickly: bool) -> PartBounds:
        """Bound parts of boxes.

        Args:
            low, high: First and last cells, shape (parts, attributes).
            level: Counting method for each part that bounds leave undecided; -1 for none.
            work: Work arrays.
            quickly: Whether to prefer less work per part over tight bounds.
        """

    def prove(self, boxes: ClaimedBoxes, max_parts: int = MAX_PARTS, *, quickly: bool = False) -> BoxProofs:
        """Prove the claims of boxes, each split into about ``max_parts`` parts at most."""
        claims = np.minimum(1.0, np.stack([boxes.fair, boxes.unfair]) / WHOLE * UPWARD)
        n, claimed, entire = claims.shape[1], np.any(claims > 0, axis=0), np.any(claims == 1.0, axis=0)
        owner = np.flatnonzero(claimed)
        low, high = (cells[owner].astype(np.int64) for cells in (boxes.low, boxes.high))
        mass, work = np.ones(len(owner)), self.workspace()
        bounds = PartBounds(np.zeros((2, len(owner))), np.full(len(owner), -1), np.zeros(len(owner), dtype=np.int64))
        proved = np.zeros((2, n))

        def bound(parts: NDArray[np.intp], level: int) -> None:
            """Bound some parts, and sum the proved shares of all boxes."""
            wanted = np.where(entire[owner[parts]], -1, level)
            shares, bounds.axis[parts], bounds.cut[parts] = self.bound_parts(
                low[parts], high[parts], wanted, work, quickly=quickly
            )
            bounds.shares[:, parts] = np.maximum(bounds.shares[:, parts], shares)
            for kind, share in enumerate(bounds.shares):
                total, partly = np.bincount(owner, mass * share, n), np.bincount(owner, share < 1.0, n) > 0
                proved[kind] = np.where(partly, total * (1 - MASS_LOSS), claimed)

        def is_open() -> Booleans:
            """Find the claims that the proofs neither confirm nor contradict."""
            below, beyond = np.any(proved < claims, axis=0), np.any(proved > 1 - claims[::-1] + ROUNDING, axis=0)
            return np.asarray(below & ~beyond)

        # The cheapest steps come first: bounds of the whole box, counts from fast to precise, splits.
        for level in range(-1, self.levels):
            chosen = np.flatnonzero((is_open() & ~(entire & (level >= 0)))[owner])
            if len(chosen):
                bound(chosen, level)
        while True:
            splitting = (is_open() & (np.bincount(owner, minlength=n) < max_parts))[owner] & (bounds.axis >= 0)
            open_mass = np.where(splitting, mass * (1 - bounds.shares.sum(axis=0)), 0.0)
            largest = np.zeros(n)
            np.maximum.at(largest, owner, open_mass)
            chosen = np.flatnonzero((open_mass > 0) & (open_mass >= OPEN_SHARE * largest[owner]))
            if not len(chosen):
                break
            axis, cut, count = bounds.axis[chosen], bounds.cut[chosen], len(owner)
            share = self._upper_shares(low[chosen], high[chosen], axis, cut)
            owner, low, high = (np.concatenate([each, each[chosen]]) for each in (owner, low, high))
            mass = np.concatenate([mass, mass[chosen] * share])
            mass[chosen] *= 1.0 - share
            high[chosen, axis] = cut - 1
            low[count + np.arange(len(chosen)), axis] = cut
            fresh = PartBounds(np.zeros((2, len(chosen))), axis, cut)
            bounds.shares[:, chosen] = 0.0
            bounds = PartBounds(*(np.concatenate(pair, axis=-1) for pair in zip(bounds, fresh, strict=True)))
            bound(np.concatenate([chosen, np.arange(count, len(owner))]), self.levels - 1)
        confirmed = np.asarray(np.all(proved >= claims, axis=0))
        return BoxProofs(confirmed, ~confirmed & ~is_open(), *proved)

    def _upper_shares(self, low: Integers, high: Integers, axis: Integers, cut: Integers) -> Floats:
        """Compute the share of each part's mass at and above a cut, shape (parts,)."""
        shares = np.empty(len(axis))
        for i in np.unique(axis):
            rows = np.flatnonzero(axis == i)
            begin, middle, end = (self._axes[i].before(c[rows]) for c in (low[:, i], cut, high[:, i] + 1))
            shares[rows] = (end - middle) / (end - begin)
        return shares
