"""Interval for the area under the ROC curve: how often a positive is scored above a negative."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from evenhand.stats.level import normal_quantile
from evenhand.stats.quantity import Observed, Unknown
from evenhand.typing import Booleans, Floats

METHOD = "score interval, variance by DeLong or Newcombe"


def auc(scores: Floats, positive: Booleans, confidence: float = 0.95) -> Observed | Unknown:
    """Return the probability that a positive has a higher score than a negative (ties count half), with its interval.

    All areas t with ``|area - t| <= z sqrt(V(t))``. ``V(t)`` is the larger of two variances. Newcombe's ("Confidence
    intervals for an effect size measure based on the Mann-Whitney statistic, part 2", Statistics in Medicine 2006,
    method 5) is that of exponential scores, both sizes averaged in its brackets: it needs no spread in the sample, so
    it holds where the area is near 1 or positives are few. That of DeLong, DeLong & Clarke-Pearson ("Comparing the
    areas under two or more correlated receiver operating characteristic curves", Biometrics 1988) assumes nothing about
    the scores; it is taken in proportion to ``t (1 - t)``. Assumes independent people.

    Args:
        scores: shape (n,), finite.
        positive: shape (n,).

    Returns:
        Unknown if all or none are positive.
    """
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if len(above) == 0 or len(below) == 0:
        return Unknown(reason="everybody has the same true label")
    wins = share_below(above, below)
    losses = share_below(below, above)
    area = float(wins.mean())
    z = normal_quantile(confidence)
    observed = (_mean_variance(wins) + _mean_variance(losses)) / (area * (1 - area)) if 0 < area < 1 else 0.0
    middle, pairs = len(scores) / 2 - 1, len(above) * len(below)

    def inside(t: float) -> bool:
        newcombe = (1 + middle * (1 - t) / (2 - t) + middle * t / (1 + t)) / pairs
        return abs(area - t) <= z * math.sqrt(t * (1 - t) * max(newcombe, observed))

    low, high = _bisect_edge(inside, area, 0.0), _bisect_edge(inside, area, 1.0)
    return Observed(value=area, n=len(scores), low=low, high=high, confidence=confidence, method=METHOD)


def share_below(queries: Floats, others: Floats) -> Floats:
    """For each query, the share of the others (sorted) that lie below it, ties counted half."""
    left, right = np.searchsorted(others, queries, "left"), np.searchsorted(others, queries, "right")
    return np.asarray((left + right) / (2 * len(others)))


def _mean_variance(values: Floats) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def _bisect_edge(inside: Callable[[float], bool], start: float, end: float) -> float:
    """Return where ``inside`` ends between a start where it holds and an end; 60 halvings reach float precision."""
    for _ in range(60):
        middle = (start + end) / 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return end
