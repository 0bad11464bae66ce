"""What a generator answered, in the order of the requests: a recorded sequence of items with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.core.text import format_count
from evenhand.errors import DataError, OptionError

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame


@dataclass(frozen=True)
class RecordedSequence:
    """The items of one condition, in the order of their requests.

    Attributes:
        name: which sequence it is.
        labels: group -> one label per item; None where the item is unrelated to the group or not recognisable.
        values: group -> the values that are to appear. Items with a label outside them do not count, and are listed.
        files: path of each item's picture; empty if not given.
        prompts: the prompt of each item; empty if not given.
        biased: group -> positions, from 0, of items that are left out because their prompt is not neutral.
        fixed: group -> positions of items without a label because their prompt fixed the value.
    """

    name: str
    labels: Mapping[str, tuple[str | None, ...]]
    values: Mapping[str, tuple[str, ...]]
    files: tuple[str | None, ...] = ()
    prompts: tuple[str | None, ...] = ()
    biased: Mapping[str, frozenset[int]] = field(default_factory=dict)
    fixed: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(labels) for labels in self.labels.values()}
        lengths |= {len(one) for one in (self.files, self.prompts) if one}
        if len(lengths) != 1:
            raise DataError("the groups of a sequence need one label per item each", location=self.name)
        for group in self.labels:
            values = self.values.get(group, ())
            if len(set(values)) != len(values) or len(values) < 2:
                raise OptionError(
                    f"group {group!r} has the values {', '.join(values) or '(none)'}",
                    location=self.name,
                    hint="a group needs at least two values, all different",
                )

    def __len__(self) -> int:
        return len(next(iter(self.labels.values())))

    def column(self, groups: Sequence[str]) -> list[tuple[str, ...] | None]:
        """Return each item's values of several groups taken together; None unless all of them are recognised."""
        known = [set(self.values[group]) for group in groups]
        return [
            tuple(label for label in row if label is not None)
            if all(label in own for label, own in zip(row, known, strict=True))
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
    sequence: str | None = None,
    image_column: str | None = None,
) -> list[RecordedSequence]:
    """Read recorded items: one row per item, in the order of the requests. An empty label means not recognised.

    Args:
        source: a CSV or Parquet file, or any data frame that narwhals knows.
        groups: columns of labels.
        conditions: column -> value; only the rows that have all of these are read.
        values: group -> its values; of the other groups, all that occur anywhere in the table, sorted. Items with
            another label do not count, and are listed; a label that is a misspelt value is refused.
        sequence_column: its values name sequences, which are read apart; without it the table is one sequence.
        sequence: only the sequence of that name.
        image_column: paths of pictures.

    Returns:
        The sequences, in the order of their first items.

    Raises:
        DataError: the file cannot be read, a column is not there, or no row meets the condition.
        OptionError: a group has fewer than two values.
    """
    table, location = read_source_table(source)
    names = [*groups, *(conditions or {}), *filter(None, (sequence_column, image_column))]
    columns = {name: read_text_column(table, name, location) for name in dict.fromkeys(names)}
    if not groups:
        raise OptionError("no group is named", hint="name a column of labels")
    for name in values or {}:
        if name not in groups:
            raise OptionError(
                f"values are given of {name!r}, which is not a group", hint=f"groups: {', '.join(groups)}"
            )
    domains = {
        group: tuple((values or {}).get(group) or sorted({label for label in columns[group] if label is not None}))
        for group in groups
    }
    for group, domain in domains.items():
        check_labels(columns[group], domain, group, location, given=group in (values or {}))
    kept = [
        i
        for i in range(len(columns[groups[0]]))
        if all(columns[name][i] == value for name, value in (conditions or {}).items())
    ]
    if not kept:
        said = " and ".join(f"{name} = {value}" for name, value in (conditions or {}).items())
        seen = "; ".join(f"{name}: {', '.join(sample_values(columns[name]))}" for name in conditions or {})
        raise DataError(
            f"no item has {said}" if said else "there are no items", location=location, hint=f"there are {seen}"
        )
    found = split_sequences(
        kept,
        {group: columns[group] for group in groups},
        domains,
        name=location,
        names=columns[sequence_column] if sequence_column else None,
        files=columns[image_column] if image_column else None,
    )
    if sequence is None:
        return found
    one = [each for each in found if each.name == sequence]
    if not one:
        raise DataError(
            f"there is no sequence {sequence!r}",
            location=location,
            hint=f"there are {', '.join(sample_values([each.name for each in found]))}",
        )
    return one


