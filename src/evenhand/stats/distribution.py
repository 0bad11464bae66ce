"""Intervals for numbers without a known range: means of skewed samples, quantiles, and distances of distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.stats.level import Interval, as_interval, student_quantile, tail_probability
from evenhand.stats.proportion import count_needed, effective_counts, kish_size, square_and_add

GRID = 512
"""Points at which distributions of more different numbers than this are compared in the bootstrap."""

DRAWS = 999
"""Bootstrap samples of every group."""

NO_SKEW = 1e-6
"""Skewness below this, after division by 3 sqrt(n), changes nothing."""


class NumberMoments(NamedTuple):
    """Samples of numbers, each of shape (groups,): mean, variance (divisor n - 1), skewness and (effective) size."""

    mean: Floats
    variance: Floats
    skewness: Floats
    n: Integers | Floats


def number_moments(values: Floats, group: Integers, groups: int, weights: Floats | None = None) -> NumberMoments:
    """Return the moments of the numbers (n,) of each group; zeros where a group is empty.

    With weights w, means are weighted, sizes are Kish's, and variance and skewness such that the mean has its
    linearised variance ``sum(w^2 (x - m)^2) / sum(w)^2``, times n / (n - 1), and the skewness of
    ``sum(w^3 (x - m)^3)``, as that of as many people drawn alike would be.
    """
    if weights is not None:
        return _weighted_moments(values, group, groups, weights)
    n = np.bincount(group, minlength=groups)
    mean = np.bincount(group, weights=values, minlength=groups) / np.maximum(n, 1)
    apart = values - mean[group]
    second = np.bincount(group, weights=apart**2, minlength=groups)
    third = np.bincount(group, weights=apart**3, minlength=groups)
    spread = np.sqrt(second / np.maximum(n, 1))
    skewness = np.divide(third / np.maximum(n, 1), spread**3, out=np.zeros(groups), where=spread > 0)
    return NumberMoments(mean, second / np.maximum(n - 1, 1), skewness, n)


def _weighted_moments(values: Floats, group: Integers, groups: int, weights: Floats) -> NumberMoments:
    def add(parts: Floats) -> Floats:
        return np.asarray(np.bincount(group, weights=parts, minlength=groups), dtype=np.float64)

    total, squares = add(weights), add(weights**2)
    n = kish_size(total, squares)
    mean = add(weights * values) / np.where(total > 0, total, 1)
    apart = weights * (values - mean[group])
    second, third = add(apart**2), add(apart**3)
    skewness = np.divide(third * np.sqrt(n), second**1.5, out=np.zeros(groups), where=second > 0)
    return NumberMoments(mean, second / np.where(squares > 0, squares, 1) * n / np.maximum(n - 1, 1), skewness, n)


def skewed_mean_interval(moments: NumberMoments, confidence: float = 0.95, *, reach: float) -> Interval:
    """Return the interval for the mean of numbers that may be skewed and have no known range, such as prices.

    Args:
        moments: of each sample, sizes of at least 1.
        confidence: of each interval.
        reach: the range of the numbers, for samples without any spread: Hoeffding's inequality (JASA 1963) then.
    """
    mean, variance, skewness, n = (np.asarray(part, dtype=np.float64) for part in moments)
    size = np.maximum(n, 1)
    low, high = skewed_interval(mean, np.sqrt(variance / size), skewness / np.sqrt(size), n - 1, confidence)
    width = reach * np.sqrt(np.log(1 / tail_probability(confidence)) / (2 * size))
    flat = (n < 2) | (variance <= (1e-12 * reach) ** 2)
    return as_interval(np.where(flat, mean - width, low), np.where(flat, mean + width, high))


def skewed_interval(
    mean: ArrayLike, error: ArrayLike, skewness: ArrayLike, freedom: ArrayLike, confidence: float = 0.95
) -> Interval:
    r"""Return the interval for a mean whose estimate is skewed: Student's t, transformed.

    Student's t of skewed numbers misses on one side. Hall's transformation removes what skewness does to it up to
    order 1/n (Hall, "On the removal of skewness by transformation", JRSS B 1992): with ``a`` a third of the skewness of
    the estimate, ``g(t) = ((1 + a t)^3 - 1) / (3 a) + a / 2`` is increasing in t, and ``g(t)`` lies between the
    quantiles of Student's distribution as often as the confidence says. Its inverse gives the ends.

    Args:
        mean, error, skewness, freedom: the estimate, its standard error, the skewness of the estimate itself (for the
            mean of n numbers theirs, over sqrt(n)) and degrees of freedom (at least 1), arrays that broadcast.
        confidence: of each interval.
    """
    mean, error = np.asarray(mean, dtype=np.float64), np.asarray(error, dtype=np.float64)
    quantile = student_quantile(confidence, np.maximum(freedom, 1))
    a = np.asarray(skewness, dtype=np.float64) / 3
    skewed = np.abs(a) > NO_SKEW
    safe = np.where(skewed, a, 1.0)

    def inverse(y: Floats) -> Floats:
        # g(t) = y, solved for t.
        return np.where(skewed, (np.cbrt(1 + 3 * safe * (y - safe / 2)) - 1) / safe, y)

    return as_interval(mean - inverse(quantile) * error, mean - inverse(-quantile) * error)


def sample_quantile(ordered: Floats, share: float, weights: Floats | None = None) -> float:
    """Return the least number of a sample that a share of the people, by weight if they have any, do not exceed.

    Args:
        ordered: the sample in increasing order, shape (n,).
        share: between 0 and 1.
        weights: of the same people, shape (n,).
    """
    if weights is None:
        return float(ordered[max(count_needed(share, len(ordered)), 1) - 1])
    below = np.cumsum(weights)
    place = np.searchsorted(below, share * below[-1] * (1 - 1e-12))
    return float(ordered[min(int(place), len(ordered) - 1)])


def quantile_interval(
    ordered: Floats, share: float, confidence: float = 0.95, weights: Floats | None = None
) -> tuple[float, float] | None:
    """Return the interval for the quantile of a share, between two numbers of the sample; None where it is too small.

    The number of people below the true quantile is binomial, so that the l-th and the u-th of the ordered numbers have
    it between them with at least the confidence, whatever the distribution (David & Nagaraja, "Order statistics", 2003,
    section 7.1). With weights these shares of the people, l / n and u / n, are taken by weight (Woodruff, "Confidence
    intervals for medians and other position measures", JASA 1952), n being the effective size of the share below.

    Args:
        ordered: the sample in increasing order, shape (n,).
        share: of people below the quantile, between 0 and 1.
        confidence: of the interval.
        weights: of the same people, shape (n,).
    """
    from scipy.stats import binom

    n, tail = len(ordered), tail_probability(confidence)
    if weights is not None:
        total, below = (
            np.array([weights.sum(), (weights**2).sum()]),
            ordered <= sample_quantile(ordered, share, weights),
        )
        given = np.array([weights[below].sum(), (weights[below] ** 2).sum()])
        _, effective = effective_counts((total[0], total[1]), (given[0], given[1]), np.asarray(n))
        n = int(min(float(effective), float(kish_size(total[0], total[1]))) + 1e-9)
    # P(X_(l) > q) = P(Bin < l) <= tail, and P(X_(u) < q) = P(Bin >= u) <= tail.
    lower, upper = int(binom.ppf(tail, n, share)), int(binom.ppf(1 - tail, n, share)) + 1
    if lower < 1 or upper > n:
        return None
    if weights is not None:
        return sample_quantile(ordered, lower / n, weights), sample_quantile(ordered, upper / n, weights)
    return float(ordered[lower - 1]), float(ordered[upper - 1])


def largest_difference(value: ArrayLike, low: ArrayLike, high: ArrayLike) -> tuple[float, float]:
    """Return ends for ``max - min`` of two or more independent numbers from their intervals, squared and added.

    Args:
        value, low, high: each number and its interval, at the level that one of all pairs needs, shape (groups,).
    """
    values, below, above = (np.asarray(part, dtype=np.float64) for part in (value, low, high))
    nearest = furthest = 0.0
    for i in range(len(values) - 1):
        one, other = (below[i], above[i]), (below[i + 1 :], above[i + 1 :])
        least, most = square_and_add(values[i], one, values[i + 1 :], other)
        # Either of the two may be the larger one.
        nearest = max(nearest, float(least.max()), float((-most).max()))
        furthest = max(furthest, float(most.max()), float((-least).max()))
    return nearest, furthest


def kolmogorov_distance(first: Floats, second: Floats) -> float:
    """Return the largest difference of the shares of two samples, each of shape (n,), at or below any one number.

    The statistic of Kolmogorov and Smirnov (Smirnov, "Table for estimating the goodness of fit of empirical
    distributions", Annals of Mathematical Statistics 1948).
    """
    ends = np.concatenate([first, second])
    below = [np.searchsorted(np.sort(one), ends, side="right") / len(one) for one in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


class LargestDistance(NamedTuple):
    """The largest distance between the distributions of two groups, with its interval and which two these are."""

    value: float
    low: float
    high: float
    first: int
    second: int


class DistributionDistances(NamedTuple):
    """How far apart the distributions of several groups are.

    Attributes:
        wasserstein: the Wasserstein-1 distance, in the unit of the numbers.
        kolmogorov: the largest difference in the share of people above any one number.
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
    r"""Return the largest distances between the distributions of two of several groups.

    With distribution functions F and G, ``W = integral |F - G| dx`` (Wasserstein-1; as a measure of unfair numbers:
    Chzhen et al., "Fair regression with Wasserstein barycenters", NeurIPS 2020) and ``K = sup |F - G|`` (as the
    statistical parity of a regression: Agarwal, Dudik & Wu, "Fair regression", ICML 2019).

    An estimate is off by at most the same distance of ``(F^ - F)`` from ``(G^ - G)``, by the triangle inequality. Its
    distribution is that of ``(F* - F^)`` from ``(G* - G^)`` in the bootstrap (for W: del Barrio, Gine & Matran,
    "Central limit theorems for the Wasserstein distance", Annals of Probability 1999), and its largest value over all
    pairs has a quantile q that makes ``W^ - q`` to ``W^ + q`` hold for all pairs together. So the lower end is above 0
    for equal distributions no more often than the level says.

    Args:
        samples: the numbers of each of two or more groups.
        confidence: of both intervals, each by itself.
        rng: draws the bootstrap samples.
        draws: how many of each group.
        weights: of the people of each sample; distributions are weighted then, and what each person adds is multiplied
            by a standard normal number in place of being drawn again.
    """
    pooled = np.unique(np.concatenate(samples))
    points = pooled
    if len(pooled) > GRID:
        points = np.unique(np.quantile(pooled, np.linspace(0, 1, GRID), method="nearest"))
    each = [None] * len(samples) if weights is None else weights
    # The estimates use every number that occurs, the bootstrap at most GRID of them.
    exact = np.array([_distribution_function(one, pooled, held) for one, held in zip(samples, each, strict=True)])
    estimated = np.array([_distribution_function(one, points, held) for one, held in zip(samples, each, strict=True)])
    cells = np.clip(np.diff(estimated, axis=1, prepend=0.0), 0, None)
    cells /= cells.sum(axis=1, keepdims=True)
    deviations = [
        (rng.multinomial(len(sample), cell, size=draws).cumsum(axis=1) / len(sample) - whole).astype(np.float32)
        if held is None
        else _multiply_deviations(sample, held, points, whole, rng.normal(size=(draws, len(points))))
        for sample, cell, whole, held in zip(samples, cells, estimated, each, strict=True)
    ]
    widths, narrow = np.diff(pooled), np.diff(points).astype(np.float32)
    found_w, found_k = LargestDistance(-1.0, 0.0, 0.0, 0, 1), LargestDistance(-1.0, 0.0, 0.0, 0, 1)
    worst_w, worst_k = np.zeros(draws), np.zeros(draws)
    for i in range(len(samples)):
        for j in range(i + 1, len(samples)):
            apart = np.abs(exact[i] - exact[j])
            w, k = float(apart[:-1] @ widths), float(apart.max())
            found_w = found_w if found_w.value >= w else LargestDistance(w, 0.0, 0.0, i, j)
            found_k = found_k if found_k.value >= k else LargestDistance(k, 0.0, 0.0, i, j)
            drawn = np.abs(deviations[i] - deviations[j])
            worst_w = np.maximum(worst_w, drawn[:, :-1] @ narrow)
            worst_k = np.maximum(worst_k, drawn.max(axis=1))
    return DistributionDistances(
        _with_limits(found_w, worst_w, confidence, np.inf), _with_limits(found_k, worst_k, confidence, 1.0)
    )


def total_variation(
    counts: Integers, confidence: float, rng: np.random.Generator, *, draws: int = DRAWS
) -> LargestDistance:
    r"""Return the largest total variation distance between the label distributions of two of several groups.

    ``TV = sum_l |p_l - q_l| / 2``: the share of one group that must be given another label for both to have the same
    distribution. The estimate is too high for small groups, whose shares differ by chance. As in
    ``distribution_distances``, it is off by at most the total variation of ``(p^ - p)`` from ``(q^ - q)``, whose
    largest value over all pairs has a quantile in the bootstrap; the interval holds for all pairs together, and its
    lower end is above 0 for equal distributions no more often than the level says.

    Args:
        counts: people by group and label, shape (groups, labels); every group has people.
        confidence: of the interval.
        rng: draws the bootstrap samples.
        draws: how many of each group.
    """
    size = counts.sum(axis=1, keepdims=True)
    shares = counts / size
    deviations = [
        rng.multinomial(int(n), share, size=draws) / n - share for n, share in zip(size[:, 0], shares, strict=True)
    ]
    found, errors = LargestDistance(-1.0, 0.0, 0.0, 0, 1), np.zeros(draws)
    for i in range(len(counts)):
        for j in range(i + 1, len(counts)):
            apart = float(np.abs(shares[i] - shares[j]).sum() / 2)
            found = found if found.value >= apart else LargestDistance(apart, 0.0, 0.0, i, j)
            errors = np.maximum(errors, np.abs(deviations[i] - deviations[j]).sum(axis=1) / 2)
    return _with_limits(found, errors, confidence, 1.0)


def _with_limits(found: LargestDistance, errors: Floats, confidence: float, most: float) -> LargestDistance:
    off = float(np.quantile(errors, confidence, method="higher"))
    return found._replace(low=max(0.0, found.value - off), high=min(most, found.value + off))


def _distribution_function(sample: Floats, points: Floats, weights: Floats | None = None) -> Floats:
    """Return the share of a sample, by weight if it has any, at or below each point (increasing)."""
    order = np.argsort(sample)
    below = np.searchsorted(sample[order], points, side="right")
    if weights is None:
        return below / len(sample)
    return np.asarray(np.concatenate([[0.0], np.cumsum(weights[order])])[below] / weights.sum())


def _multiply_deviations(
    sample: Floats, weights: Floats, points: Floats, whole: Floats, normal: Floats
) -> NDArray[np.float32]:
    """Return by what a weighted distribution function may be off at each point, shape (draws, points).

    ``sum(e_i w_i (1(x_i <= t) - F(t))) / sum(w)`` with normal multipliers e_i, whose sums over the people between two
    points are normal with variance ``sum(w_i^2)``.
    """
    places = np.minimum(np.searchsorted(points, sample), len(points) - 1)
    parts = normal * np.sqrt(np.bincount(places, weights=weights**2, minlength=len(points)))
    off = parts.cumsum(axis=1) - whole * parts.sum(axis=1, keepdims=True)
    return np.asarray(off / weights.sum(), dtype=np.float32)
