"""Where a value is in rows that were counted: a second query, only for the message of an error."""

from __future__ import annotations

from typing import Any

from evenhand.schema.rows.cells import OWN
from evenhand.schema.rows.coded import is_missing


def locate_value(frame: Any, column: str, value: Any) -> str:
    """Return where the first row is that has a value: ``in row 7 of 2026-03.parquet``; empty where no engine knows.

    Args:
        frame: a lazy frame that narwhals knows; rows of DuckDB and of Polars have numbers.
        column: which column; value: as the engine gave it, or what stands for a missing one.
    """
    import narwhals as nw

    same = nw.col(column) == value
    if is_missing(value):
        same = nw.col(column).is_null()
        if nw.from_native(frame).lazy().collect_schema()[column].is_float():
            same = same | nw.col(column).is_nan()
    return _locate(frame, same)


def locate_score(frame: Any, score: str) -> str:
    """Return where the first row is without a finite number as its score; empty where no engine knows."""
    import narwhals as nw

    return _locate(frame, ~nw.col(score).cast(nw.Float64).is_finite().fill_null(False))


def _locate(frame: Any, rows: Any) -> str:
    import narwhals as nw

    lazy = nw.from_native(frame).lazy()
    try:
        if lazy.implementation.is_polars():
            numbered = nw.from_native(lazy.to_native().with_row_index(OWN + "row"))
            first = numbered.filter(rows).select(OWN + "row").head(1).collect().item()
            return f"in row {first + 1:,}"
        if lazy.implementation.is_duckdb():
            # Columns that DuckDB has of every Parquet file without being asked to.
            found = lazy.filter(rows).to_native()
            files = found.aggregate("filename, min(file_row_number) AS first").order("filename").limit(1)
            name, first = files.fetchall()[0]
            return f"in row {first + 1:,} of {name}"
    except Exception:  # an engine that cannot say where a row is: then only how many there are is said
        return ""
    return ""
