"""Multiple-testing correction by the largest standardised gap of a family (max-t)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Floats
from evenhand.stats.level import normal_quantile
from evenhand.stats.permutation import adjusted_p, critical_value, normal_p_value
from evenhand.subgroups.config import FamilyTestSettings
from evenhand.subgroups.tabulate import CellTable

PERMUTATIONS_AT_ONCE = 100
"""Number of permutations between checks of the time limit."""

LargestGap: TypeAlias = Callable[[NDArray[np.float32]], Floats]
"""Function from permuted sums by cell (cells, permutations) to the largest standardised gaps (permutations,)."""


@dataclass(frozen=True, eq=False)
class MaxTCorrection:
    """Correction of a family of tests by the distribution of its largest |z| under the null hypothesis.

    The probability that the family has any false finding is at most ``1 - confidence``. Without permutations, or with
    too few, Bonferroni's bound applies.

    Attributes:
        tests: Number of tests.
        maxima: Largest |z| of the family in each permutation. Fewer than requested if stopped early.
        confidence: Probability of no false finding.
        stopped: Reason for stopping early: ``time`` or ``user``.
    """

    tests: float
    maxima: Floats
    confidence: float
    stopped: str | None = None

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


def permute_outcomes(
    table: CellTable,
    largest: LargestGap,
    tests: float,
    config: FamilyTestSettings,
    rng: np.random.Generator,
    *,
    at_once: int = PERMUTATIONS_AT_ONCE,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> MaxTCorrection:
    """Permute the outcomes until the time limit. An interrupt keeps the completed permutations.

    Args:
        table: People.
        largest: Function that computes the largest gaps.
        tests: Number of tests.
        config: Number of permutations, and confidence level.
        rng: Random generator.
        at_once: Number of permutations between checks of the time limit.
        limit: Time limit. At least ``at_once`` permutations are completed.
        progress: Called with the share of completed permutations.
    """
    maxima = [np.zeros(0)]
    completed, stopped = 0, None
    try:
        while completed < config.permutations:
            if completed > 0 and limit.passed():
                stopped = "time"
                break
            number = min(at_once, config.permutations - completed)
            maxima.append(largest(table.permute_sums(number, rng).T.astype(np.float32)))
            completed += number
            if progress is not None:
                progress(completed / config.permutations)
    except KeyboardInterrupt:
        stopped = "user"
    return MaxTCorrection(tests, np.concatenate(maxima), config.confidence, stopped)
