"""Weights of a survey: how much each person counts, and replicate weights, whose spread shows how sure figures are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_index, read_columns
from evenhand.schema.columns import add_columns, add_weights, list_columns, require_column
from evenhand.schema.probabilities import KnownGroups, ProbableMembership, read_membership, read_memberships
from evenhand.schema.rows import CodedColumn, is_missing
from evenhand.schema.words import read_number
from evenhand.typing import Floats, Integers

METHODS = {
    "jackknife": "jackknife",
    "paired-jackknife": "paired jackknife",
    "brr": "balanced repeated replication",
    "fay": "balanced repeated replication by Fay's method",
    "bootstrap": "bootstrap",
    "sdr": "successive differences",
}
"""Methods by which replicate weights are made, in words."""

LEAST = 2


@dataclass(frozen=True)
class ReplicateRole:
    """Which columns hold replicate weights, and how these were made.

    With estimates t_1 ... t_R under the R replicate weights and t under the weights, the variance is
    ``factor * sum((t_r - t)^2)``. The factor is ``(R - 1) / R`` for the jackknife that leaves out one unit at a time,
    1 for the paired one of two units in a stratum, ``1 / R`` for balanced repeated replication and the bootstrap
    (Wolter, "Introduction to Variance Estimation", 2007), ``1 / (R (1 - k)^2)`` where weights are multiplied by k and
    2 - k (Judkins, "Fay's method for variance estimation", Journal of Official Statistics 1990), and ``4 / R`` for
    successive differences (Fay & Train 1995; American Community Survey, "Design and Methodology", 2022, chapter 12).

    Attributes:
        columns: their names.
        method: one of ``METHODS``; Fay's with its factor, such as ``fay:0.5``.
    """

    columns: tuple[str, ...]
    method: str

    def __post_init__(self) -> None:
        _read_method(self.method)
        if len(self.columns) < LEAST:
            raise OptionError(
                f"expected at least {LEAST} replicate weights, got {len(self.columns)}", location="`replicate_weights=`"
            )

    @property
    def factor(self) -> float:
        """By what the sum of squared differences is multiplied."""
        name, k = _read_method(self.method)
        replicates = len(self.columns)
        factors = {
            "jackknife": (replicates - 1) / replicates,
            "paired-jackknife": 1.0,
            "fay": 1 / (replicates * (1 - k) ** 2),
            "sdr": 4 / replicates,
        }
        return factors.get(name, 1 / replicates)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance: one less than there are replicates."""
        return len(self.columns) - 1.0

    @property
    def description(self) -> str:
        """How many there are and how they were made, in words."""
        name, k = _read_method(self.method)
        factor = f" with {k:g}" if name == "fay" else ""
        return f"{len(self.columns)} replicate weights, {METHODS[name]}{factor}"


@dataclass(frozen=True)
class ReplicateWeights:
    """The replicate weights of people, shape (n, R), and how they were made."""

    role: ReplicateRole
    values: Floats

    @classmethod
    def read(cls, role: ReplicateRole, table: Any, rows: Integers) -> ReplicateWeights:
        """Return those of some rows of a narwhals data frame.

        Raises:
            DataError: one is missing, or not a finite number.
        """
        columns = []
        for name in role.columns:
            column = read_numbers(table[name], rows, "replicate weight")
            if column.sum() <= 0:
                raise DataError(f"expected replicate weights above 0 in sum in column {name!r}, got {column.sum():g}")
            columns.append(column / column.mean())
        return cls(role, np.column_stack(columns))

    def at(self, rows: Integers) -> ReplicateWeights:
        """Return those of some of the people, by their positions."""
        return replace(self, values=self.values[rows])


