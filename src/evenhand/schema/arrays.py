"""Columns that are passed as arguments (lists, arrays, Series, data frames, mappings), and tables built from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
from evenhand.schema.table import (
    check_names,
    check_type,
    describe_argument,
    is_missing,
    quote_argument,
    require_column,
    wrap_native,
)

UNNAMED = "sensitive_feature"
"""Prefix of the numbered names of unnamed columns."""

NESTED = (list, tuple, set, dict, np.ndarray)
"""Types that are not a single value of a row."""

SCALARS = (str, int, float, np.generic)
"""Types of labels."""


def read_column(argument: str, values: Any) -> Any:
    """Read an argument of shape (n,) or (n, 1).

    Args:
        argument: Name of the argument in messages, such as ``y_true``.
        values: List, tuple, array, Series or data frame with one column.

    Returns:
        An array, or a pandas Series without its index.

    Raises:
        DataError: The argument is not a column.
    """
    columns = {} if isinstance(values, Mapping) else read_columns(argument, values)
    if len(columns) == 1:
        return next(iter(columns.values()))
    shape = f"{len(columns)} columns" if columns else describe_argument(values)
    raise DataError(f"expected one value per row as {quote_argument(argument)}, got {shape}", hint="pass one column")


def read_columns(argument: str, table: Any) -> dict[str, Any]:
    """Read the columns of an argument by name.

    Args:
        argument: Name of the argument in messages, such as ``sensitive_features``.
        table: Data frame, mapping from names to columns, Series, or array of shape (n,) or (n, k). Columns without a
            name are numbered.

    Returns:
        Mapping from name to column, as returned by ``read_column``.

    Raises:
        DataError: The argument is not a table, or two columns have the same name.
    """
    import narwhals as nw

    if isinstance(table, Mapping):
        names = check_names(list(table), argument, numbers=True)
        return {
            name: read_column(f"{argument}[{name!r}]", column)
            for name, column in zip(names, table.values(), strict=True)
        }
    frame = wrap_native(table, argument, numbers=True, pass_through=True, allow_series=True)
    if isinstance(frame, nw.LazyFrame):
        raise DataError(
            f"expected columns in memory as {quote_argument(argument)}, got a lazy data frame",
            hint="collect it, or pass it as `data=` and name its columns",
        )
    if isinstance(frame, nw.DataFrame):
        names = check_names(frame.columns, argument, numbers=True)
        return {name: _plain(frame.get_column(column)) for name, column in zip(names, frame.columns, strict=True)}
    if isinstance(frame, nw.Series):
        name = f"{UNNAMED}_0" if frame.name in (None, "") else check_names([frame.name], argument, numbers=True)[0]
        return {name: _plain(frame)}
    array = _as_array(argument, table)
    nested = next((value for value in array.flat if isinstance(value, NESTED)), None) if array.dtype == object else None
    if nested is not None:
        raise DataError(
            f"expected one value per row as {quote_argument(argument)}, got a {type(nested).__name__} in a row",
            hint="give every row one value, or every row the same number of values",
        )
    return {f"{UNNAMED}_{i}": column for i, column in enumerate(array.T if array.ndim == 2 else [array])}


def check_rows(columns: Mapping[str, Any]) -> int:
    """Check that columns have the same length, and return it.

    Args:
        columns: Mapping from argument name to column.

    Raises:
        DataError: The columns differ in length.
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        first = {length: name for name, length in reversed(lengths.items())}
        listed = ", ".join(f"{length:,} in {quote_argument(name)}" for length, name in reversed(first.items()))
        raise DataError(f"expected the same number of rows in all arguments, got {listed}")
    return next(iter(lengths.values()), 0)


def check_index(**arguments: Any) -> None:
    """Check that all pandas arguments have the same index.

    Rows are matched by position. Different indices are rejected, because the caller has shuffled, filtered or reset one
    of the arguments. Lists, arrays and the tables of other libraries have no index. Different lengths are not reported
    here.

    Args:
        arguments: Columns, tables or mappings of columns, by argument name; None is skipped.

    Raises:
        DataError: Two indices have different labels, or the same labels in a different order.
    """
    import narwhals as nw

    present = {name: values for name, values in arguments.items() if values is not None}
    if len(present) == 1 and not isinstance(next(iter(present.values())), Mapping):
        return
    indices, pending = [], list(present.items())
    while pending:
        name, values = pending.pop(0)
        if isinstance(values, Mapping):
            pending = [(f"{name}[{key!r}]", column) for key, column in values.items()] + pending
            continue
        native = wrap_native(values, name, numbers=True, pass_through=True, allow_series=True)
        index = nw.maybe_get_index(native) if isinstance(native, nw.DataFrame | nw.Series) else None
        if index is not None:
            indices.append((name, index))
    for name, index in indices[1:]:
        reference_name, reference = indices[0]
        if len(index) != len(reference) or index.equals(reference):
            continue
        labels = ([None if is_missing(label) else label for label in labels] for labels in (reference, index))
        for row, (label, other) in enumerate(zip(*labels, strict=True), start=1):
            if label != other:
                former, latter = quote_argument(reference_name), quote_argument(name)
                raise DataError(
                    f"the index of {former} differs from the index of {latter}: row {row} is labelled {label!r} in the "
                    f"former and {other!r} in the latter",
                    hint="align the rows with reindex, or pass .to_numpy() to match them by position",
                )


