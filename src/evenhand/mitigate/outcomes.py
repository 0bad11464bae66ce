"""What a model decides about the people compared on: asked once, then only counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.flips import disagree, labels_by_assignment
from evenhand.models import Scorer, favourable_score, predict
from evenhand.schema import People

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A model and people; what it says about them is asked when first needed.

    Attributes:
        scorer: the model.
        people: with true labels.
    """

    scorer: Scorer
    people: People

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The label given, as a position in the model's classes, shape (n,)."""
        return predict(self.scorer, self.people.individuals)

    @cached_property
    def favoured(self) -> Bools:
        """Who is given the favourable label, shape (n,)."""
        return np.asarray(self.labels == self.scorer.favourable)

    @cached_property
    def right(self) -> Bools:
        """Whose label is the true one, shape (n,)."""
        values = self.people.schema.target.values or ()
        # A label that the data never has is never right.
        known = {value: i for i, value in enumerate(values)}
        meant = np.array([known.get(label, -1) for label in self.scorer.classes])
        return np.asarray(meant[self.labels] == self.people.labels)

    @cached_property
    def scores(self) -> Floats | None:
        """The favourable label's score, shape (n,); None where there are labels only."""
        return None if self.scorer.label_only else favourable_score(self.scorer, self.people.individuals)


def flips(scorer: Scorer, individuals: NDArray[np.float64], protected: tuple[str, ...]) -> Bools:
    """Whose label differs between some two assignments of what is protected, shape (n,)."""
    schema = scorer.schema
    columns, assignments = schema.positions(protected), schema.assignments(protected)
    return disagree(labels_by_assignment(scorer, individuals, columns, assignments))
