"""Recorded sequences of items, and functions that read them from tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.core.text import format_count
from evenhand.datasets.cells import to_word
from evenhand.errors import DataError, OptionError
from evenhand.genai.spec.entries import check_known
from evenhand.schema.table import means_unknown, refuse_totals

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame


@dataclass(frozen=True)
class RecordedSequence:
    """Items for one condition, in request order.

    Attributes:
        name: Name of the sequence.
        labels: Labels of the items by group. None if no value is recognisable.
        values: Values of each group. Items with other labels are not counted.
        files: Paths of the items. Empty if there are none.
        prompts: Prompts of the items. Empty if they are unknown.
        biased: Positions of items that are excluded because their prompt is not neutral, by group, from 0.
        fixed: Positions of items without a label because their prompt fixed the value, by group, from 0.
        condition: Name of the condition in a configuration. None if there is none.
    """

    name: str
    labels: Mapping[str, tuple[str | None, ...]]
    values: Mapping[str, tuple[str, ...]]
    files: tuple[str | None, ...] = ()
    prompts: tuple[str | None, ...] = ()
    biased: Mapping[str, frozenset[int]] = field(default_factory=dict)
    fixed: Mapping[str, frozenset[int]] = field(default_factory=dict)
    condition: str | None = None

    def __post_init__(self) -> None:
        columns = [*self.labels.values(), *filter(None, (self.files, self.prompts))]
        if len(set(map(len, columns))) != 1:
            raise DataError("the groups of a sequence require one label per item", location=self.name)
        for group in self.labels:
            values = self.values.get(group, ())
            if len(set(values)) != len(values) or len(values) < 2:
                raise OptionError(
                    f"group {group!r} has the values {', '.join(values) or '(none)'}",
                    location=self.name,
                    hint="name at least two distinct values",
                )

    def __len__(self) -> int:
        return len(next(iter(self.labels.values())))

    def column(self, groups: Sequence[str]) -> list[tuple[str, ...] | None]:
        """Return the combined values of several groups for each item. None unless all are recognised."""
        domains = [set(self.values[group]) for group in groups]
        return [
            tuple(label for label in row if label is not None)
            if all(label in domain for label, domain in zip(row, domains, strict=True))
            else None
            for row in zip(*(self.labels[group] for group in groups), strict=True)
        ]


def read_sequences(
    source: str | Path | IntoDataFrame,
    groups: Sequence[str],
    *,
    conditions: Mapping[str, str] | None = None,
    values: Mapping[str, Sequence[str]] | None = None,
    sequence_column: str | None = None,
    image_column: str | None = None,
) -> list[RecordedSequence]:
    """Read recorded items from a table with one row per item, in the order of the requests.

    Args:
        source: CSV or Parquet file, or data frame.
        groups: Columns of labels. An empty label is an unrecognised value.
        conditions: Required value by column. Other rows are ignored.
        values: Values by group. Default: all labels of the column that do not mean "unknown", sorted. Items with other
            labels are listed but not counted.
        sequence_column: Column of sequence names. If None, the table is one sequence.
        image_column: Column of file paths.

    Returns:
        The sequences, in the order of their first items.

    Raises:
        DataError: The file is unreadable, a column is missing, a label is a misspelt value, or no row matches.
        OptionError: A group has fewer than two values.
    """
    table = ItemTable(source)
    if not groups:
        raise OptionError("no group is named", hint="name a column of labels")
    stated = values or {}
    for name in stated:
        check_known(name, groups, "group", "`values=`")
    domains = {group: tuple(stated.get(group) or list_known(table.column(group))) for group in groups}
    for group, domain in domains.items():
        table.check_labels(group, domain, stated=group in stated)
    conditions = conditions or {}
    rows = table.select(conditions)
    if not rows:
        condition = " and ".join(f"{name} = {value}" for name, value in conditions.items())
        raise DataError(
            f"no item has {condition}" if condition else "there are no items",
            location=table.name,
            hint=f"there are {table.sample(list(conditions))}",
        )
    return table.split(rows, dict.fromkeys(groups), domains, sequence_column=sequence_column, image_column=image_column)


class ItemTable:
    """Table of items in a CSV or Parquet file, or a data frame, whose cells are read as words.

    Attributes:
        name: Name of the file.
        columns: Names of the columns.

    Raises:
        DataError: The file is unreadable, the source is not a data frame, or a row totals the others.
    """

    def __init__(self, source: Any) -> None:
        import narwhals as nw

        if isinstance(source, str | Path):
            from evenhand.datasets.tables import read_frame

            self._table, self.name = nw.from_native(read_frame(source, words=True), eager_only=True), Path(source).name
        else:
            try:
                self._table, self.name = nw.from_native(source, eager_only=True), "the data frame"
            except TypeError:
                raise DataError(
                    f"expected a data frame, got a {type(source).__name__}", hint="pass a pandas or polars frame"
                ) from None
        refuse_totals(self._table)
        self.columns: list[str] = self._table.columns
        self._read: dict[str, list[str | None]] = {}

    def column(self, name: str) -> list[str | None]:
        """Return a column. Empty and missing cells are None. Raises a DataError if there is no such column."""
        if name not in self._read:
            if name not in self.columns:
                raise DataError(
                    f"there is no column {name!r}", location=self.name, hint=f"there are {', '.join(self.columns)}"
                )
            self._read[name] = [(to_word(cell) or "").strip() or None for cell in self._table[name].to_list()]
        return self._read[name]

    def select(self, conditions: Mapping[str, str]) -> list[int]:
        """Return the positions of the rows with the required value in each column, which must have one spelling."""
        columns = {name: self.column(name) for name in conditions}
        for name, column in columns.items():
            alike = {label for label in column if label and _spelling(label) == _spelling(conditions[name])}
            self.check_labels(name, sorted(alike), stated=False)
        return [i for i in range(len(self._table)) if all(columns[name][i] == conditions[name] for name in columns)]

    def split(
        self,
        rows: Sequence[int],
        groups: Mapping[str, str | None],
        values: Mapping[str, tuple[str, ...]],
        *,
        condition: str | None = None,
        sequence_column: str | None = None,
        image_column: str | None = None,
        prompt_column: str | None = None,
        fixed: Sequence[Collection[str]] = (),
    ) -> list[RecordedSequence]:
        """Split rows into sequences, in the order of their first items.

        Args:
            rows: Positions of the rows.
            groups: Column of each group. None if it has the name of the group.
            values: Values of each group.
            condition: Name of the condition of the rows, which is part of the names of the sequences.
            sequence_column: Column of sequence names. If None, all rows are one sequence.
            image_column, prompt_column: Columns of file paths and prompts.
            fixed: Groups whose value the prompt of each row of the table fixed, if known.
        """
        parts: dict[str, list[int]] = {}
        if sequence_column is None:
            parts[condition or self.name] = list(rows)
        else:
            names = self.column(sequence_column)
            for i in rows:
                name = names[i] or "(no name)"
                parts.setdefault(name if condition is None else f"{name}, {condition}", []).append(i)
        labels = {group: self.column(column or group) for group, column in groups.items()}
        files, prompts = (None if name is None else self.column(name) for name in (image_column, prompt_column))
        return [
            RecordedSequence(
                name,
                {group: tuple(column[i] for i in part) for group, column in labels.items()},
                values,
                () if files is None else tuple(files[i] for i in part),
                () if prompts is None else tuple(prompts[i] for i in part),
                fixed={
                    group: frozenset(k for k, i in enumerate(part) if fixed and group in fixed[i] and column[i] is None)
                    for group, column in labels.items()
                },
                condition=condition,
            )
            for name, part in parts.items()
        ]

    def sample(self, names: Sequence[str]) -> str:
        """List a few values of each of several columns."""
        return "; ".join(f"{name}: {', '.join(sample_values(self.column(name)))}" for name in names)

    def check_labels(self, name: str, values: Sequence[str], *, stated: bool = True) -> None:
        """Refuse misspelt labels, whose items would silently not be counted.

        Args:
            name: Column of labels.
            values: Values of the group.
            stated: Whether the values were stated. Otherwise they are all labels, and two of them may be spellings of
                the same value.

        Raises:
            DataError: No label is a value, or one differs from a value only in case, spaces, punctuation or one letter.
        """
        column = self.column(name)
        if stated:
            present = {label for label in column if label is not None}
            labels = sorted(present - set(values))
            pairs = [(label, value) for label in labels for value in values if _is_misspelt(label, value)]
            hint = f"correct the label, or name it among the values: {', '.join(values)}"
            if labels and not pairs and not present & set(values):
                message = f"no label in the column {name!r} is a value: {', '.join(sample_values(labels))}"
                raise DataError(message, location=self.name, hint=f"the values are {', '.join(values)}")
        else:
            spellings: dict[str, str] = {}
            pairs = [
                (value, own) for value in values if (own := spellings.setdefault(_spelling(value), value)) != value
            ]
            hint = "use one spelling in the data"
        if pairs:
            label, value = pairs[0]
            times = format_count(column.count(label), "item", "items")
            raise DataError(
                f"{label!r} in the column {name!r} ({times}) is not the value {value!r}: did you mean {value!r}?",
                location=self.name,
                hint=hint,
            )


def _spelling(label: str) -> str:
    """Remove case, spaces and punctuation."""
    return "".join(letter for letter in label.casefold() if letter.isalnum()) or label


def _is_misspelt(label: str, value: str) -> bool:
    """Check whether two labels differ only in case and punctuation or, with 4 or more letters, by one letter."""
    words = _spelling(label), _spelling(value)
    if words[0] == words[1]:
        return True
    if min(map(len, words)) < 4 or any(letter.isdigit() for letter in "".join(words)):
        return False
    shortened, others = ({word, *(word[:i] + word[i + 1 :] for i in range(len(word)))} for word in words)
    return not shortened.isdisjoint(others)


def list_known(labels: Iterable[str | None]) -> list[str]:
    """List the distinct labels that do not mean "unknown", sorted."""
    return sorted({label for label in labels if label is not None and not means_unknown(label)})


def sample_values(column: Iterable[str | None]) -> list[str]:
    """Return a few values of a column."""
    values = sorted({value for value in column if value is not None})
    return [*values[:8], *(["..."] if len(values) > 8 else [])] or ["none"]
