"""Share of people with a true label by decision, to tell whether error rates mostly describe the selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Integers

SELECTED, NOT_SELECTED = "selected", "not selected"
DECISIONS = (NOT_SELECTED, SELECTED)
HALVES = ("lower half", "upper half")

SELECTIVE_RATIO = 0.5
"""True labels are selective if the smallest share of people with one is less than this fraction of the largest."""

PREFIX = "selective labels: "


class LabelCount(ResultPart):
    """Number of people with the same decision, and how many of them have a true label."""

    people: int
    labelled: int

    @property
    def share(self) -> float:
        """Share of people with a true label."""
        return self.labelled / self.people if self.people else 0.0


class LabelCoverage(ResultPart):
    """Number of people with a true label, by decision and without weights.

    Attributes:
        by_decision: Decision -> number of people. Decisions are ``selected`` and ``not selected``; for several labels,
            the labels; for numbers, ``lower half`` and ``upper half`` of all numeric decisions, split at the median.
        selective: Whether a true label depends strongly on the decision (selective labels): among the decisions that
            occur, the smallest share with a true label is less than half of the largest.
    """

    by_decision: dict[str, LabelCount]
    selective: bool

    @classmethod
    def of(cls, people: Sequence[int], labelled: Sequence[int], decisions: Sequence[str]) -> Self:
        """Build the coverage from counts of each decision."""
        counts = {
            decision: LabelCount(people=n, labelled=k)
            for decision, n, k in zip(decisions, people, labelled, strict=True)
        }
        shares = [count.share for count in counts.values() if count.people]
        return cls(by_decision=counts, selective=bool(shares) and min(shares) < SELECTIVE_RATIO * max(shares))

    def describe(self) -> str:
        """Return the counts of the decisions with the largest and the smallest share of true labels."""
        counts = {decision: count for decision, count in self.by_decision.items() if count.people}
        ordered = sorted(counts, key=lambda decision: -counts[decision].share)
        listed = dict.fromkeys([*ordered[:1], *ordered[-1:]])
        return " and ".join(f"{counts[name].labelled:,} of {counts[name].people:,} ({name})" for name in listed)

    @property
    def caution(self) -> str:
        """Caution for metrics that need true labels; empty unless the labels are selective."""
        if not self.selective:
            return ""
        caution = f"{PREFIX}the truth is known for {self.describe()}"
        if set(self.by_decision) == set(DECISIONS):
            for decision, rate in ((NOT_SELECTED, 1), (SELECTED, 0)):
                if not self.by_decision[decision].labelled:
                    caution += f", so true and false positive rates are {rate} by construction"
        return caution


def count_labels(
    group: Integers,
    groups: int,
    decision: Integers,
    decisions: Sequence[str],
    labelled: Booleans,
    counts: Integers | None = None,
) -> Sequence[LabelCoverage | None]:
    """Count the people with a true label in each group, by decision; None if all or none have a true label.

    Arrays have shape (n,). ``group`` and ``decision`` are codes, the group -1 for none; ``counts`` is the number of
    people that each entry represents, by default one.
    """
    if labelled[group >= 0].all():
        return [None] * groups
    n = np.ones(len(group), dtype=np.int64) if counts is None else counts
    cell, shape = (group + 1) * len(decisions) + decision, (groups + 1, len(decisions))
    people, known = (
        np.bincount(cell, weights=part, minlength=shape[0] * shape[1]).astype(np.int64).reshape(shape)[1:].tolist()
        for part in (n, n * labelled)
    )
    return [LabelCoverage.of(*row, decisions) for row in zip(people, known, strict=True)]
