"""Confidence levels, quantiles of reference distributions, and root finding for interval ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats
from evenhand.errors import OptionError

Interval: TypeAlias = tuple[Floats, Floats]
"""Lower and upper ends, in the broadcast shape of the arguments. NumPy scalars if all arguments are scalars."""


def tail_probability(confidence: float) -> float:
    """Compute the probability in each tail of a two-sided interval: ``(1 - confidence) / 2``.

    Raises:
        OptionError: The confidence is not strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise OptionError(f"confidence must lie between 0 and 1, got {confidence:g}", hint="use a level such as 0.95")
    return (1 - confidence) / 2


def normal_quantile(confidence: float, tests: float = 1) -> float:
    """Compute z with P(\\|Z\\| <= z) = confidence for a standard normal Z; for several tests, by Bonferroni's bound."""
    from scipy.special import ndtri

    return -float(ndtri(tail_probability(confidence) / tests))


def normal_cdf(z: ArrayLike) -> Floats:
    """Compute P(Z <= z) for a standard normal Z."""
    from scipy.special import ndtr

    return np.asarray(ndtr(z), dtype=np.float64)


def poisson_cdf(k: ArrayLike, mean: ArrayLike) -> Floats:
    """Compute P(N <= k) for a Poisson variable N with the given mean (>= 0). Both arguments broadcast."""
    from scipy.special import pdtr

    return np.asarray(pdtr(k, mean), dtype=np.float64)


def poisson_mean(k: ArrayLike, probability: ArrayLike) -> Floats:
    """Compute the mean of the Poisson variable N with P(N <= k) = probability. Both arguments broadcast."""
    from scipy.special import pdtri

    return np.asarray(pdtri(k, probability), dtype=np.float64)


def student_quantile(confidence: float, freedom: ArrayLike) -> Floats:
    """Compute t with P(\\|T\\| <= t) = confidence for Student's T.

    Args:
        confidence: Confidence level.
        freedom: Degrees of freedom (> 0), not necessarily whole numbers.
    """
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(freedom, tail_probability(confidence)), dtype=np.float64)


def bonferroni(confidence: float, statements: int) -> float:
    """Compute the confidence level of each of several statements that hold simultaneously with ``confidence``.

    The level is valid under any dependence, because error probabilities add up to at most ``1 - confidence``
    (Bonferroni 1936; Dunn, "Multiple comparisons among means", JASA 1961).
    """
    return 1 - 2 * tail_probability(confidence) / statements


def as_counts(k: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats]:
    """Convert successes and trials to float arrays of the same shape.

    Raises:
        OptionError: A number of successes is not between 0 and the number of trials.
    """
    successes, trials = np.broadcast_arrays(np.asarray(k, dtype=np.float64), np.asarray(n, dtype=np.float64))
    invalid = ~((successes >= 0) & (successes <= trials) & np.isfinite(trials))
    if invalid.any():
        raise OptionError(f"expected counts 0 <= k <= n, got {successes[invalid][0]:g} of {trials[invalid][0]:g}")
    return successes, trials


def as_interval(low: Floats, high: Floats) -> Interval:
    """Return both ends of an interval, with zero-dimensional arrays converted to NumPy scalars."""
    return low[()], high[()]


def bisect_edge(inside: Callable[[float], bool], start: float, end: float, halvings: int = 60) -> float:
    """Find the edge of the region that contains ``start``, in the direction of ``end``, by bisection.

    Args:
        inside: Whether a point belongs to the region.
        start: Point in the region. If it is not, it is returned.
        end: Last point of the search, returned if the region extends to it.
        halvings: Number of bisection steps. The result is outside the region.
    """
    if inside(end):
        return end
    if not inside(start):
        return start
    for _ in range(halvings):
        middle = (start + end) / 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return end


def bisect_edges(inside: Callable[[Floats], Booleans], start: Floats, end: Floats, halvings: int = 60) -> Floats:
    """Find many edges at once. Vectorised version of ``bisect_edge``; ``start`` must be in the region."""
    # ``end`` stays outside the region, unless the region extends to the original end. Returning it makes intervals too
    # wide rather than too narrow.
    for _ in range(halvings):
        middle = (start + end) / 2
        holds = inside(middle)
        start, end = np.where(holds, middle, start), np.where(holds, end, middle)
    return np.asarray(end)
