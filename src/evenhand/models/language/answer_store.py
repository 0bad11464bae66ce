"""Answers that were paid for, kept in a file: a run that was ended goes on from it, and commands share it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from evenhand.errors import DataError
from evenhand.files import write_atomically
from evenhand.models.language.answers import ModelReply
from evenhand.models.language.budget import Tokens


def question_key(url: str, body: Mapping[str, Any], draw: int) -> str:
    """Return what tells a question from all others: SHA-256 of its service, its whole body in canonical JSON, its draw.

    Args:
        url: of the service; on one's own machine the port does not matter, as servers there change it.
        body: of the request.
        draw: which of several answers to the same question.
    """
    parts = urlsplit(url)
    host = parts.hostname if parts.hostname in ("127.0.0.1", "localhost", "::1") else parts.netloc
    canonical = json.dumps(
        [host, parts.path.rstrip("/"), body, draw], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


_BEGINS = b'{"key":'
"""How a line of the file begins."""


def _to_line(key: str, reply: ModelReply) -> bytes:
    return json.dumps({"key": key, **reply._asdict()}, separators=(",", ":")).encode() + b"\n"


class AnswerStore:
    """Replies by the key of their question, in memory, and in a file where one is named.

    The file has one line of JSON per answer. An answer is written and flushed before it is used, so that a run that is
    killed loses no more than the questions under way. A line that was written in part is skipped. Prompts are not kept.

    Args:
        path: the file; None keeps answers in memory alone.
        most: how many answers are kept; those that were used longest ago are forgotten. None: all.

    Raises:
        DataError: the file cannot be read or written, or holds something else.
    """

    def __init__(self, path: Path | None, *, most: int | None = None) -> None:
        self.path, self._most, self._lines = path, most, 0
        self._known: dict[str, ModelReply] = {}
        self._charges: dict[str, list[Tokens]] = {}
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        if path is not None:
            self._open(path)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> ModelReply | None:
        """Return the reply to a question; None if there is none yet."""
        if self._most is None:
            return self._known.get(key)
        with self._lock:
            reply = self._known.pop(key, None)
            if reply is not None:
                self._known[key] = reply
            return reply

    def keep(self, key: str, reply: ModelReply) -> None:
        """Keep a reply; the first one stays."""
        with self._lock:
            if key in self._known:
                return
            if self._file is not None:
                self._file.write(_to_line(key, reply))
                self._file.flush()
                self._lines += 1
            self._known[key] = reply
            self._forget()

    def charge(self, key: str, most: Tokens) -> None:
        """Record a call without an answer, which may have been charged up to these tokens."""
        with self._lock:
            self._charges.setdefault(key, []).append(most)
            if self._file is not None:
                self._file.write(json.dumps({"key": key, "charged": most}, separators=(",", ":")).encode() + b"\n")
                self._file.flush()
                self._lines += 1

    def charges(self, key: str) -> list[Tokens]:
        """Return the maximum tokens of the calls for a question that brought no answer."""
        return self._charges.get(key, [])

    def _forget(self) -> None:
        """Forget what is too much, and write the file again once half of it is forgotten."""
        if self._most is None:
            return
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        if self._file is not None and self.path is not None and self._lines > 2 * self._most:
            self._file.close()
            write_atomically(self.path, b"".join(_to_line(key, reply) for key, reply in self._known.items()))
            self._file, self._lines = self.path.open("ab"), len(self._known)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> None:
        try:
            content = path.read_bytes() if path.exists() else b""
            lines = content.split(b"\n")
            for line in lines:
                self._read(line)
            if (
                not self._known
                and not self._charges
                and not all(line.startswith(_BEGINS[: len(line)]) for line in lines)
            ):
                raise DataError(
                    "this is not a file of answers", location=str(path), hint="name a file that Evenhand may write"
                )
            self._file, self._lines = path.open("ab"), len(lines)
            if lines[-1]:
                self._file.write(b"\n")  # what was written in part stays alone on its line
                self._file.flush()
            self._forget()
        except OSError as error:
            raise DataError(
                f"the file of answers cannot be used: {error.strerror or error}", location=str(path),
                hint="name a file in a folder that exists and can be written",
            ) from None  # fmt: skip

    def _read(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            if "charged" in found:
                read, written = found["charged"]
                self._charges.setdefault(str(found["key"]), []).append((int(read), int(written)))
                return
            tokens = found["tokens"]
            reply = ModelReply(
                str(found["text"]),
                bool(found["refused"]),
                str(found["finish"]),
                {str(token): float(chance) for token, chance in found["chances"].items()},
                None if tokens is None else (int(tokens[0]), int(tokens[1])),
            )
            self._known.setdefault(str(found["key"]), reply)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return
