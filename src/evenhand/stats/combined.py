"""One share from several samples of one population, where a proof settles all of it but a known part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evenhand.errors import OptionError
from evenhand.stats.level import tail_probability

HALVINGS = 60
"""Of a part of [0, 1]: ends are as exact as floats are."""

TIE = 1e-9
"""Weighted counts that differ by less are the same."""

WINDOW = 10.0
"""Standard deviations to each side within which a count is added up: outside lies less than 1e-20."""

COMBINED = "proofs and all draws, exact test of a weighted count"
"""What the interval is called."""


class Draws(NamedTuple):
    """How many of n independent draws have what is counted."""

    hits: int = 0
    n: int = 0


class OpenPart(NamedTuple):
    """The part of a population that a proof left open.

    Attributes:
        mass: the part's share of the population.
        outside: share of the population that lies outside the part and is proved to have what is counted.
        low, high: proved bounds on the share of the whole population that has it.
    """

    mass: float
    outside: float
    low: float
    high: float


NOTHING_PROVED = OpenPart(1.0, 0.0, 0.0, 1.0)


def combined_share(
    whole: Draws, inside: Draws, part: OpenPart = NOTHING_PROVED, *, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Estimate a share t of a population from what is proved, draws from all of it and draws from the open part.

    Outside the open part (mass m) everything is known, so the draws are two binomials with one unknown: ``k1 ~
    Bin(n1, t)`` for the whole population, ``k2 ~ Bin(n2, q)`` for the part, with ``t = outside + m q``. Both give an
    unbiased estimate, ``k1/n1`` and ``outside + m k2/n2``. The estimate is their mean, weighted by the inverse
    variances in the middle of the proved bounds: the t at which the weighted count ``r k1 + k2``, ``r = m q (1 - q) /
    (t (1 - t))`` there, is as large as expected. The interval holds all t within the proved bounds at which neither
    tail of that count has a probability below ``(1 - confidence) / 2``. The tails are added up exactly and r does not
    depend on the draws, so it covers the truth with at least ``confidence``; where one sample alone has draws it is the
    interval of Clopper and Pearson (Biometrika 1934).

    Args:
        whole: draws from the whole population.
        inside: other draws, from the open part alone.
        part: what is proved.

    Returns:
        The estimate and the ends of the interval, all within the proved bounds: low <= estimate <= high. Without draws
        these are the bounds, and the lower one is the estimate.

    Raises:
        OptionError: more hits than draws, or confidence outside (0, 1).
    """
    side = tail_probability(confidence)
    for draws in (whole, inside):
        if not 0 <= draws.hits <= draws.n:
            raise OptionError(f"{draws.hits} of {draws.n} is not a count")
    low, high = part.low, max(part.low, part.high)
    if part.mass <= 0 or low == high or not whole.n + inside.n:
        return low, low, high
    middle = (low + high) / 2
    q = _inside_share(part, middle)
    r = part.mass * q * (1 - q) / (middle * (1 - middle)) if inside.n else 1.0
    steep = inside.n / part.mass
    # Solved for t: r k1 + k2 = r n1 t + n2 (t - outside) / m.
    value = (r * whole.hits + inside.hits + steep * part.outside) / (r * whole.n + steep)
    value = min(high, max(low, value))

    def tail(t: float, *, upper: bool) -> float:
        return _tail(whole, inside, r, t, _inside_share(part, t), upper=upper)

    return (
        value,
        _crossing(lambda t: tail(t, upper=True) - side, low, value),
        _crossing(lambda t: side - tail(t, upper=False), value, high),
    )


def _inside_share(part: OpenPart, t: float) -> float:
    """Return the share inside the open part where the share of the whole population is t."""
    return min(1.0, max(0.0, (t - part.outside) / part.mass))


def _tail(whole: Draws, inside: Draws, r: float, t: float, q: float, *, upper: bool) -> float:
    """Return the probability of a weighted count ``r k1 + k2`` at least (or at most) as large as the one observed."""
    from scipy.special import bdtr, bdtrc, gammaln, xlog1py, xlogy

    (k1, n1), (k2, n2) = whole, inside
    reach = WINDOW * math.sqrt(n1 * t * (1 - t)) + WINDOW
    counts = np.arange(max(0, math.floor(n1 * t - reach)), min(n1, math.ceil(n1 * t + reach)) + 1, dtype=float)
    ways = gammaln(n1 + 1) - gammaln(counts + 1) - gammaln(n1 - counts + 1)
    mass = np.exp(ways + xlogy(counts, t) + xlog1py(n1 - counts, -t))
    needed = k2 + r * (k1 - counts)  # of the other sample
    if upper:
        least = np.ceil(needed - TIE)
        beyond = np.where(least <= 0, 1.0, np.where(least > n2, 0.0, bdtrc(np.clip(least - 1, 0, n2), n2, q)))
    else:
        most = np.floor(needed + TIE)
        beyond = np.where(most < 0, 0.0, np.where(most >= n2, 1.0, bdtr(np.clip(most, 0, n2), n2, q)))
    return float(mass @ beyond)


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that grows reaches 0; ``low`` if it is there from the start, ``high`` if nowhere."""
    if function(low) >= 0:
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)
    return high
