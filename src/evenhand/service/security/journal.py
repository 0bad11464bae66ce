"""What the service says about itself: a line of JSON on its standard error for every fault, without secrets.

Neither what callers send nor what generators answer is ever in it. What was decided is in the store's log.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service import faults
from evenhand.service.security.keys import Caller
from evenhand.service.security.redaction import Redaction

logger = logging.getLogger("evenhand.service")

DEEPEST = 12
"""Frames of a traceback that are told: where it was raised, and from where that was called."""


class Lines(logging.Formatter):
    """A record as a line of JSON.

    Of an exception it tells its kind and where it was raised, and not its words: they may be those of a caller.
    """

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
            line |= described(record.exc_info[1])
        return self._redaction(json.dumps(line, ensure_ascii=True, default=str))


def described(error: BaseException) -> dict[str, Any]:
    """The kind of an exception, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)[-DEEPEST:]
    return {
        "error": type(error).__name__,
        "at": [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in reversed(frames)],
    }


@contextmanager
def journal(*, requests: bool, stream: TextIO | None = None) -> Iterator[None]:
    """While this lasts, what this process logs goes to the standard error as lines of JSON.

    Args:
        requests: whether every request is told; else those that failed.
        stream: instead of the standard error.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(Lines(Redaction()))
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logger.level, threading.excepthook)
    root.handlers, root.level = [handler], logging.WARNING
    logger.setLevel(logging.INFO if requests else logging.WARNING)
    threading.excepthook = _thread_ended
    try:
        yield
    finally:
        root.level, root.handlers, logger.level, threading.excepthook = before


def _thread_ended(about: threading.ExceptHookArgs) -> None:
    error: tuple[type[BaseException], BaseException, TracebackType | None] | None = (
        None if about.exc_value is None else (about.exc_type, about.exc_value, about.exc_traceback)
    )
    logger.error("a thread ended", exc_info=error, extra={"about": {"thread": getattr(about.thread, "name", "")}})


class Journal:
    """Tells of every request, and answers where the application cannot.

    Args:
        app: behind it.
        steady: seconds of a clock that nobody sets.
    """

    def __init__(self, app: ASGIApp, steady: Callable[[], float] = time.perf_counter) -> None:
        self._app, self._steady = app, steady

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        begun = self._steady()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            self._tell(scope, 500, begun, error)
            if not status:
                what = faults.body("a fault in Evenhand itself", kind="server_error", code="fault",
                                   mend="the service's log says where")  # fmt: skip
                await JSONResponse(what, 500)(scope, receive, send)
            return
        self._tell(scope, status, begun)

    def _tell(self, scope: Scope, status: int, begun: float, error: Exception | None = None) -> None:
        level = logging.ERROR if status >= 500 else logging.WARNING if status >= 400 else logging.INFO
        if not logger.isEnabledFor(level):
            return
        caller: Caller | None = scope.get("evenhand.caller")
        about = {
            "method": scope["method"],
            # Without what follows the path: some write keys there.
            "path": scope["path"],
            "status": status,
            "seconds": round(self._steady() - begun, 6),
            "key": caller.key if caller is not None else "",
        }
        logger.log(level, "request", exc_info=error, extra={"about": about})
