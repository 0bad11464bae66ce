"""Groups by one protected attribute or several, with their metrics and the gaps between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from pydantic import Field

from evenhand.core.document import WIDE_ROWS
from evenhand.core.result_part import ResultPart
from evenhand.core.text import list_some
from evenhand.groups.label_coverage import PREFIX, LabelCoverage
from evenhand.stats.metric_specs import DECISION_METRICS, METRICS
from evenhand.stats.quantity import Observed, Quantity, Unknown, quantity_value

ASSUMPTION = (
    "The estimates assume that the probabilities are calibrated, and that among people with the same inputs of the "
    "proxy (name, address) the decision does not depend on the group. Otherwise they are biased. The bounds only "
    "assume calibrated probabilities."
)


def optional(default: Any) -> Any:
    """Build a field that is left out of the JSON if it is empty."""
    return Field(default, exclude_if=lambda value: not value)


class Bounds(NamedTuple):
    """Bounds of a number without an estimate."""

    low: float
    high: float


class Group(ResultPart):
    """People with the same values of one or more protected attributes.

    Attributes:
        values: Value of each attribute as spelled in the data, such as ``{"sex": "Female"}``.
        size: Number of people.
        effective_size: Kish's effective sample size; None without weights.
        small: Whether the (effective) size is below the minimum for gaps.
        metrics: Metrics by name. For decisions: ``selection_rate``, ``base_rate`` (share with a favourable true label),
            ``true_positive_rate``, ``false_positive_rate``, ``accuracy``, ``precision``, ``false_discovery_rate``
            (share of the selected with an unfavourable true label), ``false_omission_rate`` (share of the others with
            a favourable true label), ``mean_score`` (of the favourable label) and ``calibration_gap`` (mean score minus
            base rate). For numbers: see ``NUMBER_TITLES``. For several labels, with true labels: ``label_accuracy``
            and ``macro_recall`` (mean true positive rate of all labels); for grades also ``too_low`` and ``too_high``
            (share assigned a lower or higher grade than the true one) and ``mean_grade_error`` (assigned minus true,
            in steps of the order).
        label_coverage: Number of people with a true label by decision. None if all or none have a true label.
        rates: Label -> one-vs-rest rates of this label, by name: ``label_share``; with true labels also
            ``label_base_share``, ``label_true_positive_rate``, ``label_false_positive_rate`` and ``label_precision``;
            for grades above the lowest also ``at_least``, the share assigned this or a higher grade.
        confusion: Number of people by true label (rows) and assigned label (columns), in the order of
            ``LabelSet.labels``. Empty without true labels.
        bounds: Of a group only known by probability, the minimum and maximum selection rate without the assumption of
            ``ProxyRates``, given the decisions and calibrated probabilities, with the sampling error.
    """

    values: dict[str, str]
    size: int
    effective_size: float | None = None
    small: bool
    metrics: dict[str, Quantity] = Field(default_factory=dict)
    label_coverage: LabelCoverage | None = None
    rates: dict[str, dict[str, Quantity]] = optional({})
    confusion: tuple[tuple[int, ...], ...] = optional(())
    bounds: Bounds | None = optional(None)

    @property
    def label(self) -> str:
        """Values of the group, joined by commas."""
        return ", ".join(self.values.values())

    @property
    def description(self) -> str:
        """Attributes and values that define the group: ``sex Female and race White``."""
        return " and ".join(f"{name} {value}" for name, value in self.values.items())

    def caution(self, name: str = "own_metric") -> str:
        """Describe the selective true labels that a metric depends on; empty if there are none."""
        return "" if name in DECISION_METRICS or self.label_coverage is None else self.label_coverage.caution

    def numbers(self) -> Iterator[tuple[str, str, Quantity]]:
        """Yield the label, name and value of all metrics; the label is empty for metrics over all labels."""
        for name, quantity in self.metrics.items():
            yield "", name, quantity
        for label, rates in self.rates.items():
            for name, quantity in rates.items():
                yield label, name, quantity

    def without_numbers(self, reason: str) -> Self:
        """Replace all numbers except the size."""
        unknown = Unknown(reason=reason)
        return self.model_copy(
            update={
                "metrics": dict.fromkeys(self.metrics, unknown),
                "rates": {label: dict.fromkeys(rates, unknown) for label, rates in self.rates.items()},
                "confusion": (),
                "label_coverage": None,
            }
        )


class Gap(ResultPart):
    """Gap in one metric: between the highest and the lowest group, or between each group and a reference.

    Attributes:
        name: Name of the gap, as in ``stats.metric_specs``.
        metric: Metric of the groups that is compared.
        value: The gap. Differences are non-negative. Ratios are in [0, 1], except for ratios to a reference. The
            interval covers the true gap between the groups with the largest true difference; for more than two groups,
            it is simultaneous over all pairs.
        best, worst: Groups with the highest and the lowest value. Empty if nothing is compared.
        reference: Reference group of the comparison. Empty if the highest and the lowest are compared.
        by_group: With a reference, the value of each other group minus that of the reference (ratios: divided by it;
            equalized odds: without sign), with simultaneous intervals. ``value`` is the largest absolute difference or
            the smallest ratio.
        not_assessable: Omitted groups, with the denominator that is too small.
        caution: Caution about selective true labels in the compared groups (see ``LabelCoverage``), or an empty
            string.
        label: Compared label; for the metric ``at_least``, the lowest included grade. Empty for gaps over all
            labels.
        largest_at: For the largest gap over all labels, the label with this gap.
        bounds: Of groups only known by probability, the bounds of the gap without the assumption of ``ProxyRates``.
    """

    name: str
    metric: str
    value: Quantity
    best: str = ""
    worst: str = ""
    reference: str = ""
    by_group: dict[str, Observed] = Field({})
    not_assessable: dict[str, int] = Field({})
    caution: str = ""
    label: str = optional("")
    largest_at: str = optional("")
    bounds: Bounds | None = optional(None)

    def without_counts(self, groups: Collection[str]) -> Self:
        """Remove the denominators of the given groups, unless they count all people of the group."""
        if self.metric not in METRICS or METRICS[self.metric].denominator == "people":
            return self
        kept = {label: n for label, n in self.not_assessable.items() if label not in groups}
        return self.model_copy(update={"not_assessable": kept})


class Breakdown(ResultPart):
    """Groups by one protected attribute, or by several (their intersections).

    Attributes:
        by: Attributes.
        groups: Groups of people with known values.
        gaps: Gaps between the groups. For several labels, the largest gap in a rate over all labels comes before the
            gaps of each label; the intervals of gaps with the same name are simultaneous.
        unknown: Number of people without a group because one of their values is unknown.
    """

    by: tuple[str, ...]
    groups: tuple[Group, ...]
    gaps: tuple[Gap, ...]
    unknown: int = 0

    @property
    def key(self) -> str:
        """Name of the attributes in conditions: ``sex_x_race``."""
        return "_x_".join(self.by)

    @property
    def listed(self) -> tuple[Group, ...]:
        """Groups in table order: if there are many, by ascending selection rate with small groups last."""
        if len(self.groups) <= WIDE_ROWS:
            return self.groups

        def rank(group: Group) -> tuple[bool, float]:
            rate = quantity_value(group.metrics.get("selection_rate", Unknown(reason="")))
            return group.small or rate is None, rate or 0.0

        return tuple(sorted(self.groups, key=rank))

    def without_small_groups(self, reason: str) -> Self:
        """Remove the decisions about small groups and the counts that reveal them.

        Args:
            reason: Reason why the numbers are unknown.
        """
        groups = tuple(group.without_numbers(reason) if group.small else group for group in self.groups)
        # Gaps over all labels name omitted groups as ``label: group``.
        small = {
            name
            for group in groups
            if group.small
            for name in (group.label, *(f"{label}: {group.label}" for label in group.rates))
        }
        return self.model_copy(update={"groups": groups, "gaps": tuple(gap.without_counts(small) for gap in self.gaps)})

    def gap(self, name: str, label: str = "") -> Gap | None:
        """Return the gap with this name, of one label or over all labels; None if there is none."""
        return next((gap for gap in self.gaps if (gap.name, gap.label) == (name, label)), None)


class ProxyRates(Breakdown):
    """Selection rates of groups whose membership is only known as a probability, and their largest difference.

    Attributes:
        groups: Groups, with the ``selection_rate`` under the assumption and its bounds. The interval includes the
            uncertainty of memberships. Sizes are sums of probabilities (and weights), rounded; effective sizes are
            Kish's, of probabilities and weights.
        gaps: ``probable_selection_rate_difference``, simultaneous over all pairs of groups, as are its bounds. Unknown
            if fewer than two groups are large enough.
        unknown: Number of excluded people without probabilities.
        people: Number of people with known probabilities.
        assumption: Assumption of the estimates.
    """

    people: int
    assumption: str = ASSUMPTION


def describe_selective(groups: Iterable[Group]) -> str:
    """List the groups with selective labels; empty if there are none."""
    cautions = [f"{group.label}: {group.caution().removeprefix(PREFIX)}" for group in groups if group.caution()]
    more = f"; and in {len(cautions) - 3} more groups" if len(cautions) > 3 else ""
    return f"{PREFIX}{'; '.join(cautions[:3])}{more}" if cautions else ""


def list_counts(groups: Mapping[str, int]) -> str:
    """List groups with their counts: ``B (24), C (3)``."""
    return list_some([f"{label} ({n:,})" for label, n in groups.items()])
