"""How far apart two people are: Gower's distance over attributes of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Attribute

CELLS = 100_000
"""Distances held at once: few enough to stay in a processor's cache while attribute after attribute is added."""


class GowerDistance:
    """The mean over the attributes of: 1 for another category, the difference over the range for what is ordered.

    From 0 (the same) to 1 (Gower, "A general coefficient of similarity and some of its properties", Biometrics 1971).

    Args:
        attributes: of the rows, in order.
    """

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self._nominal = [not attribute.ordered for attribute in attributes]
        spans = np.array([attribute.last - attribute.first for attribute in attributes])
        self._scale = np.where((spans > 0) & ~np.array(self._nominal, dtype=np.bool_), spans, 1.0)

    def between(self, rows: Floats, others: Floats) -> NDArray[np.float32]:
        """Return every row (n, U) to every other (m, U), shape (n, m)."""
        return self._between(self._by_attribute(rows), self._by_attribute(others))

    def nearest(self, rows: Floats, others: Floats) -> tuple[Floats, Integers]:
        """Find for each row (n, U) the nearest of the others (m, U): its distance and position, shapes (n,)."""
        distance, which = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        # So many rows at a time that the table of distances has about CELLS entries at most.
        each = max(1, CELLS // max(1, len(others)))
        ours, theirs = self._by_attribute(rows), self._by_attribute(others)
        for start in range(0, len(rows), each):
            found = self._between(ours[:, start : start + each], theirs)
            best = np.argmin(found, axis=1)
            which[start : start + each] = best
            distance[start : start + each] = found[np.arange(len(found)), best]
        return distance, which

    def _by_attribute(self, rows: Floats) -> NDArray[np.float32]:
        """Return codes of categories and parts of the range, (U, n), so that an attribute's entries are neighbours."""
        return np.ascontiguousarray((rows / self._scale).T, dtype=np.float32)

    def _between(self, ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> NDArray[np.float32]:
        total = np.zeros((ours.shape[1], theirs.shape[1]), dtype=np.float32)
        for nominal, one, two in zip(self._nominal, ours[:, :, None], theirs[:, None, :], strict=True):
            total += one != two if nominal else np.abs(one - two)
        total /= np.float32(max(1, len(self._nominal)))
        return total


GAIN = 0.05
"""Share of the first total distance that a further medoid must bring."""


def k_medoids(distances: NDArray[np.float32], most: int) -> Integers:
    """Find rows that stand for all: those with the least total distance to the others, greedily, then settled.

    Medoids are added one by one, each where it brings the others closest (the first phase of PAM, Kaufman & Rousseeuw,
    1990), while one brings at least ``GAIN`` of the distance that the first left. Then members choose their medoid and
    groups their middle in turn until nothing changes.

    Args:
        distances: shape (n, n), symmetric.
        most: medoids at most.

    Returns:
        Positions of the medoids, the one with most members first, shape (k,).
    """
    chosen = [int(np.argmin(distances.sum(axis=1)))]
    nearest = distances[chosen[0]].copy()
    first = float(nearest.sum())
    while len(chosen) < min(most, len(distances)):
        gains = np.maximum(nearest - distances, 0).sum(axis=1)
        best = int(np.argmax(gains))
        if gains[best] <= GAIN * first:
            break
        chosen.append(best)
        nearest = np.minimum(nearest, distances[best])
    medoids = np.array(chosen)
    # Neither step can make the total distance larger.
    for _ in range(20):
        member = np.argmin(distances[medoids], axis=0)
        inside = [np.flatnonzero(member == k) for k in range(len(medoids))]
        settled = np.array([rows[np.argmin(distances[np.ix_(rows, rows)].sum(axis=1))] for rows in inside])
        if (settled == medoids).all():
            break
        medoids = settled
    sizes = np.bincount(np.argmin(distances[medoids], axis=0), minlength=len(medoids))
    return np.asarray(medoids[np.argsort(-sizes, kind="stable")], dtype=np.int64)


# Who comes first: those for whom most changes with the protected attribute, and who are most like somebody real.

MOST_RANKED = 1000
"""Profiles whose nearest person is looked for, at most."""

COMPARISONS = 300_000_000
"""Attributes compared for that, at most (a second or so)."""


@dataclass(frozen=True)
class RankedProfiles:
    """Profiles by severity, the most severe first.

    Attributes:
        rows: positions in the table, shape (k,).
        severity: shape (k,): the score gap times how near somebody in the data is (1 minus the distance); the gap
            alone without data.
        distance: to the nearest person in the data, shape (k,); None without data.
        nearest: the unprotected part of that person, shape (k, U); None without data.
    """

    rows: Integers
    severity: Floats
    distance: Floats | None
    nearest: Floats | None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: slice | Integers) -> RankedProfiles:
        return RankedProfiles(
            self.rows[which],
            self.severity[which],
            None if self.distance is None else self.distance[which],
            None if self.nearest is None else self.nearest[which],
        )


def rank_profiles(table: ProfileTable, space: ProfileSpace) -> RankedProfiles:
    """Return the profiles with the widest gaps, plausible profiles first, ranked by severity.

    Where a gap says nothing (labels only) it is 1 for all, and the profile nearest to a real person comes first.
    """
    order = np.lexsort((-table.gap, ~table.found.valid))
    people = 0 if space.people is None else len(space.people)
    affordable = COMPARISONS // max(1, people * space.width)
    weighed = score_severity(table, space, order[: min(MOST_RANKED, max(100, affordable))])
    return weighed[np.lexsort((-weighed.severity, ~table.found.valid[weighed.rows]))]


def score_severity(table: ProfileTable, space: ProfileSpace, rows: Integers) -> RankedProfiles:
    """Return the severity of some profiles, in the order given."""
    if space.people is None:
        return RankedProfiles(rows, table.gap[rows], None, None)
    distance, which = GowerDistance(space.attributes).nearest(table.found.unprotected[rows], space.people)
    return RankedProfiles(rows, table.gap[rows] * (1 - distance), distance, space.people[which])
