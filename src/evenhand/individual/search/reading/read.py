"""Everything that people read of a search, from the table of all profiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.reading.attributes import Predict, attributes_that_matter
from evenhand.individual.search.reading.distance import Gower, k_medoids
from evenhand.individual.search.reading.kinds import kinds_of_people
from evenhand.individual.search.reading.parts import Reading
from evenhand.individual.search.reading.severity import Ranked, rank
from evenhand.individual.search.space import Space
from evenhand.individual.search.table import Table

STEPS = 20
"""Bars of the distribution of gaps."""

PAIRS = 500
"""Profiles among which the diversity is measured."""

CLUSTERS = 10
"""Clusters of the data whose coverage is counted, at most."""


@dataclass(frozen=True)
class Read:
    """A reading, with what it says about single profiles.

    Attributes:
        reading: for people.
        ranked: the most severe profiles.
        representatives: positions in the table, one per kind, in the order of ``reading.kinds``.
    """

    reading: Reading
    ranked: Ranked
    representatives: NDArray[np.int64]


def read(table: Table, space: Space, predict: Predict | None, rng: np.random.Generator) -> Read | None:
    """Read a table of profiles; None if it is empty.

    Args:
        predict: labels of individuals, to see which attributes undo a flip; None: the model is not asked.
    """
    if len(table) == 0:
        return None
    ranked = rank(table, space)
    kinds, representatives = kinds_of_people(table, space, ranked.rows)
    few = table.found.unprotected[rng.permutation(len(table))[:PAIRS]]
    gower = Gower(space.attributes)
    n = len(few)
    diversity = float(gower.between(few, few).sum(dtype=np.float64) / (n * (n - 1))) if n > 1 else None
    covered = clusters = None
    if space.people is not None:
        some = space.people[rng.permutation(len(space.people))[:PAIRS]]
        middles = some[k_medoids(gower.between(some, some), CLUSTERS, gain=0.0)]
        _, nearest = gower.nearest(table.found.unprotected, middles)
        covered, clusters = len(np.unique(nearest)), len(middles)
    reading = Reading(
        attributes=attributes_that_matter(table, space, predict, rng),
        kinds=kinds,
        gaps=tuple(np.histogram(np.clip(table.gap, 0, 1), STEPS, (0, 1))[0].tolist()),
        diversity=diversity,
        covered=covered,
        clusters=clusters,
        distance=None if ranked.distance is None else float(np.median(ranked.distance)),
        looked_at=len(ranked),
    )
    return Read(reading, ranked, representatives)
