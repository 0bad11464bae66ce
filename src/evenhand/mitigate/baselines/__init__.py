"""Fairlearn's methods as candidates beside the others (needs the extra ``fairlearn``)."""

from evenhand.mitigate.baselines.reduction import exponentiated_gradient
from evenhand.mitigate.baselines.thresholds import threshold_optimizer

__all__ = ["exponentiated_gradient", "threshold_optimizer"]
