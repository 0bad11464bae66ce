"""Intervals for the mean of a bounded number, and for the difference of two such means."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.stats.level import Floats, Interval, ends, student_quantile, tail
from evenhand.stats.quantity import Observed

NO_SPREAD = 1e-12
"""A standard deviation below this part of the range is rounding: all values were the same."""


def student(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Interval:
    """Interval for a mean: Student's t, cut to the range; Hoeffding's where the sample shows no spread.

    t: ``mean ± t_(n-1) sqrt(variance / n)`` (Student, "The probable error of a mean", Biometrika 1908), which assumes
    independent values whose mean is nearly normal. A single value, or n equal ones, would give an interval without
    width; Hoeffding's ("Probability inequalities for sums of bounded random variables", JASA 1963, theorem 2)
    ``mean ± (upper - lower) sqrt(ln(2 / (1 - confidence)) / (2 n))`` assumes the range alone.

    Args:
        mean, variance, n: sample means, sample variances (divisor n - 1) and sizes (>= 1), arrays that broadcast.
        lower, upper: the range of a single value.
    """
    mean, variance, n = _samples(mean, variance, n)
    half = student_quantile(confidence, np.maximum(n - 1, 1)) * np.sqrt(variance / n)
    half = np.where(_spread(variance, n, upper - lower), half, _hoeffding(1 / n, confidence, upper - lower))
    return ends(np.maximum(mean - half, lower), np.minimum(mean + half, upper))


def observed_means(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> list[Observed]:
    """``student`` of many groups at once, each with the interval's name: arguments of shape (groups,)."""
    mean, variance, n = _samples(mean, variance, n)
    low, high = student(mean, variance, n, confidence, lower=lower, upper=upper)
    spread = _spread(variance, n, upper - lower)
    columns = (np.asarray(array).tolist() for array in (mean, n, low, high, spread))
    return [
        Observed(
            value=value,
            n=int(size),
            low=below,
            high=above,
            confidence=confidence,
            method="Student's t" if spreads else "Hoeffding",
        )
        for value, size, below, above, spreads in zip(*columns, strict=True)
    ]


def welch(
    mean1: ArrayLike,
    variance1: ArrayLike,
    n1: ArrayLike,
    mean2: ArrayLike,
    variance2: ArrayLike,
    n2: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Interval:
    """Interval for ``mean1 - mean2`` of two independent samples; their variances may differ.

    ``mean1 - mean2 ± t_f sqrt(variance1 / n1 + variance2 / n2)`` with Satterthwaite's degrees of freedom f (Welch,
    "The generalization of Student's problem when several different population variances are involved", Biometrika
    1947). Where neither sample shows spread, or one has a single value, Hoeffding's inequality for the difference of
    two means (JASA 1963, formula 2.7), as in ``student``.

    Args:
        mean1, variance1, n1, mean2, variance2, n2: sample means, variances (divisor n - 1), sizes (>= 1).
        lower, upper: the range of a single value in both samples.
    """
    mean1, variance1, n1 = _samples(mean1, variance1, n1)
    mean2, variance2, n2 = _samples(mean2, variance2, n2)
    first, second = variance1 / n1, variance2 / n2
    error = first + second
    usable = (n1 > 1) & (n2 > 1) & (_spread(variance1, n1, upper - lower) | _spread(variance2, n2, upper - lower))
    denominator = first**2 / np.maximum(n1 - 1, 1) + second**2 / np.maximum(n2 - 1, 1)
    freedom = np.divide(error**2, denominator, out=np.ones_like(error), where=usable & (denominator > 0))
    half = student_quantile(confidence, freedom) * np.sqrt(error)
    half = np.where(usable, half, _hoeffding(1 / n1 + 1 / n2, confidence, upper - lower))
    widest = upper - lower
    return ends(np.maximum(mean1 - mean2 - half, -widest), np.minimum(mean1 - mean2 + half, widest))


def _samples(mean: ArrayLike, variance: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats, Floats]:
    mean, variance, n = np.broadcast_arrays(*(np.asarray(values, dtype=np.float64) for values in (mean, variance, n)))
    return mean, variance, n


def _spread(variance: Floats, n: Floats, width: float) -> NDArray[np.bool_]:
    return np.asarray((n > 1) & (variance > (NO_SPREAD * width) ** 2))


def _hoeffding(inverse_size: Floats, confidence: float, width: float) -> Floats:
    return np.asarray(width * np.sqrt(-np.log(tail(confidence)) * inverse_size / 2))
