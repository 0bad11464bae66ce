"""Parts of an audit. Each part runs separately, so that a failure or a limit does not affect the other parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evenhand.auditing.cards import library_versions
from evenhand.auditing.config import AuditConfig, DecisionAuditConfig
from evenhand.auditing.result import AuditResult, DataCard, ModelCard, SkippedAnalysis
from evenhand.core.result import Result
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.errors import EvenhandError, LimitError
from evenhand.groups.result import GroupMetrics
from evenhand.schema.people import People

T = TypeVar("T")


@dataclass
class AuditParts:
    """Run the parts of an audit, and build its result.

    Attributes:
        limit: Time limit of the audit. Parts that have not started by then are not run.
        not_run: Skipped parts, with the reasons.
        interrupted: Whether an interrupt (Ctrl-C) ended the audit. Later parts are not run.
        started: Start of the audit, as returned by ``time.perf_counter``.
    """

    limit: TimeLimit = NEVER
    not_run: list[SkippedAnalysis] = field(default_factory=list)
    interrupted: bool = False
    started: float = field(default_factory=lambda: time.perf_counter())

    def skip(self, name: str, reason: str) -> None:
        """Record a part that is not run."""
        self.not_run.append(SkippedAnalysis(what=name, reason=reason))

    def run(self, name: str, analysis: Callable[[], T]) -> T | None:
        """Run a part. Return None if it fails, which is recorded, or if the audit has ended."""
        if self.interrupted:
            return None
        if self.limit.passed():
            self.skip(name, "the time limit was reached before")
            return None
        with self.limit.enforced():
            return self.attempt(name, analysis)

    def attempt(self, name: str, analysis: Callable[[], T]) -> T | None:
        """Run a part regardless of the time limit. Return None if it fails, which is recorded."""
        try:
            return analysis()
        except KeyboardInterrupt:
            self.interrupted = True
        except Exception as error:
            self.skip(name, describe_failure(error))
        return None

    def finish(
        self,
        people: People,
        config: AuditConfig | DecisionAuditConfig,
        *,
        model: ModelCard,
        data: DataCard,
        groups: GroupMetrics,
        settings: Mapping[str, Any],
        **results: Any,
    ) -> AuditResult:
        """Build the result of the audit.

        Args:
            people: People in the data.
            config: Settings of the audit.
            model: Description of the model.
            data: Description of the data.
            groups: Group metrics.
            settings: Settings that are not in ``config``, or described differently.
            results: Results of the other parts, by field of ``AuditResult``.
        """
        if self.interrupted:
            self.skip("the rest of the audit", "it was interrupted; the result contains the parts completed before")
        parts = [part for part in results.values() if isinstance(part, Result)]
        return AuditResult(
            model=model,
            data=data,
            table_reading=people.reading,
            described=people.schema,
            protected=people.schema.names if model.recorded else people.schema.protected,
            groups=groups,
            not_run=tuple(self.not_run),
            interrupted=self.interrupted
            or (model.recorded and any(getattr(part, "interrupted", False) for part in parts)),
            settings=config.model_dump() | {"reference": ", ".join(config.reference) or None} | dict(settings),
            versions=library_versions(),
            seed=config.seed,
            time_limited=self.limit.decided or any(part.time_limited for part in parts),
            seconds=time.perf_counter() - self.started,
            **results,
        )


def describe_failure(error: Exception) -> str:
    """Describe why a part was not run, with the hint if a limit was reached."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if not isinstance(error, EvenhandError):
        return f"it failed: {type(error).__name__}: {error}"
    return f"{error.message}; {error.hint}" if isinstance(error, LimitError) and error.hint else error.message
