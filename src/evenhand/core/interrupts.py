"""Ctrl-C and SIGTERM end an analysis alike: what was found by then is kept and written."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes of a program that Ctrl-C or SIGTERM ended: 130 and 143."""
GRACE_SECONDS = 1.0
"""How long an interrupted analysis goes on, to make use of what it has begun."""


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
    ``is_interrupted`` tells the steps themselves, on any thread.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: float | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM) if _in_main_thread() else ():
            handler = signal.getsignal(number)
            if handler is signal.default_int_handler or _owner(handler) is not None:
                self._before[number] = signal.signal(number, self._note)
        _open_counters.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open_counters.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or time.perf_counter()
        owner = _owner(self._before[number])
        if owner is not None:
            owner.terminated = True


_open_counters: list[InterruptCounter] = []


def is_interrupted(grace: float = 0.0) -> bool:
    """Return whether somebody interrupts what an open ``InterruptCounter`` guards.

    Args:
        grace: seconds that have to pass since the first interrupt, unless there is a second one.
    """
    now = time.perf_counter()
    return any(
        counter.count > 1 or (counter.first is not None and now - counter.first >= grace)
        for counter in tuple(_open_counters)
    )


class InterruptGuard(InterruptCounter):
    """Ctrl-C and SIGTERM raise as usual, and once more at the end if the code inside caught what was raised.

    scikit-learn's ``MLPClassifier`` answers Ctrl-C with a warning, and returns as if it had been trained to the end;
    the compiler of kernels loses an interrupt in a callback from C, and fails with an error of its own a little later.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self.count and (kind is None or issubclass(kind, Exception)):
            raise KeyboardInterrupt from error

    def _note(self, number: int, frame: FrameType | None) -> None:
        super()._note(number, frame)
        raise KeyboardInterrupt


def _owner(handler: Any) -> StopSignals | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, StopSignals) else None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class Stopwatch:
    """Count the seconds of this process that were not spent in ``paused`` blocks."""

    def __init__(self) -> None:
        self._excluded = 0.0
        self._paused_at: float | None = None

    def __call__(self) -> float:
        """Return the seconds counted so far; only differences have a meaning."""
        now = time.perf_counter() if self._paused_at is None else self._paused_at
        return now - self._excluded

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop counting until the block ends. Blocks may be nested; only one thread at a time may be in them."""
        if self._paused_at is not None:
            yield
            return
        began = self._paused_at = time.perf_counter()
        try:
            yield
        finally:
            self._excluded += time.perf_counter() - began
            self._paused_at = None


RUNNING_SECONDS = Stopwatch()
"""The seconds that time limits count. Compiling kernels, which the first run on a machine does, is left out."""
