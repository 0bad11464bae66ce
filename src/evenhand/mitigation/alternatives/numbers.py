"""Numbers of a candidate on one set of people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.mitigation.alternatives.gaps import RateGap
from evenhand.mitigation.alternatives.result import AlternativeNumbers
from evenhand.mitigation.methods.randomized import ConstrainedGroups
from evenhand.schema import People
from evenhand.stats import auc, kolmogorov_distance, quantity_value
from evenhand.typing import Booleans, Floats, Integers


@dataclass(frozen=True, eq=False)
class GroupedPeople:
    """People, whose group each is in, shape (n,), and what the groups are called."""

    people: People
    group: Integers
    labels: tuple[str, ...]

    @classmethod
    def of(cls, people: People, groups: ConstrainedGroups) -> GroupedPeople:
        """Sort people into groups."""
        return cls(people, groups(people.individuals), groups.labels)


def measure_candidate(people: GroupedPeople, accepted: Booleans, scores: Floats, gap: RateGap) -> AlternativeNumbers:
    """Return the numbers of a candidate from its decisions and scores, each of shape (n,).

    The standardised mean difference of a group is ``(mean - mean of the largest group) / sd``, sd that of all (n - 1).
    """
    favourable, groups = people.people.favourable, range(len(people.labels))
    here = [people.group == one for one in groups]
    rates = {
        label: float(accepted[members].mean())
        for label, members in zip(people.labels, here, strict=True)
        if members.any()
    }
    deviation = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
    largest = scores[max(here, key=np.count_nonzero)].mean()
    both = favourable.any() and not favourable.all()
    return AlternativeNumbers(
        accuracy=float((accepted == favourable).mean()),
        auc=quantity_value(auc(scores, favourable)),
        ks=kolmogorov_distance(scores[favourable], scores[~favourable]) if both else None,
        gap=float(gap.sizes(accepted.astype(np.float64))),
        ratio=min(rates.values()) / max(rates.values()) if max(rates.values()) > 0 else None,
        selection_rates=rates,
        smd={
            label: float((scores[members].mean() - largest) / deviation) if deviation > 0 else None
            for label, members in zip(people.labels, here, strict=True)
            if members.any()
        },
    )
