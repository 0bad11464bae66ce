"""What looking at many rule sets does to one: adjusted p-values, and how far adjusted intervals reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.typing import Booleans, Floats
from evenhand.stats.level import bonferroni, normal_quantile
from evenhand.stats.permutation import (
    adjusted_p,
    benjamini_yekutieli,
    critical_value,
    false_coverage_confidence,
    normal_p_value,
)
from evenhand.subgroups.config import Control, TextSubgroupConfig


@dataclass(frozen=True, eq=False)
class AdjustedTests:
    """Everything that was tested, and what it is held against.

    Attributes:
        z: of each.
        critical: standard errors that adjusted intervals reach.
        maxima: the largest |z| of all that chance alone shows, permutation by permutation, for ``max-t``; empty for
            the others, and where it was stopped before enough were drawn.
        control, confidence: how errors are controlled, and how surely.
    """

    z: Floats
    critical: float
    maxima: Floats
    control: Control
    confidence: float

    @property
    def p(self) -> Floats:
        """Adjusted p of each."""
        if self.control == "BY" and len(self.z):
            return benjamini_yekutieli(normal_p_value(self.z))
        if self.control != "max-t":
            return normal_p_value(self.z)
        if np.isfinite(critical_value(self.maxima, self.confidence)):
            return adjusted_p(self.z, self.maxima)
        # Too few permutations before it was stopped: a bound that needs none.
        return np.minimum(normal_p_value(self.z) * len(self.z), 1.0)


def adjust_tests(z: Floats, control: Control, confidence: float, maxima: Floats) -> AdjustedTests:
    """Account for having looked at all these.

    Args:
        z: of each.
        control: ``max-t``: the largest |z| of all exceeds the critical value with probability 1 - confidence at most;
            ``BY``: expected share of false ones among those found, and of intervals that miss; ``none``.
        confidence: 1 - the error that is controlled.
        maxima: see ``AdjustedTests``.
    """
    plain = float(normal_quantile(confidence))
    if control == "none":
        return AdjustedTests(z, plain, maxima, control, confidence)
    if control == "max-t":
        critical = critical_value(maxima, confidence)
        if not np.isfinite(critical):
            critical = float(normal_quantile(bonferroni(confidence, max(len(z), 1))))
        # No adjusted interval is narrower than the plain one, even where few permutations differ.
        return AdjustedTests(z, max(critical, plain), maxima, control, confidence)
    reported = int((benjamini_yekutieli(normal_p_value(z)) <= 1 - confidence).sum()) if len(z) else 0
    level = false_coverage_confidence(reported, max(len(z), 1), confidence)
    return AdjustedTests(z, float(normal_quantile(level)), maxima, control, confidence)


# The same for searches in texts.


def adjust_text_tests(z: Floats, config: TextSubgroupConfig, maxima: Callable[[], Floats]) -> AdjustedTests:
    """Account for having looked at all these; ``maxima`` is only drawn where the control needs it."""
    drawn = maxima() if config.control == "max-t" and len(z) else np.empty(0)
    return adjust_tests(z, config.control, config.confidence, drawn)


def text_p_values(tests: AdjustedTests) -> Floats:
    """Return the adjusted p of each: never below the plain one, even where few permutations differ."""
    return np.asarray(np.maximum(tests.p, normal_p_value(tests.z)))


def p_of_query(tests: AdjustedTests, z: float) -> float:
    """Return the adjusted p of something that was not looked at, had it been."""
    return float(text_p_values(replace(tests, z=np.append(tests.z, z)))[-1])


def significant(tests: AdjustedTests, p: Floats, low: Floats, high: Floats, margin: float) -> Booleans:
    """Return what is clear of chance, and may be as large as the margin."""
    clear = (p <= 1 - tests.confidence + 1e-12) & ((low > 0) | (high < 0))
    return np.asarray(clear & (np.maximum(np.abs(low), np.abs(high)) >= margin))
