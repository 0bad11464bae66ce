"""Logs of decisions as files: JSON lines, or a table of text."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenhand.errors import DataError
from evenhand.shield.log import read_log

NUMBERS = ("recommendation", "decision", "label", "intervened", "cost")
FIELDS = ("id", "group", *NUMBERS)
WORDS = {"true": 1, "false": 0, "True": 1, "False": 0}


def entries(path: Path | str) -> Iterator[dict[str, Any]]:
    """The entries of a log, as ``replay`` takes them.

    A ``.csv`` file has a line of names first, of ``id``, ``group``, ``recommendation``, ``cost``, ``decision``,
    ``intervened`` and ``label``; what is empty was not given, and other columns are not looked at. Any other file has
    one JSON object a line. An entry with a decision and its label is taken as the decision, then the label.

    Raises:
        DataError: the file cannot be read, or a line is not an entry.
    """
    table = Path(path).suffix.lower() == ".csv"
    for entry in _rows(Path(path)) if table else read_log(path):
        if "label" in entry and "decision" in entry:
            label = entry.pop("label")
            yield entry
            if label is not None:
                yield {"id": entry.get("id"), "label": label}
        else:
            yield entry


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    where = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = reader.fieldnames or []
            if not set(names) & {"decision", "label"}:
                raise DataError(
                    f"a log has columns such as {', '.join(FIELDS)}, and these are {', '.join(names) or 'none'}",
                    where=where,
                    mend="name the columns in the first line",
                )
            for row in reader:
                yield _entry(row, f"{where}, line {reader.line_num}")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the log cannot be read: {error}", where=where) from None
    except csv.Error as error:
        raise DataError(f"this is no table of text: {error}", where=where) from None


def _entry(row: dict[str, Any], where: str) -> dict[str, Any]:
    if None in row or any(value is None for value in row.values()):
        raise DataError("this line has another number of values than the first one has names", where=where)
    found: dict[str, Any] = {name: row[name] for name in ("id", "group") if row.get(name)}
    for name in NUMBERS:
        if text := (row.get(name) or "").strip():
            found[name] = WORDS[text] if text in WORDS else _number(text, name, where)
    if "intervened" in found:
        found["intervened"] = bool(found["intervened"])
    return found


def _number(text: str, name: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"the {name} {text!r} is no number", where=where)
    return int(number) if number.is_integer() and name != "cost" else number
