"""Whether labels come of rejected decisions as they do of accepted ones: a test that holds at every moment.

Decisions that wait for a label are taken in blocks, in their order. If neither whether a label comes nor when depends
on the decision, the next label of a block is as likely that of any decision in it that has none yet. Let a of these be
accepted and r rejected. While each of the rejected is at least half as likely as each of the accepted to be the next,
that is of an accepted one with probability q = a / (a + r / 2) at most. The bet with stake s on that pays
1 + s (1 / q - 1), and 1 - s otherwise: a supermartingale, which ever reaches 1 / alpha with probability alpha at most
(Ville), however often one looks. Labels that are as frequent and only much later are found too: while they are missing,
what is said of all decisions is as wrong.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from evenhand.core.result_part import ResultPart

BLOCK = 50
"""Decisions that are compared with one another."""
LEAST_RATIO = 0.5
"""A rejected decision without a label that is less likely to get one next, beside an accepted one, is unlikely to."""
STAKES = (0.2, 0.5, 0.9)


class LabelSelection(ResultPart):
    """How many decisions have a label, by what was decided.

    Attributes:
        accepted, rejected: decisions whose label was waited for.
        labelled_accepted, labelled_rejected: those whose label came.
        shown: the decision at which it was shown that labels of rejected decisions come less than half as often, or
            much later; None: it is not shown.
    """

    accepted: int = Field(ge=0)
    rejected: int = Field(ge=0)
    labelled_accepted: int = Field(ge=0)
    labelled_rejected: int = Field(ge=0)
    shown: int | None = None


class SelectionTest:
    """Takes decisions whose labels are waited for, and labels as they come.

    Args:
        probability: of showing that too few labels of rejected decisions come, ever, if it is not so.
        wait: decisions that are waited for, at most.
    """

    def __init__(self, probability: float, wait: int) -> None:
        self._threshold = 1 / probability
        self._most_blocks = wait // BLOCK + 2
        self.counts = [0, 0]
        """Rejected and accepted decisions."""
        self.labelled = [0, 0]
        self.shown: int | None = None
        self._wealth = [1 / len(STAKES)] * len(STAKES)
        self._left: dict[int, list[int]] = {}
        """By block: rejected and accepted decisions without a label."""
        self._early: list[int] = []
        """Labels in the block that is not complete, in their order."""

    def decide(self, decision: float, now: int) -> int:
        """Take a decision; return its number, by which its label is told.

        Args:
            decision: 0 or 1.
            now: how many decisions there are, as ``shown`` will say.
        """
        number, kind = sum(self.counts), int(decision)
        block, place = divmod(number, BLOCK)
        self.counts[kind] += 1
        self._left.setdefault(block, [0, 0])[kind] += 1
        if len(self._left) > self._most_blocks:
            del self._left[next(iter(self._left))]
        if place == BLOCK - 1:
            # Labels that came before the block was complete, in their order.
            early, self._early = self._early, []
            for one in early:
                self._settle(block, one, now)
        return number

    def label(self, number: int, decision: float, now: int) -> None:
        """Take the label of a decision.

        Args:
            number: of the decision, as ``decide`` returned it.
            decision: what it was.
            now: how many decisions there are.
        """
        kind, block = int(decision), number // BLOCK
        self.labelled[kind] += 1
        if (block + 1) * BLOCK > sum(self.counts):
            self._early.append(kind)
        else:
            self._settle(block, kind, now)

    def _settle(self, block: int, kind: int, now: int) -> None:
        left = self._left.get(block)
        if left is None or not left[kind]:
            return
        rejected, accepted = left
        left[kind] -= 1
        if self.shown is not None or not rejected or not accepted:
            return
        chance = accepted / (accepted + LEAST_RATIO * rejected)
        for i, stake in enumerate(STAKES):
            self._wealth[i] *= 1 + stake * (1 / chance - 1) if kind else 1 - stake
        if sum(self._wealth) >= self._threshold:
            self.shown = now

    def result(self) -> LabelSelection:
        """Return the counts, and whether it is shown."""
        return LabelSelection(
            accepted=self.counts[1],
            rejected=self.counts[0],
            labelled_accepted=self.labelled[1],
            labelled_rejected=self.labelled[0],
            shown=self.shown,
        )

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as JSON can hold it."""
        return {
            "counts": [*self.counts],
            "labelled": [*self.labelled],
            "shown": self.shown,
            "wealth": [*self._wealth],
            "left": [[block, *left] for block, left in self._left.items()],
            "early": [*self._early],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up what ``state`` returned."""
        self.counts, self.labelled = list(state["counts"]), list(state["labelled"])
        self.shown, self._wealth, self._early = state["shown"], list(state["wealth"]), list(state["early"])
        self._left = {block: left for block, *left in state["left"]}
