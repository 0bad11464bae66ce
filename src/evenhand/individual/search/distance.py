"""Distances between people, groups of similar people, and the severity of findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Attribute

MAX_CELLS = 100_000
"""Number of distances computed at once. They stay in the processor's cache while the attributes are summed."""

MIN_GAIN = 0.05
"""Fraction of the initial total distance by which a further medoid must reduce the total."""

MAX_STEPS = 20
"""Maximum number of steps that improve medoids."""

MAX_RANKED = 1000
"""Maximum number of profiles whose nearest person is determined."""

MIN_RANKED = 100
"""Minimum number of profiles whose nearest person is determined, regardless of the number of comparisons."""

MAX_COMPARISONS = 300_000_000
"""Maximum number of compared entries for the nearest people (about a second)."""


class GowerDistance:
    """Gower's distance, from 0 (identical) to 1.

    Mean over the attributes of: 1 for different categories, the difference divided by the range for ordered values
    (Gower, "A general coefficient of similarity and some of its properties", Biometrics 1971).

    Args:
        attributes: Attributes of the rows, in order.
    """

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self._nominal = [not attribute.ordered for attribute in attributes]
        spans = np.array([attribute.last - attribute.first for attribute in attributes])
        self._scale = np.where((spans > 0) & ~np.array(self._nominal, dtype=np.bool_), spans, 1.0)

    def between(self, rows: Floats, targets: Floats) -> NDArray[np.float32]:
        """Compute the distance of every row (n, U) to every target (m, U), shape (n, m)."""
        return self._between(self._by_attribute(rows), self._by_attribute(targets))

    def nearest(self, rows: Floats, targets: Floats) -> tuple[Floats, Integers]:
        """Find the nearest target (m, U) of each row (n, U): its distance and its position, shapes (n,)."""
        distances, nearest = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        step = max(1, MAX_CELLS // max(1, len(targets)))
        scaled_rows, scaled_targets = self._by_attribute(rows), self._by_attribute(targets)
        for start in range(0, len(rows), step):
            part = self._between(scaled_rows[:, start : start + step], scaled_targets)
            best = np.argmin(part, axis=1)
            nearest[start : start + step] = best
            distances[start : start + step] = part[np.arange(len(part)), best]
        return distances, nearest

    def _by_attribute(self, rows: Floats) -> NDArray[np.float32]:
        """Scale the rows and store them by attribute, shape (U, n)."""
        return np.ascontiguousarray((rows / self._scale).T, dtype=np.float32)

    def _between(self, rows: NDArray[np.float32], targets: NDArray[np.float32]) -> NDArray[np.float32]:
        total = np.zeros((rows.shape[1], targets.shape[1]), dtype=np.float32)
        for nominal, left, right in zip(self._nominal, rows[:, :, None], targets[:, None, :], strict=True):
            total += left != right if nominal else np.abs(left - right)
        total /= np.float32(max(1, len(self._nominal)))
        return total


def k_medoids(distances: NDArray[np.float32], max_medoids: int) -> Integers:
    """Select representative rows: those with the smallest total distance to all others.

    Medoids are added one by one, each where it reduces the distances most (the first phase of PAM, Kaufman &
    Rousseeuw, 1990), as long as it reduces them by ``MIN_GAIN``. Then rows are assigned to their nearest medoid, and
    the medoid of each group is recomputed, in turn until nothing changes. Neither step increases the total distance.

    Args:
        distances: Symmetric distances, shape (n, n).
        max_medoids: Maximum number of medoids.

    Returns:
        Positions of the medoids, largest group first, shape (k,).
    """
    chosen = [int(np.argmin(distances.sum(axis=1)))]
    nearest = distances[chosen[0]].copy()
    total = float(nearest.sum())
    while len(chosen) < min(max_medoids, len(distances)):
        gains = np.maximum(nearest - distances, 0).sum(axis=1)
        best = int(np.argmax(gains))
        if gains[best] <= MIN_GAIN * total:
            break
        chosen.append(best)
        nearest = np.minimum(nearest, distances[best])
    medoids = np.array(chosen)
    for _ in range(MAX_STEPS):
        group = np.argmin(distances[medoids], axis=0)
        members = [np.flatnonzero(group == k) for k in range(len(medoids))]
        centres = np.array([rows[np.argmin(distances[np.ix_(rows, rows)].sum(axis=1))] for rows in members])
        if (centres == medoids).all():
            break
        medoids = centres
    sizes = np.bincount(np.argmin(distances[medoids], axis=0), minlength=len(medoids))
    return np.asarray(medoids[np.argsort(-sizes, kind="stable")], dtype=np.int64)


@dataclass(frozen=True)
class RankedProfiles:
    """Profiles by severity, most severe first.

    Attributes:
        rows: Positions in the table, shape (k,).
        severity: Gap between scores times 1 minus the distance, shape (k,). Without data, the gap.
        distance: Distance to the nearest person in the data, shape (k,). None without data.
        nearest: Unprotected part of that person, shape (k, U). None without data.
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
    """Rank the profiles with the widest gaps by severity, plausible profiles first.

    If the model returns labels only, all gaps are 1, and the profile nearest to a person in the data comes first.
    """
    valid = table.profiles.valid
    order = np.lexsort((-table.gap, ~valid))
    people = 0 if space.people is None else len(space.people)
    affordable = MAX_COMPARISONS // max(1, people * space.width)
    ranked = score_severity(table, space, order[: min(MAX_RANKED, max(MIN_RANKED, affordable))])
    return ranked[np.lexsort((-ranked.severity, ~valid[ranked.rows]))]


def score_severity(table: ProfileTable, space: ProfileSpace, rows: Integers) -> RankedProfiles:
    """Compute the severity of some profiles, without changing their order."""
    if space.people is None:
        return RankedProfiles(rows, table.gap[rows], None, None)
    distances, nearest = GowerDistance(space.attributes).nearest(table.profiles.unprotected[rows], space.people)
    return RankedProfiles(rows, table.gap[rows] * (1 - distances), distances, space.people[nearest])
