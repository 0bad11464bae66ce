"""How far apart two people are: Gower's distance over attributes of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.schema import Attribute

Floats: TypeAlias = NDArray[np.float64]

CELLS = 30_000_000
"""Distances held at once."""


class Gower:
    """The mean over the attributes of: 1 for another category, the difference over the range for what is ordered.

    From 0 (the same) to 1 (Gower, "A general coefficient of similarity and some of its properties", Biometrics 1971).

    Args:
        attributes: of the rows, in order.
    """

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self._nominal = [not attribute.ordered for attribute in attributes]
        spans = np.array([attribute.last - attribute.first for attribute in attributes])
        self._scale = np.where(spans > 0, spans, 1.0)

    def between(self, rows: Floats, others: Floats) -> NDArray[np.float32]:
        """Every row (n, U) to every other (m, U), shape (n, m)."""
        total = np.zeros((len(rows), len(others)), dtype=np.float32)
        for i, nominal in enumerate(self._nominal):
            one, two = rows[:, i, None], others[None, :, i]
            if nominal:
                total += one != two
            else:
                scale = self._scale[i]
                total += np.abs((one / scale).astype(np.float32) - (two / scale).astype(np.float32))
        total /= np.float32(max(1, len(self._nominal)))
        return total

    def nearest(self, rows: Floats, others: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """For each row (n, U) the distance to the nearest of the others (m, U), and which that is, shapes (n,)."""
        distance, which = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        each = max(1, CELLS // max(1, len(others)))
        for start in range(0, len(rows), each):
            found = self.between(rows[start : start + each], others)
            best = np.argmin(found, axis=1)
            which[start : start + each] = best
            distance[start : start + each] = found[np.arange(len(found)), best]
        return distance, which


def k_medoids(distances: NDArray[np.float32], most: int, *, gain: float = 0.05) -> NDArray[np.int64]:
    """Rows that stand for all: those from which the others are least far in all, found greedily, then settled.

    Medoids are added one by one, each where it brings the others closest (the first phase of PAM, Kaufman & Rousseeuw,
    1990), while one brings at least ``gain`` of the distance that the first left. Then members choose their medoid and
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
        if gains[best] <= gain * first:
            break
        chosen.append(best)
        nearest = np.minimum(nearest, distances[best])
    medoids = np.array(chosen)
    for _ in range(20):
        member = np.argmin(distances[medoids], axis=0)
        inside = [np.flatnonzero(member == k) for k in range(len(medoids))]
        settled = np.array([rows[np.argmin(distances[np.ix_(rows, rows)].sum(axis=1))] for rows in inside])
        if (settled == medoids).all():
            break
        medoids = settled
    sizes = np.bincount(np.argmin(distances[medoids], axis=0), minlength=len(medoids))
    return np.asarray(medoids[np.argsort(-sizes, kind="stable")], dtype=np.int64)
