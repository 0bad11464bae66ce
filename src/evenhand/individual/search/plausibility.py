"""What makes a profile plausible beside rules and constraints: values that occur together in the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.schema.attribute import Attribute
from evenhand.stats.level import poisson_cdf

DISTINCT = 64
"""A number with more values than this is compared by ranges."""

BINS = 16
"""Bins of such a number, where something else is compared with it: quantiles of the data."""

CELLS = 256
"""Cells of such a number, where it is compared with something else: its values, or quantiles of the data."""

ERRORS = 1e-4
"""So large a share of the people, or one person, may be errors in the data."""

SCARCE = 0.05
"""A pair that occurs less often than so many times what chance would bring together may be such an error."""

DOUBT = 0.01
"""How likely as few people or fewer must be, where a pair occurs that often, for them to be taken for errors."""

FEW = 2048
"""So many profiles or fewer are looked at all attributes at once."""

CHUNK = 16_384
"""Of more, so many at a time."""


@dataclass(frozen=True)
class ValuePairs:
    """Which pairs of attribute values occur in the data (2-way occurrence), as sets of bits.

    Categories, bins of ordinal attributes and numbers with up to 64 values stand for themselves. A real number, or a
    whole one with more values, occurs with a value of another attribute if it lies in the range seen with that value;
    with another such number, if each lies in the range seen with the 16th of the data that the other is in. A pair that
    occurs hardly ever though it should occur often is taken for an error in the data (see ``is_error``). A value of a
    protected attribute occurs with every other value but those with which it is such an error, or absent as clearly:
    that few people of a small group were seen with something does not say that no one of it can have it.

    Attributes:
        cuts: per attribute, where its cells begin beyond the first; None: each entry is its own cell.
        first: shape (d,), the smallest entry of each attribute.
        start: shape (d,), the number of each attribute's first cell; cells of all attributes are numbered together.
        together: shape (cells, words): bit j of row i says that the cells i and j occur together.
        own: shape (cells, words): the cell's own bit.
    """

    cuts: tuple[Floats | None, ...]
    first: Floats
    start: Integers
    together: NDArray[np.uint64]
    own: NDArray[np.uint64]

    @classmethod
    def of(
        cls,
        attributes: Sequence[Attribute],
        people: Floats,
        protected: Sequence[int] = (),
        *,
        as_published: bool = False,
    ) -> ValuePairs:
        """Return what occurs among people (n, d) without missing values.

        Args:
            protected: positions of the protected attributes.
            as_published: one person suffices for a pair, numbers are compared in 16 bins, and protected attributes with
                nothing.
        """
        most = BINS if as_published else CELLS
        cuts = tuple(_cell_starts(attribute, people[:, i], most) for i, attribute in enumerate(attributes))
        sizes = [
            (attribute.size or 1) if cut is None else len(cut) + 1
            for attribute, cut in zip(attributes, cuts, strict=True)
        ]
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        cells, words = sum(sizes), (sum(sizes) + 63) // 64
        own = np.zeros((cells, words), dtype=np.uint64)
        own[np.arange(cells), np.arange(cells) // 64] = np.uint64(1) << (np.arange(cells) % 64).astype(np.uint64)
        empty = cls(cuts, np.array([attribute.first for attribute in attributes]), start, own, own)
        codes = empty.cells(people) - start
        occurs = np.zeros((cells, words * 64), dtype=np.bool_)
        for i, size in enumerate(sizes):
            check_time()
            for j in range(i + 1):
                counts = np.bincount(codes[:, i] * sizes[j] + codes[:, j], minlength=size * sizes[j])
                counts = counts.reshape(size, sizes[j])
                assigned = i in protected or j in protected
                if as_published or i == j:
                    found = np.full(counts.shape, True) if assigned else counts > 0
                else:
                    found = _find_pairs(counts, (cuts[i] is not None, cuts[j] is not None), unseen=assigned)
                rows, columns = slice(start[i], start[i] + size), slice(start[j], start[j] + sizes[j])
                occurs[rows, columns] = found
                occurs[columns, rows] = found.T
        together = np.packbits(occurs, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        return cls(cuts, empty.first, start, together, own)

    def cells(self, people: Floats) -> Integers:
        """Return the cell of every entry of people (n, d) inside the domain, shape (n, d)."""
        found = (people - self.first).astype(np.int64)
        for i, cut in enumerate(self.cuts):
            if cut is not None:
                found[:, i] = np.searchsorted(cut, people[:, i], side="right")
        found += self.start
        return found

    def all_pairs_occur(self, people: Floats, columns: Sequence[int] | None = None) -> Booleans:
        """Return which people (n, d) have only pairs of values that occur together, shape (n,).

        Args:
            columns: positions of the attributes to look at; by default all.
        """
        columns = range(len(self.first)) if columns is None else columns
        if len(people) <= FEW:
            return self._few(self.cells(people)[:, columns])
        parts = [
            self._check_many(self.cells(people[at : at + CHUNK])[:, columns]) for at in range(0, len(people), CHUNK)
        ]
        return np.concatenate(parts)

    def always_occur(self, columns: Sequence[int]) -> bool:
        """Return whether the values of these attributes occur with every other value."""
        ends = [*self.start.tolist(), len(self.together)]
        mine = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in columns])
        every = np.bitwise_or.reduce(self.own, axis=0)
        return bool((self.together[mine] == every).all())

    def _check_many(self, cells: Integers) -> Booleans:
        """Check attribute by attribute, leaving out the people who have failed already."""
        alive = np.arange(len(cells))
        cells = np.ascontiguousarray(cells.T)
        common = self.together[cells[0]]
        for i in range(1, len(cells)):
            cell = cells[i, alive]
            word, bit = cell >> 6, (cell & 63).astype(np.uint64)
            fits = (common[np.arange(len(alive)), word] >> bit) & np.uint64(1) != 0
            alive, common = alive[fits], common[fits]
            common &= self.together[cell[fits]]
        # A value that does not occur in the data occurs with nothing, not even with itself.
        good = np.zeros(cells.shape[1], dtype=np.bool_)
        own = self.own[cells[0, alive]]
        good[alive] = ((own & ~common) == 0).all(axis=1)
        return good

    def _few(self, cells: Integers) -> Booleans:
        # All of a person's cells must be among those that occur with each of them.
        common = np.bitwise_and.reduce(self.together[cells], axis=1)
        mine = np.bitwise_or.reduce(self.own[cells], axis=1)
        return np.asarray(((mine & ~common) == 0).all(axis=1))


def is_error(seen: Integers, expected: Floats, people: int) -> Booleans:
    """Return which pairs occur so rarely that their people are taken for errors in the data.

    That is one person, or one in 10,000, where as few or fewer would come together with probability below 1 % (Poisson)
    even if the pair were 20 times as rare as in independent attributes: one person where chance would bring 133.

    Args:
        seen: how many people have the pair.
        expected: how many would in independent attributes.
        people: of how many.
    """
    few = seen <= max(1.0, ERRORS * people)
    return np.asarray(few & (poisson_cdf(seen, SCARCE * expected) < DOUBT))


def _find_pairs(counts: Integers, by_range: tuple[bool, bool], *, unseen: bool) -> Booleans:
    """Return which cells of two attributes occur together.

    Args:
        counts: how many people have both, shape (cells of one, cells of the other).
        by_range: whether each of the two is a number that occurs in ranges.
        unseen: let pairs count that were not seen, unless they should have been.
    """
    found = np.ones(counts.shape, dtype=np.bool_)
    if by_range == (False, False):
        return found & ~_is_absent(counts, _expected_together(counts), int(counts.sum()), unseen=unseen)
    if by_range[1]:
        found &= _find_ranges(counts, merged=by_range[0], unseen=unseen)
    if by_range[0]:
        found &= _find_ranges(counts.T, merged=by_range[1], unseen=unseen).T
    return found


def _find_ranges(counts: Integers, *, merged: bool, unseen: bool) -> Booleans:
    """Return for each row which columns lie between the first and the last seen with it.

    Args:
        counts: shape (rows, columns), both in order.
        merged: rows are cells of a number too: each shares its range with the 16th of the people that it is in.
        unseen: as for ``_find_pairs``.
    """
    n = int(counts.sum())
    if merged:
        people = counts.sum(axis=1)
        bins = np.minimum((np.cumsum(people) - people / 2) * BINS // n, BINS - 1).astype(np.int64)
        joint = np.zeros((BINS, counts.shape[1]), dtype=counts.dtype)
        np.add.at(joint, bins, counts)
        return np.asarray(_find_ranges(joint, merged=False, unseen=unseen)[bins])

    def in_tail(seen: Integers, expected: Floats) -> Booleans:
        """Return which columns lie in a tail from the first on in which no one is, errors left out."""
        absent = _is_absent(np.cumsum(seen, axis=1), np.cumsum(expected, axis=1), n, unseen=unseen)
        return np.asarray(np.logical_or.accumulate(absent[:, ::-1], axis=1)[:, ::-1])

    expected = _expected_together(counts)
    return ~in_tail(counts, expected) & ~in_tail(counts[:, ::-1], expected[:, ::-1])[:, ::-1]


def _is_absent(seen: Integers, expected: Floats, people: int, *, unseen: bool) -> Booleans:
    absent = is_error(seen, expected, people)
    return absent if unseen else absent | (seen == 0)


def _expected_together(counts: Integers) -> Floats:
    """Return how many people would have both of two values in independent attributes, from counts (rows, columns)."""
    return np.asarray(np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum())


def _cell_starts(attribute: Attribute, entries: Floats, most: int) -> Floats | None:
    """Return where the cells of a number begin beyond the first; None if each entry is its own."""
    if attribute.is_discrete or (attribute.size is not None and attribute.size <= DISTINCT):
        return None
    values = np.unique(entries)
    if len(values) <= most:
        # A few values stand for themselves; what lies between two belongs to the lower one.
        return values[1:]
    return np.unique(np.quantile(entries, np.linspace(0, 1, most + 1)[1:-1]))
