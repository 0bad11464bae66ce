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

CHUNK = 65_536


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
                seen[codes[i], codes[j]] = True
        bits = np.zeros((cells, words * 64), dtype=np.bool_)
        bits[:, :cells] = seen
        together = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        return cls(cuts, empty.first, start, together, own)

    def cells(self, unprotected: Floats) -> NDArray[np.int64]:
        """The cell of every entry of profiles (n, U) inside the domain, shape (U, n)."""
        found = np.empty((len(self.start), len(unprotected)), dtype=np.int64)
        for i, cut in enumerate(self.cuts):
            entries = unprotected[:, i]
            found[i] = entries - self.first[i] if cut is None else np.searchsorted(cut, entries, side="right")
            found[i] += self.start[i]
        return found

    def occur(self, unprotected: Floats) -> NDArray[np.bool_]:
        """Which profiles (n, U) have only pairs of values that occur together, shape (n,)."""
        good = np.empty(len(unprotected), dtype=np.bool_)
        for at in range(0, len(unprotected), CHUNK):
            good[at : at + CHUNK] = self._occur(unprotected[at : at + CHUNK])
        return good

    def _occur(self, unprotected: Floats) -> NDArray[np.bool_]:
        cells = self.cells(unprotected)
        good = np.ones(len(unprotected), dtype=np.bool_)
        # All of a profile's cells must be among those that occur with each of them.
        for word in range(self.own.shape[1]):
            together, own = self.together[:, word], self.own[:, word]
            common = together[cells[0]]
            mine = own[cells[0]]
            for each in cells[1:]:
                common &= together[each]
                mine |= own[each]
            good &= (mine & ~common) == 0
        return good


def _cuts(attribute: Attribute, entries: Floats) -> Floats | None:
    if attribute.discrete_values or (attribute.size is not None and attribute.size <= DISTINCT):
        return None
    values = np.unique(entries)
    if len(values) <= BINS:
        # A few values stand for themselves; what lies between two belongs to the lower one.
        return values[1:]
    return np.unique(np.quantile(entries, np.linspace(0, 1, BINS + 1)[1:-1]))
