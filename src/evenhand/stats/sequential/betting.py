"""Tests and intervals that remain valid after every observation, for models whose answers are expensive.

Ordinary intervals and tests assume a fixed sample size. If an analyst repeats a test until it rejects, it eventually
will. Here a gambler starts with a wealth of 1 and bets on each observation at odds that are fair, or worse, under the
hypothesis. By Ville's inequality ("Étude critique de la notion de collectif", 1939), the wealth ever reaches 1/a with
probability at most a, so it measures evidence at any time and under any stopping rule (Shafer, "Testing by betting",
JRSS A 2021). The values that are not rejected form a confidence sequence, whose intervals all hold simultaneously
(Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024).
"""

from __future__ import annotations

import numpy as np

from evenhand.errors import OptionError
from evenhand.stats.level import as_counts, bisect_edge

STAKES = 2.0 ** (-np.arange(0.0, 12.5, 0.5))
"""Stakes as shares of the largest possible bet, from 1 to 1/4096."""
STAKE_WEIGHTS = (1 / np.arange(1, len(STAKES) + 1)) / (1 / np.arange(1, len(STAKES) + 1)).sum()
"""Share of the wealth that is bet at each stake. Larger stakes, which can reject sooner, have larger shares."""
HALVINGS = 50
"""Number of bisection steps for each end of an interval."""


def betting_martingales(k: int, n: int, rate: float) -> tuple[float, float]:
    """Compute betting martingales against the two one-sided hypotheses on a rate (Waudby-Smith and Ramdas 2024).

    Both start at 1. If the true rate is at most ``rate``, the first ever reaches 1/a with probability at most a; if it
    is at least ``rate``, the second does. A bet on a higher rate multiplies the wealth by ``1 - s + s x / rate`` for
    the observation x, with s one of ``STAKES``. A bet on a lower rate uses 1 - x and 1 - rate instead. Each observation
    is assumed to have the same rate, given all previous ones.

    Args:
        k: Number of successes.
        n: Number of observations. The result may be evaluated after each of them.
        rate: Rate strictly between 0 and 1.

    Raises:
        OptionError: Counts violate 0 <= k <= n, or the rate is outside (0, 1).
    """
    as_counts(k, n)
    if not 0 < rate < 1:
        raise OptionError(f"rate must lie between 0 and 1, got {rate:g}")
    with np.errstate(over="ignore"):  # overwhelming evidence is infinite
        above, below = _log_wealth(k, n - k, rate), _log_wealth(n - k, k, 1 - rate)
        return float(np.exp(above)), float(np.exp(below))


def betting_bounds(k: int, n: int, above: float, below: float) -> tuple[float, float]:
    """Compute the interval of rates that the betting martingales do not reject (Waudby-Smith and Ramdas 2024).

    Args:
        k, n: Numbers of successes and observations.
        above: Wealth that rejects a rate as too low, such as 20 for an error probability of 5 %; more than 1.
        below: Wealth that rejects a rate as too high; more than 1.

    Returns:
        Both ends. Over all n, the lower end ever exceeds the true rate with probability at most 1/above, and the upper
        end ever falls below it with probability at most 1/below.
    """
    share = k / n if n else 0.5
    low = bisect_edge(lambda p: _log_wealth(k, n - k, p) < np.log(above), share, 0.0, HALVINGS)
    high = bisect_edge(lambda p: _log_wealth(n - k, k, 1 - p) < np.log(below), share, 1.0, HALVINGS)
    return low, high


def _log_wealth(ones: int, zeros: int, mean: float) -> float:
    """Compute the logarithm of the wealth from bets on a rate above ``mean``, given counts of ones and zeros."""
    from scipy.special import logsumexp, xlogy

    if mean <= 0:
        return float("inf") if ones else 0.0
    gains = xlogy(ones, 1 + STAKES * (1.0 / mean - 1)) + xlogy(zeros, 1 - STAKES)
    return float(logsumexp(gains, b=STAKE_WEIGHTS))
