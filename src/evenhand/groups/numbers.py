"""Group metrics of numeric decisions: means, quantiles and errors of each group, and the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.engine import TENTHS, GroupCounts, Sample
from evenhand.groups.estimators import Computed, Estimator, SkewedMean
from evenhand.groups.label_coverage import HALVES, count_labels
from evenhand.groups.membership import DecidedPeople, Membership
from evenhand.stats.distribution import number_moments, quantile_interval, sample_quantile
from evenhand.stats.metric_specs import DECISION_METRICS
from evenhand.stats.quantity import Observed, Quantity, Unknown

QUANTILES = {"quantile_10": 0.1, "median": 0.5, "quantile_90": 0.9}
"""Compared quantiles, with the share of people below."""

ORDERED = "order statistics (binomial)"
EFFECTIVE = ", of effective sample sizes (weights)"


@dataclass(frozen=True)
class NumberSample(Sample):
    """Numeric decisions; arrays have shape (n,).

    Attributes:
        memberships: Groups by each protected attribute.
        decided: Numeric decisions.
        truth: True values, NaN if unknown; None without true values.
        weights: Sample weights; None without weights.
        median: Median of all decisions. The coverage of true values is counted in each half.
    """

    memberships: Sequence[Membership]
    decided: Floats
    truth: Floats | None
    weights: Floats | None
    median: float

    scored: ClassVar[str] = "mean"
    observed: ClassVar[str] = "true_mean"

    @classmethod
    def of(cls, people: DecidedPeople) -> Self:
        """Build a sample of numeric decisions."""
        decided = people.decided.astype(np.float64)
        truth = None if people.truth is None else people.truth.astype(np.float64)
        return cls(people.memberships, decided, truth, people.sample_weight, float(np.median(decided)))

    def __len__(self) -> int:
        return len(self.decided)

    def at(self, entries: Booleans) -> Self:
        truth, weights = (None if column is None else column[entries] for column in (self.truth, self.weights))
        return type(self)((), self.decided[entries], truth, weights, self.median)

    def labelled(self) -> Booleans | None:
        return None if self.truth is None else ~np.isnan(self.truth)

    def tenths(self) -> Integers:
        shares = np.linspace(0, 1, TENTHS + 1)[1:-1]
        edges = np.unique(np.quantile(self.decided, shares, method="inverted_cdf"))
        return np.asarray(np.searchsorted(edges, self.decided, side="left"))

    @property
    def values(self) -> dict[str, Floats]:
        """Numbers whose means are measured, by metric. All but ``mean`` are NaN if the true value is unknown."""
        if self.truth is None:
            return {"mean": self.decided}
        residual = self.decided - self.truth
        errors = {"mean_residual": residual, "mean_absolute_error": np.abs(residual)}
        return {"mean": self.decided, "true_mean": self.truth, **errors}

    def count(self, group: Integers, groups: int) -> GroupCounts:
        people, labelled = np.bincount(group, minlength=groups), self.labelled()
        weighting = "" if self.weights is None else EFFECTIVE
        estimators: dict[str, Estimator] = {}
        for metric, values in self.values.items():
            rows = slice(None) if labelled is None or metric in DECISION_METRICS else labelled
            weights = None if self.weights is None else self.weights[rows]
            moments = number_moments(values[rows], group[rows], groups, weights)
            size = np.bincount(group[rows], minlength=groups)
            reach = float(np.ptp(values[rows])) if size.any() else 0.0
            estimators[metric] = SkewedMean(metric, size, moments.n, moments, reach, weighting=weighting)
        n = estimators["mean"].n
        order, ends = np.lexsort((self.decided, group)), np.cumsum(people)[:-1]
        ordered = np.split(self.decided[order], ends)
        ordered_weights = None if self.weights is None else np.split(self.weights[order], ends)

        def compute(share: float, i: int, confidence: float) -> Quantity:
            weights = None if ordered_weights is None else ordered_weights[i]
            limits = quantile_interval(ordered[i], share, confidence, weights)
            if limits is None:
                return Unknown(reason="too few people for an interval of this quantile")
            return Observed(
                value=sample_quantile(ordered[i], share, weights),
                n=int(people[i]),
                low=limits[0],
                high=limits[1],
                confidence=confidence,
                method=ORDERED + weighting,
            )

        for metric, share in QUANTILES.items():
            estimators[metric] = Computed(
                metric,
                people,
                n,
                partial(compute, share),
                weighting=weighting,
                method=ORDERED,
                requirement=", enough for an interval of this quantile",
            )
        halves = (self.decided > self.median).astype(np.int64)
        coverage = count_labels(group, groups, halves, HALVES, labelled)
        return GroupCounts(people, n, self.weights is not None, estimators, coverage)
