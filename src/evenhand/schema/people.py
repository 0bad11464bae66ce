"""People of a data frame: roles of its columns, weights, and conversion to encoded individuals and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.reading import TableReading
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import SCALARS, add_columns, check_index, read_column
from evenhand.schema.attribute import Attribute, Value, match_label
from evenhand.schema.counted import count_rows, read_lazy
from evenhand.schema.infer import infer_schema
from evenhand.schema.outcome import (
    INFERRED,
    OutcomeColumn,
    OutcomeRole,
    check_number_of_labels,
)
from evenhand.schema.probabilities import GroupProbabilities, name_sample_columns
from evenhand.schema.schema import Schema
from evenhand.schema.table import (
    TRUTH,
    CodedColumn,
    CodedTable,
    check_type,
    count_people,
    is_missing,
    is_unusual_number,
    list_columns,
    list_names,
    list_values,
    outcome_key,
    plain_value,
    read_number,
    require_column,
    word_of,
)

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

DROPPED = "without a value of "
"""Prefix of the reason why rows without a value of an attribute are excluded."""

NEGLIGIBLE = 1e-12
"""Weights below this fraction of the mean weight count as 0."""


@dataclass(frozen=True)
class People:
    """Encoded individuals with their true labels.

    Attributes:
        schema: Schema of the columns; its target lists every label.
        individuals: Encoded individuals, shape (n, attributes); see ``Attribute``. If ``schema.carries_rows``, there is
            an additional last column: the row of ``frame`` with the individual's passthrough columns and strings for
            unknown values. Variants of a person keep it.
        labels: Positions in ``schema.target.values``, -1 where the true label is unknown, shape (n,). None if the data
            has no target column.
        rows: Frame row of each person, from 0, shape (n,).
        frame: Data frame of the people, in the user's own type.
        numbers: True values of a numeric target, NaN if unknown, shape (n,). In that case, ``labels`` is None.
        counts: Number of people per entry, shape (n,). None if every entry is one person.
        untyped: Whether the frame was read from a text table, which does not state the types of its columns.
        reading: Interpretation of the table. None if the people were not read from a table. Subsets keep it.
    """

    schema: Schema
    individuals: Floats
    labels: Integers | None
    rows: Integers
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
        return len(self.individuals) if self.counts is None else int(self.counts.sum())

    def count(self, mask: Booleans) -> int:
        """Count the people in the rows selected by a mask."""
        return count_people(mask, self.counts)

    @property
    def true_labels(self) -> Integers:
        """True labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,)."""
        self.schema.target.require_labels("this analysis")
        values = self.schema.target.values
        if self.labels is None or values is None:
            raise DataError(f"the data has no column {self.schema.target.name!r} with the true label")
        favourable = values.index(self.schema.target.favourable)
        return np.where(self.labels < 0, -1, (self.labels == favourable).astype(np.int64))

    @property
    def favourable(self) -> Booleans:
        """Mask of people with the favourable true label, shape (n,)."""
        return np.asarray(self.true_labels == 1)

    @property
    def unlabelled(self) -> int:
        """Number of people whose true label or number is unknown; 0 if the data has no target column."""
        if self.labels is not None:
            return self.count(self.labels < 0)
        return 0 if self.numbers is None else self.count(np.isnan(self.numbers))

    @property
    def undecided(self) -> int:
        """Number of excluded rows, which have no decision, score or rank."""
        left_out = {} if self.reading is None else self.reading.left_out
        return sum(count for reason, count in left_out.items() if not reason.startswith(DROPPED))

    @property
    def dropped(self) -> int:
        """Number of excluded rows, in which the value of a ``missing: drop`` attribute is missing."""
        left_out = {} if self.reading is None else self.reading.left_out
        return sum(count for reason, count in left_out.items() if reason.startswith(DROPPED))

    def is_known(self, names: Iterable[str]) -> Booleans:
        """Mark the people whose values of all these attributes are known, shape (n,)."""
        columns = [self.schema.position(name) for name in names if self.schema[name].unknown is not None]
        return np.asarray(~np.isnan(self.individuals[:, columns]).any(axis=1))

    def count_unknown(self) -> dict[str, int]:
        """Count the people with an unknown value of each attribute that declares ``unknown``."""
        declared = [attribute.name for attribute in self.schema.attributes if attribute.unknown is not None]
        return {name: self.count(~self.is_known([name])) for name in declared}

    def carried_columns(self) -> list[list[Any]]:
        """Return the passthrough columns of these people, each a list of n cells."""
        import narwhals as nw

        if not self.schema.passthrough:
            return []
        table = nw.from_native(self.frame, eager_only=True)[self.rows.tolist()]
        return [table[name].to_list() for name in self.schema.passthrough]

    def first_carried(self) -> dict[str, Any]:
        """Return the passthrough values of the first row by column name. All individuals in a search share them."""
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


def encode(
    schema: Schema,
    frame: IntoDataFrame | CodedTable,
    *,
    location: str = "data",
    read_target: bool = True,
    without: Mapping[str, Booleans] | None = None,
) -> People:
    """Encode the rows of a data frame (pandas, polars, pyarrow, ...).

    Args:
        schema: Schema of the columns. The data supply missing ``values`` of the target.
        frame: One row per person; columns that the schema does not name are ignored.
        location: Name of the data in messages.
        read_target: Whether to read the true labels if the data has them.
        without: Masks of the rows to exclude, keyed by the missing item, such as ``a decision``; each of shape (n,).

    Raises:
        DataError: A column is missing, or a value is missing or outside its domain. The message states the column, the
            value and the row (from 1; with counts, the number of rows).
    """
    table = frame if isinstance(frame, CodedTable) else CodedTable(frame, location=location)
    try:
        return _encode(schema, table, read_target, without or {})
    except DataError as error:
        error.location = error.location or table.location
        raise


def _encode(schema: Schema, table: CodedTable, read_target: bool, without: Mapping[str, Booleans]) -> People:
    for name in schema.columns:
        if name not in table.names:
            raise DataError(f"column {name!r} is missing", hint=f"the columns are: {', '.join(table.names)}")
    if table.rows == 0:
        raise DataError("there are no rows")
    target, missing = schema.target, {}
    excluded = {f"without {item}": rows for item, rows in without.items()}
    for attribute in schema.attributes:
        rows = table[attribute.name].missing(attribute.unknown or (), schema.missing_markers)
        missing[attribute.name] = rows
        if attribute.missing == "drop":
            excluded[f"{DROPPED}{attribute.name}"] = rows
    keep, left_out = np.ones(table.rows, dtype=np.bool_), {}
    for reason, rows in excluded.items():
        if (keep & rows).any():
            left_out[reason] = count_people(keep & rows, table.counts)
            keep &= ~rows
    entries, types, unknown = [], {}, {}
    for attribute in schema.attributes:
        column, without_value = table[attribute.name], missing[attribute.name]
        if attribute.unknown is not None:
            unknown[attribute.name] = column.count_words(keep & without_value)
        elif attribute.missing == "refuse":
            hint = "fill it in, or set `missing: drop`, `missing: keep` or `unknown: []` for it in the schema"
            column.refuse(keep & without_value, "a value", hint)
        entries.append(_encode_attribute(attribute, column, keep & ~without_value))
        # A column that may have been misread: numbers in an unusual format, or strings that look like numbers.
        if attribute.number_format is not None:
            types[attribute.name] = "numbers"
        elif column.array is None and any(map(is_unusual_number, column.coding.values)):
            types[attribute.name] = "words" if attribute.is_discrete and attribute.edges is None else "numbers"
    labels, numbers = None, None
    if read_target and target.name in table.names:
        column = table[target.name]
        if target.is_number:
            numbers = column.numbers(read_number)
            numbers[column.missing(markers=schema.missing_markers) | ~keep] = np.nan
            hint = "fill it in or remove the row; for labels, use `kind=label`"
            column.refuse(keep & ~np.isfinite(numbers), "a finite number as target", hint)
        else:
            schema, labels = _encode_labels(schema, column, keep)
    if not keep.any():
        raise DataError("no row is left after dropping those with missing values")
    positions = np.arange(table.rows)
    if schema.carries_rows:
        entries.append(positions.astype(np.float64))
    reading = TableReading(
        rows=count_people(np.ones(table.rows, dtype=np.bool_), table.counts),
        used=count_people(keep, table.counts),
        left_out=left_out,
        true_label=None if labels is None and numbers is None else schema.target.describe(),
        unknown=unknown,
        types=types,
    )
    people = People(
        schema=schema,
        individuals=np.column_stack(entries),
        labels=labels,
        rows=positions,
        frame=table.frame.to_native(),
        numbers=numbers,
        counts=table.counts,
        reading=reading,
    )
    return people if keep.all() else people.at(positions[keep])


def _encode_attribute(attribute: Attribute, column: CodedColumn, known: Booleans) -> Floats:
    """Encode a column. Unknown rows become NaN, and their values are not checked."""
    number_format, edges = attribute.number_format, attribute.edges
    if attribute.values is not None and edges is None:
        codes = {repr(value): float(i) for i, value in enumerate(attribute.values)}
        words: dict[str, float] = {}  # 1 and "1" are equal, unless both are listed
        for i, value in enumerate(attribute.values):
            words.setdefault(word_of(value), float(i))
        entries = column.map(lambda cell: codes.get(repr(cell), words.get(word_of(cell), np.nan)), np.float64)
        unlisted = known & np.isnan(entries)
        if unlisted.any():
            raise DataError(
                f"column {attribute.name!r} has values that are not listed: {column.describe(unlisted)}",
                hint=f"the values are: {list_values(attribute.values)}; add them to the schema, in quotes, or correct "
                "the data",
            )
        entries[~known] = np.nan
        return entries
    entries = column.numbers(read_number if number_format is None else number_format.read)
    low, high = (attribute.lower or 0.0, attribute.upper or 0.0) if edges is None else (edges[0], edges[-1])
    expected, hint = "a finite number", None
    if number_format is not None:
        expected = f"a finite number written like {number_format.write(high)!r}"
        hint = "correct the value, or `number_format` in the schema"
    column.refuse(known & ~np.isfinite(entries), expected, hint)
    inside = (entries >= low) & (entries <= high)
    if attribute.kind == "integer":
        inside &= entries == np.floor(entries)
    kind, limits = "a whole number" if attribute.kind == "integer" else "a number", "lower and upper"
    if edges is not None:
        kind, limits = "a number in its bins,", "the edges"
        entries = np.clip(np.searchsorted(edges, entries, side="right") - 1.0, 0, len(edges) - 2)
    hint = f"correct the value, or widen {limits} in the schema"
    column.refuse(known & ~inside, f"{kind}{' from' if edges is None else ''} {low:g} to {high:g}", hint)
    entries[~known] = np.nan
    return entries


def decode(schema: Schema, individuals: Floats, *, like: Any = None, rows: Any = None) -> Any:
    """Decode individuals to a pandas data frame, or to the type and column types of ``like``.

    A bin of an ordinal attribute with ``edges`` becomes its midpoint, since a model that reads frames
    was trained on the numbers themselves.

    Args:
        schema: Schema of the individuals.
        individuals: Encoded individuals, shape (n, attributes). If ``schema.carries_rows``, an additional entry is
            the position in ``rows`` of the passthrough values and strings for unknown values. Default: the first row.
        like: Data frame with the type and column types of the result.
        rows: Data frame of the passthrough values and strings for unknown values. Default: ``like``. If both are None,
            only attributes are returned.
    """
    import narwhals as nw
    import pandas as pd

    columns: dict[str, Any] = {
        attribute.name: _decode_attribute(attribute, individuals[:, i]) for i, attribute in enumerate(schema.attributes)
    }
    rows = like if rows is None else rows
    carried: dict[str, Any] = {}
    if schema.carries_rows and rows is not None:
        carried = _carried_columns(schema, individuals, nw.from_native(rows, eager_only=True), columns)
    if like is None:
        objects = {name: pd.Series(series.to_list(), dtype=object) for name, series in carried.items()}
        return pd.DataFrame(columns | objects)
    if isinstance(like, pd.DataFrame):
        columns |= {
            attribute.name: _cast_like(attribute, individuals[:, i], columns[attribute.name], like[attribute.name])
            for i, attribute in enumerate(schema.attributes)
            if attribute.name in like.columns
        }
        frame = pd.DataFrame(columns)
        for name, series in carried.items():
            frame[name] = series.to_native().reset_index(drop=True)
        return frame[[name for name in like.columns if name in frame.columns]] if carried else frame
    template = nw.from_native(like, eager_only=True)
    lists = {name: [None if is_missing(value) else value for value in column] for name, column in columns.items()}
    built = nw.from_dict(lists, backend=template.implementation)
    words = [name for name in built.columns if template.schema.get(name) in (nw.Categorical, nw.Enum)]
    built = built.with_columns(nw.col(name).cast(nw.String) for name in words)  # polars casts no numbers to categories
    casts = [nw.col(name).cast(template.schema[name]) for name in built.columns if name in template.columns]
    built = built.with_columns(*casts, *carried.values())
    names = [name for name in template.columns if name in built.columns] if carried else built.columns
    return built.select(names).to_native()


def _cast_like(attribute: Attribute, entries: Floats, values: NDArray[Any], column: Any) -> Any:
    """Convert the values of entries (n,) to the type of a pandas column, unless values would be lost.

    In a column of strings, numbers and Booleans get the spelling of the data, such as ``3.10`` for 3.1.
    """
    import pandas as pd

    format_ = attribute.number_format
    same = values.dtype.kind != "O" and column.dtype == values.dtype
    if same or (format_ is not None and format_.model_input == "number"):
        return values
    words = all(isinstance(value, str) for value in attribute.values or (0,))
    categories = getattr(column.dtype, "categories", column)
    is_text = format_ is None and pd.api.types.is_string_dtype(categories.dtype)
    if words and is_text and attribute.edges is None and not np.isnan(entries).any():
        return pd.array(list(attribute.values or ()), dtype=column.dtype).take(entries.astype(np.int64))
    if not words and is_text:

        def meaning(value: Any) -> str | float:
            return outcome_key(value) if outcome_key(value) in TRUTH else read_number(value)

        codes, distinct = pd.factorize(values)
        spellings = {meaning(word): word for word in reversed(column.dropna().unique().tolist())}
        spelled = np.empty(len(distinct) + 1, dtype=object)
        spelled[:-1] = [value if isinstance(value, str) else spellings.get(meaning(value), value) for value in distinct]
        spelled[-1] = np.nan  # missing values have the code -1
        values = spelled[codes]
    # Integers cannot represent fractional midpoints and missing values.
    fractions = values.dtype.kind == "f" and not (values == np.round(values)).all()
    return values if fractions and column.dtype.kind in "iub" else pd.Series(values).astype(column.dtype).array


def _carried_columns(schema: Schema, individuals: Floats, rows: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Select the passthrough columns of individuals, and insert the strings for unknown values into ``columns``."""
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
            filled[missing] = [np.nan if is_missing(cell) else plain_value(cell) for cell in cells]
            columns[attribute.name] = filled
    return {name: rows[name][at] for name in schema.passthrough if name in rows.columns}


