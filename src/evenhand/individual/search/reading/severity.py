"""Who comes first: those for whom most changes with the protected attribute, and who are most like somebody real."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.reading.distance import Floats, Gower
from evenhand.individual.search.space import Space
from evenhand.individual.search.table import Table

LOOKED_AT = 1000
"""Profiles whose nearest person is looked for, at most."""

COMPARISONS = 300_000_000
"""Attributes compared for that, at most (a second or so)."""


@dataclass(frozen=True)
class Ranked:
    """Profiles by severity, the most severe first.

    Attributes:
        rows: positions in the table, shape (k,).
        severity: shape (k,): the score gap times how near somebody in the data is (1 minus the distance); the gap
            alone without data.
        distance: to the nearest person in the data, shape (k,); None without data.
        nearest: the unprotected part of that person, shape (k, U); None without data.
    """

    rows: NDArray[np.int64]
    severity: Floats
    distance: Floats | None
    nearest: Floats | None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: slice | NDArray[np.int64]) -> Ranked:
        return Ranked(
            self.rows[which],
            self.severity[which],
            None if self.distance is None else self.distance[which],
            None if self.nearest is None else self.nearest[which],
        )


def rank(table: Table, space: Space) -> Ranked:
    """The profiles with the widest gaps, people who could exist first, ranked by severity.

    Where a gap says nothing (labels only) it is 1 for all, and whoever is nearest to somebody real comes first.
    """
    order = np.lexsort((-table.gap, ~table.found.valid))
    people = 0 if space.people is None else len(space.people)
    affordable = COMPARISONS // max(1, people * space.width)
    weighed = weigh(table, space, order[: min(LOOKED_AT, max(100, affordable))])
    return weighed[np.lexsort((-weighed.severity, ~table.found.valid[weighed.rows]))]


def weigh(table: Table, space: Space, rows: NDArray[np.int64]) -> Ranked:
    """The severity of some profiles, in the order given."""
    if space.people is None:
        return Ranked(rows, table.gap[rows], None, None)
    distance, which = Gower(space.attributes).nearest(table.found.unprotected[rows], space.people)
    return Ranked(rows, table.gap[rows] * (1 - distance), distance, space.people[which])
