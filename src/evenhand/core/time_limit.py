"""Clock and time limit of an analysis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from evenhand.core.interrupts import RUNNING_SECONDS
from evenhand.errors import LimitError


class Clock:
    """Clock of an analysis. Time spent on compiling kernels is not counted.

    Attributes:
        start: Reading of ``RUNNING_SECONDS`` at the start.
        decided: Whether the result depends on the time, and therefore on the speed of the machine.
    """

    def __init__(self, start: float | None = None) -> None:
        self.decided = False
        self.start = RUNNING_SECONDS() if start is None else start

    def now(self) -> float:
        """Return the elapsed seconds. Use it only where the result depends on the time."""
        self.decided = True
        return RUNNING_SECONDS() - self.start

    def passed(self, moment: float | None, ahead: float = 0.0) -> bool:
        """Check whether a time has passed, or will have passed in ``ahead`` seconds. Always False for None."""
        passed = moment is not None and RUNNING_SECONDS() - self.start + ahead >= moment
        self.decided |= passed
        return passed


@dataclass(frozen=True)
class TimeLimit:
    """Time limit of an analysis.

    Attributes:
        moment: Time limit in seconds of ``clock``. None disables the limit.
        clock: Clock of the analysis. Default: a clock that starts now.
    """

    moment: float | None = None
    clock: Clock = field(default_factory=Clock)

    @property
    def decided(self) -> bool:
        """Whether the result depends on the limit."""
        return self.clock.decided

    def passed(self) -> bool:
        """Check whether the limit has passed."""
        return self.clock.passed(self.moment)

    def left(self, part: float = 1.0, minimum: float = 0.0) -> float | None:
        """Return a share of the remaining seconds, but at least ``minimum``. None if there is no limit."""
        return None if self.moment is None else max(minimum, part * (self.moment - self.clock.now()))

    def share(self, part: float) -> TimeLimit:
        """Build the limit of a step that starts now and may use a share of the remaining time."""
        if self.moment is None:
            return self
        now = RUNNING_SECONDS() - self.clock.start
        return TimeLimit(now + max(0.0, self.moment - now) * part, self.clock)

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Context manager in which ``check_time`` raises an error in this thread once the limit has passed.

        Use it for steps whose partial results are useless, such as reading a white box.
        """
        token = _enforced.set(self)
        try:
            yield
        finally:
            _enforced.reset(token)


def check_time() -> None:
    """Check that the limit enforced in this thread has not passed.

    Raises:
        LimitError: The limit has passed.
    """
    limit = _enforced.get()
    if limit is not None and limit.passed():
        raise LimitError("the time limit was reached", hint="raise the limit: `time_limit=SECONDS`")


_enforced: ContextVar[TimeLimit | None] = ContextVar("enforced time limit", default=None)

NEVER = TimeLimit()
"""No time limit."""
