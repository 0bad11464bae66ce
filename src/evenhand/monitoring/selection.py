"""Sequential test of whether labels of rejected decisions arrive as often as labels of accepted decisions.

Decisions that await a label are divided into blocks, in order. If neither the arrival of a label nor its time depends
on the decision, the next label of a block is equally likely for each decision in it without a label. Let a of these be
accepted and r rejected. If each rejected decision is at least half as likely as each accepted one to receive it, the
next label belongs to an accepted one with probability at most q = a / (a + r / 2). A bet on this with stake s pays
1 + s (1 / q - 1), or 1 - s otherwise, so the wealth is a supermartingale that reaches 1 / alpha at any time with
probability at most alpha (Ville). Labels that are equally frequent but much later are also detected: until they arrive,
estimates of all decisions are equally wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import Field

from evenhand.core.result_part import ResultPart

BLOCK = 50
"""Number of decisions in a block."""
LEAST_RATIO = 0.5
"""Tolerated ratio of the probability that the next label belongs to a given rejected decision to that of an accepted
one.
"""
STAKES = (0.2, 0.5, 0.9)


class LabelSelection(ResultPart):
    """Numbers of accepted and rejected decisions, and of those with a label.

    Attributes:
        accepted, rejected: Decisions that await or have a label.
        labelled_accepted, labelled_rejected: Decisions with a label.
        shown: Number of the decision at which labels of rejected decisions were found to arrive at less than half the
            rate or much later. None if this was not detected.
    """

    accepted: int = Field(ge=0)
    rejected: int = Field(ge=0)
    labelled_accepted: int = Field(ge=0)
    labelled_rejected: int = Field(ge=0)
    shown: int | None = None


@dataclass
class SelectionTest:
    """Test of the arrival of labels.

    Attributes:
        probability: Probability of a false detection at any time.
        wait: Maximum number of decisions that await a label.
        counts, labelled: Rejected and accepted decisions, and those with a label.
        shown: See `LabelSelection`.
        wealth: Wealth of the bet at each stake.
        left: Rejected and accepted decisions without a label, by block.
        early: Decisions, 0 or 1, of the labels in the incomplete block, in the order of arrival.
    """

    probability: float
    wait: int
    counts: list[int] = field(default_factory=lambda: [0, 0])
    labelled: list[int] = field(default_factory=lambda: [0, 0])
    shown: int | None = None
    wealth: list[float] = field(default_factory=lambda: [1 / len(STAKES)] * len(STAKES))
    left: dict[int, list[int]] = field(default_factory=dict)
    early: list[int] = field(default_factory=list)

    def decide(self, decision: float, now: int) -> int:
        """Add a decision, 0 or 1, and return its number for `label`. ``now`` is the total number of decisions."""
        number, kind = sum(self.counts), int(decision)
        block, place = divmod(number, BLOCK)
        self.counts[kind] += 1
        self.left.setdefault(block, [0, 0])[kind] += 1
        if len(self.left) > self.wait // BLOCK + 2:
            del self.left[next(iter(self.left))]
        if place == BLOCK - 1:
            early, self.early = self.early, []
            for labelled in early:
                self._settle(block, labelled, now)
        return number

    def label(self, number: int, decision: float, now: int) -> None:
        """Add the label of the decision for which `decide` returned a number."""
        kind, block = int(decision), number // BLOCK
        self.labelled[kind] += 1
        if (block + 1) * BLOCK > sum(self.counts):
            self.early.append(kind)
        else:
            self._settle(block, kind, now)

    def _settle(self, block: int, kind: int, now: int) -> None:
        left = self.left.get(block)
        if left is None or not left[kind]:
            return
        rejected, accepted = left
        left[kind] -= 1
        if self.shown is not None or not rejected or not accepted:
            return
        chance = accepted / (accepted + LEAST_RATIO * rejected)
        for i, stake in enumerate(STAKES):
            self.wealth[i] *= 1 + stake * (1 / chance - 1) if kind else 1 - stake
        if sum(self.wealth) >= 1 / self.probability:
            self.shown = now

    def result(self) -> LabelSelection:
        """Return the numbers, and the decision at which a selection was detected."""
        return LabelSelection(
            accepted=self.counts[1],
            rejected=self.counts[0],
            labelled_accepted=self.labelled[1],
            labelled_rejected=self.labelled[0],
            shown=self.shown,
        )
