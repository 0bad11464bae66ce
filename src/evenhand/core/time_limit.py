"""Time limits of analyses, and the clock that they are read from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

from evenhand.core.interrupts import RUNNING_SECONDS
from evenhand.errors import LimitError


class Clock:
    """Seconds since an analysis began; compiling kernels is left out.

    Attributes:
        began: Reading of ``RUNNING_SECONDS`` at the beginning.
        decided: Whether the course of the analysis depended on the time, and with it on the speed of the machine.
    """

    def __init__(self) -> None:
        self.decided = False
        self.began = RUNNING_SECONDS()

    def now(self) -> float:
        """Return the seconds since the beginning, where the course of the analysis depends on them."""
        self.decided = True
        return RUNNING_SECONDS() - self.began

    def passed(self, moment: float | None, ahead: float = 0.0) -> bool:
        """Return whether a moment has passed, or will have in ``ahead`` seconds; None never passes."""
        passed = moment is not None and RUNNING_SECONDS() - self.began + ahead >= moment
        self.decided |= passed
        return passed


@dataclass(frozen=True)
class TimeLimit:
    """A moment at which an analysis has to end.

    Attributes:
        clock: Clock of the analysis.
        moment: Time in seconds of ``clock``. None never passes.
    """

    clock: Clock
    moment: float | None

    @classmethod
    def after(cls, seconds: float | None) -> Self:
        """Return the limit of an analysis that begins now; None sets no limit."""
        return cls(Clock(), seconds)

    @property
    def decided(self) -> bool:
        """Whether the course of the analysis depended on the limit."""
        return self.clock.decided

    def passed(self) -> bool:
        """Return whether the moment has passed."""
        return self.clock.passed(self.moment)

    def left(self, part: float = 1.0, least: float = 0.0) -> float | None:
        """Return a part of the seconds left, at least ``least``; None without a limit."""
        return None if self.moment is None else max(least, part * (self.moment - self.clock.now()))

    def share(self, part: float) -> TimeLimit:
        """Return the limit of a part that begins now and gets this share of what is left."""
        if self.moment is None:
            return self
        now = RUNNING_SECONDS() - self.clock.began
        return TimeLimit(self.clock, now + max(0.0, self.moment - now) * part)

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Let ``check_time`` in this thread raise an error when the moment has passed.

        Preparations use it that are of no use unless they are complete, such as reading a model from the inside.
        """
        token = _enforced.set(self)
        try:
            yield
        finally:
            _enforced.reset(token)


def check_time() -> None:
    """Raise an error if the limit that is enforced in this thread has passed; loops of preparations call it.

    Raises:
        LimitError: The limit has passed.
    """
    limit = _enforced.get()
    if limit is not None and limit.passed():
        raise LimitError("the time limit was reached", hint="raise it: `time_limit=SECONDS`")


_enforced: ContextVar[TimeLimit | None] = ContextVar("enforced time limit", default=None)

NEVER = TimeLimit(Clock(), None)
"""No time limit."""
