"""What was found, as something that can be measured again: on any model and any people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.groups import SMALL
from evenhand.groups.membership import of_attribute
from evenhand.groups.tally import combine
from evenhand.individual.flips import disagree, labels_by_assignment
from evenhand.models import Scorer, predict
from evenhand.schema import People
from evenhand.subgroup import Rules
from evenhand.subgroup.members import members
from evenhand.subgroup.rules import words


@dataclass(frozen=True)
class FlipHarm:
    """Decisions that flip with protected attributes, everything else unchanged.

    Attributes:
        protected: they are varied jointly.
    """

    protected: tuple[str, ...]

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        return f"decisions that flip with {' x '.join(self.protected)}"

    def flips(self, scorer: Scorer, people: People) -> NDArray[np.bool_]:
        """Whose decision differs between some two assignments, shape (n,)."""
        schema = people.schema
        columns, assignments = schema.positions(self.protected), schema.assignments(self.protected)
        return disagree(labels_by_assignment(scorer, people.individuals, columns, assignments))

    def size(self, scorer: Scorer, people: People) -> float:
        """The violation rate: the share of people whose decision flips."""
        return float(self.flips(scorer, people).mean())


@dataclass(frozen=True)
class GapHarm:
    """A subgroup that is given the favourable label more or less often than everybody else.

    Attributes:
        rules: who is in it.
    """

    rules: Rules

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        return f"the gap of {words(self.rules)}"

    def inside(self, people: People) -> NDArray[np.bool_]:
        """Who belongs to the subgroup, shape (n,)."""
        return members(people, self.rules)

    def signed(self, scorer: Scorer, people: People) -> float:
        """The subgroup's share of favourable decisions minus everybody else's; 0 where either is empty."""
        inside = self.inside(people)
        favourable = predict(scorer, people.individuals) == scorer.favourable
        return float(favourable[inside].mean() - favourable[~inside].mean()) if inside.any() and not inside.all() else 0

    def size(self, scorer: Scorer, people: People) -> float:
        """How wide the gap is, whichever side it favours."""
        return abs(self.signed(scorer, people))


@dataclass(frozen=True)
class GroupsHarm:
    """Groups that are given the favourable label more and less often: demographic parity.

    Attributes:
        protected: their joint values are the groups.
    """

    protected: tuple[str, ...]

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        return f"the widest gap between groups by {' x '.join(self.protected)}"

    def size(self, scorer: Scorer, people: People) -> float:
        """The widest difference between two groups' shares of favourable decisions; 0 with fewer than two groups.

        Groups of fewer than ``groups.SMALL`` people take no part.
        """
        columns = people.schema.positions(self.protected)
        found = [of_attribute(people.schema.attributes[i], people.individuals[:, i]) for i in columns]
        group, _ = combine([(one.codes, len(one.labels)) for one in found])
        favourable = predict(scorer, people.individuals) == scorer.favourable
        sizes = np.bincount(group)
        shares = np.bincount(group, weights=favourable)[sizes >= SMALL] / sizes[sizes >= SMALL]
        return float(np.ptp(shares)) if len(shares) > 1 else 0.0


Harm: TypeAlias = FlipHarm | GapHarm | GroupsHarm
