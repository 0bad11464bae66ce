"""What a number would be if the order of a list did not depend on the groups: by permutation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.stats.permutation import adjusted_p, critical_value
from evenhand.typing import Floats

NO_SPREAD = 1e-9
"""A standard deviation below this part of the largest value is rounding."""


@dataclass(frozen=True, eq=False)
class EvenOrders:
    """Several numbers of a list, and what they are in orders that do not depend on the groups.

    Attributes:
        mean: the mean over such orders, shape (numbers,).
        low, high: in so many of them as the confidence says, all the numbers lie within these ends.
        p: share of such orders in which any number lies as far from its mean, in standard deviations, as this one.
    """

    mean: Floats
    low: Floats
    high: Floats
    p: Floats


def even_orders(observed: Floats, draws: Floats, confidence: float = 0.95) -> EvenOrders:
    """Return what even orders give, for all numbers together.

    The permutation distribution of the largest standardised deviation, "max-t" (Westfall & Young, "Resampling-Based
    Multiple Testing", 1993). Assumes only that under the null hypothesis the groups of a list's candidates could have
    been dealt out in any other way.

    Args:
        observed: the numbers, shape (numbers,).
        draws: the same of permuted groups, shape (draws, numbers).
        confidence: at which the range holds for all numbers together.
    """
    mean, deviation = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    deviation = np.where(deviation > NO_SPREAD * np.abs(draws).max(axis=0, initial=1e-300), deviation, 0.0)

    def standardise(values: Floats) -> Floats:
        return np.asarray(np.divide(values - mean, deviation, out=np.zeros(values.shape), where=deviation > 0))

    maxima = np.abs(standardise(draws)).max(axis=1, initial=0.0)
    reach = critical_value(maxima, confidence) * deviation
    outside = (deviation == 0) & (np.abs(observed - mean) > NO_SPREAD * np.maximum(np.abs(mean), 1))
    z = np.where(outside, np.inf, standardise(observed))
    return EvenOrders(mean, mean - reach, mean + reach, adjusted_p(z, maxima))
