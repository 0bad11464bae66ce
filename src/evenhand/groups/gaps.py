"""Gaps between groups: of the best from the worst treated, or of every group from a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from evenhand.core.document import Block, Column, Note, Table, TableRow
from evenhand.core.text import join_names, list_some
from evenhand.core.typing import Floats, Integers
from evenhand.groups.breakdown import Breakdown, Gap, Group
from evenhand.groups.label_coverage import describe_selective
from evenhand.groups.label_result import LabelBreakdown, LabelGroup
from evenhand.groups.metrics import GroupCounts
from evenhand.stats.level import bonferroni
from evenhand.stats.metric_specs import DECISION_METRICS, GAP_TITLES, METRIC_TITLES, METRICS, unit_name
from evenhand.stats.proportion import (
    DIFFERENCE_METHOD,
    RATIO_METHOD,
    count_pairs,
    differences_from_reference,
    largest_difference,
    largest_difference_of_means,
    largest_difference_of_proportions,
    mean_differences_from_reference,
    ratios_to_reference,
    smallest_ratio_of_proportions,
)
from evenhand.stats.quantity import Observed, Proved, Quantity, Unknown, show_quantity

AnyGap = TypeVar("AnyGap", bound=Gap)


class GroupComparison(NamedTuple):
    """What gaps are computed from.

    Attributes:
        counted: what was counted in each group.
        labels: the groups in words, in the same order.
        confidence: of every interval.
        least: the smallest denominator of a rate that is compared.
        reference: the position of the group that every other one is compared with; None to compare best and worst.
    """

    counted: GroupCounts
    labels: Sequence[str]
    confidence: float
    least: int
    reference: int | None = None

    def note(self, groups: int, comparisons: int = 1) -> str:
        """Return what else a reader must know of the interval for a gap between so many groups."""
        compared = (count_pairs(groups) if self.reference is None else groups - 1) * comparisons
        return self.counted.weighting + describe_simultaneity(compared)

    def split(self, n: Floats | Integers) -> tuple[Integers, dict[str, int]]:
        """Return the positions of the groups with a denominator to compare, and the others with theirs."""
        enough = n >= self.least
        return np.flatnonzero(enough), {self.labels[i]: int(n[i]) for i in np.flatnonzero(~enough).tolist()}

    def why_unknown(self, usable: Integers, metric: str) -> str | None:
        """Return why groups with so much to compare have no gap; None where they have one."""
        if self.reference is not None and self.reference not in usable:
            return (
                f"{METRICS[metric].denominator} must number {self.least} in the reference group {self.reference_label}"
            )
        if len(usable) < 2:
            return f"{METRICS[metric].denominator} must number {self.least} in at least two groups"
        return None

    @property
    def reference_label(self) -> str:
        """The group that every other one is compared with; nothing without one."""
        return "" if self.reference is None else self.labels[self.reference]


def describe_simultaneity(comparisons: int, correction: str = " (Bonferroni)") -> str:
    """Describe among how many comparisons an interval holds simultaneously; empty for one comparison."""
    return "" if comparisons == 1 else f", simultaneous over {comparisons} comparisons{correction}"


def widest_gap(
    name: str,
    metric: str,
    labels: Sequence[str],
    compared: tuple[Floats, Floats, Floats],
    *,
    people: int,
    confidence: float,
    method: str,
    left_out: dict[str, int],
) -> Gap:
    """Return the highest minus the lowest of some numbers, from limits of each that hold together.

    Args:
        name, metric: of the gap.
        labels: the groups that are compared.
        compared: their numbers and limits, shape (groups,) each.
        people: how many they have together.
        confidence, method: of the interval.
        left_out: groups that are not compared.
    """
    values = compared[0]
    low, high = largest_difference(*compared)
    best, worst = _find_extremes(values)
    difference = float(values[best] - values[worst])
    return Gap(
        name=name,
        metric=metric,
        value=Observed(value=difference, n=people, low=low, high=high, confidence=confidence, method=method),
        best=labels[best],
        worst=labels[worst],
        not_assessable=left_out,
    )


def compute_gaps(comparison: GroupComparison) -> tuple[Gap, ...]:
    """Return the gaps between two or more groups, each over those whose rate rests on enough people.

    With a reference, a gap is the furthest that any group lies from it, and every group's own distance is given too. A
    gap that fewer than two groups have, or the reference has not, is unknown, with the reason. There is none of what is
    not known: true labels, scores.
    """
    if len(comparison.labels) < 2:
        return ()
    found = [
        difference_gap("demographic_parity_difference", "selection_rate", comparison),
        _ratio_gap("demographic_parity_ratio", "selection_rate", comparison),
    ]
    if "base_rate" in comparison.counted.rates:
        found += [
            difference_gap("equal_opportunity_difference", "true_positive_rate", comparison),
            _equalized_odds_gap(comparison),
            difference_gap("accuracy_difference", "accuracy", comparison),
            difference_gap("false_discovery_difference", "false_discovery_rate", comparison),
            difference_gap("false_omission_difference", "false_omission_rate", comparison),
        ]
    if "calibration_gap" in comparison.counted.moments:
        found.append(mean_gap("calibration_difference", "calibration_gap", comparison))
    return tuple(found)


def difference_gap(name: str, metric: str, comparison: GroupComparison, *, comparisons: int = 1) -> Gap:
    """Return the gap of a rate between the groups, one of so many ``comparisons`` that are to hold together."""
    counts = comparison.counted.rates[metric]
    k, n = counts.k, counts.n
    confidence = bonferroni(comparison.confidence, comparisons)
    bounds = _Bounds(
        DIFFERENCE_METHOD,
        lambda usable: k[usable] / n[usable],
        lambda usable: largest_difference_of_proportions(k[usable], n[usable], confidence),
        lambda usable, own: differences_from_reference(k[usable], n[usable], own, confidence),
    )
    return _compare_numbers(name, metric, comparison, n, counts.people, bounds, comparisons=comparisons)


def _ratio_gap(name: str, metric: str, comparison: GroupComparison) -> Gap:
    counts = comparison.counted.rates[metric]
    k, n, confidence = counts.k, counts.n, comparison.confidence
    bounds = _Bounds(
        RATIO_METHOD,
        lambda usable: k[usable] / n[usable],
        lambda usable: smallest_ratio_of_proportions(k[usable], n[usable], confidence),
        lambda usable, own: ratios_to_reference(k[usable], n[usable], own, confidence),
        ratio=True,
    )
    return _compare_numbers(name, metric, comparison, n, counts.people, bounds)


def _equalized_odds_gap(comparison: GroupComparison) -> Gap:
    """Return the larger of the two rates' gaps (Hardt, Price & Srebro, NeurIPS 2016); both rates are needed."""
    name = "equalized_odds_difference"
    parts = [
        difference_gap(name, metric, comparison, comparisons=2)
        for metric in ("true_positive_rate", "false_positive_rate")
    ]
    left_out = parts[1].not_assessable | parts[0].not_assessable
    known = [(part, part.value) for part in parts if isinstance(part.value, Observed)]
    if len(known) < 2:
        unknown = next(part for part in parts if isinstance(part.value, Unknown))
        return unknown.model_copy(update={"not_assessable": left_out})
    larger, value = max(known, key=lambda pair: pair[1].value)
    # The true larger gap lies between the larger of the lower and the larger of the upper ends.
    low, high = (max(getattr(quantity, end) for _, quantity in known) for end in ("low", "high"))
    ends = value.model_copy(update={"low": low, "high": high})
    by_group = _larger_distances(*(part.by_group for part in parts))
    return larger.model_copy(update={"value": ends, "not_assessable": left_out, "by_group": by_group})


