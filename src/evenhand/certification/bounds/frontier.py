"""The frontier of linear bounds: millions of boxes that are not decided as a whole, in a few dozen bytes each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.boxes import ArrayRows, Boxes
from evenhand.core.typing import Booleans, Floats, Integers

MAX_SPLITS = 4
"""Splits that are planned for a box."""
NEGLIGIBLE_SHARE = 0.03
"""Share of the undecided mass below which the total gain of proofs is negligible."""
SIZES = 80
"""Powers of two into which gains are sorted."""


@dataclass(frozen=True)
class BoxFrontier(ArrayRows):
    """Boxes with their plans and masses. Bounds are recomputed, because they take much memory and little time.

    Attributes:
        cells: First and last cell of each attribute, packed (see ``cell_record``).
        plan: Attributes of the next splits, shape (boxes, ``MAX_SPLITS``).
        open: Estimated undecided mass.
        mass: Mass.
        region: Coarse region of the domain.
        kind: 0 undecided, 1 fair, 2 unfair as a whole. Decided boxes are kept only for a record.
    """

    cells: NDArray[np.void]
    plan: NDArray[np.int8]
    open: NDArray[np.float32]
    mass: Floats
    region: NDArray[np.int16]
    kind: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.mass)

    @property
    def lo(self) -> NDArray[np.int32]:
        """First cell of each attribute, shape (boxes, attributes)."""
        return self._unpack("low")

    @property
    def hi(self) -> NDArray[np.int32]:
        """Last cell of each attribute."""
        return self._unpack("high")

    def _unpack(self, end: str) -> NDArray[np.int32]:
        names = [name for name in self.cells.dtype.names or () if name.startswith(end)]
        unpacked = np.empty((len(self), len(names)), dtype=np.int32)
        for i, name in enumerate(names):
            unpacked[:, i] = self.cells[name]
        return unpacked

    @property
    def divisible(self) -> Booleans:
        """Mask of the boxes with a plan."""
        return self.plan[:, 0] >= 0

    @property
    def gain(self) -> Floats:
        """Estimated mass that a proof may decide."""
        return self.mass - self.open

    def by_expected_gain(self) -> NDArray[np.intp]:
        """Boxes whose proof may decide something, in order, without those whose total gain is negligible."""
        gain = self.gain
        able = np.maximum(gain, 1e-300)
        size = np.clip(np.log2(able).astype(np.int64) + SIZES, 0, SIZES)
        below = np.cumsum(np.bincount(size, weights=np.maximum(gain, 0.0), minlength=SIZES + 1))
        min_size = int(np.searchsorted(below, NEGLIGIBLE_SHARE * self.open.sum(dtype=np.float64), side="right"))
        return np.flatnonzero((size >= min_size) & (gain > 0))

    def boxes(self) -> Boxes:
        """The same as ``Boxes``."""
        return Boxes(self.lo, self.hi, self.mass, np.zeros(len(self), dtype=np.int16), self.region)


def cell_record(counts: Integers) -> np.dtype[np.void]:
    """Build the data type of a box's first and last cells, with one or two bytes for attributes with few cells."""
    kinds = [np.min_scalar_type(max(0, int(count) - 1)) for count in counts]
    return np.dtype([(f"{end}{i}", kind) for end in ("low", "high") for i, kind in enumerate(kinds)])


def pack_cells(low: NDArray[Any], high: NDArray[Any], record: np.dtype[np.void]) -> NDArray[np.void]:
    """Pack cells (boxes, attributes) into one record per box."""
    packed = np.empty(len(low), dtype=record)
    for i in range(low.shape[1]):
        packed[f"low{i}"], packed[f"high{i}"] = low[:, i], high[:, i]
    return packed


def frontier_of(
    cells: NDArray[np.void], mass: Floats, open_mass: Floats, *, plan: NDArray[np.int8] | None = None
) -> BoxFrontier:
    """Build a frontier of boxes without a region. Without a plan they are not split."""
    n = len(cells)
    if plan is None:
        plan = np.full((n, MAX_SPLITS), -1, dtype=np.int8)
    return BoxFrontier(
        cells, plan, open_mass.astype(np.float32), mass, np.zeros(n, dtype=np.int16), np.zeros(n, dtype=np.int8)
    )


def root_frontier(counts: Integers) -> BoxFrontier:
    """Build a box of the whole domain, to be split along its widest attributes, from the number of cells of each."""
    high = (counts - 1)[None, :]
    plan = np.full((1, MAX_SPLITS), -1, dtype=np.int8)
    widest = np.argsort(-counts, kind="stable")[:MAX_SPLITS]
    plan[0, : len(widest)] = widest
    return frontier_of(pack_cells(0 * high, high, cell_record(counts)), np.ones(1), np.ones(1), plan=plan)
