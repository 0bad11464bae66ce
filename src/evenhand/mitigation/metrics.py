"""What was found, as something that can be measured again: on any model and any people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Booleans
from evenhand.groups.membership import group_by_attribute, number_combinations
from evenhand.groups.result import SMALL
from evenhand.individual.flips import count_flips
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.schema.people import People
from evenhand.subgroups.rules import Rules, describe_rules, find_members


@dataclass(frozen=True)
class FlipMetric:
    """Decisions that flip with protected attributes: between plausible counterparts, where the schema has rules.

    Attributes:
        protected: they are varied jointly.
    """

    protected: tuple[str, ...]

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        return f"decisions that flip with {' x '.join(self.protected)}"

    def flips(self, scorer: Scorer, people: People) -> Booleans:
        """Return whose decision differs between some two plausible counterparts, shape (n,)."""
        return count_flips(scorer, people.schema, people.individuals, self.protected).flips

    def size(self, scorer: Scorer, people: People) -> float:
        """Return the counterfactual flip rate: the share of people with a plausible counterpart whose decision flips.

        It is 0 where no one has one.
        """
        counted = count_flips(scorer, people.schema, people.individuals, self.protected)
        return float(counted.flips[counted.compared].mean()) if counted.compared.any() else 0.0


@dataclass(frozen=True)
class SubgroupGapMetric:
    """A subgroup that is given the favourable label more or less often than everybody else.

    Attributes:
        rules: who is in it.
    """

    rules: Rules

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        return f"the gap of {describe_rules(self.rules)}"

    def inside(self, people: People) -> Booleans:
        """Return who belongs to the subgroup, shape (n,)."""
        return find_members(people, self.rules)

    def signed_gap(self, scorer: Scorer, people: People) -> float:
        """Return the subgroup's share of favourable decisions minus everybody else's; 0 where either is empty."""
        inside = self.inside(people)
        favourable = predict_labels(scorer, people.individuals) == scorer.favourable
        return float(favourable[inside].mean() - favourable[~inside].mean()) if inside.any() and not inside.all() else 0

    def size(self, scorer: Scorer, people: People) -> float:
        """Return how wide the gap is, whichever side it favours."""
        return abs(self.signed_gap(scorer, people))


@dataclass(frozen=True)
class GroupGapMetric:
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
        """Return the widest difference between two groups' selection rates; 0 with fewer than two groups.

        Groups of fewer than ``groups.SMALL`` people take no part.
        """
        columns = people.schema.positions(self.protected)
        found = [group_by_attribute(people.schema.attributes[i], people.individuals[:, i]) for i in columns]
        group, _ = number_combinations([(one.codes, len(one.labels)) for one in found])
        favourable = predict_labels(scorer, people.individuals) == scorer.favourable
        sizes = np.bincount(group)
        shares = np.bincount(group, weights=favourable)[sizes >= SMALL] / sizes[sizes >= SMALL]
        return float(np.ptp(shares)) if len(shares) > 1 else 0.0


FairnessMetric: TypeAlias = FlipMetric | SubgroupGapMetric | GroupGapMetric
