"""Files of people as data frames: text tables, parquet and Excel workbooks, refused clearly when damaged."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.datasets.rows import names_rows, read_rows
from evenhand.errors import DataError, GuessedEncodingWarning, MissingExtraError, OptionError

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = (",", ";", "\t", "|")
"""What may stand between two values of a text table."""

MISSING_MARKS = ("", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>", "#N/A", "#NA")
"""Words that mean "missing" in a text table. ``None`` and ``?`` stay words: they are categories in real data."""

COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")

SNIFFED_ROWS = 50

MODEL_FIRST = "the model comes first, then the data"


def read_frame(
    path: str | Path, *, words: bool = False, missing: Sequence[str] = MISSING_MARKS, encoding: str | None = None
) -> pd.DataFrame:
    """Read a table: ``.csv``, ``.tsv`` and the like (also ``.gz``, ``.xz``, ``.bz2``, ``.zst``), parquet or ``.xlsx``.

    Folders and patterns of Parquet files, and tables of DuckDB (see ``open_data``), are read up to millions of rows.

    A text table has one line of column names; its values are separated by a comma, semicolon, tab or bar, whichever
    fits. It is UTF-8, or UTF-16 where a byte order mark says so. Where it is neither, it is read as UTF-16 if every
    other byte is zero, else as Windows-1252 if it can be that, with a warning that names the guess. A workbook has one
    sheet that is not empty, the column names in its first row. Columns of numbers become numbers, ``True``/``False``
    booleans, everything else words. The words in ``missing`` are read as missing.

    Args:
        path: the file.
        words: leave the values of a text table as they are written, numbers too.
        missing: words of a text table that are read as missing.
        encoding: of a text table, as Python calls it (``cp1252``); nothing is guessed then.

    Raises:
        DataError: the file is absent, empty, damaged or no table; the message names file and line.
        OptionError: there is no such encoding.
        MissingExtraError: parquet, Excel or zstd, and the library that reads it is not installed.

    Warns:
        GuessedEncodingWarning: the encoding is a guess.
    """
    if names_rows(path):
        return read_rows(path)
    path = Path(path)
    location = str(path)
    if encoding is not None:
        _require_encoding(encoding)
    if _file_suffixes(path)[-1:] in ([".xlsx"], [".xlsm"]):
        return _read_workbook(path)
    if _file_suffixes(path)[-1:] in ([".parquet"], [".pq"]):
        return _read_parquet(path)
    data = decompress_file(path)
    return parse_table(
        data, location=location, words=words, missing=missing, encoding=encoding or _guess_encoding(data, location)
    )


def decompress_file(path: Path) -> bytes:
    """Return the content of a file, decompressed as its last suffix says.

    Raises:
        DataError: the file is absent, cannot be read, or its compressed data is truncated or corrupt.
        MissingExtraError: it is compressed with zstd, which needs a library that is not installed.
    """
    data = _read_bytes(path)
    suffix = _file_suffixes(path)[-1:]
    return decompress_bytes(data, suffix[0], location=str(path)) if suffix and suffix[0] in COMPRESSIONS else data


def decompress_bytes(data: bytes, suffix: str, *, location: str) -> bytes:
    """Decompress bytes by the suffix of the file they came from."""
    import bz2
    import gzip
    import lzma
    import zlib

    try:
        if suffix == ".gz":
            return gzip.decompress(data)
        if suffix == ".xz":
            return lzma.decompress(data)
        if suffix == ".bz2":
            return bz2.decompress(data)
        return _decompress_zstd(data)
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"the {suffix} file is truncated or corrupt ({error})",
            location=location,
            hint="get the file again",
        ) from None


def parse_table(
    data: bytes,
    *,
    location: str,
    names: Sequence[str] | None = None,
    words: bool = False,
    missing: Sequence[str] = MISSING_MARKS,
    encoding: str = "utf-8",
) -> pd.DataFrame:
    """Read a text table from bytes; ``names`` are the columns of a table without a line of names.

    With ``words`` no value becomes a number or a boolean. A byte order mark comes before the encoding ``utf-8``.

    Raises:
        DataError: the bytes are not a text table; the message names the line.
    """
    import pandas as pd

    text = _decode_text(data, location, encoding)
    delimiter = _detect_delimiter(text)
    header, rows = _check_rows(text, delimiter, names, location)
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            header=None if names is not None else 0,
            names=list(range(len(header))),
            index_col=False,
            keep_default_na=False,
            na_values=list(missing),
            skipinitialspace=True,
            low_memory=False,
            dtype=str if words else None,
        )
    except (ValueError, OverflowError) as error:
        raise DataError(f"the table cannot be read: {error}", location=location) from None
    if len(frame) != rows:
        raise DataError(
            f"the table reads as {len(frame):,} or as {rows:,} rows, depending on how its quotes are taken",
            location=location,
            hint="quote values that hold line breaks, and double the quotes inside quoted values",
        )
    frame.columns = header
    return frame


def _file_suffixes(path: Path) -> list[str]:
    return [suffix.lower() for suffix in path.suffixes]


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


BINARY_KINDS = (
    (b"PK\x03\x04", "this is a zipped file (an Excel workbook?), not a text table", "call it .xlsx, or save it as CSV"),
    (b"\xd0\xcf\x11\xe0", "this is an old Excel workbook, not a text table", "save it as .xlsx or as CSV"),
    (b"PAR1", "this is a Parquet file", "call it .parquet"),
    (b"\x80", "this is a pickle of Python objects, not a text table", MODEL_FIRST),
    (b"\x93NUMPY", "this is a NumPy array, whose columns have no names", "save it as CSV with a line of names"),
)
"""How files begin that people give in place of a text table: what they are, and how to go on."""


WESTERN = "cp1252"
"""What a text from Windows is mostly written in, where it is not Unicode."""

SEQUENCES = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""Letters of several bytes in UTF-8."""

CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
"""Bytes that no text table holds in an encoding of one byte per letter."""


def _require_encoding(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise OptionError(
            f"there is no encoding {encoding!r}", hint="such as utf-8, cp1252, latin-1 or utf-16: `encoding=NAME`"
        ) from None


def _guess_encoding(data: bytes, location: str) -> str:
    """Return the encoding of a text table: UTF-8 unless it cannot be that and is plainly another; warn of a guess."""
    if data.startswith((*(start for start, _, _ in BINARY_KINDS), codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-8"
    found = None
    sample = data[: 2**16]
    even, odd = sample[::2], sample[1::2]
    # Letters of Western scripts have a zero as their high byte in UTF-16.
    if len(data) % 2 == 0 and max(even.count(0), odd.count(0)) > len(odd) / 2:
        found = "utf-16-le" if odd.count(0) > even.count(0) else "utf-16-be"
    elif not _decodes(data, "utf-8") and not CONTROLS.search(data):
        letters = sum(map(len, SEQUENCES.findall(data)))
        # A text with whole letters of UTF-8 is a damaged one, and no other encoding is right for it.
        if letters <= sum(byte >= 0x80 for byte in data) / 2 and _decodes(data, WESTERN):
            found = WESTERN
    if found is None or not _decodes(data, found):
        return "utf-8"
    warnings.warn(
        f"{location}: the text is not UTF-8, and is read as {found}, which is a guess: check letters such as "
        f"{_odd_word(data, found)!r}, or say the encoding: `encoding=NAME`",
        GuessedEncodingWarning,
        stacklevel=3,
    )
    return found


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _odd_word(data: bytes, encoding: str) -> str:
    """Return the first word with a letter beyond ASCII; the first word where there is none."""
    text = data.decode(encoding)
    found = re.search(r"\w*[^\x00-\x7f]\w*", text) or re.search(r"\w+", text)
    return "" if found is None else found.group()


def _decode_text(data: bytes, location: str, encoding: str) -> str:
    for start, message, hint in BINARY_KINDS:
        if data.startswith(start):
            raise DataError(message, location=location, hint=hint)
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if encoding == "utf-16":
            raise DataError(
                "the text begins as UTF-16 and is not", location=location, hint="save it as UTF-8"
            ) from None
        line = data.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "utf-8-sig" else encoding
        raise DataError(
            f"the text is not {name}: byte 0x{data[error.start]:02x}",
            location=f"{location}, line {line}",
            hint="save it as UTF-8, or say its encoding: `encoding=NAME`",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError("a zero byte: this is not a text table", location=f"{location}, line {line}")
    if not text.strip():
        raise DataError("the file is empty", location=location)
    return text


def _detect_delimiter(text: str) -> str:
    """Return the separator under which most of the first rows have as many values as the first one, at least two."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths = []
        try:
            for _, row in _filled_rows(text, delimiter):
                widths.append(len(row))
                if len(widths) >= SNIFFED_ROWS:
                    break
        except csv.Error:
            # An unquoted table can look badly quoted under the wrong separator; the right one is judged below.
            widths = widths or [1]
        if widths[0] < 2:
            return (0.0, 0)
        return (sum(width == widths[0] for width in widths) / len(widths), widths[0])

    return max(DELIMITERS, key=fit)


def _filled_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, with the line each ends on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    for row in reader:
        if len(row) > 1 or (row and row[0].strip()):
            yield reader.line_num, row


def _check_rows(text: str, delimiter: str, names: Sequence[str] | None, location: str) -> tuple[list[str], int]:
    """Return column names and number of rows; refuses rows that are longer or shorter than the names."""
    header = list(names) if names is not None else None
    rows = 0
    line = 0
    try:
        for line, row in _filled_rows(text, delimiter):
            if header is None:
                header = _read_header(row, f"{location}, line {line}")
                continue
            if len(row) != len(header):
                raise DataError(
                    f"{len(row)} values, but {len(header)} columns",
                    location=f"{location}, line {line}",
                    hint="every line needs one value per column; quote a value that holds the separator "
                    f"({'tab' if delimiter == chr(9) else delimiter})",
                )
            rows += 1
    except csv.Error as error:
        raise DataError(
            f"the quotes do not match up ({error})",
            location=f"{location}, after line {line}",
            hint="close the quote, and double quotes inside a quoted value",
        ) from None
    if header is None or rows == 0:
        raise DataError("there are no rows", location=location)
    return header, rows


def _read_header(row: list[str], location: str) -> list[str]:
    header = [name.strip() for name in row]
    if "" in header:
        raise DataError(
            f"column {header.index('') + 1} has no name",
            location=location,
            hint="name it; if it only numbers the rows, save the table without it (pandas: index=False)",
        )
    return _require_distinct(header, location)


def _require_distinct(header: list[str], location: str) -> list[str]:
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise DataError(
            f"two columns are called {repeated[0]!r}", location=location, hint="give every column its own name"
        )
    return header


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


def _read_workbook(path: Path) -> pd.DataFrame:
    """Return the one sheet of an Excel workbook; a cell with a formula has the value that was saved with it."""
    import pandas as pd

    data, location = _read_bytes(path), str(path)
    filled = {title: rows for title, rows in _read_sheets(data, location, formulas=False).items() if rows}
    if len(filled) > 1:
        raise DataError(
            f"the workbook has {len(filled)} sheets that are not empty: {', '.join(map(repr, filled))}",
            location=location,
            hint="save the one with the people as a file of its own",
        )
    if not filled:
        raise DataError("the workbook is empty", location=location)
    title, ((first, names), *rows) = next(iter(filled.items()))
    header = _read_header(["" if name is None else str(name) for name in names], f"{location}, row {first}")
    if not rows:
        raise DataError("there are no rows", location=location)
    gaps = any(None in cells for _, cells in rows)
    written = dict(_read_sheets(data, location, formulas=True)[title]) if gaps else {}
    for number, cells in rows:
        for column, cell in enumerate(cells):
            formula = cell is None and str(written[number][column] or "").startswith("=")
            if formula or (isinstance(cell, str) and cell in EXCEL_ERRORS):
                what = "has a formula without a saved value" if formula else f"is the error {cell}"
                raise DataError(
                    f"column {header[column]!r}: the cell {what}",
                    location=f"{location}, row {number}",
                    hint="open the workbook, correct the formula and save it again",
                )
    marks = {*MISSING_MARKS}
    plain = [[None if isinstance(cell, str) and cell.strip() in marks else cell for cell in cells] for _, cells in rows]
    return pd.DataFrame(plain, columns=header)


def _read_sheets(data: bytes, location: str, *, formulas: bool) -> dict[str, list[tuple[int, list[Any]]]]:
    """Return the rows of each sheet that are not empty, each with its number from 1, as formulas or as their values."""
    try:
        import openpyxl
    except ImportError:
        raise MissingExtraError("openpyxl", extra="excel", purpose="to read an Excel workbook") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validations that are not read
            book = openpyxl.load_workbook(io.BytesIO(data), data_only=not formulas)
            return {
                sheet.title: [
                    (number, list(cells))
                    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1)
                    if any(cell is not None for cell in cells)
                ]
                for sheet in book.worksheets
            }
    except Exception as error:  # a damaged file surfaces as almost any exception of the reader
        raise DataError(
            f"not a readable Excel workbook: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            location=location,
            hint="save it again as .xlsx, or as CSV",
        ) from None


EXCEL_ERRORS = ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")
"""What stands in a cell of a workbook whose formula failed."""


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    data = _read_bytes(path)
    try:
        import pyarrow as pa  # noqa: F401 - pandas uses it; here it only has to be installed
    except ImportError:
        raise MissingExtraError("pyarrow", extra="parquet", purpose="to read a parquet file") from None
    try:
        frame = pd.read_parquet(io.BytesIO(data), engine="pyarrow")
    except Exception as error:  # a damaged file surfaces as almost any exception of the reader
        raise DataError(
            f"not a readable parquet file: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            location=str(path),
            hint="get the file again",
        ) from None
    _require_distinct([str(name) for name in frame.columns], str(path))
    if frame.empty:
        raise DataError("there are no rows", location=str(path))
    return frame
