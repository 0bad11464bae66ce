"""Intervals for proportions, and for differences and ratios of independent proportions and means."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.stats.level import (
    Interval,
    as_counts,
    as_interval,
    bisect_edges,
    bonferroni,
    normal_quantile,
    tail_probability,
)
from evenhand.stats.mean import adjusted_mean_interval
from evenhand.stats.quantity import Estimated, Observed, Unknown

HALVINGS = 45
"""Number of bisection steps of ``stratified_difference``. The ends of intervals are exact within 1e-13."""


def clopper_pearson(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute the exact interval, which covers every true proportion with at least ``confidence`` for every n.

    Its ends are the proportions at which at least k, and at most k, successes have probability ``(1 - confidence) /
    2``. They are beta quantiles (Clopper & Pearson, "The use of confidence or fiducial limits illustrated in the case
    of the binomial", Biometrika 1934). The interval assumes independent trials of equal probability.

    Args:
        k, n: Successes and trials, which broadcast. Effective counts of a weighted sample may be fractional. If n is 0,
            the interval is (0, 1).
        confidence: Confidence level of each interval.

    Raises:
        OptionError: Counts violate 0 <= k <= n, or the confidence is outside (0, 1).
    """
    from scipy.special import betainccinv, betaincinv

    k, n = as_counts(k, n)
    side = tail_probability(confidence)
    low = np.where(k > 0, betaincinv(np.where(k > 0, k, 1), n - k + 1, side), 0.0)
    high = np.where(k < n, betainccinv(k + 1, np.where(k < n, n - k, 1), side), 1.0)
    return as_interval(low, high)


def zero_count_upper(n: ArrayLike, confidence: float = 0.95) -> Floats:
    """Compute the one-sided upper bound on a proportion after n independent trials without success.

    ``1 - (1 - confidence)^(1/n)``, which is close to 3/n at 95 %: the rule of three (Hanley & Lippman-Hand, "If nothing
    goes wrong, is everything all right?", JAMA 1983). The bound is exact. It is below the two-sided Clopper-Pearson end
    at k = 0, which has only half the error probability. If n is 0, the bound is 1.
    """
    _, n = as_counts(0, n)
    with np.errstate(divide="ignore"):
        bound: Floats = -np.expm1(np.log(2 * tail_probability(confidence)) / n)
    return bound[()]


# Rates as quantities.

EXACT = "Clopper-Pearson (exact)"
DIFFERENCE_METHOD = "Clopper-Pearson limits, squared and added"
RATIO_METHOD = "Donner-Zou ratio of Clopper-Pearson limits"


def observed_rate(
    k: int, n: int, confidence: float = 0.95, *, if_empty: str = "there are no people to count"
) -> Observed | Unknown:
    """Compute the share of k among n people, and its exact interval.

    Args:
        k, n: Successes and trials.
        confidence: Confidence level.
        if_empty: Reason why the rate is unknown if n is 0.
    """
    return observed_rates([k], [n], confidence, if_empty=if_empty)[0]


def observed_rates(
    k: ArrayLike, n: ArrayLike, confidence: float = 0.95, *, if_empty: str = "there are no people to count"
) -> list[Observed | Unknown]:
    """Compute ``observed_rate`` for several groups. Both arguments have shape (groups,)."""
    columns = (np.asarray(array).tolist() for array in (k, n, *clopper_pearson(k, n, confidence)))
    return [
        Unknown(reason=if_empty)
        if trials == 0
        else Observed(value=successes / trials, n=int(trials), low=low, high=high, confidence=confidence, method=EXACT)
        for successes, trials, low, high in zip(*columns, strict=True)
    ]


def estimated_rate(
    k: int, n: int, population: str, confidence: float = 0.95, *, if_empty: str = "no one was sampled"
) -> Estimated | Unknown:
    """Estimate the share of a population from k of n independent draws, and its exact interval.

    Args:
        k, n: Successes and trials.
        population: Name of the population.
        confidence: Confidence level.
        if_empty: Reason why the rate is unknown if n is 0.
    """
    low, high = clopper_pearson(k, n, confidence)
    if n == 0:
        return Unknown(reason=if_empty)
    return Estimated(
        value=k / n,
        low=float(low),
        high=float(high),
        confidence=confidence,
        n=n,
        population=population,
        method=EXACT,
    )


