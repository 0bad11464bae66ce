"""Multiple-testing correction by the largest standardised gap of a family (max-t)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.core.typing import Floats
from evenhand.stats.level import normal_quantile
from evenhand.stats.permutation import adjusted_p, critical_value, normal_p_value


@dataclass(frozen=True, eq=False)
class MaxTCorrection:
    """Correction of a family of tests by the distribution of its largest |z| under the null hypothesis.

    The probability that the family has any false finding is at most ``1 - confidence``. Without permutations, or with
    too few, Bonferroni's bound applies.

    Attributes:
        tests: Number of tests.
        maxima: Largest |z| of the family in each permutation.
        confidence: Probability of no false finding.
    """

    tests: float
    maxima: Floats
    confidence: float

    @cached_property
    def _permuted_critical(self) -> float:
        """Critical value of the permutations, infinite if there are too few."""
        return float(critical_value(self.maxima, self.confidence))

    @cached_property
    def critical(self) -> float:
        """Half width of adjusted intervals in standard errors."""
        critical = self._permuted_critical
        if not np.isfinite(critical):
            critical = normal_quantile(self.confidence, max(self.tests, 1))
        # No adjusted interval is narrower than the unadjusted one, even if few permutations are distinct.
        return max(critical, normal_quantile(self.confidence))

    def p(self, z: Floats) -> Floats:
        """Compute the adjusted p-values of tests with these standardised gaps."""
        if np.isfinite(self._permuted_critical):
            return adjusted_p(z, self.maxima)
        return np.minimum(normal_p_value(z) * max(self.tests, 1), 1.0)

    def conservative_p(self, z: Floats) -> Floats:
        """Compute adjusted p-values that are at least the unadjusted ones, even if few permutations are distinct."""
        return np.asarray(np.maximum(self.p(z), normal_p_value(z)))
