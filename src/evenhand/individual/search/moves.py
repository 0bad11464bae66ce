"""Moves between plausible profiles: changes of one attribute that no pair of values in the data contradicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Attribute

MAX_LEVELS = 64
"""Maximum number of values of an attribute that moves lead to. For more values, quantiles of the data are used."""


@dataclass(frozen=True)
class Moves:
    """Profiles as one level per part, and the moves to other levels.

    A part is an attribute or a one-hot group. Its levels are the values that it can move to; the levels of all parts
    are numbered consecutively. A move changes one part to another level. Dependent parts move with it if they must: in
    the data, each level of the part occurs with only one level of theirs.

    Attributes:
        columns: Columns of each part among the U unprotected ones.
        levels: Entries of the levels of each part, shape (levels, columns).
        start: Index of each part's first level, shape (parts,).
        part: Part of each level, shape (V,).
        clash: 1 for two levels of different parts that never occur together, else 0, shape (V, V).
        blocking: ``clash`` without pairs that a dependent move resolves.
        possible: Whether each level occurs at all, shape (V,).
        dependent_levels: Level that another part takes with each level if it depends on it, else -1, shape (V, parts).
        complete: Whether the levels are the whole domain.
    """

    columns: tuple[Integers, ...]
    levels: tuple[Floats, ...]
    start: Integers
    part: Integers
    clash: NDArray[np.float32]
    blocking: NDArray[np.float32]
    possible: Booleans
    dependent_levels: Integers
    complete: bool

    @classmethod
    def of(cls, space: ProfileSpace) -> Moves:
        """Build the moves of a space."""
        parts = space.parts
        levels = [
            np.eye(len(columns))
            if len(columns) > 1
            else _attribute_levels(
                space.attributes[columns[0]], None if space.people is None else space.people[:, columns[0]]
            )
            for columns in parts
        ]
        sizes = [len(entries) for entries in levels]
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        part = np.repeat(np.arange(len(parts)), sizes)
        clash = _clash_matrix(space, parts, levels, part)
        possible = np.diag(clash) == 0
        clash[part[:, None] == part] = 0
        dependent_levels = _find_dependent_levels(clash, possible, part, len(parts))
        dependent = dependent_levels[:, part] >= 0
        complete = all(
            len(columns) > 1 or space.attributes[columns[0]].size == size
            for columns, size in zip(parts, sizes, strict=True)
        )
        return cls(
            columns=tuple(parts),
            levels=tuple(levels),
            start=start,
            part=part,
            clash=clash,
            # Indexed as [level that stays, level moved to].
            blocking=np.where(dependent.T, 0, clash).astype(np.float32),
            possible=possible,
            dependent_levels=dependent_levels,
            complete=complete,
        )

    def codes(self, unprotected: Floats) -> Integers:
        """Convert profiles (n, U) to the nearest level of every part, shape (n, parts)."""
        codes = np.empty((len(unprotected), len(self.columns)), dtype=np.int64)
        for i, (columns, levels) in enumerate(zip(self.columns, self.levels, strict=True)):
            if len(columns) > 1:
                codes[:, i] = np.argmax(unprotected[:, columns], axis=1)
            else:
                values = levels[:, 0]
                codes[:, i] = np.searchsorted((values[1:] + values[:-1]) / 2, unprotected[:, columns[0]])
        return codes + self.start

    def rows(self, codes: Integers) -> Floats:
        """Convert levels (n, parts) to profiles (n, U)."""
        rows = np.empty((len(codes), sum(map(len, self.columns))))
        for i, (columns, levels) in enumerate(zip(self.columns, self.levels, strict=True)):
            rows[:, columns] = levels[codes[:, i] - self.start[i]]
        return rows

    def open(self, codes: Integers) -> Booleans:
        """Return the levels that profiles (n, parts) can move to without a clash, shape (n, V)."""
        rows = np.arange(len(codes))[:, None]
        staying = np.zeros((len(codes), len(self.part)), dtype=np.float32)
        staying[rows, codes] = 1
        reachable = (staying @ self.blocking < 0.5) & self.possible  # a part never clashes with itself
        reachable[rows, codes] = False
        return np.asarray(reachable)

    def move(self, unprotected: Floats, codes: Integers, level: Integers) -> tuple[Floats, Integers]:
        """Move profiles (n, U) with codes (n, parts) to one level each (n,). Return the profiles and their codes."""
        rows, codes, parts = unprotected.copy(), codes.copy(), self.part[level]
        every = np.arange(len(rows))
        codes[every, parts] = level
        changes = [(every, parts)]
        # A dependent part moves only if its level clashes with the new one.
        for other in np.flatnonzero((self.dependent_levels >= 0).any(axis=0)).tolist():
            target = self.dependent_levels[level, other]
            clashing = np.flatnonzero((target >= 0) & (self.clash[codes[:, other], level] > 0))
            codes[clashing, other] = target[clashing]
            changes.append((clashing, np.full(len(clashing), other)))
        for i, (columns, levels) in enumerate(zip(self.columns, self.levels, strict=True)):
            for changed, part in changes:
                selected = changed[part == i]
                if len(selected):
                    rows[np.ix_(selected, columns)] = levels[codes[selected, i] - self.start[i]]
        return rows, codes

    def list_profiles(self, max_profiles: int) -> Integers | None:
        """List all profiles without a clash, shape (n, parts). None if there are more than ``max_profiles``."""
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
        return attribute.domain()[:, None]
    if entries is None:
        values = np.linspace(attribute.first, attribute.last, MAX_LEVELS)
        values = np.round(values) if attribute.size is not None else values
    else:
        values = np.unique(entries)
        if len(values) > MAX_LEVELS:
            values = np.quantile(entries, np.linspace(0, 1, MAX_LEVELS), method="nearest")
    return np.unique(values)[:, None]


def _clash_matrix(
    space: ProfileSpace, parts: list[Integers], levels: list[Floats], part: Integers
) -> NDArray[np.float32]:
    """Mark levels that never occur together with 1, and on the diagonal levels that cannot occur, shape (V, V)."""
    if space.allow_infeasible or space.pairs is None:
        return np.zeros((len(part), len(part)), dtype=np.float32)
    pairs, moved = space.pairs, set(space.moved)
    cells = len(pairs.together)
    bits = np.ascontiguousarray(pairs.together.astype("<u8")).view(np.uint8)
    disjoint = 1 - np.unpackbits(bits, axis=1, bitorder="little", count=cells).astype(np.float32)
    indicators = np.zeros((len(part), cells), dtype=np.float32)
    at = 0
    for columns, entries in zip(parts, levels, strict=True):
        rows = np.tile(space.lower, (len(entries), 1))
        rows[:, columns] = entries
        people = space.rows_as(rows, np.zeros(len(rows), dtype=np.int64))
        # A linked attribute has several values: whether they occur with the rest is checked for each person.
        if not moved & set(columns.tolist()):
            for cell in pairs.cells(people)[:, np.array(space.columns)[columns]].T:
                indicators[at + np.arange(len(entries)), cell] = 1
        at += len(entries)
    return np.asarray(indicators @ disjoint @ indicators.T > 0, dtype=np.float32)


def _find_dependent_levels(clash: NDArray[np.float32], possible: Booleans, part: Integers, parts: int) -> Integers:
    """Find ``Moves.dependent_levels`` from the levels that occur together."""
    dependent_levels = np.full((len(part), parts), -1, dtype=np.int64)
    occurring_together = (clash == 0) & possible & possible[:, None]
    for source in range(parts):
        check_time()
        source_levels = np.flatnonzero((part == source) & possible)
        for target in range(parts):
            target_levels = np.flatnonzero(part == target)
            if target == source or possible[target_levels].sum() < 2 or len(source_levels) < 2:
                continue
            occurring = occurring_together[np.ix_(source_levels, target_levels)]
            if (occurring.sum(axis=1) == 1).all():
                dependent_levels[source_levels, target] = target_levels[np.argmax(occurring, axis=1)]
    return dependent_levels
