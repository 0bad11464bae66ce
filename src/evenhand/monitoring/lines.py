"""Events as lines of a growing file, of standard input, or of a shield's log."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import select
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from evenhand.datasets.text_tables import detect_delimiter, read_header
from evenhand.errors import DataError
from evenhand.monitoring.events import Event, EventReader

PIECE = 1 << 20
"""Number of bytes read at once."""
WAIT = 0.2
LONGEST_LINE = 16 << 20
LONGEST_ROW = 1 << 20
"""Maximum number of characters in a row that contains line breaks."""
HEAD = 1024
"""Number of bytes at the beginning of a file that identify it."""


class LineFile:
    """Complete lines of a file that may grow, be replaced or be emptied.

    Args:
        path: The file.
        position: ``position`` at which an earlier run stopped.

    Attributes:
        note: Message about a replaced or emptied file.

    Raises:
        DataError: The file cannot be read.
    """

    def __init__(self, path: Path, position: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.note = ""
        self._file: IO[bytes] = self._open()
        self._offset = 0
        if position is not None:
            self._resume(position)

    @property
    def position(self) -> dict[str, Any]:
        """Position to resume from."""
        return {"offset": self._offset, "head": _digest_head(self._file, self._offset)}

    def read(self, *, last: bool = False) -> list[bytes]:
        """Read some complete lines; none if there is no new line. If ``last``, a line without an end is complete."""
        self._file.seek(self._offset)
        data = self._file.read(PIECE)
        while data and b"\n" not in data and len(data) <= LONGEST_LINE:
            more = self._file.read(PIECE)
            if not more:
                break
            data += more
        lines, end = _split_lines(data, last=last, location=str(self.path))
        self._offset += end
        return lines

    def reopen(self) -> bool:
        """Check whether the file was replaced or emptied, and if so, start again from its beginning."""
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        mine = os.fstat(self._file.fileno())
        replaced = (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)
        if not replaced and mine.st_size >= self._offset:
            return False
        if replaced:
            self._file.close()
            self._file = self._open()
        self._offset = 0
        change = "was replaced" if replaced else "is shorter than before"
        self.note = f"{self.path} {change}: it is read from its beginning"
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise DataError(f"the events cannot be read: {error.strerror}", location=str(self.path)) from None

    def _resume(self, position: Mapping[str, Any]) -> None:
        offset = int(position["offset"])
        if os.fstat(self._file.fileno()).st_size >= offset and _digest_head(self._file, offset) == position["head"]:
            self._offset = offset
        else:
            self.note = f"{self.path} is not the file that was read before: it is read from its beginning"


class LinePipe:
    """Complete lines of standard input or another pipe, given its file descriptor."""

    position = None
    note = ""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.ended = False

    def read(self, *, last: bool = False) -> list[bytes]:
        """Read the complete lines that arrive within `WAIT` seconds."""
        if self.ended or not select.select([self._descriptor], [], [], WAIT)[0]:
            return []
        data = os.read(self._descriptor, PIECE)
        self.ended = not data
        self._rest += data
        lines, end = _split_lines(self._rest, last=self.ended, location="standard input")
        self._rest = self._rest[end:]
        return lines

    def close(self) -> None:
        """Do nothing: the pipe belongs to the caller."""


class LineReader:
    """Reads events from lines: JSON objects, entries of the service's log, or rows of a table below its header.

    Args:
        reader: Reader of the events of a monitor.
        table: Whether the lines are rows of a table. The header determines its separator.
        state: ``state`` of an earlier run.
    """

    def __init__(self, reader: EventReader, *, table: bool, state: Mapping[str, Any] | None = None) -> None:
        self._reader = reader
        self._table = table
        state = state or {}
        self.rest: str = state.get("rest", "")
        self._names: list[str] | None = state.get("names")
        self._delimiter: str = state.get("delimiter", ",")
        self._line = 0

    @property
    def state(self) -> dict[str, Any]:
        """Header, separator, and first lines of an incomplete row."""
        return {"names": self._names, "delimiter": self._delimiter, "rest": self.rest}

    def read(self, lines: Sequence[bytes], *, last: bool = False) -> tuple[list[Event], list[DataError]]:
        """Read the events of lines, and the errors of other lines. Lines are counted from 1 in this process.

        Raises:
            DataError: The header of the table is invalid.
        """
        events: list[Event] = []
        errors: list[DataError] = []
        for line in lines:
            self._line += 1
            if not line or (line.isspace() and not self.rest):
                continue
            try:
                entry = self._split(line) if self._table else _parse_line(line)
                if entry is not None:
                    events.append(self._reader.read(entry))
            except DataError as error:
                error.location = f"line {self._line}"
                if self._table and self._names is None:
                    raise
                errors.append(error)
        if last and self.rest:
            self.rest = ""
            errors.append(DataError("a quoted cell is not closed", location=f"line {self._line}"))
        return events, errors

    def _split(self, line: bytes) -> Mapping[str, Any] | None:
        """Return the cells of a row by name; None for the header, and for a row that continues in the next line."""
        try:
            text = self.rest + line.decode("utf-8-sig" if self._line == 1 else "utf-8")
            self.rest = ""
            self._delimiter = detect_delimiter(text) if self._names is None else self._delimiter
            cells = next(csv.reader([text], delimiter=self._delimiter, strict=True))
        except (csv.Error, UnicodeDecodeError, StopIteration) as error:
            if "unexpected end of data" in str(error) and len(text) < LONGEST_ROW:
                self.rest = text + "\n"
                return None
            raise DataError("expected a row of a table in UTF-8") from None
        if self._names is None:
            self._names = read_header(cells, "")
            return None
        if [cell.strip() for cell in cells] == self._names:
            return None  # a file that was replaced by another with the same names
        if len(cells) != len(self._names):
            raise DataError(f"expected {len(self._names)} values, got {len(cells)}")
        return dict(zip(self._names, cells, strict=True))


def _split_lines(data: bytes, *, last: bool, location: str) -> tuple[list[bytes], int]:
    r"""Split the complete lines only at ``\n``, because a cell of a table may contain ``\r``. Also return their length.

    If ``last``, a line without an end counts as complete.
    """
    end = data.rfind(b"\n") + 1 or (len(data) if last else 0)
    if not end and len(data) > LONGEST_LINE:
        raise DataError(f"a line has more than {LONGEST_LINE >> 20} MB", location=location)
    return data[:end].removesuffix(b"\n").split(b"\n") if end else [], end


def _parse_line(line: bytes) -> Mapping[str, Any] | None:
    """Parse a line of JSON. None for an entry of the service's log that contains no event."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError("this is not JSON") from None
    if isinstance(entry, dict) and "previous" in entry and isinstance(entry.get("body"), dict):
        return event_of_log_entry(entry["body"])
    return entry  # type: ignore[no-any-return]  # the reader accepts objects only


def event_of_log_entry(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the decision or label in the body of an entry of a shield's log as an event; None for other entries."""
    operation, output = body.get("input"), body.get("output")
    if not isinstance(operation, dict) or not isinstance(output, dict):
        return None
    kind, id = operation.get("op"), operation.get("id", body.get("id"))
    if kind == "label":
        return {"id": id, "label": operation.get("label")}
    if kind != "decide":
        return None
    return {**operation, "decision": output.get("decision"), "intervened": output.get("intervened"), "id": id}


def _digest_head(file: IO[bytes], offset: int) -> str:
    """Compute a digest of the beginning of a file, up to an offset."""
    file.seek(0)
    return hashlib.sha256(file.read(min(HEAD, offset))).hexdigest()
