"""What a model is trained on: real people, and instances added to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.schema import People


@dataclass(frozen=True, eq=False)
class Lesson:
    """People to learn from.

    Attributes:
        people: real ones, with their true labels.
        added: instances added to them, shape (m, attributes), as ``People.individuals``.
        labels: the labels they shall be given, positions in the schema's target values, shape (m,).
    """

    people: People
    added: NDArray[np.float64]
    labels: NDArray[np.int64]

    @classmethod
    def plain(cls, people: People) -> Lesson:
        """The real people alone."""
        return cls(people, np.empty((0, people.individuals.shape[1])), np.empty(0, dtype=np.int64))

    @property
    def individuals(self) -> NDArray[np.float64]:
        """Everybody, the real ones first, shape (n + m, attributes)."""
        return np.concatenate([self.people.individuals, self.added])

    @property
    def all_labels(self) -> NDArray[np.int64]:
        """Everybody's label, shape (n + m,)."""
        assert self.people.labels is not None, "a split has labels"
        return np.concatenate([self.people.labels, self.labels])
