"""Fairness metrics that a mitigation reduces, measurable for any model and people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Booleans
from evenhand.groups.config import SMALL
from evenhand.groups.membership import group_people, number_combinations
from evenhand.individual.flips import count_flips
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.schema.people import People
from evenhand.subgroups.rules import Rules, describe_rules, find_members


@dataclass(frozen=True)
class FlipMetric:
    """Counterfactual flip rate. If the schema has rules, only plausible counterparts are compared.

    Attributes:
        protected: Attributes that vary jointly.
    """

    protected: tuple[str, ...]

    @property
    def words(self) -> str:
        """Description."""
        return f"decisions that flip with {' x '.join(self.protected)}"

    def flips(self, scorer: Scorer, people: People) -> Booleans:
        """Find the people whose decision differs between two counterparts, shape (n,)."""
        return count_flips(scorer, people.schema, people.individuals, self.protected).flips

    def size(self, scorer: Scorer, people: People) -> float:
        """Compute the share of flips among people with a plausible counterpart, or 0 if there are none."""
        counts = count_flips(scorer, people.schema, people.individuals, self.protected)
        return float(counts.flips[counts.compared].mean()) if counts.compared.any() else 0.0


@dataclass(frozen=True)
class SubgroupGapMetric:
    """Difference in selection rates between a subgroup and all other people.

    Attributes:
        rules: Rules of the subgroup.
    """

    rules: Rules

    @property
    def words(self) -> str:
        """Description."""
        return f"the gap of {describe_rules(self.rules)}"

    def inside(self, people: People) -> Booleans:
        """Find the members of the subgroup, shape (n,)."""
        return find_members(people, self.rules)

    def signed_gap(self, scorer: Scorer, people: People) -> float:
        """Compute the selection rate inside the subgroup minus the rate outside it, or 0 if either is empty."""
        inside = self.inside(people)
        selected = predict_labels(scorer, people.individuals) == scorer.favourable
        return float(selected[inside].mean() - selected[~inside].mean()) if inside.any() and not inside.all() else 0

    def size(self, scorer: Scorer, people: People) -> float:
        """Compute the absolute gap."""
        return abs(self.signed_gap(scorer, people))


@dataclass(frozen=True)
class GroupGapMetric:
    """Demographic parity difference.

    Attributes:
        protected: Attributes whose joint values are the groups.
    """

    protected: tuple[str, ...]

    @property
    def words(self) -> str:
        """Description."""
        return f"the widest gap between groups by {' x '.join(self.protected)}"

    def size(self, scorer: Scorer, people: People) -> float:
        """Compute the largest difference in selection rates, or 0 if there are fewer than two groups.

        Groups smaller than ``groups.SMALL`` are ignored.
        """
        memberships = group_people(people, self.protected)
        group, _ = number_combinations([(membership.codes, len(membership.labels)) for membership in memberships])
        selected = predict_labels(scorer, people.individuals) == scorer.favourable
        sizes = np.bincount(group)
        rates = np.bincount(group, weights=selected)[sizes >= SMALL] / sizes[sizes >= SMALL]
        return float(np.ptp(rates)) if len(rates) > 1 else 0.0


FairnessMetric: TypeAlias = FlipMetric | SubgroupGapMetric | GroupGapMetric
