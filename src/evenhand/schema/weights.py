"""Sample weights of people, such as survey weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError
from evenhand.schema.arrays import check_index, read_column, require_column
from evenhand.schema.columns import add_columns, list_columns
from evenhand.schema.probabilities import GroupProbabilities, read_membership, read_memberships
from evenhand.schema.table import Table

NEGLIGIBLE = 1e-12
"""Weights below this fraction of the mean weight count as 0."""


@dataclass(frozen=True)
class PeopleWeights:
    """Sample weights of people, such as inverse selection probabilities of a survey.

    Attributes:
        name: column of the weights.
        values: weights, at least 0 and 1 on average, shape (n,).
    """

    name: str
    values: Floats

    def at(self, rows: Integers) -> PeopleWeights:
        """Select people by position."""
        return PeopleWeights(self.name, self.values[rows])


def read_weights(frame: Any, name: str, rows: Integers) -> PeopleWeights:
    """Read the weights of some rows.

    Args:
        frame: any data frame that narwhals supports, or a table.
        name: column of the weights.
        rows: positions of the rows, such as ``People.rows``.

    Raises:
        DataError: if a weight is missing, not a finite number, or negative, or all are 0.
    """
    values = Table.of(frame)[name].finite_numbers(rows, "weight")
    if values.min() < 0 or values.max() == 0:
        wrong = f"{values.min():g} in row {int(rows[np.argmin(values)]) + 1}" if values.min() < 0 else "zeros alone"
        raise DataError(f"expected weights of at least 0 in column {name!r}, got {wrong}")
    # Only ratios of weights matter; the squares of relative weights above the limit fit into floats.
    relative = values / values.mean()
    return PeopleWeights(name, np.where(relative < NEGLIGIBLE, 0.0, relative))


def name_sample_columns(
    membership: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Read probabilities of groups, and name their columns.

    Args:
        membership: Attribute -> probabilities of its groups: a mapping from groups to columns, or a data frame.

    Returns:
        Name -> column; attribute -> group -> name.

    Raises:
        DataError: An argument is not a table.
    """
    columns: dict[str, Any] = {}
    names: dict[str, dict[str, str]] = {}
    for attribute, probabilities in read_membership(membership).items():
        names[attribute] = {group: f"probability of {attribute} {group}" for group in probabilities}
        columns |= {names[attribute][group]: column for group, column in probabilities.items()}
    return columns, names


@dataclass(frozen=True)
class SampleRoles:
    """Columns of weights and group probabilities, which are not features of the model.

    Attributes:
        weight: column of the sample weights.
        membership: as for ``DecisionRoles``.
    """

    weight: str | None = None
    membership: Mapping[str, Mapping[str, str]] | None = None

    def columns(self, frame: Any) -> list[str]:
        """List these columns of a data frame; they are not attributes.

        Raises:
            DataError: if a column is missing.
        """
        present = list_columns(frame)
        roles = list_sample_roles(self.weight, self.membership)
        for role, names in roles.items():
            for name in names:
                require_column(name, present, role)
        return list(dict.fromkeys(name for names in roles.values() for name in names))

    def read(self, frame: Any, rows: Integers) -> tuple[PeopleWeights | None, tuple[GroupProbabilities, ...]]:
        """Read the weights and probabilities of some rows of a data frame, such as ``People.rows``.

        Raises:
            EvenhandError: if a column has invalid values.
        """
        import narwhals as nw

        weights = None if self.weight is None else read_weights(frame, self.weight, rows)
        table = nw.from_native(frame, eager_only=True)
        return weights, read_memberships(table, rows, self.membership or {})


def list_sample_roles(
    weight: str | None, membership: Mapping[str, Mapping[str, str]] | None
) -> dict[str, Sequence[str]]:
    """List the columns of weights and group probabilities by role."""
    roles: dict[str, Sequence[str]] = {"weight": [] if weight is None else [weight]}
    return roles | {f"membership {name}": list(by.values()) for name, by in (membership or {}).items()}


def add_sample_columns(
    data: Any,
    sample_weight: Any,
    *,
    membership: Mapping[str, Any] | None = None,
) -> tuple[Any, SampleRoles]:
    """Add columns of weights and group probabilities to a data frame.

    Args:
        data: any data frame that narwhals supports, one row per person.
        sample_weight: sample weights, shape (n,), or the name of their column; None for equal weights.
        membership: attribute -> probabilities of its groups, a mapping from groups to columns or a data frame.

    Returns:
        The data frame, and the roles of these columns.

    Raises:
        DataError: if the columns differ in length, or an argument is not a column.
    """
    check_index(data=data, sample_weight=sample_weight, membership=membership)
    weight, arguments = sample_weight, {}
    columns, probable = name_sample_columns(membership)
    if sample_weight is not None:
        names = list_columns(data)
        if isinstance(sample_weight, str):
            require_column(sample_weight, names, "sample_weight")
        else:
            weight = "sample_weight" + " (given)" * ("sample_weight" in names)
            columns[weight] = read_column("sample_weight", sample_weight)
            arguments[weight] = "sample_weight"
    roles = SampleRoles(weight, probable)
    return add_columns(data, columns, arguments) if columns else data, roles
