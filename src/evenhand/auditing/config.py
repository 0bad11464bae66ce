"""Settings of an audit."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Literal

from pydantic import field_validator

from evenhand.certification.config import COMPILE_SHARE
from evenhand.core.config import Assignments, Config, setting

PROOF_EFFORT = 20.0
"""Effort of all proofs together without a limit, in seconds of a processor core."""

MIN_PROGRESS = 5e-4
"""Without a limit, a proof ends where another second of effort would decide less than this share."""

ENOUGH_UNDECIDED = 5e-3
"""Without a time limit, a proof also ends where no more than this share is undecided: the rest takes most of the
effort."""


class DecisionAuditConfig(Config):
    """Settings of an audit of decisions already made."""

    time_limit: float | None = setting(None, "for the search for subgroups", unit="seconds", gt=0)
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0, lt=1)
    min_group_size: int = setting(
        30, "smallest denominator of a rate that is compared between groups; smaller ones are not assessable", ge=1
    )
    thresholds: bool = setting(
        False, "trace accuracy, selection rates and gaps over the threshold of the score, in bands over all thresholds"
    )
    reference: Assignments = setting(
        (), "compare every other group with this one, such as sex=Male, in place of best and worst"
    )
    keep_decisions: bool = setting(
        False, "keep in the report what was decided about each person, and the score, so that comparisons can be paired"
    )
    seed: int = setting(0, "same seed, same result, unless there is a time limit", ge=0)


class AuditConfig(Config):
    """Settings of an audit.

    By default every part does a fixed amount of work, so that equal seeds give equal results on every machine. The time
    limit covers everything after the data are read, except compiling on the first use on a machine; a prover that takes
    longer to compile than half the time limit is not compiled, and its certificates are not run. Parts that the time
    limit cuts short depend on the machine.
    """

    time_limit: float | None = setting(
        None,
        "time limit of everything after the data are read. By default there is none: every part does a fixed amount "
        "of work, and proofs end when little is undecided or more work would decide little",
        unit="seconds",
        gt=0,
    )
    population: Literal["data", "uniform", "independent"] = setting(
        "data",
        "the simulated population: as in the data or uniform over the domain, by the schema's rules if it has any; or "
        "independent attributes, each as in the data (proofs are then as published)",
    )
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0, lt=1)
    min_group_size: int = setting(
        30, "smallest denominator of a rate that is compared between groups; smaller ones are not assessable", ge=1
    )
    samples: int = setting(20_000, "individuals drawn from the population", ge=1)
    searched: int = setting(
        3_000, "profiles that the search for each protected attribute asks about; 0 leaves it out", ge=0
    )
    repeats: int = setting(
        1, "answers per person and protected value, the majority decides; for models that can answer differently", ge=1
    )
    as_published: bool = setting(
        False, "flips, searches and proofs change the protected attribute alone, whatever rules the schema has"
    )
    tolerance: float | None = setting(
        None, "where a number is decided: count and prove who changes by more than this; 0 counts every change", ge=0
    )
    budget: int | None = setting(None, "ask a black box about so many individuals at most, all told", ge=1)
    max_boxes: int | None = setting(None, "maximum number of boxes of each proof", ge=1)
    thresholds: bool = setting(
        False, "trace accuracy, selection rates and gaps over the threshold of the score, in bands over all thresholds"
    )
    threshold: tuple[str, ...] = setting(
        (), "decide by the model's score: favourable from it on, such as 0.5, or sex=Female:0.4 beside it (a what-if)"
    )
    reference: Assignments = setting(
        (), "compare every other group with this one, such as sex=Male, in place of best and worst"
    )
    keep_decisions: bool = setting(
        False, "keep in the report what was decided about each person, and the score, so that comparisons can be paired"
    )
    seed: int = setting(0, "same seed, same result, unless there is a time limit", ge=0)

    @field_validator("threshold", mode="before")
    @classmethod
    def _list_thresholds(cls, given: Any) -> tuple[str, ...]:
        if given is None:
            return ()
        return tuple(map(str, [given] if isinstance(given, str | Real) else given))

    @property
    def compile_limit(self) -> float:
        """Processor seconds that compiling a prover may take: half the time limit, and infinity without one."""
        return math.inf if self.time_limit is None else COMPILE_SHARE * self.time_limit

    def proof_limits(self, share: float, seconds: float | None) -> dict[str, Any]:
        """Return the limits of one proof as settings of a certificate.

        Args:
            share: Share of the effort of all proofs.
            seconds: Time limit of this proof; None without a time limit.
        """
        fixed = seconds is None and self.max_boxes is None
        return {
            "time_limit": seconds,
            "max_boxes": self.max_boxes,
            "effort": share * PROOF_EFFORT if fixed else None,
            "min_progress": MIN_PROGRESS if fixed else None,
            "target_undecided": ENOUGH_UNDECIDED if seconds is None else None,
            "compile_limit": self.compile_limit,
        }


class CompareConfig(Config):
    """Settings of a comparison of two audits."""

    confidence: float = setting(
        0.95, "confidence level at which the intervals of all changes hold together", gt=0, lt=1
    )
