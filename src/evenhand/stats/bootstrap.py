"""Intervals from samples drawn again with replacement, or weighted at random."""

from __future__ import annotations

import math

import numpy as np

from evenhand.core.typing import Floats
from evenhand.stats.level import normal_cdf, normal_quantile, student_quantile


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


DRAWS = 20_000
"""Random vectors that a simultaneous critical value is read from: its own error is then about 0.01."""


def simultaneous_critical(influence: Floats, confidence: float = 0.95, *, rng: np.random.Generator) -> float:
    """Return the number of standard errors at which intervals of several means of the same people hold together.

    The quantile of ``max_j |Z_j|`` for normal Z with the correlations of the estimates: the Gaussian multiplier
    bootstrap of the largest studentised deviation (Chernozhukov, Chetverikov, Kato, "Gaussian approximations and
    multiplier bootstrap for maxima of sums of high-dimensional random vectors", Annals of Statistics 2013). Estimates
    that move together cost little; of one alone it is the usual normal quantile. An estimate that no one contributes to
    takes no part.

    Args:
        influence: what each person contributes to each estimate beyond its mean, shape (n, estimates).
        confidence: with which all intervals hold together.
        rng: draws the normal vectors.
    """
    errors = np.sqrt((influence**2).sum(axis=0))
    scaled = influence[:, errors > 0] / errors[errors > 0]
    if scaled.shape[1] <= 1:
        return float(normal_quantile(confidence))
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    largest = np.abs(rng.standard_normal((DRAWS, len(values))) @ root.T).max(axis=1)
    return max(float(np.quantile(largest, confidence)), float(normal_quantile(confidence)))
