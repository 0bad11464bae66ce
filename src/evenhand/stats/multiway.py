"""Multiway cluster-robust variance of a mean.

If a model answers about texts that contain names, observations that share a text or a name are dependent. Clustering by
text only, or by name only, makes intervals too narrow. Cameron, Gelbach & Miller ("Robust inference with multiway
clustering", Journal of Business & Economic Statistics 2011) sum the products of residuals over all pairs of
observations that share a cluster of any kind. By inclusion and exclusion, this is ``V_text + V_name -
V_text_and_name``, where ``V_c`` is the usual variance by clusters ``c``; the last term removes pairs that share both,
which would otherwise count twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.stats.level import student_quantile

FLOOR = 0.1
"""Minimum variance of the mean of numbers within ±1, multiplied by (clusters + 2)^2."""


class MultiwayVariance(NamedTuple):
    """Components of the variance of an estimate.

    Attributes:
        own: Contribution of the individual observations, which more observations of the same clusters reduce.
        shared: Contribution of each family of clusters, at least 0. Only more clusters reduce it.
        freedom: Degrees of freedom for Student's t.
        clusters: Number of clusters of each kind, in the order of the families.
    """

    own: float
    shared: tuple[float, ...]
    freedom: float
    clusters: tuple[int, ...]

    @property
    def total(self) -> float:
        """Variance of the estimate."""
        return self.own + sum(self.shared)


def multiway_variance(contributions: Floats, families: Sequence[Sequence[Integers]]) -> MultiwayVariance:
    """Compute the variance of a sum of contributions that are dependent if they share a cluster.

    With C clusters of kind c, ``V_c = C / (C - 1) * sum over clusters of (sum of contributions)^2``. V_P is the same
    with each observation as its own cluster. The first family contributes the products of all pairs that share a
    cluster of any of its kinds: for texts only, ``V_text - V_P``. Each further family contributes, for each of its
    kinds, the products of pairs that share this kind but none of the first family: for the names of two groups that
    never share a text twice, ``V_1 + V_0 - 2 V_P``. Pairs that share two such kinds count for both. Subtracting them
    once, as in the first family, would underestimate the variance if there are few names: around the mean of ten names,
    the effects of the other names cancel. The contribution of each family is at least 0, so the variance is at least
    V_P.

    The degrees of freedom follow Satterthwaite: ``V^2 / sum over kinds of V_c^2 / (C - 1)``, but at least the smallest
    C - 1. They are conservative, because V_c includes the more precise V_P.

    Args:
        contributions: Contribution of each observation to the deviation of the estimate, shape (n,).
        families: Kinds of clusters by family. Each kind is an array of cluster codes (>= 0), shape (n,).

    Raises:
        OptionError: A kind has only one cluster, so its variance cannot be estimated.
    """
    main, further = list(families[0]), families[1:]
    own = _cluster_variance(contributions, np.arange(len(contributions)))[0]
    single = [_cluster_variance(contributions, codes) for family in families for codes in family]
    clusters = tuple(count for _, count in single)
    if min((*clusters, len(contributions))) < 2:
        raise OptionError("expected at least two clusters of every kind", hint="omit the kinds that were not sampled")
    within = _sum_shared_products(contributions, main)
    # ``within`` already includes the pairs that also share a cluster of the first family.
    added = [
        sum(_sum_shared_products(contributions, [*main, codes]) - within for codes in family) for family in further
    ]
    shared = tuple(max(part, 0.0) for part in (within - own, *added))
    total = own + sum(shared)
    spread = sum(variance**2 / (count - 1) for variance, count in single)
    min_freedom = min(clusters) - 1
    freedom = max(total**2 / spread, min_freedom) if spread > 0 else min_freedom
    return MultiwayVariance(own, shared, float(freedom), clusters)


class MultiwayMean(NamedTuple):
    """A mean of observations that share clusters.

    Attributes:
        mean: Mean of the observations.
        n: Number of observations.
        variance: Variance of the mean.
        floor: Term added to the variance, so that intervals have a positive width.
    """

    mean: float
    n: int
    variance: MultiwayVariance
    floor: float

    @property
    def total(self) -> float:
        """Variance used for intervals."""
        return self.variance.total + self.floor

    def half_width(self, confidence: float) -> float:
        """Compute half the width of the interval: Student's t times the standard error."""
        return float(student_quantile(confidence, self.variance.freedom)) * math.sqrt(self.total)

    @property
    def p(self) -> float:
        """Two-sided p-value of a mean of 0, by Student's t."""
        from scipy.special import stdtr

        return 2 * float(stdtr(self.variance.freedom, -abs(self.mean) / math.sqrt(self.total)))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Compute both ends of the interval."""
        half = self.half_width(confidence)
        return self.mean - half, self.mean + half


def multiway_mean(values: Floats, families: Sequence[Sequence[Integers]], reach: float = 1.0) -> MultiwayMean:
    """Estimate the mean of observations that share clusters, with the variance of ``multiway_variance``.

    ``0.1 reach^2 / (C + 2)^2`` is added to the variance, where C is the number of clusters of the first kind. This is
    approximately the contribution of one cluster with a non-zero value.

    Args:
        values: Finite values between ``-reach`` and ``reach``, shape (n,).
        families: Kinds of clusters by family. Each kind is an array of cluster codes, shape (n,).
        reach: Largest absolute value.
    """
    mean = float(values.mean())
    variance = multiway_variance((values - mean) / len(values), families)
    return MultiwayMean(mean, len(values), variance, FLOOR * reach**2 / (variance.clusters[0] + 2) ** 2)


def _sum_shared_products(contributions: Floats, kinds: Sequence[Integers]) -> float:
    """Compute the contribution of all pairs that share a cluster of any kind, by inclusion and exclusion."""
    return sum(
        (1.0 if size % 2 else -1.0) * _cluster_variance(contributions, reduce(_cross_clusters, subset))[0]
        for size in range(1, len(kinds) + 1)
        for subset in combinations(kinds, size)
    )


def _cluster_variance(contributions: Floats, codes: Integers) -> tuple[float, int]:
    """Compute the variance by clusters, and the number of clusters."""
    sums, sizes = np.bincount(codes, weights=contributions), np.bincount(codes)
    count = int(np.count_nonzero(sizes))
    return float(sums @ sums) * count / max(count - 1, 1), count


def _cross_clusters(a: Integers, b: Integers) -> Integers:
    """Cross two kinds of clusters, and number the resulting clusters from 0 without gaps."""
    return np.asarray(np.unique(a * (int(b.max()) + 1) + b, return_inverse=True)[1])
