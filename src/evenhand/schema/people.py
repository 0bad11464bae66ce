"""From a data frame to individuals and back: the boundary where bad data is refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenhand.core import TableReading
from evenhand.errors import DataError
from evenhand.schema.attribute import Attribute, NumberFormat, Value
from evenhand.schema.outcome import OutcomeColumn
from evenhand.schema.reading import count_words, describe_target, describe_types
from evenhand.schema.rows import CodedColumn, is_missing, list_values, plain_value, value_key
from evenhand.schema.schema import Schema
from evenhand.schema.words import outcome_key, read_number, truth_key, word_of
from evenhand.typing import Booleans, Floats, Integers

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

T = TypeVar("T")

RowLocator: TypeAlias = Callable[[str, int, Any], str]
"""Where a row is in the data, by the column, its position and its value there."""


@dataclass(frozen=True)
class People:
    """Individuals read from data, with their true labels.

    Attributes:
        schema: what the columns mean; its target lists every label.
        individuals: shape (n, attributes), see ``Attribute`` for the entries. Where the schema says ``carries_rows``
            there is one more column, the last: the row of ``frame`` whose passthrough columns, and whose words for
            unknown values, an individual carries. Copies of a person keep it, whatever else is changed.
        labels: Positions in ``schema.target.values``, -1 where the true label is unknown, shape (n,). None if the data
            has no target column.
        rows: shape (n,), the row of the frame each came from (0 is the first).
        dropped: how many rows were left out because a ``missing: drop`` attribute or the target was missing.
        frame: the frame they came from, in the user's own type.
        numbers: True numbers if the target is a number, NaN where unknown, shape (n,); ``labels`` is None then.
        counts: shape (n,), how many people each entry stands for, where people were counted by what they share; None
            where each stands for one.
        untyped: Whether the frame was read from a text table, which does not state the types of its columns.
        reading: How the table was read; None if the people come from no table. Subsets keep it.
    """

    schema: Schema
    individuals: Floats
    labels: Integers | None
    rows: Integers
    dropped: int
    frame: Any
    numbers: Floats | None = None
    counts: Integers | None = None
    untyped: bool = False
    reading: TableReading | None = None

    def __len__(self) -> int:
        return len(self.individuals)

    @property
    def size(self) -> int:
        """How many people there are."""
        return len(self) if self.counts is None else int(self.counts.sum())

    @property
    def favourable(self) -> Booleans:
        """Who truly has the favourable label, shape (n,). Only where there are labels."""
        self.schema.target.require_labels("this analysis")
        values = self.schema.target.values
        if self.labels is None or values is None:
            raise DataError(f"the data has no column {self.schema.target.name!r} with the true label")
        return np.asarray(self.labels == values.index(self.schema.target.favourable))

    @property
    def unlabelled(self) -> int:
        """Number of people whose true label or number is unknown; 0 if the data has no target column."""
        unknown = np.zeros(len(self), dtype=np.bool_)
        if self.labels is not None:
            unknown = self.labels < 0
        elif self.numbers is not None:
            unknown = np.isnan(self.numbers)
        return int(unknown.sum() if self.counts is None else self.counts[unknown].sum())

    @property
    def true_labels(self) -> Integers:
        """True labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,). Only where there are labels."""
        favourable = self.favourable
        assert self.labels is not None  # ``favourable`` raises otherwise
        return np.where(self.labels < 0, -1, favourable.astype(np.int64))

    def is_known(self, names: Iterable[str]) -> Booleans:
        """Return whose value is known of all these attributes, as far as any is declared ``unknown``, shape (n,)."""
        columns = [self.schema.position(name) for name in names if self.schema[name].unknown is not None]
        return np.asarray(~np.isnan(self.individuals[:, columns]).any(axis=1))

    def count_unknown(self) -> dict[str, int]:
        """Return how many people's value is not known, by attribute that declares what stands for ``unknown``."""
        declared = [one.name for one in self.schema.attributes if one.unknown is not None]
        counts = np.ones(len(self), dtype=np.int64) if self.counts is None else self.counts
        return {name: int(counts[~self.is_known([name])].sum()) for name in declared}

    def carried_columns(self) -> list[list[Any]]:
        """Return the passthrough columns of these people, each a list of n values as they stand in the data."""
        import narwhals as nw

        if not self.schema.passthrough:
            return []
        table = nw.from_native(self.frame, eager_only=True)[self.rows.tolist()]
        return [table[name].to_list() for name in self.schema.passthrough]

    def first_carried(self) -> dict[str, Any]:
        """Return the passthrough columns of the first row of the data by name: what everybody in a search carries."""
        import narwhals as nw

        if not self.schema.passthrough:
            return {}
        table = nw.from_native(self.frame, eager_only=True)
        return {name: plain_value(table[name][0]) for name in self.schema.passthrough}

    def at(self, rows: Integers) -> People:
        """Return some of the people, by their positions among these, in that order."""
        return replace(
            self,
            individuals=self.individuals[rows],
            labels=None if self.labels is None else self.labels[rows],
            numbers=None if self.numbers is None else self.numbers[rows],
            rows=self.rows[rows],
            counts=None if self.counts is None else self.counts[rows],
        )


