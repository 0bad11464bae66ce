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
from numpy.typing import ArrayLike

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
    at least this one, the second. Their bets are those of ``SequentialDifference``: the first wins most where every
    observation is a success. Assumes observations with the same rate given all before.

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
        above, below = _log_wealth(k, 0, n - k, rate), _log_wealth(n - k, 0, k, 1 - rate)
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
    low = bisect_edge(lambda p: _log_wealth(k, 0, n - k, p) < np.log(above), share, 0.0, HALVINGS)
    high = bisect_edge(lambda p: _log_wealth(n - k, 0, k, 1 - p) < np.log(below), share, 1.0, HALVINGS)
    return low, high


class SequentialDifference:
    """The difference of two rates, observed in pairs: E[first] - E[second], with evidence and interval at any time.

    A pair is the same individual under two assignments of the protected attributes, or one individual of each of two
    groups. A pair counts as +1, 0 or -1; scaled to [0, 1] its mean is bet on in both directions. A bet on a mean above
    m changes the wealth by the factor ``1 - s + s x / m``, with x the scaled pair and s one of ``STAKES``; below m
    likewise with 1 - x and 1 - m. Each direction has half of the wealth, and ``evidence`` counts the better half alone:
    never more than the whole, and its confidence sequence is an interval.

    Assumes pairs that are independent of each other, or at least with the same mean difference given all before.
    """

    def __init__(self) -> None:
        self.first_only = 0
        """Pairs in which the first alone was a success."""
        self.second_only = 0
        self.alike = 0
        self.most_evidence = 0.0
        """The largest evidence against no difference seen so far, over all calls of ``add``."""

    def add(self, first: ArrayLike, second: ArrayLike) -> None:
        """Take further pairs of 0/1 outcomes in, arrays of one shape or single outcomes."""
        first, second = np.broadcast_arrays(np.asarray(first, dtype=bool), np.asarray(second, dtype=bool))
        self.first_only += int((first & ~second).sum())
        self.second_only += int((~first & second).sum())
        self.alike += int((first == second).sum())
        self.most_evidence = max(self.most_evidence, self.evidence())

    @property
    def pairs(self) -> int:
        return self.first_only + self.second_only + self.alike

    @property
    def difference(self) -> float:
        """The observed difference, 0 before the first pair."""
        return (self.first_only - self.second_only) / self.pairs if self.pairs else 0.0

    @property
    def p(self) -> float:
        """A p value against no difference that holds however often one looked."""
        return 1 / max(self.most_evidence, 1.0)

    def evidence(self, difference: float = 0.0) -> float:
        """Return the wealth of a bet against this difference: 20 or more rejects it at 5 %, at any time."""
        with np.errstate(over="ignore"):  # beyond any doubt is infinite
            return float(np.exp(max(self._above(difference), self._below(difference))) / 2)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return all differences that the evidence does not reject; the intervals at all times hold together."""
        threshold = -float(np.log(tail_probability(confidence)))
        low = bisect_edge(lambda d: self._above(d) < threshold, self.difference, -1.0, HALVINGS)
        high = bisect_edge(lambda d: self._below(d) < threshold, self.difference, 1.0, HALVINGS)
        return low, high

    def _above(self, difference: float) -> float:
        return _log_wealth(self.first_only, self.alike, self.second_only, (1 + difference) / 2)

    def _below(self, difference: float) -> float:
        return _log_wealth(self.second_only, self.alike, self.first_only, (1 - difference) / 2)


def _log_wealth(ones: int, halves: int, zeros: int, mean: float) -> float:
    """What betting on more than the mean made of 1, after so many observations of 1, 1/2 and 0, as a logarithm."""
    from scipy.special import logsumexp, xlogy

    if mean <= 0:
        return float("inf") if ones + halves else 0.0
    factors = (1 + STAKES * (x / mean - 1) for x in (1.0, 0.5, 0.0))
    gains = sum(xlogy(n, factor) for n, factor in zip((ones, halves, zeros), factors, strict=True))
    return float(logsumexp(gains, b=STAKE_WEIGHTS))
