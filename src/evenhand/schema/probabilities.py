"""Groups known by probability alone, such as race by a proxy of name and address: read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_index, check_names, check_rows, read_column, read_columns
from evenhand.schema.rows import is_missing
from evenhand.typing import Booleans, Floats, Integers

SUM_TOLERANCE = 1e-3
LEAST_KNOWN = 50
"""People of known group, at least, by whom probabilities are calibrated."""


@dataclass(frozen=True)
class GroupProbabilities:
    """With which probability each person belongs to each of several groups.

    Attributes:
        name: what the groups are by, such as ``race``.
        groups: their names.
        values: probabilities, shape (n, groups); they add up to 1, or all are NaN where nothing is known.
    """

    name: str
    groups: tuple[str, ...]
    values: Floats

    @classmethod
    def read(cls, name: str, table: Any) -> GroupProbabilities:
        """Read probabilities from a mapping from groups to columns, or from a data frame.

        The group of a row without any probability is unknown.

        Raises:
            DataError: The columns differ in length or index, a value is not a probability, or a row does not sum to 1.
            OptionError: There are fewer than two groups.
        """
        columns = read_group_columns(name, table)
        if len(columns) < 2:
            raise OptionError(
                f"expected probabilities of at least two groups by {name}, got {len(columns)}",
                hint="one column per group; together they add up to 1 for each person",
            )
        if not check_rows({f"membership[{name!r}][{group!r}]": column for group, column in columns.items()}):
            raise DataError(f"expected at least one row of probabilities by {name}, got none")
        values = np.column_stack([_as_floats(name, group, column) for group, column in columns.items()])
        known = ~np.isnan(values).all(axis=1)
        wrong = known & ~_are_probabilities(values)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"expected probabilities by {name} that add up to 1 for each person, got {values[row].tolist()} in row "
                f"{row + 1} ({int(wrong.sum()):,} such rows)",
                hint="divide each row by its sum; leave all of a row's probabilities empty where they are not known",
            )
        return cls(name, tuple(columns), np.asarray(values / values.sum(axis=1, keepdims=True)))

    @property
    def known(self) -> Booleans:
        """Whose probabilities are known, shape (n,)."""
        return ~np.isnan(self.values[:, 0])

    def at(self, rows: Integers) -> GroupProbabilities:
        """Return those of some of the people, by their positions."""
        return replace(self, values=self.values[rows])


def read_membership(membership: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Read the columns of probabilities of each attribute.

    Args:
        membership: Attribute -> probabilities of its groups: a mapping from groups to columns, or a data frame.

    Returns:
        Attribute -> group -> column.

    Raises:
        DataError: The probabilities have no names of groups, or are not columns.
        OptionError: The argument is not a mapping.
    """
    if not isinstance(membership, Mapping | None):
        raise OptionError(
            f"expected a mapping from attributes to probabilities as `membership=`, got {type(membership).__name__}",
            hint='membership={"race": probabilities}',
        )
    names = check_names(list(membership or {}), "membership")
    return {
        name: read_group_columns(name, table) for name, table in zip(names, (membership or {}).values(), strict=True)
    }


def read_group_columns(name: str, table: Any) -> dict[str, Any]:
    """Read the columns of probabilities of one attribute by group.

    Raises:
        DataError: The table has no names of groups, or the indices of its columns differ.
    """
    if not isinstance(table, Mapping) and not hasattr(table, "columns"):
        raise DataError(
            f"expected a column of probabilities for each group of {name}, got {type(table).__name__}",
            hint='pass a data frame, or a mapping: {"white": [...], "black": [...]}',
        )
    check_index(membership={name: table})
    return read_columns(f"membership[{name!r}]", table)


def _as_floats(name: str, group: str, column: Any) -> Floats:
    """Return a column of probabilities as numbers, NaN where one is missing."""
    import pandas as pd

    try:
        numbers: Floats = pd.to_numeric(pd.Series(column)).to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        message = f"expected probabilities of {name} {group}, got a column with other values"
        raise DataError(message, hint="leave unknown probabilities empty") from None
    return numbers


def _are_probabilities(values: Floats) -> Booleans:
    return np.asarray(
        np.isfinite(values).all(axis=1) & (values >= 0).all(axis=1) & (np.abs(values.sum(axis=1) - 1) <= SUM_TOLERANCE)
    )