def encode(
    schema: Schema,
    frame: IntoDataFrame,
    *,
    location: str = "data",
    counts: Integers | None = None,
    locate: RowLocator | None = None,
) -> People:
    """Read individuals from any data frame that narwhals knows (pandas, polars, pyarrow, ...).

    Args:
        schema: what the columns mean. A target without ``values`` gets them from the data.
        frame: one row per person; columns that the schema does not name are ignored.
        location: how to call the data in messages.
        counts: how many people each row stands for, shape (n,); None: one.
        locate: where a row is in the data, by column, position and value, for messages; None: it is the position.

    Raises:
        DataError: a column is missing, a value is outside its domain, or missing where it must not be;
            the message names column, value and row (counting from 1; with counts, how many rows).
    """
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    absent = [name for name in schema.columns if name not in table.columns]
    if absent:
        raise DataError(
            f"column {absent[0]!r} is missing",
            location=location,
            hint=f"the columns are: {', '.join(table.columns)}",
        )
    if len(table) == 0:
        raise DataError("there are no rows", location=location)

    def read(name: str) -> CodedColumn:
        return CodedColumn.read(table[name], counts, None if locate is None else partial(locate, name))

    columns = [read(name) for name in schema.names]
    gone = [
        _missing_mask(column, schema.missing_markers) | _unknown_mask(column, attribute.unknown)
        for attribute, column in zip(schema.attributes, columns, strict=True)
    ]
    keep = np.ones(len(table), dtype=bool)
    left_out: dict[str, int] = {}
    for attribute, column, missing in zip(schema.attributes, columns, gone, strict=True):
        if attribute.missing == "drop" and (missing & keep).any():
            left_out[f"without a value of {attribute.name}"] = column.people(missing & keep)
            keep &= ~missing
    for attribute, column, missing in zip(schema.attributes, columns, gone, strict=True):
        lacking = missing & keep
        if attribute.missing == "refuse" and attribute.unknown is None and lacking.any():
            raise DataError(
                f"column {attribute.name!r}, {column.place(lacking)}: the value is missing "
                f"({column.people(lacking)} of {column.people(np.ones(len(table), dtype=bool))} rows)",
                location=location,
                hint="fill it in, or say `missing: drop`, `missing: keep` or `unknown: []` for it in the schema",
            )
    entries = [
        # A row that is dropped for one value may hold anything in the others.
        _encode_attribute(attribute, column, missing | ~keep, location)
        for attribute, column, missing in zip(schema.attributes, columns, gone, strict=True)
    ]
    labels, numbers = None, None
    if schema.target.name in table.columns and schema.target.is_number:
        numbers = _encode_target_numbers(schema, read(schema.target.name), keep, location)
    elif schema.target.name in table.columns:
        schema, labels = _encode_labels(schema, read(schema.target.name), keep, location)
    rows = np.flatnonzero(keep)
    if len(rows) == 0:
        raise DataError("no row is left after dropping those with missing values", location=location)
    if schema.carries_rows:
        entries.append(np.arange(len(table), dtype=np.float64))
    individuals = np.empty((len(rows), len(entries)))
    for i, column_entries in enumerate(entries):
        individuals[:, i] = column_entries if len(rows) == len(keep) else column_entries[rows]
    reading = TableReading(
        rows=columns[0].people(np.ones(len(table), dtype=bool)),
        used=columns[0].people(keep),
        left_out=left_out,
        true_label=None if labels is None and numbers is None else describe_target(schema.target),
        unknown={
            attribute.name: count_words(column, missing & keep)
            for attribute, column, missing in zip(schema.attributes, columns, gone, strict=True)
            if attribute.unknown is not None
        },
        types=describe_types(schema.attributes, columns),
    )
    return People(
        schema=schema,
        individuals=individuals,
        labels=None if labels is None else labels[rows],
        rows=rows,
        dropped=columns[0].people(~keep),
        frame=frame,
        numbers=None if numbers is None else numbers[rows],
        counts=None if counts is None else counts[rows],
        reading=reading,
    )


