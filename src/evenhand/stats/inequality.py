"""Inequality of what people receive: generalised entropy, Theil's index among it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.stats.level import normal_quantile, student_quantile
from evenhand.stats.quantity import Observed, Unknown


def generalized_entropy(benefits: ArrayLike, alpha: float = 2.0, *, weights: ArrayLike | None = None) -> float:
    """Return the generalised entropy index of benefits b with mean m: 0 where all are equal.

    ``mean((b / m)^alpha - 1) / (alpha (alpha - 1))``; Theil's index ``mean(b / m log(b / m))`` at alpha = 1, and the
    mean logarithmic deviation ``-mean(log(b / m))`` at 0, infinite where somebody receives nothing. Speicher et al., "A
    unified approach to quantifying algorithmic unfairness" (KDD 2018), take decision minus truth plus 1 as benefit.

    Args:
        benefits: at least 0, not all of them 0, shape (n,).
        alpha: how much the benefits of those who receive much count.
        weights: how much each person counts, shape (n,).

    Raises:
        OptionError: a benefit is negative, or no one has any.
    """
    b = np.asarray(benefits, dtype=np.float64)
    shares = np.ones(len(b)) if weights is None else np.asarray(weights, dtype=np.float64)
    mean = float(np.average(b, weights=shares)) if len(b) else 0.0
    if not len(b) or b.min() < 0 or mean <= 0:
        raise OptionError("expected benefits of at least 0, and some above it")
    return float(np.average(_terms(b / mean, alpha), weights=shares))


def _terms(share: Floats, alpha: float) -> Floats:
    """Return what each person adds to the index, by benefit over mean."""
    if alpha == 1:
        return np.asarray(share * np.log(np.where(share > 0, share, 1.0)))
    if alpha == 0:
        with np.errstate(divide="ignore"):
            return -np.log(share)
    return (share**alpha - 1) / (alpha * (alpha - 1))


def decision_inequality(counts: ArrayLike, n: int, alpha: float, confidence: float = 0.95) -> Observed | Unknown:
    """Return the generalised entropy of the benefits of decisions, with its interval.

    Benefits are 0 (wrongly not selected), 1 (rightly decided) and 2 (wrongly selected), so the index is a function of
    the shares of the three. The interval is by the delta method, with a quarter, a half and a quarter of ``z^2``
    people added to the three (as Agresti and Coull add theirs to two), so that it keeps a width where no error was
    seen. Assumes independent people.

    Args:
        counts: people of each benefit, effective ones where people have weights, shape (3,).
        n: people, to be named.
        alpha: at least 1.
    """
    seen = np.asarray(counts, dtype=np.float64)
    benefits = np.array([0.0, 1.0, 2.0])
    if seen.sum() <= 0 or float(seen @ benefits) == 0:
        return Unknown(reason="no one has any benefit: everybody was wrongly not selected")
    z = normal_quantile(confidence)
    value = generalized_entropy(benefits, alpha, weights=seen)
    added = seen + z**2 * np.array([0.25, 0.5, 0.25])
    size = added.sum()
    p = added / size
    centre = generalized_entropy(benefits, alpha, weights=p)
    mean = float(p @ benefits)
    # Influence of a person: own term minus the index, and what own benefit does through the mean.
    share = benefits / mean
    own = _terms(share, alpha)
    slope = share * np.log(np.where(share > 0, share, 1.0)) + share if alpha == 1 else share**alpha / (alpha - 1)
    influence = own - centre - (share - 1) * float(p @ slope)
    half = float(student_quantile(confidence, size - 1)) * math.sqrt(float(p @ influence**2) / size)
    low, high = min(value, max(0.0, centre - half)), max(value, centre + half)
    method = "delta method, z^2 people added to the kinds of decision"
    return Observed(value=value, n=n, low=low, high=high, confidence=confidence, method=method)
