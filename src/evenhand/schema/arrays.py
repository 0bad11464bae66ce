"""Columns passed as arguments: lists, arrays, Series, data frames and mappings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evenhand.core.text import suggest_name
from evenhand.errors import DataError, OptionError

UNNAMED = "sensitive_feature"
"""Prefix of the numbered names of unnamed columns."""

NESTED = (list, tuple, set, dict, np.ndarray)
"""Types that are not a single value of a row."""

SCALARS = (str, int, float, np.generic)
"""Types of labels."""


def check_type(argument: str, value: Any, types: Any, expected: str) -> None:
    """Check the type of an argument that is not a column. None is always valid.

    Args:
        argument: Name of the argument in messages.
        value: Value of the argument.
        types: Type, or tuple of types, as for ``isinstance``.
        expected: Description of the expected type.

    Raises:
        OptionError: The value has another type.
    """
    if value is not None and not isinstance(value, types):
        raise OptionError(f"expected {expected} as {_quote(argument)}, got {_describe(value)}")


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
    shape = f"{len(columns)} columns" if columns else _describe(values)
    raise DataError(f"expected one value per row as {_quote(argument)}, got {shape}", hint="pass one column")


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
    frame = _as_narwhals(table, argument)
    if isinstance(frame, nw.LazyFrame):
        raise DataError(
            f"expected columns in memory as {_quote(argument)}, got a lazy data frame",
            hint="collect it, or pass it as `data=` and name its columns",
        )
    if isinstance(frame, nw.DataFrame):
        names = check_names(frame.columns, argument, numbers=True)
        return {name: _plain(frame[column]) for name, column in zip(names, frame.columns, strict=True)}
    if isinstance(frame, nw.Series):
        name = f"{UNNAMED}_0" if frame.name in (None, "") else check_names([frame.name], argument, numbers=True)[0]
        return {name: _plain(frame)}
    array = _as_array(argument, table)
    nested = next((value for value in array.flat if isinstance(value, NESTED)), None) if array.dtype == object else None
    if nested is not None:
        raise DataError(
            f"expected one value per row as {_quote(argument)}, got a {type(nested).__name__} in a row",
            hint="give every row one value, or every row the same number of values",
        )
    return {f"{UNNAMED}_{i}": column for i, column in enumerate(array.T if array.ndim == 2 else [array])}


def list_columns(frame: Any, *, lazy: bool = False) -> list[str]:
    """List the columns of a data frame that is passed as ``data``.

    Args:
        frame: Data frame that narwhals supports.
        lazy: Whether the data frame may be lazy.

    Raises:
        DataError: The argument is not a data frame, has no rows, or its column names are not distinct strings.
    """
    import narwhals as nw

    if frame is None:
        raise DataError("expected a data frame, got none", hint="data=, one row per person")
    try:
        table = nw.from_native(frame)
    except nw.exceptions.DuplicateError:
        check_names(_native_names(frame), "data")
        raise
    except TypeError:
        shape = f" of shape {frame.shape}" if hasattr(frame, "shape") else ""
        hint = "name its columns: pandas.DataFrame(X, columns=[...])"
        if hasattr(frame, "predict") or callable(frame):
            hint = "pass the model first, then the data"
        elif isinstance(frame, Mapping):
            hint = "pandas.DataFrame(data)"
        raise DataError(f"expected a data frame, got {type(frame).__name__}{shape}", hint=hint) from None
    columns = check_names(table.collect_schema().names(), "data")
    if isinstance(table, nw.LazyFrame):
        if not lazy:
            hint = "collect it, or a sample of its rows; lazy frames are supported for recorded decisions only"
            raise DataError("expected a data frame in memory, got a lazy one", hint=hint)
    elif len(table) == 0:
        raise DataError("expected at least one person, got a data frame without rows")
    return columns


def _native_names(frame: Any) -> list[Any]:
    """List the column names of a data frame that narwhals rejects because of duplicates."""
    return list(getattr(frame, "column_names", None) or frame.columns)


def check_names(names: Sequence[Any], argument: str, *, numbers: bool = False) -> list[str]:
    """Check that column names are distinct strings, and return them.

    Args:
        names: Column names.
        argument: Name of the argument in messages.
        numbers: Whether names may be integers, which are converted to text.

    Raises:
        DataError: Two names are equal, or a name is not text.
    """
    allowed = (str, int, np.integer) if numbers else (str,)
    for name in names:
        if isinstance(name, tuple):
            raise DataError(
                f"expected single-level column names in {_quote(argument)}, got {name!r}",
                hint="join the levels: frame.columns = ['_'.join(map(str, name)) for name in frame.columns]",
            )
        if not isinstance(name, allowed) or isinstance(name, bool):
            raise DataError(
                f"expected text as column names in {_quote(argument)}, got {name!r}",
                hint="convert the names: frame.columns = frame.columns.astype(str)",
            )
    texts = [str(name) for name in names]
    for name, count in Counter(texts).items():
        if count > 1:
            raise DataError(
                f"expected distinct column names in {_quote(argument)}, got {name!r} {count} times",
                hint="rename the columns, or drop the duplicates",
            )
    return texts


def require_column(name: str, columns: Sequence[str], argument: str) -> None:
    """Check that the column named by an argument exists.

    Raises:
        DataError: There is no such column.
    """
    if name not in columns:
        parts = [part.strip() for part in name.split(",")]
        hint = f"{suggest_name(name, columns)}the columns are: {', '.join(columns)}"
        if len(parts) > 1 and all(part in columns for part in parts):
            hint = f"name the {len(parts)} columns separately"
        raise DataError(f"expected a column of the data as `{argument}=`, got {name!r}", hint=hint)


def check_rows(columns: Mapping[str, Any]) -> int:
    """Check that columns have the same length, and return it.

    Args:
        columns: Mapping from argument name to column.

    Raises:
        DataError: The columns differ in length.
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{length:,} in {_quote(name)}" for name, length in lengths.items())
        raise DataError(f"expected the same number of rows in all arguments, got {listed}")
    return next(iter(lengths.values()), 0)


