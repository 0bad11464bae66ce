"""For pipelines of scikit-learn: gaps between groups as scorers, and a threshold that keeps a gap below a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.metrics.fair_threshold import BoundNotMetWarning, FairnessThreshold
    from evenhand.metrics.scorers import make_fairness_scorer

__all__ = ["BoundNotMetWarning", "FairnessThreshold", "make_fairness_scorer"]

__getattr__, __dir__ = doors.open_when_used(__name__)
