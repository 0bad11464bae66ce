"""Store paid answers in a file, so that interrupted runs can be resumed and commands can share them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from evenhand.errors import DataError

Tokens: TypeAlias = tuple[int, int]
"""Input and output tokens."""


class ModelReply(NamedTuple):
    """Stored reply of a service.

    Attributes:
        text: Text of the answer or of the refusal.
        refused: Whether the service reported a refusal.
        finish: Reason why the answer ended, such as ``stop`` or ``length``.
        chances: Log-probabilities of the candidates for the first token. Empty if they were not requested.
        tokens: Input and output tokens. None if the service did not report them.
    """

    text: str
    refused: bool
    finish: str
    chances: dict[str, float]
    tokens: Tokens | None


_BEGINS = b'{"key":'
"""Prefix of each line of the file."""


def _to_line(key: str, **fields: Any) -> bytes:
    return json.dumps({"key": key, **fields}, separators=(",", ":")).encode() + b"\n"


class AnswerStore:
    """Replies by question key, in memory and optionally in a file.

    The file has one line of JSON per answer. Each answer is written and flushed before it is used, so a killed process
    loses only the calls in flight. Incomplete lines are skipped. Prompts are not stored.

    Args:
        path: The file. None keeps answers in memory only.

    Raises:
        DataError: The file cannot be read or written, or it is not an answers file.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._known: dict[str, ModelReply] = {}
        self._charges: dict[str, list[Tokens]] = {}
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        if path is not None:
            self._open(path)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> ModelReply | None:
        """Return the reply to a question, or None."""
        return self._known.get(key)

    def keep(self, key: str, reply: ModelReply) -> None:
        """Store a reply, unless there is one for the key."""
        with self._lock:
            if key in self._known:
                return
            self._append(_to_line(key, **reply._asdict()))
            self._known[key] = reply

    def charge(self, key: str, maximum: Tokens) -> None:
        """Record a call that returned no answer but may have been charged for up to this many tokens."""
        with self._lock:
            self._charges.setdefault(key, []).append(maximum)
            self._append(_to_line(key, charged=maximum))

    def charges(self, key: str) -> list[Tokens]:
        """Return the maximum number of tokens of each unanswered call for a question."""
        return self._charges.get(key, [])

    def _append(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line)
            self._file.flush()

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
                    "this is not an answers file", location=str(path), hint="choose a file that can be written"
                )
            self._file = path.open("ab")
            if lines[-1]:
                self._file.write(b"\n")  # do not append to an incomplete line
                self._file.flush()
        except OSError as error:
            raise DataError(
                f"the answers file cannot be used: {error.strerror or error}",
                location=str(path),
                hint="choose a file in an existing, writable folder",
            ) from None

    def _read(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            if "charged" in entry:
                tokens_in, tokens_out = entry["charged"]
                self._charges.setdefault(str(entry["key"]), []).append((int(tokens_in), int(tokens_out)))
                return
            tokens = entry["tokens"]
            reply = ModelReply(
                str(entry["text"]),
                bool(entry["refused"]),
                str(entry["finish"]),
                {str(token): float(chance) for token, chance in entry["chances"].items()},
                None if tokens is None else (int(tokens[0]), int(tokens[1])),
            )
            self._known.setdefault(str(entry["key"]), reply)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return