def _larger_distances(first: dict[str, Quantity], second: dict[str, Quantity]) -> dict[str, Quantity]:
    """Return for each group the larger of two distances, without their signs; none where one of them is not known."""
    found: dict[str, Quantity] = {}
    for label in first.keys() & second.keys():
        pair = [one for one in (first[label], second[label]) if isinstance(one, Observed)]
        sides = [_drop_sign(one) for one in pair]
        largest = max(pair, key=lambda one: abs(one.value))
        low, high = (max(side[i] for side in sides) for i in range(2))
        found[label] = largest.model_copy(update={"value": abs(largest.value), "low": low, "high": high})
    return {label: found[label] for label in first if label in found}


def _drop_sign(distance: Observed) -> tuple[float, float]:
    """Return the interval of the distance without its sign."""
    return max(0.0, distance.low, -distance.high), max(distance.high, -distance.low)


def mean_gap(name: str, metric: str, comparison: GroupComparison) -> Gap:
    """Compute the gap of a mean between the groups."""
    moments, confidence = comparison.counted.moments[metric], comparison.confidence
    ends = {"lower": moments.lower, "upper": moments.upper}

    def sample(usable: Integers) -> tuple[Floats, Floats, Floats | Integers]:
        return moments.mean[usable], moments.variance[usable], moments.effective[usable]

    bounds = _Bounds(
        "squared and added limits of Student's t, observations added",
        lambda usable: moments.mean[usable],
        lambda usable: largest_difference_of_means(*sample(usable), confidence, **ends),
        lambda usable, own: mean_differences_from_reference(sample(usable), own, confidence, **ends),
    )
    return _compare_numbers(name, metric, comparison, moments.effective, moments.people, bounds)


