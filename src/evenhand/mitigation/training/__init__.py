"""Networks trained to be fair: losses, the loop, a scikit-learn-style estimator (needs the extra ``torch``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.mitigation.training.fair_classifier import FairClassifier

__all__ = ["FairClassifier"]

__getattr__, __dir__ = doors.open_when_used(__name__)
