"""Ratios of sums over independently sampled lists, with simultaneous intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.stats.level import Interval, normal_quantile, student_quantile
from evenhand.stats.permutation import adjusted_p, critical_value

DRAWS = 4000
"""Number of draws for the distribution of the largest deviation."""

CHUNK = 4_000_000
"""Maximum number of random numbers in memory."""


class SummedLists(NamedTuple):
    """Contributions of lists, or batches of lists, to several ratios.

    Attributes:
        numerators, denominators: Contributions of each cluster, 0 if it has none, shape (clusters, ratios).
        lists: Number of lists that contribute to each ratio, shape (ratios,).
        low, high: Range of the ratio of a single list of typical size, shape (ratios,).
    """

    numerators: Floats
    denominators: Floats
    lists: Integers
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class ClusteredRatios:
    """Ratios of sums with their covariance.

    Attributes:
        value: Observed ratios, shape (ratios,).
        centre: Ratios including the added lists, which are the centres of intervals, shape (ratios,).
        root: Matrix R such that R times its transpose is the covariance of the centres, shape (ratios, ratios).
        freedom: Degrees of freedom of the variances.
    """

    value: Floats
    centre: Floats
    root: Floats
    freedom: int

    @property
    def error(self) -> Floats:
        """Standard error of each ratio, shape (ratios,)."""
        return np.asarray(np.sqrt((self.root**2).sum(axis=1)))

    def intervals(self, critical: float) -> Interval:
        """Compute ``centre ± critical * error``, extended to contain the observed value."""
        half = critical * self.error
        return np.minimum(self.centre - half, self.value), np.maximum(self.centre + half, self.value)

    def critical(self, confidence: float, rng: np.random.Generator) -> float:
        """Compute the critical value for all ratios simultaneously: the quantile of the largest |t|."""
        return self._max_quantile(self.root / np.maximum(self.error, 1e-300)[:, None], confidence, rng)

    def contrasts(self, i: Integers, j: Integers, *, log: bool) -> tuple[Floats, Floats, Floats]:
        """Compute differences of the centres of pairs of ratios, and their standard errors.

        Args:
            i, j: Positions of both ratios of each pair, shape (pairs,).
            log: Whether to compare the logarithms of the ratios (delta method), which requires positive centres.

        Returns:
            Differences, shape (pairs,); standard errors, shape (pairs,); rows of ``root`` for the standardised
            differences, shape (pairs, ratios).
        """
        value, root = self.centre, self.root
        if log:
            value, root = np.log(value), root / value[:, None]
        factor = root[i] - root[j]
        error = np.sqrt((factor**2).sum(axis=1))
        return value[i] - value[j], error, factor / np.maximum(error, 1e-300)[:, None]

    def differences(
        self, pairs: tuple[Integers, Integers], confidence: float, rng: np.random.Generator, *, log: bool
    ) -> Interval:
        """Compute simultaneous intervals for the absolute differences of pairs, shape (pairs,) per end.

        If all of them hold, the largest true difference is between the largest lower end and the largest upper end.

        Args:
            pairs: Positions of both ratios of each pair, each of shape (pairs,).
            confidence: Simultaneous confidence level.
            rng: Random generator.
            log: Whether to compare the logarithms of the ratios.
        """
        difference, error, factors = self.contrasts(*pairs, log=log)
        reach = self._max_quantile(factors, confidence, rng) * error
        size = np.abs(difference)
        return np.maximum(size - reach, 0.0), size + reach

    def _max_quantile(self, factors: Floats, confidence: float, rng: np.random.Generator) -> float:
        """Compute the quantile of the largest |t| of a multivariate Student distribution with the given root."""
        if len(factors) == 1:
            return float(student_quantile(confidence, self.freedom))
        size = max(1, CHUNK // max(factors.shape))
        maxima = [
            np.abs(rng.standard_normal((draws, factors.shape[1])) @ factors.T).max(axis=1)
            / np.sqrt(rng.chisquare(self.freedom, draws) / self.freedom)
            for start in range(0, DRAWS, size)
            for draws in [min(size, DRAWS - start)]
        ]
        return float(np.quantile(np.concatenate(maxima), confidence, method="higher"))


def clustered_ratios(sums: SummedLists, *, critical: float | None = None) -> ClusteredRatios:
    """Estimate ``sum of numerators / sum of denominators`` over independent lists by linearisation.

    The variance is that of the residuals ``numerator - ratio * denominator`` of the lists (Cochran, "Sampling
    Techniques", 1977, section 6.3; for clusters Liang & Zeger, Biometrika 1986), so candidates of the same list may be
    dependent. It would be too small for few lists and for rare events that did not occur. Therefore lists of typical
    size are added at both ends of the range, as Agresti & Coull do for a proportion ("Approximate is better than
    exact", American Statistician 1998): one at each end for 95 %, and otherwise a number proportional to the square of
    the critical value.

    Args:
        sums: Contributions of the lists. Each ratio has at least one list.
        critical: Number of standard errors that the intervals will reach. Default: that of 95 %.
    """
    numerators, denominators, lists, low, high = sums
    numerator, denominator = numerators.sum(axis=0), denominators.sum(axis=0)
    added = 1.0 if critical is None else (critical / float(normal_quantile(0.95))) ** 2
    typical = denominator / lists
    total = denominator + 2 * added * typical
    centre = (numerator + added * typical * (low + high)) / total
    residuals = (numerators - centre * denominators) / total
    clusters = len(residuals)
    # The QR decomposition reduces the root of the covariance to shape (ratios, ratios).
    triangle = np.linalg.qr(residuals, mode="r") * np.sqrt(clusters / max(clusters - 1, 1))
    added_errors = typical / total * np.sqrt(added * ((low - centre) ** 2 + (high - centre) ** 2))
    root = np.hstack([triangle.T, np.diag(added_errors)])
    freedom = max(1, min(int(lists.min()), clusters) - 1)
    return ClusteredRatios(numerator / denominator, centre, root, freedom)


# Permutation distribution of the statistics of a ranking if order and groups are independent.


NO_SPREAD = 1e-9
"""Standard deviation, relative to the largest value, below which all values are considered equal."""


@dataclass(frozen=True, eq=False)
class EvenOrders:
    """Permutation distribution of several statistics of a list. Each attribute has shape (numbers,).

    Attributes:
        mean: Mean over permutations.
        low, high: Range that contains all statistics simultaneously, with the given confidence.
        p: Adjusted p-value: share of permutations in which the largest standardised deviation of any statistic is at
            least that of this one.
    """

    mean: Floats
    low: Floats
    high: Floats
    p: Floats


def even_orders(observed: Floats, draws: Floats, confidence: float = 0.95) -> EvenOrders:
    """Compute the range and the adjusted p-values of several statistics under permutation of the groups.

    Both follow from the permutation distribution of the largest standardised deviation, "max-t" (Westfall & Young,
    "Resampling-Based Multiple Testing", 1993), which only assumes that the groups of the candidates of a list are
    exchangeable under the null hypothesis.

    Args:
        observed: Observed statistics, shape (numbers,).
        draws: The same statistics for each permutation of the groups, shape (draws, numbers).
        confidence: Simultaneous confidence level of the range.
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
