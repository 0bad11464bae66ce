"""Tables that are not read into memory: large Parquet files, folders of Parquet files, and tables of DuckDB."""

from __future__ import annotations

import glob
import os
import re
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, unquote_plus

from evenhand.core.text import list_some, suggest_name
from evenhand.errors import DataError, MissingExtraError, TableWarning

if TYPE_CHECKING:
    import pandas as pd

MANY = 1_000_000
"""Minimum number of rows of a single Parquet file that is not read into memory."""

MOST_IN_MEMORY = 5_000_000
"""Maximum number of rows of a folder or database that are read into memory."""

DATABASE = "duckdb"

PARQUET = (".parquet", ".pq")
WORKBOOKS = (".xlsx", ".xlsm")
JSON_LINES = (".jsonl", ".ndjson")
"""Suffixes of files with typed columns."""

TABLES = {*PARQUET, *WORKBOOKS, *JSON_LINES, ".csv", ".tsv"}
"""Suffixes of tables, which may be followed by that of a compression."""


def names_rows(place: str | Path) -> bool:
    """Check whether a text names a folder or pattern of Parquet files, or a table of a DuckDB database."""
    text = str(place)
    return text.startswith(f"{DATABASE}:") or Path(text).is_dir() or (glob.has_magic(text) and not Path(text).exists())


def is_text_table(path: str | Path) -> bool:
    """Check whether a file is a text table, whose columns have no types."""
    typed = (*PARQUET, *WORKBOOKS, *JSON_LINES)
    return not names_rows(path) and not any(suffix.lower() in typed for suffix in Path(path).suffixes)


def is_row_number(column: str) -> bool:
    """Check whether a column of a Parquet file is an unnamed index of pandas, which numbers the rows."""
    return re.fullmatch(r"__index_level_\d+__", column) is not None


def open_data(place: str | Path) -> Any | None:
    """Open data as a lazy frame, without reading the rows.

    Args:
        place: A Parquet file, a folder that is searched recursively for Parquet files, a pattern such as
            ``data/*.parquet``, or ``duckdb:///FILE?table=NAME``.

    Returns:
        A lazy frame. None for files that fit into memory and files of other formats, or if DuckDB is not installed.

    Raises:
        DataError: There is no such folder or table, or it cannot be opened.
        MissingExtraError: DuckDB is required for a folder, pattern or database, and is not installed.
    """
    return _open_rows(str(place)) if names_rows(place) or _is_large(Path(place)) else None


def _is_large(path: Path) -> bool:
    """Check whether a file is a Parquet file with many rows and DuckDB is installed."""
    if path.suffix.lower() not in PARQUET or find_spec(DATABASE) is None:
        return False
    try:
        import pyarrow.parquet as parquet

        return bool(parquet.ParquetFile(path).metadata.num_rows >= MANY)
    except Exception:  # the error is raised when the file is read
        return False


def _open_rows(place: str) -> Any:
    files = None if place.startswith(f"{DATABASE}:") else list_files(place)
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError(
            "duckdb", extra="duckdb", purpose="to count rows without reading them into memory"
        ) from None
    try:
        if files is None:
            return _open_table(duckdb, place)
        connection = connect(duckdb)
        _require_equal_types(connection, files, place)
        keys = _list_keys(files, place)
        # By default, DuckDB would convert the columns of all files to the types of the first, and cut off fractions.
        rows = connection.read_parquet(files, union_by_name=True, hive_partitioning=bool(keys))
        _require_names(connection, rows.columns, keys, files, place)
        numbers = ", ".join(f'"{name}"' for name in rows.columns if is_row_number(name))
        return rows.project(f"* EXCLUDE ({numbers})") if numbers else rows
    except duckdb.Error as error:
        raise DataError(f"the rows cannot be read: {str(error).splitlines()[0]}", location=place) from None


def _require_equal_types(connection: Any, files: list[str], place: str) -> None:
    """Reject a column that some files lack, or that is of different kinds, which DuckDB would fill in or convert.

    A column without values may have any type but words, to which DuckDB would convert the numbers of other files.
    """
    meaning = "coalesce(logical_type, converted_type, '')"
    kind_of = (
        f"CASE WHEN {meaning} = 'NullType()' THEN NULL "
        f"WHEN type = 'BYTE_ARRAY' AND {meaning} NOT ILIKE 'decimal%' THEN 'words' "
        "WHEN (file_name, name) IN (SELECT (file_name, path_in_schema) FROM parquet_metadata($1) "
        "GROUP BY file_name, path_in_schema HAVING sum(num_values) = sum(stats_null_count)) THEN NULL "
        "WHEN type = 'BOOLEAN' THEN 'booleans' "
        f"WHEN type = 'INT96' OR {meaning} ILIKE 'date%' OR {meaning} ILIKE 'time%' THEN 'dates' ELSE 'numbers' END"
    )
    # Names are compared without case, as by DuckDB. Fields of nested columns may have the same name.
    columns = connection.execute(
        f"SELECT arg_min(name, file_name), list(DISTINCT file_name), min({kind_of}), max({kind_of}), "
        f"arg_min(file_name, {kind_of}), arg_max(file_name, {kind_of}) FROM parquet_schema($1) WHERE type IS NOT NULL "
        "GROUP BY lower(name) HAVING count(*) = count(DISTINCT file_name) ORDER BY min(lower(name))",
        [files],
    ).fetchall()
    hint = "write the same columns with the same types to all files"
    for name, present, kind, other_kind, file, other_file in columns:
        if kind != other_kind:
            message = f"column {name!r} holds {other_kind} in {other_file} and {kind} in {file}"
            raise DataError(message, location=place, hint=hint)
        if len(present) < len(files):
            lacking = next(path for path in files if path not in present)
            raise DataError(f"{lacking} has no column {name!r}", location=place, hint=hint)


