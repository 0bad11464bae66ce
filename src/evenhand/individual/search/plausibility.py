"""Plausibility of profiles from data: pairs of values that occur together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.schema.attribute import Attribute
from evenhand.stats.level import poisson_mean

DISTINCT = 64
"""Maximum number of values of a numeric attribute that are compared individually. Beyond it, ranges are compared."""

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

FIRST_DEPTH = 128
"""Number of people with the lowest values in the initial search for the first people of each group."""


@dataclass(frozen=True)
class ValuePairs:
    """Pairs of attribute values that occur in the data (2-way occurrence).

    Categories, bins of ordinal attributes and numbers with up to 64 values are compared value by value. A real number,
    or an integer with more values, occurs with a value of another attribute if it is in the range observed with that
    value. Two such numbers occur together if each is in the range observed with the sixteenth of the data that
    contains the other. A pair that occurs far less often than expected counts as an error in the data (see
    ``error_limits``). A value of a protected attribute occurs with every other value, unless the pair counts as an
    error or is absent by the same standard, so a value that is rare in a small group is not excluded for that group.

    The cells of an attribute are its values, or quantiles of a number with many values. A group is a cell that is
    compared by value, or the cells of a sixteenth of the people, so a group allows one range of cells of each number.

    Attributes:
        cuts: Lower ends of each attribute's cells after the first. None if each entry is its own cell.
        first: Smallest entry of each attribute, shape (d,).
        start: Index of each attribute's first cell, shape (d,). The cells of all attributes are numbered consecutively.
        sizes: Number of cells of each attribute, shape (d,).
        occurs: Whether each cell occurs, shape (cells,).
        number: Index of each cell's attribute among those compared by ranges, otherwise -1, shape (cells,).
        group: Group of each cell, shape (cells,).
        low, high: First and last cell of each number that occurs with each group, shape (groups, numbers).
        together: Bit j of row i is set if the groups i and j occur together, shape (groups compared by value, words).
    """

    cuts: tuple[Floats | None, ...]
    first: Floats
    start: Integers
    sizes: Integers
    occurs: Booleans
    number: Integers
    group: Integers
    low: NDArray[np.uint8]
    high: NDArray[np.uint8]
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

        If ``as_published``, one person is enough for a pair, numbers are compared in 16 bins, and the attributes at the
        protected positions are not compared.
        """
        max_cells = BINS if as_published else CELLS
        cuts = tuple(_cell_starts(attribute, people[:, i], max_cells) for i, attribute in enumerate(attributes))
        described = list(zip(attributes, cuts, strict=True))
        sizes = np.array([(attribute.size or 1) if cut is None else len(cut) + 1 for attribute, cut in described])
        first = np.array([attribute.first for attribute in attributes])
        columns = np.ascontiguousarray(_local_cells(people, first, cuts).T)
        counts = [np.bincount(column, minlength=size) for column, size in zip(columns, sizes, strict=True)]
        by_range = np.array([cut is not None and not as_published for cut in cuts])
        # The groups of each attribute start at a new byte, so that blocks of bits can be written separately. Those that
        # are compared by value come first.
        groups = np.where(by_range, BINS, -(-sizes // 8) * 8)
        order = np.argsort(by_range, kind="stable")
        group_start = np.empty_like(groups)
        group_start[order] = np.cumsum(groups[order]) - groups[order]
        merged = [
            _sixteenths(count) if ranged else np.arange(len(count))
            for count, ranged in zip(counts, by_range, strict=True)
        ]
        limits = np.full(2, np.inf) if as_published else error_limits(len(people))
        data = _GroupedPeople(
            cells=columns,
            groups=np.stack(
                [start + group[column] for start, group, column in zip(group_start, merged, columns, strict=True)]
            ),
            owner=np.repeat(order, groups[order]),
            counts=counts,
            assigned=np.isin(np.arange(len(sizes)), protected),
            limits=limits,
        )
        numbers = np.flatnonzero(by_range).tolist()
        ranges = [data.find_ranges(number) for number in numbers]
        low, high = (
            np.array(ends, dtype=np.uint8).reshape(len(numbers), groups.sum()).T.copy()
            for ends in ([low for low, _ in ranges], [high for _, high in ranges])
        )
        return cls(
            cuts=cuts,
            first=first,
            start=np.cumsum(sizes) - sizes,
            sizes=sizes,
            occurs=np.concatenate(
                [(count > 0) | assigned for count, assigned in zip(counts, data.assigned, strict=True)]
            ),
            number=np.repeat(np.where(by_range, np.cumsum(by_range) - 1, -1), sizes),
            group=np.concatenate([start + group for start, group in zip(group_start, merged, strict=True)]),
            low=low,
            high=high,
            together=data.find_pairs(order[: len(order) - len(numbers)].tolist(), group_start),
        )

    def cells(self, people: Floats) -> Integers:
        """Return the cell of every entry of people (n, d) inside the domain, shape (n, d)."""
        return _local_cells(people, self.first, self.cuts) + self.start

    def all_pairs_occur(self, people: Floats, columns: Sequence[int] | None = None) -> Booleans:
        """Compute a mask (n,) of the people (n, d) whose values in some columns (default: all) all occur in pairs."""
        cells = np.ascontiguousarray(self.cells(people).T)
        checked = list(range(len(cells)) if columns is None else columns)
        occur = np.asarray(self.occurs[cells[checked]].all(axis=0))
        low = np.zeros((len(people), self.low.shape[1]), dtype=np.uint8)
        high, common = low + np.uint8(CELLS - 1), np.full((len(people), self.together.shape[1]), -1).view(np.uint64)
        rows = np.arange(len(people))
        for i in checked:
            groups = self.group[cells[i]]
            np.maximum(low, self.low.take(groups, axis=0), out=low)
            np.minimum(high, self.high.take(groups, axis=0), out=high)
            if self.number[self.start[i]] < 0:
                occur &= get_bits(common, rows, groups)  # symmetric, so the columns before this one are sufficient
                common &= self.together.take(groups, axis=0)
        for i in checked:
            number, place = self.number[self.start[i]], cells[i] - self.start[i]
            if number >= 0:
                occur &= (low[:, number] <= place) & (place <= high[:, number])
        return occur

    def occur_together(self, cells: Integers, others: Integers) -> Booleans:
        """Compute a mask of the cells of one attribute (m,) that occur with other cells (n,), shape (m, n)."""
        groups, position = np.unique(self.group[cells], return_inverse=True)
        occurring = self._in_range(groups, others)[position]
        if self.number[cells[0]] >= 0:
            return np.asarray(occurring & self._in_range(np.arange(len(self.low)), cells).T[:, self.group[others]])
        by_value = np.flatnonzero(self.number[others] < 0)
        occurring[:, by_value] = get_bits(self.together, self.group[cells][:, None], self.group[others[by_value]])
        return occurring

    def _in_range(self, groups: Integers, cells: Integers) -> Booleans:
        """Compute a mask of the cells (n,) in the ranges of groups (m,), shape (m, n). True if compared by value."""
        ranged = np.flatnonzero(self.number[cells] >= 0)
        cells, inside = cells[ranged], np.ones((len(groups), len(cells)), dtype=np.bool_)
        numbers = self.number[cells]
        places = cells - self.start[np.searchsorted(self.start, cells, side="right") - 1]
        inside[:, ranged] = (self.low[groups][:, numbers] <= places) & (places <= self.high[groups][:, numbers])
        return inside

    def always_occur(self, columns: Sequence[int]) -> bool:
        """Return whether the values of these attributes occur with every other value."""
        every = np.arange(len(self.group))
        parts = (self.start[i] + np.arange(self.sizes[i]) for i in columns)
        return all(self.occurs[cells].all() and self.occur_together(cells, every).all() for cells in parts)


@dataclass(frozen=True)
class _GroupedPeople:
    """People in the data by cells and groups.

    Attributes:
        cells: Cell of each person within each attribute, shape (d, n).
        groups: Group of each person by attribute, shape (d, n).
        owner: Attribute of each group, shape (groups,).
        counts: Number of people in each cell, by attribute.
        assigned: Whether each attribute is protected, shape (d,).
        limits: Limits of errors (see ``error_limits``).
    """

    cells: Integers
    groups: Integers
    owner: Integers
    counts: list[Integers]
    assigned: Booleans
    limits: Floats

    @cached_property
    def members(self) -> Integers:
        """Number of people in each group, shape (groups,)."""
        return np.asarray(np.bincount(self.groups.ravel(), minlength=len(self.owner)), dtype=np.int64)

    def find_ranges(self, number: int) -> tuple[Integers, Integers]:
        """Find the first and the last cell of a number that occurs with each group, each of shape (groups,)."""
        check_time()
        cells, counts = self.cells[number], self.counts[number]
        order, last = np.argsort(cells, kind="stable"), len(counts) - 1
        unseen = self.assigned[self.owner] | self.assigned[number]
        own = self.owner == number
        low = self._find_end(order, cells[order], counts, unseen)
        high = last - self._find_end(order[::-1], last - cells[order[::-1]], counts[::-1], unseen)
        return np.where(own, 0, np.minimum(low, last)), np.where(own, last, np.maximum(high, 0))

    def _find_end(self, order: Integers, cells: Integers, counts: Integers, unseen: Booleans) -> Integers:
        """Find the first cell that occurs with each group, ignoring errors, shape (groups,).

        Below the cell of a group's s-th person (from 0), s people are observed. Cells below it are absent if far more
        people are expected there. Groups marked as ``unseen`` include cells without people, unless many were expected.
        """
        limits, n = self.limits[:-1, None], len(order)
        positions = self._find_first_people(order, len(limits))
        ends = np.append(cells, len(counts))[positions]
        expected = self.members * (np.append(0, np.cumsum(counts)) / n)[ends]
        absent = (expected > limits) & (np.diff(ends, axis=0, prepend=0) > 0)
        absent[0] |= ~unseen
        return np.asarray(np.where(absent, ends, 0).max(axis=0))

    def _find_first_people(self, order: Integers, count: int) -> Integers:
        """Find the positions of the first people of each group in an order (n,), shape (count, groups). n if none."""
        n, depth = len(order), FIRST_DEPTH
        positions = np.full((count, len(self.owner)), n)
        attributes = np.arange(len(self.groups))
        while len(attributes):
            groups = self.groups[attributes[:, None], order[:depth]].ravel()
            position = np.tile(np.arange(min(depth, n)), len(attributes))
            for row in positions:
                row[groups[::-1]] = position[::-1]  # the first position overwrites all later ones
                others = row[groups] != position
                groups, position = groups[others], position[others]
            incomplete = (positions < n).sum(axis=0) < np.minimum(self.members, count)
            attributes = np.unique(self.owner[incomplete])
            depth *= 8
        return positions

    def find_pairs(self, columns: Sequence[int], group_start: Integers) -> NDArray[np.uint64]:
        """Compute ``ValuePairs.together`` of the attributes in some columns."""
        groups = self.groups[columns]
        total = 8 * sum(-(-len(self.counts[i]) // 8) for i in columns)
        width = -(-total // 64) * 64
        members = np.bincount(groups.ravel(), minlength=width)
        together = np.zeros((total, width // 8), dtype=np.uint8)
        for i in columns:
            check_time()
            size, own = len(self.counts[i]), slice(group_start[i], group_start[i] + len(self.counts[i]))
            cells = (self.cells[i] * width + groups).ravel()
            counts = np.bincount(cells, minlength=size * width).reshape(size, width)
            expected = np.outer(self.counts[i], members) / len(self.cells[i])
            unseen = np.resize(self.assigned[self.owner], width) | self.assigned[i]
            occur = (expected <= self.limits[np.minimum(counts, len(self.limits) - 1)]) & (unseen | (counts > 0))
            occur[:, own] = self.assigned[i] | (counts[:, own] > 0)
            together[own] = np.packbits(occur, axis=1, bitorder="little")
        return together.view("<u8")


def get_bits(words: NDArray[np.uint64], row: Integers, bit: Integers) -> Booleans:
    """Read bits at (row, bit) from rows of words."""
    return np.asarray(words[row, bit >> 6] >> (bit & 63).astype(np.uint64) & np.uint64(1) != 0)


def error_limits(people: int) -> Floats:
    """Compute the expected count beyond which an observed count of 0, 1, ... is an error in the data.

    A pair counts as an error if at most one person, or one in 10,000, has it, and if a count this low has a probability
    below 1 % (Poisson) even if the pair were 20 times rarer than under independence. For example, one person has the
    pair although 133 are expected.

    Args:
        people: Total number of people.

    Returns:
        Limits of the counts that are rare enough, then infinity for all others.
    """
    few = int(max(1.0, MAX_ERROR_RATE * people))
    return np.append(poisson_mean(np.arange(few + 1), MAX_ERROR_P) / MIN_RATIO, np.inf)


def _local_cells(people: Floats, first: Floats, cuts: Sequence[Floats | None]) -> Integers:
    """Return the cell of every entry of people (n, d) within its attribute, shape (n, d)."""
    cells = (people - first).astype(np.int64)
    for i, cut in enumerate(cuts):
        if cut is not None:
            cells[:, i] = np.searchsorted(cut, people[:, i], side="right")
    return cells


def _sixteenths(counts: Integers) -> Integers:
    """Return the sixteenth of the people that contains each cell of a number, from the people in each cell."""
    middle = np.cumsum(counts) - counts / 2
    return np.asarray(np.minimum(middle * BINS // counts.sum(), BINS - 1), dtype=np.int64)


def _cell_starts(attribute: Attribute, entries: Floats, max_cells: int) -> Floats | None:
    """Return the lower ends of a number's cells after the first. None if each entry is its own cell."""
    if attribute.is_discrete or (attribute.size is not None and attribute.size <= DISTINCT):
        return None
    values = np.unique(entries)
    if len(values) <= max_cells:
        # Entries between two values belong to the lower one.
        return values[1:]
    return np.unique(np.quantile(entries, np.linspace(0, 1, max_cells + 1)[1:-1]))
