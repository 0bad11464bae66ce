"""Moves between plausible profiles: changes of one attribute to a value that occurs with the others in the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
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
        levels: Entries of the levels of each attribute, shape (levels,).
        start: Index of each attribute's first level, shape (U,).
        attribute: Attribute of each level, shape (V,).
        clash: 1 for two levels of different attributes that never occur together, else 0, shape (V, V).
        blocking: ``clash`` without the pairs that a move of a dependent attribute resolves.
        possible: Whether each level occurs at all, shape (V,).
        dependent_levels: For each level, the only level of each dependent attribute that occurs with it, else -1, shape
            (V, U).
        complete: Whether the levels are the whole domain.
    """

    levels: tuple[Floats, ...]
    start: Integers
    attribute: Integers
    clash: NDArray[np.float32]
    blocking: NDArray[np.float32]
    possible: Booleans
    dependent_levels: Integers
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
        clash = _clash_matrix(space, levels)
        possible = np.diag(clash) == 0
        clash[attribute[:, None] == attribute] = 0
        dependent_levels = _find_dependent_levels(clash, possible, attribute, space.width)
        dependent = dependent_levels[:, attribute] >= 0
        return cls(
            levels=levels,
            start=start,
            attribute=attribute,
            clash=clash,
            # Indexed as [level that stays, level moved to].
            blocking=np.where(dependent.T, 0, clash).astype(np.float32),
            possible=possible,
            dependent_levels=dependent_levels,
            complete=sizes == [described.size for described in space.attributes],
        )

    def codes(self, unprotected: Floats) -> Integers:
        """Convert profiles (n, U) to the nearest level of every attribute, shape (n, U)."""
        codes = np.empty(unprotected.shape, dtype=np.int64)
        for i, levels in enumerate(self.levels):
            codes[:, i] = np.searchsorted((levels[1:] + levels[:-1]) / 2, unprotected[:, i])
        return codes + self.start

    def rows(self, codes: Integers) -> Floats:
        """Convert levels (n, U) to profiles (n, U)."""
        rows = np.empty(codes.shape)
        for i, levels in enumerate(self.levels):
            rows[:, i] = levels[codes[:, i] - self.start[i]]
        return rows

    def open(self, codes: Integers) -> Booleans:
        """Return the levels that profiles (n, U) can move to without a clash, shape (n, V)."""
        rows = np.arange(len(codes))[:, None]
        staying = np.zeros((len(codes), len(self.attribute)), dtype=np.float32)
        staying[rows, codes] = 1
        reachable = (staying @ self.blocking < 0.5) & self.possible  # an attribute never clashes with itself
        reachable[rows, codes] = False
        return np.asarray(reachable)

    def move(self, unprotected: Floats, codes: Integers, level: Integers) -> tuple[Floats, Integers]:
        """Move profiles (n, U) with codes (n, U) to one level each (n,). Return the profiles and their codes."""
        rows, codes, attributes = unprotected.copy(), codes.copy(), self.attribute[level]
        every = np.arange(len(rows))
        codes[every, attributes] = level
        changes = [(every, attributes)]
        # A dependent attribute moves only if its level clashes with the new one.
        for other in np.flatnonzero((self.dependent_levels >= 0).any(axis=0)).tolist():
            target = self.dependent_levels[level, other]
            clashing = np.flatnonzero((target >= 0) & (self.clash[codes[:, other], level] > 0))
            codes[clashing, other] = target[clashing]
            changes.append((clashing, np.full(len(clashing), other)))
        for i, levels in enumerate(self.levels):
            for changed, moved in changes:
                selected = changed[moved == i]
                if len(selected):
                    rows[selected, i] = levels[codes[selected, i] - self.start[i]]
        return rows, codes

    def list_profiles(self, max_profiles: int) -> Integers | None:
        """List all profiles without a clash, shape (n, U). None if there are more than ``max_profiles``."""
        if not self.complete:
            return None
        codes = np.empty((1, 0), dtype=np.int64)
        for i, levels in enumerate(self.levels):
            options = self.start[i] + np.arange(len(levels))
            options = options[self.possible[options]]
            allowed = np.ones((len(codes), len(options)), dtype=np.bool_)
            for column in codes.T:
                allowed &= self.clash[column][:, options] == 0
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


def _clash_matrix(space: ProfileSpace, levels: Sequence[Floats]) -> NDArray[np.float32]:
    """Mark pairs of levels that never occur together, shape (V, V). The diagonal marks levels that cannot occur."""
    count = sum(map(len, levels))
    if space.allow_infeasible or space.pairs is None:
        return np.zeros((count, count), dtype=np.float32)
    pairs, cells = space.pairs, len(space.pairs.together)
    bits = np.ascontiguousarray(pairs.together.astype("<u8")).view(np.uint8)
    disjoint = 1 - np.unpackbits(bits, axis=1, bitorder="little", count=cells).astype(np.float32)
    indicators = np.zeros((count, cells), dtype=np.float32)
    at = 0
    for i, entries in enumerate(levels):
        rows = np.tile(space.lower, (len(entries), 1))
        rows[:, i] = entries
        people = space.rows_as(rows, np.zeros(len(rows), dtype=np.int64))
        # A linked attribute has several values: whether they occur with the rest is checked for each person.
        if i not in space.moved:
            indicators[at + np.arange(len(entries)), pairs.cells(people)[:, space.columns[i]]] = 1
        at += len(entries)
    return np.asarray(indicators @ disjoint @ indicators.T > 0, dtype=np.float32)


def _find_dependent_levels(
    clash: NDArray[np.float32], possible: Booleans, attribute: Integers, attributes: int
) -> Integers:
    """Find ``Moves.dependent_levels`` from the levels that occur together."""
    dependent_levels = np.full((len(attribute), attributes), -1, dtype=np.int64)
    occurring_together = (clash == 0) & possible & possible[:, None]
    for source in range(attributes):
        check_time()
        source_levels = np.flatnonzero((attribute == source) & possible)
        for target in range(attributes):
            target_levels = np.flatnonzero(attribute == target)
            if target == source or possible[target_levels].sum() < 2 or len(source_levels) < 2:
                continue
            occurring = occurring_together[np.ix_(source_levels, target_levels)]
            if (occurring.sum(axis=1) == 1).all():
                dependent_levels[source_levels, target] = target_levels[np.argmax(occurring, axis=1)]
    return dependent_levels
