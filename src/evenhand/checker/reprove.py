"""Prove the claimed shares of boxes: bound each box, and split it where the bounds leave mass open."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from evenhand.checker.floats.bounds import bound_margins
from evenhand.checker.floats.counting import LEVELS
from evenhand.checker.floats.network import float_network_of, share_events_of
from evenhand.checker.floats.proofs import BoxClaims, prove_boxes, prove_claims
from evenhand.checker.form import form_of
from evenhand.checker.network import CellAxis, RecordedQuestion
from evenhand.checker.reading import WHOLE, ClaimedBoxes
from evenhand.checker.shares import ProvedShares, SharesProver, best_of
from evenhand.core.kernels import is_compiled
from evenhand.core.typing import Integers

QUICK_PARTS = (64, 256)
"""Maximum number of parts of a box in the first and second quick pass."""
UPWARD = 1 + 2.0**-50
"""Factor that keeps a claimed share from becoming smaller when it is converted to a float."""
ROUNDING = 1e-9
"""Minimum excess of a proved share over the claim's complement that refutes the claim."""
MAX_PARTS = 4096
"""Maximum number of parts of a box. A box that needs more is not confirmed."""
SPLIT_PARTS = 256
"""Maximum number of parts that are split in one round."""
SUM_LOSS = 2.0**-40
"""Upper bound on the relative error of a sum of the shares of parts."""


@dataclass(frozen=True)
class BoxProof:
    """Proved lower bounds on the shares of a box.

    Attributes:
        confirmed: Whether the proof confirms the claim.
        refuted: Whether the proof contradicts the claim.
        fair, unfair: Proved shares.
        parts: Number of parts of the box.
    """

    confirmed: bool
    fair: float
    unfair: float
    parts: int
    refuted: bool = False


