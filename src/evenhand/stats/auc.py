"""Confidence intervals for the area under the ROC curve."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats
from evenhand.stats.level import bisect_edge, normal_quantile
from evenhand.stats.proportion import kish_size
from evenhand.stats.quantity import Observed, Unknown

METHOD = "score interval, variance by DeLong or Newcombe"


def auc(
    scores: Floats, positive: Booleans, confidence: float = 0.95, *, weights: Floats | None = None
) -> Observed | Unknown:
    """Compute the area under the ROC curve and its confidence interval.

    The area is the probability that a positive has a higher score than a negative; ties count half.

    The interval contains all areas t with ``|area - t| <= z sqrt(V(t))``, where ``V(t)`` is the larger of two
    variances. Newcombe's variance ("Confidence intervals for an effect size measure based on the Mann-Whitney
    statistic, part 2", Statistics in Medicine 2006, method 5) is that of exponential scores, with both sizes replaced
    by their mean inside its brackets. It requires no spread in the sample, so it remains valid if the area is near 1
    or if there are few positives. The variance of DeLong, DeLong & Clarke-Pearson ("Comparing the areas under two or
    more correlated receiver operating characteristic curves", Biometrics 1988) makes no assumption about the scores;
    it is scaled in proportion to ``t (1 - t)``. Both assume independent people.

    With weights w, the area is ``sum(w_i w_j [s_i > s_j]) / (sum(w_i) sum(w_j))`` over positives i and negatives j.
    DeLong's variance is then linearised: ``sum(w^2 (u - area)^2) / sum(w)^2``, where u are the weighted shares of
    outranked people in each class. Newcombe's variance uses Kish's effective size of each class.

    Args:
        scores: Finite scores, shape (n,).
        positive: Whether the true label is positive, shape (n,).
        confidence: Confidence level.
        weights: Non-negative sample weights, shape (n,). None means equal weights.

    Returns:
        The area, or Unknown if one of the two classes is empty or has no weight.
    """
    sample_weights = np.ones(len(scores)) if weights is None else weights
    used = sample_weights > 0
    positives, negatives = (
        _ScoredClass.sort(scores[mask & used], sample_weights[mask & used]) for mask in (positive, ~positive)
    )
    method = METHOD if weights is None else f"{METHOD}, weighted and linearised, Kish's effective sizes"
    return _estimate_area(positives, negatives, len(scores), confidence, method)


def _estimate_area(
    positives: _ScoredClass, negatives: _ScoredClass, people: int, confidence: float, method: str
) -> Observed | Unknown:
    """Compute the area under the ROC curve of two classes and its confidence interval."""
    if len(positives.scores) == 0 or len(negatives.scores) == 0:
        return Unknown(reason="all people have the same true label")
    wins = share_below(positives.scores, negatives.scores, negatives.weights)
    losses = share_below(negatives.scores, positives.scores, positives.weights)
    area = positives.mean(wins)
    z = normal_quantile(confidence)
    linearised = positives.mean_variance(wins) + negatives.mean_variance(losses)
    observed = linearised / (area * (1 - area)) if 0 < area < 1 else 0.0
    size, pairs = (positives.size + negatives.size) / 2 - 1, positives.size * negatives.size

    # Hanley and McNeil's variance of an area t with both sizes replaced by their mean, as in Newcombe's method 5
    # (Statistics in Medicine 2006), or the observed variance if it is larger.
    def inside(t: float) -> bool:
        newcombe = (1 + size * (1 - t) / (2 - t) + size * t / (1 + t)) / pairs
        return abs(area - t) <= z * math.sqrt(t * (1 - t) * max(newcombe, observed))

    low, high = bisect_edge(inside, area, 0.0), bisect_edge(inside, area, 1.0)
    return Observed(value=area, n=people, low=low, high=high, confidence=confidence, method=method)


class _ScoredClass(NamedTuple):
    """People with the same true label.

    Attributes:
        scores: Ascending scores, shape (n,).
        weights: Weight of each score, shape (n,).
        size: Effective sample size.
    """

    scores: Floats
    weights: Floats
    size: float

    @classmethod
    def sort(cls, scores: Floats, weights: Floats) -> _ScoredClass:
        """Sort people by score, and compute Kish's effective size."""
        order = np.argsort(scores, kind="stable")
        sorted_weights = weights[order]
        size = kish_size(sorted_weights.sum(), (sorted_weights**2).sum())
        return cls(scores[order], sorted_weights, float(size))

    def mean(self, values: Floats) -> float:
        """Compute a weighted mean over the class."""
        return float(np.average(values, weights=self.weights))

    def mean_variance(self, values: Floats) -> float:
        """Compute the linearised variance of a weighted mean; equal weights give the usual one with divisor n - 1."""
        if self.size <= 1:
            return 0.0
        spread = (self.weights**2 * (values - self.mean(values)) ** 2).sum() / self.weights.sum() ** 2
        return float(spread * self.size / (self.size - 1))


def share_below(queries: Floats, ordered: Floats, weights: Floats | None = None) -> Floats:
    """Compute the share of an ascending sample that lies below each query; ties count half.

    Args:
        queries: Query values, shape (queries,).
        ordered: Sample in ascending order, shape (n,).
        weights: Sample weights, shape (n,). None means equal weights.
    """
    sums = np.concatenate([[0.0], np.cumsum(np.ones(len(ordered)) if weights is None else weights)])
    left, right = np.searchsorted(ordered, queries, "left"), np.searchsorted(ordered, queries, "right")
    return np.asarray((sums[left] + sums[right]) / (2 * sums[-1]))
