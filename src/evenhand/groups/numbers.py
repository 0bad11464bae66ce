"""Group metrics of numeric decisions: means, quantiles and errors of each group, and the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.groups.engine import TENTHS, GroupCounts, Sample
from evenhand.groups.estimators import Estimator, limit_each
from evenhand.groups.label_coverage import HALVES, count_labels
from evenhand.groups.membership import DecidedPeople, find_labelled
from evenhand.stats.distribution import (
    NumberMoments,
    number_moments,
    quantile_interval,
    sample_quantile,
    skewed_mean_interval,
)
from evenhand.stats.metric_specs import DECISION_METRICS
from evenhand.stats.proportion import Limits

QUANTILES = {"quantile_10": 0.1, "median": 0.5, "quantile_90": 0.9}
"""Compared quantiles, with the share of people below."""

SKEWED = "Student's t, skewness removed (Hall)"
ORDERED = "order statistics (binomial)"
EFFECTIVE = ", of effective sample sizes (weights)"


@dataclass(frozen=True)
class NumberSample(Sample):
    """Numeric decisions, one entry per person.

    Attributes:
        median: Median of all decisions. The coverage of true values is counted in each half.
    """

    decided: Floats
    truth: Floats | None
    median: float

    scored: ClassVar[str] = "mean"
    observed: ClassVar[str] = "true_mean"

    @classmethod
    def of(cls, people: DecidedPeople) -> Self:
        """Build a sample of numeric decisions, with bins between the deciles of people with a true value."""
        shares = np.linspace(0, 1, TENTHS + 1)[1:-1]
        decided = np.asarray(people.decided, dtype=np.float64)
        truth = None if people.truth is None else np.asarray(people.truth, dtype=np.float64)
        known = decided if truth is None else decided[find_labelled(truth)]
        edges = np.unique(np.quantile(known, shares, method="inverted_cdf"))
        bins = np.searchsorted(edges, decided, side="left")
        return cls(people, people.memberships, bins, decided, truth, float(np.median(decided)))

    @property
    def values(self) -> dict[str, Floats]:
        """Numbers whose means are measured, by metric. All but ``mean`` are NaN if the true value is unknown."""
        if self.truth is None:
            return {"mean": self.decided}
        residual = self.decided - self.truth
        errors = {"mean_residual": residual, "mean_absolute_error": np.abs(residual)}
        return {"mean": self.decided, "true_mean": self.truth, **errors}

    def count(self, group: Integers, groups: int) -> GroupCounts:
        sample_weight, labelled = self.people.sample_weight, self.labelled
        weighting = "" if sample_weight is None else EFFECTIVE
        estimators: dict[str, Estimator] = {}
        for metric, values in self.values.items():
            rows = group >= 0 if metric in DECISION_METRICS else (group >= 0) & labelled
            weights = None if sample_weight is None else sample_weight[rows]
            moments = number_moments(values[rows], group[rows], groups, weights)
            size = np.bincount(group[rows], minlength=groups)
            limits = partial(_limit_mean, moments, float(np.ptp(values[rows])) if size.any() else 0.0)
            estimators[metric] = Estimator(metric, size, moments.n, limits, SKEWED, weighting)
        people, n = estimators["mean"].people, estimators["mean"].n
        # The first part holds the people without a group.
        order, ends = np.lexsort((self.decided, group)), np.cumsum([(group < 0).sum(), *people])[:-1]
        ordered = np.split(self.decided[order], ends)[1:]
        ordered_weights = [None] * groups if sample_weight is None else np.split(sample_weight[order], ends)[1:]

        def compute(share: float, i: int, confidence: float) -> Sequence[float]:
            ends = quantile_interval(ordered[i], share, confidence, ordered_weights[i])
            return sample_quantile(ordered[i], share, ordered_weights[i]), *(ends or (np.nan, np.nan))

        for metric, share in QUANTILES.items():
            estimators[metric] = Estimator(
                metric,
                people,
                n,
                limit_each(partial(compute, share)),
                ORDERED,
                weighting,
                unknown="too few people for an interval of this quantile",
            )
        halves = (self.decided > self.median).astype(np.int64)
        return GroupCounts(people, n, estimators, count_labels(group, groups, halves, HALVES, labelled))


def _limit_mean(moments: NumberMoments, reach: float, groups: Integers, confidence: float) -> Limits:
    """Compute the means of the groups with their limits, given the range of all numbers."""
    mean, variance, skewness, n = moments
    moments = NumberMoments(mean[groups], variance[groups], skewness[groups], n[groups])
    return Limits(moments.mean, *skewed_mean_interval(moments, confidence, reach=reach))
