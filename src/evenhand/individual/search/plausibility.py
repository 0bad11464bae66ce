"""Plausibility of profiles from data: pairs of values that occur together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.schema.attribute import Attribute
from evenhand.stats.level import poisson_mean

DISTINCT = 64
"""Maximum number of values of a numeric attribute that are compared one by one. More values are compared by ranges."""

BINS = 16
"""Number of quantile bins of a numeric attribute that is compared by ranges. The range of the other attribute is
determined in each bin."""

CELLS = 256
"""Maximum number of cells (values, or quantiles of the data) of a numeric attribute that is compared by ranges."""

MAX_ERROR_RATE = 1e-4
"""Maximum fraction of people with a pair of values that may be an error in the data. One person is always allowed."""

MIN_RATIO = 0.05
"""Ratio of the observed count to the count expected under independence, below which a pair may be an error."""

MAX_ERROR_P = 0.01
"""Maximum probability of a count this low, given that ratio, for the pair to count as an error."""

FEW = 2048
"""Maximum number of profiles whose attributes are all checked at once."""

CHUNK = 16_384
"""Number of profiles per batch in a larger check."""


@dataclass(frozen=True)
class ValuePairs:
    """Pairs of attribute values that occur in the data (2-way occurrence), as bit sets.

    Categories, bins of ordinal attributes and numbers with up to 64 values are compared value by value. A real number,
    or an integer with more values, occurs with a value of another attribute if it is in the range observed with that
    value. It occurs with another such number if each is in the range observed with the sixteenth of the data that
    contains the other. A pair that occurs far less often than expected counts as an error in the data (see
    ``error_limits``). A value of a protected attribute occurs with every other value, unless the pair counts as an
    error or is just as clearly absent: a value that few members of a small group have is not ruled out for the group.

    Attributes:
        cuts: Lower ends of each attribute's cells after the first. None if each entry is its own cell.
        first: Smallest entry of each attribute, shape (d,).
        start: Index of each attribute's first cell, shape (d,). The cells of all attributes are numbered
            consecutively, in multiples of eight per attribute.
        sizes: Number of cells of each attribute, shape (d,).
        together: Bit j of row i is set if the cells i and j occur together, shape (cells, words).
    """

    cuts: tuple[Floats | None, ...]
    first: Floats
    start: Integers
    sizes: Integers
    together: NDArray[np.uint64]

    @classmethod
    def of(
        cls,
        attributes: Sequence[Attribute],
        people: Floats,
        protected: Sequence[int] = (),
        *,
        as_published: bool = False,
    ) -> ValuePairs:
        """Determine the pairs that occur among people (n, d) without missing values.

        Args:
            attributes: The attributes.
            people: The people.
            protected: Positions of the protected attributes.
            as_published: Whether one person is enough for a pair, numbers are compared in 16 bins, and protected
                attributes are not compared.
        """
        max_cells = BINS if as_published else CELLS
        cuts = tuple(_cell_starts(attribute, people[:, i], max_cells) for i, attribute in enumerate(attributes))
        sizes = [
            (attribute.size or 1) if cut is None else len(cut) + 1
            for attribute, cut in zip(attributes, cuts, strict=True)
        ]
        # Each attribute starts at a new byte, so that blocks of bits can be written separately.
        start = np.concatenate([[0], np.cumsum([-(-size // 8) * 8 for size in sizes])]).astype(np.int64)
        together = np.zeros((start[-1], -(-int(start[-1]) // 64) * 8), dtype=np.uint8)
        start = start[:-1]
        empty = cls(
            cuts, np.array([attribute.first for attribute in attributes]), start, np.array(sizes), together.view("<u8")
        )
        codes = np.ascontiguousarray((empty.cells(people) - start).T)
        limits = error_limits(len(people))
        for i, size in enumerate(sizes):
            for j in range(i + 1):
                check_time()
                counts = np.bincount(codes[i] * sizes[j] + codes[j], minlength=size * sizes[j])
                counts = counts.reshape(size, sizes[j])
                assigned = i in protected or j in protected
                if as_published or i == j:
                    block = np.full(counts.shape, True) if assigned else counts > 0
                else:
                    block = _find_pairs(counts, (cuts[i] is not None, cuts[j] is not None), limits, unseen=assigned)
                empty._write(i, j, block)
                empty._write(j, i, block.T)
        return empty

    def _write(self, i: int, j: int, block: Booleans) -> None:
        bits = np.packbits(block, axis=1, bitorder="little")
        first = self.start[j] // 8
        self.together.view(np.uint8)[self.start[i] : self.start[i] + len(bits), first : first + bits.shape[1]] = bits

    def cells(self, people: Floats) -> Integers:
        """Return the cell of every entry of people (n, d) inside the domain, shape (n, d)."""
        cells = (people - self.first).astype(np.int64)
        for i, cut in enumerate(self.cuts):
            if cut is not None:
                cells[:, i] = np.searchsorted(cut, people[:, i], side="right")
        cells += self.start
        return cells

    def all_pairs_occur(self, people: Floats, columns: Sequence[int] | None = None) -> Booleans:
        """Check which people (n, d) have only pairs of values that occur together, shape (n,).

        Args:
            people: The people.
            columns: Positions of the attributes to check. Default: all.
        """
        columns = range(len(self.first)) if columns is None else columns
        if len(people) <= FEW:
            return self._check_few(self.cells(people)[:, columns])
        parts = [
            self._check_many(self.cells(people[at : at + CHUNK])[:, columns]) for at in range(0, len(people), CHUNK)
        ]
        return np.concatenate(parts)

    def always_occur(self, columns: Sequence[int]) -> bool:
        """Return whether the values of these attributes occur with every other value."""
        every = np.concatenate([start + np.arange(size) for start, size in zip(self.start, self.sizes, strict=True)])
        cells = np.concatenate([self.start[i] + np.arange(self.sizes[i]) for i in columns])
        return bool(get_bits(self.together, cells[:, None], every).all())

    def _check_many(self, cells: Integers) -> Booleans:
        """Check attribute by attribute, skipping people who have already failed."""
        alive = np.arange(len(cells))
        cells = np.ascontiguousarray(cells.T)
        common = self.together[cells[0]]
        for i in range(1, len(cells)):
            cell = cells[i, alive]
            fits = get_bits(common, np.arange(len(alive)), cell)
            alive, common = alive[fits], common[fits]
            common &= self.together[cell[fits]]
        # A value that does not occur in the data does not occur with itself either.
        valid = np.zeros(cells.shape[1], dtype=np.bool_)
        valid[alive] = get_bits(common, np.arange(len(alive)), cells[0, alive])
        return valid

    def _check_few(self, cells: Integers) -> Booleans:
        """Check all attributes at once: all cells of a person must occur with each of them."""
        common = np.bitwise_and.reduce(self.together[cells], axis=1)
        return np.asarray(get_bits(common, np.arange(len(cells))[:, None], cells).all(axis=1))


def get_bits(words: NDArray[np.uint64], row: Integers, bit: Integers) -> Booleans:
    """Read bits of rows of words, each at (row, bit)."""
    return np.asarray(words[row, bit >> 6] >> (bit & 63).astype(np.uint64) & np.uint64(1) != 0)


def error_limits(people: int) -> Floats:
    """Compute the expected count beyond which an observed count of 0, 1, ... is an error in the data.

    A pair counts as an error if at most one person, or one in 10,000, has it, and if a count this low has a probability
    below 1 % (Poisson) even if the pair were 20 times rarer than under independence. For example, one person has the
    pair although 133 are expected to.

    Args:
        people: Total number of people.

    Returns:
        Limits of the counts that are rare enough, then infinity for all others.
    """
    few = int(max(1.0, MAX_ERROR_RATE * people))
    return np.append(poisson_mean(np.arange(few + 1), MAX_ERROR_P) / MIN_RATIO, np.inf)


def _find_pairs(counts: Integers, by_range: tuple[bool, bool], limits: Floats, *, unseen: bool) -> Booleans:
    """Find the cells of two attributes that occur together.

    Args:
        counts: Number of people with both cells, shape (cells, cells).
        by_range: Whether each of the two attributes is compared by ranges.
        limits: Limits of errors (see ``error_limits``).
        unseen: Whether pairs that were not observed are included, unless many were expected.
    """
    pairs = np.ones(counts.shape, dtype=np.bool_)
    if by_range == (False, False):
        return pairs & ~_is_absent(counts, _expected_together(counts), limits, unseen=unseen)
    if by_range[1]:
        pairs &= _find_ranges(counts, limits, merged=by_range[0], unseen=unseen)
    if by_range[0]:
        pairs &= _find_ranges(counts.T, limits, merged=by_range[1], unseen=unseen).T
    return pairs


def _find_ranges(counts: Integers, limits: Floats, *, merged: bool, unseen: bool) -> Booleans:
    """Return, for each row, the columns between the first and the last column observed with it.

    Args:
        counts: Number of people, shape (rows, columns), both in order.
        limits: Limits of errors (see ``error_limits``).
        merged: Whether rows are cells of a number too. The rows of each sixteenth of the people then share a range.
        unseen: As for ``_find_pairs``.
    """
    if merged:
        people = counts.sum(axis=1)
        n = int(people.sum())
        bins = np.minimum((np.cumsum(people) - people / 2) * BINS // n, BINS - 1).astype(np.int64)
        members = (bins == np.arange(BINS)[:, None]).astype(np.float64)
        joint = (members @ counts).astype(np.int64)  # faster than adding row by row, and exact
        return np.asarray(_find_ranges(joint, limits, merged=False, unseen=unseen)[bins])

    def in_tail(seen: Integers, expected: Floats) -> Booleans:
        """Find the columns before the first observed column, ignoring errors."""
        absent = _is_absent(np.cumsum(seen, axis=1), np.cumsum(expected, axis=1), limits, unseen=unseen)
        return np.asarray(np.logical_or.accumulate(absent[:, ::-1], axis=1)[:, ::-1])

    expected = _expected_together(counts)
    return ~in_tail(counts, expected) & ~in_tail(counts[:, ::-1], expected[:, ::-1])[:, ::-1]


def _is_absent(seen: Integers, expected: Floats, limits: Floats, *, unseen: bool) -> Booleans:
    absent = expected > limits[np.minimum(seen, len(limits) - 1)]
    return absent if unseen else absent | (seen == 0)


def _expected_together(counts: Integers) -> Floats:
    """Compute the expected counts (rows, columns) if the attributes were independent."""
    return np.asarray(np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum())


def _cell_starts(attribute: Attribute, entries: Floats, max_cells: int) -> Floats | None:
    """Return the lower ends of a number's cells after the first. None if each entry is its own cell."""
    if attribute.is_discrete or (attribute.size is not None and attribute.size <= DISTINCT):
        return None
    values = np.unique(entries)
    if len(values) <= max_cells:
        # Entries between two values belong to the lower one.
        return values[1:]
    return np.unique(np.quantile(entries, np.linspace(0, 1, max_cells + 1)[1:-1]))
