"""Sample weights and replicate weights of surveys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_index, read_column, read_columns, require_column
from evenhand.schema.columns import add_columns, list_columns
from evenhand.schema.probabilities import KnownGroups, ProbableMembership, read_membership, read_memberships
from evenhand.schema.rows import CodedColumn, is_missing
from evenhand.schema.words import read_number
from evenhand.typing import Floats, Integers

METHODS: dict[str, tuple[str, Callable[[int, float], float]]] = {
    "jackknife": ("jackknife", lambda r, k: (r - 1) / r),
    "paired-jackknife": ("paired jackknife", lambda r, k: 1.0),
    "brr": ("balanced repeated replication", lambda r, k: 1 / r),
    "fay": ("balanced repeated replication by Fay's method", lambda r, k: 1 / (r * (1 - k) ** 2)),
    "bootstrap": ("bootstrap", lambda r, k: 1 / r),
    "sdr": ("successive differences", lambda r, k: 4 / r),
}
"""Methods of replicate weights: description, and factor of the variance for r replicates and Fay's k."""

MIN_REPLICATES = 2

NEGLIGIBLE = 1e-12
"""Weights below this fraction of the mean weight count as 0."""


@dataclass(frozen=True)
class ReplicateRole:
    """Columns of replicate weights, and the method that made them.

    With estimates t_1 ... t_R under the R replicate weights and t under the weights, the variance is
    ``factor * sum((t_r - t)^2)``. The factor is ``(R - 1) / R`` for the jackknife that leaves out one unit at a time,
    1 for the paired one of two units in a stratum, ``1 / R`` for balanced repeated replication and the bootstrap
    (Wolter, "Introduction to Variance Estimation", 2007), ``1 / (R (1 - k)^2)`` where weights are multiplied by k and
    2 - k (Judkins, "Fay's method for variance estimation", Journal of Official Statistics 1990), and ``4 / R`` for
    successive differences (Fay & Train 1995; American Community Survey, "Design and Methodology", 2022, chapter 12).

    Attributes:
        columns: names of the columns.
        method: one of ``METHODS``; Fay's with its factor, such as ``fay:0.5``.
    """

    columns: tuple[str, ...]
    method: str

    def __post_init__(self) -> None:
        _parse_method(self.method)
        if len(self.columns) < MIN_REPLICATES:
            message = f"expected at least {MIN_REPLICATES} replicate weights, got {len(self.columns)}"
            raise OptionError(message, location="`replicate_weights=`")

    @property
    def factor(self) -> float:
        """Factor of the sum of squared differences."""
        name, k = _parse_method(self.method)
        return METHODS[name][1](len(self.columns), k)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance: the number of replicates minus 1."""
        return len(self.columns) - 1.0

    @property
    def description(self) -> str:
        """Number of replicate weights and their method, in words."""
        name, k = _parse_method(self.method)
        factor = f" with {k:g}" if name == "fay" else ""
        return f"{len(self.columns)} replicate weights, {METHODS[name][0]}{factor}"


@dataclass(frozen=True)
class ReplicateWeights:
    """Replicate weights of people, shape (n, R), and their role."""

    role: ReplicateRole
    values: Floats

    @classmethod
    def read(cls, role: ReplicateRole, table: Any, rows: Integers) -> ReplicateWeights:
        """Read the replicate weights of some rows of a narwhals data frame.

        Raises:
            DataError: if a weight is missing or not a finite number.
        """
        columns = []
        for name in role.columns:
            column = read_numbers(table[name], rows, "replicate weight")
            if column.sum() <= 0:
                raise DataError(
                    f"expected replicate weights with a sum above 0 in column {name!r}, got {column.sum():g}"
                )
            columns.append(column / column.mean())
        return cls(role, np.column_stack(columns))

    def at(self, rows: Integers) -> ReplicateWeights:
        """Select people by position."""
        return replace(self, values=self.values[rows])


def list_replicates(names: str, columns: Sequence[str]) -> tuple[str, ...]:
    """List the columns of a range such as ``PWGTP1..PWGTP80``, or of names separated by commas.

    Raises:
        OptionError: if a range is invalid.
        DataError: if a column is missing.
    """
    listed: list[str] = []
    for part in map(str.strip, names.split(",")):
        match = re.fullmatch(r"(.*?)(\d+)\.\.(.*?)(\d+)", part)
        if match is None:
            listed.append(part)
            continue
        stem, first, last_stem, last = match.groups()
        if stem != last_stem or int(first) >= int(last):
            message = f"expected a first and a last column of one name, got {part!r}"
            raise OptionError(message, location="`replicate_weights=`", hint="write for example PWGTP1..PWGTP80")
        width = len(first) if first.startswith("0") else 0
        listed += [f"{stem}{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    for name in listed:
        if name not in columns:
            raise DataError(f"there is no column {name!r} of replicate weights", location="`replicate_weights=`")
    return tuple(dict.fromkeys(listed))


def _parse_method(method: str) -> tuple[str, float]:
    """Parse a method with Fay's factor, which is 0 for the other methods.

    Raises:
        OptionError: if the method or the factor is invalid.
    """
    name, _, factor = method.strip().lower().partition(":")
    k = read_number(factor or 0)
    if name not in METHODS or bool(factor) != (name == "fay") or not 0 <= k < 1:
        raise OptionError(
            f"expected a method of replicate weights, got {method!r}",
            location="`replicate_method=`",
            hint=f"the methods are: {', '.join(METHODS)}; Fay's with its factor from 0 to below 1, such as fay:0.5; of "
            "the ACS: sdr",
        )
    return name, k


@dataclass(frozen=True)
class PeopleWeights:
    """Sample weights of people, such as inverse selection probabilities of a survey.

    Attributes:
        name: column of the weights.
        values: weights, at least 0 and 1 on average, shape (n,).
        replicates: replicate weights for variances. None if people are sampled independently.
    """

    name: str
    values: Floats
    replicates: ReplicateWeights | None = None

    def at(self, rows: Integers) -> PeopleWeights:
        """Select people by position."""
        replicates = None if self.replicates is None else self.replicates.at(rows)
        return replace(self, values=self.values[rows], replicates=replicates)


def read_weights(frame: Any, name: str, rows: Integers, replicates: ReplicateRole | None = None) -> PeopleWeights:
    """Read the weights of some rows.

    Args:
        frame: any data frame that narwhals supports.
        name: column of the weights.
        rows: positions of the rows, such as ``People.rows``.
        replicates: columns of replicate weights. None without them.

    Raises:
        DataError: if a weight is missing, not a finite number, or negative, or all are 0.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    values = read_numbers(table[name], rows, "weight")
    if values.min() < 0 or values.max() == 0:
        wrong = f"{values.min():g} in row {int(rows[np.argmin(values)]) + 1}" if values.min() < 0 else "zeros alone"
        raise DataError(f"expected weights of at least 0 in column {name!r}, got {wrong}")
    # Only ratios of weights matter; the squares of relative weights above the limit fit into floats.
    relative = values / values.mean()
    spread = None if replicates is None else ReplicateWeights.read(replicates, table, rows)
    return PeopleWeights(name, np.where(relative < NEGLIGIBLE, 0.0, relative), spread)