def _encode_labels(schema: Schema, column: CodedColumn, keep: Booleans) -> tuple[Schema, Integers]:
    """Return the schema with all target labels, and the label index of each row (-1 for dropped rows)."""
    target, labels = schema.target, OutcomeColumn.read(column)
    # A label is not a marker of missing values, and does not mean "unknown" unless the target lists it.
    missing = set(map(outcome_key, schema.missing_markers))
    known = labels.words if target.values is None else labels.known_words(target.values)
    labelled = labels.encode([word for word in known if outcome_key(word) not in missing]) >= 0
    column.refuse(keep & ~labelled, "a label", "fill it in or remove the row")
    values = target.values
    if values is None:
        favourable = [] if target.kind == "labels" else labels.require([target.favourable], "favourable")
        values = (*(word for word in labels.present(keep) if word not in favourable), *favourable)
        check_number_of_labels(target.name, values, minimum=2)
        update = {"values": values} | ({"favourable": favourable[0]} if favourable else {})
        # The copy keeps cached properties, which depend only on the unchanged attributes.
        schema = schema.model_copy(update={"target": target.model_copy(update=update)})
    codes = labels.encode(values)
    unlisted = keep & (codes < 0)
    if unlisted.any():
        words = labels.describe(labels.present(unlisted))
        raise DataError(
            f"target column {target.name!r} has labels that the schema does not list: {words}",
            hint=f"the labels are: {list_values(values)}; add them to the schema or correct the data",
        )
    return schema, np.where(keep, codes, -1)


