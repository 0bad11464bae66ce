"""Intervals for estimates that are evaluated repeatedly while data are collected.

If a 95 % interval is evaluated seven times, the probability that one of them misses the truth is far above 5 %.
``AlphaSpending`` computes the level of the interval at each look, so that all looks together have the required level.
The information of an estimate is the reciprocal of its variance.
"""

from __future__ import annotations

import functools

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.stats.level import bisect_edge, bisect_edges, normal_cdf, normal_quantile, tail_probability

NODES = 200
"""Number of points of the Gauss-Legendre quadrature."""
MAX_EDGE = 8.0
"""Maximum number of standard errors. The normal probability beyond it is 1e-15."""
MIN_INCREMENT = 0.01
"""Minimum relative increment of information per look. With smaller increments, intervals would be too wide."""


class AlphaSpending:
    """Confidence levels of intervals at successive looks with a limited total error probability.

    The error probability ``alpha f^2`` is spent by the time that the share f of the final information is available (Kim
    & DeMets, "Design and analysis of group sequential tests based on the type I error spending rate function",
    Biometrika 1987, rho = 2), so the looks need not be fixed in advance. Successive estimates are assumed to be jointly
    normal with independent increments. The width of the next interval follows by numerical integration over all values
    at which no earlier interval missed the truth (Armitage, McPherson & Rowe, "Repeated significance tests on
    accumulating data", JRSS A 1969).

    Args:
        confidence: Confidence level of all looks together.
    """

    def __init__(self, confidence: float = 0.95) -> None:
        self.alpha = 2 * tail_probability(confidence)
        self.spent = 0.0
        """Error probability spent by all previous looks."""
        self._information = 0.0
        self._values: Floats | None = None
        self._mass: Floats | None = None

    def look(self, variance: float, share: float) -> float:
        """Compute the confidence level of the interval at this look.

        Args:
            variance: Current variance of the estimate, above 0.
            share: Current share of the final information, above 0. From 1 on, all remaining error probability is spent.

        Raises:
            OptionError: The variance or the share is not above 0.
        """
        if not (variance > 0 and share > 0):
            raise OptionError(f"expected a variance and a share above 0, got {variance:g} and {share:g}")
        spend = max(self.alpha * min(share, 1.0) ** 2 - self.spent, 0.0)
        information = max(1 / variance, self._information * (1 + MIN_INCREMENT))
        grid, weights = _quadrature()
        if self._values is None or self._mass is None:
            edge = min(normal_quantile(1 - spend), MAX_EDGE)
            values = edge * grid
            density = np.exp(-(values**2) / 2) / np.sqrt(2 * np.pi)
        else:
            # Z_k sqrt(I_k) = Z_(k-1) sqrt(I_(k-1)) + a normal increment of variance I_k - I_(k-1).
            step, sums = np.sqrt(information - self._information), self._values * np.sqrt(self._information)
            edge = self._find_edge(sums, np.sqrt(information), step, spend)
            values = edge * grid
            increments = (values[:, None] * np.sqrt(information) - sums) / step
            density = np.exp(-(increments**2) / 2) @ self._mass * np.sqrt(information) / step / np.sqrt(2 * np.pi)
        self._information, self._values, self._mass = information, values, density * weights * edge
        self.spent += spend
        return float(2 * normal_cdf(edge) - 1)

    def _find_edge(self, sums: Floats, scale: float, step: float, spend: float) -> float:
        """Find the number of standard errors whose first miss at this look has probability ``spend``."""
        mass = self._mass
        assert mass is not None

        def misses_more(edge: float) -> bool:
            return 2 * float(mass @ normal_cdf((sums - edge * scale) / step)) > spend

        return bisect_edge(misses_more, 0.0, MAX_EDGE)


@functools.cache
def _quadrature() -> tuple[Floats, Floats]:
    """Return the quadrature nodes between -1 and 1, and their weights."""
    grid, weights = np.polynomial.legendre.leggauss(NODES)
    return grid, weights


# Confidence sequences for averages of bounded outcomes whose expectation may drift.
#
# Let each outcome x_i be at least g_i - 1 for a prediction g_i that is made before it. For any conditional expectations
# of the outcomes,
#
#     exp(L sum(x_i - E[x_i | past]) - psi(L) sum((x_i - g_i)^2)),    psi(L) = -log(1 - L) - L,  0 <= L < 1,
#
# is a supermartingale that starts at 1, because log(1 + L y) >= L y - psi(L) y^2 for all y >= -1 (Howard, Ramdas,
# McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 2021,
# theorem 4). A mixture over several L is also a supermartingale, and by Ville's inequality it ever reaches 1/a with
# probability at most a. The sum of squares then bounds the difference between the sums of outcomes and expectations.


RATES = 0.9 * 2.0 ** -np.arange(14)
"""Values of L in the mixture: those near 1 suit few outcomes, small ones suit millions of outcomes."""
_PSI = -np.log1p(-RATES) - RATES
_LOG_WEIGHT = -float(np.log(len(RATES)))


def log_evidence(sums: Floats, squares: Floats) -> Floats:
    """Compute the logarithm of the evidence that a sum of outcomes exceeds the sum of their expectations.

    Args:
        sums: Sums of the outcomes minus their hypothetical expectations, any shape.
        squares: Sums of ``(x_i - g_i)^2``, of the same shape. No outcome is below its prediction by more than 1.

    Returns:
        Logarithm of the evidence. Under the hypothesis, the evidence ever reaches ``1/a`` with probability at most a.
    """
    logs = RATES * np.asarray(sums)[..., None] - _PSI * np.asarray(squares)[..., None] + _LOG_WEIGHT
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


def largest_deviation(squares: Floats, log_threshold: float) -> Floats:
    """Compute a time-uniform bound on the difference between a sum of outcomes and the sum of their expectations.

    The bound holds for one direction, above or below.

    Args:
        squares: As for ``log_evidence``.
        log_threshold: log(1/a), where a is the probability that the bound is ever exceeded.
    """
    squares = np.asarray(squares, dtype=np.float64)
    # At this point a single component of the mixture reaches the threshold.
    end = ((log_threshold - _LOG_WEIGHT + _PSI * squares[..., None]) / RATES).min(axis=-1)
    return bisect_edges(lambda sums: log_evidence(sums, squares) < log_threshold, np.zeros_like(end), end)
