"""Text tables, such as CSV, with every cell unchanged. Encoding and separator are detected."""

from __future__ import annotations

import codecs
import contextlib
import csv
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.text import find_repeated
from evenhand.datasets.cells import BLANKS
from evenhand.errors import DataError, GuessedEncodingWarning, OptionError

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = (",", ";", "\t", "|")
"""Supported separators."""

SNIFFED_ROWS = 50
"""Number of rows used to detect the separator."""

MODEL_FIRST = "pass the model first, then the data"

BINARY_KINDS = (
    (
        b"PK\x03\x04",
        "this is an Excel workbook or a zip file, not a text table",
        "rename a workbook to .xlsx, and unpack other zip files",
    ),
    (b"\x1f\x8b", "this is a gzip file", "rename it to end in .gz"),
    (b"\xd0\xcf\x11\xe0", "this is an old Excel workbook, not a text table", "save it as .xlsx or as CSV"),
    (b"PAR1", "this is a Parquet file", "rename it to .parquet"),
    (b"\x80", "this is a pickle of Python objects, not a text table", MODEL_FIRST),
    (b"\x93NUMPY", "this is a NumPy array, whose columns have no names", "save it as CSV with a line of names"),
)
"""First bytes of files that are not text tables, with a message and a hint."""

WESTERN = "cp1252"
"""Default encoding of non-Unicode text from Windows."""

SEQUENCES = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""Multi-byte characters in UTF-8."""

CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
"""Bytes that never occur in text with a single-byte encoding."""

LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def require_encoding(encoding: str) -> None:
    """Check that Python supports an encoding.

    Raises:
        OptionError: The encoding is unknown.
    """
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise OptionError(
            f"unknown encoding {encoding!r}",
            hint="use utf-8, cp1252, latin-1 or utf-16, for example: `encoding=NAME`",
        ) from None


def guess_encoding(data: bytes, location: str) -> str:
    """Return the encoding of a text table: UTF-8 if it is valid, otherwise a guess.

    Warns:
        GuessedEncodingWarning: The encoding is a guess.
    """
    if data.startswith((*(start for start, _, _ in BINARY_KINDS), codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-8"
    if _decodes(data, "utf-8") or CONTROLS.search(data) or not _decodes(data, WESTERN):
        return "utf-8"
    letters = sum(map(len, SEQUENCES.findall(data)))
    if letters > sum(byte >= 0x80 for byte in data) / 2:
        # Text with complete UTF-8 sequences is damaged UTF-8 rather than text in another encoding.
        return "utf-8"
    words = re.findall(r"\w*[^\x00-\x7f]\w*", data.decode(WESTERN))
    warnings.warn(
        f"{location}: the text is not UTF-8 and is read as {WESTERN}, which is a guess: check words such as "
        f"{words[0]!r}; if they are wrong, save the file as UTF-8, or set `encoding=NAME`",
        GuessedEncodingWarning,
        stacklevel=3,
    )
    return WESTERN


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def decode_text(data: bytes, location: str, encoding: str) -> str:
    """Decode a text table, without its byte order mark.

    Raises:
        DataError: The text is empty, binary, or in another encoding; the message states the line.
    """
    for start, message, hint in BINARY_KINDS:
        if data.startswith(start):
            raise DataError(message, location=location, hint=hint)
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        name = "UTF-8" if encoding == "utf-8-sig" else encoding
        raise DataError(
            f"the text is not {name}: byte 0x{data[error.start]:02x}",
            location=f"{location}, line {line}",
            hint="save it as UTF-8, or set its encoding with `encoding=NAME`",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(
            "the file contains a null byte, so it is not a text table",
            location=f"{location}, line {line}",
            hint="for UTF-16 without a byte order mark, set `encoding=utf-16-le` or `encoding=utf-16-be`",
        )
    if not text.strip():
        raise DataError("the file is empty", location=location)
    return text


def parse_table(
    data: bytes, *, location: str, names: Sequence[str] | None = None, encoding: str = "utf-8"
) -> pd.DataFrame:
    """Parse a text table. All cells are strings, and only empty cells are missing.

    Args:
        data: Content of the file. The separator is that of a first line such as ``sep=;``, or detected: comma,
            semicolon, tab or pipe.
        location: Name of the file in error messages.
        names: Column names of a table without a header line.
        encoding: Encoding of the text. A byte order mark takes precedence over ``utf-8``.

    Raises:
        DataError: The content is not a text table; the message states the line.
    """
    text = decode_text(data, location, encoding)
    if re.match(r'\s*(\{\s*"|\[\s*[\[{])', text):
        hint = "write one object per line, and rename the file to .jsonl"
        raise DataError("this is JSON, not a text table", location=location, hint=hint)
    stated = re.match(r"sep=(.)\r?\n", text)  # written by Excel; the line end keeps the line numbers right
    text = text[len("sep=;") :] if stated else text
    delimiter = stated[1] if stated else detect_delimiter(text)
    split = _split_with_arrow(text, delimiter, names, location) or _split(text, delimiter, names, location)
    return _to_frame(*split)


def detect_delimiter(text: str) -> str:
    """Detect the separator that gives most rows as many columns as the first row, and at least two."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths: list[int] = []
        # An unquoted table can look badly quoted under the wrong separator, so the rows before the error are compared.
        with contextlib.suppress(csv.Error):
            widths.extend(len(row) for _, row in itertools.islice(_filled_rows(text, delimiter), SNIFFED_ROWS))
        if not widths or widths[0] < 2:
            return (0.0, 0)
        return (sum(width == widths[0] for width in widths) / len(widths), widths[0])

    return max(DELIMITERS, key=fit)


