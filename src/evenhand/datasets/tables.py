"""Files as data frames: text tables, JSON lines, Parquet and Excel workbooks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.datasets.cells import parse_numbers, to_word
from evenhand.datasets.json_lines import parse_json_lines
from evenhand.datasets.rows import JSON_LINES, PARQUET, WORKBOOKS, is_row_number, names_rows, read_rows
from evenhand.datasets.text_tables import guess_encoding, parse_table, read_header, require_encoding
from evenhand.datasets.workbooks import parse_workbook
from evenhand.errors import DataError, MissingExtraError, OptionError

if TYPE_CHECKING:
    import pandas as pd

COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")


def read_frame(
    path: str | Path, *, encoding: str | None = None, sheet: str | None = None, words: bool = False
) -> pd.DataFrame:
    """Read a table: a text table such as CSV, JSON lines, Parquet or an Excel workbook.

    Text tables and JSON lines may be compressed (``.gz``, ``.xz``, ``.bz2``, ``.zst``). Folders and patterns of Parquet
    files, and tables of DuckDB (see ``open_data``), are read up to ``MOST_IN_MEMORY`` rows.

    A text table has one line of column names. Its separator (comma, semicolon, tab or pipe) is detected. Its encoding
    is UTF-8, or UTF-16 if it begins with a byte order mark. Other text is read as Windows-1252 if possible, and a
    warning reports the guess.

    Only empty cells are missing: strings such as ``NA`` and ``null`` are kept. A column of a text table becomes a
    number column if every string in it is the canonical spelling of a number, such as ``2134`` or ``0.5``. ``02134``,
    ``3.10``, ``1e3`` and ``True`` are not canonical, and a column with such a cell is not converted. In other
    formats, cells keep their type.

    Args:
        path: Path of the file.
        encoding: Encoding of a text table, such as ``cp1252``. If None, it is detected.
        sheet: Sheet of a workbook. If None, the workbook must have a single sheet that is not empty.
        words: Whether to read every cell as a string. Those of a text table are unchanged. Whole numbers in other
            formats are written without a decimal point.

    Returns:
        A data frame. Each column holds integers, floats or strings, and missing cells are NaN.

    Raises:
        DataError: The file is missing, empty, damaged or not a table; the message states the file and line.
        OptionError: There is no such encoding or sheet.
        MissingExtraError: A library for Parquet, Excel or zstd is not installed.

    Warns:
        GuessedEncodingWarning: The encoding is a guess.
        TableWarning: Title rows of a workbook are skipped, or a column of several types is converted.
    """
    if encoding is not None:
        require_encoding(encoding)
    place, path = str(path), Path(path)
    suffix = next((suffix for suffix in map(str.lower, reversed(path.suffixes)) if suffix not in COMPRESSIONS), "")
    many = names_rows(place)
    if sheet is not None and (many or suffix not in WORKBOOKS):
        raise OptionError("`sheet=` requires an Excel workbook", location=place, hint="omit it")
    if many or suffix in PARQUET:
        frame = read_rows(place) if many else _parse_parquet(_read_bytes(path), place)
        return frame.map(to_word) if words else frame
    if suffix in WORKBOOKS:
        return _refuse_header(parse_workbook(_read_bytes(path), place, sheet=sheet, words=words), place)
    data = decompress_file(path)
    if suffix in JSON_LINES:
        return parse_json_lines(data, place, words=words)
    frame = parse_table(data, location=place, encoding=encoding or guess_encoding(data, place))
    _refuse_header(frame, place)
    return frame if words else parse_numbers(frame)


def _refuse_header(frame: pd.DataFrame, location: str) -> pd.DataFrame:
    """Check that no row repeats the column names, as in files that were joined. Return the frame."""
    rows = frame[frame.iloc[:, 0] == frame.columns[0]]
    rows = rows[(rows == list(frame.columns)).all(axis=1)]
    if len(rows) and len(frame.columns) > 1:
        place = f"{location}, row {rows.index[0] + 1:,}"
        raise DataError("the row repeats the column names", location=place, hint="delete it")
    return frame


def decompress_file(path: Path) -> bytes:
    """Read a file, and decompress it according to its last suffix.

    Raises:
        DataError: The file is missing or not readable, or its compressed data is truncated or corrupt.
        MissingExtraError: The file is compressed with zstd, and the zstd library is not installed.
    """
    import bz2
    import gzip
    import lzma
    import zlib

    data, suffix = _read_bytes(path), path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return data
    functions = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress, ".zst": _decompress_zstd}
    try:
        return functions[suffix](data)
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"the {suffix} file is truncated or corrupt ({error})", location=str(path), hint="download the file again"
        ) from None


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise DataError("this is a folder, not a file", location=str(path), hint="name a file inside it")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError("there is no such file", location=str(path)) from None
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", location=str(path)) from None
    if not data:
        raise DataError("the file is empty", location=str(path))
    return data


def _decompress_zstd(data: bytes) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("zstandard", extra="zstd", purpose="to read a .zst file") from None
    content = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            content.append(frame.decompress(data))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from None
        if not frame.eof:
            raise EOFError("the end is missing")
        data = frame.unused_data
    return b"".join(content)


def _parse_parquet(data: bytes, location: str) -> pd.DataFrame:
    """Read a Parquet file. A named pandas index becomes a column, as in other readers."""
    import pandas as pd

    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("pyarrow", extra="parquet", purpose="to read a parquet file") from None
    try:
        names = [name for name in parquet.read_schema(io.BytesIO(data)).names if not is_row_number(name)]
        read_header(names, location)
        frame = pd.read_parquet(io.BytesIO(data), engine="pyarrow")
    except DataError:
        raise
    except Exception as error:  # the reader raises almost any exception for damaged files
        raise DataError(
            f"not a readable parquet file: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            location=location,
            hint="download the file again",
        ) from None
    if frame.columns.nlevels > 1:
        raise DataError(
            f"the column names have {frame.columns.nlevels} levels",
            location=location,
            hint="give every column a single name before you save the table",
        )
    index = [name for name in frame.index.names if name in names]
    frame = frame.reset_index(level=index).reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    if frame.empty:
        raise DataError("there are no rows", location=location)
    return frame[names]
