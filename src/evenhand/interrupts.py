"""Ctrl-C and SIGTERM end an analysis alike: what was found by then is kept and written."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes of a program that Ctrl-C or SIGTERM ended: 130 and 143."""


class StopSignals:
    """While it is open, SIGTERM interrupts like Ctrl-C, unless a program has set up another handler for it.

    Attributes:
        terminated: whether SIGTERM came.
    """

    def __init__(self) -> None:
        self.terminated = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before = signal.signal(signal.SIGTERM, self.interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    @property
    def exit_code(self) -> int:
        """Return the exit code of a program that was interrupted."""
        return TERMINATED if self.terminated else INTERRUPTED

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the main thread, as Ctrl-C does."""
        self.terminated = True
        raise KeyboardInterrupt


class InterruptCounter:
    """While it is open, Ctrl-C and SIGTERM add one to ``count`` instead of raising, so that no step is left half done.

    Only the main thread is ever interrupted, and a handler that a program has set up itself is left in place.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM) if _in_main_thread() else ():
            handler = signal.getsignal(number)
            if handler is signal.default_int_handler or _owner(handler) is not None:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        owner = _owner(self._before[number])
        if owner is not None:
            owner.terminated = True


def _owner(handler: Any) -> StopSignals | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, StopSignals) else None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
