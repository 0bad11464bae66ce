"""Intervals for one proportion: k successes among n independent trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenhand.stats.level import Floats, Interval, counts, ends, normal_quantile, tail


def clopper_pearson(k: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Interval:
    """The exact interval: it covers the true proportion with at least ``confidence``, for every n and proportion.

    Its ends are the proportions at which k or more, and k or fewer, successes have probability
    ``(1 - confidence) / 2``: beta quantiles (Clopper & Pearson, "The use of confidence or fiducial limits
    illustrated in the case of the binomial", Biometrika 1934). Assumes independent trials of equal probability.

    Args:
        k, n: successes and trials, arrays that broadcast. Where n is 0 nothing is known: (0, 1).

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    from scipy.special import betainccinv, betaincinv

    k, n = counts(k, n)
    side = tail(confidence)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, side), 0.0)
    high = np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 1), side), 1.0)
    return ends(low, high)


def wilson(k: ArrayLike, n: ArrayLike, confidence: float = 0.95, *, z: float | None = None) -> Interval:
    """The score interval: all p with ``|k/n - p| <= z sqrt(p (1 - p) / n)``.

    Its coverage is ``confidence`` on average over p, below it for some (Wilson, "Probable inference, the law of
    succession, and statistical inference", JASA 1927). Assumes independent trials of equal probability.

    Args:
        k, n: successes and trials, arrays that broadcast. Where n is 0 nothing is known: (0, 1).
        z: standard deviations to each side, such as a ``critical_value``, in place of ``confidence``.

    Raises:
        OptionError: not 0 <= k <= n, or confidence outside (0, 1).
    """
    k, n = counts(k, n)
    z = normal_quantile(confidence) if z is None else z
    share = k / np.maximum(n, 1)
    centre = (k + z**2 / 2) / (n + z**2)
    reach = z * np.sqrt(n * share * (1 - share) + z**2 / 4) / (n + z**2)
    # At the ends of the scale the limits are exactly 0 and 1, which rounding would miss.
    low = np.where(k > 0, np.clip(centre - reach, 0.0, share), 0.0)
    high = np.where(k < n, np.clip(centre + reach, share, 1.0), 1.0)
    return ends(low, high)


def none_seen_upper(n: ArrayLike, confidence: float = 0.95) -> Floats:
    """The one-sided upper bound on a proportion of which n independent trials showed no case.

    ``1 - (1 - confidence)^(1/n)``, close to 3/n at 95 %: the rule of three (Hanley & Lippman-Hand, "If nothing goes
    wrong, is everything all right?", JAMA 1983). It is exact: the two-sided Clopper-Pearson end at k = 0 leaves only
    half as much to this side. Where n is 0 nothing is known: 1.
    """
    _, n = counts(0, n)
    with np.errstate(divide="ignore"):
        bound: Floats = -np.expm1(np.log(2 * tail(confidence)) / n)
    return bound[()]
