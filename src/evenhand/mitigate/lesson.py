"""What a model is trained on: real people, and instances added to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models import Scorer
from evenhand.schema import People, Schema


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


def positions(scorer: Scorer, schema: Schema) -> NDArray[np.int64]:
    """Where each of a model's classes stands among the target's values, shape (classes,).

    Raises:
        ModelError: a class is none of them.
    """
    values = schema.target.values or scorer.classes
    unknown = [label for label in scorer.classes if label not in values]
    if unknown:
        raise ModelError(f"the model answers {unknown[0]!r}, which is not among the labels {values}", where=scorer.name)
    return np.array([values.index(label) for label in scorer.classes], dtype=np.int64)
