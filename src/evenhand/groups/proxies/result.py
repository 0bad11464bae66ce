"""Rates of groups whose membership is known only as a probability."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from evenhand.core.result import ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.breakdown import describe_left_out
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
    """

    group: str
    metric: str
    expected_people: float
    effective_size: float
    small: bool
    estimate: Quantity
    low: float
    high: float


class ProxyDifference(ResultPart):
    """Largest difference of one rate between two groups.

    Attributes:
        metric: Rate.
        best, worst: Groups with the highest and the lowest rate, by the estimates.
        estimate: Difference under the assumption of ``ProxyRates``, simultaneous over all pairs of groups.
        low, high: Bounds of the largest difference without the assumption, also simultaneous.
    """

    metric: str
    best: str
    worst: str
    estimate: Estimated
    low: float
    high: float


class ProxyRates(ResultPart):
    """Rates of groups whose membership is known only as a probability, and their differences.

    Attributes:
        by: Attribute of the groups, such as ``race``.
        assumption: Assumption of the estimates.
        people: Number of people with known probabilities.
        unknown: Number of people without probabilities, who are left out.
        weighted: Whether people have weights.
        rates: Rates of each group.
        differences: Largest difference of each rate; none if fewer than two groups are large enough.
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

    def difference(self, metric: str = "selection_rate") -> ProxyDifference | None:
        """Return the largest difference of a rate; None if fewer than two groups are large enough."""
        return next((difference for difference in self.differences if difference.metric == metric), None)

    def numbers(self, min_size: int, caution: Callable[[str], str]) -> Iterator[ResultNumber]:
        """Yield the estimate and the bounds of the largest difference of each rate.

        Args:
            min_size: Minimum effective size of a compared group.
            caution: Function that describes the selective true labels of a metric.
        """
        for metric in dict.fromkeys(rate.metric for rate in self.rates):
            rates = [rate for rate in self.rates if rate.metric == metric]
            small = {rate.group: round(rate.effective_size) for rate in rates if rate.small}
            notes = "", caution(metric), describe_left_out(small, min_size)
            difference, unknown = self.difference(metric), Unknown(reason="two groups must be large enough")
            estimate = unknown if difference is None else difference.estimate
            yield ResultNumber(f"probable_{metric}_difference", self.by, "", estimate, *notes)
            ends = unknown if difference is None else Ends(difference.low, difference.high)
            yield ResultNumber(f"bounded_{metric}_difference", self.by, "", ends, *notes)
