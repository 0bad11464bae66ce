"""What every question of a certificate has, whatever the model: whom it is about, what varies, how masses are measured.

Boxes, sampling, counterexamples and regions need no more than this.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.cells import Cells
from evenhand.schema import Schema, Value

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """Is the label the same for every protected assignment, and for everybody within the tolerance?

    Attributes:
        protected: names of the attributes that are varied.
        assignments: their joint values, shape (assignments, protected); those that act alike are kept once,
            but with relaxed attributes there are always two.
        cells: the other attributes, in schema order.
        population: name of the distribution that masses are measured by.
        tolerance: per attribute of ``cells``, by how many cells the people compared may differ; 0 where not at all.
        threshold: with two labels, the second is given if its probability is greater; None with more labels.
        where: the conditions that made the domain smaller.
    """

    protected: tuple[str, ...]
    assignments: Floats
    cells: tuple[Cells, ...]
    population: str
    tolerance: NDArray[np.int64]
    threshold: float | None
    where: tuple[str, ...] = ()

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What the model's individuals are."""

    @property
    @abstractmethod
    def classes(self) -> tuple[Value, ...]:
        """The model's labels."""

    @abstractmethod
    def labels(self, individuals: Floats) -> NDArray[np.int64]:
        """The model's labels for rows of its schema, as positions in its classes, shape (n,)."""

    @abstractmethod
    def deployed(self, individuals: Floats) -> NDArray[np.int64]:
        """The same as the model may compute them where it is deployed, in its own precision."""

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of cells of each attribute."""
        return np.array([cells.count for cells in self.cells], dtype=np.int64)

    @cached_property
    def points(self) -> int:
        """Number of cell combinations: everybody, up to what the protected attributes say."""
        return int(np.prod([int(count) for count in self.counts], dtype=object)) if self.cells else 1

    @cached_property
    def relaxed(self) -> dict[str, int]:
        """Tolerances by attribute name, of the relaxed attributes."""
        pairs = zip(self.cells, self.tolerance, strict=True)
        return {cells.attribute.name: int(width) for cells, width in pairs if width}

    @property
    def window(self) -> int:
        """How many people are within the tolerance of one person, at most."""
        return math.prod(2 * int(width) + 1 for width in self.tolerance)

    @cached_property
    def constant(self) -> bool:
        """Whether nothing that is varied reaches the model: everybody is treated fairly."""
        return len(self.assignments) == 1 and not self.relaxed

    @cached_property
    def distance(self) -> float:
        """Bound on the total variation distance between the population and the integer weights in use."""
        return sum(cells.distance for cells in self.cells)

    def individuals(self, entries: Floats, assignment: int) -> Floats:
        """Rows of the model's schema from unprotected entries (n, attributes) and one protected assignment."""
        rows = np.empty((len(entries), len(self.schema.attributes)))
        rows[:, [cells.position for cells in self.cells]] = entries
        rows[:, self.schema.positions(self.protected)] = self.assignments[assignment]
        return rows

    def words(self, lo: NDArray[np.integer], hi: NDArray[np.integer]) -> dict[str, str]:
        """A box in words: the attributes that it restricts."""
        return {
            cells.attribute.name: cells.words(int(lo[i]), int(hi[i]))
            for i, cells in enumerate(self.cells)
            if lo[i] > 0 or hi[i] < cells.count - 1
        }
