"""Groups by one protected attribute or several, with their metrics and the gaps between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Self

from pydantic import Field

from evenhand.core.document import WIDE_ROWS
from evenhand.core.result_part import ResultPart
from evenhand.core.text import list_some
from evenhand.groups.label_coverage import LabelCoverage
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Quantity, Unknown, quantity_value


class Group(ResultPart):
    """Everybody with the same values of some protected attributes.

    Attributes:
        values: attribute -> value in the data's own words, e.g. ``{"sex": "Female"}``.
        size: people in it.
        effective_size: how many people of equal weight say as much, where people have weights; else None.
        small: whether it has fewer people (by effective size) than the smallest denominator that is compared, and so is
            in no gap.
        metrics: name -> number. Names: ``selection_rate`` (share given the favourable label), ``base_rate``
            (share whose true label is favourable), ``true_positive_rate``, ``false_positive_rate``, ``accuracy``
            (share for whom the model is right about favourable or not), ``precision``, ``false_discovery_rate``
            (of those selected, the share whose true label is unfavourable), ``false_omission_rate`` (of those not
            selected, the share whose true label is favourable), ``mean_score`` (of the favourable label),
            ``calibration_gap`` (mean score - base rate). Without true labels there are the selection rate and the mean
            score alone.
        label_coverage: People with a true label by decision, which all metrics that need true labels rest on; None if
            everyone in the group has a true label, or true labels are not given.
    """

    values: dict[str, str]
    size: int
    effective_size: float | None = None
    small: bool
    metrics: dict[str, Quantity]
    label_coverage: LabelCoverage | None = None

    @property
    def label(self) -> str:
        """The group in words."""
        return ", ".join(self.values.values())


class Gap(ResultPart):
    """The distance between the best and the worst treated group under one metric.

    Attributes:
        name: ``demographic_parity_difference``, ``demographic_parity_ratio`` (worst / best selection rate),
            ``equal_opportunity_difference`` (true positive rates), ``equalized_odds_difference`` (the larger of
            the true and false positive rate gaps), ``calibration_difference``, ``accuracy_difference``,
            ``false_discovery_difference``, ``false_omission_difference``.
        metric: the groups' metric it is about.
        value: the gap; differences are >= 0, ratios in [0, 1]. Its interval is for the true gap between the groups that
            are truly furthest apart, whichever they are: with more than two groups it is simultaneous over all pairs.
        best, worst: labels of the groups with the highest and the lowest value here; empty where nothing is compared.
        reference: label of the group that every other one is compared with; empty where best and worst are compared.
        by_group: with a reference, group -> its value minus the reference's (the ratio: divided by it; equalized odds:
            without sign), with intervals that hold together; ``value`` is then the largest of them without sign (the
            ratio: the smallest).
        not_assessable: groups left out because the denominator of their rate is too small, and how large it is.
        caution: What to know of the gap: in which compared groups true labels are selective (see ``LabelCoverage``);
            empty if in none, and of gaps that need no true labels.
    """

    name: str
    metric: str
    value: Quantity
    best: str
    worst: str
    reference: str = ""
    by_group: dict[str, Quantity] = Field({})
    not_assessable: dict[str, int] = Field({})
    caution: str = ""

    def without_counts(self, groups: Collection[str]) -> Self:
        """Return the same without how large the denominator of some groups is, where it is not all their people."""
        if self.metric not in METRICS or METRICS[self.metric].denominator == "people":
            return self
        kept = {label: n for label, n in self.not_assessable.items() if label not in groups}
        return self.model_copy(update={"not_assessable": kept})


class Breakdown(ResultPart):
    """Groups by one protected attribute, or by several at once (their intersection).

    Attributes:
        by: the attributes.
        groups: everybody whose values are known.
        gaps: between the groups.
        unknown: how many people are in none of the groups because a value of theirs is unknown.
    """

    by: tuple[str, ...]
    groups: tuple[Group, ...]
    gaps: tuple[Gap, ...]
    unknown: int = 0

    @property
    def listed(self) -> tuple[Group, ...]:
        """The groups in the order of tables.

        Many are ordered by selection rate, the lowest first, and at the end those that are too small to compare.
        """
        if len(self.groups) <= WIDE_ROWS:
            return self.groups

        def rank(group: Group) -> tuple[bool, float]:
            rate = quantity_value(group.metrics.get("selection_rate", Unknown(reason="")))
            return group.small or rate is None, rate or 0.0

        return tuple(sorted(self.groups, key=rank))

    def without_small_groups(self, reason: str) -> Breakdown:
        """Return the same without what was decided about small groups, and without how many it was decided about.

        Args:
            reason: why their numbers are unknown.
        """
        left_out = Unknown(reason=reason)
        groups = tuple(
            one.model_copy(update={"metrics": dict.fromkeys(one.metrics, left_out), "label_coverage": None})
            if one.small
            else one
            for one in self.groups
        )
        small = {group.label for group in groups if group.small}
        return self.model_copy(update={"groups": groups, "gaps": tuple(gap.without_counts(small) for gap in self.gaps)})

    def gap(self, name: str) -> Gap | None:
        """Return the gap of that name, if it could be computed."""
        return next((gap for gap in self.gaps if gap.name == name), None)


def describe_left_out(groups: Mapping[str, int], least: int) -> str:
    """Describe the groups, with their sizes, that are too small for a number; empty without any."""
    if not groups:
        return ""
    return f"fewer than {least} people to count in {list_some([f'{label} ({n})' for label, n in groups.items()])}"