def list_replicates(given: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of ``PWGTP1..PWGTP80``, or of names with commas between them.

    Raises:
        OptionError: it is written otherwise.
        DataError: there is no such column.
    """
    names: list[str] = []
    for part in given.split(","):
        found = re.fullmatch(r"(.*?)(\d+)\.\.(.*?)(\d+)", part.strip())
        if found is None:
            names.append(part.strip())
            continue
        stem, first, again, last = found.groups()
        if stem != again or int(first) >= int(last):
            raise OptionError(
                f"expected a first and a last column of one name, got {part.strip()!r}",
                location="`replicate_weights=`",
                hint="write for example PWGTP1..PWGTP80",
            )
        width = len(first) if first.startswith("0") else 0
        names += [f"{stem}{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    missing = next((name for name in names if name not in columns), None)
    if missing is not None:
        raise DataError(f"there is no column {missing!r} of replicate weights", location="`replicate_weights=`")
    return tuple(dict.fromkeys(names))


def _read_method(given: str) -> tuple[str, float]:
    """Return the method and Fay's factor (0 for others).

    Raises:
        OptionError: there is no such method, or the factor is not one.
    """
    name, _, factor = given.strip().lower().partition(":")
    hint = f"the methods are: {', '.join(METHODS)}; Fay's with its factor, such as fay:0.5; of the ACS: sdr"
    if name not in METHODS or bool(factor) != (name == "fay"):
        raise OptionError(
            f"expected how replicate weights were made, got {given!r}", location="`replicate_method=`", hint=hint
        )
    try:
        k = float(factor or 0)
    except ValueError:
        k = -1.0
    if not 0 <= k < 1:
        message = f"expected Fay's factor from 0 to below 1, got {factor!r}"
        raise OptionError(message, location="`replicate_method=`", hint=hint)
    return name, k


NEGLIGIBLE = 1e-12
"""A weight below this share of the mean weight counts as 0."""


@dataclass(frozen=True)
class PeopleWeights:
    """How much each person counts, such as the inverse of the probability with which a survey asked them.

    Attributes:
        name: where the weights come from.
        values: at least 0, 1 on average, shape (n,).
        replicates: replicate weights, by which variances are computed; None where people count as drawn independently.
    """

    name: str
    values: Floats
    replicates: ReplicateWeights | None = None

    def at(self, rows: Integers) -> PeopleWeights:
        """Return those of some of the people, by their positions."""
        replicates = None if self.replicates is None else self.replicates.at(rows)
        return replace(self, values=self.values[rows], replicates=replicates)


def read_weights(frame: Any, name: str, rows: Integers, replicates: ReplicateRole | None = None) -> PeopleWeights:
    """Return the weights in a column of a data frame.

    Args:
        rows: whose, by their positions in the frame, such as ``People.rows``.
        replicates: columns of replicate weights, if there are any.

    Raises:
        DataError: a weight is missing, no finite number, or negative; or all are 0.
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    weights = weights_of(table[name], rows)
    return weights if replicates is None else replace(
        weights, replicates=ReplicateWeights.read(replicates, table, rows))  # fmt: skip


def weights_of(column: Any, rows: Integers) -> PeopleWeights:
    """Return the weights of some rows.

    Raises:
        DataError: one is missing, no finite number, or negative; or all are 0.
    """
    values = read_numbers(column, rows, "weight")
    if values.min() < 0 or values.max() == 0:
        wrong = f"{values.min():g} in row {int(rows[np.argmin(values)]) + 1}" if values.min() < 0 else "zeros alone"
        raise DataError(f"expected weights of at least 0 in column {column.name!r}, got {wrong}")
    # Only how much more one counts than another matters; the squares of what is left fit into floats.
    relative = values / values.mean()
    return PeopleWeights(column.name, np.where(relative < NEGLIGIBLE, 0.0, relative))


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
    """Columns beside a model's that say how much people count, and with which probability they belong to groups.

    Attributes:
        weight: column of how much each person counts.
        replicates: columns of replicate weights, such as ``PWGTP1..PWGTP80``, with how they were made.
        membership, known: as for ``DecisionRoles``.

    Raises:
        OptionError: replicate weights without weights.
    """

    weight: str | None = None
    replicates: tuple[str, str] | None = None
    membership: Mapping[str, Mapping[str, str]] | None = None
    known: Mapping[str, KnownGroups] | None = None

    def __post_init__(self) -> None:
        if self.replicates is not None and self.weight is None:
            raise OptionError("replicate weights need weights", hint="name their column too: `weight=...`")

    def columns(self, frame: Any) -> list[str]:
        """Return all of these columns of a data frame; they are no attributes.

        Raises:
            DataError: one is not there.
        """
        present = list_columns(frame)
        given = {"weight": [self.weight] if self.weight is not None else []}
        given |= {f"membership {name}": list(by.values()) for name, by in (self.membership or {}).items()}
        for role, names in given.items():
            for name in names:
                require_column(name, present, role)
        replicates = () if self.replicates is None else list_replicates(self.replicates[0], present)
        return list(dict.fromkeys([*(name for names in given.values() for name in names), *replicates]))

    def read(self, frame: Any, rows: Integers) -> tuple[PeopleWeights | None, tuple[ProbableMembership, ...]]:
        """Return the weights and probabilities of some rows of a data frame, such as ``People.rows``.

        Raises:
            EvenhandError: a column holds what it must not.
        """
        import narwhals as nw

        role = None
        if self.replicates is not None:
            role = ReplicateRole(list_replicates(self.replicates[0], list_columns(frame)), self.replicates[1])
        weights = None if self.weight is None else read_weights(frame, self.weight, rows, role)
        table = nw.from_native(frame, eager_only=True)
        return weights, read_memberships(table, rows, self.membership or {}, self.known or {})


def add_sample_columns(
    data: Any,
    sample_weight: Any,
    *,
    membership: Mapping[str, Any] | None = None,
    known: Mapping[str, KnownGroups] | None = None,
    replicate_weights: Any = None,
    replicate_method: str = "",
) -> tuple[Any, SampleRoles]:
    """Return a data frame with columns of weights and probabilities of groups, and what these are for.

    Args:
        data: any data frame that narwhals knows, one row per person.
        sample_weight: how much each person counts, shape (n,), or the column that says it; None where all count alike.
        membership: attribute -> probabilities of its groups, a mapping from groups to columns or a data frame.
        known: by the same names other people, of known group.
        replicate_weights, replicate_method: a data frame or an array of shape (n, R), and how they were made.

    Raises:
        DataError: the columns differ in length, or something given is not a column.
        OptionError: replicate weights without weights.
    """
    given = {"sample_weight": sample_weight, "membership": membership, "replicate_weights": replicate_weights}
    check_index(data=data, **given)
    frame, weight = add_weights(data, sample_weight)
    columns, probable, numbered = name_sample_columns(membership, replicate_weights)
    if columns:
        frame = add_columns(frame, columns)
    listed = None if replicate_weights is None else (",".join(numbered), replicate_method)
    return frame, SampleRoles(weight, listed, probable, known)
