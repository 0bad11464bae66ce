"""JSON lines: one object per row."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from evenhand.core.text import find_repeated
from evenhand.datasets.cells import build_frame
from evenhand.datasets.text_tables import decode_text, read_header
from evenhand.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def parse_json_lines(data: bytes, location: str, *, words: bool = False) -> pd.DataFrame:
    r"""Read one object per line. Lines end only with ``\n``.

    Strings, numbers, true and false keep their types. Null and absent entries are missing. Arrays and
    objects become strings of JSON.

    Args:
        data: Content of the file, in UTF-8.
        location: Name of the file in error messages.
        words: Whether to convert every cell to a string.

    Raises:
        DataError: A line is not an object or repeats a name, or lines differ in the case of a name.
    """
    lines = enumerate(decode_text(data, location, "utf-8").split("\n"), 1)
    rows = [_parse_line(line, f"{location}, line {number}") for number, line in lines if line.strip()]
    names = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    if not names:
        raise DataError("there are no columns", location=location)
    header = read_header(names, location)
    for one, other in itertools.combinations(names, 2) if len({*map(str.casefold, names)}) < len(names) else ():
        if one.casefold() == other.casefold() and not any(one in row and other in row for row in rows):
            message = f"entries are called {one!r} in some lines and {other!r} in others"
            raise DataError(message, location=location, hint="use one name")
    columns = {title: [row.get(name) for row in rows] for title, name in zip(header, names, strict=True)}
    for cells in columns.values():
        cells[:] = [json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict | list) else cell for cell in cells]
    return build_frame(columns, location, words=words)


def _parse_line(line: str, location: str) -> dict[str, Any]:
    try:
        entries = json.loads(line, object_pairs_hook=_read_entries, parse_constant=_read_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"expected a JSON object: {error}", location=location) from None
    if not isinstance(entries, dict):
        raise DataError("expected a JSON object", location=location, hint="write one object per line")
    return entries


def _read_entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if repeated := find_repeated(name for name, _ in pairs):
        raise ValueError(f"two entries are called {repeated[0]!r}")
    return dict(pairs)


def _read_constant(name: str) -> None:
    """Read NaN as a missing value, as data frames do. Reject infinite numbers."""
    if name != "NaN":
        raise ValueError(f"{name} is not a number")