def _decode_attribute(attribute: Attribute, entries: Floats) -> NDArray[Any]:
    """Decode entries, NaN if missing; numbers are formatted as in the data if the model reads strings."""
    missing, format_ = np.isnan(entries), attribute.number_format
    if attribute.edges is not None:
        domain: NDArray[Any] = (np.asarray(attribute.edges[:-1]) + np.asarray(attribute.edges[1:])) / 2
    elif attribute.values is not None:
        kinds = set(map(type, attribute.values))
        numeric = len(kinds) == 1 and kinds <= {int, float, bool} and not missing.any()
        domain = np.array(attribute.values, dtype=None if numeric else object)
    if attribute.is_discrete:
        values = domain[np.where(missing, 0, entries).astype(np.int64)]
        if missing.any():
            values[missing] = np.nan
    else:
        values = entries.astype(np.int64) if attribute.kind == "integer" and not missing.any() else entries
    if format_ is None or format_.model_input == "number":
        return values
    words = np.empty(len(values), dtype=object)
    words[:] = [np.nan if value != value else format_.write(float(value)) for value in values]
    return words


@dataclass(frozen=True)
class PeopleWeights:
    """Sample weights of people, such as inverse selection probabilities of a survey.

    Attributes:
        name: Column of the weights.
        values: Non-negative weights with mean 1, shape (n,).
    """

    name: str
    values: Floats

    @classmethod
    def read(cls, column: CodedColumn, rows: Integers) -> PeopleWeights:
        """Read the weights of the given rows, such as ``People.rows``.

        Raises:
            DataError: A weight is missing, not a finite number, or negative, or all are 0.
        """
        values = column.finite_numbers(rows, "weight")
        if values.min() < 0 or values.max() == 0:
            wrong = f"{values.min():g} in row {int(rows[np.argmin(values)]) + 1}" if values.min() < 0 else "only zeros"
            raise DataError(f"expected weights of at least 0 in column {column.name!r}, got {wrong}")
        # Only ratios of weights matter, and squares of relative weights above the limit do not underflow.
        values = np.ldexp(values, -np.frexp(values.max())[1])  # exact, and the sum does not overflow
        relative = values / values.mean()
        return cls(column.name, np.where(relative < NEGLIGIBLE, 0.0, relative))

    def at(self, rows: Integers) -> PeopleWeights:
        """Select people by position."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True)
class SampleRoles:
    """Names of the columns that contain weights and group probabilities.

    Attributes:
        weight: Column of the sample weights.
        membership: Column of each probability, by attribute and group.
    """

    weight: str | None = None
    membership: Mapping[str, Mapping[str, str]] | None = None

    def by_role(self) -> dict[str, list[str]]:
        """List the columns by role."""
        roles = {"weight": [] if self.weight is None else [self.weight]}
        return roles | {f"membership {name}": list(by.values()) for name, by in (self.membership or {}).items()}

    def read(self, frame: Any, rows: Integers) -> tuple[PeopleWeights | None, tuple[GroupProbabilities, ...]]:
        """Read the weights and probabilities of the given rows, such as ``People.rows``, from a data frame or table.

        Raises:
            EvenhandError: A column has invalid values.
        """
        table = frame if isinstance(frame, CodedTable) else CodedTable(frame)
        weights = None if self.weight is None else PeopleWeights.read(table[self.weight], rows)
        memberships = (
            GroupProbabilities.read(name, {group: table[column] for group, column in by.items()}, rows)
            for name, by in (self.membership or {}).items()
        )
        return weights, tuple(memberships)


@dataclass(frozen=True)
class ColumnRoles:
    """Roles of the columns of a table of people.

    Attributes:
        target: Column of the true label. Default: the target of the schema.
        protected: Attributes that decisions must not depend on. Default: the protected attributes of the schema.
        favourable: Favourable label. Default: proposed from labels such as ``1``, ``yes`` and ``approved``. For a
            numeric target: ``higher`` or ``lower``.
        unfavourable: All other labels. Required if there are several, unless ``outcome`` has kind ``label``.
        ignore: Columns that are not attributes, such as identifiers and weights, if the schema is inferred.
        schema: Schema of the columns. Default: inferred from the data.
        y: True labels, shape (n,), if they are not a column of the data.
        outcome: Kind of the target. Default: that of the schema, or inferred from the data.
        accept_proposals: Whether to accept the proposals for columns that cannot be attributes as they are (see
            ``propose_columns``).
        sample: Columns of weights and group probabilities, which are not attributes unless ``schema`` contains them.
    """

    target: str | None = None
    protected: Sequence[str] | None = None
    favourable: Value | None = None
    unfavourable: Sequence[Value] = ()
    ignore: Sequence[str] | None = None
    schema: Schema | None = None
    y: Any = None
    outcome: OutcomeRole = INFERRED
    accept_proposals: bool = False
    sample: SampleRoles | None = None

    def read(self, frame: Any, *, location: str = "data", varied: bool = True) -> People:
        """Encode the people in a data frame.

        Args:
            frame: Data frame that narwhals supports (pandas, polars, pyarrow, ...), one row per person.
            location: Name of the data in messages.
            varied: Whether protected attributes are varied. If they only define groups, they may be real numbers.

        Raises:
            EvenhandError: The target or the protected attributes are unknown, or the data do not match the schema.
        """
        check_type("target", self.target, str, "the name of a column")
        check_type("schema", self.schema, Schema, "a schema (see evenhand.schema.read_schema)")
        check_type("favourable", self.favourable, SCALARS, "a label")
        columns = list_columns(frame)
        target = self.target or (None if self.schema is None else self.schema.target.name)
        if isinstance(self.y, str):
            raise OptionError(f"expected labels as `y=`, got {self.y!r}", hint=f"to name a column: target={self.y!r}")
        if self.y is not None:
            frame, target = self._add_labels(frame, columns, target)
        if target is None:
            hint = "name its column: `target=NAME`; or pass a schema"
            raise OptionError("expected the true labels, got neither target= nor y=", hint=hint)
        table = CodedTable(frame, location=location)
        people = encode(self._resolve(table, target, varied), table)
        if self.favourable is not None or self.schema is not None or people.schema.target.kind != "label":
            return people
        assert people.reading is not None  # ``encode`` sets it
        proposed = people.schema.target.describe().model_copy(update={"how": "proposed"})
        return replace(people, reading=people.reading.model_copy(update={"true_label": proposed}))

    def _add_labels(self, frame: Any, columns: Sequence[str], target: str | None) -> tuple[Any, str]:
        """Add labels that are not a column of the data under a new name."""
        import narwhals as nw

        labels = read_column("y", self.y)
        name = str(target or getattr(self.y, "name", None) or "label")
        while name in columns:
            if target is not None or nw.from_native(frame, eager_only=True)[name].to_list() == labels.tolist():
                hint = "omit y=, or drop the column from the data"
                raise OptionError(f"expected the true labels once, got both y= and the column {name!r}", hint=hint)
            name += " (y)"
        check_index(data=frame, y=self.y)
        return add_columns(frame, {name: labels}, {name: "y"}), name

    def _resolve(self, table: CodedTable, target: str, varied: bool) -> Schema:
        """Apply the roles to the schema, or infer a schema from the data."""
        names = list_protected(self.protected, self.schema)
        if target in names:
            raise OptionError(f"expected an attribute in protected=, got the target {target!r}", hint="name another")
        ignored = () if self.ignore is None else list_names(self.ignore, "ignore")
        if self.sample is not None and self.schema is None:
            ignored = tuple(dict.fromkeys([*ignored, *itertools.chain(*self.sample.by_role().values())]))
        used = (target,) if self.schema is None else (target, *self.schema.names)
        if clash := next((name for name in ignored if name in used), None):
            role = "the target" if clash == target else "an attribute of the schema"
            raise OptionError(f"`ignore=` must not contain {role}, {clash!r}", hint="leave it out")
        if self.schema is None:
            return infer_schema(
                table,
                target=target,
                protected=names,
                varied=varied,
                favourable=self.favourable,
                unfavourable=self.unfavourable,
                ignore=ignored,
                outcome=self.outcome,
                accept_proposals=self.accept_proposals,
            )
        schema = change_target(self.schema, self.target, self.favourable, self.outcome)
        schema.positions(names)
        others = [value for value in schema.target.values or () if value != schema.target.favourable]
        if self.unfavourable and others and set(self.unfavourable) != set(others):
            raise OptionError(
                f"expected the unfavourable labels of the schema, {others}, got {list(self.unfavourable)}",
                location="`unfavourable=`",
                hint="change the target of the schema, or omit `unfavourable=`",
            )
        return schema.with_protected(names) if self.protected is not None and varied else schema


def open_table(frame: Any, columns: Sequence[str], numbers: Sequence[str], location: str = "data") -> CodedTable:
    """Open a data frame as a table. Rows of a lazy frame are counted, or read into memory if ``numbers`` are required.

    Args:
        frame: Data frame that narwhals supports.
        columns: Columns with few distinct values.
        numbers: Columns with many distinct values, such as scores.
        location: Name of the data in messages.
    """
    import narwhals as nw

    if not isinstance(nw.from_native(frame, pass_through=True), nw.LazyFrame):
        return CodedTable(frame, location=location)
    if numbers:
        return CodedTable(read_lazy(frame, [*columns, *numbers], location), location=location)
    return count_rows(frame, columns, location)


def list_protected(protected: Sequence[str] | None, schema: Schema | None) -> tuple[str, ...]:
    """List the protected attributes of an argument, or else of the schema.

    Raises:
        OptionError: There are no protected attributes.
    """
    names = () if protected is None else list_names(protected, "protected")
    names = names or (() if schema is None else schema.protected)
    if not names:
        hint = "name at least one: `protected=NAME`"
        raise OptionError("expected at least one protected attribute, got none", hint=hint)
    return names


def change_target(
    schema: Schema, target: str | None = None, favourable: Value | None = None, outcome: OutcomeRole = INFERRED
) -> Schema:
    """Change the favourable label of a schema's target, or the direction of its number.

    Raises:
        OptionError: The schema has another target, or a target of another kind.
        SchemaError: The target lacks the label.
    """
    current = schema.target
    if target is not None and target != current.name:
        raise OptionError(f"expected the target of the schema, {current.name!r}, got {target!r}")
    kind = outcome.kind or (current.kind if outcome.order is None else "ordinal")
    stated = (kind, outcome.order or current.values, outcome.unit or current.unit)
    if stated != (current.kind, current.values, current.unit):
        raise OptionError(
            f"expected the kind, the order and the unit of {current.name!r} in the schema, got different ones",
            hint="change the target of the schema, or leave `kind=`, `order=` and `unit=` out",
        )
    if favourable is None:
        return schema
    label = match_label(favourable, current.values or ())
    return Schema.parse(schema.model_dump() | {"target": current.model_dump() | {"favourable": label}})


def add_sample_columns(
    data: Any, sample_weight: Any, *, membership: Mapping[str, Any] | None = None
) -> tuple[Any, SampleRoles]:
    """Add columns of weights and group probabilities to a data frame.

    Args:
        data: Any data frame that narwhals supports, one row per person.
        sample_weight: Sample weights, shape (n,), or the name of their column; None for equal weights.
        membership: Group probabilities by attribute: a mapping from groups to columns, or a data frame.

    Returns:
        The data frame, and the roles of these columns.

    Raises:
        DataError: The columns differ in length, or an argument is not a column.
    """
    weight, arguments = sample_weight, {}
    columns, names = name_sample_columns(membership)
    if isinstance(sample_weight, str):
        require_column(sample_weight, list_columns(data), "sample_weight")
    elif sample_weight is not None:
        weight = "sample_weight" + " (given)" * ("sample_weight" in list_columns(data))
        columns[weight] = read_column("sample_weight", sample_weight)
        arguments[weight] = "sample_weight"
    return add_columns(data, columns, arguments) if columns else data, SampleRoles(weight, names)
