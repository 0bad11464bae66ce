"""Estimators: a metric of each group, with an interval at any level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.mean import ADJUSTED
from evenhand.stats.metric_specs import metric_spec
from evenhand.stats.proportion import DIFFERENCE_METHOD, EXACT, Limits, ProportionLimits, mean_limits
from evenhand.stats.quantity import Observed, Quantity, Unknown

NO_WEIGHT = "no person here has a weight above 0"


@dataclass(frozen=True, eq=False)
class Estimator:
    """A metric of each group; arrays have shape (groups,).

    Attributes:
        metric: Name of the metric.
        people: Number of people in the denominator.
        n: Effective size of the denominator; without weights, ``people``.
        limits: Function that computes the values and limits of groups with n > 0, given their positions and a
            confidence level. Groups without an interval have NaN limits.
        method: Name of the interval method.
        weighting: Suffix of the methods of weighted intervals. Empty without weights.
        unknown: Reason why each group has no number, or an empty string; or one reason for all groups without an
            interval.
    """

    metric: str
    people: Integers
    n: Floats | Integers
    limits: Callable[[Integers, float], Limits]
    method: str
    weighting: str = ""
    unknown: str | Sequence[str] = ""

    @property
    def difference_method(self) -> str:
        """Name of the interval method for differences."""
        return DIFFERENCE_METHOD if self.method == EXACT else f"{self.method}, limits squared and added"

    @property
    def denominator(self) -> str:
        """Description of the people in the denominator."""
        return metric_spec(self.metric).denominator

    @property
    def requirement(self) -> str:
        """Description of the people that a compared group must have."""
        return f"{self.denominator}, and a known {metric_spec(self.metric).title}" if self.unknown else self.denominator

    def comparable(self, min_size: int) -> Booleans:
        """Return a mask of the groups that are large enough for a comparison, and have a number."""
        large = np.asarray(self.n >= min_size)
        return large if isinstance(self.unknown, str) else large & [reason == "" for reason in self.unknown]

    def measure(self, confidence: float) -> list[Quantity]:
        """Compute the metric of each group with its interval, or the reason why it is unknown."""
        quantities: list[Quantity] = [
            Unknown(reason=NO_WEIGHT if people else f"there are no {self.denominator} here")
            for people in self.people.tolist()
        ]
        present = np.flatnonzero(self.n > 0)
        limits = self.limits(present, confidence)
        method = self.method + self.weighting
        columns = (array.tolist() for array in (present, limits.value, limits.low, limits.high))
        for i, value, low, high in zip(*columns, strict=True):
            if np.isnan(low):
                quantities[i] = Unknown(reason=self.unknown if isinstance(self.unknown, str) else self.unknown[i])
            else:
                n = int(self.people[i])
                quantities[i] = Observed(value=value, n=n, low=low, high=high, confidence=confidence, method=method)
        return quantities


def limit_each(compute: Callable[[int, float], Sequence[float]]) -> Callable[[Integers, float], Limits]:
    """Build a function of several groups from one that returns the value and both limits of one group."""

    def limits(groups: Integers, confidence: float) -> Limits:
        rows = [compute(i, confidence) for i in groups.tolist()]
        return Limits(*np.array(rows, dtype=np.float64).reshape(-1, 3).T)

    return limits


def estimate_rate(
    metric: str, people: Integers, n: Floats | Integers, k: Floats | Integers, weighting: str = ""
) -> Estimator:
    """Estimate a share of people, k of n, with exact intervals.

    For a weighted sample, n is the size of an unweighted sample that estimates the rate as precisely, and k the
    weighted share of it (Korn & Graubard, "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data", Survey Methodology 1998).
    """

    def limits(groups: Integers, confidence: float) -> Limits:
        return ProportionLimits.of(k[groups], n[groups], confidence)

    return Estimator(metric, people, n, limits, EXACT, weighting)


def estimate_mean(
    metric: str,
    people: Integers,
    n: Floats | Integers,
    moments: tuple[Floats, Floats],
    ends: tuple[float, float],
    weighting: str = "",
) -> Estimator:
    """Estimate a mean of numbers within a range, from sample means and variances (divisor n - 1; 0 for one person)."""
    mean, variance = moments

    def limits(groups: Integers, confidence: float) -> Limits:
        sizes = np.maximum(n[groups], 1)
        return mean_limits((mean[groups], variance[groups], sizes), confidence, lower=ends[0], upper=ends[1])

    return Estimator(metric, people, n, limits, ADJUSTED, weighting)
