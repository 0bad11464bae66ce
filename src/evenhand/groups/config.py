"""Settings of group metrics."""

from __future__ import annotations

from evenhand.core.config import Assignments, Config, setting

SMALL = 30
"""Default of the minimum group size for gaps."""


class GroupConfig(Config):
    """Settings of group metrics. Only bootstraps are random."""

    confidence: float = setting(0.95, "confidence level of the intervals", gt=0, lt=1)
    min_group_size: int = setting(
        SMALL, "minimum denominator of a rate that is compared between groups; smaller ones are not assessable", ge=1
    )
    thresholds: bool = setting(
        False, "compute accuracy, selection rates and gaps at all score thresholds, with simultaneous bands"
    )
    reference: Assignments = setting(
        (), "reference group, such as sex=Male; all other groups are compared with it instead of best with worst"
    )
    keep_decisions: bool = setting(
        False, "store the decision and score of each person in the report, so that comparisons can be paired"
    )
    seed: int = setting(0, "random seed; equal seeds give equal results unless there is a time limit", ge=0)
