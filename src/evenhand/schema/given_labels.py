"""Several labels that were given to people, with the true ones where these are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenhand.schema.attribute import Value
from evenhand.schema.people import People
from evenhand.typing import Integers


@dataclass(frozen=True)
class GivenLabels:
    """Which label everybody is given, and which is the true one.

    Attributes:
        names: all labels, in their order if they have one.
        decided: Positions of the decided labels in ``names``, shape (n,).
        truth: Positions of the true labels, -1 where unknown, shape (n,); None without a column of true labels.
        ordered: whether the labels have an order.
    """

    names: tuple[Value, ...]
    decided: Integers
    truth: Integers | None
    ordered: bool

    def at(self, rows: Integers) -> GivenLabels:
        """Return the labels of some people, by their positions, in that order."""
        return replace(self, decided=self.decided[rows], truth=None if self.truth is None else self.truth[rows])

    def worst_first(self, favourable: Value) -> GivenLabels:
        """Return grades in the order from worst to best, if the favourable one is the first; else the same."""
        if not self.ordered or favourable != self.names[0]:
            return self
        last = len(self.names) - 1
        truth = None if self.truth is None else np.where(self.truth < 0, -1, last - self.truth)
        return replace(self, names=self.names[::-1], decided=last - self.decided, truth=truth)


@dataclass(frozen=True)
class RecordedLabels:
    """Labels that were given to people, of several, or in an order; the model that gave them is not needed.

    Attributes:
        people: Everyone with a decided label. Their attributes define the groups, and their target is the decision.
            ``people.labels`` holds the true labels, -1 where unknown; None without a column of true labels.
        given: Decided and true labels.
        truth: Column of the true labels; None without one.
        undecided: Number of rows left out because they have no decided label.
    """

    people: People
    given: GivenLabels
    truth: str | None = None
    undecided: int = 0
