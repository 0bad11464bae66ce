"""Selection rates of groups whose membership is only known as a probability."""

from __future__ import annotations

from collections.abc import Iterator
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


class Ends(NamedTuple):
    """Bounds of a number without an estimate."""

    low: float
    high: float


class ProxyRate(ResultPart):
    """Selection rate of one group.

    Attributes:
        group: Name of the group.
        expected_people: Sum of the probabilities.
        effective_size: Kish's effective sample size of the probabilities and weights.
        small: Whether the effective size is below the minimum for differences.
        estimate: Rate under the assumption of ``ProxyRates``. The interval includes the uncertainty of memberships.
        low, high: Minimum and maximum rate without the assumption, given the decisions and calibrated probabilities,
            with the sampling error at this confidence level.
    """

    group: str
    expected_people: float
    effective_size: float
    small: bool
    estimate: Quantity
    low: float
    high: float


class ProxyDifference(ResultPart):
    """Largest difference in selection rates between two groups.

    Attributes:
        best, worst: Groups with the highest and the lowest estimated rate.
        estimate: Difference under the assumption of ``ProxyRates``, simultaneous over all pairs of groups.
        low, high: Bounds of the largest difference without the assumption, also simultaneous.
    """

    best: str
    worst: str
    estimate: Estimated
    low: float
    high: float


class ProxyRates(ResultPart):
    """Selection rates of groups whose membership is only known as a probability, and their largest difference.

    Attributes:
        by: Attribute of the groups, such as ``race``.
        assumption: Assumption of the estimates.
        people: Number of people with known probabilities.
        unknown: Number of excluded people without probabilities.
        weighted: Whether people have weights.
        rates: Rates of each group.
        difference: Largest difference; None if fewer than two groups are large enough.
    """

    by: str
    assumption: str
    people: int
    unknown: int = 0
    weighted: bool = False
    rates: tuple[ProxyRate, ...]
    difference: ProxyDifference | None

    def rate(self, group: str) -> ProxyRate:
        """Return the rate of one group."""
        return next(rate for rate in self.rates if rate.group == group)

    def numbers(self, min_size: int) -> Iterator[ResultNumber]:
        """Yield the estimate and the bounds of the largest difference between groups of at least the given size."""
        small = {rate.group: round(rate.effective_size) for rate in self.rates if rate.small}
        left_out = describe_left_out(small, f"fewer than {min_size} people")
        unknown, difference = Unknown(reason="two groups must be large enough"), self.difference
        estimate = unknown if difference is None else difference.estimate
        yield ResultNumber("probable_selection_rate_difference", self.by, "", estimate, left_out=left_out)
        ends = unknown if difference is None else Ends(difference.low, difference.high)
        yield ResultNumber("bounded_selection_rate_difference", self.by, "", ends, left_out=left_out)
