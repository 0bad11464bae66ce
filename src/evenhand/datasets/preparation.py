"""Preparation of published files, as specified by the descriptions of the data sets."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from evenhand.datasets.cells import parse_numbers
from evenhand.datasets.entry import DatasetEntry
from evenhand.datasets.json_lines import parse_json_lines
from evenhand.datasets.text_tables import parse_table
from evenhand.errors import DataError, TableWarning
from evenhand.schema.attribute import Value

if TYPE_CHECKING:
    import pandas as pd

MISSING_WORDS = ("NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>", "#N/A", "#NA")
"""Strings for missing values in the publishers' files. In these files, ``None`` and ``?`` are categories."""

XPORT = b"HEADER RECORD*******LIBRARY HEADER RECORD"
"""First bytes of a SAS transport file."""

TRANSPORT_ROWS = 2000
"""Number of rows that are read at once from a transport file, which has about 1,800 columns."""


def prepare_dataset(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Convert a publisher's file to the frame of a data set.

    Args:
        entry: Description of the data set.
        data: Content of the file, decompressed.
        location: Name of the file in error messages.

    Raises:
        DataError: A column is missing, or has values of another type.
    """
    schema, columns = entry.schema, entry.published
    frame = _parse_file(entry, data, location)
    require_columns(frame, columns, location)
    frame = frame[columns].rename(columns={published: name for name, published in entry.renamed.items()})
    frame = _cast_columns(frame, dict.fromkeys([*entry.numbers, *entry.minima], "float64"), location)
    for name in entry.words:
        frame[name] = frame[name].map(lambda value: str(value).strip().removesuffix(".0"))
    if entry.keep:
        frame = frame.query(entry.keep, engine="python")
    for name, minimum in entry.minima.items():
        frame = frame.loc[frame[name] >= minimum]
    derived: dict[str, Any] = dict(entry.constants)
    for name, (condition, value, other) in entry.derived.items():
        holds = cast("pd.Series", frame.eval(condition, engine="python"))
        derived[name] = holds.map({True: value, False: other})
    frame = frame.assign(**derived).reset_index(drop=True)
    types = {}
    for attribute in schema.attributes:
        if attribute.kind == "real":
            types[attribute.name] = "float64"
        elif attribute.kind == "integer" or (_all_integers(attribute.values) and attribute.missing == "refuse"):
            types[attribute.name] = "int64"
    if _all_integers(schema.target.values):
        types[schema.target.name] = "int64"
    return _cast_columns(frame[list(entry.card.columns)], types, location)


def parse_published(data: bytes, location: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a publisher's text table, with numbers converted and the publishers' strings for missing values removed.

    Args:
        data: Content of the file.
        location: Name of the file in error messages.
        names: Column names of a table without a header line.
    """
    table = parse_table(data, location=location, names=names)
    return parse_numbers(table.mask(table.isin(MISSING_WORDS)))


def require_columns(frame: pd.DataFrame, columns: Sequence[str], location: str) -> None:
    """Check that a table has the required columns.

    Raises:
        DataError: A column is missing.
    """
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise DataError(
            f"column {missing[0]!r} is missing, so this is not the expected file",
            location=location,
            hint=f"the columns are: {', '.join(str(name) for name in frame.columns[:20])}",
        )


def table_hash(frame: pd.DataFrame) -> str:
    r"""Compute the SHA-256 of a frame written as CSV: UTF-8, commas, ``\n``, no index, shortest exact numbers."""
    import hashlib

    return hashlib.sha256(frame.to_csv(index=False, lineterminator="\n").encode()).hexdigest()


def _cast_columns(frame: pd.DataFrame, types: dict[str, str], location: str) -> pd.DataFrame:
    for name, kind in types.items():
        if kind == "int64" and frame[name].dtype.kind == "f" and not frame[name].mod(1).eq(0).all():
            raise DataError(f"expected whole numbers in column {name!r}", location=location)
    try:
        return frame.astype(types)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"expected numbers in numeric columns: {error}", location=location) from None


def _all_integers(values: Sequence[Value] | None) -> bool:
    return all(type(value) is int for value in values or ("",))


def _parse_file(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Parse JSON lines, a SAS transport file or a text table, which has no header if its first value is a number."""
    if entry.card.files and entry.card.files[0].endswith(".jsonl"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # a mixed-type column is rejected when the schema is built
            return parse_json_lines(data, location)
    if data.startswith(XPORT):
        return _read_transport(data, entry.published, location)
    if entry.numbers_repeated_names:
        header, separator, body = data.partition(b"\n")
        names: list[bytes] = []
        for name in header.rstrip(b"\r").split(b","):
            names.append(name + b".1" if name in names else name)
        data = b",".join(names) + separator + body
    value = data.lstrip(b"\xef\xbb\xbf \r\n").split(b",", 1)[0].strip(b' "')
    is_number = value.replace(b".", b"", 1).isdigit()
    return parse_published(data, location, entry.header if entry.header and is_number else None)


def _read_transport(data: bytes, columns: list[str], location: str) -> pd.DataFrame:
    """Read columns of a SAS transport file."""
    import pandas as pd

    try:
        with pd.read_sas(io.BytesIO(data), format="xport", chunksize=TRANSPORT_ROWS) as reader:
            parts = []
            for part in reader:
                require_columns(part, columns, location)
                parts.append(part[columns])
    except DataError:
        raise
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(f"this is not a readable SAS transport file: {error}", location=location) from None
    if not parts:
        raise DataError("there are no rows", location=location)
    return pd.concat(parts, ignore_index=True)
