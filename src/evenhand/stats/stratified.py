"""A total over strata, some proved and some sampled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from evenhand.errors import OptionError
from evenhand.stats.level import bonferroni, tail
from evenhand.stats.proportion import clopper_pearson


class Total(NamedTuple):
    """A mass with its two-sided interval; ``n`` is the size of all samples together."""

    value: float
    low: float
    high: float
    n: int


def stratified(proved_low: float, strata: Iterable[tuple[float, int, int]], confidence: float = 0.95) -> Total:
    """The mass of a property: what is proved to have it, plus what samples say about the strata left open.

    ``proved_low + sum(mass * rate)`` where each stratum's rate lies in its Clopper-Pearson interval at level
    ``1 - (1 - confidence) / m``; with m sampled strata all of them hold together with at least ``confidence`` (union
    bound), and so does the sum of the ends. Exact for every sample size, conservative for many strata. Assumes
    independent draws from the population within each stratum, and strata fixed before they were sampled.

    Args:
        proved_low: mass known to have the property without sampling.
        strata: (mass, k, n) each: k of n individuals drawn from a stratum of that mass have the property. One that was
            not sampled (n = 0) adds anything between nothing and its mass to the interval, and half to the value.

    Raises:
        OptionError: a negative mass, not 0 <= k <= n, or confidence outside (0, 1).
    """
    tail(confidence)
    open_strata = [(mass, k, n) for mass, k, n in strata if mass != 0]
    if proved_low < 0 or any(mass < 0 for mass, _, _ in open_strata):
        raise OptionError("a mass cannot be negative")
    sampled = sum(n > 0 for _, _, n in open_strata)
    level = bonferroni(confidence, max(sampled, 1))
    value = low = high = proved_low
    for mass, k, n in open_strata:
        below, above = clopper_pearson(k, n, level)
        value += mass * (k / n if n else 0.5)
        low += mass * float(below)
        high += mass * float(above)
    return Total(value=value, low=low, high=high, n=sum(n for _, _, n in open_strata))