def add_cautions(gaps: Iterable[AnyGap], groups: Iterable[Group | LabelGroup]) -> tuple[AnyGap, ...]:
    """Return the gaps, with a caution on those that rest on selective true labels.

    The caution of a gap names the groups that it compares; of an unknown gap, all groups that are large enough.
    """
    coverage = {group.label: group.label_coverage for group in groups if not group.small}

    def caution(gap: Gap) -> str:
        left_out = () if isinstance(gap.value, Unknown) else gap.not_assessable
        return "" if gap.metric in DECISION_METRICS else describe_selective(coverage, left_out)

    return tuple(gap.model_copy(update={"caution": caution(gap)}) for gap in gaps)


class _Bounds(NamedTuple):
    """How a number of groups is compared, from the positions of those that are.

    Attributes:
        method: of the intervals.
        values: the number of each group.
        among: limits of the largest difference, or smallest ratio, of two groups.
        against: limits of the difference or ratio of each group to the reference, which is at a position among them.
        ratio: whether numbers are divided, not subtracted.
    """

    method: str
    values: Callable[[Integers], Floats]
    among: Callable[[Integers], tuple[float, float]]
    against: Callable[[Integers, int], tuple[Floats, Floats]]
    ratio: bool = False


def _compare_numbers(
    name: str,
    metric: str,
    comparison: GroupComparison,
    n: Floats | Integers,
    people: Integers,
    bounds: _Bounds,
    *,
    comparisons: int = 1,
) -> Gap:
    """Return the gap of a number between the groups that it can be compared of.

    Args:
        name, metric: of the gap.
        comparison: the groups.
        n: what the number of each group rests on.
        people: how many that are.
        bounds: the numbers, and how they are compared.
        comparisons: how many gaps are to hold together.
    """
    usable, left_out = comparison.split(n)
    reason = comparison.why_unknown(usable, metric)
    if reason is not None:
        return _unknown_gap(name, metric, comparison, left_out, reason)
    values, method = bounds.values(usable), bounds.method + comparison.note(len(usable), comparisons)
    if comparison.reference is not None:
        own = int(np.searchsorted(usable, comparison.reference))
        if bounds.ratio and values[own] == 0:
            reason = f"the rate of {comparison.reference_label} is 0, and nothing can be divided by it"
            return _unknown_gap(name, metric, comparison, left_out, reason)
        distances = values / values[own] if bounds.ratio else values - values[own]
        limits = bounds.against(usable, own)
        return _reference_gap(
            name, metric, comparison, usable, people, distances, limits, method, left_out, ratio=bounds.ratio
        )
    best, worst = _find_extremes(values)
    high, low = float(values[best]), float(values[worst])
    value: Observed | Unknown = Unknown(reason="the highest rate is 0, and nothing can be divided by it")
    if high > 0 or not bounds.ratio:
        least, most = bounds.among(usable)
        value = Observed(
            value=low / high if bounds.ratio else high - low,
            n=int(people[usable].sum()),
            low=least,
            high=most,
            confidence=comparison.confidence,
            method=method,
        )
    first, last = (comparison.labels[usable[position]] for position in (best, worst))
    return Gap(name=name, metric=metric, value=value, best=first, worst=last, not_assessable=left_out)


def _reference_gap(
    name: str,
    metric: str,
    comparison: GroupComparison,
    usable: Integers,
    people: Integers,
    distances: Floats,
    limits: tuple[Floats, Floats],
    method: str,
    left_out: dict[str, int],
    *,
    ratio: bool,
) -> Gap:
    """Return the furthest that a group lies from the reference (of ratios the smallest), with that of every group.

    The limits of all groups hold together, so the true furthest lies between the furthest of their ends.
    """
    others = usable[usable != comparison.reference]
    by_group = {
        comparison.labels[i]: Observed(
            value=value,
            n=int(people[i] + people[comparison.reference]),
            low=low,
            high=high,
            confidence=comparison.confidence,
            method=method,
        )
        for i, value, low, high in zip(
            others.tolist(),
            distances[usable != comparison.reference].tolist(),
            limits[0].tolist(),
            limits[1].tolist(),
            strict=True,
        )
    }
    own = comparison.reference_label
    if ratio:
        label, furthest = min(by_group.items(), key=lambda pair: pair[1].value)
        ends = [(one.low, one.high) for one in by_group.values()]
        low, high = (min(side) for side in zip(*ends, strict=True))
        update, below = {"low": low, "high": high}, furthest.value <= 1
    else:
        label, furthest = max(by_group.items(), key=lambda pair: abs(pair[1].value))
        ends = [_drop_sign(one) for one in by_group.values()]
        low, high = (max(side) for side in zip(*ends, strict=True))
        update, below = {"value": abs(furthest.value), "low": low, "high": high}, furthest.value <= 0
    best, worst = (own, label) if below else (label, own)
    return Gap(
        name=name,
        metric=metric,
        value=furthest.model_copy(update=update),
        best=best,
        worst=worst,
        reference=own,
        by_group=by_group,
        not_assessable=left_out,
    )


