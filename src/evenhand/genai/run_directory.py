"""Folder of a run: durable tables of requests, and files of items."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from evenhand.core.files import append_durably, write_atomically
from evenhand.core.text import find_repeated
from evenhand.errors import DataError, OptionError
from evenhand.genai.backends.generator import MEDIA_SUFFIXES, Item

TableRow: TypeAlias = dict[str, str]


class CsvTable:
    """CSV file whose rows are durable as soon as they are appended.

    An incomplete row at the end of the file is ignored. The file is not changed before ``truncate`` or ``append``.

    Raises:
        DataError: The file is unreadable or has different columns.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self._names = list(names)
        self.rows: list[TableRow] = []
        try:
            text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", location=str(path)) from None
        lines = list(csv.reader(io.StringIO(text, newline=""))) if "\n" in text else []
        if lines and lines[0] != self._names:
            raise DataError("the table has different columns", location=str(path), hint="choose another folder")
        # A line may end inside a quoted cell, whose quote is then still open.
        is_cut = not text.endswith("\n") or text.count('"') % 2 == 1
        complete_lines = lines[1:-1] if is_cut else lines[1:]
        self.rows = [
            dict(zip(self._names, line, strict=True)) for line in complete_lines if len(line) == len(self._names)
        ]
        self._is_whole = text == self._format()

    def truncate(self, rows: int) -> None:
        """Rewrite the file with only its first rows."""
        del self.rows[rows:]
        write_atomically(self.path, self._format().encode())
        self._is_whole = True

    def append(self, row: Mapping[str, object]) -> None:
        """Append a row, which is durable when this returns."""
        cells = ["" if row.get(name) is None else str(row[name]) for name in self._names]
        if not self._is_whole:
            self.truncate(len(self.rows))
        append_durably(self.path, _format_line(cells).encode())
        self.rows.append(dict(zip(self._names, cells, strict=True)))

    def _format(self) -> str:
        return "".join(map(_format_line, [self._names, *(list(row.values()) for row in self.rows)]))


def _format_line(cells: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


@contextmanager
def open_folder(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Create the folder of requests and items if necessary, and run a block that opens its files.

    Raises:
        OptionError: The names of the columns are not unique, or the folder cannot be used.
    """
    if repeated := find_repeated(names):
        raise OptionError(
            f"the group {repeated[0]!r} has the same name as another column of the table",
            location="groups",
            hint="rename the group",
        )
    try:
        (folder / "items").mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise OptionError(f"{folder} cannot be used: {error.strerror}", location="`out=`") from None


def write_item(folder: Path, stem: str, item: Item) -> str:
    """Write an item durably, and return its path relative to the folder."""
    name = f"items/{stem}{MEDIA_SUFFIXES.get(item.media_type, '.bin')}"
    write_atomically(folder / name, item.data)
    return name
