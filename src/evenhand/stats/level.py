"""Confidence levels and the quantiles that belong to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Floats
from evenhand.errors import OptionError

Interval: TypeAlias = tuple[Floats, Floats]
"""Lower and upper ends, in the shape that the arguments broadcast to; NumPy scalars where all of them are numbers."""


def tail_probability(confidence: float) -> float:
    """Return the probability left to each side by a two-sided interval: ``(1 - confidence) / 2``.

    Raises:
        OptionError: the confidence does not lie strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise OptionError(f"confidence must lie between 0 and 1, not {confidence:g}", hint="say 0.95, for example")
    return (1 - confidence) / 2


def normal_quantile(confidence: float) -> float:
    """Return z with P(\\|Z\\| <= z) = confidence for a standard normal Z."""
    from scipy.special import ndtri

    return -float(ndtri(tail_probability(confidence)))


def normal_cdf(z: ArrayLike) -> Floats:
    """Return P(Z <= z) for a standard normal Z."""
    from scipy.special import ndtr

    return np.asarray(ndtr(z), dtype=np.float64)


def poisson_cdf(k: ArrayLike, mean: ArrayLike) -> Floats:
    """Return P(N <= k) for Poisson N of some mean (>= 0), arrays that broadcast."""
    from scipy.special import pdtr

    return np.asarray(pdtr(k, mean), dtype=np.float64)


def student_quantile(confidence: float, freedom: ArrayLike) -> Floats:
    """t with P(\\|T\\| <= t) = confidence for Student's T with so many degrees of freedom (> 0, may be fractional)."""
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(freedom, tail_probability(confidence)), dtype=np.float64)


def bonferroni(confidence: float, statements: int) -> float:
    """Return the level for each of several statements so that all hold together with ``confidence``.

    Whatever their dependence: the probabilities of missing add up to at most ``1 - confidence`` (Bonferroni 1936;
    Dunn, "Multiple comparisons among means", JASA 1961).
    """
    return 1 - 2 * tail_probability(confidence) / statements


def as_counts(k: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats]:
    """Return successes and trials as float arrays of one shape.

    Raises:
        OptionError: some k is not between 0 and its n.
    """
    successes, trials = np.broadcast_arrays(np.asarray(k, dtype=np.float64), np.asarray(n, dtype=np.float64))
    wrong = ~((successes >= 0) & (successes <= trials) & np.isfinite(trials))
    if wrong.any():
        raise OptionError(
            f"{successes[wrong].flat[0]:g} of {trials[wrong].flat[0]:g} is not a count: 0 <= k <= n is needed"
        )
    return successes, trials


def as_interval(low: Floats, high: Floats) -> Interval:
    """Return the interval's two ends, arrays without dimensions as plain NumPy scalars."""
    return low[()], high[()]


def bisect_edge(inside: Callable[[float], bool], start: float, end: float, halvings: int) -> float:
    """Return where ``inside`` ends between a start where it holds and an end; the end if it holds all the way."""
    if inside(end):
        return end
    for _ in range(halvings):
        middle = (start + end) / 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return end
