"""Gaps between groups: between the highest and the lowest value, or between each group and a reference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Integers
from evenhand.groups.breakdown import Gap, Group, describe_selective
from evenhand.groups.estimators import Estimator
from evenhand.stats.level import bonferroni
from evenhand.stats.metric_specs import DECISION_METRICS, LOWER_IS_WORSE, METRICS
from evenhand.stats.probable import largest_absolute
from evenhand.stats.proportion import RATIO_METHOD, count_pairs
from evenhand.stats.quantity import Observed, Unknown


class GroupComparison(NamedTuple):
    """Settings of the comparison of groups.

    Attributes:
        labels: Names of the groups.
        confidence: Confidence level.
        min_size: Minimum (effective) denominator of a compared metric.
        reference: Position of the reference group. None to compare the highest and the lowest.
    """

    labels: Sequence[str]
    confidence: float
    min_size: int
    reference: int | None = None


def describe_simultaneity(comparisons: int) -> str:
    """Describe the number of comparisons over which an interval is simultaneous; empty for a single comparison."""
    return "" if comparisons == 1 else f", simultaneous over {comparisons} comparisons (Bonferroni)"


def compare_metrics(
    estimators: Mapping[str, Estimator], rates: Mapping[str, Mapping[str, Estimator]], comparison: GroupComparison
) -> Iterator[Gap]:
    """Yield the gaps between groups in the order of the registry, followed by those of custom metrics."""
    for name, spec in METRICS.items():
        columns = {label: column[spec.compares] for label, column in rates.items() if spec.compares in column}
        if name == "equalized_odds_difference" and "true_positive_rate" in estimators:
            yield equalized_odds_gap(estimators, comparison)
        elif spec.compares in estimators:
            yield compare_groups(name, estimators[spec.compares], comparison, ratio=name in LOWER_IS_WORSE)
        elif columns:
            # The gaps of two labels are equal.
            yield from compare_labels(name, columns, comparison, len(columns) if len(rates) > 2 else 1)
    for name, estimator in estimators.items():
        if name not in METRICS:
            yield compare_groups(f"{name}_difference", estimator, comparison)


def compare_groups(
    name: str, estimator: Estimator, comparison: GroupComparison, *, ratio: bool = False, comparisons: int = 1
) -> Gap:
    """Compute the gap in one metric between the groups that are large enough.

    With a reference, the gap is the largest absolute difference of any group from it (the smallest ratio). The gap is
    unknown if fewer than two groups can be compared, or the reference cannot. Intervals are simultaneous over all pairs
    of groups in the given number of ``comparisons``, of which this is one.
    """
    labels, confidence, min_size, reference = comparison
    compared = np.flatnonzero(estimator.comparable(min_size))
    pairs = len(compared) - 1 if reference is not None else count_pairs(max(len(compared), 2))
    simultaneous = max(1, pairs) * comparisons
    limits = estimator.limits(compared, bonferroni(confidence, simultaneous))
    has_interval = ~np.isnan(limits.low)
    compared, limits = compared[has_interval], limits.take(has_interval)
    base_label = "" if reference is None else labels[reference]
    left_out = {labels[i]: int(estimator.n[i]) for i in np.setdiff1d(np.arange(len(labels)), compared).tolist()}
    method = (RATIO_METHOD if ratio else estimator.difference_method) + estimator.weighting
    method += describe_simultaneity(simultaneous)

    def observe(value: float, ends: Sequence[float], groups: Integers | list[int]) -> Observed:
        n = int(estimator.people[groups].sum())
        return Observed(value=value, n=n, low=ends[0], high=ends[1], confidence=confidence, method=method)

    describe = partial(Gap, name=name, metric=estimator.metric, reference=base_label, not_assessable=left_out)
    missing_reference = reference is not None and base_label in left_out
    if missing_reference or len(compared) < 2:
        place = f"the reference group {base_label}" if missing_reference else "at least two groups"
        return describe(value=Unknown(reason=f"{place} must have {min_size} {estimator.requirement}"))
    base = int(np.argmax(limits.value if reference is None else compared == reference))
    others, rest, start = np.delete(compared, base), limits.take(np.arange(len(compared)) != base), limits.take(base)
    distances = -rest.value if ratio else np.abs(rest.value - start.value)
    furthest = len(others) - 1 - int(np.argmax(distances[::-1]))
    names = labels[compared[base]], labels[others[furthest]]
    best, worst = names[:: -1 if rest.value[furthest] > start.value else 1]
    if ratio and start.value == 0:
        rate = "the highest rate" if reference is None else f"the rate of {base_label}"
        return describe(value=Unknown(reason=f"{rate} is 0, so the ratio is undefined"), best=best, worst=worst)
    values = rest.value / start.value if ratio else rest.value - start.value
    by_group: dict[str, Observed] = {}
    if reference is None:
        ends = limits.smallest_ratio() if ratio else limits.largest_difference()
    else:
        low, high = rest.divided_by(start) if ratio else rest.minus(start)
        columns = (array.tolist() for array in (others, values, low, high))
        by_group = {labels[i]: observe(value, ends, [i, reference]) for i, value, *ends in zip(*columns, strict=True)}
        ends = (float(low.min()), float(high.min())) if ratio else largest_absolute(zip(low, high, strict=True))
        compared = compared[[base, furthest + (furthest >= base)]]
    value = observe(abs(float(values[furthest])), ends, compared)
    return describe(value=value, best=best, worst=worst, by_group=by_group)


def _furthest(distances: Collection[Observed]) -> Observed:
    """Select the largest absolute value of several distances with simultaneous intervals.

    The intervals also bound the true largest distance.
    """
    distance = max(distances, key=lambda distance: abs(distance.value))
    low, high = largest_absolute((distance.low, distance.high) for distance in distances)
    return distance.model_copy(update={"value": abs(distance.value), "low": low, "high": high})


def largest_gap(gaps: Sequence[Gap]) -> Gap | None:
    """Select the largest of several differences with simultaneous intervals; None if all are unknown."""
    values = [(gap.value, gap) for gap in gaps if isinstance(gap.value, Observed)]
    if not values:
        return None
    _, largest = max(values, key=lambda pair: pair[0].value)
    return largest.model_copy(update={"value": _furthest([value for value, _ in values])})


def equalized_odds_gap(estimators: Mapping[str, Estimator], comparison: GroupComparison) -> Gap:
    """Compute the larger of the gaps in true and false positive rates (Hardt, Price & Srebro, NeurIPS 2016).

    The gap is unknown unless both gaps are known.
    """
    first, second = (
        compare_groups("equalized_odds_difference", estimators[metric], comparison, comparisons=2)
        for metric in ("true_positive_rate", "false_positive_rate")
    )
    left_out = second.not_assessable | first.not_assessable
    unknown = next((gap for gap in (first, second) if isinstance(gap.value, Unknown)), None)
    largest = unknown or largest_gap([first, second])
    assert largest is not None
    shared = () if unknown else [label for label in first.by_group if label in second.by_group]
    by_group = {label: _furthest([first.by_group[label], second.by_group[label]]) for label in shared}
    return largest.model_copy(update={"not_assessable": left_out, "by_group": by_group})


def compare_labels(
    name: str, rates: Mapping[str, Estimator], comparison: GroupComparison, comparisons: int
) -> list[Gap]:
    """Compute the largest gap in a rate over all labels, and the gap of each label, with simultaneous intervals."""
    gaps = [
        compare_groups(name, rate, comparison, comparisons=comparisons).model_copy(update={"label": label})
        for label, rate in rates.items()
    ]
    largest = largest_gap(gaps)
    place = {"label": "", "largest_at": "" if largest is None else largest.label}
    # Groups that every label omits for the same reason are named once; other groups are named by label.
    always = {
        group: n
        for group, n in gaps[0].not_assessable.items()
        if all(gap.not_assessable.get(group) == n for gap in gaps)
    }
    left_out = always | {
        f"{gap.label}: {group}": n for gap in gaps for group, n in gap.not_assessable.items() if group not in always
    }
    return [(largest or gaps[0]).model_copy(update={**place, "not_assessable": left_out}), *gaps]


def add_cautions(gaps: Iterable[Gap], groups: Sequence[Group]) -> tuple[Gap, ...]:
    """Add a caution to gaps that depend on selective true labels.

    The caution names the compared groups; for an unknown gap, all groups that are large enough.
    """

    def caution(gap: Gap) -> str:
        left_out = () if isinstance(gap.value, Unknown) else gap.not_assessable
        return describe_selective(group for group in groups if not group.small and group.label not in left_out)

    return tuple(
        gap if gap.metric in DECISION_METRICS else gap.model_copy(update={"caution": caution(gap)}) for gap in gaps
    )
