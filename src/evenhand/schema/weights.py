"""Columns of sample weights and of group probabilities, which are not features of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_names, read_column, require_column
from evenhand.schema.columns import add_columns, list_columns
from evenhand.schema.probabilities import GroupProbabilities, read_group_columns
from evenhand.schema.table import CodedTable

NEGLIGIBLE = 1e-12
"""Weights below this fraction of the mean weight count as 0."""


@dataclass(frozen=True)
class PeopleWeights:
    """Sample weights of people, such as inverse selection probabilities of a survey.

    Attributes:
        name: Column of the weights.
        values: Non-negative weights with mean 1, shape (n,).
    """

    name: str
    values: Floats

    def at(self, rows: Integers) -> PeopleWeights:
        """Select people by position."""
        return replace(self, values=self.values[rows])


def read_weights(frame: Any, name: str, rows: Integers) -> PeopleWeights:
    """Read the weights of some rows.

    Args:
        frame: Any data frame that narwhals supports, or a table.
        name: Column of the weights.
        rows: Positions of the rows, such as ``People.rows``.

    Raises:
        DataError: A weight is missing, not a finite number, or negative, or all are 0.
    """
    values = CodedTable.of(frame)[name].finite_numbers(rows, "weight")
    if values.min() < 0 or values.max() == 0:
        wrong = f"{values.min():g} in row {int(rows[np.argmin(values)]) + 1}" if values.min() < 0 else "only zeros"
        raise DataError(f"expected weights of at least 0 in column {name!r}, got {wrong}")
    # Only ratios of weights matter, and squares of relative weights above the limit do not underflow.
    relative = values / values.mean()
    return PeopleWeights(name, np.where(relative < NEGLIGIBLE, 0.0, relative))


@dataclass(frozen=True)
class SampleRoles:
    """Roles of the columns of weights and group probabilities.

    Attributes:
        weight: Column of the sample weights.
        membership: Column of each probability, by attribute and group.
    """

    weight: str | None = None
    membership: Mapping[str, Mapping[str, str]] | None = None

    def by_role(self) -> dict[str, list[str]]:
        """List the columns by role."""
        roles = {"weight": [] if self.weight is None else [self.weight]}
        return roles | {f"membership {name}": list(by.values()) for name, by in (self.membership or {}).items()}

    def columns(self, frame: Any) -> list[str]:
        """List the columns of weights and probabilities of a data frame.

        Raises:
            DataError: A column is missing.
        """
        if self.weight is None and not self.membership:
            return []
        pairs = [(role, name) for role, names in self.by_role().items() for name in names]
        present = list_columns(frame)
        for role, name in pairs:
            require_column(name, present, role)
        return list(dict.fromkeys(name for _, name in pairs))

    def read(self, frame: Any, rows: Integers) -> tuple[PeopleWeights | None, tuple[GroupProbabilities, ...]]:
        """Read the weights and probabilities of some rows of a data frame or table, such as ``People.rows``.

        Raises:
            EvenhandError: A column has invalid values.
        """
        table = CodedTable.of(frame)
        weights = None if self.weight is None else read_weights(table, self.weight, rows)
        memberships = (
            GroupProbabilities.read(name, {group: table.frame[column].to_numpy()[rows] for group, column in by.items()})
            for name, by in (self.membership or {}).items()
        )
        return weights, tuple(memberships)


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
        names[attribute] = {}
        for group, column in read_group_columns(attribute, tables[attribute]).items():
            names[attribute][group] = f"probability of {attribute} {group}"
            columns[names[attribute][group]] = column
    return columns, names


def add_sample_columns(
    data: Any, sample_weight: Any, *, membership: Mapping[str, Any] | None = None
) -> tuple[Any, SampleRoles]:
    """Add columns of weights and group probabilities to a data frame.

    Args:
        data: Any data frame that narwhals supports, one row per person.
        sample_weight: Sample weights, shape (n,), or the name of their column; None for equal weights.
        membership: Group probabilities by attribute: a mapping from groups to columns, or a data frame.

    Returns:
        The data frame, and the roles of these columns.

    Raises:
        DataError: The columns differ in length, or an argument is not a column.
    """
    if sample_weight is None and membership is None:
        return data, SampleRoles()
    weight, arguments = sample_weight, {}
    columns, names = name_sample_columns(membership)
    if isinstance(sample_weight, str):
        require_column(sample_weight, list_columns(data), "sample_weight")
    elif sample_weight is not None:
        weight = "sample_weight" + " (given)" * ("sample_weight" in list_columns(data))
        columns[weight] = read_column("sample_weight", sample_weight)
        arguments[weight] = "sample_weight"
    return add_columns(data, columns, arguments) if columns else data, SampleRoles(weight, names)
