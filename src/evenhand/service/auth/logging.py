"""Log of the service on standard error, as JSON lines without secrets.

It never contains input of callers or output of generators. Decisions are in the log of the store.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from evenhand.core.http import SecretRedactor

logger = logging.getLogger("evenhand.service")

MAX_TRACEBACK_DEPTH = 12
"""Maximum number of logged frames of a traceback, innermost first."""


class JsonFormatter(logging.Formatter):
    """Formatter of records as JSON lines.

    The message of an exception is not logged, because it may contain text of a caller.
    """

    def __init__(self, redaction: SecretRedactor) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        # Further lines in messages of other libraries contain the data that they process.
        message = record.getMessage().partition("\n")[0]
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "event": message,
            **getattr(record, "about", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= describe_exception(record.exc_info[1])
        return self._redaction(json.dumps(line, ensure_ascii=True, default=str))


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return the type and traceback of an exception."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_TRACEBACK_DEPTH:]
    return {
        "error": type(error).__name__,
        "at": [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)],
    }


@contextmanager
def structured_logging(*, requests: bool, stream: TextIO | None = None) -> Iterator[None]:
    """Log to standard error as JSON lines within the block.

    Args:
        requests: Whether every request is logged. Otherwise, only failed requests are.
        stream: Output stream. Default: standard error.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter(SecretRedactor()))
    root = logging.getLogger()
    previous = (root.level, list(root.handlers), logger.level, threading.excepthook)
    root.handlers, root.level = [handler], logging.WARNING
    logger.setLevel(logging.INFO if requests else logging.WARNING)
    threading.excepthook = _log_thread_error
    try:
        yield
    finally:
        root.level, root.handlers, logger.level, threading.excepthook = previous


def _log_thread_error(about: threading.ExceptHookArgs) -> None:
    name = getattr(about.thread, "name", "")
    logger.error("a thread failed", exc_info=about.exc_value, extra={"about": {"thread": name}})


SUMMARY_SECONDS = 60.0
"""Seconds between two summaries of requests that were refused without a valid key or over a limit."""

MAX_ADDRESSES = 10_000
"""Maximum number of addresses counted in one summary."""


class RefusalSummary:
    """Summarises refused requests: the first one of a minute is logged, the others are counted.

    Args:
        steady: Monotonic clock in seconds.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._until = float("-inf")
        self._counts: Counter[int] = Counter()
        self._addresses: set[str] = set()

    def is_first(self, status: int, address: str) -> bool:
        """Return whether to log a refused request. Otherwise, it is counted."""
        now = self._steady()
        if now >= self._until:
            self.flush()
            self._until = now + SUMMARY_SECONDS
            return True
        if not self._counts:
            asyncio.get_running_loop().call_later(self._until - now, self.flush)
        self._counts[status] += 1
        if len(self._addresses) < MAX_ADDRESSES:
            self._addresses.add(address)
        return False

    def flush(self) -> None:
        """Log the number of counted requests."""
        if self._counts:
            about = {"statuses": dict(sorted(self._counts.items())), "addresses": len(self._addresses)}
            logger.warning("more requests refused", extra={"about": about})
        self._counts.clear()
        self._addresses.clear()
