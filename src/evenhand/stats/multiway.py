"""The variance of a mean whose observations share things that were sampled: a text, a name, a job.

An answer about a text with a name in it tells something of that text and of that name, so that observations that share
either depend on each other. Taking the texts as the only clusters makes intervals too narrow, and so does taking the
names alone. Cameron, Gelbach & Miller ("Robust inference with multiway clustering", Journal of Business & Economic
Statistics 2011) add up the products of the residuals of all pairs of observations that share anything. Counted by
inclusion and exclusion that is ``V_text + V_name - V_text_and_name``, where ``V_c`` is the usual variance by clusters
``c``: those that share a text and a name, each observation with itself among them, would be counted twice.
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
"""The variance that a mean of numbers within ±1 keeps where nothing differed is this, over (clusters + 2)^2."""


class MultiwayVariance(NamedTuple):
    """The variance of an estimate by what its observations share.

    Attributes:
        own: what each observation adds by itself; more observations of the same texts and names make it smaller.
        shared: what each family of clusters adds, at least 0; only more clusters make it smaller.
        freedom: degrees of freedom for Student's t.
        clusters: of each kind of the families, in order.
    """

    own: float
    shared: tuple[float, ...]
    freedom: float
    clusters: tuple[int, ...]

    @property
    def total(self) -> float:
        """The variance of the estimate."""
        return self.own + sum(self.shared)


def multiway_variance(contributions: Floats, families: Sequence[Sequence[Integers]]) -> MultiwayVariance:
    """Return the variance of a sum of contributions that depend on each other where they share a cluster.

    With C clusters c, ``V_c = C / (C - 1) * sum over clusters of (sum of contributions)^2``, and V_P likewise with each
    observation for itself. The first family adds the products of those pairs that share a cluster of any of its kinds:
    for texts alone ``V_text - V_P``. Every further family adds, for each of its kinds, those of pairs that share it and
    nothing of the first family: for the names of two groups that meet no text twice ``V_1 + V_0 - 2 V_P``. Pairs that
    share two such kinds count for both. Taking them off once, as for the first family, would make the variance too
    small where names are few: around the mean of ten names others' effects cancel, and there is nothing to be taken
    off. What a family adds is cut at 0, so that the variance is never less than V_P.

    Degrees of freedom by Satterthwaite: ``V^2 / sum over kinds of V_c^2 / (C - 1)``, and never fewer than the smallest
    C - 1. V_c holds V_P too, which is known better, so that they are rather few.

    Args:
        contributions: what each observation adds to the estimate's deviation, shape (n,).
        families: kinds of clusters by family, of each kind the cluster of every observation (>= 0), shape (n,).

    Raises:
        OptionError: a kind has a single cluster: nothing can be said about others like it.
    """
    first, further = list(families[0]), families[1:]
    own = _cluster_variance(contributions, np.arange(len(contributions)))[0]
    single = [_cluster_variance(contributions, codes) for family in families for codes in family]
    clusters = tuple(count for _, count in single)
    if min((*clusters, len(contributions))) < 2:
        raise OptionError("expected at least two clusters of every kind", hint="leave out what was not sampled")
    among = _sharing(contributions, first)
    # Of those that share a kind, all that share something of the first family, too, are left out.
    added = [sum(_sharing(contributions, [*first, codes]) - among for codes in family) for family in further]
    shared = tuple(max(part, 0.0) for part in (among - own, *added))
    total = own + sum(shared)
    spread = sum(variance**2 / (count - 1) for variance, count in single)
    least = min(clusters) - 1
    freedom = max(total**2 / spread, least) if spread > 0 else least
    return MultiwayVariance(own, shared, float(freedom), clusters)


class MultiwayMean(NamedTuple):
    """A mean with the variance that it has over observations, and over the clusters that they were sampled from.

    Attributes:
        mean: of the observations.
        n: how many there are.
        variance: of the mean.
        floor: added to it, so that an interval keeps a width where nothing differed.
    """

    mean: float
    n: int
    variance: MultiwayVariance
    floor: float

    @property
    def total(self) -> float:
        """The variance that intervals are built from."""
        return self.variance.total + self.floor

    def half_width(self, confidence: float) -> float:
        """Return half the width of the interval: Student's t times the standard error."""
        return float(student_quantile(confidence, self.variance.freedom)) * math.sqrt(self.total)

    @property
    def p(self) -> float:
        """The two-sided p-value of a mean of 0, by Student's t."""
        from scipy.special import stdtr

        return 2 * float(stdtr(self.variance.freedom, -abs(self.mean) / math.sqrt(self.total)))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends around the mean."""
        half = self.half_width(confidence)
        return self.mean - half, self.mean + half


def multiway_mean(values: Floats, families: Sequence[Sequence[Integers]], reach: float = 1.0) -> MultiwayMean:
    """Return the mean of observations that share clusters, by ``multiway_variance``.

    ``0.1 reach^2 / (C + 2)^2`` is added to the variance, with C clusters of the first kind: about what one cluster in
    which something differed would add.

    Args:
        values: shape (n,), finite.
        families: kinds of clusters by family, of each kind the cluster of every observation, shape (n,).
        reach: values lie between ``-reach`` and ``reach``.
    """
    mean = float(values.mean())
    variance = multiway_variance((values - mean) / len(values), families)
    return MultiwayMean(mean, len(values), variance, FLOOR * reach**2 / (variance.clusters[0] + 2) ** 2)


def _sharing(contributions: Floats, kinds: Sequence[Integers]) -> float:
    """Return the part of all pairs that share a cluster of any kind, by inclusion and exclusion."""
    subsets = [some for size in range(1, len(kinds) + 1) for some in combinations(kinds, size)]
    signs = [1.0 if len(some) % 2 else -1.0 for some in subsets]
    return sum(
        sign * _cluster_variance(contributions, reduce(_cross, some))[0]
        for sign, some in zip(signs, subsets, strict=True)
    )


def _cluster_variance(contributions: Floats, codes: Integers) -> tuple[float, int]:
    """Return the variance by clusters, and how many there are."""
    sums, sizes = np.bincount(codes, weights=contributions), np.bincount(codes)
    count = int(np.count_nonzero(sizes))
    return float(sums @ sums) * count / max(count - 1, 1), count


def _cross(first: Integers, second: Integers) -> Integers:
    """Return the cluster of each observation if two kinds are crossed, numbered from 0 without gaps."""
    return np.asarray(np.unique(first * (int(second.max()) + 1) + second, return_inverse=True)[1])
