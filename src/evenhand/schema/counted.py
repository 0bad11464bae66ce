"""Rows of lazy frames: counted inside the engine that holds them, or read into memory.

Rates of groups need only the number of rows in each cell, so a table may be larger than memory. One lazy
``group_by().agg()`` counts the rows in any engine that narwhals supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from evenhand.errors import DataError
from evenhand.schema.table import CodedTable, is_missing

LOOKED_AT = 100_000
"""Number of rows that are checked for columns with many values before counting."""

MOST_VALUES = 10_000
"""Maximum number of distinct values of a column among these rows."""

MOST_ROWS = 5_000_000
"""Maximum number of rows of a lazy frame that are read into memory."""

COUNT, ROW = "evenhand count", "evenhand row"
"""Names of added columns."""


def is_lazy(frame: Any) -> bool:
    """Check whether a data frame is lazy, such as a Polars LazyFrame or a database table."""
    import narwhals as nw

    return isinstance(nw.from_native(frame, pass_through=True), nw.LazyFrame)


def read_lazy(frame: Any, columns: Sequence[str], location: str = "data") -> Any:
    """Read columns of a lazy frame into memory, as a narwhals frame.

    Raises:
        DataError: There are no rows, or more than ``MOST_ROWS``.
    """
    import narwhals as nw

    rows = collect(nw.from_native(frame).lazy().select(list(dict.fromkeys(columns))).head(MOST_ROWS + 1))
    if not len(rows):
        raise DataError("there are no rows", location=location)
    if len(rows) > MOST_ROWS:
        raise DataError(
            f"scores, weights and probabilities of groups require at most {MOST_ROWS:,} rows",
            location=location,
            hint="omit them, or read a sample of the rows into memory",
        )
    return rows


def count_rows(frame: Any, columns: Sequence[str], location: str = "data") -> CodedTable:
    """Count the rows of a lazy frame for each combination of values in the given columns.

    Args:
        frame: Lazy frame that narwhals supports (Polars, DuckDB, Spark, Ibis, ...).
        columns: Columns with few distinct values.
        location: Name of the data in messages.

    Returns:
        A table with one row per cell, and the number of people in each.

    Raises:
        DataError: There are no rows, or a column has too many distinct values.
    """
    import narwhals as nw

    rows, by = nw.from_native(frame).lazy(), list(dict.fromkeys(columns))
    head = collect(rows.select(by).head(LOOKED_AT))
    for name in by:
        if head.schema[name].is_nested():
            hint = "leave it out, or convert it to numbers or text"
            raise DataError(f"column {name!r} has several values per cell", location=location, hint=hint)
        distinct = head[name].n_unique()
        if distinct > MOST_VALUES:
            raise DataError(
                f"expected at most {MOST_VALUES:,} different values in column {name!r}, got {distinct:,} in the first "
                f"{len(head):,} rows",
                location=location,
                hint="bin its values, leave it out, or read a sample of the rows into memory",
            )
    plain = {name: f"evenhand_{i}" for i, name in enumerate(by)}  # narwhals does not quote keys for DuckDB
    keyed = rows.select(nw.col(name).alias(key) for name, key in plain.items()).group_by(*plain.values())
    cells = collect(keyed.agg(nw.len().alias(COUNT)).with_columns(nw.col(COUNT).cast(nw.Int64)))
    if not len(cells):
        raise DataError("there are no rows", location=location)
    # engines return cells in any order
    cells = cells.rename({key: name for name, key in plain.items()}).sort(by, nulls_last=True)
    counts = np.asarray(cells[COUNT].to_numpy(), dtype=np.int64)
    return CodedTable(cells.select(by), counts, location, partial(locate_value, frame))


def collect(rows: Any) -> Any:
    """Read a lazy frame into memory; Polars streams the rows.

    Raises:
        DataError: The engine cannot read the rows.
    """
    try:
        return rows.collect(engine="streaming") if rows.implementation.is_polars() else rows.collect()
    except Exception as error:  # engines have no common error class
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"the rows cannot be read: {lines[0]}",
            hint="use files with the same columns and column types, and convert the others",
        ) from None


def locate_value(frame: Any, column: str, value: Any) -> str:
    """Locate the first row with a value: ``in row 7 of 2026-03.parquet``; empty if the engine has no row numbers.

    Args:
        frame: Lazy frame that narwhals supports. Polars and DuckDB have row numbers.
        column: Column name.
        value: Value as the engine returned it; a missing value matches missing cells.
    """
    import narwhals as nw

    lazy = nw.from_native(frame).lazy()
    matches = _missing_cells(lazy, column) if is_missing(value) else nw.col(column) == value
    try:
        if lazy.implementation.is_polars():
            numbered = nw.from_native(lazy.to_native().with_row_index(ROW))
            return f"in row {numbered.filter(matches).select(ROW).head(1).collect().item() + 1:,}"
        if lazy.implementation.is_duckdb():
            # DuckDB adds these two columns to every Parquet file.
            files = lazy.filter(matches).to_native().aggregate("filename, min(file_row_number) AS first")
            name, row = files.order("filename").limit(1).fetchall()[0]
            return f"in row {row + 1:,} of {name}"
    except Exception:  # the row number is optional
        return ""
    return ""


def _missing_cells(rows: Any, name: str) -> Any:
    """Build the expression that selects the missing cells of a column: null, NaN, or blank."""
    import narwhals as nw

    kind, cell = rows.collect_schema()[name], nw.col(name)
    if kind.is_float():
        return cell.is_null() | cell.is_nan().fill_null(False)
    return cell.is_null() | (cell.str.strip_chars() == "").fill_null(False) if kind == nw.String else cell.is_null()
