"""Settings of audits and comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from evenhand.certification.config import COMPILE_SHARE
from evenhand.core.config import Config, setting
from evenhand.errors import OptionError
from evenhand.groups.config import GroupConfig

PROOF_EFFORT = 20.0
"""Total computing effort of all proofs if there is no limit, in seconds of a processor core."""

MIN_PROGRESS = 5e-4
"""Share decided per second of effort below which a proof ends if there is no limit."""

ENOUGH_UNDECIDED = 5e-3
"""Undecided share at which a proof ends if there is no time limit. Deciding the rest takes most of the effort."""


class DecisionAuditConfig(GroupConfig):
    """Settings of an audit of recorded decisions."""

    time_limit: float | None = setting(None, "time limit of the search for subgroups", unit="seconds", gt=0)


class AuditConfig(DecisionAuditConfig):
    """Settings of an audit of a model.

    By default, each part does a fixed amount of work, so equal seeds give equal results on every machine. The time
    limit covers everything after the data are read, except the first compilation on a machine. A prover that needs more
    than half of the time limit for its compilation is not compiled, and its certificates are skipped. The results of
    parts that are ended by the time limit depend on the machine.
    """

    time_limit: float | None = setting(
        None,
        "time limit after the data are read. By default, each part does a fixed amount of work, and proofs end when "
        "little is undecided or more work would decide little",
        unit="seconds",
        gt=0,
    )
    population: Literal["data", "uniform", "independent"] = setting(
        "data",
        "simulated population: distributed as in the data or uniform over the domain, both obeying the rules of the "
        "schema; or independent attributes, each distributed as in the data (proofs then ignore the rules)",
    )
    samples: int = setting(20_000, "number of individuals drawn from the population", ge=1)
    searched: int = setting(
        3_000, "number of profiles queried per search for a protected attribute; 0 disables it", ge=0
    )
    repeats: int = setting(
        1, "answers per person and protected value, decided by majority; for models whose answers vary", ge=1
    )
    as_published: bool = setting(
        False, "change only the protected attribute in flips, searches and proofs, without the rules of the schema"
    )
    tolerance: float | None = setting(
        None, "numeric targets: count and prove changes larger than this; 0 counts every change", ge=0
    )
    budget: int | None = setting(None, "maximum number of individuals for which a black box is queried", ge=1)
    max_boxes: int | None = setting(None, "maximum number of boxes of each proof", ge=1)
    threshold: float | None = setting(None, "minimum score of a favourable decision, such as 0.5")

    @property
    def compile_limit(self) -> float:
        """Maximum processor time in seconds to compile a prover: half of the time limit, or infinity without one."""
        return math.inf if self.time_limit is None else COMPILE_SHARE * self.time_limit

    def proof_limits(self, share: float, seconds: float | None) -> dict[str, Any]:
        """Return the limits of one proof as settings of a certificate.

        Args:
            share: Share of the effort of all proofs.
            seconds: Time limit of this proof. None without a time limit.
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

    confidence: float = setting(0.95, "simultaneous confidence level of the intervals of all changes", gt=0, lt=1)


def check_settings(
    config: DecisionAuditConfig,
    *,
    is_number: bool,
    metrics: Mapping[str, Callable[..., Any]] | None,
    threshold: bool = False,
) -> None:
    """Check that no setting requires a favourable label, for a target without one.

    Args:
        config: Settings of the audit.
        is_number: Whether the target is a number. Otherwise, it has several labels.
        metrics: Custom metrics.
        threshold: Whether a threshold is set.

    Raises:
        OptionError: A setting does not apply to the target.
    """
    settings = {
        "`threshold=`": threshold or getattr(config, "threshold", None) is not None,
        "`thresholds=`": config.thresholds,
    }
    if is_number:
        settings |= {"`repeats=`": getattr(config, "repeats", 1) > 1}
    else:
        settings |= {"metrics": bool(metrics), "`keep_decisions=`": config.keep_decisions}
    for name, is_set in settings.items():
        if is_set:
            raise OptionError(
                f"expected no {name} for {'a number' if is_number else 'several labels'}: a favourable label is "
                "required",
                hint="leave it out; for labels, pass `kind=label`"
                if is_number
                else "leave it out; or pass the `favourable=` label and `kind=label`",
            )