def decode(schema: Schema, individuals: Floats, *, like: Any = None, rows: Any = None) -> Any:
    """Return individuals as a data frame in the data's own words: pandas, or the type and column types of ``like``.

    A bin of an ordinal attribute with ``edges`` becomes its midpoint, since a model that reads frames
    was trained on the numbers themselves.

    Args:
        schema: what the individuals are.
        individuals: shape (n, attributes). Where the schema carries rows, one more entry is the row of ``rows`` that
            passthrough columns and words for unknown values are taken from; without this entry it is the first row.
        like: a frame whose type and column types are wanted.
        rows: the frame that individuals carry rows of; by default ``like``. Without any there are attributes alone.
    """
    import narwhals as nw

    columns: dict[str, Any] = {
        attribute.name: _write_numbers(attribute, _decode_attribute(attribute, individuals[:, i]))
        for i, attribute in enumerate(schema.attributes)
    }
    rows = like if rows is None else rows
    carried: dict[str, Any] = {}
    if schema.carries_rows and rows is not None:
        carried = _carried_columns(schema, individuals, nw.from_native(rows, eager_only=True), columns)
    if like is None:
        import pandas as pd

        as_they_stand = {name: pd.Series(series.to_list(), dtype=object) for name, series in carried.items()}
        return pd.DataFrame(columns | as_they_stand)
    template = nw.from_native(like, eager_only=True)
    if template.implementation.is_pandas():
        import pandas as pd

        as_numbers = {one.name for one in schema.attributes if one.written and one.written.given == "number"}
        spelled = {
            attribute.name: _spell_like(columns[attribute.name], like[attribute.name])
            for attribute in schema.attributes
            if not (attribute.written or all(isinstance(value, str) for value in attribute.values or (0,)))
            and attribute.name in like.columns
            and pd.api.types.is_string_dtype(like[attribute.name].dtype)
        }
        frame = pd.DataFrame(columns | spelled)
        wanted = {name: like[name].dtype for name in frame.columns if name in like.columns and name not in as_numbers}
        lossy = {name for name in wanted if _cast_loses_values(frame[name], wanted[name])}
        frame = frame.astype({name: dtype for name, dtype in wanted.items() if name not in lossy})
        for name, series in carried.items():
            frame[name] = series.to_native().reset_index(drop=True)
        return frame[[name for name in like.columns if name in frame.columns]] if carried else frame
    lists = {name: [None if is_missing(value) else value for value in column] for name, column in columns.items()}
    built = nw.from_dict(lists, backend=template.implementation)
    casts = [nw.col(name).cast(template.schema[name]) for name in built.columns if name in template.columns]
    built = built.with_columns(*casts, *carried.values())
    return (
        built.select([name for name in template.columns if name in built.columns]).to_native()
        if carried
        else (built.to_native())
    )


def _spell_like(values: NDArray[Any], column: Any) -> NDArray[Any]:
    """Write numbers and truth values as the words of a pandas column, such as ``3.10`` for 3.1 and ``TRUE`` for True.

    Values that do not occur in the column stay as they are.
    """
    import pandas as pd

    codes, distinct = pd.factorize(values)
    words = {_spelling_key(word): word for word in reversed(column.dropna().unique().tolist())}
    spelled = np.empty(len(distinct) + 1, dtype=object)
    spelled[:-1] = [value if isinstance(value, str) else words.get(_spelling_key(value), value) for value in distinct]
    spelled[-1] = np.nan  # missing values have the code -1
    return spelled[codes]


def _spelling_key(value: Any) -> str | float:
    return truth_key(value) or read_number(value)


