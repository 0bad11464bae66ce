"""Which groups are compared: values of each field against each other or all others, and their intersections."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.errors import DataError
from evenhand.monitoring.config import MonitorGroups
from evenhand.typing import Floats, Integers

MISSING, OTHER = -1, -2
"""Codes of a value that is not given, and of one that is not compared by itself."""
EVERYONE_ELSE = "everyone else"


class MonitoredComparison(NamedTuple):
    """Two sides that are compared, or one group whose scores are compared with its labels.

    Attributes:
        by: the fields, as ``sex x race``.
        first, second: names of the sides; the second may be everyone else, or a range of scores.
        fields: positions of the fields.
        codes: of the first side, one per field.
        against: of the second side if it is one value; None for everyone else.
    """

    by: str
    first: str
    second: str
    fields: tuple[int, ...]
    codes: tuple[int, ...]
    against: int | None = None

    @property
    def name(self) -> str:
        """The comparison in words."""
        return f"{self.first} and {self.second}"

    def sides(self, codes: Integers) -> Integers:
        """Return the side of each event: 0, 1, or -1 where it takes no part.

        Args:
            codes: (events, fields).
        """
        own = codes[:, self.fields]
        member = (own == self.codes).all(axis=1)
        if self.against is not None:
            return np.where(member, 0, np.where(own[:, 0] == self.against, 1, -1))
        return np.where(member, 0, np.where((own == MISSING).any(axis=1), -1, 1))


def choose_values(groups: MonitorGroups, codes: Integers, seen: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the values of each field that are common enough to be compared, in alphabetical order.

    Args:
        groups: which fields.
        codes: of the first decisions, (events, fields).
        seen: the values of each field, by code.

    Raises:
        DataError: a field has fewer than two such values.
    """
    found = []
    for i, name in enumerate(groups.by):
        given = codes[codes[:, i] >= 0, i]
        counts = np.bincount(given, minlength=len(seen[i]))
        common = [value for value, n in zip(seen[i], counts, strict=True) if n and n >= groups.min_share * len(given)]
        if len(common) < 2:
            what = f"only {common[0]!r}" if common else "no value"
            raise DataError(
                f"expected at least two groups by {name!r} to compare, got {what} in the first "
                f"{len(codes):,} decisions",
                location="groups.by",
                hint="name another field, or the values that will come: groups: {values: {sex: [female, male]}}",
            )
        found.append(sorted(common))
    return found


def list_comparisons(
    groups: MonitorGroups, values: Sequence[Sequence[str]], codes: Integers
) -> list[MonitoredComparison]:
    """Return all comparisons of groups.

    Args:
        groups: which fields, and whether their intersections.
        values: of each field, by code.
        codes: of the first decisions, (events, fields): intersections need their share of them; none if all are wanted.
    """
    found: list[MonitoredComparison] = []
    for i, (by, names) in enumerate(zip(groups.by, values, strict=True)):
        if len(names) == 2:
            found.append(MonitoredComparison(by, names[0], names[1], (i,), (0,), 1))
        else:
            found += [MonitoredComparison(by, name, EVERYONE_ELSE, (i,), (c,)) for c, name in enumerate(names)]
    if groups.intersections:
        found += [
            MonitoredComparison(
                " x ".join(groups.by), _name_cell(cell, values), EVERYONE_ELSE, tuple(range(len(cell))), cell
            )
            for cell in _list_cells(groups, values, codes)
        ]
    return found


def list_members(
    groups: MonitorGroups, values: Sequence[Sequence[str]], codes: Integers, bins: int
) -> list[MonitoredComparison]:
    """Return every group in every bin of scores."""
    cells: list[tuple[str, str, tuple[int, ...], tuple[int, ...]]] = [
        (by, name, (i,), (c,)) for i, by in enumerate(groups.by) for c, name in enumerate(values[i])
    ]
    if groups.intersections:
        by = " x ".join(groups.by)
        cells += [
            (by, _name_cell(cell, values), tuple(range(len(cell))), cell) for cell in _list_cells(groups, values, codes)
        ]
    ranges = [f"scores {low / bins:.3g} to {(low + 1) / bins:.3g}" for low in range(bins)]
    return [MonitoredComparison(by, name, r, fields, cell) for by, name, fields, cell in cells for r in ranges]


def member_sides(members: Sequence[MonitoredComparison], codes: Integers, scores: Floats, bins: int) -> Integers:
    """Return 0 where an event is in the group and the bin, and else -1: (events, members)."""
    place = np.minimum((scores * bins).astype(np.int64), bins - 1)
    sides = np.full((len(codes), len(members)), -1, dtype=np.int64)
    for k, one in enumerate(members):
        sides[(codes[:, one.fields] == one.codes).all(axis=1) & (place == k % bins), k] = 0
    return sides


def _list_cells(groups: MonitorGroups, values: Sequence[Sequence[str]], codes: Integers) -> list[tuple[int, ...]]:
    cells = itertools.product(*(range(len(names)) for names in values))
    if not len(codes):
        return list(cells)
    known = codes[(codes != MISSING).all(axis=1)]
    counts = Counter(map(tuple, known.tolist()))
    return [cell for cell in cells if counts[cell] and counts[cell] >= groups.min_share * len(known)]


def _name_cell(cell: tuple[int, ...], values: Sequence[Sequence[str]]) -> str:
    return ", ".join(values[i][code] for i, code in enumerate(cell))