def _filled_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the number of its last line."""
    lines = (match.group() for match in LINE.finditer(text))
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    for row in reader:
        if len(row) > 1 or (row and row[0].strip()):
            yield reader.line_num, row


def _split(text: str, delimiter: str, names: Sequence[str] | None, location: str) -> tuple[list[str], list[Any]]:
    """Split a text into column names and the cells of each column. Empty cells are None."""
    header = list(names) if names is not None else None
    rows: list[list[str]] = []
    line = 0
    try:
        for line, row in _filled_rows(text, delimiter):
            if header is None:
                header = read_header(row, f"{location}, line {line}")
            elif len(row) == len(header):
                rows.append(row)
            else:
                raise DataError(
                    f"{len(row)} values, but {len(header)} columns",
                    location=f"{location}, line {line}",
                    hint="every line needs one value per column; quote a value that holds the separator "
                    f"({'tab' if delimiter == chr(9) else delimiter})",
                )
    except csv.Error as error:
        raise DataError(
            f"the quotes do not match up ({error})",
            location=f"{location}, after line {line}",
            hint="close the quote, and double quotes inside a quoted value",
        ) from None
    if header is None or not rows:
        raise DataError("there are no rows", location=location)
    return header, [[cell if cell.strip(BLANKS) else None for cell in cells] for cells in zip(*rows, strict=True)]


def _split_with_arrow(
    text: str, delimiter: str, names: Sequence[str] | None, location: str
) -> tuple[list[str], list[Any]] | None:
    """Split a text like ``_split``, several times as fast.

    Returns:
        None if pyarrow is not installed, or might read the text differently from ``_split``: text with a single column,
        with blanks or quotes in unusual places, or with rows of different lengths.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv as arrow
    except ImportError:
        return None
    padded = text.startswith(" ") or any(start + " " in text for start in (delimiter, "\n", "\r"))
    data = text.encode()
    if text.startswith("\ufeff") or ('"' in text and (padded or not _are_plain_quotes(data, delimiter))):
        return None
    line, row = next(_filled_rows(text, delimiter))
    if len(row) < 2 or (names is not None and len(names) != len(row)):
        return None
    try:
        table = arrow.read_csv(
            pa.BufferReader(data),
            arrow.ReadOptions(autogenerate_column_names=True),
            arrow.ParseOptions(delimiter=delimiter, newlines_in_values='"' in text),
            arrow.ConvertOptions(
                column_types={f"f{i}": pa.large_string() for i in range(len(row))}, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    columns = []
    for column in table.slice(0 if names is not None else 1).columns:
        words = pc.utf8_ltrim(column, " ") if padded else column
        blank = pc.equal(pc.utf8_trim(words, BLANKS), "")
        columns.append(pc.if_else(blank, None, words) if pc.any(blank).as_py() else words)
    header = list(names) if names is not None else read_header(row, f"{location}, line {line}")
    return (header, columns) if columns and len(columns[0]) else None


def _are_plain_quotes(data: bytes, delimiter: str) -> bool:
    """Check whether every quote begins or ends a value, or is part of a doubled quote in a value."""
    codes = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    places = np.flatnonzero(codes == ord('"'))
    borders = np.frombuffer(b'\r\n"' + delimiter.encode(), np.uint8)
    outside = np.concatenate([codes[places[::2] - 1], codes[places[1::2] + 1]])
    return len(places) % 2 == 0 and bool(np.isin(outside, borders).all())


def _to_frame(header: list[str], columns: Sequence[Any]) -> pd.DataFrame:
    import pandas as pd

    series = {}
    for name, cells in zip(header, columns, strict=True):
        words = pd.Series(cells, dtype=object) if isinstance(cells, list) else cells.to_pandas()
        words = words.where(words.notna(), np.nan) if words.dtype == object else words
        series[name] = words.infer_objects() if words.notna().any() else words.astype(np.float64)
    return pd.DataFrame(series)


def read_header(row: Sequence[str], location: str) -> list[str]:
    """Parse column names and trim them.

    Raises:
        DataError: A column has no name, or two columns have the same name.
    """
    header = [name.strip() for name in row]
    if "" in header:
        raise DataError(
            f"column {header.index('') + 1} has no name",
            location=location,
            hint="name it; if it only numbers the rows, save the table without it (pandas: index=False)",
        )
    if repeated := find_repeated(header):
        raise DataError(
            f"two columns are called {repeated[0]!r}", location=location, hint="give every column its own name"
        )
    return header
