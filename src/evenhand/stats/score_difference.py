"""Score intervals for the difference of two proportions, in one table or over strata."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats
from evenhand.stats.level import Interval, as_counts, as_interval, normal_quantile

HALVINGS = 45
"""Of an interval of length at most 2: the ends are within 1e-13."""


def miettinen_nurminen(
    k1: ArrayLike,
    n1: ArrayLike,
    k2: ArrayLike,
    n2: ArrayLike,
    confidence: float = 0.95,
    *,
    z: float | Floats | None = None,
) -> Interval:
    """Return the score interval for ``k1/n1 - k2/n2``: all differences that a score test does not reject.

    All d with ``|k1/n1 - k2/n2 - d| <= z sqrt(V(d))``, V the variance at the likeliest proportions that differ by d,
    times N/(N - 1) (Miettinen & Nurminen, "Comparative analysis of two rates", Statistics in Medicine 1985). At d = 0
    it is the permutation test's z (``standardised_gap``), so at a critical z from permutations the interval excludes
    0 exactly where that test rejects. Assumes two independent binomial counts.

    Args:
        k1, n1, k2, n2: successes and trials, arrays that broadcast. Where an n is 0 nothing is claimed: (-1, 1).
        z: standard deviations to each side, such as a ``critical_value``, in place of ``confidence``; one for all, or
            one for each interval.

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    k1, n1, k2, n2 = np.broadcast_arrays(*as_counts(k1, n1), *as_counts(k2, n2))
    return stratified_difference(k1[..., None], n1[..., None], k2[..., None], n2[..., None], confidence, z=z)


def stratified_difference(
    k1: ArrayLike,
    n1: ArrayLike,
    k2: ArrayLike,
    n2: ArrayLike,
    confidence: float = 0.95,
    *,
    z: float | Floats | None = None,
) -> Interval:
    """Return the score interval for the difference that remains within strata (``common_difference``).

    As ``miettinen_nurminen``, whose section on stratified comparisons it follows, the strata weighted by
    ``n1 n2 / (n1 + n2)`` as Mantel and Haenszel do: at no difference it is ``stratified_gap``.

    Args:
        k1, n1, k2, n2: arrays that broadcast, strata along the last axis. A stratum with people on one side only says
            nothing about a difference; where all are so nothing is claimed: (-1, 1).
        z: standard deviations to each side in place of ``confidence``; one for all, or one for each interval.
    """
    reach = normal_quantile(confidence) if z is None else z
    (k1, n1), (k2, n2) = as_counts(k1, n1), as_counts(k2, n2)
    k1, n1, k2, n2 = np.broadcast_arrays(k1, n1, k2, n2)
    weight, gaps = _stratum_weights(n1, n2), _proportion_or_half(k1, n1) - _proportion_or_half(k2, n2)

    def inside(difference: Floats) -> Booleans:
        d = difference[..., None]
        p2 = _constrained_estimate(k1, n1, k2, n2, d)
        p1 = p2 + d
        # weight^2 (p1 q1 / n1 + p2 q2 / n2) N / (N - 1), without dividing by an empty side.
        total = n1 + n2
        parts = (p1 * (1 - p1) * n2 + p2 * (1 - p2) * n1) * weight / np.maximum(total - 1, 1)
        deviation = np.sqrt(np.maximum(parts.sum(axis=-1), 0.0))
        return np.asarray(np.abs((weight * (gaps - d)).sum(axis=-1)) <= reach * deviation)

    centre = common_difference(k1, n1, k2, n2)
    low, high = _bisect_edge(inside, centre, -1.0), _bisect_edge(inside, centre, 1.0)
    known = weight.sum(axis=-1) > 0
    return as_interval(np.where(known, low, -1.0), np.where(known, high, 1.0))


def common_difference(k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike) -> Floats:
    """Return the difference of two proportions within strata, averaged with weights ``n1 n2 / (n1 + n2)``.

    Mantel & Haenszel's estimate of a risk difference (Greenland & Robins, "Estimation of a common effect parameter from
    sparse follow-up data", Biometrics 1985). 0 where no stratum has people on both sides.

    Args:
        k1, n1, k2, n2: arrays that broadcast, strata along the last axis, which is summed over.
    """
    (k1, n1), (k2, n2) = as_counts(k1, n1), as_counts(k2, n2)
    weight = _stratum_weights(n1, n2)
    total = weight.sum(axis=-1)
    excess = (weight * (_proportion_or_half(k1, n1) - _proportion_or_half(k2, n2))).sum(axis=-1)
    return np.asarray(np.divide(excess, total, out=np.zeros_like(total), where=total > 0))


