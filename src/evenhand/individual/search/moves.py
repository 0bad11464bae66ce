"""Moves between plausible profiles: changes of one attribute to a value that occurs with the others in the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.search.plausibility import get_bits
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Attribute

MAX_LEVELS = 64
"""Maximum number of values that an attribute can move to. If there are more, quantiles of the data are used."""


@dataclass(frozen=True)
class Moves:
    """Profiles as one level per attribute, and the moves to other levels.

    The levels of an attribute are the values that it can move to; the levels of all U unprotected attributes are
    numbered consecutively. A move changes one attribute to another level. A dependent attribute moves with it if
    necessary: in the data, each level of the moved attribute occurs with only one level of the dependent one.

    Attributes:
        levels: Entry of each level, shape (V,). Levels of an attribute are in ascending order.
        start: Index of each attribute's first level, shape (U,).
        attribute: Attribute of each level, shape (V,).
        clash: Bits of pairs of levels of different attributes that never occur together, shape (V, words).
        blocking: ``clash`` without the pairs that a move of a dependent attribute resolves.
        possible: Whether each level occurs at all, shape (V,).
        dependent_levels: For each level, the only level of each dependent attribute that occurs with it, else -1, shape
            (V, U).
        complete: Whether the levels are the whole domain.
    """

    levels: Floats
    start: Integers
    attribute: Integers
    clash: NDArray[np.uint64]
    blocking: NDArray[np.uint64]
    possible: Booleans
    dependent_levels: NDArray[np.int32]
    complete: bool

    @classmethod
    def of(cls, space: ProfileSpace) -> Moves:
        """Build the moves of a space."""
        levels = tuple(
            _attribute_levels(attribute, None if space.people is None else space.people[:, i])
            for i, attribute in enumerate(space.attributes)
        )
        sizes = [len(entries) for entries in levels]
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        attribute = np.repeat(np.arange(space.width), sizes)
        entries = np.concatenate(levels)
        cell, clash = _find_clashes(space, entries, attribute)
        possible = np.ones(len(attribute), dtype=np.bool_)
        if space.pairs is not None and not space.allow_infeasible:
            checked = cell >= 0
            possible[checked] = space.pairs.occurs[cell[checked]]
        dependent_levels = _find_dependent_levels(clash, possible, attribute, start)
        blocking = clash.copy()
        for level, other in np.argwhere(dependent_levels >= 0).tolist():
            # Indexed by [unchanged level, new level].
            blocking[start[other] : start[other] + sizes[other], level >> 6] &= ~(np.uint64(1) << np.uint64(level & 63))
        return cls(
            levels=entries,
            start=start,
            attribute=attribute,
            clash=clash,
            blocking=blocking,
            possible=possible,
            dependent_levels=dependent_levels,
            complete=sizes == [described.size for described in space.attributes],
        )

    def codes(self, unprotected: Floats) -> Integers:
        """Convert profiles (n, U) to the nearest level of every attribute, shape (n, U)."""
        columns = zip(self._midpoints, np.ascontiguousarray(unprotected.T), strict=True)
        codes = np.stack([midpoints.searchsorted(column) for midpoints, column in columns], axis=1)
        return np.asarray(codes + self.start, dtype=np.int64)

    @cached_property
    def _midpoints(self) -> tuple[Floats, ...]:
        """Values halfway between the levels of each attribute."""
        return tuple((levels[1:] + levels[:-1]) / 2 for levels in np.split(self.levels, self.start[1:]))

    def open(self, codes: Integers) -> Booleans:
        """Return the levels that profiles (n, U) can move to without a clash, shape (n, V)."""
        blocked = np.empty((len(codes), self.blocking.shape[1]), dtype=np.uint64)
        for row, staying in zip(blocked, codes, strict=True):  # an attribute never clashes with itself
            np.bitwise_or.reduce(self.blocking[staying], axis=0, out=row)
        reachable = (_unpack(blocked, len(self.attribute)) == 0) & self.possible
        reachable[np.arange(len(codes))[:, None], codes] = False
        return np.asarray(reachable)

    def move(self, unprotected: Floats, codes: Integers, level: Integers) -> tuple[Floats, Integers]:
        """Move profiles (n, U) with codes (n, U) to one level each (n,). Return the profiles and their codes."""
        rows, codes, attributes = unprotected.copy(), codes.copy(), self.attribute[level]
        every = np.arange(len(rows))
        codes[every, attributes] = level
        # A dependent attribute moves only if its level clashes with the new one.
        for other in np.flatnonzero((self.dependent_levels >= 0).any(axis=0)).tolist():
            target = self.dependent_levels[level, other]
            clashing = np.flatnonzero((target >= 0) & get_bits(self.clash, codes[:, other], level))
            codes[clashing, other] = target[clashing]
            rows[clashing, other] = self.levels[target[clashing]]
        rows[every, attributes] = self.levels[level]
        return rows, codes

    def list_profiles(self, max_profiles: int) -> Integers | None:
        """List all profiles without a clash, shape (n, U). None if there are more than ``max_profiles``."""
        if not self.complete:
            return None
        codes = np.empty((1, 0), dtype=np.int64)
        for i in range(len(self.start)):
            options = np.flatnonzero((self.attribute == i) & self.possible)
            allowed = np.ones((len(codes), len(options)), dtype=np.bool_)
            for column in codes.T:
                allowed &= ~get_bits(self.clash, column[:, None], options)
            profile, option = np.nonzero(allowed)
            if len(profile) > max_profiles:
                return None
            codes = np.concatenate([codes[profile], options[option][:, None]], axis=1)
        return codes


def _attribute_levels(attribute: Attribute, entries: Floats | None) -> Floats:
    if attribute.size is not None and attribute.size <= MAX_LEVELS:
        return attribute.domain()
    if entries is None:
        values = np.linspace(attribute.first, attribute.last, MAX_LEVELS)
        values = np.round(values) if attribute.size is not None else values
    else:
        values = np.unique(entries)
        if len(values) > MAX_LEVELS:
            values = np.quantile(entries, np.linspace(0, 1, MAX_LEVELS), method="nearest")
    return np.unique(values)


def _unpack(words: NDArray[np.uint64], count: int) -> NDArray[np.uint8]:
    """Unpack the first bits of words (n, words), shape (n, count)."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little", count=count)


