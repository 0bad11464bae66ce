"""What looking at many does to one: adjusted p, and how far adjusted intervals reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand.stats import adjusted_p, benjamini_yekutieli, critical_value, normal_p
from evenhand.stats.discovery import false_coverage_confidence
from evenhand.stats.level import normal_quantile
from evenhand.subgroup.result import Control
from evenhand.subgroup.text.counts import Bools, Floats


@dataclass(frozen=True, eq=False)
class Controlled:
    """The account of everything that was looked at.

    Attributes:
        z: of each.
        critical: standard errors that adjusted intervals reach.
        maxima: the largest |z| that chance alone shows, for ``max-t``.
        control, confidence: how, and how surely.
    """

    z: Floats
    critical: float
    maxima: Floats
    control: Control
    confidence: float

    @property
    def p(self) -> Floats:
        """Adjusted p of each."""
        if self.control == "max-t" and len(self.z):
            return np.maximum(adjusted_p(self.z, self.maxima), normal_p(self.z))
        if self.control == "BY" and len(self.z):
            return benjamini_yekutieli(normal_p(self.z))
        return normal_p(self.z)

    def one_more(self, z: float) -> float:
        """The adjusted p of something that was not looked at, had it been."""
        if self.control == "max-t" and not len(self.maxima):
            return float(normal_p(z))
        more = np.append(self.z, z)
        return float(Controlled(more, self.critical, self.maxima, self.control, self.confidence).p[-1])

    def stands_out(self, p: Floats, low: Floats, high: Floats, margin: float) -> Bools:
        """What is clear of chance, and may be as large as the margin."""
        clear = (p <= 1 - self.confidence + 1e-12) & ((low > 0) | (high < 0))
        return np.asarray(clear & (np.maximum(np.abs(low), np.abs(high)) >= margin))


def controlled(z: Floats, control: Control, confidence: float, maxima: Callable[[], Floats]) -> Controlled:
    """Account for having looked at all these.

    Args:
        z: of each.
        control: how.
        confidence: 1 - the error that is controlled.
        maxima: the largest |z| of all, each time that chance alone is at work; only called for ``max-t``.
    """
    plain = float(normal_quantile(confidence))
    if control == "none" or len(z) == 0:
        return Controlled(z, plain, np.empty(0), control, confidence)
    if control == "max-t":
        drawn = maxima()
        return Controlled(z, max(critical_value(drawn, confidence), plain), drawn, control, confidence)
    reported = int((benjamini_yekutieli(normal_p(z)) <= 1 - confidence).sum())
    level = false_coverage_confidence(reported, len(z), confidence)
    return Controlled(z, float(normal_quantile(level)), np.empty(0), control, confidence)
