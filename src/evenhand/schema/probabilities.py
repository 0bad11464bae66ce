"""Groups that are known by probability only, such as race estimated from name and address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_index, check_names, check_rows, read_columns

SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class GroupProbabilities:
    """Probabilities that each row belongs to each group of an attribute.

    Attributes:
        name: Name of the attribute, such as ``race``.
        groups: Group names.
        values: Probabilities, shape (n, groups). Rows sum to 1, or are NaN if the group is unknown.
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
                hint="pass one column per group; the probabilities of each row must sum to 1",
            )
        if not check_rows({f"membership[{name!r}][{group!r}]": column for group, column in columns.items()}):
            raise DataError(f"expected at least one row of probabilities by {name}, got none")
        values = np.column_stack([_as_floats(name, group, column) for group, column in columns.items()])
        valid = np.isfinite(values).all(axis=1) & (values >= 0).all(axis=1)
        valid &= np.abs(values.sum(axis=1) - 1) <= SUM_TOLERANCE
        invalid = ~(valid | np.isnan(values).all(axis=1))
        if invalid.any():
            row = int(np.argmax(invalid))
            raise DataError(
                f"expected probabilities by {name} that sum to 1 in each row, got {values[row].tolist()} in row "
                f"{row + 1} ({int(invalid.sum()):,} such rows)",
                hint="divide each row by its sum; leave all probabilities of a row of unknown group empty",
            )
        return cls(name, tuple(columns), np.asarray(values / values.sum(axis=1, keepdims=True)))

    @property
    def known(self) -> Booleans:
        """Rows with probabilities, shape (n,)."""
        return ~np.isnan(self.values[:, 0])

    def at(self, rows: Integers) -> GroupProbabilities:
        """Select rows by position."""
        return replace(self, values=self.values[rows])


def read_membership(membership: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Read the columns of probabilities of each attribute.

    Args:
        membership: Attribute -> probabilities of its groups: a mapping from groups to columns, or a data frame.

    Returns:
        Attribute -> group -> column.

    Raises:
        DataError: The probabilities have no group names, or are not columns.
        OptionError: The argument is not a mapping.
    """
    tables = {} if membership is None else membership
    if not isinstance(tables, Mapping):
        raise OptionError(
            f"expected a mapping from attributes to probabilities as `membership=`, got {type(membership).__name__}",
            hint='membership={"race": probabilities}',
        )
    names = check_names(list(tables), "membership")
    return {name: read_group_columns(name, table) for name, table in zip(names, tables.values(), strict=True)}


def read_group_columns(name: str, table: Any) -> dict[str, Any]:
    """Read the columns of probabilities of one attribute by group.

    Raises:
        DataError: The table has no group names, or the indices of its columns differ.
    """
    if not isinstance(table, Mapping) and not hasattr(table, "columns"):
        raise DataError(
            f"expected a column of probabilities for each group of {name}, got {type(table).__name__}",
            hint='pass a data frame, or a mapping: {"white": [...], "black": [...]}',
        )
    check_index(membership={name: table})
    return read_columns(f"membership[{name!r}]", table)


def _as_floats(name: str, group: str, column: Any) -> Floats:
    """Convert a column of probabilities to numbers, NaN for missing values."""
    import pandas as pd

    try:
        numbers: Floats = pd.to_numeric(pd.Series(column)).to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        message = f"expected probabilities of {name} {group}, got a column with other values"
        raise DataError(message, hint="leave unknown probabilities empty") from None
    return numbers


def read_memberships(
    table: Any, rows: Integers, membership: Mapping[str, Mapping[str, str]]
) -> tuple[GroupProbabilities, ...]:
    """Read the probabilities of some rows from columns of a table.

    Args:
        table: Narwhals data frame.
        rows: Positions of the rows.
        membership: Attribute -> group -> column of its probability.

    Raises:
        DataError: A column contains values that are not probabilities.
    """
    return tuple(
        GroupProbabilities.read(name, {group: table[column].to_numpy()[rows] for group, column in columns.items()})
        for name, columns in membership.items()
    )