def _list_keys(files: list[str], place: str) -> set[str]:
    """List the columns in the names of folders, such as ``year`` in ``year=2026/a.parquet``."""
    root = place if Path(place).is_dir() else os.path.commonpath(files)
    folders = {folder for file in files for folder in Path(file).relative_to(root).parts[:-1]}
    return {folder.partition("=")[0] for folder in folders if "=" in folder}


def _require_names(connection: Any, columns: list[str], keys: set[str], files: list[str], place: str) -> None:
    """Reject columns whose names differ only in case, which DuckDB renames or replaces."""
    names = {name for (name,) in connection.execute("SELECT name FROM parquet_schema($1)", [files]).fetchall()}
    hint = "rename one of the columns"
    for name in columns:
        if name not in names | keys:
            message = f"two columns are called {name.rpartition('_')[0]!r}, or differ from it only in case"
            raise DataError(message, location=place, hint=hint)
    for key in sorted(keys & names):
        raise DataError(f"the files and the names of their folders have a column {key!r}", location=place, hint=hint)


def read_rows(place: str | Path) -> pd.DataFrame:
    """Read the rows of ``open_data`` into memory.

    Raises:
        DataError: There are too many rows, or they cannot be read.
    """
    rows = _open_rows(str(place))
    count = rows.count("*").fetchall()[0][0]
    if count > MOST_IN_MEMORY:
        raise DataError(
            f"{count:,} rows are more than the maximum of {MOST_IN_MEMORY:,} for this analysis, which reads all rows",
            location=str(place),
            hint="sample the rows, or store the decisions in a column: audits of decisions have no row limit",
        )
    if not count:
        raise DataError("there are no rows", location=str(place))
    frame: pd.DataFrame = rows.df()
    return frame


def connect(duckdb: Any, path: str = ":memory:") -> Any:
    """Open a connection to DuckDB that writes only temporary files, for data larger than memory."""
    settings = {"preserve_insertion_order": "false", "temp_directory": tempfile.gettempdir()}
    connection = duckdb.connect(path, read_only=path != ":memory:", config=settings)
    connection.execute("SET enable_progress_bar = false")  # standard output is for results
    return connection


def list_files(text: str) -> list[str]:
    """List the Parquet files of a folder, a pattern or a file name, sorted by name.

    Links to the same file count once. In a folder, hidden files and names that begin with an underscore are left out.

    Raises:
        DataError: There are no such files.

    Warns:
        TableWarning: The folder also has tables in other formats, which are left out.
    """
    if Path(text).is_dir():
        # As in Spark and pyarrow, names that begin with a dot or an underscore are not data.
        paths = [
            path for path in Path(text).rglob("*") if not re.search(r"(^|/)[._]", path.relative_to(text).as_posix())
        ]
        files = sorted(str(path) for path in paths if path.suffix.lower() in PARQUET)
        others = [path.name for path in paths if {*map(str.lower, path.suffixes)} & TABLES and str(path) not in files]
        if files and others:
            message = f"{text}: only the Parquet files are read, not {list_some(sorted(others))}"
            warnings.warn(message, TableWarning, stacklevel=2)
    else:
        files = [text] if Path(text).exists() else sorted(glob.glob(text, recursive=True))
    files = list({Path(file).resolve(): file for file in reversed(files)}.values())[::-1]  # a link is not a second file
    if not files:
        problem = "the folder has no Parquet file" if Path(text).is_dir() else "the pattern matches no file"
        raise DataError(problem, location=text, hint="use files that end in .parquet")
    return files


def _open_table(duckdb: Any, text: str) -> Any:
    hint = "for example duckdb:///people.duckdb?table=decisions, or duckdb:////data/people.duckdb?table=decisions"
    # As in other database URLs, a relative path follows three slashes, and an absolute path four.
    match = re.fullmatch(rf"{DATABASE}:///([^?#]+)\?table=([^&#]+)", text)
    if match is None:
        raise DataError("expected a file and a table", location=text, hint=hint)
    path, table = unquote(match[1]), unquote_plus(match[2])
    if not Path(path).is_file():
        raise DataError(f"there is no file {path!r}", location=text, hint=hint)
    connection = connect(duckdb, path)
    tables = [row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()]
    if table not in tables:
        raise DataError(
            f"there is no table {table!r}",
            location=text,
            hint=f"{suggest_name(table, tables)}the tables are: {', '.join(tables) or 'none'}",
        )
    return connection.table('"' + table.replace('"', '""') + '"')
