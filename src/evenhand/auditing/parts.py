"""Parts of an audit: each is run by itself, so that a failure or a limit leaves all others in the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from evenhand.auditing.result import SkippedAnalysis
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.errors import EvenhandError, LimitError

T = TypeVar("T")


@dataclass
class AuditParts:
    """Run the parts of one audit, and record those that are not run.

    Attributes:
        limit: Time limit of the audit. A part that has not begun by then is not run.
        not_run: Parts that were not run, with the reason.
        interrupted: Whether an interrupt (Ctrl-C) ended the audit. Later parts are not run then.
    """

    limit: TimeLimit = NEVER
    not_run: list[SkippedAnalysis] = field(default_factory=list)
    interrupted: bool = False

    def skip(self, name: str, reason: str) -> None:
        """Record a part that is not run."""
        self.not_run.append(SkippedAnalysis(what=name, reason=reason))

    def run(self, name: str, analysis: Callable[[], T]) -> T | None:
        """Return the result of a part; None if it fails, with the reason recorded, or if the audit has ended."""
        if self.interrupted:
            return None
        if self.limit.passed():
            self.skip(name, "the time limit was reached before")
            return None
        with self.limit.enforced():
            return self.attempt(name, analysis)

    def attempt(self, name: str, analysis: Callable[[], T]) -> T | None:
        """Run a part whatever the time."""
        try:
            return analysis()
        except KeyboardInterrupt:
            self.interrupted = True
        except Exception as error:
            self.skip(name, describe_failure(error))
        return None

    def end(self) -> tuple[SkippedAnalysis, ...]:
        """Return the parts that were not run."""
        if self.interrupted:
            self.skip("the rest of the audit", "it was interrupted; the result holds the parts completed before")
        return tuple(self.not_run)


def describe_failure(error: Exception) -> str:
    """Return why a part was not run; of a limit, also how to raise it."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if not isinstance(error, EvenhandError):
        return f"it failed: {type(error).__name__}: {error}"
    return f"{error.message}; {error.hint}" if isinstance(error, LimitError) and error.hint else error.message