def _unknown_gap(name: str, metric: str, comparison: GroupComparison, left_out: dict[str, int], reason: str) -> Gap:
    return Gap(
        name=name,
        metric=metric,
        value=Unknown(reason=reason),
        best="",
        worst="",
        reference=comparison.reference_label,
        not_assessable=left_out,
    )


def _find_extremes(values: Floats) -> tuple[int, int]:
    """Return where the highest and the lowest are; on a tie of all, two different ones."""
    return int(np.argmax(values)), len(values) - 1 - int(np.argmin(values[::-1]))


# Gaps in words: what is compared, how large it is, and every group against a reference.


def format_not_assessable(gap: Gap) -> str:
    """Say which groups a gap leaves out: ``not assessable for: B (24)``; empty if none."""
    if not gap.not_assessable:
        return ""
    return f"not assessable for: {list_some([f'{label} ({n})' for label, n in gap.not_assessable.items()])}"


def small_group_notes(breakdowns: Iterable[Breakdown | LabelBreakdown], least: int) -> Iterator[Note]:
    """Yield which groups are too small to be compared: fewer people than ``least``."""
    for breakdown in breakdowns:
        small = [f"{group.label} ({group.size:,})" for group in breakdown.groups if group.small]
        if small:
            few = f"fewer than {least} people"
            yield Note(f"Not assessable by {join_names(breakdown.by)}: {few}, in no gap: {list_some(small)}", "caution")


def title_gap(gap: Gap) -> str:
    """Return what a gap compares, in words."""
    title = GAP_TITLES.get(gap.name, f"{gap.metric}: highest minus lowest")
    if not gap.reference:
        return title
    name, colon, _ = title.partition(":")
    verb = "divided by" if gap.name == "demographic_parity_ratio" else "furthest from"
    return f"{name}{colon} {METRIC_TITLES.get(gap.metric, gap.metric)} {verb} that of {gap.reference}"


def is_distinguishable(gap: Gap | None) -> bool:
    """Return whether a difference is known to be above 0: its interval does not reach it."""
    if gap is None or isinstance(gap.value, Unknown):
        return False
    return isinstance(gap.value, Proved) or gap.value.low > 0


def describe_size(gap: Gap) -> str:
    """Say how large a gap is in people per 1,000, and whether its interval tells it from no gap at all."""
    value = gap.value
    if isinstance(value, Unknown | Proved):
        return ""
    if gap.name == "demographic_parity_ratio":
        apart = value.high < 1 or value.low > 1
        size, none = "", "1, equal rates"
    else:
        apart, none = is_distinguishable(gap), "0"
        counted, low, high = (f"{1000 * number:.0f}" for number in (value.value, value.low, value.high))
        size = ""
        if gap.name in GAP_TITLES and gap.metric != "calibration_gap":
            people = METRICS[gap.metric].denominator if gap.metric in METRICS else "people"
            size = f"{counted} ({low} to {high}) in 1,000 {people}; "
    return f"{size}{'distinguishable' if apart else 'not distinguishable'} from {none}"


def reference_table(breakdown: Breakdown, levels: str, weighted: str) -> Iterator[Block]:
    """Yield how far every group lies from the reference, by every gap; nothing without a reference."""
    gaps = [gap for gap in breakdown.gaps if gap.by_group]
    if not gaps:
        return
    names = {GAP_TITLES.get(gap.name, gap.metric).partition(":")[0]: gap for gap in gaps}
    labels = [group.label for group in breakdown.listed if group.label != gaps[0].reference]
    yield Table(
        f"Every group against {gaps[0].reference} by {join_names(breakdown.by)}, observed{weighted}: its value minus "
        f"that of {gaps[0].reference} (ratio: divided by it); below each its {levels} interval, for all together",
        (Column(join_names(breakdown.by)), *(Column(name, numeric=True) for name in names)),
        tuple(
            TableRow(
                (
                    label,
                    *(
                        show_quantity(gap.by_group[label], unit_name(gap.name)) if label in gap.by_group else "-"
                        for gap in names.values()
                    ),
                )
            )
            for label in labels
        ),
        usual="observed",
        order="lowest selection rate first",
    )
