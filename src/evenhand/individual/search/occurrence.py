"""Who could exist: which values of two attributes occur together in the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.schema import Attribute

Floats: TypeAlias = NDArray[np.float64]

DISTINCT = 64
"""A number with more values than this is binned."""

BINS = 16
"""Bins of such a number: quantiles of the data, so that each holds about as many people."""

FEW = 2048
"""So many profiles or fewer are looked at all attributes at once."""

CHUNK = 16_384
"""Of more, so many at a time."""


@dataclass(frozen=True)
class Pairs:
    """Which pairs of attribute values occur in the data (2-way occurrence), as sets of bits.

    Categories, bins of ordinal attributes and numbers with up to 64 values stand for themselves; a real number, or a
    whole one with more values, stands for one of up to 16 bins cut at quantiles of the data.

    Attributes:
        cuts: per attribute, where its bins begin beyond the first; None: each entry is its own cell.
        first: shape (U,), the smallest entry of each attribute.
        start: shape (U,), the number of each attribute's first cell; cells of all attributes are numbered together.
        together: shape (cells, words): bit j of row i says that somebody in the data has the cells i and j.
        own: shape (cells, words): the cell's own bit.
    """

    cuts: tuple[Floats | None, ...]
    first: Floats
    start: NDArray[np.int64]
    together: NDArray[np.uint64]
    own: NDArray[np.uint64]

    @classmethod
    def of(cls, attributes: Sequence[Attribute], people: Floats) -> Pairs:
        """What occurs in profiles (n, U) without missing values."""
        cuts = tuple(_cuts(attribute, people[:, i]) for i, attribute in enumerate(attributes))
        sizes = [
            (attribute.size or 1) if cut is None else len(cut) + 1
            for attribute, cut in zip(attributes, cuts, strict=True)
        ]
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        cells, words = sum(sizes), (sum(sizes) + 63) // 64
        own = np.zeros((cells, words), dtype=np.uint64)
        own[np.arange(cells), np.arange(cells) // 64] = np.uint64(1) << (np.arange(cells) % 64).astype(np.uint64)
        empty = cls(cuts, np.array([attribute.first for attribute in attributes]), start, own, own)
        seen = np.zeros((cells, cells), dtype=np.bool_)
        codes = empty.cells(people)
        for i in range(len(attributes)):
            for j in range(len(attributes)):
                seen[codes[:, i], codes[:, j]] = True
        bits = np.zeros((cells, words * 64), dtype=np.bool_)
        bits[:, :cells] = seen
        together = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        return cls(cuts, empty.first, start, together, own)

    def cells(self, unprotected: Floats) -> NDArray[np.int64]:
        """The cell of every entry of profiles (n, U) inside the domain, shape (n, U)."""
        found = (unprotected - self.first).astype(np.int64)
        for i, cut in enumerate(self.cuts):
            if cut is not None:
                found[:, i] = np.searchsorted(cut, unprotected[:, i], side="right")
        found += self.start
        return found

    def occur(self, unprotected: Floats) -> NDArray[np.bool_]:
        """Which profiles (n, U) have only pairs of values that occur together, shape (n,)."""
        if len(unprotected) <= FEW:
            return self._few(unprotected)
        parts = [self._many(unprotected[at : at + CHUNK]) for at in range(0, len(unprotected), CHUNK)]
        return np.concatenate(parts)

    def _many(self, unprotected: Floats) -> NDArray[np.bool_]:
        """Attribute by attribute, leaving out the profiles that have failed already."""
        cells = np.ascontiguousarray(self.cells(unprotected).T)
        alive = np.arange(len(unprotected))
        common = self.together[cells[0]]
        for i in range(1, len(cells)):
            cell = cells[i, alive]
            word, bit = cell >> 6, (cell & 63).astype(np.uint64)
            fits = (common[np.arange(len(alive)), word] >> bit) & np.uint64(1) != 0
            alive, common = alive[fits], common[fits]
            common &= self.together[cell[fits]]
        # A value that nobody has occurs with nothing, not even with itself.
        good = np.zeros(len(unprotected), dtype=np.bool_)
        own = self.own[cells[0, alive]]
        good[alive] = ((own & ~common) == 0).all(axis=1)
        return good

    def _few(self, unprotected: Floats) -> NDArray[np.bool_]:
        cells = self.cells(unprotected)
        # All of a profile's cells must be among those that occur with each of them.
        common = np.bitwise_and.reduce(self.together[cells], axis=1)
        mine = np.bitwise_or.reduce(self.own[cells], axis=1)
        return np.asarray(((mine & ~common) == 0).all(axis=1))


def _cuts(attribute: Attribute, entries: Floats) -> Floats | None:
    if attribute.discrete_values or (attribute.size is not None and attribute.size <= DISTINCT):
        return None
    values = np.unique(entries)
    if len(values) <= BINS:
        # A few values stand for themselves; what lies between two belongs to the lower one.
        return values[1:]
    return np.unique(np.quantile(entries, np.linspace(0, 1, BINS + 1)[1:-1]))
