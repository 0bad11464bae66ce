"""Moves that never leave the plausible profiles: every change of one attribute that the data do not speak against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Attribute

Codes: TypeAlias = Integers

LEVELS = 64
"""Values of one attribute that moves lead to, at most; of a number with more, quantiles of the data."""


@dataclass(frozen=True)
class Moves:
    """A profile as one level per part, and the moves to other levels.

    A part is what moves as a whole: an attribute or a one-hot group. Its levels are the values it can move to; the
    levels of all parts are numbered together. A move takes one part to another level. Parts that in the data follow
    from it (each of its levels occurs with a single level of theirs) move along where they must.

    Attributes:
        columns: per part, its columns among the U unprotected ones.
        levels: per part, the entries of each of its levels, shape (levels, columns).
        start: shape (parts,), the number of each part's first level.
        part: shape (V,), the part of each level.
        clash: shape (V, V), 1 where two levels of different parts never occur together, else 0.
        blocking: the same without those clashes that are mended by what moves along.
        possible: shape (V,), whether a level occurs at all.
        along: shape (V, parts), the level that another part takes with this one where it follows from it, else -1.
        complete: whether the levels are the whole domain.
    """

    columns: tuple[Codes, ...]
    levels: tuple[Floats, ...]
    start: Codes
    part: Codes
    clash: NDArray[np.float32]
    blocking: NDArray[np.float32]
    possible: Booleans
    along: Codes
    complete: bool

    @classmethod
    def of(cls, space: ProfileSpace) -> Moves:
        """Return the moves of a space."""
        grouped = {int(i) for group in space.groups for i in group}
        columns = [*space.groups, *(np.array([i]) for i in range(space.width) if i not in grouped)]
        levels = [
            np.eye(len(each))
            if len(each) > 1
            else _attribute_levels(
                space.attributes[each[0]], None if space.people is None else space.people[:, each[0]]
            )
            for each in columns
        ]
        sizes = [len(each) for each in levels]
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        part = np.repeat(np.arange(len(columns)), sizes)
        clash = _clash_matrix(space, columns, levels, part)
        possible = np.diag(clash) == 0
        clash[part[:, None] == part] = 0
        along = _find_along(clash, possible, part, start)
        follows = along[:, part] >= 0
        whole = all(
            len(each) > 1 or space.attributes[each[0]].size == size for each, size in zip(columns, sizes, strict=True)
        )
        return cls(
            columns=tuple(columns),
            levels=tuple(levels),
            start=start,
            part=part,
            clash=clash,
            # Read as [level that stays, level moved to].
            blocking=np.where(follows.T, 0, clash).astype(np.float32),
            possible=possible,
            along=along,
            complete=whole,
        )

    def codes(self, unprotected: Floats) -> Codes:
        """Return the level of every part of profiles (n, U), the nearest where there is none, shape (n, parts)."""
        codes = np.empty((len(unprotected), len(self.columns)), dtype=np.int64)
        for i, (columns, levels) in enumerate(zip(self.columns, self.levels, strict=True)):
            if len(columns) > 1:
                codes[:, i] = np.argmax(unprotected[:, columns], axis=1)
            else:
                values = levels[:, 0]
                codes[:, i] = np.searchsorted((values[1:] + values[:-1]) / 2, unprotected[:, columns[0]])
        return codes + self.start

    def rows(self, codes: Codes) -> Floats:
        """Return profiles (n, U) with these levels (n, parts)."""
        rows = np.empty((len(codes), sum(len(columns) for columns in self.columns)))
        for i, (columns, levels) in enumerate(zip(self.columns, self.levels, strict=True)):
            rows[:, columns] = levels[codes[:, i] - self.start[i]]
        return rows

    def open(self, codes: Codes) -> Booleans:
        """Return which levels profiles (n, parts) could move to as far as pairs of values say, shape (n, V)."""
        n = np.arange(len(codes))[:, None]
        staying = np.zeros((len(codes), len(self.part)), dtype=np.float32)
        staying[n, codes] = 1
        open_ = (staying @ self.blocking < 0.5) & self.possible  # a part never clashes with itself
        open_[n, codes] = False
        return np.asarray(open_)

    def move(self, unprotected: Floats, codes: Codes, level: Codes) -> tuple[Floats, Codes]:
        """Return profiles (n, U) with codes (n, parts) after moving to a level each (n,), and their codes."""
        rows, codes, parts = unprotected.copy(), codes.copy(), self.part[level]
        n = np.arange(len(rows))
        codes[n, parts] = level
        changes = [(n, parts)]
        # What stands beside the new value moves along only where it would clash with it.
        for other in np.flatnonzero((self.along >= 0).any(axis=0)).tolist():
            target = self.along[level, other]
            where = np.flatnonzero((target >= 0) & (self.clash[codes[:, other], level] > 0))
            codes[where, other] = target[where]
            changes.append((where, np.full(len(where), other)))
        for i, (columns, levels) in enumerate(zip(self.columns, self.levels, strict=True)):
            for which, part in changes:
                where = which[part == i]
                if len(where):
                    rows[np.ix_(where, columns)] = levels[codes[where, i] - self.start[i]]
        return rows, codes

    def list_profiles(self, most: int) -> Codes | None:
        """Everybody without a clash, shape (n, parts); None where there are more than ``most``, or too many values."""
        if not self.complete:
            return None
        codes = np.empty((1, 0), dtype=np.int64)
        for i, levels in enumerate(self.levels):
            options = self.start[i] + np.arange(len(levels))
            options = options[self.possible[options]]
            good = np.ones((len(codes), len(options)), dtype=np.bool_)
            for before in codes.T:
                good &= self.clash[before][:, options] == 0
            which, option = np.nonzero(good)
            if len(which) > most:
                return None
            codes = np.concatenate([codes[which], options[option][:, None]], axis=1)
        return codes


def _attribute_levels(attribute: Attribute, entries: Floats | None) -> Floats:
    if attribute.size is not None and attribute.size <= LEVELS:
        return attribute.domain()[:, None]
    if entries is None:
        values = np.linspace(attribute.first, attribute.last, LEVELS)
        values = np.round(values) if attribute.size is not None else values
    else:
        values = np.unique(entries)
        if len(values) > LEVELS:
            values = np.quantile(entries, np.linspace(0, 1, LEVELS), method="nearest")
    return np.unique(values)[:, None]


def _clash_matrix(space: ProfileSpace, columns: list[Codes], levels: list[Floats], part: Codes) -> NDArray[np.float32]:
    """1 where two levels never occur together; on the diagonal, where a level cannot occur at all. Shape (V, V)."""
    if space.allow_infeasible or space.pairs is None:
        return np.zeros((len(part), len(part)), dtype=np.float32)
    pairs, moved = space.pairs, set(space.moved)
    cells = len(pairs.together)
    bits = np.ascontiguousarray(pairs.together.astype("<u8")).view(np.uint8)
    apart = 1 - np.unpackbits(bits, axis=1, bitorder="little", count=cells).astype(np.float32)
    held = np.zeros((len(part), cells), dtype=np.float32)
    at = 0
    for each, entries in zip(columns, levels, strict=True):
        rows = np.tile(space.lower, (len(entries), 1))
        rows[:, each] = entries
        people = space.rows_as(rows, np.zeros(len(rows), dtype=np.int64))
        # What moves along has several values: whether they occur with the rest is seen when somebody is there.
        if not moved & set(each.tolist()):
            for cell in pairs.cells(people)[:, np.array(space.columns)[each]].T:
                held[at + np.arange(len(entries)), cell] = 1
        at += len(entries)
    return np.asarray(held @ apart @ held.T > 0, dtype=np.float32)


def _find_along(clash: NDArray[np.float32], possible: Booleans, part: Codes, start: Codes) -> Codes:
    """See ``Moves.along``: found from which levels occur together."""
    parts = len(start)
    along = np.full((len(part), parts), -1, dtype=np.int64)
    together = (clash == 0) & possible & possible[:, None]
    for one in range(parts):
        check_time()
        mine = np.flatnonzero((part == one) & possible)
        for other in range(parts):
            theirs = np.flatnonzero(part == other)
            if other == one or possible[theirs].sum() < 2 or len(mine) < 2:
                continue
            single = together[np.ix_(mine, theirs)]
            if (single.sum(axis=1) == 1).all():
                along[mine, other] = theirs[np.argmax(single, axis=1)]
    return along