def split_sequences(
    rows: Sequence[int],
    labels: Mapping[str, Sequence[str | None]],
    values: Mapping[str, tuple[str, ...]],
    *,
    name: str,
    names: Sequence[str | None] | None = None,
    files: Sequence[str | None] | None = None,
    prompts: Sequence[str | None] | None = None,
    fixed: Mapping[str, frozenset[int]] | None = None,
) -> list[RecordedSequence]:
    """Return the rows of a table as sequences, in the order of their first items.

    Args:
        rows: the positions that count.
        labels, files, prompts: columns of the whole table.
        values: group -> its values.
        name: of the sequence, where rows are not told apart.
        names: of the sequence that each row belongs to.
        fixed: group -> rows whose prompt fixed its value.
    """
    parts: dict[str, list[int]] = {} if names is not None else {name: list(rows)}
    if names is not None:
        for i in rows:
            parts.setdefault(names[i] or "(no name)", []).append(i)
    return [
        RecordedSequence(
            part,
            {group: tuple(column[i] for i in own) for group, column in labels.items()},
            values,
            () if files is None else tuple(files[i] for i in own),
            () if prompts is None else tuple(prompts[i] for i in own),
            fixed={
                group: frozenset(at for at, i in enumerate(own) if i in rows_of and labels[group][i] is None)
                for group, rows_of in (fixed or {}).items()
            },
        )
        for part, own in parts.items()
    ]


def check_labels(
    column: Sequence[str | None], values: Sequence[str], name: str, location: str, *, given: bool = True
) -> None:
    """Refuse labels that are misspelt values: their items would silently count for nothing.

    Args:
        column: labels.
        values: of the group.
        name: of the column, for the message.
        given: whether the values were named; else they are all labels, and two may be one value in two spellings.

    Raises:
        DataError: a label differs from a value only in case, spaces or punctuation, or by one letter.
    """
    labels = sorted({label for label in column if label is not None} - set(values))
    pairs = ((label, value) for label in labels for value in values if _misspelt(label, value))
    hint = f"correct the label, or name it among the values: {', '.join(values)}"
    if not given:
        spelt: dict[str, str] = {}
        pairs = ((value, spelt[key]) for value in values if spelt.setdefault(key := _spelling(value), value) != value)
        hint = "correct the labels, or name the values that are meant: `values=`"
    found = next(pairs, None)
    if found is not None:
        label, value = found
        times = format_count(sum(one == label for one in column), "item", "items")
        raise DataError(
            f"{label!r} in the column {name!r} ({times}) is not the value {value!r}: did you mean {value!r}?",
            location=location,
            hint=hint,
        )


def _spelling(label: str) -> str:
    """Return a label without case, spaces and punctuation."""
    return "".join(letter for letter in label.casefold() if letter.isalnum()) or label


def _misspelt(label: str, value: str) -> bool:
    """Return whether two spellings differ in case and punctuation only, or, of words of 4 letters, by one letter."""
    one, other = _spelling(label), _spelling(value)
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < 4 or len(long) - len(short) > 1 or any(letter.isdigit() for letter in one + other):
        return False
    # Up to the first letter that differs all is the same; behind it, but for one letter changed, left out or added, or
    # two swapped, all must be.
    same = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    swapped = short[same : same + 2] == long[same : same + 2][::-1] and short[same + 2 :] == long[same + 2 :]
    if len(short) == len(long):
        return swapped or short[same + 1 :] == long[same + 1 :]
    return short[same:] == long[same + 1 :]


def read_source_table(source: Any) -> tuple[Any, str]:
    """Return a table and how it is called.

    Raises:
        DataError: a file cannot be read, or it is not a data frame.
    """
    import narwhals as nw

    if isinstance(source, str | Path):
        from evenhand.datasets.tables import read_words

        return nw.from_native(read_words(source), eager_only=True), Path(source).name
    try:
        return nw.from_native(source, eager_only=True), "the data frame"
    except TypeError:
        raise DataError(f"a {type(source).__name__} is not a data frame", hint="pandas, polars, pyarrow, ...") from None


def read_text_column(table: Any, name: str, location: str) -> list[str | None]:
    """Return a column as words; what is missing or empty is None.

    Raises:
        DataError: there is no such column.
    """
    if name not in table.columns:
        raise DataError(f"there is no column {name!r}", location=location, hint=f"there are {', '.join(table.columns)}")
    return [_cell_text(value) for value in table[name].to_list()]


def _cell_text(value: object) -> str | None:
    if value is None or value != value:  # NaN is the one value that differs from itself
        return None
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    return text or None


def sample_values(column: Sequence[str | None]) -> list[str]:
    """Return a few of the values of a column."""
    found = sorted({value for value in column if value is not None})
    return [*found[:8], *(["..."] if len(found) > 8 else [])] or ["none"]
