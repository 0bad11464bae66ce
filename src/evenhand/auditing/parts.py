"""Parts of an audit, and descriptions of its data.

Each part runs separately, so that a failure or a limit does not affect the other parts.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from evenhand import __version__
from evenhand.auditing.config import AuditConfig, DecisionAuditConfig
from evenhand.auditing.result import AuditResult, DataCard, ModelCard, SkippedAnalysis
from evenhand.core.result import Result
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Floats, Integers
from evenhand.errors import EvenhandError, LimitError
from evenhand.groups.result import GroupMetrics
from evenhand.schema.people import People

T = TypeVar("T")

SUBGROUPS = "search for subgroups"

MIN_SECONDS = 0.5
"""Minimum time limit of a part."""


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
        libraries = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
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
            versions={"python": platform.python_version(), "evenhand": __version__} | libraries,
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


def make_data_card(
    people: People,
    name: str,
    contents: Iterable[Any],
    *,
    recorded: bool,
    dropped: int,
    held_out: bool = False,
    base_rate: float | None = None,
) -> DataCard:
    """Describe the data of an audit by aggregates.

    Args:
        people: People in the data.
        name: Name of the data in reports.
        contents: Arrays and bytes from which the fingerprint is computed. None entries are ignored.
        recorded: Whether recorded decisions are audited. Their groups are defined by all attributes.
        dropped: Number of excluded rows.
        held_out: Whether it is known that the model was not trained on these people.
        base_rate: Share of favourable true labels.
    """
    fingerprint = hashlib.sha256()
    for content in contents:
        if content is not None:
            fingerprint.update(content if isinstance(content, bytes) else np.ascontiguousarray(content).tobytes())
    counts = {}
    for attribute in (people.schema[name] for name in (people.schema.names if recorded else people.schema.protected)):
        present = people.is_known([attribute.name])
        column = people.individuals[present, people.schema.position(attribute.name)]
        entries, codes = np.unique(column, return_inverse=True)
        sizes = np.bincount(codes, weights=None if people.counts is None else people.counts[present])
        counts[attribute.name] = {attribute.text(entry): int(size) for entry, size in zip(entries, sizes, strict=True)}
    return DataCard(
        name=name,
        people=people.size,
        dropped=dropped,
        fingerprint=fingerprint.hexdigest(),
        counts=counts,
        unknown=people.count_unknown(),
        base_rate=base_rate,
        held_out=held_out,
        unlabelled=people.unlabelled,
    )


def measure_base_rate(people: People, weights: Floats | Integers | None) -> float | None:
    """Compute the share of favourable true labels among people with a true label. None if their weights sum to 0."""
    if people.labels is None:
        return None
    labelled = people.true_labels >= 0
    weights = np.ones(int(labelled.sum())) if weights is None else weights[labelled]
    return float(np.average(people.true_labels[labelled], weights=weights)) if weights.sum() > 0 else None
