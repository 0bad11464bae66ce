"""Conversion between data frames and encoded individuals."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenhand.core.reading import TableReading
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.schema.attribute import Attribute, NumberFormat, Value
from evenhand.schema.outcome import OutcomeColumn
from evenhand.schema.reading import count_words, describe_target, describe_types
from evenhand.schema.rows.coded import CodedColumn, is_missing, list_values, plain_value, value_key
from evenhand.schema.schema import Schema
from evenhand.schema.words import outcome_key, read_number, truth_key, word_of

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

T = TypeVar("T")

RowLocator: TypeAlias = Callable[[str, int, Any], str]
"""Function from a column, a row's position and its value to the place of the row in the data."""


@dataclass(frozen=True)
class People:
    """Encoded individuals with their true labels.

    Attributes:
        schema: schema of the columns; its target lists every label.
        individuals: shape (n, attributes), see ``Attribute`` for the entries. If ``schema.carries_rows``, the last
            column is an additional one: the row of ``frame`` with the individual's passthrough columns and words for
            unknown values. Variants of a person keep it.
        labels: positions in ``schema.target.values``, -1 where the true label is unknown, shape (n,). None if the data
            has no target column.
        rows: row of the frame of each person, from 0, shape (n,).
        dropped: number of rows left out because the value of a ``missing: drop`` attribute was missing.
        frame: data frame of the people, in the user's own type.
        numbers: true numbers if the target is a number, NaN where unknown, shape (n,); ``labels`` is None then.
        counts: number of people per entry, shape (n,); None for one each.
        untyped: whether the frame was read from a text table, which does not state the types of its columns.
        reading: how the table was read. None if the people come from no table. Subsets keep it.
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
        """Number of people."""
        return self._count(np.ones(len(self), dtype=np.bool_))

    def _count(self, mask: Booleans) -> int:
        return int(mask.sum() if self.counts is None else self.counts[mask].sum())

    @property
    def favourable(self) -> Booleans:
        """Mask of people with the favourable true label, shape (n,)."""
        self.schema.target.require_labels("this analysis")
        values = self.schema.target.values
        if self.labels is None or values is None:
            raise DataError(f"the data has no column {self.schema.target.name!r} with the true label")
        return np.asarray(self.labels == values.index(self.schema.target.favourable))

    @property
    def unlabelled(self) -> int:
        """Number of people whose true label or number is unknown; 0 if the data has no target column."""
        if self.labels is not None:
            return self._count(self.labels < 0)
        return 0 if self.numbers is None else self._count(np.isnan(self.numbers))

    @property
    def true_labels(self) -> Integers:
        """True labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,)."""
        favourable = self.favourable
        assert self.labels is not None  # ``favourable`` raises otherwise
        return np.where(self.labels < 0, -1, favourable.astype(np.int64))

    def is_known(self, names: Iterable[str]) -> Booleans:
        """Return the mask of people whose values of all these attributes are known, shape (n,)."""
        columns = [self.schema.position(name) for name in names if self.schema[name].unknown is not None]
        return np.asarray(~np.isnan(self.individuals[:, columns]).any(axis=1))

    def count_unknown(self) -> dict[str, int]:
        """Count the people with an unknown value of each attribute that declares ``unknown``."""
        declared = [attribute.name for attribute in self.schema.attributes if attribute.unknown is not None]
        return {name: self._count(~self.is_known([name])) for name in declared}

    def carried_columns(self) -> list[list[Any]]:
        """Return the passthrough columns of these people, each a list of n cells."""
        import narwhals as nw

        if not self.schema.passthrough:
            return []
        table = nw.from_native(self.frame, eager_only=True)[self.rows.tolist()]
        return [table[name].to_list() for name in self.schema.passthrough]

    def first_carried(self) -> dict[str, Any]:
        """Return the passthrough columns of the first row, which all individuals of a search carry, by name."""
        import narwhals as nw

        table = nw.from_native(self.frame, eager_only=True) if self.schema.passthrough else {}
        return {name: plain_value(table[name][0]) for name in self.schema.passthrough}

    def at(self, rows: Integers) -> People:
        """Select people by position."""
        return replace(
            self,
            individuals=self.individuals[rows],
            labels=None if self.labels is None else self.labels[rows],
            numbers=None if self.numbers is None else self.numbers[rows],
            rows=self.rows[rows],
            counts=None if self.counts is None else self.counts[rows],
        )


@dataclass(frozen=True)
class _Input:
    """A column of an attribute, before it is encoded.

    Attributes:
        missing: mask of missing and unknown values, shape (n,).
    """

    attribute: Attribute
    column: CodedColumn
    missing: Booleans

    def encode(self, skipped: Booleans) -> Floats:
        """Encode the values, NaN if missing; skipped rows may hold anything."""
        attribute, column, missing = self.attribute, self.column, self.missing | skipped
        if attribute.is_discrete and attribute.edges is None:
            entries = self._encode_values(missing)
        else:
            written = attribute.written
            entries = column.numbers(read_number if written is None else lambda value: _read_written(written, value))
            entries[missing] = np.nan
            spelling = "" if written is None else f" written like {written.write(attribute.last_number)!r}"
            hint = None if written is None else "correct the value, or `written` in the schema"
            self.refuse(~missing & ~np.isfinite(entries), f"is not a finite number{spelling}", hint)
            if attribute.edges is not None:
                entries = self._encode_bins(attribute.edges, entries, missing)
        self.refuse(
            ~missing & ~attribute.contains(entries),
            f"is not {'a whole number ' if attribute.kind == 'integer' else ''}between {attribute.first:g} and "
            f"{attribute.last:g}",
            "correct the value, or widen lower and upper in the schema",
        )
        return entries

    def _encode_values(self, missing: Booleans) -> Floats:
        values = self.attribute.values or ()
        codes: dict[Hashable, float] = {}
        for i, value in enumerate(values):
            codes[value_key(value)] = float(i)
            codes.setdefault(word_of(value), float(i))  # 1 and "1" are one value, unless both are listed

        def position(value: Any) -> float:
            if not isinstance(value, Hashable):
                return np.nan
            return codes.get(value_key(value), codes.get(word_of(value), np.nan))

        entries = self.column.look_up(position)
        entries[missing] = np.nan
        unlisted = np.isnan(entries) & ~missing
        hint = f"the values are: {list_values(values)}; add them to the schema or correct the data"
        if len(np.unique(self.column.codes[unlisted])) > 1:
            message = f"column {self.attribute.name!r} has values that are not listed: {self.column.describe(unlisted)}"
            raise DataError(message, hint=hint)
        self.refuse(unlisted, "is not one of its values", hint)
        return entries

    def _encode_bins(self, edges: tuple[float, ...], numbers: Floats, missing: Booleans) -> Floats:
        self.refuse(
            ~missing & ((numbers < edges[0]) | (numbers > edges[-1])),
            f"lies outside its bins, {edges[0]:g} to {edges[-1]:g}",
            "correct the value, or widen the edges in the schema",
        )
        codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2).astype(np.float64)
        codes[missing] = np.nan
        return codes

    def refuse(self, rows: Booleans, problem: str, hint: str | None) -> None:
        """Raise a DataError with the place and value of the first of some rows, if there are any."""
        if rows.any():
            value = self.column.at(int(np.argmax(rows)))
            message = f"column {self.attribute.name!r}, {self.column.place(rows)}: {value!r} {problem}"
            raise DataError(message, hint=hint)


def encode(
    schema: Schema,
    frame: IntoDataFrame,
    *,
    location: str = "data",
    counts: Integers | None = None,
    locate: RowLocator | None = None,
) -> People:
    """Encode the rows of a data frame (pandas, polars, pyarrow, ...).

    Args:
        schema: schema of the columns. A target without ``values`` gets them from the data.
        frame: one row per person; columns that the schema does not name are ignored.
        location: name of the data in messages.
        counts: number of people per row, shape (n,); None for one each.
        locate: function that returns where a row is in the data; None to use its position.

    Raises:
        DataError: if a column is missing, or a value is missing or outside its domain; the message names column,
            value and row (from 1; with counts, the number of rows).
    """
    try:
        return _encode(schema, frame, counts, locate)
    except DataError as error:
        error.location = error.location or location
        raise


def _encode(schema: Schema, frame: IntoDataFrame, counts: Integers | None, locate: RowLocator | None) -> People:
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    for name in schema.columns:
        if name not in table.columns:
            raise DataError(f"column {name!r} is missing", hint=f"the columns are: {', '.join(table.columns)}")
    if len(table) == 0:
        raise DataError("there are no rows")

    def read(name: str) -> CodedColumn:
        return CodedColumn.read(table[name], counts, None if locate is None else partial(locate, name))

    inputs = []
    for attribute in schema.attributes:
        column = read(attribute.name)
        missing = _missing_mask(column, schema.missing_markers, attribute.unknown)
        inputs.append(_Input(attribute, column, missing))
    count = inputs[0].column.people
    keep = np.ones(len(table), dtype=bool)
    total = count(keep)
    left_out: dict[str, int] = {}
    for part in inputs:
        if part.attribute.missing == "drop" and (part.missing & keep).any():
            left_out[f"without a value of {part.attribute.name}"] = count(part.missing & keep)
            keep &= ~part.missing
    for part in inputs:
        lacking = part.missing & keep
        if part.attribute.missing == "refuse" and part.attribute.unknown is None and lacking.any():
            raise DataError(
                f"column {part.attribute.name!r}, {part.column.place(lacking)}: the value is missing "
                f"({count(lacking)} of {total} rows)",
                hint="fill it in, or say `missing: drop`, `missing: keep` or `unknown: []` for it in the schema",
            )
    entries = [part.encode(~keep) for part in inputs]
    labels, numbers = None, None
    if schema.target.name in table.columns and schema.target.is_number:
        numbers = _encode_target_numbers(schema, read(schema.target.name), keep)
    elif schema.target.name in table.columns:
        schema, labels = _encode_labels(schema, read(schema.target.name), keep)
    if not keep.any():
        raise DataError("no row is left after dropping those with missing values")
    rows = np.arange(len(table))
    if schema.carries_rows:
        entries.append(rows.astype(np.float64))
    reading = TableReading(
        rows=total,
        used=count(keep),
        left_out=left_out,
        true_label=None if labels is None and numbers is None else describe_target(schema.target),
        unknown={
            part.attribute.name: count_words(part.column, part.missing & keep)
            for part in inputs
            if part.attribute.unknown is not None
        },
        types=describe_types(schema.attributes, [part.column for part in inputs]),
    )
    people = People(
        schema=schema,
        individuals=np.column_stack(entries),
        labels=labels,
        rows=rows,
        dropped=count(~keep),
        frame=frame,
        numbers=numbers,
        counts=counts,
        reading=reading,
    )
    return people if keep.all() else people.at(rows[keep])


def decode(schema: Schema, individuals: Floats, *, like: Any = None, rows: Any = None) -> Any:
    """Decode individuals to a pandas data frame, or to the type and column types of ``like``.

    A bin of an ordinal attribute with ``edges`` becomes its midpoint, since a model that reads frames
    was trained on the numbers themselves.

    Args:
        schema: schema of the individuals.
        individuals: shape (n, attributes). If the schema carries rows, an additional entry is the row of ``rows`` with
            the passthrough columns and words for unknown values; without this entry it is the first row.
        like: data frame with the type and column types of the result.
        rows: data frame whose rows the individuals carry. Default: ``like``. Without either, only attributes are
            returned.
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

        objects = {name: pd.Series(series.to_list(), dtype=object) for name, series in carried.items()}
        return pd.DataFrame(columns | objects)
    template = nw.from_native(like, eager_only=True)
    if template.implementation.is_pandas():
        import pandas as pd

        as_numbers = {name for name in schema.names if (format_ := schema[name].written) and format_.given == "number"}
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
    names = [name for name in template.columns if name in built.columns] if carried else built.columns
    return built.select(names).to_native()


