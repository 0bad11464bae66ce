"""Statistics that may be looked at after every single observation, for models whose answers cost money.

Ordinary intervals and tests hold at a sample size fixed beforehand; an analyst who looks again and again until a
difference shows will find one. Here a gambler starts with 1 and bets on each next observation at odds that are fair, or
worse, if the hypothesis is true. Then by Ville's inequality ("Étude critique de la notion de collectif", 1939) the
wealth ever reaches 1/a with probability a at most, so that its value is evidence at any time, whatever the reason to
stop (Shafer, "Testing by betting", JRSS A 2021). The values not rejected so far form a confidence sequence: all its
intervals hold together (Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024).
"""

from __future__ import annotations

import numpy as np

from evenhand.errors import OptionError
from evenhand.stats.level import bisect_edge, tail_probability

STAKES = 2.0 ** (-np.arange(0.0, 12.5, 0.5))
"""Shares of the largest possible bet, from everything down to 1/4096, among which the wealth is divided."""
STAKE_WEIGHTS = (1 / np.arange(1, len(STAKES) + 1)) / (1 / np.arange(1, len(STAKES) + 1)).sum()
"""The part of the wealth at each: more at the high stakes, which decide early; the low find small differences."""
HALVINGS = 50


def sequential_rate(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval for a rate after n observations, valid at every n at once.

    All p under which the data are more than ``1 - confidence`` times as likely as on average over rates drawn from
    Jeffreys' Beta(1/2, 1/2): the likelihood ratio is a fair bet against p (Robbins, "Statistical methods related to the
    law of the iterated logarithm", Annals of Mathematical Statistics 1970). Assumes independent observations.
    """
    from scipy.special import betaln, xlog1py, xlogy

    if not 0 <= k <= n:
        raise OptionError(f"{k} of {n} is not a count: 0 <= k <= n is needed")
    mixture = float(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))
    threshold = -float(np.log(2 * tail_probability(confidence)))

    def inside(p: float) -> bool:
        return mixture - float(xlogy(k, p) + xlog1py(n - k, -p)) < threshold

    share = k / n if n else 0.5
    return bisect_edge(inside, share, 0.0, HALVINGS), bisect_edge(inside, share, 1.0, HALVINGS)


def betting_martingales(k: int, n: int, rate: float) -> tuple[float, float]:
    """Compute betting martingales against the two one-sided hypotheses on the rate (Waudby-Smith and Ramdas 2024).

    Each starts with 1. If the rate is at most this one, the first ever reaches 1/a with probability a at most; if it is
    at least this one, the second. A bet on more than ``rate`` changes the wealth by the factor ``1 - s + s x / rate``
    for the observation x, with s one of ``STAKES``; a bet on less likewise with 1 - x and 1 - rate. Assumes
    observations with the same rate given all before.

    Args:
        k: successes.
        n: observations; one may look after each of them.
        rate: strictly between 0 and 1.

    Raises:
        OptionError: not 0 <= k <= n, or the rate is not between 0 and 1.
    """
    if not 0 <= k <= n:
        raise OptionError(f"{k} of {n} is not a count: 0 <= k <= n is needed")
    if not 0 < rate < 1:
        raise OptionError(f"a rate must lie between 0 and 1, not {rate:g}")
    with np.errstate(over="ignore"):  # beyond any doubt is infinite
        above, below = _log_wealth(k, n - k, rate), _log_wealth(n - k, k, 1 - rate)
        return float(np.exp(above)), float(np.exp(below))


def betting_bounds(k: int, n: int, above: float, below: float) -> tuple[float, float]:
    """Bound the rate by what the betting martingales do not reject (Waudby-Smith and Ramdas 2024).

    Args:
        k, n: successes and observations.
        above: the wealth that rejects a rate as too low, such as 20 for an error of 5 %; more than 1.
        below: the wealth that rejects one as too high.

    Returns:
        The ends. At whatever n one looks, the lower is above the true rate with probability 1/above at most, and the
        upper below it with 1/below.
    """
    share = k / n if n else 0.5
    low = bisect_edge(lambda p: _log_wealth(k, n - k, p) < np.log(above), share, 0.0, HALVINGS)
    high = bisect_edge(lambda p: _log_wealth(n - k, k, 1 - p) < np.log(below), share, 1.0, HALVINGS)
    return low, high


def _log_wealth(ones: int, zeros: int, mean: float) -> float:
    """Compute the logarithm of the wealth of a bet on more than the mean, after so many observations of 1 and 0."""
    from scipy.special import logsumexp, xlogy

    if mean <= 0:
        return float("inf") if ones else 0.0
    gains = xlogy(ones, 1 + STAKES * (1.0 / mean - 1)) + xlogy(zeros, 1 - STAKES)
    return float(logsumexp(gains, b=STAKE_WEIGHTS))
