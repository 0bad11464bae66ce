"""Several labels that were given to people, with the true ones where these are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, SchemaError
from evenhand.schema.attribute import Value, find_value
from evenhand.schema.infer import guess_favourable, order_labels
from evenhand.schema.people import People
from evenhand.schema.rows import CodedColumn, is_missing, list_values, sort_key
from evenhand.schema.target import OutcomeRole
from evenhand.typing import Booleans, Integers

MOST_LABELS = 50
"""A column with more different values than this does not hold decisions."""


@dataclass(frozen=True)
class GivenLabels:
    """Which label everybody is given, and which is the true one.

    Attributes:
        names: all labels, in their order if they have one.
        decided: Positions of the decided labels in ``names``, shape (n,).
        truth: Positions of the true labels, -1 where unknown, shape (n,); None without a column of true labels.
        ordered: whether the labels have an order.
    """

    names: tuple[Value, ...]
    decided: Integers
    truth: Integers | None
    ordered: bool

    def at(self, rows: Integers) -> GivenLabels:
        """Return the labels of some people, by their positions, in that order."""
        return replace(self, decided=self.decided[rows], truth=None if self.truth is None else self.truth[rows])

    def worst_first(self, favourable: Value) -> GivenLabels:
        """Return grades in the order from worst to best, if the favourable one is the first; else the same."""
        if not self.ordered or favourable != self.names[0]:
            return self
        last = len(self.names) - 1
        truth = None if self.truth is None else np.where(self.truth < 0, -1, last - self.truth)
        return replace(self, names=self.names[::-1], decided=last - self.decided, truth=truth)


@dataclass(frozen=True)
class RecordedLabels:
    """Labels that were given to people, of several, or in an order; the model that gave them is not needed.

    Attributes:
        people: Everyone with a decided label. Their attributes define the groups, and their target is the decision.
            ``people.labels`` holds the true labels, -1 where unknown; None without a column of true labels.
        given: Decided and true labels.
        truth: Column of the true labels; None without one.
        undecided: Number of rows left out because they have no decided label.
    """

    people: People
    given: GivenLabels
    truth: str | None = None
    undecided: int = 0


def code_labels(
    columns: Sequence[Any], favourable: Value | None, outcome: OutcomeRole
) -> tuple[dict[str, Any], list[Integers]]:
    """Return what a schema says of a column of labels, and the code of everybody's label.

    Args:
        columns: the labels that were given, and where they are known the true ones.
        favourable: of labels in an order, the first or the last of them; by default the last.
        outcome: ``labels``, or ``ordinal`` with the order.

    Returns:
        The target's ``kind``, ``values`` and ``favourable``; and for each column positions in the values, -1 where
        there is no label, shape (n,).

    Raises:
        DataError: a column is empty, or there are too many labels.
        SchemaError: the order is not known, or lacks a label.
    """
    read = [CodedColumn.read(column) for column in columns]
    cells = [[label_of(value) for value in one.values] for one in read]
    present: list[Value] = sorted({label for label in cells[0] if label is not None}, key=sort_key)
    for column, labels in zip(columns, cells, strict=True):
        if all(label is None for label in labels):
            raise DataError(f"column {column.name!r} is empty")
        present += [one for one in dict.fromkeys(labels) if one is not None and find_value(one, present) is None]
    present = sorted(present, key=sort_key)
    name = columns[0].name
    if len(present) < 2:
        raise DataError(f"column {name!r} has one label only: {list_values(present)}")
    if len(present) > MOST_LABELS:
        numeric = all(isinstance(one, int | float) for one in present)
        raise DataError(
            f"expected {MOST_LABELS} labels at most in column {name!r}, got {len(present):,} different values",
            hint="if numbers are decided: `kind=number`" if numeric else "put rare labels together first",
        )
    target: dict[str, Any] = {"kind": "labels", "values": present}
    if outcome.kind == "ordinal":
        target = {"kind": "ordinal"} | order_labels(name, present, favourable, outcome.order)
    values: list[Value] = target["values"]
    codes = [
        np.array([-1 if one is None else _position(one, values) for one in labels], dtype=np.int64)[coded.codes]
        for coded, labels in zip(read, cells, strict=True)
    ]
    return target, codes


def label_of(value: Any) -> Value | None:
    """Return the label in a cell; None where there is none."""
    plain = value.strip() if isinstance(value, str) else value
    return None if is_missing(plain) or plain == "" else plain


def _position(label: Value, values: Sequence[Value]) -> int:
    found = find_value(label, values)
    assert found is not None  # every label that occurs is among them
    return list(values).index(found)


@dataclass(frozen=True)
class DecisionLabels:
    """A column of labels.

    Attributes:
        names: the labels that occur, the favourable one last.
        known, favourable: where there is one, and where it is the favourable one, shape (n,).
    """

    names: tuple[Value, ...]
    known: Booleans
    favourable: Booleans

    @classmethod
    def read(cls, column: Any, favourable: Value | None, *, strict: bool) -> DecisionLabels:
        """Return a column's labels; where not ``strict``, a favourable label that does not occur is guessed instead."""
        coded = CodedColumn.read(column)
        labels = [label_of(value) for value in coded.values]
        present: list[Value] = sorted({label for label in labels if label is not None}, key=sort_key)
        if not present:
            raise DataError(f"column {column.name!r} is empty")
        if len(present) > MOST_LABELS:
            raise DataError(
                f"expected decisions in column {column.name!r}, got {len(present):,} different values",
                hint="if these are scores: `y_score=...` with `threshold=0.5`, and no decisions; "
                "if numbers are decided: `kind=number`",
            )
        good = None if favourable is None else find_value(favourable, present)
        if favourable is not None and good is None and strict and len(present) > 1:
            raise SchemaError(
                f"the favourable label {favourable!r} does not occur in {column.name!r}",
                hint=f"the labels are: {list_values(present)}",
            )
        if good is None and (favourable is None or not strict):
            # Where everybody was decided alike, the label that does not occur is thought of too.
            binary = len(present) == 1 and present[0] in (0, 1)
            good = guess_favourable(column.name, [present[0], opposite_label(present[0])] if binary else present)
        if good is None:
            assert favourable is not None
            good = favourable  # everybody was given another label
        rest = [value for value in present if value != good]
        known = np.array([label is not None for label in labels])[coded.codes]
        given = np.array([label == good for label in labels])[coded.codes]
        return cls((*(rest or [opposite_label(good)]), good), known, given)


def different_labels(column: Any) -> set[Value]:
    """Return the different labels of a column."""
    return {one for one in (label_of(value) for value in CodedColumn.read(column).values) if one is not None}


def opposite_label(label: Value) -> Value:
    """Return a name for the label that does not occur, where everybody was given the same one."""
    if isinstance(label, bool):
        return not label
    return 1 - label if label in (0, 1) else f"not {label}"
