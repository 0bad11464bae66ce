"""Settings of an audit."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Literal

from pydantic import field_validator

from evenhand.certification import COMPILE_SHARE
from evenhand.core import Assignments, Config, setting

DEFAULT_SECONDS = 20.0
"""The time limit that is used if none is given."""


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
    seed: int = setting(0, "same seed, same result, unless a time limit is reached", ge=0)


class AuditConfig(Config):
    """Settings of an audit.

    The time limit is for flip rates, searches and certificates together; subgroups are counted within a tenth of it, or
    within two seconds. Reading the data, one pass of the model over it, and compiling on the first use are not in it; a
    prover that takes longer to compile than half the time limit is not compiled, and its certificates are not run.
    """

    time_limit: float | None = setting(
        None,
        "for flip rates and certificates together. By default 20 at most, and proofs end when little is undecided, or "
        "another second would decide little",
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
    bands: tuple[float, ...] = setting(
        (), "count who can get different bands of the score or number, cut at these, like 0.3,0.6"
    )
    outcomes: int = setting(
        2, "of several labels or bands: count, and prove, who can get 3 different ones, and so on up to this many", ge=2
    )
    budget: int | None = setting(None, "ask a black box about so many individuals at most, all told", ge=1)
    max_boxes: int | None = setting(
        None, "stop each proof after so many boxes; without a time limit then, the seed alone repeats the audit", ge=1
    )
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
    seed: int = setting(0, "same seed, same result, unless a time limit is reached", ge=0)

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

    @property
    def seconds(self) -> float | None:
        """The time limit in force; None where the work is limited by boxes alone."""
        if self.time_limit is None and self.max_boxes is None:
            return DEFAULT_SECONDS
        return self.time_limit

    def share(self, part: float, least: float = 0.0) -> float | None:
        """Return the seconds that a part of the audit gets, as a share of the time limit."""
        return None if self.seconds is None else max(least, part * self.seconds)


class CompareConfig(Config):
    """Settings of a comparison of two audits."""

    confidence: float = setting(
        0.95, "confidence level at which the intervals of all changes hold together", gt=0, lt=1
    )