def _find_clashes(space: ProfileSpace, levels: Floats, attribute: Integers) -> tuple[Integers, NDArray[np.uint64]]:
    """Find the cell of each level, shape (V,), and ``Moves.clash``.

    A linked attribute has several values, so its levels have no cell (-1) and clash with no other: whether they occur
    with the rest is checked for each person.
    """
    clash = np.zeros((len(attribute), -(-len(attribute) // 64)), dtype=np.uint64)
    cell = np.full(len(attribute), -1)
    if space.allow_infeasible or space.pairs is None:
        return cell, clash
    pairs = space.pairs
    first = np.array([[described.first for described in space.schema.attributes]])
    for i, column in enumerate(space.columns):
        if i not in space.moved:
            own = np.flatnonzero(attribute == i)
            rows = np.repeat(first, len(own), axis=0)
            rows[:, column] = levels[own]
            cell[own] = pairs.cells(rows)[:, column]
    checked = np.flatnonzero(cell >= 0)
    for i in np.unique(attribute[checked]).tolist():
        check_time()
        own = np.flatnonzero(attribute == i)
        disjoint = np.zeros((len(own), clash.shape[1] * 64), dtype=np.bool_)
        disjoint[:, checked] = ~pairs.occur_together(cell[own], cell[checked])
        disjoint[:, own] = False
        clash[own] = np.packbits(disjoint, axis=1, bitorder="little").view(np.uint64)
    return cell, clash


def _find_dependent_levels(
    clash: NDArray[np.uint64], possible: Booleans, attribute: Integers, start: Integers
) -> NDArray[np.int32]:
    """Compute ``Moves.dependent_levels`` from the levels that occur together."""
    dependent_levels = np.full((len(attribute), len(start)), -1, dtype=np.int32)  # the largest array of wide tables
    several = np.add.reduceat(possible.astype(np.int64), start) > 1
    for source in np.flatnonzero(several).tolist():
        check_time()
        levels = np.flatnonzero((attribute == source) & possible)
        occurring = (_unpack(clash[levels], len(attribute)) == 0) & possible
        single = (np.add.reduceat(occurring.astype(np.int32), start, axis=1) == 1).all(axis=0) & several
        single[source] = False
        for target in np.flatnonzero(single).tolist():
            targets = np.flatnonzero(attribute == target)
            dependent_levels[levels, target] = targets[np.argmax(occurring[:, targets], axis=1)]
    return dependent_levels