def _carried_columns(schema: Schema, individuals: Floats, rows: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the passthrough columns of individuals, and put what stands for unknown values into ``columns``.

    What an individual carries is the cell of its row of the data.
    """
    width = len(schema.attributes)
    carried = individuals[:, width] if individuals.shape[1] > width else np.zeros(len(individuals))
    at = carried.astype(np.int64).tolist()
    for i, attribute in enumerate(schema.attributes):
        if attribute.unknown is None or attribute.name not in rows.columns:
            continue
        gone = np.flatnonzero(np.isnan(individuals[:, i]))
        if len(gone):
            cells = rows[attribute.name][[at[row] for row in gone]].to_list()
            filled = columns[attribute.name].astype(object)
            if attribute.kind == "integer" and columns[attribute.name].dtype.kind != "O":
                filled = np.array([value if is_missing(value) else int(value) for value in filled], dtype=object)
            for row, cell in zip(gone, cells, strict=True):
                filled[row] = np.nan if is_missing(cell) else plain_value(cell)
            columns[attribute.name] = filled
    return {name: rows[name][at] for name in schema.passthrough if name in rows.columns}


def _cast_loses_values(column: Any, dtype: Any) -> bool:
    """Return whether casting would fail or lose a value, as with half-way midpoints or missing values as integers."""
    kind = getattr(dtype, "kind", "O")
    return kind in "iub" and column.dtype.kind == "f" and not bool((column == column.round()).all())


def _missing_mask(column: CodedColumn, markers: tuple[str, ...]) -> Booleans:
    if column.array is not None:
        return column.missing()
    marked = set(markers)
    return column.each(lambda value: is_missing(value) or (isinstance(value, str) and value.strip() in marked))


def _unknown_mask(column: CodedColumn, unknown: tuple[Value, ...] | None) -> Booleans:
    words = {word_of(value) for value in unknown or ()}
    return column.each(lambda value: word_of(value) in words) if words else np.zeros(len(column), dtype=np.bool_)


def _encode_attribute(attribute: Attribute, column: CodedColumn, missing: Booleans, location: str) -> Floats:
    if attribute.is_discrete and attribute.edges is None:
        entries = _encode_values(attribute, column, missing, location)
    else:
        written = attribute.written
        entries = column.numbers(read_number if written is None else lambda value: _written_number(written, value))
        entries[missing] = np.nan
        wrong = ~missing & ~np.isfinite(entries)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"column {attribute.name!r}, {column.place(wrong)}: {column.at(row)!r} is not a finite number"
                + ("" if written is None else f" written like {written.write(attribute.last_number)!r}"),
                location=location,
                hint=None if written is None else "correct the value, or `written` in the schema",
            )
        if attribute.edges is not None:
            entries = _encode_bins(attribute, attribute.edges, entries, column, missing, location)
    outside = ~missing & ~attribute.contains(entries)
    if outside.any():
        row = int(np.argmax(outside))
        whole = "a whole number " if attribute.kind == "integer" else ""
        raise DataError(
            f"column {attribute.name!r}, {column.place(outside)}: {column.at(row)!r} is not {whole}"
            f"between {attribute.first:g} and {attribute.last:g}",
            location=location,
            hint="correct the value, or widen lower and upper in the schema",
        )
    return entries


def _encode_values(attribute: Attribute, column: CodedColumn, missing: Booleans, location: str) -> Floats:
    values = attribute.values or ()
    code: dict[tuple[bool, Hashable], float] = {value_key(value): float(i) for i, value in enumerate(values)}
    # 1 and "1" are one value, unless both are listed.
    by_word: dict[str, float] = {}
    for i, value in enumerate(values):
        by_word.setdefault(word_of(value), float(i))

    def position(value: Any) -> float:
        if not isinstance(value, Hashable):
            return np.nan
        return code.get(value_key(value), by_word.get(word_of(value), np.nan))

    entries = column.look_up(position)
    entries[missing] = np.nan
    unlisted = np.isnan(entries) & ~missing
    if unlisted.any():
        if len(np.unique(column.codes[unlisted])) > 1:
            message = f"column {attribute.name!r} has values that are not listed: {column.describe(unlisted)}"
        else:
            value = column.at(int(np.argmax(unlisted)))
            message = f"column {attribute.name!r}, {column.place(unlisted)}: {value!r} is not one of its values"
        raise DataError(
            message,
            location=location,
            hint=f"the values are: {list_values(values)}; add them to the schema or correct the data",
        )
    return entries


def _written_number(written: NumberFormat, value: Any) -> float:
    """Return a cell that is written as a word as its number; a number as it is; NaN for anything else."""
    return written.read(value) if isinstance(value, str) else read_number(value)


def _encode_bins(
    attribute: Attribute,
    edges: tuple[float, ...],
    numbers: Floats,
    column: CodedColumn,
    missing: Booleans,
    location: str,
) -> Floats:
    outside = ~missing & ((numbers < edges[0]) | (numbers > edges[-1]))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"column {attribute.name!r}, {column.place(outside)}: {column.at(row)!r} lies outside its bins, "
            f"{edges[0]:g} to {edges[-1]:g}",
            location=location,
            hint="correct the value, or widen the edges in the schema",
        )
    codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2).astype(np.float64)
    codes[missing] = np.nan
    return codes


def _encode_target_numbers(schema: Schema, column: CodedColumn, keep: Booleans, location: str) -> Floats:
    """Return the true numbers, shape (rows,); NaN in rows that are not kept."""
    name, numbers = schema.target.name, column.numbers(read_number)
    numbers[_missing_mask(column, schema.missing_markers) | ~keep] = np.nan
    wrong = ~np.isfinite(numbers) & keep
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"target column {name!r}, {column.place(wrong)}: expected a finite number, got {column.at(row)!r} "
            f"({column.people(wrong):,} such rows)",
            location=location,
            hint="fill it in or remove the row; or say `kind=label` for labels",
        )
    return numbers


def _encode_labels(schema: Schema, column: CodedColumn, keep: Booleans, location: str) -> tuple[Schema, Integers]:
    """Return the schema with all labels of the target, and the position of each row's label, -1 where not kept."""
    target, name = schema.target, schema.target.name
    labels = OutcomeColumn.read(column, name)
    stated = [match for value in target.values or () if (match := labels.find(value)) is not None]
    # Markers of missing values, and words for "unknown" that are no labels of the target.
    markers = [match for marker in schema.missing_markers if (match := labels.find(marker)) is not None]
    markers += labels.unknown_words(stated) if stated else []
    positions = np.array([labels.words.index(word) for word in markers], dtype=np.int64)
    lacking = keep & ((labels.positions < 0) | np.isin(labels.positions, positions))
    if lacking.any():
        raise DataError(
            f"target column {name!r}, {column.place(lacking)}: the label is missing",
            location=location,
            hint="fill it in or remove the row",
        )
    words = [labels.words[i] for i in np.unique(labels.positions[keep])]
    if target.values is None:
        several = target.kind == "labels"
        last = [] if several else labels.require([target.favourable], "favourable")
        ordered = (*(word for word in words if word not in last), *last)
        if len(ordered) < 2:
            raise DataError(
                f"the target column {name!r} has one class only: {list_values(ordered)}",
                location=location,
                hint="an audit needs people with and without the favourable label",
            )
        described = target.model_copy(update={"values": ordered} | ({} if several else {"favourable": last[0]}))
        schema = schema.model_copy(update={"target": described})
        # model_copy keeps cached properties; these depend on attributes only, which did not change.
    place = {outcome_key(value): i for i, value in enumerate(schema.target.values or ())}
    unlisted = [word for word in words if outcome_key(word) not in place]
    if unlisted:
        raise DataError(
            f"target column {name!r} has labels that the schema does not list: {labels.describe(unlisted)}",
            location=location,
            hint=f"the labels are: {list_values(schema.target.values)}; add them to the schema or correct the data",
        )
    codes = np.array([*(place.get(outcome_key(word), -1) for word in labels.words), -1], dtype=np.int64)
    return schema, np.where(keep, codes[labels.positions], -1)


def _write_numbers(attribute: Attribute, values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as they are written in the data, where the model is given words."""
    written = attribute.written
    if written is None or written.given == "number":
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = [np.nan if value != value else written.write(float(value)) for value in values]
    return out


def _decode_attribute(attribute: Attribute, entries: Floats) -> NDArray[Any]:
    missing = np.isnan(entries)
    if attribute.edges is not None:
        middles = (np.asarray(attribute.edges[:-1]) + np.asarray(attribute.edges[1:])) / 2
        out: NDArray[Any] = middles[np.where(missing, 0, entries).astype(np.int64)]
        out[missing] = np.nan
        return out
    if attribute.values is not None:
        out = _value_array(attribute.values)[np.where(missing, 0, entries).astype(np.int64)]
        if missing.any():
            out = out.astype(object)
            out[missing] = np.nan
        return out
    if attribute.kind == "integer" and not missing.any():
        return entries.astype(np.int64)
    return entries


def _value_array(values: tuple[Value, ...]) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.array(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
