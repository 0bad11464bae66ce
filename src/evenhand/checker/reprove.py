"""Prove the claimed shares of boxes of a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.checker.floats.network import BoxQuestion, box_question_of, count_functions, float_network_of
from evenhand.checker.floats.proofs import BoxClaims, prove_boxes, prove_claims
from evenhand.checker.form import form_of
from evenhand.checker.network import RecordedQuestion
from evenhand.checker.reading import WHOLE, ClaimedBoxes
from evenhand.core.kernels import is_compiled

QUICK_PARTS = (64, 256)
"""Maximum number of parts of a box in the first and second quick pass."""
MAX_PARTS = 4096
"""Maximum number of parts of a box. A box that needs more is not confirmed."""
QUICK_FUNCTIONS = 64
"""Maximum number of functions of a box for which all boxes of a certificate are checked by default."""
MAX_ASSIGNMENTS = 64
"""Maximum number of assignments that are bounded one by one after they were bounded together."""
UPWARD = 1 + 2.0**-50
"""Factor that keeps a claimed share from becoming smaller when it is converted to a float."""
ROUNDING = 1e-9
"""Minimum excess of a proved share over the claim's complement that refutes the claim."""


@dataclass(frozen=True)
class BoxProof:
    """Proved lower bounds on the shares of a box.

    Attributes:
        confirmed: Whether the proof confirms the claim.
        refuted: Whether the proof contradicts the claim.
        fair, unfair: Proved shares.
    """

    confirmed: bool
    fair: float
    unfair: float
    refuted: bool = False


class BoxProver:
    """Prover of the shares of boxes for a network.

    Args:
        question: Question of the certificate.
        least: Minimum number of different outcomes that counts as unfair treatment.
    """

    def __init__(self, question: RecordedQuestion, least: int = 2) -> None:
        self._constant = question.constant
        if self._constant:
            return
        form = form_of(question)
        self._network = float_network_of(question, form)
        self._question = box_question_of(form, least)
        few = len(form.bases) <= MAX_ASSIGNMENTS
        self._separate = box_question_of(form, least, separate=True) if few else self._question

    @property
    def quick(self) -> bool:
        """Whether a box takes little enough time to check all boxes by default."""
        return self._constant or count_functions(self._network, self._question) <= QUICK_FUNCTIONS

    @property
    def compiled(self) -> bool:
        """Whether the kernels are compiled."""
        return self._constant or is_compiled(prove_boxes)

    def prove_quickly(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes, each split into few parts."""
        return self._prove(boxes, [(self._question, parts) for parts in QUICK_PARTS] if not self._constant else [])

    def prove(self, boxes: ClaimedBoxes) -> list[BoxProof]:
        """Prove the claims of boxes."""
        return self._prove(boxes, [(self._separate, MAX_PARTS)] if not self._constant else [])

    def _prove(self, boxes: ClaimedBoxes, passes: list[tuple[BoxQuestion, int]]) -> list[BoxProof]:
        low, high, fair, unfair = boxes
        if self._constant:
            return [BoxProof(not claim, 1.0, 0.0) for claim in unfair.tolist()]
        n = len(low)
        claims = BoxClaims(*(np.minimum(1.0, shares / WHOLE * UPWARD) for shares in (fair, unfair)), *np.zeros((2, n)))
        some = (fair > 0) | (unfair > 0)
        confirmed, refuted = ~some, np.zeros(n, dtype=np.bool_)
        for question, max_parts in passes:
            again = np.flatnonzero(some & ~confirmed & ~refuted)
            todo = BoxClaims(*(np.ascontiguousarray(column[again]) for column in claims))
            box = low[again].astype(np.int64), high[again].astype(np.int64)
            prove_claims(self._network, question, *box, todo, max_parts)
            for column, proved in zip(claims, todo, strict=True):
                column[again] = proved
            confirmed = (claims.proved_fair >= claims.fair) & (claims.proved_unfair >= claims.unfair)
            refuted = claims.proved_fair > 1 - claims.unfair + ROUNDING
            refuted |= claims.proved_unfair > 1 - claims.fair + ROUNDING
        rows = confirmed, claims.proved_fair, claims.proved_unfair, refuted & ~confirmed
        return [BoxProof(*row) for row in zip(*(column.tolist() for column in rows), strict=True)]
