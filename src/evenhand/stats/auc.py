"""Interval for the area under the ROC curve: how often a positive is scored above a negative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.level import normal_quantile
from evenhand.stats.quantity import Observed, Unknown

METHOD = "score interval, variance by DeLong or Newcombe"


def auc(
    scores: Floats, positive: Booleans, confidence: float = 0.95, *, weights: Floats | None = None
) -> Observed | Unknown:
    """Return the probability that a positive has a higher score than a negative (ties count half), with its interval.

    All areas t with ``|area - t| <= z sqrt(V(t))``. ``V(t)`` is the larger of two variances. Newcombe's ("Confidence
    intervals for an effect size measure based on the Mann-Whitney statistic, part 2", Statistics in Medicine 2006,
    method 5) is that of exponential scores, both sizes averaged in its brackets: it needs no spread in the sample, so
    it holds where the area is near 1 or positives are few. That of DeLong, DeLong & Clarke-Pearson ("Comparing the
    areas under two or more correlated receiver operating characteristic curves", Biometrics 1988) assumes nothing about
    the scores; it is taken in proportion to ``t (1 - t)``. Assumes independent people.

    With weights w, the area is ``sum(w_i w_j [s_i > s_j]) / (sum(w_i) sum(w_j))`` over positives i and negatives j. The
    shares that DeLong's variance is made of are weighted, and it is the linearised one, ``sum(w^2 (u - area)^2) /
    sum(w)^2`` for the shares u of either class; for Newcombe's, each class has Kish's effective size.

    Args:
        scores: shape (n,), finite.
        positive: shape (n,).
        weights: at least 0, shape (n,); None where all count alike.

    Returns:
        Unknown if all or none are positive, or one of the two classes has no weight.
    """
    shares = np.ones(len(scores)) if weights is None else weights
    kept = shares > 0
    above, below = (_ScoredClass.sort(scores[side & kept], shares[side & kept]) for side in (positive, ~positive))
    method = METHOD if weights is None else f"{METHOD}, weighted and linearised, of Kish's effective sizes"
    return _measure(above, below, len(scores), confidence, method)


def auc_of_counts(
    positive: Integers, negative: Integers, mixed: Booleans | None = None, confidence: float = 0.95
) -> Observed | Unknown:
    """Return the same of people counted by score, as of single people; intervals are as wide as what is not known.

    Within a bin of different scores, every order of positives and negatives is possible: such pairs count half, and
    the interval is wider by half their share of all pairs on either side.

    Args:
        positive, negative: people of either class with each score, in ascending order of scores, shape (bins,).
        mixed: bins that hold different scores, shape (bins,); None: each holds one score.
        confidence: of the interval.
    """
    bins = np.arange(len(positive), dtype=np.float64)
    above, below = (
        _ScoredClass(bins[side > 0], side[side > 0].astype(np.float64), float(side.sum()), counted=True)
        for side in (positive, negative)
    )
    n = int(positive.sum() + negative.sum())
    found = _measure(above, below, n, confidence, METHOD)
    if isinstance(found, Unknown) or mixed is None:
        return found
    unknown = float((positive[mixed].astype(np.float64) * negative[mixed]).sum()) / (above.size * below.size) / 2
    if unknown == 0:
        return found
    low, high = max(0.0, found.low - unknown), min(1.0, found.high + unknown)
    method = f"{METHOD}, wider by {unknown:.1g} for scores counted in bins"
    return found.model_copy(update={"low": low, "high": high, "method": method})


def _measure(
    above: _ScoredClass, below: _ScoredClass, people: int, confidence: float, method: str
) -> Observed | Unknown:
    """Return the area between two classes with its interval."""
    if len(above.scores) == 0 or len(below.scores) == 0:
        return Unknown(reason="everybody has the same true label")
    wins, losses = below.share_below(above.scores), above.share_below(below.scores)
    area = above.mean(wins)
    z = normal_quantile(confidence)
    linearised = above.mean_variance(wins) + below.mean_variance(losses)
    observed = linearised / (area * (1 - area)) if 0 < area < 1 else 0.0
    middle, pairs = (above.size + below.size) / 2 - 1, above.size * below.size

    # Hanley and McNeil's variance of an area t, both sizes replaced by their mean, as in Newcombe's method 5
    # (Statistics in Medicine 2006), or what is observed where that is more.
    def inside(t: float) -> bool:
        newcombe = (1 + middle * (1 - t) / (2 - t) + middle * t / (1 + t)) / pairs
        return abs(area - t) <= z * math.sqrt(t * (1 - t) * max(newcombe, observed))

    low, high = _bisect_edge(inside, area, 0.0), _bisect_edge(inside, area, 1.0)
    return Observed(value=area, n=people, low=low, high=high, confidence=confidence, method=method)


class _ScoredClass(NamedTuple):
    """The people of one true label, by score: scores and weights (n,), and Kish's effective size.

    Where people were ``counted``, a weight is how many have that score, and the size is how many there are.
    """

    scores: Floats
    weights: Floats
    size: float
    counted: bool = False

    @classmethod
    def sort(cls, scores: Floats, weights: Floats) -> _ScoredClass:
        """Return people in the order of their scores."""
        order = np.argsort(scores, kind="stable")
        ordered = weights[order]
        return cls(scores[order], ordered, float(ordered.sum() ** 2 / max((ordered**2).sum(), np.finfo(float).tiny)))

    def share_below(self, queries: Floats) -> Floats:
        """For each query, the share by weight of these people who lie below it, ties counted half."""
        sums = np.concatenate([[0.0], np.cumsum(self.weights)])
        left, right = np.searchsorted(self.scores, queries, "left"), np.searchsorted(self.scores, queries, "right")
        return np.asarray((sums[left] + sums[right]) / (2 * sums[-1]))

    def mean(self, values: Floats) -> float:
        """Return the weighted mean of a number of each."""
        return float(np.average(values, weights=self.weights))

    def mean_variance(self, values: Floats) -> float:
        """Return the linearised variance of the weighted mean; equal weights give that of the mean (divisor n - 1)."""
        if self.size <= 1:
            return 0.0
        power = 1 if self.counted else 2
        spread = (self.weights**power * (values - self.mean(values)) ** 2).sum() / self.weights.sum() ** 2
        return float(spread * self.size / (self.size - 1))


def share_below(queries: Floats, others: Floats) -> Floats:
    """For each query, the share of the others (sorted) that lie below it, ties counted half."""
    left, right = np.searchsorted(others, queries, "left"), np.searchsorted(others, queries, "right")
    return np.asarray((left + right) / (2 * len(others)))


def _bisect_edge(inside: Callable[[float], bool], start: float, end: float) -> float:
    """Return where ``inside`` ends between a start where it holds and an end; 60 halvings reach float precision."""
    for _ in range(60):
        middle = (start + end) / 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return end
