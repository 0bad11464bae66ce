"""Rates of groups whose membership is known only as a probability."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from evenhand.core.result import ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.breakdown import describe_left_out
from evenhand.groups.gaps import largest_absolute
from evenhand.stats.quantity import Estimated, Quantity, Unknown

ASSUMPTION = (
    "The estimates assume that the probabilities are calibrated, and that among people with the same inputs of the "
    "proxy (name, address) the decision does not depend on the group. Otherwise they are biased. The bounds only "
    "assume calibrated probabilities."
)
LABELS = " Estimates of error rates assume the same of the true label."


class Ends(NamedTuple):
    """Bounds of a number without an estimate."""

    low: float
    high: float


class ProxyRate(ResultPart):
    """One rate of one group.

    Attributes:
        group: Name of the group.
        metric: ``selection_rate``; with true labels also ``true_positive_rate`` and ``false_positive_rate``.
        expected_people: Sum of the probabilities of the people in the denominator.
        effective_size: Kish's effective size of these probabilities and weights.
        small: Whether the effective size is below the minimum for differences.
        estimate: Rate under the assumption of ``ProxyRates``. The interval includes the uncertainty of memberships.
        low, high: Minimum and maximum rate without the assumption, given the decisions and calibrated probabilities,
            with the sampling error at this confidence level.
        sensitivity: Bias of the estimate if members are selected more often by 1 (100 points) than others with the same
            probability; proportional for other differences. None without an estimate.
    """

    group: str
    metric: str
    expected_people: float
    effective_size: float
    small: bool
    estimate: Quantity
    low: float
    high: float
    sensitivity: float | None


class ProxyDifference(ResultPart):
    """Difference of one rate between two groups: the first minus the second.

    Attributes:
        metric, first, second: Rate and groups.
        estimate: Difference under the assumption of ``ProxyRates``, simultaneous over all pairs.
        low, high: Bounds without the assumption, also simultaneous.
    """

    metric: str
    first: str
    second: str
    estimate: Quantity
    low: float
    high: float

    @property
    def value(self) -> float:
        """Estimated difference; 0 if it is unknown."""
        return 0.0 if isinstance(self.estimate, Unknown) else self.estimate.value


class ProxyRates(ResultPart):
    """Rates of groups whose membership is known only as a probability, and their differences.

    Attributes:
        by: Attribute of the groups, such as ``race``.
        assumption: Assumption of the estimates.
        people: Number of people with known probabilities.
        unknown: Number of people without probabilities, who are left out.
        weighted: Whether people have weights.
        rates: Rates of each group.
        differences: Differences between all pairs of groups that are large enough, for each rate.
    """

    by: str
    assumption: str
    people: int
    unknown: int = 0
    weighted: bool = False
    rates: tuple[ProxyRate, ...]
    differences: tuple[ProxyDifference, ...]

    def rate(self, group: str, metric: str = "selection_rate") -> ProxyRate:
        """Return one rate of one group."""
        return next(rate for rate in self.rates if (rate.group, rate.metric) == (group, metric))

    def pairs(self, metric: str = "selection_rate") -> list[ProxyDifference]:
        """Return the differences of one rate."""
        return [difference for difference in self.differences if difference.metric == metric]

    def largest_difference(self, metric: str) -> Quantity:
        """Compute the largest absolute difference of a rate, under the assumption.

        Unknown if fewer than two groups are large enough.
        """
        estimates = [pair.estimate for pair in self.pairs(metric) if isinstance(pair.estimate, Estimated)]
        if not estimates:
            return Unknown(reason="two groups must be large enough")
        widest = max(estimates, key=lambda estimate: abs(estimate.value))
        low, high = largest_absolute((estimate.low, estimate.high) for estimate in estimates)
        return widest.model_copy(update={"value": abs(widest.value), "low": low, "high": high})

    def largest_bounds(self, metric: str) -> tuple[float, float] | None:
        """Bound the largest absolute difference of a rate, without the assumption.

        None if fewer than two groups are large enough.
        """
        pairs = self.pairs(metric)
        return largest_absolute((pair.low, pair.high) for pair in pairs) if pairs else None

    def difference(self, first: str, second: str, metric: str = "selection_rate") -> ProxyDifference | None:
        """Return the difference of a rate between two groups, in the order of the probabilities; None if unknown."""
        return next((pair for pair in self.pairs(metric) if (pair.first, pair.second) == (first, second)), None)

    def numbers(self, min_size: int, caution: Callable[[str], str]) -> Iterator[ResultNumber]:
        """Yield the estimate and the bounds of the largest difference of each rate.

        Args:
            min_size: Minimum effective size of a compared group.
            caution: Function that describes the selective true labels of a metric.
        """
        for metric in dict.fromkeys(rate.metric for rate in self.rates):
            small = {
                rate.group: round(rate.effective_size) for rate in self.rates if rate.small and rate.metric == metric
            }
            notes = "", caution(metric), describe_left_out(small, min_size)
            largest, bounds = self.largest_difference(metric), self.largest_bounds(metric)
            yield ResultNumber(f"probable_{metric}_difference", self.by, "", largest, *notes)
            ends = largest if bounds is None else Ends(*bounds)
            yield ResultNumber(f"bounded_{metric}_difference", self.by, "", ends, *notes)
