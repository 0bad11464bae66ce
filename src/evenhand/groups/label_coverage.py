"""Share of people with a true label by decision: whether error rates describe everyone, or mostly the selected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Integers

SELECTED, NOT_SELECTED = "selected", "not selected"
DECISIONS = (NOT_SELECTED, SELECTED)
HALVES = ("lower half", "upper half")

SELECTIVE_RATIO = 0.5
"""True labels are selective if the smallest share of people with one is less than this part of the largest."""


class LabelCount(ResultPart):
    """Number of people with the same decision, and how many of them have a true label."""

    people: int
    labelled: int

    @property
    def share(self) -> float:
        """Share of people with a true label."""
        return self.labelled / self.people if self.people else 0.0


class LabelCoverage(ResultPart):
    """Number of people with a true label, by decision. People count alike, whatever their weights.

    Attributes:
        by_decision: Decision -> number of people. Decisions are ``selected`` and ``not selected``; of several labels,
            the labels; of numbers, ``lower half`` and ``upper half`` of all decided numbers, split at the median.
        selective: Whether a true label depends strongly on the decision (selective labels): of the decisions that
            anyone got, the smallest share with a true label is less than half of the largest.
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
        shown = dict.fromkeys([*ordered[:1], *ordered[-1:]])
        return " and ".join(f"{counts[name].labelled:,} of {counts[name].people:,} ({name})" for name in shown)

    @property
    def caution(self) -> str:
        """What to know of numbers that compare with true labels; empty unless these are selective."""
        if not self.selective:
            return ""
        caution = f"selective labels: the truth is known for {self.describe()}"
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
) -> list[LabelCoverage]:
    """Count the people with a true label in each group, by decision.

    Args:
        group, decision: Codes of shape (n,).
        groups: Number of groups.
        decisions: Names of the decisions.
        labelled: Whether the true label is known, shape (n,).
        counts: Number of people that each entry stands for, shape (n,); None: one.
    """
    n = np.ones(len(group), dtype=np.int64) if counts is None else counts
    cell, shape = group * len(decisions) + decision, (groups, len(decisions))
    people, known = (
        np.bincount(cell, weights=part, minlength=shape[0] * shape[1]).astype(np.int64).reshape(shape).tolist()
        for part in (n, n * labelled)
    )
    return [LabelCoverage.of(*row, decisions) for row in zip(people, known, strict=True)]


def find_caution(coverage: LabelCoverage | None) -> str:
    """Return the caution of a coverage; empty without one."""
    return "" if coverage is None else coverage.caution


def describe_selective(coverage: Mapping[str, LabelCoverage | None], left_out: Iterable[str] = ()) -> str:
    """Name the groups with selective labels; empty if there are none."""
    skipped = set(left_out)
    named = {
        label: one.caution.removeprefix("selective labels: ")
        for label, one in coverage.items()
        if one is not None and one.selective and label not in skipped
    }
    if not named:
        return ""
    shown = [f"{label}: {text}" for label, text in list(named.items())[:3]]
    more = f"; and in {len(named) - 3} more groups" if len(named) > 3 else ""
    return f"selective labels: {'; '.join(shown)}{more}"