def _stratum_weights(n1: Floats, n2: Floats) -> Floats:
    return np.asarray(n1 * n2 / np.maximum(n1 + n2, 1))


def _proportion_or_half(k: Floats, n: Floats) -> Floats:
    return np.asarray(k / np.maximum(n, 1))


def _constrained_estimate(k1: Floats, n1: Floats, k2: Floats, n2: Floats, d: Floats) -> Floats:
    """Return the likeliest p2 if p1 = p2 + d: the middle root of the likelihood's cubic, in trigonometric form."""
    # x^3 + 3 square x^2 + 3 linear x + constant = 0 (Miettinen & Nurminen, Statistics in Medicine 1985). With x = y -
    # square it is y^3 - 3 p^2 y + 2 q = 0, whose three roots are cosines.
    total, both = np.maximum(n1 + n2, 1), k1 + k2
    square = ((n1 + 2 * n2) * d - total - both) / (3 * total)
    linear = ((n2 * d - total - 2 * k2) * d + both) / (3 * total)
    constant = k2 * d * (1 - d) / total
    q = square**3 - 1.5 * square * linear + constant / 2
    p = np.where(q < 0, -1.0, 1.0) * np.sqrt(np.maximum(square**2 - linear, 0.0))
    cosine = np.divide(q, p**3, out=np.zeros(np.broadcast_shapes(q.shape, p.shape)), where=p != 0)
    root = 2 * p * np.cos((np.pi + np.arccos(np.clip(cosine, -1.0, 1.0))) / 3) - square
    return np.asarray(np.clip(root, np.maximum(0.0, -d), np.minimum(1.0, 1 - d)))


def _bisect_edge(inside: Callable[[Floats], Booleans], start: Floats, limit: float) -> Floats:
    """Where ``inside`` ends between a start where it holds and a limit; the limit itself if it holds all the way."""
    reached, beyond = np.array(start), np.full(np.shape(start), limit)
    # Invariant: it holds at ``reached``, and not at ``beyond`` unless that is still the limit. The outer of the two is
    # returned, so that intervals are too wide and never too narrow.
    for _ in range(HALVINGS):
        middle = (reached + beyond) / 2
        holds = inside(middle)
        reached, beyond = np.where(holds, middle, reached), np.where(holds, beyond, middle)
    return beyond


# Tails of a sum that is not yet normal: few people, or an outcome that hardly anybody has.

FAR = 3.5
"""Standard deviations at which the tails are made alike: about where the largest of some thousand gaps lies."""


def group_skewness(n: ArrayLike, people: ArrayLike, skewness: ArrayLike) -> Floats:
    """Compute the skewness of the sum of a group's values when all are dealt out at random among the people.

    ``g (N - 2n) sqrt(N - 1) / ((N - 2) sqrt(n (N - n)))`` where g is the skewness of the values (third central moment
    over the cubed standard deviation, both with divisor N); for 0/1 values that of the hypergeometric distribution.
    0 where chance leaves no room.

    Args:
        n, people, skewness: size of the group, of everybody, and g; arrays that broadcast.
    """
    n, people, skewness = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in (n, people, skewness)))
    room = (people > 2) & (n > 0) & (n < people)
    bottom = (people - 2) * np.sqrt(np.maximum(n * (people - n), 0.0))
    top = skewness * (people - 2 * n) * np.sqrt(np.maximum(people - 1, 0.0))
    return np.asarray(np.divide(top, bottom, out=np.zeros(n.shape), where=room))


def tail_scales(skewness: ArrayLike) -> tuple[Floats, Floats]:
    """Return the factors of a standardised sum above and below its mean that make both tails normal.

    A skewed sum lies ``FAR + s`` deviations above its mean as rarely as a normal one lies ``FAR`` above, with
    ``s = g (FAR^2 - 1) / 6`` to first order (Cornish & Fisher, "Moments and cumulants in the specification of
    distributions", Revue de l'Institut International de Statistique 1938), and ``FAR - s`` below. So without this,
    the largest of many standardised gaps is that of some small group in which three people had the rare outcome where
    0.3 were expected, and hides the gaps of all others.

    Returns:
        (above, below), the shape of ``skewness``; 1 where there is none. The widening is cut off where s nears FAR.
    """
    shift = np.asarray(skewness, dtype=np.float64) * (FAR**2 - 1) / 6
    return np.asarray(FAR / np.maximum(FAR + shift, 1.0)), np.asarray(FAR / np.maximum(FAR - shift, 1.0))
