"""Events as lines: of a file that grows, of standard input, and of the log that the service keeps of a shield."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import select
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from evenhand.errors import DataError
from evenhand.monitoring.events import Event
from evenhand.monitoring.monitor import Monitor

PIECE = 1 << 20
"""Bytes that are read at once."""
LONGEST_LINE = 16 << 20
LONGEST_ROW = 1 << 20
"""Maximum number of characters in a row with line breaks."""
HEAD = 1024
"""Bytes at the beginning of a file by which it is known again."""


class LineFault(NamedTuple):
    """A line that could not be read.

    Attributes:
        line: its number in what this process read, from 1.
        error: why.
    """

    line: int
    error: DataError


class LineFile:
    """Complete lines of a file, also while it grows, is replaced or emptied.

    Args:
        path: the file.
        position: where an earlier run stopped, as ``position`` said then.

    Raises:
        DataError: the file cannot be read.
    """

    def __init__(self, path: Path, position: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.note = ""
        """What happened to the file, since this was last read."""
        self._file: IO[bytes] = self._open()
        self._offset = 0
        if position is not None:
            self._resume(position)

    @property
    def position(self) -> dict[str, Any]:
        """How far the file was taken, to go on there later."""
        return {"offset": self._offset, "head": _digest_head(self._file, self._offset)}

    def read(self, *, last: bool = False) -> list[bytes]:
        """Return some complete lines; none if there is no new one now.

        Args:
            last: whether a line without an end counts as complete.
        """
        self._file.seek(self._offset)
        data = self._file.read(PIECE)
        while data and b"\n" not in data and len(data) <= LONGEST_LINE:
            more = self._file.read(PIECE)
            if not more:
                break
            data += more
        end = data.rfind(b"\n") + 1
        if last and not end:
            end = len(data)
        if not end and len(data) > LONGEST_LINE:
            raise DataError(f"a line has more than {LONGEST_LINE >> 20} MB", location=str(self.path))
        self._offset += end
        return _split_lines(data[:end])

    def reopen(self) -> bool:
        """Return whether another file, or an emptied one, is under the path now, and begin at its start if so."""
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        mine = os.fstat(self._file.fileno())
        if (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino):
            self._file.close()
            self._file, self._offset = self._open(), 0
            self.note = f"{self.path} is another file now: it is read from its beginning"
            return True
        if mine.st_size < self._offset:
            self._offset = 0
            self.note = f"{self.path} is shorter than before: it is read from its beginning"
            return True
        return False

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
    """Complete lines of standard input, or another pipe, as they come.

    Args:
        descriptor: of the pipe.
    """

    position = None
    note = ""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.ended = False

    def read(self, *, last: bool = False, wait: float = 0.2) -> list[bytes]:
        """Return the complete lines that come within ``wait`` seconds."""
        if self.ended or not select.select([self._descriptor], [], [], wait)[0]:
            return []
        data = os.read(self._descriptor, PIECE)
        self.ended = not data
        self._rest += data
        end = len(self._rest) if self.ended else self._rest.rfind(b"\n") + 1
        if not end and len(self._rest) > LONGEST_LINE:
            raise DataError(f"a line has more than {LONGEST_LINE >> 20} MB", location="standard input")
        found, self._rest = self._rest[:end], self._rest[end:]
        return _split_lines(found)

    def close(self) -> None:
        """Leave the pipe as it is: who opened it closes it."""


class LineReader:
    """Reads events from lines: JSON objects, entries of the service's log, or rows of a table below its header.

    Args:
        monitor: the monitor that takes the events.
        table: whether the lines are a table.
        names: the header, if an earlier run has read it.
        rest: the first lines of a row that is not complete, as an earlier run kept it.
    """

    def __init__(self, monitor: Monitor, *, table: bool, names: Sequence[str] | None = None, rest: str = "") -> None:
        self._monitor = monitor
        self._table = table
        self.names: list[str] | None = None if names is None else list(names)
        self.rest = rest
        self._line = 0

    def read(self, lines: Sequence[bytes], *, last: bool = False) -> tuple[list[Event], list[LineFault]]:
        """Return the events of lines, and the lines that have none.

        Args:
            lines: the next lines.
            last: whether they are the last.
        """
        events: list[Event] = []
        faults = []
        other = None
        for line in lines:
            self._line += 1
            if not line or (line.isspace() and not self.rest):
                continue
            try:
                entry = self._split(line) if self._table else _parse_line(line)
                if entry is not None:
                    event = self._monitor.reader.read(entry)
                    other = self._monitor.check_words([event], other)
                    events.append(event)
            except DataError as error:
                faults.append(LineFault(self._line, error))
        if last and self.rest:
            self.rest = ""
            faults.append(LineFault(self._line, DataError("a quoted cell is not closed")))
        return events, faults

    def _split(self, line: bytes) -> Mapping[str, Any] | None:
        """Return the cells of a row by name; None for the header, and for a row that goes on in the next line."""
        try:
            text = self.rest + line.decode("utf-8-sig" if self._line == 1 else "utf-8")
            self.rest = ""
            cells = next(csv.reader([text], strict=True))
        except (csv.Error, UnicodeDecodeError, StopIteration) as error:
            if "unexpected end of data" in str(error) and len(text) < LONGEST_ROW:
                self.rest = text + "\n"
                return None
            raise DataError("this is not a row of a table in UTF-8") from None
        if self.names is None:
            self.names = cells
            return None
        if cells == self.names:
            return None  # a file that was replaced by another with the same names
        if len(cells) != len(self.names):
            raise DataError(f"expected {len(self.names)} values, got {len(cells)}")
        return dict(zip(self.names, cells, strict=True))


def _split_lines(data: bytes) -> list[bytes]:
    r"""Split complete lines at ``\n`` alone: a cell of a table may contain ``\r``."""
    return data.removesuffix(b"\n").split(b"\n") if data else []


def _parse_line(line: bytes) -> Mapping[str, Any] | None:
    """Return the event of a line of JSON; None for an entry of the service's log that is none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError("this is not JSON") from None
    if isinstance(entry, dict) and "previous" in entry and isinstance(entry.get("body"), dict):
        return event_of_log_entry(entry["body"])
    return entry  # type: ignore[no-any-return]  # the reader refuses anything but an object


def event_of_log_entry(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the decision or label that an entry of a shield's log is about, as an event; None if it is about neither.

    Args:
        body: of the entry.
    """
    given, made = body.get("input"), body.get("output")
    if not isinstance(given, dict) or not isinstance(made, dict) or given.get("op") not in ("decide", "label"):
        return None
    id = given.get("id", body.get("id"))
    if given["op"] == "label":
        return {"id": id, "label": given.get("label")}
    return {**given, "decision": made.get("decision"), "intervened": made.get("intervened"), "id": id}


def _digest_head(file: IO[bytes], offset: int) -> str:
    """Return a digest of the beginning of a file, as far as it was read."""
    file.seek(0)
    return hashlib.sha256(file.read(min(HEAD, offset))).hexdigest()
