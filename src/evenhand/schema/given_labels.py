"""Recorded decisions with several or ordinal labels, and the true labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.typing import Integers
from evenhand.schema.attribute import Value
from evenhand.schema.people import People


@dataclass(frozen=True)
class GivenLabels:
    """Decided and true label of each row.

    Attributes:
        names: All labels, in order if they are ordinal.
        decided: Positions of the decided labels in ``names``, shape (n,).
        truth: Positions of the true labels, -1 where unknown, shape (n,); None without a column of true labels.
        ordered: Whether the labels are ordinal.
    """

    names: tuple[Value, ...]
    decided: Integers
    truth: Integers | None
    ordered: bool

    def at(self, rows: Integers) -> GivenLabels:
        """Select rows by position."""
        return replace(self, decided=self.decided[rows], truth=None if self.truth is None else self.truth[rows])

    def worst_first(self, favourable: Value) -> GivenLabels:
        """Reverse ordinal labels whose first label is the favourable one."""
        if not self.ordered or favourable != self.names[0]:
            return self
        highest = len(self.names) - 1
        truth = None if self.truth is None else np.where(self.truth < 0, -1, highest - self.truth)
        return replace(self, names=self.names[::-1], decided=highest - self.decided, truth=truth)


@dataclass(frozen=True)
class RecordedLabels:
    """Recorded decisions with several or ordinal labels.

    Attributes:
        people: Rows with a decided label. The attributes define the groups, and the target is the decision.
            ``people.labels`` holds the true labels, -1 where unknown; None without a column of true labels.
        given: Decided and true labels.
        truth: Column of the true labels; None without one.
        undecided: Number of rows without a decided label, which are left out.
    """

    people: People
    given: GivenLabels
    truth: str | None = None
    undecided: int = 0
