"""Row numbers of invalid values in lazy data, for error messages only."""

from __future__ import annotations

from typing import Any

from evenhand.schema.rows.cells import OWN, missing_cells
from evenhand.schema.rows.coded import is_missing


def locate_value(frame: Any, column: str, value: Any) -> str:
    """Locate the first row with a value: ``in row 7 of 2026-03.parquet``; empty if the engine has no row numbers.

    Args:
        frame: Lazy frame that narwhals supports. Polars and DuckDB have row numbers.
        column: Column name.
        value: Value as the engine returned it; a missing value finds missing cells.
    """
    import narwhals as nw

    missing = is_missing(value)
    matches = missing_cells(nw.from_native(frame).lazy(), column) if missing else nw.col(column) == value
    return _locate(frame, matches)


def locate_score(frame: Any, score: str) -> str:
    """Locate the first row without a finite score; empty if the engine has no row numbers."""
    import narwhals as nw

    return _locate(frame, ~nw.col(score).cast(nw.Float64).is_finite().fill_null(False))


def _locate(frame: Any, condition: Any) -> str:
    import narwhals as nw

    lazy = nw.from_native(frame).lazy()
    try:
        if lazy.implementation.is_polars():
            numbered = nw.from_native(lazy.to_native().with_row_index(OWN + "row"))
            row = numbered.filter(condition).select(OWN + "row").head(1).collect().item()
            return f"in row {row + 1:,}"
        if lazy.implementation.is_duckdb():
            # DuckDB adds these two columns to every Parquet file.
            files = lazy.filter(condition).to_native().aggregate("filename, min(file_row_number) AS first")
            name, row = files.order("filename").limit(1).fetchall()[0]
            return f"in row {row + 1:,} of {name}"
    except Exception:  # the row number is optional
        return ""
    return ""
