"""Group probabilities, such as race estimated from name and address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import read_columns
from evenhand.schema.table import CodedColumn, check_names

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
    def read(cls, name: str, columns: Mapping[str, CodedColumn], rows: Integers) -> GroupProbabilities:
        """Read the probabilities of the given rows from one column per group.

        The group of a row without any probability is unknown.

        Raises:
            DataError: A value is not a probability, or a row does not sum to 1.
            OptionError: There are fewer than two groups.
        """
        if len(columns) < 2:
            raise OptionError(
                f"expected probabilities of at least two groups of {name}, got {len(columns)}",
                hint="pass one column per group; the probabilities of each row must sum to 1",
            )
        role = f"group probability for {name}"
        values = np.column_stack([column.finite_numbers(rows, role, optional=True) for column in columns.values()])
        valid = (values >= 0).all(axis=1) & (np.abs(values.sum(axis=1) - 1) <= SUM_TOLERANCE)
        invalid = ~(valid | np.isnan(values).all(axis=1))
        if invalid.any():
            row = int(np.argmax(invalid))
            raise DataError(
                f"expected group probabilities for {name} that sum to 1 in each row, got {values[row].tolist()} in "
                f"row {rows[row] + 1} ({int(invalid.sum()):,} such rows)",
                hint="divide each row by its sum; if the group of a row is unknown, leave its probabilities empty",
            )
        return cls(name, tuple(columns), np.asarray(values / values.sum(axis=1, keepdims=True)))

    @property
    def known(self) -> Booleans:
        """Mask of the rows with probabilities, shape (n,)."""
        return ~np.isnan(self.values[:, 0])

    def at(self, rows: Integers) -> GroupProbabilities:
        """Select rows by position."""
        return replace(self, values=self.values[rows])


def name_sample_columns(membership: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Read probabilities of groups, and name their columns.

    Args:
        membership: Group probabilities by attribute: a mapping from groups to columns, or a data frame.

    Returns:
        Columns by name, and names of columns by attribute and group.

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
    columns: dict[str, Any] = {}
    names: dict[str, dict[str, str]] = {}
    for attribute in check_names(list(tables), "membership"):
        table = tables[attribute]
        if not isinstance(table, Mapping) and not hasattr(table, "columns"):
            raise DataError(
                f"expected a column of probabilities for each group of {attribute}, got {type(table).__name__}",
                hint='pass a data frame, or a mapping: {"white": [...], "black": [...]}',
            )
        groups = read_columns(f"membership[{attribute!r}]", table)
        names[attribute] = {group: f"probability of {attribute} {group}" for group in groups}
        columns |= {names[attribute][group]: column for group, column in groups.items()}
    return columns, names
