"""Statistics of unbounded numbers: means of skewed samples, quantiles, and distances between distributions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.stats.level import Interval, as_interval, student_quantile, tail_probability
from evenhand.stats.proportion import count_needed, effective_counts, kish_size

GRID = 512
"""Maximum number of points at which distributions are compared in the bootstrap."""

DRAWS = 999
"""Number of bootstrap samples."""

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
    return float(np.abs(_distribution_function(a, points) - _distribution_function(b, points)).max())


class LargestDistance(NamedTuple):
    """The largest distance between the distributions of two groups, its interval, and the positions of both groups."""

    value: float
    low: float
    high: float
    first: int
    second: int


class DistributionDistances(NamedTuple):
    """Distances between the distributions of several groups.

    Attributes:
        wasserstein: Wasserstein-1 distance, in the unit of the numbers.
        kolmogorov: Largest difference in the share of people above any one number.
    """

    wasserstein: LargestDistance
    kolmogorov: LargestDistance


def distribution_distances(
    samples: Sequence[Floats],
    confidence: float,
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    weights: Sequence[Floats] | None = None,
) -> DistributionDistances:
    r"""Compute the largest distances between the distributions of any two of several groups.

    With distribution functions F and G, ``W = integral |F - G| dx`` (Wasserstein-1; as a measure of unfair numbers:
    Chzhen et al., "Fair regression with Wasserstein barycenters", NeurIPS 2020) and ``K = sup |F - G|`` (as the
    statistical parity of a regression: Agarwal, Dudik & Wu, "Fair regression", ICML 2019).

    By the triangle inequality, the error of an estimate is at most the same distance between ``(F^ - F)`` and
    ``(G^ - G)``. The bootstrap approximates its distribution by that of the distance between ``(F* - F^)`` and
    ``(G* - G^)`` (for W: del Barrio, Gine & Matran, "Central limit theorems for the Wasserstein distance", Annals of
    Probability 1999). If q is a quantile of its maximum over all pairs, the intervals from ``W^ - q`` to ``W^ + q``
    hold simultaneously for all pairs, so for equal distributions the lower end exceeds 0 at most as often as the
    confidence level allows.

    Args:
        samples: Numbers of each of two or more groups.
        confidence: Confidence level of each of the two intervals.
        rng: Random generator of the bootstrap samples.
        draws: Number of bootstrap samples.
        weights: Sample weights of each group. If given, distributions are weighted, and the contribution of each person
            is multiplied by a standard normal number instead of being resampled.
    """
    pooled = np.unique(np.concatenate(samples))
    points = pooled
    if len(pooled) > GRID:
        points = np.unique(np.quantile(pooled, np.linspace(0, 1, GRID), method="nearest"))
    sample_weights = [None] * len(samples) if weights is None else weights
    # The estimates use all numbers, the bootstrap at most GRID of them.
    pairs = list(zip(samples, sample_weights, strict=True))
    exact = np.array([_distribution_function(sample, pooled, weight) for sample, weight in pairs])
    estimated = np.array([_distribution_function(sample, points, weight) for sample, weight in pairs])
    cells = np.clip(np.diff(estimated, axis=1, prepend=0.0), 0, None)
    cells /= cells.sum(axis=1, keepdims=True)
    deviations = [
        (rng.multinomial(len(sample), cell, size=draws).cumsum(axis=1) / len(sample) - function).astype(np.float32)
        if weight is None
        else _draw_deviations(sample, weight, points, function, rng.normal(size=(draws, len(points))))
        for (sample, weight), cell, function in zip(pairs, cells, estimated, strict=True)
    ]
    widths, grid_widths = np.diff(pooled), np.diff(points).astype(np.float32)
    wasserstein, kolmogorov = _RunningMaximum(draws), _RunningMaximum(draws)
    for i, j in combinations(range(len(samples)), 2):
        difference, errors = np.abs(exact[i] - exact[j]), np.abs(deviations[i] - deviations[j])
        wasserstein.add(i, j, float(difference[:-1] @ widths), errors[:, :-1] @ grid_widths)
        kolmogorov.add(i, j, float(difference.max()), errors.max(axis=1))
    return DistributionDistances(wasserstein.bound(confidence, np.inf), kolmogorov.bound(confidence, 1.0))


def total_variation(
    counts: Integers, confidence: float, rng: np.random.Generator, *, draws: int = DRAWS
) -> LargestDistance:
    r"""Compute the largest total variation distance between the label distributions of any two of several groups.

    ``TV = sum_l |p_l - q_l| / 2``: the share of one group that would need a different label for both distributions to
    be equal. The estimate is biased upwards for small groups, whose shares differ by chance. As in
    ``distribution_distances``, its error is at most the total variation of ``(p^ - p)`` from ``(q^ - q)``, whose
    maximum over all pairs has a bootstrap quantile; the interval holds simultaneously for all pairs.

    Args:
        counts: Number of people by group and label, shape (groups, labels); no group is empty.
        confidence: Confidence level.
        rng: Random generator of the bootstrap samples.
        draws: Number of bootstrap samples.
    """
    size = counts.sum(axis=1, keepdims=True)
    shares = counts / size
    deviations = [
        rng.multinomial(int(n), share, size=draws) / n - share for n, share in zip(size[:, 0], shares, strict=True)
    ]
    distance = _RunningMaximum(draws)
    for i, j in combinations(range(len(counts)), 2):
        errors = np.abs(deviations[i] - deviations[j]).sum(axis=1) / 2
        distance.add(i, j, float(np.abs(shares[i] - shares[j]).sum() / 2), errors)
    return distance.bound(confidence, 1.0)


class _RunningMaximum:
    """Running maximum of the distance over pairs of groups, and of its error in each bootstrap draw."""

    def __init__(self, draws: int) -> None:
        self._largest = LargestDistance(-1.0, 0.0, 0.0, 0, 1)
        self._errors = np.zeros(draws)

    def add(self, i: int, j: int, value: float, errors: NDArray[np.floating]) -> None:
        """Include the distance between two groups, and its bootstrap errors, shape (draws,)."""
        if value > self._largest.value:
            self._largest = LargestDistance(value, 0.0, 0.0, i, j)
        self._errors = np.maximum(self._errors, errors)

    def bound(self, confidence: float, maximum: float) -> LargestDistance:
        """Return the largest distance with its interval, clipped to [0, maximum]."""
        value, margin = self._largest.value, float(np.quantile(self._errors, confidence, method="higher"))
        return self._largest._replace(low=max(0.0, value - margin), high=min(maximum, value + margin))


def _distribution_function(sample: Floats, points: Floats, weights: Floats | None = None) -> Floats:
    """Compute the share of a sample, by weight if it has weights, at or below each point."""
    order = np.argsort(sample)
    below = np.searchsorted(sample[order], points, side="right")
    if weights is None:
        return below / len(sample)
    return np.asarray(np.concatenate([[0.0], np.cumsum(weights[order])])[below] / weights.sum())


def _draw_deviations(
    sample: Floats, weights: Floats, points: Floats, function: Floats, normal: Floats
) -> NDArray[np.float32]:
    """Draw errors of a weighted distribution function at each point, shape (draws, points).

    ``sum(e_i w_i (1(x_i <= t) - F(t))) / sum(w)`` with normal multipliers e_i. Their sum over the people between two
    points is normal with variance ``sum(w_i^2)``.
    """
    cells = np.minimum(np.searchsorted(points, sample), len(points) - 1)
    terms = normal * np.sqrt(np.bincount(cells, weights=weights**2, minlength=len(points)))
    errors = terms.cumsum(axis=1) - function * terms.sum(axis=1, keepdims=True)
    return np.asarray(errors / weights.sum(), dtype=np.float32)
