"""Schemas for tables that have none, and conversion of later tables to these schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.text import list_some
from evenhand.core.typing import Floats
from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_rows, read_columns
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.infer import infer_schema
from evenhand.schema.outcome import Target
from evenhand.schema.schema import Schema
from evenhand.schema.table import list_names, plain_value

MAX_VALUES = 10
"""Maximum number of distinct integers in a protected array column that is not divided at its median."""


def as_table(people: Any) -> Any:
    """Convert an array of numbers (n, columns) to a data frame with columns x0, x1, ... Data frames are kept."""
    import pandas as pd

    if isinstance(people, pd.DataFrame):
        return people.set_axis([str(name) for name in people.columns], axis=1)
    if hasattr(people, "columns"):
        return people
    numbers = np.asarray(people, dtype=np.float64)
    return pd.DataFrame(numbers, columns=[f"x{i}" for i in range(numbers.shape[1])])


def name_protected(protected: Sequence[str | int] | None, names: Sequence[str]) -> tuple[str, ...]:
    """Translate names or positions of protected columns to names.

    Raises:
        OptionError: A position is out of range, or a single text is passed instead of a list.
    """
    columns = list_names(protected, "protected") if isinstance(protected, str) else tuple(protected or ())
    columns = tuple(int(column) if isinstance(column, np.integer) else column for column in columns)
    invalid = [column for column in columns if isinstance(column, int) and not 0 <= column < len(names)]
    if invalid:
        raise OptionError(
            f"expected a position from 0 to {len(names) - 1}, got {invalid[0]}",
            location="`protected=`",
            hint=f"there are {len(names)} columns, and the first has position 0",
        )
    return tuple(names[column] if isinstance(column, int) else column for column in columns)


def guess_schema(people: Any, labels: NDArray[Any], protected: Sequence[str | int] | None) -> Schema:
    """Infer a schema from people and their two labels, of which the greater is favourable.

    The columns of a data frame are inferred by ``evenhand.schema.infer_schema``. The columns of an array are numbers. A
    protected column of an array is an integer if it has at most ten values, and otherwise divided at its median.

    Args:
        people: Data frame, or numbers of shape (n, columns).
        labels: Labels, shape (n,).
        protected: Columns by name or position.

    Raises:
        DataError: A column cannot be described.
        OptionError: A protected column does not exist.
    """
    table = as_table(people)
    names = [str(name) for name in table.columns]
    protected = name_protected(protected, names)
    framed = hasattr(people, "columns")
    missing = [name for name in protected if name not in names]
    if missing:
        hint = f"the columns are: {list_some(names)}" if framed else "use positions: 0, 1, ..."
        raise OptionError(f"no column {missing[0]!r}", location="`protected=`", hint=hint)
    if framed:
        return _infer(table, labels, protected)
    attributes = tuple(_describe(name, table[name].to_numpy(), name in protected) for name in table.columns)
    values: list[Value] = [plain_value(value) for value in np.unique(labels)]
    return Schema(target=Target(name="label", favourable=values[-1], values=tuple(values)), attributes=attributes)


def fit_into(schema: Schema, people: Any) -> Any:
    """Clip the numbers of a table to the ranges of an inferred schema."""
    import narwhals as nw

    table = nw.from_native(as_table(people), eager_only=True)
    ranges = {
        attribute.name: (attribute.first, attribute.last)
        if attribute.edges is None
        else (attribute.edges[0], attribute.edges[-1])
        for attribute in schema.attributes
        if (attribute.edges is not None or not attribute.is_discrete)
        and attribute.name in table.columns
        and table[attribute.name].dtype.is_numeric()
    }
    return table.with_columns(nw.col(name).clip(low, high) for name, (low, high) in ranges.items()).to_native()


def accept_fractions(schema: Schema) -> Schema:
    """Convert the integers of a schema to real numbers, since a network accepts any real value."""
    attributes = tuple(
        attribute.model_copy(update={"kind": "real"}) if attribute.kind == "integer" else attribute
        for attribute in schema.attributes
    )
    return schema.model_copy(update={"attributes": attributes})


def join_features(sensitive_features: Any, n: int) -> NDArray[Any]:
    """Number the joint groups of sensitive features, shape (n,).

    Raises:
        DataError: The features have a different number of rows.
    """
    codes = []
    columns = read_columns("sensitive_features", sensitive_features)
    check_rows({"X": range(n)} | {f"sensitive_features[{name!r}]": column for name, column in columns.items()})
    for column in columns.values():
        values = np.asarray(column)
        codes.append(np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1])
    return np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _infer(table: Any, labels: NDArray[Any], protected: Sequence[str]) -> Schema:
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True)
    name = "label"
    while name in frame.columns:
        name += "_"
    column = nw.new_series(name, [plain_value(value) for value in labels], backend=frame.implementation)
    try:
        return infer_schema(
            frame.with_columns(column).to_native(),
            target=name,
            protected=protected,
            favourable=plain_value(np.unique(labels)[-1]),
        )
    except DataError as error:
        hint = "drop the column, or describe all columns: `schema=`"
        raise DataError(error.message, location=error.location, hint=hint) from None


def _describe(name: str, numbers: Floats, protected: bool) -> Attribute:
    low, high = float(numbers.min()), float(numbers.max())
    if not protected:
        return Attribute(name=name, kind="real", lower=low, upper=high)
    distinct = np.unique(numbers)
    if len(distinct) <= MAX_VALUES and (distinct == np.floor(distinct)).all():
        return Attribute(name=name, kind="integer", lower=low, upper=high, protected=True)
    median = float(np.median(numbers))
    cut = median if low < median < high else (low + high) / 2
    if not low < cut < high:
        raise DataError(f"the protected column {name!r} has a single value: {low:g}")
    return Attribute(name=name, kind="ordinal", edges=(low, cut, high), protected=True)
