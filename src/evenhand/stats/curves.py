"""Bands around curves of rates over a threshold: they hold for all thresholds at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.stats.level import Interval, tail_probability

BATCH = 4_000_000
"""Random numbers held at once."""


def kolmogorov_width(n: float, confidence: float = 0.95) -> float:
    """Return how far an empirical distribution function lies from the true one at most, everywhere at once.

    ``sqrt(log(2 / (1 - confidence)) / (2 n))``: the inequality of Dvoretzky, Kiefer & Wolfowitz (Annals of Mathematical
    Statistics 1956) with Massart's constant ("The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality", Annals
    of Probability 1990). It holds for every sample size and every distribution, ties included.

    Args:
        n: people, drawn independently; more than 0.

    Raises:
        OptionError: no people, or confidence outside (0, 1).
    """
    if n <= 0:
        raise OptionError(f"expected at least one person, got {n:g}")
    return math.sqrt(-math.log(tail_probability(confidence)) / (2 * n))


@dataclass(frozen=True, eq=False)
class RateCurves:
    """Rates of several sets of people over thresholds, and how surely each is known.

    A person has a cell (of thresholds that the score lies between) and a weight w. Over threshold t, the curve of a set
    is ``p(t) = sum(w a(t)) / sum(w)``, where a(t) is 1 or 0 and changes once at most as t grows: at the person's cell.

    Attributes:
        rates: p(t), shape (sets, thresholds).
        rising, falling: sums of w^2 of those for whom a(t) is 1 up to their cell and 0 behind it, and of those for whom
            it is the other way round, shape (sets, thresholds).
        totals: sum of w, shape (sets,).
        effective: Kish's effective sizes, ``sum(w)^2 / sum(w^2)``, shape (sets,).
    """

    rates: Floats
    rising: Floats
    falling: Floats
    totals: Floats
    effective: Floats

    @classmethod
    def count(cls, up: Floats, up_squares: Floats, down: Floats, down_squares: Floats) -> RateCurves:
        """Add cells up.

        Args:
            up: sum of weights in each cell of people who count at thresholds up to their cell, shape (sets, cells);
                cell k is that of scores from threshold k on, below threshold k + 1.
            down: of people who count at thresholds above their cell.
            up_squares, down_squares: sums of the squares of their weights.
        """
        totals = (up + down).sum(axis=1)
        every = np.where(totals > 0, totals, 1.0)[:, None]
        squares = (up_squares + down_squares).sum(axis=1)
        reached = _from_here(up) + down.sum(axis=1)[:, None] - _from_here(down)
        effective = totals**2 / np.where(squares > 0, squares, 1.0)
        return cls(reached / every, up_squares, down_squares, totals, effective)

    def draw(self, rng: np.random.Generator, draws: int) -> Floats:
        """Return random errors of the curves, shape (draws, sets, thresholds).

        The Gaussian multiplier bootstrap (van der Vaart & Wellner, "Weak Convergence and Empirical Processes", 1996,
        chapter 2.9): each person's influence ``w (a(t) - p(t)) / sum(w)`` times an independent standard normal number.
        People of one cell who count alike have one influence, so their numbers are drawn as one, of variance sum(w^2).
        """
        shape = (draws, *self.rates.shape)
        up = rng.standard_normal(shape) * np.sqrt(self.rising)
        down = rng.standard_normal(shape) * np.sqrt(self.falling)
        errors = _from_here(up) - _from_here(down) + down.sum(axis=-1, keepdims=True)
        errors -= self.rates * (up + down).sum(axis=-1, keepdims=True)
        # An estimated distribution varies less around itself than the sample around the truth, by 1 - 1/n.
        n = np.maximum(self.effective, 2.0)
        scale = np.sqrt(n / (n - 1)) / np.where(self.totals > 0, self.totals, 1.0)
        return np.asarray(errors * scale[:, None])


def rate_bands(curves: RateCurves, confidence: float, rng: np.random.Generator, *, draws: int = 1000) -> Interval:
    """Return a band around each curve that holds for all its thresholds at once, each of shape (sets, thresholds).

    ``p(t) +- c``, c the quantile of the largest error over t in bootstrap draws: the band of Kolmogorov and Smirnov,
    also for curves that are not distributions. Its width is the same at all thresholds, so that the few people at
    its ends do not decide it.
    """
    largest = np.concatenate([np.abs(errors).max(axis=-1) for errors in _draw_in_batches(curves, rng, draws)])
    width = np.quantile(largest, confidence, axis=0, method="higher")[:, None]
    return np.maximum(curves.rates - width, 0.0), np.minimum(curves.rates + width, 1.0)


def gap_band(curves: RateCurves, confidence: float, rng: np.random.Generator, *, draws: int = 1000) -> Interval:
    """Return a band around the largest difference between two sets, for all thresholds at once, of shape (thresholds,).

    Every pair's difference is kept within ``k s``, ``s = sqrt(1/n_i + 1/n_j)``, with k the quantile of the largest
    error over pairs and thresholds in units of s. Where all of them hold, the largest difference is at most the largest
    upper end and at least the largest lower end, whichever pair it is: so nothing is added for having looked for it.
    """
    first, second = np.triu_indices(len(curves.rates), k=1)
    n = np.maximum(curves.effective, 1.0)
    scale = np.sqrt(1 / n[first] + 1 / n[second])[:, None]
    largest = np.concatenate(
        [
            (np.abs(errors[:, first] - errors[:, second]) / scale).max(axis=(1, 2))
            for errors in _draw_in_batches(curves, rng, draws, len(first))
        ]
    )
    reach = float(np.quantile(largest, confidence, method="higher")) * scale
    differences = np.abs(curves.rates[first] - curves.rates[second])
    return np.maximum((differences - reach).max(axis=0), 0.0), np.minimum((differences + reach).max(axis=0), 1.0)


def _draw_in_batches(curves: RateCurves, rng: np.random.Generator, draws: int, pairs: int = 0) -> Iterator[Floats]:
    size = max(1, BATCH // (curves.rates.shape[1] * max(len(curves.rates), pairs)))
    return (curves.draw(rng, min(size, draws - at)) for at in range(0, draws, size))


def _from_here(cells: Floats) -> Floats:
    """Return the sum of each cell and those behind it, along the last axis."""
    return np.asarray(np.flip(np.cumsum(np.flip(cells, axis=-1), axis=-1), axis=-1))