def check_index(**arguments: Any) -> None:
    """Check that all pandas arguments have the same index.

    Rows are matched by position. Two different indices are an error: the caller has shuffled, filtered or reset one of
    the arguments. Lists, arrays and the tables of other libraries have no index. Different lengths are not reported
    here.

    Args:
        arguments: Columns, tables or mappings of columns, by argument name; None is skipped.

    Raises:
        DataError: Two indices have different labels, or the same labels in a different order.
    """
    present = {name: values for name, values in arguments.items() if values is not None}
    if len(present) == 1 and not isinstance(next(iter(present.values())), Mapping):
        return
    indices = list(_list_indices(present))
    for name, index in indices[1:]:
        reference_name, reference = indices[0]
        if len(index) != len(reference) or index.equals(reference):
            continue
        for row, (label, other) in enumerate(zip(reference, index, strict=True), start=1):
            both_missing = label != label and other != other
            if label != other and not both_missing:
                raise DataError(
                    f"the index of {_quote(reference_name)} differs from the index of {_quote(name)}: row {row} is "
                    f"labelled {label!r} in the former and {other!r} in the latter",
                    hint="align the rows with reindex, or pass .to_numpy() to match them by position",
                )


def _list_indices(arguments: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the index of every pandas object among arguments and in mappings of them."""
    import narwhals as nw

    for key, values in arguments.items():
        name = f"{parent}[{key!r}]" if parent else str(key)
        if isinstance(values, Mapping):
            yield from _list_indices(values, name)
            continue
        native = _as_narwhals(values, name)
        index = nw.maybe_get_index(native) if isinstance(native, nw.DataFrame | nw.Series) else None
        if index is not None:
            yield name, index


def _as_narwhals(values: Any, argument: str) -> Any:
    """Wrap a data frame or Series with narwhals. Return any other argument unchanged."""
    import narwhals as nw

    try:
        return nw.from_native(values, pass_through=True, allow_series=True)
    except nw.exceptions.DuplicateError:
        check_names(_native_names(values), argument, numbers=True)
        raise


def _plain(series: Any) -> Any:
    """Convert a narwhals Series to an array, or to a pandas Series without its index."""
    if series.implementation.is_pandas():
        return series.to_native().reset_index(drop=True)
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
        except (TypeError, ValueError, RuntimeError):
            message = f"expected an array of shape (n,) or (n, k) as {_quote(argument)}, got {_describe(values)}"
            raise DataError(message, hint="give every row the same number of values") from None
    if array is None or array.ndim not in (1, 2) or array.dtype.kind == "V":
        hint = "pass a list, an array or a Series"
        if isinstance(values, str):
            hint += "; to name a column, pass the table as `data=`"
        raise DataError(f"expected one value per row as {_quote(argument)}, got {_describe(values)}", hint=hint)
    return array


def _quote(argument: str) -> str:
    """Format the name of an argument for messages."""
    return f"`{argument}=`" if argument.isidentifier() else f"`{argument}`"


def _describe(values: Any) -> str:
    """Describe an argument: a scalar by its value, anything else by its type and shape."""
    if values is None or isinstance(values, str | bytes | int | float):
        return repr(values)
    shape = getattr(values, "shape", None)
    return f"{type(values).__name__}" + (f" of shape {shape}" if shape is not None else "")