@dataclass(frozen=True)
class KnownGroups:
    """People whose group is known, with the probabilities that a proxy gives them: what shows how good these are.

    Attributes:
        probabilities: of each of them, shape (people, groups).
        member: the position of each one's group, shape (people,).
    """

    probabilities: GroupProbabilities
    member: Integers

    @classmethod
    def read(cls, probabilities: GroupProbabilities, known: Any) -> KnownGroups:
        """Return the people whose group and whose probabilities are both known.

        Args:
            probabilities: Probabilities of all rows.
            known: Name of each row's group, shape (n,); missing or empty where it is unknown.

        Raises:
            DataError: The columns differ in length, a group has no probability, or too few groups are known.
        """
        name = probabilities.name
        column = read_column(f"known_groups[{name!r}]", known)
        check_rows({f"known_groups[{name!r}]": column, f"membership[{name!r}]": probabilities.values})
        labels = ["" if is_missing(label) else str(label).strip() for label in column.tolist()]
        positions = {group: place for place, group in enumerate(probabilities.groups)}
        strange = next((label for label in labels if label and label not in positions), None)
        if strange is not None:
            raise DataError(
                f"expected a group of {name} with probabilities, got {strange!r}",
                hint=f"the groups are: {', '.join(positions)}; leave others empty",
            )
        rows = np.array([i for i, label in enumerate(labels) if label and probabilities.known[i]], dtype=np.int64)
        if len(rows) < LEAST_KNOWN:
            raise DataError(
                f"expected at least {LEAST_KNOWN} people of known {name} to calibrate on, got {len(rows)}",
                hint="leave them out: the probabilities are then taken as given",
            )
        return cls(probabilities.at(rows), np.array([positions[labels[i]] for i in rows.tolist()], dtype=np.int64))


def read_known_groups(known_groups: Mapping[str, tuple[Any, Any]] | None) -> dict[str, KnownGroups]:
    """Read rows of known group, by attribute.

    Args:
        known_groups: Attribute -> probabilities of the groups, and the known group of each row. None: no attribute.

    Raises:
        DataError: The probabilities or the groups cannot be read.
        OptionError: The argument is not a mapping to pairs.
    """
    read = {}
    for name, pair in _require_pairs(known_groups).items():
        check_index(membership=pair[0], known_groups=pair[1])
        read[name] = KnownGroups.read(GroupProbabilities.read(name, pair[0]), pair[1])
    return read


def _require_pairs(known_groups: Any) -> Mapping[str, tuple[Any, Any]]:
    """Check that known groups are a mapping to pairs, and return them.

    Raises:
        OptionError: They are not.
    """
    pairs = {} if known_groups is None else known_groups
    if isinstance(pairs, Mapping) and all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs.values()):
        return pairs
    raise OptionError(
        f"expected a mapping from attributes to pairs as `known_groups=`, got {type(known_groups).__name__}",
        hint='known_groups={"race": (probabilities, groups)}',
    )


def read_memberships(
    table: Any, rows: Integers, membership: Mapping[str, Mapping[str, str]], known: Mapping[str, KnownGroups]
) -> tuple[ProbableMembership, ...]:
    """Return the probabilities in columns of a table.

    Args:
        table: a narwhals data frame.
        rows: whose, by their positions in it.
        membership: attribute -> group -> column of its probability.
        known: attribute -> other people, of known group.

    Raises:
        DataError: a column holds what is not a probability.
        OptionError: people of known group have other groups, or are given for an attribute without probabilities.
    """
    for name, people in known.items():
        if name not in membership or people.probabilities.groups != tuple(membership[name]):
            expected = ", ".join(membership.get(name, ())) or "no probabilities are given for it"
            raise OptionError(
                f"expected known groups of an attribute that is known by probability, got {name!r} with groups "
                f"{', '.join(people.probabilities.groups)}",
                hint=f"groups of {name} in `membership=`: {expected}",
            )
    return tuple(
        ProbableMembership(
            GroupProbabilities.read(name, {group: table[column].to_numpy()[rows] for group, column in by.items()}),
            known.get(name),
        )
        for name, by in membership.items()
    )


@dataclass(frozen=True)
class ProbableMembership:
    """Groups of the people in the data that are known by probability, with what shows how good these are.

    Attributes:
        probabilities: of the people in the data.
        known: other people, of known group; None where the probabilities are taken as given.
    """

    probabilities: GroupProbabilities
    known: KnownGroups | None = None

    def at(self, rows: Integers) -> ProbableMembership:
        """Return those of some of the people, by their positions."""
        return replace(self, probabilities=self.probabilities.at(rows))
