"""Score intervals for the difference of two proportions, in one table or over strata."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.stats.level import Floats, Interval, counts, ends, normal_quantile

Bools: TypeAlias = NDArray[np.bool_]
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
    """The score interval for ``k1/n1 - k2/n2``: all differences that a score test does not reject.

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
    k1, n1, k2, n2 = np.broadcast_arrays(*counts(k1, n1), *counts(k2, n2))
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
    """The score interval for the difference that remains within strata (``common_difference``).

    As ``miettinen_nurminen``, whose section on stratified comparisons it follows, the strata weighted by
    ``n1 n2 / (n1 + n2)`` as Mantel and Haenszel do: at no difference it is ``stratified_gap``.

    Args:
        k1, n1, k2, n2: arrays that broadcast, strata along the last axis. A stratum with people on one side only says
            nothing about a difference; where all are so nothing is claimed: (-1, 1).
        z: standard deviations to each side in place of ``confidence``; one for all, or one for each interval.
    """
    reach = normal_quantile(confidence) if z is None else z
    (k1, n1), (k2, n2) = counts(k1, n1), counts(k2, n2)
    k1, n1, k2, n2 = np.broadcast_arrays(k1, n1, k2, n2)
    weight, gaps = _weights(n1, n2), _share(k1, n1) - _share(k2, n2)

    def inside(difference: Floats) -> Bools:
        d = difference[..., None]
        p2 = _likeliest(k1, n1, k2, n2, d)
        p1 = p2 + d
        # weight^2 (p1 q1 / n1 + p2 q2 / n2) N / (N - 1), without dividing by an empty side.
        total = n1 + n2
        parts = (p1 * (1 - p1) * n2 + p2 * (1 - p2) * n1) * weight / np.maximum(total - 1, 1)
        deviation = np.sqrt(np.maximum(parts.sum(axis=-1), 0.0))
        return np.asarray(np.abs((weight * (gaps - d)).sum(axis=-1)) <= reach * deviation)

    centre = common_difference(k1, n1, k2, n2)
    low, high = _edge(inside, centre, -1.0), _edge(inside, centre, 1.0)
    known = weight.sum(axis=-1) > 0
    return ends(np.where(known, low, -1.0), np.where(known, high, 1.0))


def common_difference(k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike) -> Floats:
    """The difference of two proportions within strata, averaged with weights ``n1 n2 / (n1 + n2)``.

    Mantel & Haenszel's estimate of a risk difference (Greenland & Robins, "Estimation of a common effect parameter from
    sparse follow-up data", Biometrics 1985). 0 where no stratum has people on both sides.

    Args:
        k1, n1, k2, n2: arrays that broadcast, strata along the last axis, which is summed over.
    """
    (k1, n1), (k2, n2) = counts(k1, n1), counts(k2, n2)
    weight = _weights(n1, n2)
    total = weight.sum(axis=-1)
    excess = (weight * (_share(k1, n1) - _share(k2, n2))).sum(axis=-1)
    return np.asarray(np.divide(excess, total, out=np.zeros_like(total), where=total > 0))


def _weights(n1: Floats, n2: Floats) -> Floats:
    return np.asarray(n1 * n2 / np.maximum(n1 + n2, 1))


def _share(k: Floats, n: Floats) -> Floats:
    return np.asarray(k / np.maximum(n, 1))


def _likeliest(k1: Floats, n1: Floats, k2: Floats, n2: Floats, d: Floats) -> Floats:
    """The likeliest p2 if p1 = p2 + d: the middle root of the likelihood's cubic, in trigonometric form."""
    total, both = np.maximum(n1 + n2, 1), k1 + k2
    square = ((n1 + 2 * n2) * d - total - both) / (3 * total)
    linear = ((n2 * d - total - 2 * k2) * d + both) / (3 * total)
    constant = k2 * d * (1 - d) / total
    q = square**3 - 1.5 * square * linear + constant / 2
    p = np.where(q < 0, -1.0, 1.0) * np.sqrt(np.maximum(square**2 - linear, 0.0))
    cosine = np.divide(q, p**3, out=np.zeros(np.broadcast_shapes(q.shape, p.shape)), where=p != 0)
    root = 2 * p * np.cos((np.pi + np.arccos(np.clip(cosine, -1.0, 1.0))) / 3) - square
    return np.asarray(np.clip(root, np.maximum(0.0, -d), np.minimum(1.0, 1 - d)))


def _edge(inside: Callable[[Floats], Bools], start: Floats, limit: float) -> Floats:
    """Where ``inside`` ends between a start where it holds and a limit; the limit itself if it holds all the way."""
    reached, beyond = np.array(start), np.full(np.shape(start), limit)
    for _ in range(HALVINGS):
        middle = (reached + beyond) / 2
        holds = inside(middle)
        reached, beyond = np.where(holds, middle, reached), np.where(holds, beyond, middle)
    return beyond
