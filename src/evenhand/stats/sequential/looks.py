"""Intervals of an estimate that is looked at several times while its data come in.

An interval of 95 % that is looked at seven times misses at one of them far more often than in 5 % of cases.
``AlphaSpending`` gives the level at which the ordinary interval of an estimate is to be built at a look, so that all
looks together keep the level wanted; the estimate's information is one over its variance.
"""

from __future__ import annotations

import functools

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.stats.level import normal_cdf, normal_quantile, tail_probability

NODES = 200
"""Points of the Gauss-Legendre quadrature over the values at which no look has missed so far."""
FARTHEST = 8.0
"""Standard errors beyond which nothing is distinguished: the normal probability there is 1e-15."""
LEAST_NEWS = 0.01
"""The share of new information that a look is taken to bring at least; with less it would be wider than need be."""
HALVINGS = 60


class AlphaSpending:
    """The levels of intervals at successive looks that together miss with a given probability at most.

    Of the probability of missing, ``alpha f^2`` is spent when the share f of the information that there will be in the
    end is there (Kim & DeMets, "Design and analysis of group sequential tests based on the type I error spending rate
    function", Biometrika 1987, rho = 2), so the looks need not be fixed beforehand. Successive estimates are taken to
    be jointly normal with independent increments of information; how far the next interval must reach follows by
    numerical integration over all values at which none has missed so far (Armitage, McPherson & Rowe, "Repeated
    significance tests on accumulating data", JRSS A 1969).

    Args:
        confidence: of all looks together.
    """

    def __init__(self, confidence: float = 0.95) -> None:
        self.alpha = 2 * tail_probability(confidence)
        self.spent = 0.0
        """The probability of missing that the looks so far have used."""
        self._information = 0.0
        self._values: Floats | None = None
        self._mass: Floats | None = None

    def look(self, variance: float, share: float) -> float:
        """Return the confidence level of the interval at this look.

        Args:
            variance: of the estimate now, above 0.
            share: of the information at the last look planned, above 0; 1 or more spends all that is left.

        Raises:
            OptionError: the variance or the share is not above 0.
        """
        if not (variance > 0 and share > 0):
            raise OptionError(f"expected a variance and a share above 0, got {variance:g} and {share:g}")
        spend = max(self.alpha * min(share, 1.0) ** 2 - self.spent, 0.0)
        now = max(1 / variance, self._information * (1 + LEAST_NEWS))
        grid, weights = _quadrature()
        if self._values is None or self._mass is None:
            edge = min(normal_quantile(1 - spend), FARTHEST)
            values = edge * grid
            density = np.exp(-(values**2) / 2) / np.sqrt(2 * np.pi)
        else:
            # Z_k sqrt(I_k) = Z_(k-1) sqrt(I_(k-1)) + a normal increment of variance I_k - I_(k-1).
            step, before = np.sqrt(now - self._information), self._values * np.sqrt(self._information)
            edge = self._reach(before, np.sqrt(now), step, spend)
            values = edge * grid
            apart = (values[:, None] * np.sqrt(now) - before) / step
            density = np.exp(-(apart**2) / 2) @ self._mass * np.sqrt(now) / step / np.sqrt(2 * np.pi)
        self._information, self._values, self._mass = now, values, density * weights * edge
        self.spent += spend
        return float(2 * normal_cdf(edge) - 1)

    def _reach(self, before: Floats, scale: float, step: float, spend: float) -> float:
        """Return how far the interval must reach to miss first at this look with the probability to be spent."""
        assert self._mass is not None
        low, high = 0.0, FARTHEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            missed = 2 * float(self._mass @ normal_cdf((before - middle * scale) / step))
            low, high = (middle, high) if missed > spend else (low, middle)
        return high


@functools.cache
def _quadrature() -> tuple[Floats, Floats]:
    """Return the nodes between -1 and 1, and their weights."""
    grid, weights = np.polynomial.legendre.leggauss(NODES)
    return grid, weights


# Intervals for averages of bounded outcomes whose expectation may drift, valid at every moment at once.
#
# Where x_i is at least g_i - 1, for a guess g_i that is made before it, and its expectation given the past may drift,
#
#     exp(L sum(x_i - E[x_i | past]) - psi(L) sum((x_i - g_i)^2)),    psi(L) = -log(1 - L) - L,  0 <= L < 1,
#
# is a supermartingale that starts with 1, as log(1 + L y) >= L y - psi(L) y^2 for all y >= -1 (Howard, Ramdas,
# McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 2021,
# theorem 4). So is a mixture over several L, and by Ville's inequality it ever reaches 1/a with probability a at most.
# How far the sum of outcomes may be from the sum of their expectations then follows from that sum of squares alone.


RATES = 0.9 * 2.0 ** -np.arange(14)
"""The values of L in the mixture: near 1 for the first few outcomes, small for millions of them."""
_PSI = -np.log1p(-RATES) - RATES
_LOG_PART = -float(np.log(len(RATES)))
_HALVINGS = 60


def log_evidence(sums: Floats, squares: Floats) -> Floats:
    """Return the logarithm of the evidence that a sum of outcomes is above the sum of their expectations.

    Args:
        sums: outcomes less their supposed expectations, summed, any shape.
        squares: sums of ``(x_i - g_i)^2``, of the same shape; no outcome is below its guess by more than 1.

    Returns:
        If the supposition is right, the evidence is ever ``1/a`` or more with probability a at most.
    """
    logs = RATES * np.asarray(sums)[..., None] - _PSI * np.asarray(squares)[..., None] + _LOG_PART
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


def largest_deviation(squares: Floats, log_threshold: float) -> Floats:
    """Bound how far a sum of outcomes is above, or below, the sum of their expectations, at all moments together.

    Args:
        squares: as for ``log_evidence``.
        log_threshold: log(1/a) for a probability a of ever exceeding the bound.
    """
    squares = np.asarray(squares, dtype=np.float64)
    # At this place one part of the mixture reaches the threshold alone.
    high = ((log_threshold - _LOG_PART + _PSI * squares[..., None]) / RATES).min(axis=-1)
    low = np.zeros_like(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = log_evidence(middle, squares) >= log_threshold
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.asarray(high)
