"""Ratios of sums over lists that were sampled independently, and intervals for all of them that hold together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.stats.level import Interval, normal_quantile, student_quantile
from evenhand.stats.permutation import adjusted_p, critical_value

DRAWS = 4000
"""Draws for the largest deviation of all numbers."""

CHUNK = 4_000_000
"""Random numbers held at once."""


class SummedLists(NamedTuple):
    """What every list, or batch of lists, adds to some ratios.

    Attributes:
        numerators, denominators: shape (clusters, ratios); 0 where a cluster has none.
        lists: how many lists each ratio rests on, shape (ratios,).
        low, high: the ends between which the ratio of one list of typical size may lie, shape (ratios,).
    """

    numerators: Floats
    denominators: Floats
    lists: Integers
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class ClusteredRatios:
    """Ratios of sums, and how surely each is known.

    Attributes:
        value: as observed, shape (ratios,).
        centre: with the lists added, which intervals are built around.
        root: its product with its transpose is the covariance of the centres, shape (ratios, ratios).
        freedom: degrees of freedom of the variances.
    """

    value: Floats
    centre: Floats
    root: Floats
    freedom: int

    @property
    def error(self) -> Floats:
        """The standard error of each ratio, shape (ratios,)."""
        return np.asarray(np.sqrt((self.root**2).sum(axis=1)))

    def intervals(self, critical: float) -> Interval:
        """Return ``centre`` plus or minus so many standard errors, stretched where need be to hold the value."""
        half = critical * self.error
        return np.minimum(self.centre - half, self.value), np.maximum(self.centre + half, self.value)

    def critical(self, confidence: float, rng: np.random.Generator) -> float:
        """Return how many standard errors hold for all ratios together: the quantile of the largest |t|."""
        return self._largest(self.root / np.maximum(self.error, 1e-300)[:, None], confidence, rng)

    def contrasts(self, first: Integers, second: Integers, *, log: bool) -> tuple[Floats, Floats, Floats]:
        """Return ``first - second`` of pairs of ratios, around the centres, with standard errors and their factors.

        Args:
            first, second: positions of the ratios, shape (pairs,).
            log: whether the logarithms of the ratios are compared (delta method); the centres are then positive.

        Returns:
            Differences of shape (pairs,), standard errors (pairs,), standardised factors (pairs, ratios).
        """
        value, root = self.centre, self.root
        if log:
            value, root = np.log(value), root / value[:, None]
        factor = root[first] - root[second]
        error = np.sqrt((factor**2).sum(axis=1))
        return value[first] - value[second], error, factor / np.maximum(error, 1e-300)[:, None]

    def differences(
        self, pairs: tuple[Integers, Integers], confidence: float, rng: np.random.Generator, *, log: bool
    ) -> Interval:
        """Return ends of the absolute differences of pairs, for all pairs together, each of shape (pairs,).

        Where all of them hold, the largest difference is at most the largest upper end and at least the largest lower
        end, whichever pair it truly is.

        Args:
            pairs: positions of the first and the second ratio of each.
            log: whether the logarithms of the ratios are compared.
        """
        difference, error, factors = self.contrasts(*pairs, log=log)
        reach = self._largest(factors, confidence, rng) * error
        size = np.abs(difference)
        return np.maximum(size - reach, 0.0), size + reach

    def _largest(self, factors: Floats, confidence: float, rng: np.random.Generator) -> float:
        """Return the quantile of the largest |t| of numbers with these standardised factors: multivariate Student."""
        if len(factors) == 1:
            return float(student_quantile(confidence, self.freedom))
        size = max(1, CHUNK // max(factors.shape))
        largest = [
            np.abs(rng.standard_normal((many, factors.shape[1])) @ factors.T).max(axis=1)
            / np.sqrt(rng.chisquare(self.freedom, many) / self.freedom)
            for at in range(0, DRAWS, size)
            for many in [min(size, DRAWS - at)]
        ]
        return float(np.quantile(np.concatenate(largest), confidence, method="higher"))


def clustered_ratios(sums: SummedLists, *, critical: float | None = None) -> ClusteredRatios:
    """Return ``sum of numerators / sum of denominators`` over independent lists, linearised.

    The variance is that of the lists' residuals, ``numerator - ratio * denominator`` (Cochran, "Sampling Techniques",
    1977, section 6.3; for clusters Liang & Zeger, Biometrika 1986), so that candidates of one list may depend on each
    other in any way. So that a ratio of few lists, or of rare events that the sample has not shown, is no more certain
    than such a sample can make it, two lists of typical size are added, one at each end of the range, as Agresti &
    Coull do for a proportion ("Approximate is better than exact", American Statistician 1998): one at each end at 95 %,
    and in proportion to the square of the standard errors that the interval reaches otherwise.

    Args:
        sums: what the lists add; every ratio rests on at least one list.
        critical: how many standard errors the intervals will reach; those of 95 % by default.
    """
    numerators, denominators, lists, low, high = sums
    total, under = numerators.sum(axis=0), denominators.sum(axis=0)
    one = float(normal_quantile(0.95))
    added = 1.0 if critical is None else (critical / one) ** 2
    typical = under / lists
    whole = under + 2 * added * typical
    centre = (total + added * typical * (low + high)) / whole
    residuals = (numerators - centre * denominators) / whole
    clusters = len(residuals)
    # The root of the covariance by QR: (ratios, ratios), whatever the number of clusters.
    triangle = np.linalg.qr(residuals, mode="r") * np.sqrt(clusters / max(clusters - 1, 1))
    own = typical / whole * np.sqrt(added * ((low - centre) ** 2 + (high - centre) ** 2))
    root = np.hstack([triangle.T, np.diag(own)])
    freedom = max(1, min(int(lists.min()), clusters) - 1)
    return ClusteredRatios(total / under, centre, root, freedom)


# What a number would be if the order of a list did not depend on the groups: by permutation.


NO_SPREAD = 1e-9
"""A standard deviation below this part of the largest value is rounding."""


@dataclass(frozen=True, eq=False)
class EvenOrders:
    """Several numbers of a list, and what they are in orders that do not depend on the groups.

    Attributes:
        mean: the mean over such orders, shape (numbers,).
        low, high: in so many of them as the confidence says, all the numbers lie within these ends.
        p: share of such orders in which any number lies as far from its mean, in standard deviations, as this one.
    """

    mean: Floats
    low: Floats
    high: Floats
    p: Floats


def even_orders(observed: Floats, draws: Floats, confidence: float = 0.95) -> EvenOrders:
    """Return what even orders give, for all numbers together.

    The permutation distribution of the largest standardised deviation, "max-t" (Westfall & Young, "Resampling-Based
    Multiple Testing", 1993). Assumes only that under the null hypothesis the groups of a list's candidates could have
    been dealt out in any other way.

    Args:
        observed: the numbers, shape (numbers,).
        draws: the same of permuted groups, shape (draws, numbers).
        confidence: at which the range holds for all numbers together.
    """
    mean, deviation = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    deviation = np.where(deviation > NO_SPREAD * np.abs(draws).max(axis=0, initial=1e-300), deviation, 0.0)

    def standardise(values: Floats) -> Floats:
        return np.asarray(np.divide(values - mean, deviation, out=np.zeros(values.shape), where=deviation > 0))

    maxima = np.abs(standardise(draws)).max(axis=1, initial=0.0)
    reach = critical_value(maxima, confidence) * deviation
    outside = (deviation == 0) & (np.abs(observed - mean) > NO_SPREAD * np.maximum(np.abs(mean), 1))
    z = np.where(outside, np.inf, standardise(observed))
    return EvenOrders(mean, mean - reach, mean + reach, adjusted_p(z, maxima))