def read_numbers(column: Any, rows: Any, role: str) -> Floats:
    """Read the numbers of some rows, in any spelling.

    Raises:
        DataError: if a cell is missing, or not a finite number.
    """
    coded = CodedColumn.read(column)
    numbers = coded.numbers(read_number)
    wrong = rows[~np.isfinite(numbers[rows])]
    if len(wrong):
        value = coded.at(int(wrong[0]))
        raise DataError(
            f"column {column.name!r}, row {int(wrong[0]) + 1}: expected a finite number as {role}, got "
            f"{'an empty cell' if is_missing(value) else repr(value)} ({len(wrong):,} such rows)",
            hint=f"leave those rows or the column of {role}s out",
        )
    return np.asarray(numbers[rows])


def name_sample_columns(
    membership: Mapping[str, Any] | None, replicate_weights: Any
) -> tuple[dict[str, Any], dict[str, dict[str, str]], tuple[str, ...]]:
    """Read probabilities of groups and replicate weights, and name their columns.

    Args:
        membership: Attribute -> probabilities of its groups: a mapping from groups to columns, or a data frame.
        replicate_weights: Data frame or array of shape (n, R), or None.

    Returns:
        Name -> column; attribute -> group -> name; the names of the replicate weights.

    Raises:
        DataError: An argument is not a table.
    """
    replicates = [] if replicate_weights is None else read_columns("replicate_weights", replicate_weights).values()
    numbered = tuple(f"replicate weight {i + 1}" for i in range(len(replicates)))
    columns, names = dict(zip(numbered, replicates, strict=True)), {}
    for attribute, probabilities in read_membership(membership).items():
        names[attribute] = {group: f"probability of {attribute} {group}" for group in probabilities}
        columns |= {names[attribute][group]: column for group, column in probabilities.items()}
    return columns, names, numbered


