"""Statistics of unbounded numbers: means of skewed samples, quantiles, and the Kolmogorov distance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Floats, Integers
from evenhand.stats.level import Interval, as_interval, student_quantile, tail_probability
from evenhand.stats.proportion import count_needed, effective_counts, kish_size

NO_SKEW = 1e-6
"""Skewness of an estimate, divided by 3, below which it is treated as 0."""


class NumberMoments(NamedTuple):
    """Moments of several samples, each of shape (groups,).

    Attributes:
        mean: Means.
        variance: Variances with divisor n - 1.
        skewness: Skewness.
        n: Sample sizes, or effective sizes of weighted samples.
    """

    mean: Floats
    variance: Floats
    skewness: Floats
    n: Integers | Floats


def number_moments(values: Floats, group: Integers, groups: int, weights: Floats | None = None) -> NumberMoments:
    """Compute the moments of each group. The moments of an empty group are 0.

    With weights w, means m are weighted and sizes are Kish's effective sizes. Variance and skewness are those of an
    unweighted sample of this size whose mean has the linearised variance ``sum(w^2 (x - m)^2) / sum(w)^2``, times
    n / (n - 1), and the skewness of ``sum(w^3 (x - m)^3)``.

    Args:
        values: Numbers, shape (n,).
        group: Group of each number, shape (n,).
        groups: Number of groups.
        weights: Sample weights, shape (n,). None means equal weights.
    """
    if weights is not None:
        return _weighted_moments(values, group, groups, weights)
    n = np.bincount(group, minlength=groups)
    mean = np.bincount(group, weights=values, minlength=groups) / np.maximum(n, 1)
    deviation = values - mean[group]
    second = np.bincount(group, weights=deviation**2, minlength=groups)
    third = np.bincount(group, weights=deviation**3, minlength=groups)
    spread = np.sqrt(second / np.maximum(n, 1))
    skewness = np.divide(third / np.maximum(n, 1), spread**3, out=np.zeros(groups), where=spread > 0)
    return NumberMoments(mean, second / np.maximum(n - 1, 1), skewness, n)


def _weighted_moments(values: Floats, group: Integers, groups: int, weights: Floats) -> NumberMoments:
    def add(terms: Floats) -> Floats:
        return np.asarray(np.bincount(group, weights=terms, minlength=groups), dtype=np.float64)

    total, squares = add(weights), add(weights**2)
    n = kish_size(total, squares)
    mean = add(weights * values) / np.where(total > 0, total, 1)
    deviation = weights * (values - mean[group])
    second, third = add(deviation**2), add(deviation**3)
    skewness = np.divide(third * np.sqrt(n), second**1.5, out=np.zeros(groups), where=second > 0)
    return NumberMoments(mean, second / np.where(squares > 0, squares, 1) * n / np.maximum(n - 1, 1), skewness, n)


def skewed_mean_interval(moments: NumberMoments, confidence: float = 0.95, *, reach: float) -> Interval:
    """Compute the interval for the mean of possibly skewed numbers without a known range, such as prices.

    Args:
        moments: Moments of each sample, with sizes of at least 1.
        confidence: Confidence level of each interval.
        reach: Range of the numbers. Samples without spread get an interval by Hoeffding's inequality (JASA 1963).
    """
    mean, variance, skewness, n = (np.asarray(moment, dtype=np.float64) for moment in moments)
    size = np.maximum(n, 1)
    low, high = skewed_interval(mean, np.sqrt(variance / size), skewness / np.sqrt(size), n - 1, confidence)
    width = reach * np.sqrt(np.log(1 / tail_probability(confidence)) / (2 * size))
    flat = (n < 2) | (variance <= (1e-12 * reach) ** 2)
    return as_interval(np.where(flat, mean - width, low), np.where(flat, mean + width, high))


def skewed_interval(
    mean: ArrayLike, error: ArrayLike, skewness: ArrayLike, freedom: ArrayLike, confidence: float = 0.95
) -> Interval:
    r"""Compute the interval for a mean with a skewed estimate, by a transformation of Student's t.

    For skewed numbers, Student's t has too many errors on one side. Hall's transformation removes the effect of
    skewness up to order 1/n (Hall, "On the removal of skewness by transformation", JRSS B 1992): with ``a`` a third of
    the skewness of the estimate, ``g(t) = ((1 + a t)^3 - 1) / (3 a) + a / 2`` is increasing in t, and ``g(t)`` is
    approximately distributed as Student's t. The ends follow from its inverse.

    Args:
        mean, error: Estimate and its standard error.
        skewness: Skewness of the estimate. For the mean of n numbers, this is their skewness divided by sqrt(n).
        freedom: Degrees of freedom, at least 1.
        confidence: Confidence level of each interval.
    """
    mean, error = np.asarray(mean, dtype=np.float64), np.asarray(error, dtype=np.float64)
    quantile = student_quantile(confidence, np.maximum(freedom, 1))
    a = np.asarray(skewness, dtype=np.float64) / 3
    skewed = np.abs(a) > NO_SKEW
    divisor = np.where(skewed, a, 1.0)

    def inverse(y: Floats) -> Floats:
        # Solution t of g(t) = y.
        return np.where(skewed, (np.cbrt(1 + 3 * divisor * (y - divisor / 2)) - 1) / divisor, y)

    return as_interval(mean - inverse(quantile) * error, mean - inverse(-quantile) * error)


def sample_quantile(ordered: Floats, share: float, weights: Floats | None = None) -> float:
    """Compute a sample quantile: the smallest number that at least a given share of the people do not exceed.

    Args:
        ordered: Sample in ascending order, shape (n,).
        share: Share between 0 and 1.
        weights: Sample weights in the same order, shape (n,). None means equal weights.
    """
    if weights is None:
        return float(ordered[max(count_needed(share, len(ordered)), 1) - 1])
    sums = np.cumsum(weights)
    position = np.searchsorted(sums, share * sums[-1] * (1 - 1e-12))
    return float(ordered[min(int(position), len(ordered) - 1)])


def quantile_interval(
    ordered: Floats, share: float, confidence: float = 0.95, weights: Floats | None = None
) -> tuple[float, float] | None:
    """Compute the interval for a quantile, with ends taken from the sample.

    The number of people below the true quantile is binomial, so the l-th and u-th order statistics contain it with at
    least the given confidence, for any distribution (David & Nagaraja, "Order statistics", 2003, section 7.1). With
    weights, the shares l / n and u / n are taken by weight (Woodruff, "Confidence intervals for medians and other
    position measures", JASA 1952), where n is the effective size of the share below the quantile.

    Args:
        ordered: Sample in ascending order, shape (n,).
        share: Share of people below the quantile, between 0 and 1.
        confidence: Confidence level.
        weights: Sample weights in the same order, shape (n,). None means equal weights.

    Returns:
        The interval, or None if the sample is too small.
    """
    from scipy.stats import binom

    n, tail = len(ordered), tail_probability(confidence)
    if weights is not None:
        below = ordered <= sample_quantile(ordered, share, weights)
        total, squares = weights.sum(), (weights**2).sum()
        sums = weights[below].sum(), (weights[below] ** 2).sum()
        _, effective = effective_counts((total, squares), sums, np.asarray(n))
        n = int(min(float(effective), float(kish_size(total, squares))) + 1e-9)
    # P(X_(l) > q) = P(Bin < l) <= tail, and P(X_(u) < q) = P(Bin >= u) <= tail.
    lower, upper = int(binom.ppf(tail, n, share)), int(binom.ppf(1 - tail, n, share)) + 1
    if lower < 1 or upper > n:
        return None
    if weights is not None:
        return sample_quantile(ordered, lower / n, weights), sample_quantile(ordered, upper / n, weights)
    return float(ordered[lower - 1]), float(ordered[upper - 1])


def kolmogorov_distance(a: Floats, b: Floats) -> float:
    """Compute the Kolmogorov-Smirnov statistic of two samples: the largest difference of their distribution functions.

    Source: Smirnov, "Table for estimating the goodness of fit of empirical distributions", Annals of Mathematical
    Statistics 1948.
    """
    points = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (a, b)]
    return float(np.abs(below[0] - below[1]).max())