def effective_counts(
    trials: tuple[Floats, Floats], successes: tuple[Floats, Floats], people: Integers
) -> tuple[Floats, Floats]:
    """Convert a weighted rate to effective counts k of n.

    With weights w and outcomes y in {0, 1} of independent people, the rate is p = sum(w y) / sum(w), and its linearised
    variance is v = sum(w^2 (y - p)^2) / sum(w)^2. An unweighted sample of size p (1 - p) / v has the same variance. If
    all outcomes are equal, v is 0, and Kish's size sum(w)^2 / sum(w^2) is used. Equal weights give the plain counts.
    The effective size is at most the number of people (Korn & Graubard, Survey Methodology 1998).

    Args:
        trials: Sums of the weights and of their squares over all people.
        successes: The same sums over the people with outcome 1.
        people: Number of people.
    """
    (total, squares), (success_total, success_squares) = trials, successes
    p = np.clip(success_total / np.where(total > 0, total, 1), 0, 1)
    spread = success_squares * (1 - p) ** 2 + np.maximum(squares - success_squares, 0) * p**2
    kish = kish_size(total, squares)
    mixed = (p > 0) & (p < 1) & (spread > 0)
    n = np.where(mixed, p * (1 - p) * total**2 / np.where(mixed, spread, 1), kish)
    n = np.minimum(n, people)
    return p * n, n


def kish_size(total: Floats, squares: Floats) -> Floats:
    """Compute Kish's effective size ``sum(w)^2 / sum(w^2)`` from the sums of weights and of their squares."""
    return np.asarray(np.maximum(total, 0) ** 2 / np.where(squares > 0, squares, 1))


def effective_sums(sums: Floats, *, counted: bool) -> tuple[Floats, Floats, Floats]:
    """Compute the size, sum and sum of squares of an unweighted sample equivalent to a weighted one.

    Outcomes of 0 and 1 are converted to ``effective_counts``. For other values v, the equivalent sample has the mean
    m = sum(w v) / sum(w) and Kish's effective size n. Its variance divided by n equals the linearised variance
    sum(w^2 (v - m)^2) / sum(w)^2, times n / (n - 1).

    Args:
        sums: Sums of 1, w, w^2, w v, w^2 v and w^2 v^2, shape (6, ...).
        counted: Whether all values are 0 or 1.
    """
    people, total, squares, valued, squares_valued, squares_squared = sums[:6]
    if counted:
        k, n = effective_counts((total, squares), (valued, squares_valued), people)
        return n, k, k
    n, mean = kish_size(total, squares), valued / np.where(total > 0, total, 1)
    # sum(w^2 (v - m)^2), expanded.
    spread = np.maximum(squares_squared - 2 * mean * squares_valued + mean**2 * squares, 0)
    variance = spread / np.where(squares > 0, squares, 1) * n / np.maximum(n - 1, 1)
    return n, n * mean, np.maximum(n - 1, 0) * variance + n * mean**2


@dataclass(frozen=True)
class Limits:
    """Independent estimates with limits at one level, each of shape (groups,)."""

    value: Floats
    low: Floats
    high: Floats

    def take(self, groups: Any) -> Self:
        """Select groups by an index, a slice or a mask."""
        return type(self)(*(getattr(self, field.name)[groups] for field in fields(self)))

    def minus(self, other: Self) -> Interval:
        """Compute the interval for the difference of two independent estimates p1 and p2 from their limits (l, u).

        The ends are ``p1 - p2 - sqrt((p1 - l1)^2 + (u2 - p2)^2)`` and ``p1 - p2 + sqrt((u1 - p1)^2 + (p2 - l2)^2)``.
        The limits provide the variances near the ends of the interval (Newcombe 1998; for the general method, Zou &
        Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine
        2008).
        """
        p1, p2 = self.value, other.value
        low = p1 - p2 - np.hypot(p1 - self.low, other.high - p2)
        return low, p1 - p2 + np.hypot(self.high - p1, p2 - other.low)

    def divided_by(self, other: Self) -> Interval:
        """Compute the interval for the ratio of two non-negative estimates p1 and p2 from their limits (l, u).

        The interval contains a ratio t if the interval of ``p1 - t p2`` contains 0 (Fieller's method, see ``minus``).
        The solutions for t are ``(p1 p2 -+ sqrt((p1 p2)^2 - a b (2 p1 - a) (2 p2 - b))) / (b (2 p2 - b))`` with (a, b)
        = (l1, u2) for the lower and (u1, l2) for the upper end (Donner & Zou, "Closed-form confidence intervals for
        functions of the normal mean and standard deviation", Statistical Methods in Medical Research 2012). If l2 is 0,
        the upper end is infinite.
        """
        p1, low1, high1, p2, low2, high2 = np.broadcast_arrays(
            self.value, self.low, self.high, other.value, other.low, other.high
        )
        product = p1 * p2
        # a (2 p - a) for each limit. The lower end is rearranged so that it remains finite for p2 = 0.
        below1, above2 = low1 * (2 * p1 - low1), high2 * (2 * p2 - high2)
        above1, below2 = high1 * (2 * p1 - high1), low2 * (2 * p2 - low2)
        bottom = product + np.sqrt(np.maximum(product**2 - below1 * above2, 0.0))
        top = product + np.sqrt(np.maximum(product**2 - above1 * below2, 0.0))
        low = np.divide(below1, bottom, out=np.zeros(p1.shape), where=(low1 > 0) & (bottom > 0))
        return low, np.divide(top, below2, out=np.full(p1.shape, np.inf), where=low2 > 0)

    def largest_difference(self) -> tuple[float, float]:
        """Bound ``max - min`` over all groups, if the limits have the level required for all pairs."""
        lower = upper = 0.0
        for i in range(len(self.value) - 1):
            low, high = self.take(i).minus(self.take(slice(i + 1, None)))
            lower = max(lower, float(low.max()), float((-high).max()))
            upper = max(upper, float(high.max()), float((-low).max()))
        return lower, upper

    def smallest_ratio(self) -> tuple[float, float]:
        """Bound ``min / max`` over all groups, if the limits have the level required for all pairs."""
        low = high = 1.0
        for i in range(len(self.value) - 1):
            below, above = self.take(i).divided_by(self.take(slice(i + 1, None)))
            with np.errstate(divide="ignore"):
                # The ratio of the smaller to the larger rate is min(ratio, 1 / ratio).
                low = min(low, float(np.minimum(below, 1 / above).min()))
                high = min(high, float(np.minimum(above, 1 / below).min()))
        return low, high


@dataclass(frozen=True)
class ProportionLimits(Limits):
    """Proportions with Clopper-Pearson limits at one level, each of shape (groups,).

    Attributes:
        value: k / n, or 1/2 if n is 0.
        centre, reach: Centre and half-width of the interval after adding ``z^2 / 4`` successes and failures.
    """

    centre: Floats
    reach: Floats

    @classmethod
    def of(cls, k: ArrayLike, n: ArrayLike, confidence: float) -> Self:
        """Compute the proportions k / n with their limits."""
        (k, n), z = as_counts(k, n), normal_quantile(confidence)
        size = n + z**2 / 2
        centre = (k + z**2 / 4) / size
        low, high = clopper_pearson(k, n, confidence)
        value = np.divide(k, n, out=np.full_like(n, 0.5), where=n > 0)
        return cls(value, low, high, centre, z * np.sqrt(centre * (1 - centre) / size))

    def minus(self, other: Self) -> Interval:
        """Compute the interval for the difference (see ``difference_interval``)."""
        low, high = super().minus(other)
        difference, reach = self.centre - other.centre, np.hypot(self.reach, other.reach)
        low, high = np.minimum(low, difference - reach), np.maximum(high, difference + reach)
        return np.maximum(low, -1.0), np.minimum(high, 1.0)