class BoxProver:
    """Prover of the shares of boxes for a network.

    Args:
        question: Question of the certificate.
        least: Minimum number of different outcomes that counts as unfair treatment.
    """

    def __init__(self, question: RecordedQuestion, least: int = 2) -> None:
        # Neighbours without mass are compared all the same: relaxed attributes keep all cells of the file.
        relaxed = question.statement.relaxed
        self._kept = [axis.kept if axis.attribute.name in relaxed else None for axis in question.axes]
        axes = tuple(
            axis if kept is None else replace(axis, kept=None)
            for axis, kept in zip(question.axes, self._kept, strict=True)
        )
        question = replace(question, axes=axes)
        self._constant = question.constant
        if self._constant:
            return
        form = form_of(question)
        self._network = float_network_of(question, form)
        self._events = share_events_of(form) if least == 2 and not relaxed else None
        widths = np.array([relaxed.get(axis.attribute.name, 0) for axis in axes], dtype=np.int64)
        self._shares = SharesProver(self._network, form, least, widths)

    @property
    def quick(self) -> bool:
        """Whether compiled counting supports this question."""
        return self._constant or self._events is not None

    @property
    def compiled(self) -> bool:
        """Whether the kernels are compiled."""
        return self._constant or is_compiled(prove_boxes if self.quick else bound_margins)

    def prove(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes."""
        claims = [(int(a), int(b)) for a, b in zip(boxes.fair, boxes.unfair, strict=True)]
        if self._constant:
            return [BoxProof(not other, 1.0, 0.0, 1) for _, other in claims]
        low, high = boxes.low.astype(np.int64), boxes.high.astype(np.int64)
        for i, kept in enumerate(self._kept):
            if kept is not None:
                low[:, i], high[:, i] = kept[low[:, i]], kept[high[:, i]]
        return [
            BoxProof(True, 0.0, 0.0, 0)
            if claim == (0, 0)
            else PartitionedBox(self._shares, low[k], high[k], claim).proof()
            for k, claim in enumerate(claims)
        ]

    def prove_quickly(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes by compiled counting."""
        if self._constant or self._events is None:
            return self.prove(boxes)
        low, high, fair, unfair = boxes
        n = len(low)
        claims = BoxClaims(*(np.minimum(1.0, shares / WHOLE * UPWARD) for shares in (fair, unfair)), *np.zeros((3, n)))
        some = (fair > 0) | (unfair > 0)
        confirmed, refuted = ~some, np.zeros(n, dtype=np.bool_)
        for most in QUICK_PARTS:
            again = np.flatnonzero(some & ~confirmed & ~refuted)
            taken = BoxClaims(*(np.ascontiguousarray(column[again]) for column in claims))
            box = low[again].astype(np.int64), high[again].astype(np.int64)
            prove_claims(self._network, self._events, *box, taken, most)
            for column, done in zip(claims, taken, strict=True):
                column[again] = done
            confirmed = (claims.proved_fair >= claims.fair) & (claims.proved_unfair >= claims.unfair)
            refuted = claims.proved_fair > 1 - claims.unfair + ROUNDING
            refuted |= claims.proved_unfair > 1 - claims.fair + ROUNDING
        rows = (
            confirmed,
            claims.proved_fair,
            claims.proved_unfair,
            claims.parts.astype(np.int64),
            refuted & ~confirmed,
        )
        return [BoxProof(*row) for row in zip(*(column.tolist() for column in rows), strict=True)]


NOTHING = ProvedShares(0.0, 0.0)


@dataclass
class _Part:
    """Part of a box: cells, share of the box's mass, proved shares, and the attribute to split (-1: none)."""

    low: Integers
    high: Integers
    size: float
    shares: ProvedShares = NOTHING
    axis: int = -1

    @property
    def open(self) -> float:
        """Open mass of this part, as a share of the box."""
        return self.size * self.shares.open


class PartitionedBox:
    """Box that is split where most mass is open until its claim is proved.

    Args:
        prover: Prover of shares.
        low, high: First and last cell of the box, shape (attributes,).
        claim: Claimed fair and unfair shares, in parts of ``WHOLE``.
    """

    def __init__(self, prover: SharesProver, low: Integers, high: Integers, claim: tuple[int, int]) -> None:
        self._prover = prover
        self._claim = tuple(min(1.0, share / WHOLE * UPWARD) for share in claim)
        self._whole = _box_mass(prover.form.axes, low, high)
        self._parts = [_Part(low, high, 1.0)]

    def proof(self) -> BoxProof:
        """Split the box until the claim is proved or refuted, or ``MAX_PARTS`` is reached."""
        assignments = len(self._prover.form.bases)
        ways = (False, True) if assignments > 1 else (False,)
        for together, level in [*((way, LEVELS[1]) for way in ways), (False, LEVELS[2])]:
            self._prove_part(self._parts[0], together=together, level=level)
            if self._is_reached():
                break
        # With two assignments, bounding them together gains too little on small parts.
        ways = ways if assignments > 2 else ways[:1]
        while not self._is_reached() and not self._is_refuted() and len(self._parts) < MAX_PARTS:
            able = sorted((part for part in self._parts if part.open > 0 and part.axis >= 0), key=lambda one: -one.open)
            if not able:
                break
            for part in able[: max(1, min(SPLIT_PARTS, len(able) // 2))]:
                for half_part in self._split(part):
                    for together in ways:
                        self._prove_part(half_part, together=together, level=LEVELS[1])
        fair, unfair = self._proved_shares()
        return BoxProof(self._is_reached(), fair, unfair, len(self._parts))

    def _prove_part(self, part: _Part, *, together: bool, level: tuple[int, int]) -> None:
        shares, axis = self._prover.prove(part.low, part.high, together=together, level=level)
        part.shares = best_of(part.shares, shares)
        part.axis = part.axis if together else axis

    def _split(self, part: _Part) -> tuple[_Part, _Part]:
        """Split a part in two, which replace it."""
        middle = (part.low[part.axis] + part.high[part.axis]) // 2
        end, begin = part.high.copy(), part.low.copy()
        end[part.axis], begin[part.axis] = middle, middle + 1
        other = _Part(begin, part.high, _box_mass(self._prover.form.axes, begin, part.high) / self._whole)
        part.size = _box_mass(self._prover.form.axes, part.low, end) / self._whole
        part.high, part.shares = end, NOTHING
        self._parts.append(other)
        return part, other

    def _proved_shares(self) -> tuple[float, float]:
        """Compute the proved shares of the whole box, rounded down; 1 only if every part is proved entirely."""
        fair, unfair = (
            self._add_up([getattr(part.shares, kind) for part in self._parts]) for kind in ("fair", "unfair")
        )
        return fair, unfair

    def _add_up(self, shares: list[float]) -> float:
        if all(share == 1 for share in shares):
            return 1.0
        parts = zip(self._parts, shares, strict=True)
        return sum(part.size * share for part, share in parts) * (1 - SUM_LOSS)

    def _is_reached(self) -> bool:
        return all(proved >= claimed for proved, claimed in zip(self._proved_shares(), self._claim, strict=True))

    def _is_refuted(self) -> bool:
        """Check whether the proved share of one kind contradicts the claim of the other."""
        fair, unfair = self._proved_shares()
        return fair > 1 - self._claim[1] + ROUNDING or unfair > 1 - self._claim[0] + ROUNDING


def _box_mass(axes: tuple[CellAxis, ...], low: Integers, high: Integers) -> int:
    """Compute the exact mass of a box."""
    return math.prod(
        int(axis.before(high[i : i + 1] + 1)[0] - axis.before(low[i : i + 1])[0]) for i, axis in enumerate(axes)
    )
