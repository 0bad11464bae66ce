"""Preparation of the publishers' files: parsing, filters, derived columns and types."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evenhand.datasets.cells import parse_numbers
from evenhand.datasets.entry import DatasetEntry
from evenhand.datasets.json_lines import parse_json_lines
from evenhand.datasets.text_tables import parse_table
from evenhand.errors import DataError, TableWarning
from evenhand.schema.attribute import Value

if TYPE_CHECKING:
    import pandas as pd

MISSING_WORDS = ("NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>", "#N/A", "#NA")
"""Words for missing values in the publishers' files. ``None`` and ``?`` are categories there."""


def prepare_dataset(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Convert a publisher's file to the frame of a data set.

    Args:
        entry: Description of the data set.
        data: Content of the file, decompressed.
        location: Name of the file in error messages.

    Raises:
        DataError: A column is missing, or has values of another type.
    """
    frame = PREPARERS.get(entry.card.name, _parse_table)(entry, data, location)
    require_columns(frame, entry.card.columns, location)
    types = {}
    for attribute in entry.schema.attributes:
        if attribute.kind == "real":
            types[attribute.name] = "float64"
        elif attribute.kind == "integer" or (_all_integers(attribute.values) and attribute.missing == "refuse"):
            types[attribute.name] = "int64"
    if _all_integers(entry.schema.target.values):
        types[entry.schema.target.name] = "int64"
    return _cast_columns(frame[list(entry.card.columns)], types, location)


def parse_published(data: bytes, location: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a publisher's text table, with numbers converted and the publishers' words for missing values removed.

    Args:
        data: Content of the file.
        location: Name of the file in error messages.
        names: Column names of a table without a header line.
    """
    table = parse_table(data, location=location, names=names)
    return parse_numbers(table.mask(table.isin(MISSING_WORDS)))


def require_columns(frame: pd.DataFrame, columns: Sequence[str], location: str) -> None:
    """Check that a table has the given columns.

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


def _cast_to_floats(frame: pd.DataFrame, columns: Sequence[str], location: str) -> pd.DataFrame:
    """Convert columns to floats before values are computed from them."""
    require_columns(frame, columns, location)
    return _cast_columns(frame, dict.fromkeys(columns, "float64"), location)


def _cast_columns(frame: pd.DataFrame, types: dict[str, str], location: str) -> pd.DataFrame:
    for name, kind in types.items():
        if kind == "int64" and frame[name].dtype.kind == "f" and not frame[name].mod(1).eq(0).all():
            raise DataError(f"column {name!r} must hold whole numbers and does not", location=location)
    try:
        return frame.astype(types)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"a column that must hold numbers does not: {error}", location=location) from None


def _all_integers(values: Sequence[Value] | None) -> bool:
    return all(type(value) is int for value in values or ("",))


def _parse_table(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Parse a table with a header line, or without one if its first value is a number."""
    first = data.lstrip(b"\xef\xbb\xbf \r\n").split(b",", 1)[0].strip(b' "')
    is_number = first.replace(b".", b"", 1).isdigit()
    return parse_published(data, location, entry.header if entry.header and is_number else None)


def _prepare_compas(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Keep the rows that ProPublica's analysis keeps."""
    # The publisher repeats two column names. The second column of each gets a number.
    head, separator, rest = data.partition(b"\n")
    names: list[bytes] = []
    for name in head.rstrip(b"\r").split(b","):
        names.append(name + b".1" if name in names else name)
    frame = parse_published(b",".join(names) + separator + rest, location)
    require_columns(frame, entry.card.columns, location)
    frame = _cast_to_floats(frame, ["days_b_screening_arrest", "is_recid"], location)
    kept = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & frame["score_text"].notna()
    )
    return frame[kept].reset_index(drop=True)


def _prepare_students(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Derive the label from the final grade."""
    frame = _parse_table(entry, data, location)
    passed = _cast_to_floats(frame, ["G3"], location)["G3"].ge(10)
    return frame.assign(passed=passed.map({True: "yes", False: "no"}))


def _prepare_communities_crime(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Derive the label from the crime rate and its median."""
    columns = [*entry.schema.names, *entry.card.extra]
    frame = _parse_table(entry, data, location)
    require_columns(frame, columns, location)
    frame = _cast_to_floats(frame[columns], columns, location)
    rate = frame["ViolentCrimesPerPop"]
    return frame.assign(crime=rate.gt(rate.median()).map({True: "high", False: "low"}))


def _prepare_heart(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Keep '?' as a value, and combine the grades of disease 1 to 4."""
    frame = _parse_table(entry, data, location)
    require_columns(frame, entry.header, location)
    codes = {name: frame[name].map(lambda value: str(value).strip().removesuffix(".0")) for name in ("ca", "thal")}
    return frame.assign(**codes, disease=frame["num"].ne(0).map({True: "yes", False: "no"}))


def _prepare_prompts(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Read one prompt per line of JSON."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # a column of several types is refused with its schema
        return parse_json_lines(data, location).assign(answer="yes")


XPORT = b"HEADER RECORD*******LIBRARY HEADER RECORD"
"""First bytes of a SAS transport file."""

TRANSPORT_ROWS = 2000
"""Number of rows of a transport file that are read at once; it has about 1,800 columns."""

VISITS = ("OBTOTV15", "OPTOTV15", "ERTOT15", "IPNGTD15", "HHTOTD15")
"""Office visits, outpatient visits, emergency visits, nights in hospital, days of home care in 2015."""


def _prepare_meps15(entry: DatasetEntry, data: bytes, location: str) -> pd.DataFrame:
    """Keep the people of panel 19 with usable answers, in the columns that are common in the literature."""
    # Two columns of education are used by the filter only.
    names = {entry.renamed.get(name, name): name for name in (*entry.schema.names, "EDUCYR", "HIDEG") if name != "RACE"}
    columns = [*names, "RACEV2X", "HISPANX", "PANEL", "PERWT15F", *VISITS]
    is_transport = data.startswith(XPORT)
    frame = _read_transport(data, columns, location) if is_transport else _parse_table(entry, data, location)
    require_columns(frame, columns, location)
    frame = _cast_to_floats(frame[columns], columns, location)
    frame = frame[frame["PANEL"] == 19].rename(columns=names)
    answered = frame[["REGION", "AGE", "MARRY", "ASTHDX"]].ge(0).all(axis=1)
    # The summary scores keep their codes for "not ascertained", as is common in the literature.
    known = [name for name in names.values() if name not in ("PCS42", "MCS42", "K6SUM42", "SEX")]
    frame = frame[answered & frame[known].ge(-1).all(axis=1)].reset_index(drop=True)
    white = (frame["RACEV2X"] == 1) & (frame["HISPANX"] == 2)
    return frame.assign(
        RACE=white.map({True: "White", False: "Non-White"}),
        UTILIZATION=frame[list(VISITS)].sum(axis=1).ge(10),
    )


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


PREPARERS: dict[str, Callable[[DatasetEntry, bytes, str], pd.DataFrame]] = {
    "compas": _prepare_compas,
    "communities-crime": _prepare_communities_crime,
    "heart": _prepare_heart,
    "students": _prepare_students,
    "meps15": _prepare_meps15,
    "discrim-eval-explicit": _prepare_prompts,
    "discrim-eval-implicit": _prepare_prompts,
}
"""Functions for the files that need more than parsing, by data set."""
