"""Estimators: a metric of each group, with an interval at any level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.stats.distribution import NumberMoments, skewed_mean_interval
from evenhand.stats.mean import ADJUSTED
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.proportion import DIFFERENCE_METHOD, EXACT, Limits, ProportionLimits, mean_limits
from evenhand.stats.quantity import Observed, Quantity, Unknown

NO_WEIGHT = "no person here has a weight above 0"


@dataclass(frozen=True, eq=False)
class Estimator(ABC):
    """A metric of each group; arrays have shape (groups,).

    Attributes:
        metric: Name of the metric.
        people: Number of people in the denominator.
        n: Effective size of the denominator; without weights, ``people``.
        weighting: Suffix of the methods of weighted intervals. Empty without weights.
        method: Name of the interval method.
        requirement: Additional condition, apart from its size, for comparing a group; empty if there is none.
    """

    metric: str
    people: Integers
    n: Floats | Integers
    weighting: str = field(default="", kw_only=True)
    method: str = field(default="", kw_only=True)
    requirement: str = field(default="", kw_only=True)

    @property
    def difference_method(self) -> str:
        """Name of the interval method for differences."""
        return f"{self.method}, limits squared and added"

    @property
    def denominator(self) -> str:
        """Description of the people in the denominator."""
        return METRICS[self.metric if self.metric in METRICS else "own_metric"].denominator

    @abstractmethod
    def limits(self, groups: Integers, confidence: float) -> Limits:
        """Compute the values and limits of the given groups with n > 0. Groups without an interval have NaN limits."""

    def comparable(self, min_size: int) -> Booleans:
        """Return a mask of the groups that are large enough for a comparison."""
        return np.asarray(self.n >= min_size)

    def measure(self, confidence: float) -> list[Quantity]:
        """Compute the metric of each group with its interval, or the reason why it is unknown."""
        quantities: list[Quantity] = [
            Unknown(reason=NO_WEIGHT if people else f"there are no {self.denominator} here")
            for people in self.people.tolist()
        ]
        present = np.flatnonzero(self.n > 0)
        limits = self.limits(present, confidence)
        columns = (array.tolist() for array in (present, limits.value, limits.low, limits.high))
        for i, value, low, high in zip(*columns, strict=True):
            quantities[i] = Observed(
                value=value,
                n=int(self.people[i]),
                low=low,
                high=high,
                confidence=confidence,
                method=self.method + self.weighting,
            )
        return quantities


@dataclass(frozen=True, eq=False)
class Rate(Estimator):
    """A share of people, with exact intervals.

    For a weighted sample, n is the size of an unweighted sample that estimates the rate as precisely, and k the
    weighted share of it (Korn & Graubard, "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data", Survey Methodology 1998).

    Attributes:
        k: Number of people with the property, shape (groups,).
    """

    k: Floats | Integers
    method: str = field(default=EXACT, kw_only=True)

    difference_method = DIFFERENCE_METHOD

    def limits(self, groups: Integers, confidence: float) -> Limits:
        return ProportionLimits.of(self.k[groups], self.n[groups], confidence)


@dataclass(frozen=True, eq=False)
class Mean(Estimator):
    """A mean of bounded numbers.

    Attributes:
        values, variance: Sample mean and variance (divisor n - 1; 0 for one person), shape (groups,).
        lower, upper: Range of a single number.
    """

    values: Floats
    variance: Floats
    lower: float
    upper: float
    method: str = field(default=ADJUSTED, kw_only=True)

    def limits(self, groups: Integers, confidence: float) -> Limits:
        moments = self.values[groups], self.variance[groups], np.maximum(self.n[groups], 1)
        return mean_limits(moments, confidence, lower=self.lower, upper=self.upper)


@dataclass(frozen=True, eq=False)
class SkewedMean(Estimator):
    """A mean of possibly skewed numbers without a known range.

    Attributes:
        moments: Moments of each group.
        reach: Range of all numbers.
    """

    moments: NumberMoments
    reach: float
    method: str = field(default="Student's t, skewness removed (Hall)", kw_only=True)

    @property
    def values(self) -> Floats:
        """Mean of each group."""
        return self.moments.mean

    def limits(self, groups: Integers, confidence: float) -> Limits:
        mean, variance, skewness, n = self.moments
        moments = NumberMoments(mean[groups], variance[groups], skewness[groups], n[groups])
        return Limits(moments.mean, *skewed_mean_interval(moments, confidence, reach=self.reach))


@dataclass(frozen=True, eq=False)
class Computed(Estimator):
    """A metric with an interval that is computed for one group at a time.

    Attributes:
        compute: Function of the position of a group and a confidence level.
        defined: Mask of the groups that have the metric, shape (groups,). None if this depends on the confidence level.
    """

    compute: Callable[[int, float], Quantity]
    defined: Booleans | None = None

    def comparable(self, min_size: int) -> Booleans:
        large = super().comparable(min_size)
        return large if self.defined is None else large & self.defined

    def limits(self, groups: Integers, confidence: float) -> Limits:
        quantities = [self.compute(i, confidence) for i in groups.tolist()]
        missing = (np.nan, np.nan, np.nan)
        rows = [(one.value, one.low, one.high) if isinstance(one, Observed) else missing for one in quantities]
        return Limits(*np.array(rows, dtype=np.float64).reshape(-1, 3).T)

    def measure(self, confidence: float) -> list[Quantity]:
        return [self.compute(i, confidence) for i in range(len(self.people))]
