"""What a search has found: distinct profiles with all their assignments, labels and scores."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.flips import disagree
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.int64]

UNASKED = -1
"""In place of the label under an assignment that was not asked about yet; the scores are then NaN."""


@dataclass(frozen=True)
class Found:
    """Profiles that are decided differently under some protected assignment, in the order they were found.

    Attributes:
        unprotected: shape (n, U), no two alike.
        labels: shape (n, A).
        scores: shape (n, A, classes).
        valid: shape (n,), whether every pair of their values occurs in the data; all True without data.
        given: shape (n,), whether it was a seed as it stands, so that no search was needed.
    """

    unprotected: Floats
    labels: Labels
    scores: Floats
    valid: NDArray[np.bool_]
    given: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.unprotected)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Found:
        return Found(
            self.unprotected[which], self.labels[which], self.scores[which], self.valid[which], self.given[which]
        )

    @classmethod
    def joined(cls, parts: list[Found]) -> Found:
        """All of several, in order."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


class Findings:
    """Collects profiles as the model answers about them; each counts once."""

    def __init__(self, space: Space, classes: int) -> None:
        self.space = space
        self._classes = classes
        self._seen: dict[int, None] = {}
        self._given: set[int] = set()
        self._unprotected: list[Floats] = []
        self._labels: list[Labels] = []
        self._scores: list[Floats] = []

    def __len__(self) -> int:
        return len(self._seen)

    def start_from(self, unprotected: Floats) -> None:
        """Note the seeds (n, U): those that discriminate as they stand are findings, but not of the search."""
        self._given.update(self.space.keys(unprotected).tolist())

    def add(self, unprotected: Floats, labels: Labels, scores: Floats) -> NDArray[np.bool_]:
        """Take in the model's answers; which of these profiles (n, U) are decided differently, shape (n,).

        Args:
            labels: shape (n, A). scores: shape (n, A, classes).
        """
        flips = disagree(labels)
        if not flips.any():
            return flips
        where = np.flatnonzero(flips)
        seen = self._seen
        new = []
        for i, key in zip(where.tolist(), self.space.keys(unprotected[where]).tolist(), strict=True):
            if key not in seen:
                seen[key] = None
                new.append(i)
        if new:
            self._unprotected.append(unprotected[new])
            self._labels.append(labels[new])
            self._scores.append(scores[new])
        return flips

    def found(self) -> Found:
        """All of them that may be reported: legal, and valid unless anything goes."""
        space = self.space
        n = len(space.assignments)
        unprotected = np.concatenate([np.empty((0, space.width)), *self._unprotected])
        labels = np.concatenate([np.empty((0, n), dtype=np.int64), *self._labels])
        scores = np.concatenate([np.empty((0, n, self._classes)), *self._scores])
        legal = space.legal(unprotected)
        valid = np.zeros(len(unprotected), dtype=np.bool_)
        valid[legal] = space.valid(unprotected[legal])
        keys = space.keys(unprotected).tolist() if self._given else [0] * len(unprotected)
        given = np.array([key in self._given for key in keys], dtype=np.bool_)
        found = Found(unprotected, labels, scores, valid, given)
        return found[legal if space.anything_goes else legal & valid]
