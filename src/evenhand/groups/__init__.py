"""Performance and group metrics: selection rates, error rates and calibration of every group, and the gaps."""

from evenhand.groups.engine import Config, measure, run
from evenhand.groups.result import (
    GAP_NAMES,
    METRIC_NAMES,
    OVERALL_NAMES,
    SMALL,
    Breakdown,
    CalibrationBin,
    Gap,
    Group,
    GroupMetrics,
)

__all__ = [
    "GAP_NAMES",
    "METRIC_NAMES",
    "OVERALL_NAMES",
    "SMALL",
    "Breakdown",
    "CalibrationBin",
    "Config",
    "Gap",
    "Group",
    "GroupMetrics",
    "measure",
    "run",
]
