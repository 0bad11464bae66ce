"""What the service says about itself: a line of JSON on its standard error for every fault, without secrets.

Neither what callers send nor what generators answer is ever in it. What was decided is in the store's log.
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
"""Frames of a traceback that are told: where it was raised, and from where that was called."""


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON.

    Of an exception it tells its kind and where it was raised, and not its words: they may be those of a caller.
    """

    def __init__(self, redaction: SecretRedactor) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        # Further lines of other libraries' messages are representations of what they were handling.
        said = record.getMessage().partition("\n")[0]
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "event": said,
            **getattr(record, "about", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= describe_exception(record.exc_info[1])
        return self._redaction(json.dumps(line, ensure_ascii=True, default=str))


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return the kind of an exception, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_TRACEBACK_DEPTH:]
    return {
        "error": type(error).__name__,
        "at": [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)],
    }


@contextmanager
def structured_logging(*, requests: bool, stream: TextIO | None = None) -> Iterator[None]:
    """Log to standard error as JSON lines within the block.

    Args:
        requests: whether every request is told; else those that failed.
        stream: instead of the standard error.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter(SecretRedactor()))
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logger.level, threading.excepthook)
    root.handlers, root.level = [handler], logging.WARNING
    logger.setLevel(logging.INFO if requests else logging.WARNING)
    threading.excepthook = _log_thread_error
    try:
        yield
    finally:
        root.level, root.handlers, logger.level, threading.excepthook = before


def _log_thread_error(about: threading.ExceptHookArgs) -> None:
    name = getattr(about.thread, "name", "")
    logger.error("a thread ended", exc_info=about.exc_value, extra={"about": {"thread": name}})


SUMMARY_SECONDS = 60.0
"""Seconds between two summaries of requests that were refused without a valid key or over a limit."""

MAX_ADDRESSES = 10_000
"""Addresses that are told apart in one summary."""


class RefusalSummary:
    """Summarises refused requests: the first one of a minute is logged, the others are counted.

    Args:
        steady: seconds of a monotonic clock.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._until = float("-inf")
        self._counts: Counter[int] = Counter()
        self._addresses: set[str] = set()

    def is_first(self, status: int, address: str) -> bool:
        """Return whether a refused request is to be told of; else it is counted."""
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
        """Tell of those that were counted."""
        if self._counts:
            about = {"statuses": dict(sorted(self._counts.items())), "addresses": len(self._addresses)}
            logger.warning("more requests refused", extra={"about": about})
        self._counts.clear()
        self._addresses.clear()
