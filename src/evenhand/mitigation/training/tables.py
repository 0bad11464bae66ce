"""Tables of people without a schema: guess one, and fit later people into it."""

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
from evenhand.schema.columns import list_names
from evenhand.schema.infer import infer_schema
from evenhand.schema.outcome import Target
from evenhand.schema.schema import Schema
from evenhand.schema.table import plain_value

FEW = 10
"""Different whole numbers that a protected column of an array has at most to be compared one by one."""


def as_table(people: Any) -> Any:
    """Return a data frame as it is, and an array of numbers (n, columns) as a frame with the columns x0, x1, ..."""
    import pandas as pd

    if isinstance(people, pd.DataFrame):
        return people.set_axis([str(name) for name in people.columns], axis=1)
    if hasattr(people, "columns"):
        return people

    numbers = np.asarray(people, dtype=np.float64)
    return pd.DataFrame(numbers, columns=[f"x{i}" for i in range(numbers.shape[1])])


def name_protected(protected: Sequence[str | int] | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of protected columns, which are given by name or by position.

    Raises:
        OptionError: there is no such position, or one text is given in place of a list.
    """
    given = list_names(protected, "protected") if isinstance(protected, str) else tuple(protected or ())
    wanted = tuple(int(one) if isinstance(one, np.integer) else one for one in given)
    beyond = [one for one in wanted if isinstance(one, int) and not 0 <= one < len(names)]
    if beyond:
        raise OptionError(
            f"there is no column {beyond[0]}",
            location="`protected=`",
            hint=f"there are {len(names)}; the first has position 0",
        )
    return tuple(names[one] if isinstance(one, int) else one for one in wanted)


def guess_schema(people: Any, labels: NDArray[Any], protected: Sequence[str | int] | None) -> Schema:
    """Return a schema of people and their two labels, the greater of which is favourable.

    A data frame is described as everywhere else (see ``evenhand.schema.infer_schema``). The columns of an array are
    numbers; of these a protected one is a whole number of at most ten values, else it is cut at its median.

    Args:
        people: a data frame, or numbers of shape (n, columns).
        labels: shape (n,).
        protected: columns by name or position.

    Raises:
        DataError: columns cannot be described.
        OptionError: a protected column is not there.
    """
    table = as_table(people)
    wanted = name_protected(protected, [str(name) for name in table.columns])
    framed = hasattr(people, "columns")
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        hint = f"the columns are: {list_some(list(table.columns))}" if framed else "give positions: 0, 1, ..."
        raise OptionError(f"there is no column {absent[0]!r}", location="`protected=`", hint=hint)
    if framed:
        return _infer(table, labels, wanted)
    described = (_describe(name, table[name].to_numpy(), name in wanted) for name in table.columns)
    values: list[Value] = [plain_value(value) for value in np.unique(labels)]
    target = Target(name="label", favourable=values[-1], values=tuple(values))
    return Schema(target=target, attributes=tuple(described))


def fit_into(schema: Schema, people: Any) -> Any:
    """Return people with numbers beyond those that a guessed schema was made of set to the nearest of them."""
    import narwhals as nw

    table = nw.from_native(as_table(people), eager_only=True)
    ends = {
        one.name: (one.first, one.last) if one.edges is None else (one.edges[0], one.edges[-1])
        for one in schema.attributes
        if (one.edges is not None or not one.is_discrete)
        and one.name in table.columns
        and table[one.name].dtype.is_numeric()
    }
    return table.with_columns(nw.col(name).clip(low, high) for name, (low, high) in ends.items()).to_native()


def accept_fractions(schema: Schema) -> Schema:
    """Return a guessed schema whose whole numbers may be fractions, which a network takes as it takes whole numbers."""
    return schema.model_copy(
        update={
            "attributes": tuple(
                one.model_copy(update={"kind": "real"}) if one.kind == "integer" else one for one in schema.attributes
            )
        }
    )


def join_features(sensitive_features: Any, n: int) -> NDArray[Any]:
    """Return the joint group of each of n people by all sensitive features, numbered, shape (n,).

    Raises:
        DataError: The features have another number of rows.
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
        hint = "leave the column out, or describe all columns: `schema=`"
        raise DataError(error.message, location=error.location, hint=hint) from None


def _describe(name: str, numbers: Floats, protected: bool) -> Attribute:
    low, high = float(numbers.min()), float(numbers.max())
    if not protected:
        return Attribute(name=name, kind="real", lower=low, upper=high)
    different = np.unique(numbers)
    if len(different) <= FEW and (different == np.floor(different)).all():
        return Attribute(name=name, kind="integer", lower=low, upper=high, protected=True)
    median = float(np.median(numbers))
    cut = median if low < median < high else (low + high) / 2
    if not low < cut < high:
        raise DataError(f"the protected column {name!r} holds one number only: {low:g}")
    return Attribute(name=name, kind="ordinal", edges=(low, cut, high), protected=True)
