"""Intervals from samples drawn again with replacement."""

from __future__ import annotations

import math

import numpy as np

from evenhand.stats.level import normal_cdf, student_quantile
from evenhand.typing import Floats


def expanded_percentiles(draws: Floats, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return percentiles of bootstrap draws as an interval, taken further out for small samples.

    In place of ``alpha / 2``, the percentile ``Phi(-sqrt(n / (n - 1)) t)`` with t that of Student for n - 1 degrees of
    freedom: for a mean, the ends are then those of Student's interval, where plain percentiles are too narrow by the
    factor ``sqrt((n - 1) / n) z / t`` (Hesterberg, "What teachers should know about the bootstrap", American
    Statistician 2015). Assumes independent people.

    Args:
        draws: the statistic of each bootstrap sample, shape (draws,).
        n: people in the sample, at least 2.
    """
    side = float(normal_cdf(-math.sqrt(n / (n - 1)) * float(student_quantile(confidence, n - 1))))
    low, high = np.quantile(draws, [side, 1 - side])
    return float(low), float(high)