def _spell_like(values: NDArray[Any], column: Any) -> NDArray[Any]:
    """Convert numbers and truth values to the spelling of a pandas column, such as ``3.10`` for 3.1.

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
    """Return the passthrough columns of individuals, and write the words for unknown values into ``columns``."""
    width = len(schema.attributes)
    carried = individuals[:, width] if individuals.shape[1] > width else np.zeros(len(individuals))
    at = carried.astype(np.int64).tolist()
    for i, attribute in enumerate(schema.attributes):
        if attribute.unknown is None or attribute.name not in rows.columns:
            continue
        missing = np.flatnonzero(np.isnan(individuals[:, i]))
        if len(missing):
            cells = rows[attribute.name][[at[row] for row in missing]].to_list()
            filled = columns[attribute.name].astype(object)
            if attribute.kind == "integer" and columns[attribute.name].dtype.kind != "O":
                filled = np.array([value if is_missing(value) else int(value) for value in filled], dtype=object)
            for row, cell in zip(missing, cells, strict=True):
                filled[row] = np.nan if is_missing(cell) else plain_value(cell)
            columns[attribute.name] = filled
    return {name: rows[name][at] for name in schema.passthrough if name in rows.columns}


def _cast_loses_values(column: Any, dtype: Any) -> bool:
    """Return whether casting would fail or lose a value, as with half-way midpoints or missing values as integers."""
    kind = getattr(dtype, "kind", "O")
    return kind in "iub" and column.dtype.kind == "f" and not bool((column == column.round()).all())


def _missing_mask(column: CodedColumn, markers: tuple[str, ...], unknown: tuple[Value, ...] | None = None) -> Booleans:
    """Return the mask of missing values, markers of missing values, and words for unknown values, shape (n,)."""
    missing = column.missing()
    if column.array is None:
        missing |= column.each(lambda value: isinstance(value, str) and value.strip() in markers)
    words = {word_of(value) for value in unknown or ()}
    return missing | column.each(lambda value: word_of(value) in words) if words else missing


def _read_written(written: NumberFormat, value: Any) -> float:
    """Read a number in its format; NaN for other words."""
    return written.read(value) if isinstance(value, str) else read_number(value)


def _encode_target_numbers(schema: Schema, column: CodedColumn, keep: Booleans) -> Floats:
    """Return the true numbers, shape (rows,); NaN in rows that are not kept."""
    name, numbers = schema.target.name, column.numbers(read_number)
    numbers[_missing_mask(column, schema.missing_markers) | ~keep] = np.nan
    wrong = ~np.isfinite(numbers) & keep
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"target column {name!r}, {column.place(wrong)}: expected a finite number, got {column.at(row)!r} "
            f"({column.people(wrong):,} such rows)",
            hint="fill it in or remove the row; or say `kind=label` for labels",
        )
    return numbers


def _encode_labels(schema: Schema, column: CodedColumn, keep: Booleans) -> tuple[Schema, Integers]:
    """Return the schema with all labels of the target, and the position of each row's label, -1 where not kept."""
    target, name = schema.target, schema.target.name
    labels = OutcomeColumn.read(column, name)
    stated = [match for value in target.values or () if (match := labels.find(value)) is not None]
    # Markers of missing values, and words for "unknown" that the target does not list as labels.
    markers = [match for marker in schema.missing_markers if (match := labels.find(marker)) is not None]
    markers += labels.unknown_words(stated) if stated else []
    positions = np.array([labels.words.index(word) for word in markers], dtype=np.int64)
    lacking = keep & ((labels.positions < 0) | np.isin(labels.positions, positions))
    if lacking.any():
        raise DataError(
            f"target column {name!r}, {column.place(lacking)}: the label is missing",
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
                hint="an audit needs people with and without the favourable label",
            )
        described = target.model_copy(update={"values": ordered} | ({} if several else {"favourable": last[0]}))
        schema = schema.model_copy(update={"target": described})
        # model_copy keeps cached properties; these depend on attributes only, which did not change.
    values = schema.target.values or ()
    codes = labels.encode(values)
    if (codes[keep] < 0).any():
        listed = {outcome_key(value) for value in values}
        unlisted = [word for word in words if outcome_key(word) not in listed]
        raise DataError(
            f"target column {name!r} has labels that the schema does not list: {labels.describe(unlisted)}",
            hint=f"the labels are: {list_values(values)}; add them to the schema or correct the data",
        )
    return schema, np.where(keep, codes, -1)


def _write_numbers(attribute: Attribute, values: NDArray[Any]) -> NDArray[Any]:
    """Write numbers as in the data if the model reads words."""
    written = attribute.written
    if written is None or written.given == "number":
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = [np.nan if value != value else written.write(float(value)) for value in values]
    return out


def _decode_attribute(attribute: Attribute, entries: Floats) -> NDArray[Any]:
    missing = np.isnan(entries)
    if attribute.edges is not None:
        values: NDArray[Any] = (np.asarray(attribute.edges[:-1]) + np.asarray(attribute.edges[1:])) / 2
    elif attribute.values is not None:
        values = _value_array(attribute.values, as_objects=bool(missing.any()))
    else:
        return entries.astype(np.int64) if attribute.kind == "integer" and not missing.any() else entries
    cells = values[np.where(missing, 0, entries).astype(np.int64)]
    if missing.any():
        cells[missing] = np.nan
    return cells


def _value_array(values: tuple[Value, ...], *, as_objects: bool) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.array(values, dtype=object if as_objects else None)
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects
