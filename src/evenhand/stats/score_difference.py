"""Score intervals for the difference of two proportions, and tail corrections for standardised gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats
from evenhand.stats.level import Interval, as_counts, as_interval, bisect_edges, normal_quantile

HALVINGS = 45
"""Number of bisection steps. The ends of intervals are exact within 1e-13."""


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


# Corrections for sums that are not yet normal, because the group is small or the outcome is rare.

FAR = 3.5
"""Number of standard deviations at which tails are matched: approximately that of the largest of a thousand gaps."""


def group_skewness(n: ArrayLike, people: ArrayLike, skewness: ArrayLike) -> Floats:
    """Compute the skewness of the sum of a group's values under permutation.

    ``g (N - 2n) sqrt(N - 1) / ((N - 2) sqrt(n (N - n)))``, where g is the skewness of the values (third central moment
    over the cubed standard deviation, both with divisor N). For 0/1 values, this is the skewness of the hypergeometric
    distribution. It is 0 if the group or its complement is empty.

    Args:
        n: Size of the group.
        people: Number of people in total.
        skewness: Skewness g of the values. All three arguments broadcast.
    """
    n, people, skewness = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in (n, people, skewness)))
    room = (people > 2) & (n > 0) & (n < people)
    bottom = (people - 2) * np.sqrt(np.maximum(n * (people - n), 0.0))
    top = skewness * (people - 2 * n) * np.sqrt(np.maximum(people - 1, 0.0))
    return np.asarray(np.divide(top, bottom, out=np.zeros(n.shape), where=room))


def tail_scales(skewness: ArrayLike) -> tuple[Floats, Floats]:
    """Compute factors that make both tails of a standardised sum approximately normal.

    The probability that a skewed sum exceeds its mean by ``FAR + s`` deviations is, to first order, that of a normal
    sum exceeding it by ``FAR``, with ``s = g (FAR^2 - 1) / 6`` (Cornish & Fisher, "Moments and cumulants in the
    specification of distributions", Revue de l'Institut International de Statistique 1938); below the mean it is ``FAR
    - s``. Without this correction, the largest of many standardised gaps would be that of a small group in which three
    people have a rare outcome and 0.3 were expected, and it would mask all other gaps.

    Args:
        skewness: Skewness of the sums, any shape.

    Returns:
        Factors above and below the mean, of the same shape; 1 without skewness. They are bounded for s near FAR.
    """
    shift = np.asarray(skewness, dtype=np.float64) * (FAR**2 - 1) / 6
    return np.asarray(FAR / np.maximum(FAR + shift, 1.0)), np.asarray(FAR / np.maximum(FAR - shift, 1.0))
