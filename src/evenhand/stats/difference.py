"""Intervals for the difference and for the ratio of two independent proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenhand.stats.level import Floats, Interval, counts, ends
from evenhand.stats.proportion import wilson


def newcombe(
    k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, confidence: float = 0.95, *, z: float | None = None
) -> Interval:
    """The hybrid score interval for ``k1/n1 - k2/n2``: Wilson's limits of each, squared and added.

    Method 10 of Newcombe, "Interval estimation for the difference between independent proportions: comparison of eleven
    methods", Statistics in Medicine 1998. Its coverage is close to ``confidence`` on average; unlike Wald's textbook
    interval it keeps a width at 0 of n and never leaves [-1, 1]. Assumes two independent binomial counts.

    Args:
        k1, n1, k2, n2: successes and trials, arrays that broadcast. Where an n is 0 nothing is claimed: (-1, 1).
        z: standard deviations to each side, such as a ``critical_value``, in place of ``confidence``.

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    p1, p2 = share(k1, n1), share(k2, n2)
    low, high = square_and_add(p1, wilson(k1, n1, confidence, z=z), p2, wilson(k2, n2, confidence, z=z))
    known = (np.asarray(n1) > 0) & (np.asarray(n2) > 0)
    return ends(np.where(known, low, -1.0), np.where(known, high, 1.0))


def ratio(k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval for the ratio of two proportions, ``(k1/n1) / (k2/n2)``, from Wilson's limits of each.

    Donner & Zou's closed form (see ``ratio_of_limits``). Summed exactly over the binomial it covers at least as well as
    Koopman's score interval (Biometrics 1984) and far better than the logarithmic ones, and it needs no iteration.
    Assumes two independent binomial counts.

    Args:
        k1, n1, k2, n2: successes and trials, arrays that broadcast. The upper end is infinite where k2 is 0; where
            both counts or an n are 0 every ratio is possible: (0, inf).

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    p1, p2 = share(k1, n1), share(k2, n2)
    low, high = ratio_of_limits(p1, wilson(k1, n1, confidence), p2, wilson(k2, n2, confidence))
    known = (np.asarray(n1) > 0) & (np.asarray(n2) > 0)
    return ends(np.where(known, low, 0.0), np.where(known, high, np.inf))


def share(k: ArrayLike, n: ArrayLike) -> Floats:
    """``k / n``; 1/2 where n is 0, in the middle of its limits (0, 1)."""
    k, n = counts(k, n)
    return np.divide(k, n, out=np.full_like(n, 0.5), where=n > 0)


def square_and_add(p1: Floats, limits1: Interval, p2: Floats, limits2: Interval) -> Interval:
    """Interval for ``p1 - p2`` of two independent estimates from the limits (l, u) of each.

    ``p1 - p2 - sqrt((p1 - l1)^2 + (u2 - p2)^2)`` and ``p1 - p2 + sqrt((u1 - p1)^2 + (p2 - l2)^2)``: the limits carry
    the variance near the ends of the interval (Newcombe 1998; in general Zou & Donner, "Construction of confidence
    limits about effect measures: a general approach", Statistics in Medicine 2008).
    """
    (low1, high1), (low2, high2) = limits1, limits2
    return p1 - p2 - np.hypot(p1 - low1, high2 - p2), p1 - p2 + np.hypot(high1 - p1, p2 - low2)


def ratio_of_limits(p1: Floats, limits1: Interval, p2: Floats, limits2: Interval) -> Interval:
    """Interval for ``p1 / p2`` of two independent non-negative estimates from the limits (l, u) of each.

    A ratio t is kept when 0 lies in the square-and-add interval of ``p1 - t p2`` (Fieller's idea); solved for t:
    ``(p1 p2 -+ sqrt((p1 p2)^2 - a b (2 p1 - a) (2 p2 - b))) / (b (2 p2 - b))`` with (a, b) = (l1, u2) for the lower and
    (u1, l2) for the upper end (Donner & Zou, "Closed-form confidence intervals for functions of the normal mean and
    standard deviation", Statistical Methods in Medical Research 2012). The upper end is infinite where l2 is 0.
    """
    p1, low1, high1, p2, low2, high2 = np.broadcast_arrays(p1, *limits1, p2, *limits2)
    # a (2 p - a) for each limit; the lower end is multiplied out so that it stays finite at p2 = 0.
    below1, above2 = low1 * (2 * p1 - low1), high2 * (2 * p2 - high2)
    above1, below2 = high1 * (2 * p1 - high1), low2 * (2 * p2 - low2)
    bottom = p1 * p2 + np.sqrt(np.maximum((p1 * p2) ** 2 - below1 * above2, 0.0))
    top = p1 * p2 + np.sqrt(np.maximum((p1 * p2) ** 2 - above1 * below2, 0.0))
    low = np.divide(below1, bottom, out=np.zeros(p1.shape), where=low1 > 0)
    high = np.divide(top, below2, out=np.full(p1.shape, np.inf), where=low2 > 0)
    return low, high
