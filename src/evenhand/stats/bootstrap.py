"""Bootstrap intervals."""

from __future__ import annotations

import math

import numpy as np

from evenhand.core.typing import Floats
from evenhand.stats.level import normal_cdf, normal_quantile, student_quantile


def expanded_percentiles(draws: Floats, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute a percentile bootstrap interval, expanded for small samples.

    The lower percentile is ``Phi(-sqrt(n / (n - 1)) t)`` instead of ``alpha / 2``, where t is the quantile of Student's
    distribution with n - 1 degrees of freedom. For a mean, this gives the ends of Student's interval, whereas plain
    percentiles are too narrow by the factor ``sqrt((n - 1) / n) z / t`` (Hesterberg, "What teachers should know about
    the bootstrap", American Statistician 2015). The interval assumes independent people.

    Args:
        draws: Statistic of each bootstrap sample, shape (draws,).
        n: Sample size, at least 2.
        confidence: Confidence level.
    """
    tail = float(normal_cdf(-math.sqrt(n / (n - 1)) * float(student_quantile(confidence, n - 1))))
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


DRAWS = 20_000
"""Number of random vectors for a simultaneous critical value. The error of the critical value is about 0.01."""


def simultaneous_critical(influence: Floats, confidence: float = 0.95, *, rng: np.random.Generator) -> float:
    """Compute the critical value of simultaneous intervals for several means over the same people.

    This is the quantile of ``max_j |Z_j|`` for normal Z with the correlations of the estimates: the Gaussian multiplier
    bootstrap of the largest studentised deviation (Chernozhukov, Chetverikov, Kato, "Gaussian approximations and
    multiplier bootstrap for maxima of sums of high-dimensional random vectors", Annals of Statistics 2013). Strongly
    correlated estimates hardly increase it, and for a single estimate it equals the normal quantile. Estimates with
    zero influence are ignored.

    Args:
        influence: Centred contribution of each person to each estimate, shape (n, estimates).
        confidence: Simultaneous confidence level.
        rng: Random generator of the normal vectors.
    """
    errors = np.sqrt((influence**2).sum(axis=0))
    scaled = influence[:, errors > 0] / errors[errors > 0]
    if scaled.shape[1] <= 1:
        return float(normal_quantile(confidence))
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    maxima = np.abs(rng.standard_normal((DRAWS, len(values))) @ root.T).max(axis=1)
    return max(float(np.quantile(maxima, confidence)), float(normal_quantile(confidence)))
