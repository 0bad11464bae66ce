"""Interrupt handling, and the clock for time limits.

Ctrl-C and SIGTERM both stop an analysis and save its partial results.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes after Ctrl-C and SIGTERM: 130 and 143."""
GRACE_SECONDS = 1.0
"""Number of seconds that an interrupted analysis may take to finish the current step."""


class StopSignals:
    """Context manager in which SIGTERM raises ``KeyboardInterrupt``, unless the program has a handler for SIGTERM.

    Attributes:
        terminated: Whether SIGTERM was received.
    """

    def __init__(self) -> None:
        self.terminated = False
        self._previous: Any = None

    def __enter__(self) -> Self:
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._previous = signal.signal(signal.SIGTERM, self.interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)

    @property
    def exit_code(self) -> int:
        """Exit code of an interrupted program."""
        return TERMINATED if self.terminated else INTERRUPTED

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the main thread like Ctrl-C."""
        self.terminated = True
        raise KeyboardInterrupt


class InterruptCounter:
    """Context manager that counts Ctrl-C and SIGTERM instead of raising an error, so that every step is completed.

    Signals are handled in the main thread only, and handlers set by the program are not replaced. Steps in any thread
    can call ``is_interrupted``.

    Attributes:
        count: Number of interrupts.
        first: Time of the first interrupt. None if there was none.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: float | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM) if _in_main_thread() else ():
            handler = signal.getsignal(number)
            if handler is signal.default_int_handler or _owner(handler) is not None:
                self._previous[number] = signal.signal(number, self._record)
        _open_counters.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open_counters.remove(self)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or time.perf_counter()
        owner = _owner(self._previous[number])
        if owner is not None:
            owner.terminated = True


_open_counters: list[InterruptCounter] = []


def is_interrupted(grace: float = 0.0) -> bool:
    """Check whether an open ``InterruptCounter`` has counted an interrupt.

    Args:
        grace: Minimum number of seconds since the first interrupt. A second interrupt takes effect immediately.
    """
    now = time.perf_counter()
    return any(
        counter.count > 1 or (counter.first is not None and now - counter.first >= grace)
        for counter in tuple(_open_counters)
    )


class InterruptGuard(InterruptCounter):
    """Context manager that raises ``KeyboardInterrupt`` again on exit if the code inside suppressed an interrupt.

    On Ctrl-C, scikit-learn's ``MLPClassifier`` only warns and returns as if training had finished. Numba loses an
    interrupt raised in a C callback and fails later with an unrelated error.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self.count and (kind is None or issubclass(kind, Exception)):
            raise KeyboardInterrupt from error

    def _record(self, number: int, frame: FrameType | None) -> None:
        super()._record(number, frame)
        raise KeyboardInterrupt


def _owner(handler: Any) -> StopSignals | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, StopSignals) else None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class Stopwatch:
    """Clock that stops during ``paused`` blocks."""

    def __init__(self) -> None:
        self._excluded = 0.0
        self._paused_at: float | None = None

    def __call__(self) -> float:
        """Return the current reading in seconds. Only differences between readings are meaningful."""
        now = time.perf_counter() if self._paused_at is None else self._paused_at
        return now - self._excluded

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clock until the block ends. Blocks may be nested, but only one thread may use them at a time."""
        if self._paused_at is not None:
            yield
            return
        start = self._paused_at = time.perf_counter()
        try:
            yield
        finally:
            self._excluded += time.perf_counter() - start
            self._paused_at = None


RUNNING_SECONDS = Stopwatch()
"""Clock for time limits. It is paused while kernels are compiled, as in the first run on a machine."""
