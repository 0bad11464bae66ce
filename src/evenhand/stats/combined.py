"""Estimate a share from proofs and several samples of the same population."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenhand.stats.level import as_counts, bisect_edge, tail_probability

TIE = 1e-9
"""Weighted counts that differ by less are treated as equal."""

WINDOW = 10.0
"""Number of standard deviations on either side within which counts are summed. The mass outside is below 1e-20."""

"""Name of this interval in reports."""


class Draws(NamedTuple):
    """Number of independent draws and number of hits."""

    hits: int = 0
    n: int = 0


class OpenPart(NamedTuple):
    """The part of a population that a proof left undecided.

    Attributes:
        mass: Share of the population in the open part.
        outside: Share of the population that consists of proved hits outside the part.
        low, high: Proved bounds on the share of hits in the whole population.
    """

    mass: float
    outside: float
    low: float
    high: float


NOTHING_PROVED = OpenPart(1.0, 0.0, 0.0, 1.0)


def combined_share(
    whole: Draws, inside: Draws, part: OpenPart = NOTHING_PROVED, *, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Estimate a share t from proofs, draws from the whole population, and draws from the open part.

    Outside the open part (mass m) every decision is proved, so the draws are two binomial samples with one unknown:
    ``k1 ~ Bin(n1, t)`` for the whole population and ``k2 ~ Bin(n2, q)`` for the part, with ``t = outside + m q``. Both
    ``k1/n1`` and ``outside + m k2/n2`` are unbiased. The estimate is their mean, weighted by the inverse variances at
    the midpoint of the proved bounds: the t at which the weighted count ``r k1 + k2``, with ``r = m q (1 - q) / (t (1 -
    t))`` at the midpoint, equals its expectation. The interval contains all t within the proved bounds at which both
    tails of this count have a probability of at least ``(1 - confidence) / 2``. The tails are summed exactly and r does
    not depend on the draws, so the coverage is at least ``confidence``. If only one sample has draws, the result is the
    interval of Clopper and Pearson (Biometrika 1934).

    Args:
        whole: Draws from the whole population.
        inside: Separate draws from the open part only.
        part: Open part and proved bounds.
        confidence: Confidence level.

    Returns:
        The estimate and both ends of the interval, with ``low <= estimate <= high`` and all within the proved bounds.
        Without draws, the interval is the proved bounds, and the estimate is the lower bound.

    Raises:
        OptionError: There are more hits than draws, or the confidence is outside (0, 1).
    """
    side = tail_probability(confidence)
    for draws in (whole, inside):
        as_counts(*draws)
    low, high = part.low, max(part.low, part.high)
    if part.mass <= 0 or low == high or not whole.n + inside.n:
        return low, low, high
    middle = (low + high) / 2
    q = _share_in_part(part, middle)
    r = part.mass * q * (1 - q) / (middle * (1 - middle)) if inside.n else 1.0
    slope = inside.n / part.mass
    # Solution of r k1 + k2 = r n1 t + n2 (t - outside) / m for t.
    value = (r * whole.hits + inside.hits + slope * part.outside) / (r * whole.n + slope)
    value = min(high, max(low, value))

    def tail(t: float, *, upper: bool) -> float:
        return _tail_mass(whole, inside, r, t, _share_in_part(part, t), upper=upper)

    return (
        value,
        bisect_edge(lambda t: tail(t, upper=True) < side, low, value),
        bisect_edge(lambda t: tail(t, upper=False) > side, value, high),
    )


def _share_in_part(part: OpenPart, t: float) -> float:
    """Compute the share of hits in the open part, given the share t in the whole population."""
    return min(1.0, max(0.0, (t - part.outside) / part.mass))


def _tail_mass(whole: Draws, inside: Draws, r: float, t: float, q: float, *, upper: bool) -> float:
    """Compute the probability that the weighted count ``r k1 + k2`` is at least (or at most) its observed value."""
    from scipy.special import bdtr, bdtrc, gammaln, xlog1py, xlogy

    (k1, n1), (k2, n2) = whole, inside
    reach = WINDOW * math.sqrt(n1 * t * (1 - t)) + WINDOW
    counts = np.arange(max(0, math.floor(n1 * t - reach)), min(n1, math.ceil(n1 * t + reach)) + 1, dtype=float)
    log_ways = gammaln(n1 + 1) - gammaln(counts + 1) - gammaln(n1 - counts + 1)
    mass = np.exp(log_ways + xlogy(counts, t) + xlog1py(n1 - counts, -t))
    required = k2 + r * (k1 - counts)  # number of successes in the undecided part
    if upper:
        minimum = np.ceil(required - TIE)
        beyond = np.where(minimum <= 0, 1.0, np.where(minimum > n2, 0.0, bdtrc(np.clip(minimum - 1, 0, n2), n2, q)))
    else:
        maximum = np.floor(required + TIE)
        beyond = np.where(maximum < 0, 0.0, np.where(maximum >= n2, 1.0, bdtr(np.clip(maximum, 0, n2), n2, q)))
    return float(mass @ beyond)
