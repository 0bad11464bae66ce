"""Inequality of benefits: the generalised entropy index, including Theil's index."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Floats
from evenhand.stats.level import normal_quantile, student_quantile
from evenhand.stats.quantity import Observed, Unknown

BENEFITS = np.array([0.0, 1.0, 2.0])
"""Benefit of people who are wrongly rejected, correctly decided and wrongly selected: decision minus truth plus 1."""


def decision_inequality(counts: ArrayLike, n: int, alpha: float, confidence: float = 0.95) -> Observed | Unknown:
    """Compute the generalised entropy index of the benefits of decisions, and its confidence interval.

    For benefits b with mean m, the index is ``mean((b / m)^alpha - 1) / (alpha (alpha - 1))``, and Theil's index
    ``mean(b / m log(b / m))`` for alpha = 1. It is 0 if all benefits are equal (Speicher et al., "A unified approach to
    quantifying algorithmic unfairness", KDD 2018).

    The index is a function of the shares of the three benefits. The interval uses the delta method, after adding a
    quarter, a half and a quarter of ``z^2`` people to the three counts (as Agresti and Coull do for two), so that it
    has a positive width even if no error was observed. It assumes independent people.

    Args:
        counts: Number of people with each of ``BENEFITS``, or effective numbers of weighted people, shape (3,).
        n: Number of people stated in the result.
        alpha: Weight of large benefits, at least 1.
        confidence: Confidence level.
    """
    people = np.asarray(counts, dtype=np.float64)
    if people.sum() <= 0 or float(people @ BENEFITS) == 0:
        return Unknown(reason="the total benefit is zero: all people were wrongly rejected")
    z = normal_quantile(confidence)
    value = generalized_entropy(people, alpha)
    adjusted = people + z**2 * np.array([0.25, 0.5, 0.25])
    size = adjusted.sum()
    p = adjusted / size
    centre = generalized_entropy(p, alpha)
    # Influence of a person: the person's term minus the index, plus the effect of the person's benefit on the mean.
    share = BENEFITS / float(p @ BENEFITS)
    slope = share * np.log(np.where(share > 0, share, 1.0)) + share if alpha == 1 else share**alpha / (alpha - 1)
    influence = _entropy_terms(share, alpha) - centre - (share - 1) * float(p @ slope)
    half = float(student_quantile(confidence, size - 1)) * math.sqrt(float(p @ influence**2) / size)
    low, high = min(value, max(0.0, centre - half)), max(value, centre + half)
    method = "delta method, z^2 people added to the kinds of decision"
    return Observed(value=value, n=n, low=low, high=high, confidence=confidence, method=method)


def generalized_entropy(counts: Floats, alpha: float) -> float:
    """Compute the index of ``decision_inequality`` without its interval; some benefit must be positive."""
    mean = float(np.average(BENEFITS, weights=counts))
    return float(np.average(_entropy_terms(BENEFITS / mean, alpha), weights=counts))


def _entropy_terms(share: Floats, alpha: float) -> Floats:
    """Compute the terms whose mean is the index, from benefits divided by their mean."""
    if alpha == 1:
        return np.asarray(share * np.log(np.where(share > 0, share, 1.0)))
    return (share**alpha - 1) / (alpha * (alpha - 1))
