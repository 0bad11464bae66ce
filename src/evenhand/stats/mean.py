"""Intervals for means of bounded numbers, and for differences of two means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import Interval, as_interval, normal_cdf, normal_quantile, student_quantile, tail_probability

ADJUSTED = "Student's t, observations added at both ends of the range"
"""Name of ``adjusted_mean_interval`` in reports."""

NO_SPREAD = 1e-12
"""Standard deviation, relative to the range, below which all values are considered equal."""


def student_interval(
    mean: ArrayLike,
    variance: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Interval:
    """Compute the interval for a mean by Student's t, clipped to the range.

    The interval is ``mean ± t_(n-1) sqrt(variance / n)`` (Student, "The probable error of a mean", Biometrika 1908). It
    assumes independent values whose mean is approximately normal. For a single value, or for equal values, it would
    have no width; these samples get Hoeffding's interval ``mean ± (upper - lower) sqrt(ln(2 / (1 - confidence)) / (2
    n))``, which only assumes the range ("Probability inequalities for sums of bounded random variables", JASA 1963,
    theorem 2).

    Args:
        mean: Sample means.
        variance: Sample variances with divisor n - 1.
        n: Sample sizes, at least 1. All three arguments broadcast.
        confidence: Confidence level.
        lower, upper: Range of a single value.
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
    """Compute the interval for a mean of few or skewed numbers: Student's t with observations added at both ends.

    ``z^2 / 2`` observations per unit of the range are added at each end of the range before applying Student's t. For
    zeros and ones, these are the successes and failures of Agresti & Coull ("Approximate is better than exact for
    interval estimation of binomial proportions", American Statistician 1998); for differences of paired proportions,
    those of Bonett & Price (Journal of Educational and Behavioral Statistics 2012). The interval thus allows for rare
    events that do not occur in a small sample, such as an error of -1 among scores near 0, which Student's t alone
    would ignore. It assumes independent values.

    Args:
        mean: Sample means.
        variance: Sample variances with divisor n - 1.
        n: Sample sizes, at least 1. All three arguments broadcast.
        confidence: Confidence level.
        lower, upper: Range of a single value, as scalars or arrays.
    """
    mean, variance, n = _sample_arrays(mean, variance, n)
    added = normal_quantile(confidence) ** 2 / 2 / (upper - lower)
    size = n + 2 * added
    centre = (n * mean + added * (lower + upper)) / size
    # Sum of squares around the new centre: within the sample, of the sample mean, and of the added observations.
    squares = (n - 1) * variance + n * (mean - centre) ** 2 + added * ((lower - centre) ** 2 + (upper - centre) ** 2)
    half = student_quantile(confidence, size - 1) * np.sqrt(squares / (size - 1) / size)
    return as_interval(np.maximum(centre - half, lower), np.minimum(centre + half, upper))


class SampleMoments(NamedTuple):
    """Mean, variance (divisor n - 1) and size (at least 1) of a sample, or arrays of these."""

    mean: ArrayLike
    variance: ArrayLike
    n: ArrayLike


def welch_interval(
    sample1: SampleMoments,
    sample2: SampleMoments,
    confidence: float = 0.95,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
) -> Interval:
    """Compute the interval for the difference of two independent means with unequal variances.

    ``mean1 - mean2 ± t_f sqrt(variance1 / n1 + variance2 / n2)`` with Satterthwaite's degrees of freedom f (Welch,
    "The generalization of Student's problem when several different population variances are involved", Biometrika
    1947). If neither sample has spread, or one consists of a single value, the interval is Hoeffding's for the
    difference of two means (JASA 1963, formula 2.7), as in ``student_interval``.

    Args:
        sample1, sample2: Samples whose difference ``mean1 - mean2`` is estimated.
        confidence: Confidence level.
        lower, upper: Range of a single value in both samples.
    """
    mean1, variance1, n1 = _sample_arrays(*sample1)
    mean2, variance2, n2 = _sample_arrays(*sample2)
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


