"""Intervals for the mean of a bounded number, and for the difference of two such means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import Interval, as_interval, normal_cdf, normal_quantile, student_quantile, tail_probability
from evenhand.stats.quantity import Observed

ADJUSTED = "Student's t, observations added at both ends of the range"
"""How the interval of ``observed_means`` is called."""

NO_SPREAD = 1e-12
"""A standard deviation below this part of the range is rounding: all values were the same."""


def student_interval(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Interval:
    """Return the interval for a mean: Student's t, cut to the range; Hoeffding's where the sample shows no spread.

    t: ``mean ± t_(n-1) sqrt(variance / n)`` (Student, "The probable error of a mean", Biometrika 1908), which assumes
    independent values whose mean is nearly normal. A single value, or n equal ones, would give an interval without
    width; Hoeffding's ("Probability inequalities for sums of bounded random variables", JASA 1963, theorem 2)
    ``mean ± (upper - lower) sqrt(ln(2 / (1 - confidence)) / (2 n))`` assumes the range alone.

    Args:
        mean, variance, n: sample means, sample variances (divisor n - 1) and sizes (>= 1), arrays that broadcast.
        lower, upper: the range of a single value.
    """
    mean, variance, n = _sample_arrays(mean, variance, n)
    half = student_quantile(confidence, np.maximum(n - 1, 1)) * np.sqrt(variance / n)
    half = np.where(_has_spread(variance, n, upper - lower), half, _hoeffding_width(1 / n, confidence, upper - lower))
    return as_interval(np.maximum(mean - half, lower), np.minimum(mean + half, upper))


def adjusted_mean_interval(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float | Floats = 0.0,
    upper: float | Floats = 1.0,
) -> Interval:
    """Return the interval for a mean of few or skewed numbers: Student's t with observations added at both ends.

    ``z^2 / 2`` observations per unit of the range are added at each end of it, and t is taken of them all. For zeros
    and ones these are the successes and failures that Agresti & Coull add ("Approximate is better than exact for
    interval estimation of binomial proportions", American Statistician 1998), for the differences of paired proportions
    those of Bonett & Price (Journal of Educational and Behavioral Statistics 2012). A rare event that a small sample
    has not shown yet, such as an error of -1 among scores near 0, thus has its part in the interval, where Student's t
    alone takes what was not seen to be impossible. Assumes independent values.

    Args:
        mean, variance, n: sample means, sample variances (divisor n - 1) and sizes (>= 1), arrays that broadcast.
        lower, upper: the range of a single value, numbers or such arrays.
    """
    mean, variance, n = _sample_arrays(mean, variance, n)
    added = normal_quantile(confidence) ** 2 / 2 / (upper - lower)
    size = n + 2 * added
    centre = (n * mean + added * (lower + upper)) / size
    # The sum of squares around the new centre: within the sample, of its mean, and of what is added.
    squares = (n - 1) * variance + n * (mean - centre) ** 2 + added * ((lower - centre) ** 2 + (upper - centre) ** 2)
    half = student_quantile(confidence, size - 1) * np.sqrt(squares / (size - 1) / size)
    return as_interval(np.maximum(centre - half, lower), np.minimum(centre + half, upper))


def observed_means(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> list[Observed]:
    """Compute ``adjusted_mean_interval`` of many groups at once: arguments of shape (groups,)."""
    mean, variance, n = _sample_arrays(mean, variance, n)
    low, high = adjusted_mean_interval(mean, variance, n, confidence, lower=lower, upper=upper)
    columns = (np.asarray(array).tolist() for array in (mean, n, low, high))
    return [
        Observed(value=value, n=int(size), low=below, high=above, confidence=confidence, method=ADJUSTED)
        for value, size, below, above in zip(*columns, strict=True)
    ]


class SampleMoments(NamedTuple):
    """A sample, or arrays of them: mean, variance (divisor n - 1) and size (>= 1)."""

    mean: ArrayLike
    variance: ArrayLike
    n: ArrayLike


def welch_interval(
    first: SampleMoments,
    second: SampleMoments,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Interval:
    """Return the interval for the difference ``mean1 - mean2`` of two independent samples; their variances may differ.

    ``mean1 - mean2 ± t_f sqrt(variance1 / n1 + variance2 / n2)`` with Satterthwaite's degrees of freedom f (Welch,
    "The generalization of Student's problem when several different population variances are involved", Biometrika
    1947). Where neither sample shows spread, or one has a single value, Hoeffding's inequality for the difference of
    two means (JASA 1963, formula 2.7), as in ``student_interval``.

    Args:
        first, second: the samples.
        lower, upper: the range of a single value in both samples.
    """
    mean1, variance1, n1 = _sample_arrays(*first)
    mean2, variance2, n2 = _sample_arrays(*second)
    error1, error2 = variance1 / n1, variance2 / n2
    error = error1 + error2
    usable = (
        (n1 > 1) & (n2 > 1) & (_has_spread(variance1, n1, upper - lower) | _has_spread(variance2, n2, upper - lower))
    )
    denominator = error1**2 / np.maximum(n1 - 1, 1) + error2**2 / np.maximum(n2 - 1, 1)
    freedom = np.divide(error**2, denominator, out=np.ones_like(error), where=usable & (denominator > 0))
    half = student_quantile(confidence, freedom) * np.sqrt(error)
    half = np.where(usable, half, _hoeffding_width(1 / n1 + 1 / n2, confidence, upper - lower))
    widest = upper - lower
    return as_interval(np.maximum(mean1 - mean2 - half, -widest), np.minimum(mean1 - mean2 + half, widest))


def _sample_arrays(mean: ArrayLike, variance: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats, Floats]:
    mean, variance, n = np.broadcast_arrays(*(np.asarray(values, dtype=np.float64) for values in (mean, variance, n)))
    return mean, variance, n


def _has_spread(variance: Floats, n: Floats, width: float) -> Booleans:
    return np.asarray((n > 1) & (variance > (NO_SPREAD * width) ** 2))


def _hoeffding_width(inverse_size: Floats, confidence: float, width: float) -> Floats:
    return np.asarray(width * np.sqrt(-np.log(tail_probability(confidence)) * inverse_size / 2))


# Several means over the same clusters of observations, and intervals for all of them that hold together.


@dataclass(frozen=True, eq=False)
class ClusteredMeans:
    """Means of bounded numbers that come in clusters, one per column.

    Attributes:
        mean: as observed, shape (columns,).
        centre, error: what intervals are built from: the mean and its standard error with a few more clusters, as many
            at either end of the range.
        clusters, n: how many there are, the added ones left out, and how many observations.
        z: ``centre / error`` as the normal quantile of its Student probability.
        residuals: per cluster, added ones last, and column what it adds to the centre's deviation, scaled to variance 1
            in all, shape (clusters + 2, columns).
    """

    mean: Floats
    centre: Floats
    error: Floats
    clusters: Integers
    n: Integers
    z: Floats
    residuals: Floats

    def interval(self, z: float) -> Interval:
        """Return ``centre`` plus or minus so many standard errors, widened as Student's t is for few clusters."""
        confidence = 2 * float(normal_cdf(z)) - 1
        half = student_quantile(confidence, self.clusters + 1) * self.error
        return as_interval(self.centre - half, self.centre + half)

    def maxima(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return the largest |z| of all columns around their own means, shape (draws,).

        Multiplier bootstrap: the residuals of every cluster are multiplied by one normal number (Chernozhukov,
        Chetverikov & Kato, "Gaussian approximations and multiplier bootstrap for maxima of sums of high-dimensional
        random vectors", Annals of Statistics 2013). What the added clusters contribute is independent between columns,
        so that columns without any spread of their own count as many and not as one.
        """
        deviations = rng.standard_normal((draws, len(self.residuals) - 2)) @ self.residuals[:-2]
        deviations += rng.standard_normal(deviations.shape) * np.linalg.norm(self.residuals[-2:], axis=0)
        return np.asarray(np.abs(deviations).max(axis=1, initial=0.0))


def clustered_means(values: Floats, clusters: NDArray[np.integer], reach: float, *, z: float) -> ClusteredMeans:
    """Return the means of columns whose observations are independent between clusters only.

    The standard error is the usual one from the clusters' sums (Liang & Zeger, "Longitudinal data analysis using
    generalized linear models", Biometrika 1986). So that means of equal numbers are no more certain than a
    sample of that size can make them, and means of many zeros and few ones not too certain, clusters of typical size
    are added at both ends of the range: one each at 95 %, as Bonett & Price do for the difference of paired proportions
    ("Adjusted Wald confidence interval for a difference of binomial proportions based on paired data", Journal of
    Educational and Behavioral Statistics 2012), and in proportion to ``z^2``, as Agresti & Coull for one proportion, at
    other levels.

    Args:
        values: from ``-reach`` to ``reach``, NaN where a column has none, shape (n, columns).
        clusters: the cluster of each row, from 0 on, shape (n,).
        reach: the ends of the range.
        z: how many standard errors the intervals will reach.
    """
    from scipy.special import ndtri, stdtr

    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    number = int(clusters.max(initial=-1)) + 1
    sums, sizes = np.zeros((number + 2, values.shape[1])), np.zeros((number + 2, values.shape[1]))
    np.add.at(sums, clusters, filled)
    np.add.at(sizes, clusters, known.astype(np.float64))
    added = (z / float(normal_quantile(0.95))) ** 2
    typical = (sizes**2).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1)
    sizes[number:] = added * typical
    sums[number:] = np.array([[reach], [-reach]]) * sizes[number:]
    n, observed = sizes.sum(axis=0), known.sum(axis=0)
    centre = sums.sum(axis=0) / n
    residuals = np.where(sizes > 0, sums - sizes * centre, 0.0)
    residuals[number:] /= np.sqrt(added)  # so many clusters, not one of that size
    spread = np.sqrt((residuals**2).sum(axis=0))
    used = (sizes > 0).sum(axis=0)
    error = spread / n * np.sqrt(used / (used - 1))
    t = np.divide(centre, error, out=np.zeros_like(centre), where=error > 0)
    return ClusteredMeans(
        mean=filled.sum(axis=0) / np.maximum(observed, 1),
        centre=centre,
        error=error,
        clusters=used - 2,
        n=observed,
        z=0.0 - np.sign(t) * ndtri(stdtr(used - 1, -np.abs(t))),
        residuals=np.divide(residuals, spread, out=np.zeros_like(residuals), where=spread > 0),
    )
