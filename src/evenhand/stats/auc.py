"""Interval for the area under the ROC curve: how often a positive is scored above a negative."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evenhand.stats.level import Floats, normal_quantile
from evenhand.stats.quantity import Observed, Unknown


def auc(scores: Floats, positive: NDArray[np.bool_], confidence: float = 0.95) -> Observed | Unknown:
    """The probability that a positive has a higher score than a negative (ties count half), with its interval.

    Variance by DeLong, DeLong & Clarke-Pearson ("Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 1988), which assumes independent people and nothing about the scores; the
    interval is symmetric on the logit scale, so it stays inside (0, 1) and covers well at the ends (Pepe, "The
    Statistical Evaluation of Medical Tests", 2003, section 5.2). Where that variance vanishes (perfect separation, or
    one person of a class) Newcombe's score interval takes over ("Confidence intervals for an effect size measure based
    on the Mann-Whitney statistic, part 2", Statistics in Medicine 2006, method 5).

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
    variance = _mean_variance(wins) + _mean_variance(losses)
    z = normal_quantile(confidence)
    if 0 < area < 1 and variance > 0:
        method = "DeLong, on the logit scale"
        centre = math.log(area / (1 - area))
        reach = z * math.sqrt(variance) / (area * (1 - area))
        low, high = _logistic(centre - reach), _logistic(centre + reach)
    else:
        method = "Newcombe's score interval for the Mann-Whitney statistic"
        low, high = _newcombe(area, len(above), len(below), z)
    return Observed(value=area, n=len(scores), low=low, high=high, confidence=confidence, method=method)


def share_below(queries: Floats, others: Floats) -> Floats:
    """For each query, the share of the others (sorted) that lie below it, ties counted half."""
    left, right = np.searchsorted(others, queries, "left"), np.searchsorted(others, queries, "right")
    return np.asarray((left + right) / (2 * len(others)))


def _mean_variance(values: Floats) -> float:
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _newcombe(area: float, positives: int, negatives: int, z: float) -> tuple[float, float]:
    """All t with ``|area - t| <= z sqrt(V(t))``, V for exponential scores and both sizes averaged in its brackets."""
    middle = (positives + negatives) / 2 - 1

    def inside(t: float) -> bool:
        brackets = 1 + middle * (1 - t) / (2 - t) + middle * t / (1 + t)
        return abs(area - t) <= z * math.sqrt(t * (1 - t) * brackets / (positives * negatives))

    return _edge(inside, area, 0.0), _edge(inside, area, 1.0)


def _edge(inside: Callable[[float], bool], start: float, end: float) -> float:
    """Where ``inside`` ends between a start where it holds and an end; 60 halvings reach float precision."""
    for _ in range(60):
        middle = (start + end) / 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return end