# Simultaneous intervals for several means over the same clusters of observations.


@dataclass(frozen=True, eq=False)
class ClusteredMeans:
    """Means of bounded, clustered numbers, one per column; each attribute has shape (columns,) unless stated otherwise.

    Attributes:
        mean: Observed means.
        centre, error: Mean and standard error after adding clusters at both ends of the range; intervals use these.
        clusters: Number of observed clusters.
        n: Number of observations.
        z: ``centre / error``, converted from Student's to the normal distribution with the same tail probability.
        residuals: Contribution of each cluster to the deviation of the centre, scaled to a total variance of 1; added
            clusters are last, shape (clusters + 2, columns).
    """

    mean: Floats
    centre: Floats
    error: Floats
    clusters: Integers
    n: Integers
    z: Floats
    residuals: Floats

    def interval(self, z: float) -> Interval:
        """Compute ``centre ± z error``, with z replaced by the equivalent quantile of Student's t."""
        confidence = 2 * float(normal_cdf(z)) - 1
        half = student_quantile(confidence, self.clusters + 1) * self.error
        return as_interval(self.centre - half, self.centre + half)

    def maxima(self, draws: int, rng: np.random.Generator) -> Floats:
        """Draw the largest |z| of all columns around their own means, shape (draws,).

        Multiplier bootstrap: the residuals of each cluster are multiplied by the same normal number (Chernozhukov,
        Chetverikov & Kato, "Gaussian approximations and multiplier bootstrap for maxima of sums of high-dimensional
        random vectors", Annals of Statistics 2013). The contribution of the added clusters is independent between
        columns, so that columns without spread are not treated as identical.
        """
        deviations = rng.standard_normal((draws, len(self.residuals) - 2)) @ self.residuals[:-2]
        deviations += rng.standard_normal(deviations.shape) * np.linalg.norm(self.residuals[-2:], axis=0)
        return np.asarray(np.abs(deviations).max(axis=1, initial=0.0))


def clustered_means(values: Floats, clusters: NDArray[np.integer], reach: float, *, z: float) -> ClusteredMeans:
    """Estimate the means of columns whose observations are only independent between clusters.

    The standard error is the usual cluster-robust one (Liang & Zeger, "Longitudinal data analysis using generalized
    linear models", Biometrika 1986). It would be too small for means of equal numbers and for means of rare events.
    Therefore clusters of typical size are added at both ends of the range: one at each end for 95 %, as Bonett & Price
    do for the difference of paired proportions ("Adjusted Wald confidence interval for a difference of binomial
    proportions based on paired data", Journal of Educational and Behavioral Statistics 2012), and a number proportional
    to ``z^2`` for other levels, as Agresti & Coull do for one proportion.

    Args:
        values: Values between ``-reach`` and ``reach``, or NaN for missing values, shape (n, columns).
        clusters: Cluster of each row, numbered from 0, shape (n,).
        reach: Largest absolute value.
        z: Number of standard errors that the intervals will reach.
    """
    from scipy.special import ndtri, stdtr

    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    number = int(clusters.max(initial=-1)) + 1
    sums, sizes = np.zeros((number + 2, values.shape[1])), np.zeros((number + 2, values.shape[1]))
    np.add.at(sums, clusters, filled)
    np.add.at(sizes, clusters, present.astype(np.float64))
    added = (z / float(normal_quantile(0.95))) ** 2
    typical = (sizes**2).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1)
    sizes[number:] = added * typical
    sums[number:] = np.array([[reach], [-reach]]) * sizes[number:]
    n, observed = sizes.sum(axis=0), present.sum(axis=0)
    centre = sums.sum(axis=0) / n
    residuals = np.where(sizes > 0, sums - sizes * centre, 0.0)
    residuals[number:] /= np.sqrt(added)  # represents this number of clusters of typical size, not a single large one
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