def _plain(series: Any) -> Any:
    """Convert a narwhals Series to an array, or to a pandas Series without its index. Intervals become words."""
    if series.implementation.is_pandas():
        native = series.to_native().reset_index(drop=True)
        intervals = getattr(getattr(native.dtype, "categories", None), "inferred_type", "") == "interval"
        return native.cat.rename_categories(str) if intervals else native
    if series.dtype.is_numeric() and not series.null_count():
        return series.to_numpy()
    return np.array([*series.to_list(), None], dtype=object)[:-1]


def _as_array(argument: str, values: Any) -> Any:
    """Convert a list, tuple or array of shape (n,) or (n, k) to an array."""
    if isinstance(values, np.ma.MaskedArray):
        filled = values.data.astype(object)
        filled[np.ma.getmaskarray(values)] = None
        return filled
    array: Any = None
    if hasattr(values, "__array__") or (isinstance(values, Sequence) and not isinstance(values, str | bytes)):
        try:
            array = np.asarray(values, dtype=None if hasattr(values, "__array__") else object)
        except (TypeError, ValueError, RuntimeError) as error:
            # A RuntimeError is the advice of PyTorch, such as to detach the tensor.
            raise DataError(
                f"expected an array as {quote_argument(argument)}, got {describe_argument(values)}",
                hint=str(error) if isinstance(error, RuntimeError) else "give every row the same number of values",
            ) from None
    if array is None or array.ndim not in (1, 2) or array.dtype.kind == "V":
        hint = "pass a list, an array or a Series"
        if isinstance(values, str):
            hint += "; to name a column, pass the table as `data=`"
        raise DataError(
            f"expected one value per row as {quote_argument(argument)}, got {describe_argument(values)}", hint=hint
        )
    return array


def check_roles(roles: Mapping[str, Sequence[str | None]], columns: Sequence[str]) -> None:
    """Check that every column with a role exists, and that no column has two roles.

    Raises:
        DataError: There is no such column.
        OptionError: A column has two roles.
    """
    used: dict[str, str] = {}
    for role, name in [(role, name) for role, names in roles.items() for name in names if name is not None]:
        require_column(name, columns, role)
        if used.setdefault(name, role) != role:
            raise OptionError(f"expected different columns as `{used[name]}=` and `{role}=`, got {name!r} twice")


def add_columns(data: Any, columns: Mapping[str, Any], arguments: Mapping[str, str] | None = None) -> Any:
    """Add columns to a data frame.

    Args:
        data: Data frame in memory.
        columns: Mapping from name to values, shape (n,).
        arguments: Mapping from name to the argument shown in messages. Default: the name itself.

    Raises:
        DataError: A column has another length, or the library of the data frame cannot store its values.
    """
    import narwhals as nw

    table = nw.from_native(data, eager_only=True)
    named = {(arguments or {}).get(name, name): column for name, column in columns.items()}
    check_rows({"data": table, **named})
    series = []
    for (name, values), argument in zip(columns.items(), named, strict=True):
        try:
            series.append(nw.new_series(name, values.tolist(), backend=table.implementation))
        except (TypeError, ValueError) as error:
            message = f"expected values of one type as `{argument}=`, as {table.implementation} requires: {error}"
            raise DataError(message, hint="convert them to text, or to numbers") from None
    return table.with_columns(*series).to_native()


def refuse_arrays(columns: Mapping[str, Any], membership: Mapping[str, Any] | None) -> None:
    """Check that arguments are column names, as ``data`` requires.

    Raises:
        OptionError: An argument is neither a name nor None, or ``membership`` does not map groups to names.
    """
    for name, value in columns.items():
        check_type(name, value, str, "the name of a column of `data=`")
    nested = {} if membership is None else membership
    for by in nested.values() if isinstance(nested, Mapping) else [nested]:
        if not isinstance(by, Mapping) or not all(isinstance(name, str) for name in by.values()):
            hint = 'membership={"race": {"white": "p_white", "black": "p_black"}}'
            raise OptionError("expected names of columns of `data=` in `membership=`, got values", hint=hint)


def table_of_columns(
    arguments: Mapping[str, Any], features: Any, more: Mapping[str, Any] | None = None
) -> tuple[Any, tuple[str, ...], dict[str, str]]:
    """Build a table from columns that are passed as arguments.

    Args:
        arguments: Mapping from name to values, shape (n,). None for an omitted argument.
        features: Sensitive features, see ``table_of_decisions``.
        more: Other columns by name.

    Returns:
        The table, the names of the sensitive features, and the column name of each argument.

    Raises:
        DataError: The columns differ in length or index, or an argument is not a column.
    """
    import pandas as pd

    present = {name: values for name, values in arguments.items() if values is not None}
    check_index(**present, sensitive_features=features)
    named = read_columns("sensitive_features", features)
    columns = {name: read_column(name, values) for name, values in present.items()}
    features_by_argument = {f"sensitive_features[{name!r}]": column for name, column in named.items()}
    check_rows({**columns, **features_by_argument, **(more or {})})
    names = {name: f"{name} " * (name in named) + name for name in columns}
    table = {names[name]: column for name, column in columns.items()} | named | dict(more or {})
    return pd.DataFrame(table, copy=False), tuple(named), names
