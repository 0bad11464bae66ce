"""Counts as numbers that say what they are: observed on given people, or estimated from a random sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenhand.stats.proportion import clopper_pearson
from evenhand.stats.quantity import Estimated, Observed, Unknown

EXACT = "Clopper-Pearson (exact)"


def observed_rate(
    k: int, n: int, confidence: float = 0.95, *, if_empty: str = "there is nobody to count"
) -> Observed | Unknown:
    """The share k of n of the people at hand, with the exact interval for people like these.

    Args:
        if_empty: the reason to give when n is 0.
    """
    return observed_rates([k], [n], confidence, if_empty=if_empty)[0]


def observed_rates(
    k: ArrayLike, n: ArrayLike, confidence: float = 0.95, *, if_empty: str = "there is nobody to count"
) -> list[Observed | Unknown]:
    """``observed_rate`` of many groups at once: k and n of shape (groups,)."""
    low, high = clopper_pearson(k, n, confidence)
    columns = np.asarray(k).tolist(), np.asarray(n).tolist(), low.tolist(), high.tolist()
    return [
        Unknown(reason=if_empty)
        if trials == 0
        else Observed(
            value=successes / trials, n=int(trials), low=below, high=above, confidence=confidence, method=EXACT
        )
        for successes, trials, below, above in zip(*columns, strict=True)
    ]


def estimated_rate(
    k: int, n: int, population: str, confidence: float = 0.95, *, if_empty: str = "nobody was sampled"
) -> Estimated | Unknown:
    """The share of a population, from k of n individuals drawn from it independently, with the exact interval.

    Args:
        population: what was sampled, in words.
        if_empty: the reason to give when n is 0.
    """
    low, high = clopper_pearson(k, n, confidence)
    if n == 0:
        return Unknown(reason=if_empty)
    return Estimated(
        value=k / n,
        low=float(low),
        high=float(high),
        confidence=confidence,
        n=n,
        population=population,
        method=EXACT,
    )