@dataclass(frozen=True)
class SampleRoles:
    """Columns of weights and group probabilities, which are not features of the model.

    Attributes:
        weight: column of the sample weights.
        replicates: columns of replicate weights, such as ``PWGTP1..PWGTP80``, and the method that made them.
        membership, known: as for ``DecisionRoles``.

    Raises:
        OptionError: if there are replicate weights without weights.
    """

    weight: str | None = None
    replicates: tuple[str, str] | None = None
    membership: Mapping[str, Mapping[str, str]] | None = None
    known: Mapping[str, KnownGroups] | None = None

    def __post_init__(self) -> None:
        check_replicates(self.weight, self.replicates)

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
        replicates = () if self.replicates is None else list_replicates(self.replicates[0], present)
        return list(dict.fromkeys([*(name for names in roles.values() for name in names), *replicates]))

    def read(self, frame: Any, rows: Integers) -> tuple[PeopleWeights | None, tuple[ProbableMembership, ...]]:
        """Read the weights and probabilities of some rows of a data frame, such as ``People.rows``.

        Raises:
            EvenhandError: if a column has invalid values.
        """
        import narwhals as nw

        role = None
        if self.replicates is not None:
            role = ReplicateRole(list_replicates(self.replicates[0], list_columns(frame)), self.replicates[1])
        weights = None if self.weight is None else read_weights(frame, self.weight, rows, role)
        table = nw.from_native(frame, eager_only=True)
        return weights, read_memberships(table, rows, self.membership or {}, self.known or {})


def check_replicates(weight: str | None, replicates: Any) -> None:
    """Check that there are no replicate weights without weights.

    Raises:
        OptionError: if there are.
    """
    if replicates is not None and weight is None:
        raise OptionError("replicate weights need weights", hint="name their column too: `weight=...`")


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
    known: Mapping[str, KnownGroups] | None = None,
    replicate_weights: Any = None,
    replicate_method: str = "",
) -> tuple[Any, SampleRoles]:
    """Add columns of weights and group probabilities to a data frame.

    Args:
        data: any data frame that narwhals supports, one row per person.
        sample_weight: sample weights, shape (n,), or the name of their column; None for equal weights.
        membership: attribute -> probabilities of its groups, a mapping from groups to columns or a data frame.
        known: attribute -> people of known group.
        replicate_weights, replicate_method: data frame or array of shape (n, R), and the method that made them.

    Returns:
        The data frame, and the roles of these columns.

    Raises:
        DataError: if the columns differ in length, or an argument is not a column.
        OptionError: if there are replicate weights without weights.
    """
    check_index(data=data, sample_weight=sample_weight, membership=membership, replicate_weights=replicate_weights)
    weight, arguments = sample_weight, {}
    columns, probable, numbered = name_sample_columns(membership, replicate_weights)
    if sample_weight is not None:
        names = list_columns(data)
        if isinstance(sample_weight, str):
            require_column(sample_weight, names, "sample_weight")
        else:
            weight = "sample_weight" + " (given)" * ("sample_weight" in names)
            columns[weight] = read_column("sample_weight", sample_weight)
            arguments[weight] = "sample_weight"
    replicates = None if replicate_weights is None else (",".join(numbered), replicate_method)
    roles = SampleRoles(weight, replicates, probable, known)
    return add_columns(data, columns, arguments) if columns else data, roles
