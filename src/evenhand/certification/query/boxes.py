"""Boxes: products of cell ranges, thousands at a time as flat arrays, with their exact shares of the population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.question import Question
from evenhand.core.typing import Booleans, Floats, Integers


@dataclass(frozen=True)
class ArrayRows:
    """Arrays with one row for each box: base class of the frontiers of all engines."""

    def __getitem__(self, chosen: Booleans | NDArray[np.integer] | slice) -> Self:
        return type(self)(*(getattr(self, each.name)[chosen] for each in fields(self)))

    @property
    def row_bytes(self) -> int:
        """Number of bytes of a row."""
        arrays: list[NDArray[Any]] = [getattr(self, each.name) for each in fields(self)]
        return sum(array.nbytes for array in arrays) // max(1, len(arrays[0]))

    @classmethod
    def concatenate(cls, parts: Sequence[Self], /) -> Self:
        """Concatenate several frontiers."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    # Memory has no room for a second copy of tens of millions of rows. These two methods empty their arguments field by
    # field, so that at most one field exists twice.

    def divide(self, chosen: Booleans) -> tuple[Self, Self]:
        """Split the rows into the chosen ones and the others. Empties this object."""
        columns = [self.__dict__.pop(each.name) for each in fields(self)]
        halves: list[list[NDArray[Any]]] = [[], []]
        # Column by column, so that no more than one is held twice at any time.
        while columns:
            column = columns.pop(0)
            halves[0].append(column[chosen])
            halves[1].append(column[~chosen])
        return type(self)(*halves[0]), type(self)(*halves[1])

    @classmethod
    def join(cls, parts: list[Self], /) -> Self:
        """Concatenate several frontiers. Empties them."""
        return cls(*(np.concatenate([part.__dict__.pop(each.name) for part in parts]) for each in fields(cls)))


CellArray: TypeAlias = NDArray[np.int32] | NDArray[np.int16]


class BoxSet(Protocol):
    """Boxes with their masses: ``Boxes``, or a frontier that unpacks its cells on access."""

    @property
    def lo(self) -> NDArray[np.integer]:
        """First cell of each attribute, shape (boxes, attributes)."""

    @property
    def hi(self) -> NDArray[np.integer]:
        """Last cell of each attribute."""

    @property
    def mass(self) -> Floats:
        """Share of the population."""

    @property
    def region(self) -> NDArray[np.int16]:
        """Coarse region of each box."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: Booleans | NDArray[np.integer] | slice, /) -> Self: ...


@dataclass(frozen=True)
class Boxes(ArrayRows):
    """Disjoint parts of the domain.

    Attributes:
        lo, hi: First and last cell of each attribute, shape (boxes, attributes).
        mass: Share of the population, with a relative error below ``1e-15`` per split.
        depth: Number of splits.
        region: Coarse part of the domain (see ``regions``), 0 if none is assigned yet.
    """

    lo: CellArray
    hi: CellArray
    mass: Floats
    depth: NDArray[np.int16]
    region: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.mass)


def whole_domain(query: Question) -> Boxes:
    """Build a box of the whole domain."""
    return Boxes(
        lo=np.zeros((1, len(query.cells)), dtype=np.int32),
        hi=(query.counts - 1).astype(np.int32)[None, :],
        mass=np.ones(1),
        depth=np.zeros(1, dtype=np.int16),
        region=np.zeros(1, dtype=np.int16),
    )


class BoxSplitter:
    """Splitter of boxes, which divides their mass between the halves.

    Args:
        query: Question, which weighs ranges of cells.
    """

    def __init__(self, query: Question) -> None:
        self._starts = np.full(len(query.cells), -1, dtype=np.int64)
        self._values = np.array([cells.values for cells in query.cells], dtype=np.int64)
        self._counts = query.counts
        self._totals = np.array([cells.total for cells in query.cells], dtype=np.int64)
        tables = [np.zeros(1, dtype=np.int64)]
        begin = 1
        for i, cells in enumerate(query.cells):
            if cells.cumulative is not None:
                self._starts[i] = begin
                tables.append(cells.cumulative)
                begin += len(cells.cumulative)
        self._tables = np.concatenate(tables)

    def split_boxes(self, boxes: Boxes, attribute: NDArray[np.integer]) -> Boxes:
        """Split each box along its attribute, at the middle of the mass. The attribute must have two cells there."""
        rows = np.arange(len(boxes))
        begins, ends = boxes.lo[rows, attribute].astype(np.int64), boxes.hi[rows, attribute].astype(np.int64)
        middle = self._split_points(attribute, begins, ends)
        start, cut, stop = (self._before(attribute, cells) for cells in (begins, middle + 1, ends + 1))
        share = np.where(stop > start, (cut - start) / np.maximum(stop - start, 1), 0.5)
        upper_share = np.where(stop > start, (stop - cut) / np.maximum(stop - start, 1), 0.5)
        hi, lo = boxes.hi.copy(), boxes.lo.copy()
        hi[rows, attribute] = middle
        lo[rows, attribute] = middle + 1
        depth = boxes.depth + np.int16(1)
        lower = Boxes(boxes.lo, hi, boxes.mass * share, depth, boxes.region)
        upper = Boxes(lo, boxes.hi, boxes.mass * upper_share, depth, boxes.region)
        # The two halves of a box come one after the other.
        return Boxes.concatenate([lower, upper])[np.arange(2 * len(boxes)).reshape(2, -1).T.ravel()]

    def _split_points(self, attribute: NDArray[np.integer], begins: Integers, ends: Integers) -> Integers:
        """Compute the last cell of each lower half: the middle of the mass, or of the range if the mass is uniform."""
        middle = (begins + ends) // 2
        for i in np.unique(attribute[self._starts[attribute] >= 0]):
            rows = np.flatnonzero(attribute == i)
            begin = self._starts[i]
            # The running sum nearest to half of the mass, with at least one cell on either side.
            cumulative = self._tables[begin : begin + self._counts[i] + 1]
            target = (cumulative[begins[rows]] + cumulative[ends[rows] + 1]) // 2
            above = np.clip(np.searchsorted(cumulative, target), begins[rows] + 1, ends[rows])
            nearer = (above > begins[rows] + 1) & (target - cumulative[above - 1] < cumulative[above] - target)
            middle[rows] = above - nearer - 1
        return middle

    def _before(self, attribute: NDArray[np.integer], cells: Integers) -> Integers:
        # Without a table all cells weigh the same, but for the last, which may weigh less.
        starts = self._starts[attribute]
        even = np.minimum(cells * self._values[attribute], self._totals[attribute])
        return np.where(starts >= 0, self._tables[np.where(starts >= 0, starts + cells, 0)], even)
