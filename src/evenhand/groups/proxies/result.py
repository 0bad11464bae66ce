"""What is known of groups whose members are known by probability alone."""

from __future__ import annotations

from typing import NamedTuple

from evenhand.core.result_part import ResultPart
from evenhand.stats.quantity import Estimated, Quantity, Unknown

ASSUMPTION = (
    "The estimates assume that the probabilities are calibrated, and that among people with the same inputs of the "
    "proxy (name, address) the decision does not depend on the group. Where it does they are biased; the bounds assume "
    "calibrated probabilities alone."
)
LABELS = " Estimates of error rates assume the same of the true label."


class Ends(NamedTuple):
    """Bounds of a number that has no estimate."""

    low: float
    high: float


class ProxyRate(ResultPart):
    """One rate of one group that is known by probability.

    Attributes:
        group: its name.
        metric: ``selection_rate``; with true labels ``true_positive_rate`` and ``false_positive_rate`` too.
        expected_people: the sum of the probabilities, of those whom the rate is about.
        effective_size: how many people known to belong would say as much (Kish), of these probabilities and weights.
        small: whether this is below the smallest size that is compared; the group is then in no difference.
        estimate: under the assumption of ``ProxyRates``; its interval carries that memberships are not known.
        low, high: the least and the largest rate that decisions and calibrated probabilities leave possible, without
            the assumption that decisions do not depend on the group; with what sampling adds at this confidence.
        sensitivity: by how much the estimate is off where members are selected by 1 (100 points) more often than
            others of the same probability; for d in place of 1, d times that. None where nothing is estimated.
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
    """The difference of one rate between two groups that are known by probability: the first minus the second.

    Attributes:
        metric, first, second: of which rate, between which groups.
        estimate: under the assumption of ``ProxyRates``, its interval simultaneous over all pairs.
        low, high: what the difference can be without it, likewise simultaneous.
    """

    metric: str
    first: str
    second: str
    estimate: Quantity
    low: float
    high: float


class ProxyRates(ResultPart):
    """Rates of groups that are known by probability, and their differences.

    Attributes:
        by: what the groups are by, such as ``race``.
        assumption: what the estimates rest on.
        people: whose probabilities are known.
        unknown: people without any probability, left out.
        weighted: whether people count by weights.
        rates: of each group.
        differences: between each two groups that are large enough, for every rate.
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
        return next(one for one in self.rates if (one.group, one.metric) == (group, metric))

    def largest_difference(self, metric: str) -> Quantity:
        """Return the largest difference of a rate between two groups, under the assumption.

        Its ends hold for all pairs. Unknown where fewer than two groups are large enough.
        """
        pairs = [one.estimate for one in self.differences if one.metric == metric]
        known = [one for one in pairs if isinstance(one, Estimated)]
        if not known:
            reason = next((one.reason for one in pairs if isinstance(one, Unknown)), "two groups must be large enough")
            return Unknown(reason=reason)
        widest = max(known, key=lambda one: abs(one.value))
        low, high = _furthest([(one.low, one.high) for one in known])
        return widest.model_copy(update={"value": abs(widest.value), "low": low, "high": high})

    def largest_bounds(self, metric: str) -> tuple[float, float] | None:
        """Return how large the largest difference of a rate is at least and at most, without the assumption.

        None where fewer than two groups are large enough.
        """
        pairs = [(one.low, one.high) for one in self.differences if one.metric == metric]
        return _furthest(pairs) if pairs else None

    def difference(self, first: str, second: str, metric: str = "selection_rate") -> ProxyDifference | None:
        """Return the difference of a rate between two groups, in the order in which they were given, if compared."""
        wanted = (first, second, metric)
        return next((one for one in self.differences if (one.first, one.second, one.metric) == wanted), None)


def _furthest(intervals: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the ends of the largest absolute value of numbers, from intervals that hold for all of them."""
    nearest = max(max(low, -high, 0.0) for low, high in intervals)
    return nearest, max(max(high, -low) for low, high in intervals)
