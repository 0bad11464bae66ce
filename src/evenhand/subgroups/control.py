"""Multiple-testing corrections: adjusted p-values, and the width of adjusted intervals."""

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
    """A family of tests and its correction.

    Attributes:
        z: Standardised gap of each test.
        critical: Half width of adjusted intervals in standard errors.
        maxima: Largest |z| of the family in each permutation, for ``max-t``. Empty for other corrections, and if no
            permutation was completed.
        control, confidence: Correction, and 1 minus the controlled error.
    """

    z: Floats
    critical: float
    maxima: Floats
    control: Control
    confidence: float

    @property
    def p(self) -> Floats:
        """Adjusted p-value of each test."""
        unadjusted = normal_p_value(self.z)
        if self.control == "BY" and len(self.z):
            return benjamini_yekutieli(unadjusted)
        if self.control != "max-t":
            return unadjusted
        if np.isfinite(critical_value(self.maxima, self.confidence)):
            return adjusted_p(self.z, self.maxima)
        # Bonferroni's bound needs no permutations, and holds if they were stopped too early.
        return np.minimum(unadjusted * len(self.z), 1.0)


def adjust_tests(z: Floats, control: Control, confidence: float, maxima: Floats) -> AdjustedTests:
    """Correct a family of tests for multiple testing.

    Args:
        z: Standardised gap of each test.
        control: ``max-t`` bounds the probability that the largest |z| exceeds the critical value; ``BY`` bounds the
            expected share of false findings and of intervals that do not contain the true gap; ``none`` applies no
            correction.
        confidence: 1 minus the controlled error.
        maxima: See ``AdjustedTests``.
    """
    critical = unadjusted = float(normal_quantile(confidence))
    if control == "max-t":
        permuted = critical_value(maxima, confidence)
        if not np.isfinite(permuted):
            permuted = float(normal_quantile(bonferroni(confidence, max(len(z), 1))))
        # No adjusted interval is narrower than the unadjusted one, even if few permutations differ.
        critical = max(permuted, unadjusted)
    elif control == "BY":
        reported = int((benjamini_yekutieli(normal_p_value(z)) <= 1 - confidence).sum()) if len(z) else 0
        critical = float(normal_quantile(false_coverage_confidence(reported, max(len(z), 1), confidence)))
    return AdjustedTests(z, critical, maxima, control, confidence)


# Searches for subgroups of texts.


def adjust_text_tests(z: Floats, config: TextSubgroupConfig, draw_maxima: Callable[[], Floats]) -> AdjustedTests:
    """Correct a family of tests, and draw the maxima only if the correction needs them."""
    maxima = draw_maxima() if config.control == "max-t" and len(z) else np.empty(0)
    return adjust_tests(z, config.control, config.confidence, maxima)


def text_p_values(tests: AdjustedTests) -> Floats:
    """Compute adjusted p-values that are at least the unadjusted ones, even if few permutations differ."""
    return np.asarray(np.maximum(tests.p, normal_p_value(tests.z)))


def adjusted_p_of(tests: AdjustedTests, z: float) -> float:
    """Compute the adjusted p-value of an additional test."""
    return float(text_p_values(replace(tests, z=np.append(tests.z, z)))[-1])


def significant(tests: AdjustedTests, p: Floats, low: Floats, high: Floats, margin: float) -> Booleans:
    """Determine which effects are distinguishable from noise and possibly as large as the margin."""
    clear = (p <= 1 - tests.confidence + 1e-12) & ((low > 0) | (high < 0))
    return np.asarray(clear & (np.maximum(np.abs(low), np.abs(high)) >= margin))
