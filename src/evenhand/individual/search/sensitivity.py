"""Attributes whose other values undo the flips that a search found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.space import ProfileSpace

MAX_TRIED = 100
"""Maximum number of profiles in which every attribute is changed once."""


class AttributeSensitivity(ResultPart):
    """Flips that another value of an unprotected attribute undoes.

    Attributes:
        name: Name of the attribute.
        undone: Number of profiles whose flip disappears if the attribute has the value of a random person in the data.
        tried: Number of profiles whose value was changed.
    """

    name: str
    undone: int
    tried: int

    @property
    def share(self) -> float:
        """Share of the flips that are undone."""
        return self.undone / self.tried if self.tried else 0.0


def measure_sensitivity(
    table: ProfileTable, space: ProfileSpace, predict: Callable[[Floats], Integers], rng: np.random.Generator
) -> tuple[AttributeSensitivity, ...]:
    """Measure the sensitivity of every unprotected attribute. The most sensitive one comes first.

    Args:
        table: Profiles found.
        space: Space of the search. It has people in the data.
        predict: Function that returns the labels of individuals (n, attributes). It is called with two individuals per
            attribute and sampled profile.
        rng: Source of randomness.
    """
    people = space.people
    assert people is not None
    tried = rng.permutation(len(table))[:MAX_TRIED]
    sensitivities = []
    for i, attribute in enumerate(space.attributes):
        rows = table.profiles.unprotected[tried].copy()
        values = people[rng.integers(0, len(people), size=len(rows)), i]
        changed = values != rows[:, i]
        rows[:, i] = values
        undone = 0
        if changed.any():
            sides = [space.rows_as(rows[changed], which[tried][changed]) for which in (table.worse, table.better)]
            worse, better = np.split(predict(np.concatenate(sides)), 2)
            undone = int((worse == better).sum())
        sensitivities.append(AttributeSensitivity(name=attribute.name, undone=undone, tried=int(changed.sum())))
    return tuple(sorted(sensitivities, key=lambda sensitivity: -sensitivity.undone))
