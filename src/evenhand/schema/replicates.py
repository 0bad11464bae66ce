"""Replicate weights of a survey: columns of weights whose spread shows how surely the survey measures anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
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
            try:
                column = np.asarray(table[name].to_numpy(), dtype=np.float64)[rows]
            except (TypeError, ValueError):
                raise DataError(f"expected numbers in the column of replicate weights, {name!r}") from None
            wrong = np.flatnonzero(~np.isfinite(column))
            if len(wrong):
                raise DataError(
                    f"column {name!r}, row {int(rows[wrong[0]]) + 1}: expected a finite replicate weight, got "
                    f"{column[wrong[0]]} ({len(wrong):,} such rows)",
                    hint="leave those rows out",
                )
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
