"""Rows that stay where they are: Parquet files larger than memory, folders of them, tables of a DuckDB database."""

from __future__ import annotations

import glob
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from evenhand.errors import DataError, MissingExtraError
from evenhand.text import suggest_name

if TYPE_CHECKING:
    import pandas as pd

MANY = 1_000_000
"""From so many rows on, a single Parquet file is counted where it is rather than read into memory."""

MOST_IN_MEMORY = 5_000_000
"""So many rows of a folder or a database are read into memory at most, where something needs every row."""

DATABASE = "duckdb"


def names_rows(place: str | Path) -> bool:
    """Return whether this names a folder or pattern of Parquet files, or a table of a DuckDB database."""
    text = str(place)
    return text.startswith(f"{DATABASE}:") or Path(text).is_dir() or (glob.has_magic(text) and not Path(text).exists())


TYPED_FILES = frozenset({".xlsx", ".xlsm", ".parquet", ".pq", ".jsonl", ".ndjson"})
"""Suffixes of files that state the types of their columns."""


def is_text_table(path: str | Path) -> bool:
    """Return whether a file is a text table, which does not state the types of its columns."""
    return not names_rows(path) and not any(suffix.lower() in TYPED_FILES for suffix in Path(path).suffixes)


def is_row_number(column: str) -> bool:
    """Return whether a column of a Parquet file is an index of pandas without a name, which numbers the rows."""
    return re.fullmatch(r"__index_level_\d+__", column) is not None


def open_data(place: str | Path) -> Any | None:
    """Open rows without reading them: a lazy frame for everything that counts.

    Args:
        place: a Parquet file, a folder of Parquet files (those in its folders too), a pattern such as
            ``data/*.parquet``, or ``duckdb:///FILE?table=NAME``.

    Returns:
        None where it is a single file of few rows, or no Parquet file, which is read; or DuckDB is not installed.

    Raises:
        DataError: there is no such folder or table, or it cannot be opened.
        MissingExtraError: a folder, pattern or database, and DuckDB is not installed.
    """
    return _open_rows(str(place)) if names_rows(place) or _is_large(Path(place)) else None


def _is_large(path: Path) -> bool:
    """Return whether this is a Parquet file of many rows, and what counts them is installed."""
    if path.suffix.lower() not in (".parquet", ".pq") or find_spec(DATABASE) is None:
        return False
    try:
        import pyarrow.parquet as parquet

        return bool(parquet.ParquetFile(path).metadata.num_rows >= MANY)
    except Exception:  # what is wrong with the file is said where it is read
        return False


def _open_rows(place: str) -> Any:
    files = None if place.startswith(f"{DATABASE}:") else list_files(place)
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("duckdb", extra="duckdb", purpose="to count rows where they are") from None
    try:
        if files is None:
            return _open_table(duckdb, place)
        rows = connect(duckdb).read_parquet(files)
        numbers = ", ".join(f'"{name}"' for name in rows.columns if is_row_number(name))
        return rows.project(f"* EXCLUDE ({numbers})") if numbers else rows
    except duckdb.Error as error:
        raise DataError(f"the rows cannot be read: {str(error).splitlines()[0]}", location=place) from None


def read_rows(place: str | Path) -> pd.DataFrame:
    """Read the rows of ``open_data`` into memory.

    Raises:
        DataError: there are too many, or they cannot be read.
    """
    rows = _open_rows(str(place))
    many = rows.count("*").fetchall()[0][0]
    if many > MOST_IN_MEMORY:
        raise DataError(
            f"{many:,} rows are too many for what needs every row in memory; {MOST_IN_MEMORY:,} are read at most",
            location=str(place),
            hint="of more, decisions in a column and models asked about Parquet files are audited; or take a sample",
        )
    if not many:
        raise DataError("there are no rows", location=str(place))
    frame: pd.DataFrame = rows.df()
    return frame


def connect(duckdb: Any, path: str = ":memory:") -> Any:
    """Return a connection to DuckDB that writes nothing but what is too large for memory, into temporary files."""
    settings = {"preserve_insertion_order": "false", "temp_directory": tempfile.gettempdir()}
    connection = duckdb.connect(path, read_only=path != ":memory:", config=settings)
    connection.execute("SET enable_progress_bar = false")  # it is drawn into standard output
    return connection


def list_files(text: str) -> list[str]:
    """Return the Parquet files of a folder or pattern, or the one that is named, in the order of their names.

    Raises:
        DataError: there are none.
    """
    if Path(text).is_dir():
        found = sorted(str(path) for ending in ("parquet", "pq") for path in Path(text).rglob(f"*.{ending}"))
    else:
        found = [text] if Path(text).exists() else sorted(glob.glob(text, recursive=True))
    if not found:
        what = "folder has no Parquet file" if Path(text).is_dir() else "pattern fits no file"
        raise DataError(f"this {what}", location=text, hint="name files that end in .parquet")
    return found


def _open_table(duckdb: Any, text: str) -> Any:
    parts = urlsplit(text)
    tables, path = parse_qs(parts.query).get("table", []), unquote(parts.path)
    hint = "write for example duckdb:///people.duckdb?table=decisions, or duckdb:////data/people.duckdb?table=decisions"
    if parts.netloc or len(path) < 2 or len(tables) != 1:
        raise DataError("expected a file and a table", location=text, hint=hint)
    # As for other databases, three slashes begin a path from here on, and four an absolute one.
    path = path[1:]
    if not Path(path).is_file():
        raise DataError(f"there is no file {path!r}", location=text, hint=hint)
    connection = connect(duckdb, path)
    known = [row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()]
    if tables[0] not in known:
        raise DataError(
            f"there is no table {tables[0]!r}",
            location=text,
            hint=f"{suggest_name(tables[0], known)}the tables are: {', '.join(known) or 'none'}",
        )
    return connection.table('"' + tables[0].replace('"', '""') + '"')
