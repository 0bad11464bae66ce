"""Several means over the same clusters of observations, and intervals for all of them that hold together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.stats.level import Floats, Interval, ends, normal_quantile, normal_share, student_quantile


@dataclass(frozen=True, eq=False)
class ClusteredMeans:
    """Means of bounded numbers that come in clusters, one per column.

    Attributes:
        mean: as observed, shape (columns,).
        centre, error: what intervals are built from: the mean and its standard error with a few more clusters, as many
            at either end of the range.
        clusters, n: how many there are, the added ones left out, and how many observations.
        z: ``centre / error`` as the normal quantile of its Student probability.
        residuals: per cluster, added ones last, and column what it adds to the centre's deviation, scaled to variance 1
            in all, shape (clusters + 2, columns).
    """

    mean: Floats
    centre: Floats
    error: Floats
    clusters: NDArray[np.int64]
    n: NDArray[np.int64]
    z: Floats
    residuals: Floats

    def interval(self, z: float) -> Interval:
        """``centre`` plus or minus so many standard errors, widened as Student's t is for few clusters."""
        confidence = 2 * float(normal_share(z)) - 1
        half = student_quantile(confidence, self.clusters + 1) * self.error
        return ends(self.centre - half, self.centre + half)

    def maxima(self, draws: int, rng: np.random.Generator) -> Floats:
        """The largest |z| of all columns around their own means, shape (draws,).

        Multiplier bootstrap: the residuals of every cluster are multiplied by one normal number (Chernozhukov,
        Chetverikov & Kato, "Gaussian approximations and multiplier bootstrap for maxima of sums of high-dimensional
        random vectors", Annals of Statistics 2013). What the added clusters contribute is independent between columns,
        so that columns without any spread of their own count as many and not as one.
        """
        deviations = rng.standard_normal((draws, len(self.residuals) - 2)) @ self.residuals[:-2]
        deviations += rng.standard_normal(deviations.shape) * np.linalg.norm(self.residuals[-2:], axis=0)
        return np.asarray(np.abs(deviations).max(axis=1, initial=0.0))


def clustered_means(values: Floats, clusters: NDArray[np.integer], reach: float, *, z: float) -> ClusteredMeans:
    """Means of columns whose observations are independent between clusters only.

    The standard error is the usual one from the clusters' sums (Liang & Zeger, "Longitudinal data analysis using
    generalized linear models", Biometrika 1986). So that means of equal numbers are no more certain than a
    sample of that size can make them, and means of many zeros and few ones not too certain, clusters of typical size
    are added at both ends of the range: one each at 95 %, as Bonett & Price do for the difference of paired proportions
    ("Adjusted Wald confidence interval for a difference of binomial proportions based on paired data", Journal of
    Educational and Behavioral Statistics 2012), and in proportion to ``z^2``, as Agresti & Coull for one proportion, at
    other levels.

    Args:
        values: from ``-reach`` to ``reach``, NaN where a column has none, shape (n, columns).
        clusters: the cluster of each row, from 0 on, shape (n,).
        reach: the ends of the range.
        z: how many standard errors the intervals will reach.
    """
    from scipy.special import ndtri, stdtr

    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    number = int(clusters.max(initial=-1)) + 1
    sums, sizes = np.zeros((number + 2, values.shape[1])), np.zeros((number + 2, values.shape[1]))
    np.add.at(sums, clusters, filled)
    np.add.at(sizes, clusters, known.astype(np.float64))
    added = (z / float(normal_quantile(0.95))) ** 2
    typical = (sizes**2).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1)
    sizes[number:] = added * typical
    sums[number:] = np.array([[reach], [-reach]]) * sizes[number:]
    n, observed = sizes.sum(axis=0), known.sum(axis=0)
    centre = sums.sum(axis=0) / n
    residuals = np.where(sizes > 0, sums - sizes * centre, 0.0)
    residuals[number:] /= np.sqrt(added)  # so many clusters, not one of that size
    spread = np.sqrt((residuals**2).sum(axis=0))
    used = (sizes > 0).sum(axis=0)
    error = spread / n * np.sqrt(used / (used - 1))
    t = np.divide(centre, error, out=np.zeros_like(centre), where=error > 0)
    return ClusteredMeans(
        mean=filled.sum(axis=0) / np.maximum(observed, 1),
        centre=centre,
        error=error,
        clusters=used - 2,
        n=observed,
        z=0.0 - np.sign(t) * ndtri(stdtr(used - 1, -np.abs(t))),
        residuals=np.divide(residuals, spread, out=np.zeros_like(residuals), where=spread > 0),
    )
