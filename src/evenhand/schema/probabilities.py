"""Groups known by probability alone, such as race by a proxy of name and address: read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
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
    def read(cls, name: str, given: Any) -> GroupProbabilities:
        """Return the probabilities in a mapping from groups to columns, or in a data frame.

        A person all of whose probabilities are missing is of unknown group.

        Raises:
            DataError: the columns differ in length, hold what is not a probability, or do not add up to 1.
            OptionError: fewer than two groups.
        """
        columns = _name_columns(name, given)
        if len(columns) < 2:
            raise OptionError(
                f"expected probabilities of at least two groups by {name}, got {len(columns)}",
                hint="one column per group; together they add up to 1 for each person",
            )
        values = np.column_stack(_equally_long(name, columns))
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


def _name_columns(name: str, given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {str(group): column for group, column in given.items()}
    import narwhals as nw

    try:
        table = nw.from_native(given, eager_only=True)
    except TypeError:
        message = f"expected a column of probabilities per group of {name}, got {type(given).__name__}"
        raise DataError(message, hint='give a data frame, or a mapping: {"white": [...], "black": [...]}') from None
    return {group: table[group].to_numpy() for group in table.columns}


def _equally_long(name: str, columns: Mapping[str, Any]) -> Sequence[Floats]:
    found = []
    for group, column in columns.items():
        try:
            found.append(np.asarray(column, dtype=np.float64))
        except (TypeError, ValueError):
            raise DataError(f"expected probabilities of {name} {group}, got a column that holds other things") from None
    shapes = {group: column.shape for group, column in zip(columns, found, strict=True)}
    if len(set(shapes.values())) > 1 or found[0].ndim != 1 or not len(found[0]):
        raise DataError(f"expected one probability by {name} per person and group, got columns of shape {shapes}")
    return found


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
            probabilities: of everybody.
            known: the group of each person, by its name; missing or empty where it is not known.

        Raises:
            DataError: the columns differ in length, a group has no probability, or too few are known.
        """
        labels = [str(label).strip() if _is_given(label) else "" for label in np.asarray(known, dtype=object).tolist()]
        name = probabilities.name
        if len(labels) != len(probabilities.values):
            raise DataError(
                f"expected one known group by {name} per person, got {len(labels):,} for "
                f"{len(probabilities.values):,} people"
            )
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


def read_known_groups(given: Mapping[str, tuple[Any, Any]] | None) -> dict[str, KnownGroups]:
    """Return people of known group by attribute, given as (their probabilities, the group of each); none for None."""
    return {
        name: KnownGroups.read(GroupProbabilities.read(name, probabilities), labels)
        for name, (probabilities, labels) in (given or {}).items()
    }


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


def _is_given(label: Any) -> bool:
    return label is not None and label == label  # NaN is not equal to itself