def difference_interval(
    k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, confidence: float = 0.95
) -> Interval:
    """Compute an interval for the difference of two independent proportions, ``k1/n1 - k2/n2``.

    The interval combines the Clopper-Pearson limits of both proportions (see ``Limits.minus``) and is extended to the
    ends of Agresti and Caffo's interval ("Simple and effective confidence intervals for proportions and differences of
    proportions result from adding two successes and two failures", The American Statistician 2000). Neither of the two
    has sufficient coverage alone if one proportion is near 0 and the other near 1. By exact summation over the binomial
    distribution, the coverage of a 95 % interval is at least 93.9 % for group sizes from 5 to 200 and rates from 0.005
    to 0.99, and 96 % to 99 % on average.

    Args:
        k1, n1, k2, n2: Successes and trials, which broadcast. If an n is 0, the interval is (-1, 1).
        confidence: Confidence level of each interval.

    Raises:
        OptionError: Counts violate 0 <= k <= n, or the confidence is outside (0, 1).
    """
    low, high = ProportionLimits.of(k1, n1, confidence).minus(ProportionLimits.of(k2, n2, confidence))
    nonempty = (np.asarray(n1) > 0) & (np.asarray(n2) > 0)
    return as_interval(np.where(nonempty, low, -1.0), np.where(nonempty, high, 1.0))


def stratified_difference(
    k1: ArrayLike,
    n1: ArrayLike,
    k2: ArrayLike,
    n2: ArrayLike,
    confidence: float = 0.95,
    *,
    z: float | Floats | None = None,
) -> Interval:
    """Compute the score interval for the common difference of two proportions within strata.

    In a single stratum, the interval contains all d with ``|k1/n1 - k2/n2 - d| <= z sqrt(V(d))``, where V is the
    variance at the most likely proportions that differ by d, times N/(N - 1) (Miettinen & Nurminen, "Comparative
    analysis of two rates", Statistics in Medicine 1985). At d = 0 the statistic is the z of the permutation test,
    so with a critical z from permutations, the interval excludes 0 if and only if that test
    rejects. It assumes independent binomial counts.

    Several strata have the Mantel-Haenszel weights ``n1 n2 / (n1 + n2)``, as in the same source. The interval contains
    Mantel and Haenszel's estimate of the risk difference, the weighted mean of the differences (Greenland & Robins,
    "Estimation of a common effect parameter from sparse follow-up data", Biometrics 1985). At d = 0, the square of the
    statistic is the Mantel-Haenszel statistic without continuity correction (Mantel & Haenszel, "Statistical aspects
    of the analysis of data from retrospective studies of disease", JNCI 1959).

    Args:
        k1, n1, k2, n2: Successes and trials, which broadcast, with strata along the last axis. Strata in which an n is
            0 are ignored; if none remains, the interval is (-1, 1).
        confidence: Confidence level of each interval.
        z: Number of standard deviations, such as a ``critical_value``, used instead of ``confidence``; a scalar, or one
            value per interval.

    Raises:
        OptionError: Counts violate 0 <= k <= n, or the confidence is outside (0, 1).
    """
    reach = normal_quantile(confidence) if z is None else z
    (k1, n1), (k2, n2) = as_counts(k1, n1), as_counts(k2, n2)
    k1, n1, k2, n2 = np.broadcast_arrays(k1, n1, k2, n2)
    weight = n1 * n2 / np.maximum(n1 + n2, 1)
    gaps = k1 / np.maximum(n1, 1) - k2 / np.maximum(n2, 1)

    def inside(difference: Floats) -> Booleans:
        d = difference[..., None]
        p2 = _constrained_estimate(k1, n1, k2, n2, d)
        p1 = p2 + d
        # weight^2 (p1 q1 / n1 + p2 q2 / n2) N / (N - 1), without division by an n of 0.
        total = n1 + n2
        parts = (p1 * (1 - p1) * n2 + p2 * (1 - p2) * n1) * weight / np.maximum(total - 1, 1)
        deviation = np.sqrt(np.maximum(parts.sum(axis=-1), 0.0))
        return np.asarray(np.abs((weight * (gaps - d)).sum(axis=-1)) <= reach * deviation)

    total = weight.sum(axis=-1)
    centre = np.divide((weight * gaps).sum(axis=-1), total, out=np.zeros_like(total), where=total > 0)
    low, high = (bisect_edges(inside, centre, np.full_like(centre, end), HALVINGS) for end in (-1.0, 1.0))
    return as_interval(np.where(total > 0, low, -1.0), np.where(total > 0, high, 1.0))


def _constrained_estimate(k1: Floats, n1: Floats, k2: Floats, n2: Floats, d: Floats) -> Floats:
    """Compute the most likely p2 under p1 = p2 + d: the middle root of the cubic likelihood equation."""
    # x^3 + 3 square x^2 + 3 linear x + constant = 0 (Miettinen & Nurminen, Statistics in Medicine 1985). Substituting
    # x = y - square gives y^3 - 3 p^2 y + 2 q = 0, which is solved by the trigonometric method.
    total, successes = np.maximum(n1 + n2, 1), k1 + k2
    square = ((n1 + 2 * n2) * d - total - successes) / (3 * total)
    linear = ((n2 * d - total - 2 * k2) * d + successes) / (3 * total)
    constant = k2 * d * (1 - d) / total
    q = square**3 - 1.5 * square * linear + constant / 2
    p = np.where(q < 0, -1.0, 1.0) * np.sqrt(np.maximum(square**2 - linear, 0.0))
    cosine = np.divide(q, p**3, out=np.zeros(np.broadcast_shapes(q.shape, p.shape)), where=p != 0)
    root = 2 * p * np.cos((np.pi + np.arccos(np.clip(cosine, -1.0, 1.0))) / 3) - square
    return np.asarray(np.clip(root, np.maximum(0.0, -d), np.minimum(1.0, 1 - d)))


