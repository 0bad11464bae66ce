"""Simultaneous confidence bands for curves of rates over a threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.stats.level import Interval, tail_probability
from evenhand.stats.proportion import kish_size

BATCH = 4_000_000
"""Maximum number of random numbers in memory."""


def kolmogorov_width(n: float, confidence: float = 0.95) -> float:
    """Compute the half-width of a simultaneous confidence band around an empirical distribution function.

    ``sqrt(log(2 / (1 - confidence)) / (2 n))``: the inequality of Dvoretzky, Kiefer & Wolfowitz (Annals of Mathematical
    Statistics 1956) with Massart's constant ("The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality", Annals
    of Probability 1990). It holds for every sample size and every distribution, including ties.

    Args:
        n: Number of independently drawn people, greater than 0.
        confidence: Confidence level.

    Raises:
        OptionError: ``n`` is not positive, or the confidence is outside (0, 1).
    """
    if n <= 0:
        raise OptionError(f"expected at least one person, got {n:g}")
    return math.sqrt(-math.log(tail_probability(confidence)) / (2 * n))


@dataclass(frozen=True, eq=False)
class RateCurves:
    """Rates of several sets of people as functions of a threshold, with the moments of their errors.

    Each person has a cell (the thresholds between which the score lies) and a weight w. At threshold t, the curve of a
    set is ``p(t) = sum(w a(t)) / sum(w)``, where a(t) is 0 or 1 and changes at most once as t grows: at the person's
    cell.

    Attributes:
        rates: p(t), shape (sets, thresholds).
        rising: Sums of w^2 over people with a(t) = 1 up to their cell and 0 above it, shape (sets, thresholds).
        falling: Sums of w^2 over people with a(t) = 0 up to their cell and 1 above it, shape (sets, thresholds).
        totals: Sums of w, shape (sets,).
        effective: Kish's effective sizes, ``sum(w)^2 / sum(w^2)``, shape (sets,).
    """

    rates: Floats
    rising: Floats
    falling: Floats
    totals: Floats
    effective: Floats

    @classmethod
    def count(cls, up: Floats, up_squares: Floats, down: Floats, down_squares: Floats) -> RateCurves:
        """Build curves from sums over cells.

        Args:
            up: Sum of weights in each cell of people who count at thresholds up to their cell, shape (sets, cells).
                Cell k contains the scores from threshold k up to, but excluding, threshold k + 1.
            down: Sum of weights in each cell of people who count at thresholds above their cell.
            up_squares, down_squares: Corresponding sums of squared weights.
        """
        totals = (up + down).sum(axis=1)
        squares = (up_squares + down_squares).sum(axis=1)
        counted = _sum_from_cell(up) + down.sum(axis=1)[:, None] - _sum_from_cell(down)
        rates = counted / np.where(totals > 0, totals, 1.0)[:, None]
        return cls(rates, up_squares, down_squares, totals, kish_size(totals, squares))

    def take(self, sets: Any) -> RateCurves:
        """Select sets by an index, a slice or a mask."""
        return RateCurves(*(getattr(self, field.name)[sets] for field in fields(self)))

    def draw(self, rng: np.random.Generator, draws: int) -> Floats:
        """Draw random errors of the curves, shape (draws, sets, thresholds).

        Gaussian multiplier bootstrap (van der Vaart & Wellner, "Weak Convergence and Empirical Processes", 1996,
        chapter 2.9): each person's influence ``w (a(t) - p(t)) / sum(w)`` is multiplied by an independent standard
        normal number. People with the same cell and the same direction have the same influence, so the sum of their
        numbers is drawn at once, with variance sum(w^2).
        """
        shape = (draws, *self.rates.shape)
        up = rng.standard_normal(shape) * np.sqrt(self.rising)
        down = rng.standard_normal(shape) * np.sqrt(self.falling)
        errors = _sum_from_cell(up) - _sum_from_cell(down) + down.sum(axis=-1, keepdims=True)
        errors -= self.rates * (up + down).sum(axis=-1, keepdims=True)
        # Bootstrap samples vary around the sample by a factor of 1 - 1/n less than samples around the truth.
        n = np.maximum(self.effective, 2.0)
        scale = np.sqrt(n / (n - 1)) / np.where(self.totals > 0, self.totals, 1.0)
        return np.asarray(errors * scale[:, None])


def rate_bands(curves: RateCurves, confidence: float, rng: np.random.Generator, *, draws: int = 1000) -> Interval:
    """Compute a simultaneous confidence band for each curve. Both ends have shape (sets, thresholds).

    ``p(t) +- c``, where c is the bootstrap quantile of the largest error over t: the Kolmogorov-Smirnov band, also for
    curves that are not distribution functions. Its constant width is not dominated by the few people at the extremes.
    """
    maxima = np.concatenate([np.abs(errors).max(axis=-1) for errors in _draw_in_batches(curves, rng, draws)])
    width = np.quantile(maxima, confidence, axis=0, method="higher")[:, None]
    return np.maximum(curves.rates - width, 0.0), np.minimum(curves.rates + width, 1.0)


def kolmogorov_bands(curves: RateCurves, confidence: float) -> Interval:
    """Compute the band of ``kolmogorov_width`` for each curve of unweighted people, shape (sets, thresholds)."""
    width = np.array([[kolmogorov_width(n, confidence)] for n in curves.effective.tolist()])
    return np.maximum(curves.rates - width, 0.0), np.minimum(curves.rates + width, 1.0)


def gap_band(curves: RateCurves, confidence: float, rng: np.random.Generator, *, draws: int = 1000) -> Interval:
    """Compute a simultaneous band for the largest difference between two sets. Both ends have shape (thresholds,).

    The band of each pair is ``k s`` wide on either side, with ``s = sqrt(1/n_i + 1/n_j)`` and k the bootstrap quantile
    of the largest error over pairs and thresholds in units of s. If all of these bands hold, the largest difference
    is between the largest lower end and the largest upper end, so selecting it requires no further correction.
    """
    i, j = np.triu_indices(len(curves.rates), k=1)
    n = np.maximum(curves.effective, 1.0)
    scale = np.sqrt(1 / n[i] + 1 / n[j])[:, None]
    maxima = np.concatenate(
        [
            (np.abs(errors[:, i] - errors[:, j]) / scale).max(axis=(1, 2))
            for errors in _draw_in_batches(curves, rng, draws, len(i))
        ]
    )
    reach = float(np.quantile(maxima, confidence, method="higher")) * scale
    differences = np.abs(curves.rates[i] - curves.rates[j])
    return np.maximum((differences - reach).max(axis=0), 0.0), np.minimum((differences + reach).max(axis=0), 1.0)


def _draw_in_batches(curves: RateCurves, rng: np.random.Generator, draws: int, pairs: int = 0) -> Iterator[Floats]:
    size = max(1, BATCH // (curves.rates.shape[1] * max(len(curves.rates), pairs)))
    return (curves.draw(rng, min(size, draws - start)) for start in range(0, draws, size))


def _sum_from_cell(cells: Floats) -> Floats:
    """Compute the reversed cumulative sum along the last axis."""
    return np.asarray(np.flip(np.cumsum(np.flip(cells, axis=-1), axis=-1), axis=-1))