def ratio_interval(k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute an interval for the ratio of two independent proportions, ``(k1/n1) / (k2/n2)``.

    Donner and Zou's closed form (see ``Limits.divided_by``) applied to the Clopper-Pearson limits of both proportions.
    By exact summation over the binomial distribution, the coverage of a 95 % interval is at least 94.4 % for group
    sizes from 5 to 200 and rates from 0.005 to 0.99, and at least 95.3 % if the smaller rate is divided by the larger.

    Args:
        k1, n1, k2, n2: Successes and trials, which broadcast. If k2 is 0, the upper end is infinite. If both counts or
            an n are 0, the interval is (0, inf).
        confidence: Confidence level of each interval.

    Raises:
        OptionError: Counts violate 0 <= k <= n, or the confidence is outside (0, 1).
    """
    low, high = ProportionLimits.of(k1, n1, confidence).divided_by(ProportionLimits.of(k2, n2, confidence))
    nonempty = (np.asarray(n1) > 0) & (np.asarray(n2) > 0)
    return as_interval(np.where(nonempty, low, 0.0), np.where(nonempty, high, np.inf))


def stretch_interval(quantity: Observed, confidence: float) -> tuple[float, float]:
    """Convert the interval of a quantity to another level by scaling it with the ratio of the normal quantiles."""
    factor = normal_quantile(confidence) / normal_quantile(quantity.confidence)
    value = quantity.value
    return value - factor * (value - quantity.low), value + factor * (quantity.high - value)


def difference_of_intervals(a: Observed, b: Observed, confidence: float) -> tuple[float, float]:
    """Compute the interval for ``a - b`` of two independent quantities from their intervals at any levels.

    Both intervals are converted by ``stretch_interval`` and combined as in ``Limits.minus``.
    """
    (low1, high1), (low2, high2) = stretch_interval(a, confidence), stretch_interval(b, confidence)
    difference = a.value - b.value
    return (
        difference - math.hypot(a.value - low1, high2 - b.value),
        difference + math.hypot(high1 - a.value, b.value - low2),
    )


# Intervals for the largest gap among several groups.
#
# The observed gap between the best and the worst of many groups overestimates the true gap, and other groups may truly
# be the best and the worst. Therefore every pair gets an interval at the Bonferroni level. If all of them hold, the
# largest true gap is between the largest lower end and the largest upper end, and likewise for the smallest ratio. The
# probability of this is at least the given confidence. For two groups, this is the plain interval.


def count_pairs(groups: int) -> int:
    """Compute the number of pairs of groups.

    Raises:
        OptionError: There are fewer than two groups.
    """
    if groups < 2:
        raise OptionError(f"a gap requires at least two groups, got {groups}")
    return groups * (groups - 1) // 2


def largest_difference_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the interval for ``max(p) - min(p)`` over two or more independent groups.

    It is based on ``difference_interval`` for every pair at the Bonferroni level.

    Args:
        k, n: Successes and trials of each group, shape (groups,).
        confidence: Confidence level.
    """
    return _limits_of_pairs(k, n, confidence).largest_difference()


def smallest_ratio_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the interval for ``min(p) / max(p)`` over two or more independent groups.

    It is based on ``ratio_interval`` for every pair at the Bonferroni level.

    Args:
        k, n: Successes and trials of each group, shape (groups,).
        confidence: Confidence level.
    """
    return _limits_of_pairs(k, n, confidence).smallest_ratio()


def _limits_of_pairs(k: ArrayLike, n: ArrayLike, confidence: float) -> ProportionLimits:
    """Compute the proportions, with limits at the Bonferroni level for all pairs."""
    return ProportionLimits.of(k, n, bonferroni(confidence, count_pairs(np.asarray(k).size)))


def mean_of_proportions(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[float, float, float]:
    """Compute the mean of independent proportions, such as the recalls of all labels, and its interval.

    Each proportion p has Clopper-Pearson limits (l, u). The interval for the mean of L proportions is ``sum(p) / L -+
    sqrt(sum d^2) / L``, where d are the distances ``p - l`` for the lower and ``u - p`` for the upper end (Zou &
    Donner, Statistics in Medicine 2008).

    Args:
        k, n: Successes and trials of each proportion, shape (L,). Every n is at least 1.
        confidence: Confidence level.

    Returns:
        The mean and both ends of its interval.
    """
    limits = ProportionLimits.of(k, n, confidence)
    p = limits.value
    value = float(p.mean())
    below, above = (float(np.sqrt(np.sum((p - end) ** 2)) / len(p)) for end in (limits.low, limits.high))
    return value, max(0.0, value - below), min(1.0, value + above)


def mean_limits(
    moments: tuple[ArrayLike, ArrayLike, ArrayLike], confidence: float, *, lower: float, upper: float
) -> Limits:
    """Compute means, with the limits of ``adjusted_mean_interval``.

    Args:
        moments: Sample mean, variance (divisor n - 1) and size of each group, shape (groups,).
        confidence: Confidence level.
        lower, upper: Range of a single value.
    """
    low, high = adjusted_mean_interval(*moments, confidence, lower=lower, upper=upper)
    # If all values of a group are equal to an end of the range, rounding can move the mean outside the interval.
    return Limits(np.clip(np.asarray(moments[0], dtype=np.float64), low, high), low, high)


def count_needed(share: float, total: float) -> int:
    """Compute the smallest count that is at least a given share of a total.

    The share is compared with the float ``count / total``. A share of ``k / n`` of ``n`` thus requires ``k``, and 0.07
    of 100 requires 7, although ``0.07 * 100`` exceeds 7.

    Args:
        share: Minimum share, between 0 and 1.
        total: Number of people, or their effective number.

    >>> count_needed(55 / 77, 77), count_needed(0.07, 100), count_needed(0.5, 3)
    (55, 7, 2)
    """
    if total <= 0:
        return 0
    count = math.ceil(share * total)
    if count > 0 and (count - 1) / total >= share:
        return count - 1
    return count if count / total >= share else count + 1
