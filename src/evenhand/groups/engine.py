"""Group engine, which breaks down any sample of decisions, labels or numbers by protected attributes.

A sample counts its people by group. The counts provide estimators, and the engine turns these into groups, gaps and
calibration bins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.breakdown import Breakdown, Group
from evenhand.groups.config import GroupConfig
from evenhand.groups.custom import Metrics, estimate_metrics
from evenhand.groups.estimators import Estimator, Mean, Rate, SkewedMean
from evenhand.groups.gaps import GroupComparison, add_cautions, compare_metrics
from evenhand.groups.kept import KeptDecisions, fingerprint_people
from evenhand.groups.label_coverage import LabelCoverage
from evenhand.groups.membership import (
    DecidedPeople,
    Membership,
    Partition,
    find_references,
    list_subsets,
    number_combinations,
)
from evenhand.groups.result import CalibrationBin, GroupMetrics
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Quantity, Unknown

TENTHS = 10


@dataclass(frozen=True)
class GroupCounts:
    """Counts of a sample by group; arrays have shape (groups,).

    Attributes:
        people: Number of people.
        n: Kish's effective sample size; without weights, ``people``.
        weighted: Whether people have weights.
        estimators: Estimators by metric.
        coverage: Number of people with a true label, by decision.
        unknown: Metrics that cannot be computed, with the reasons.
        rates: One-vs-rest rates of each label; empty if one label is favourable.
        confusion: Number of people by true and assigned label, shape (groups, labels, labels); None without true
            labels, or if one label is favourable.
    """

    people: Integers
    n: Floats | Integers
    weighted: bool
    estimators: dict[str, Estimator]
    coverage: Sequence[LabelCoverage | None]
    unknown: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, Mapping[str, Rate]] = field(default_factory=dict)
    confusion: Integers | None = None


class Sample(ABC):
    """People with their decisions. Counted people are represented by one entry per cell.

    Attributes:
        memberships: Groups of the entries by each attribute.
        scored, observed: Metrics whose means are compared by calibration; empty without calibration.
    """

    memberships: Sequence[Membership]
    scored: ClassVar[str] = ""
    observed: ClassVar[str] = ""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of entries."""

    def size(self, entries: Booleans) -> int:
        """Count the people in the selected entries."""
        return int(entries.sum())

    @abstractmethod
    def at(self, entries: Any) -> Self:
        """Select entries by a mask, without memberships."""

    @abstractmethod
    def count(self, group: Integers, groups: int) -> GroupCounts:
        """Count the people by group, given the group of each entry, shape (n,), and the number of groups."""

    def labelled(self) -> Any:
        """Return a mask of the entries with a true label or number, or None if there are none or no scores."""
        return None

    def tenths(self) -> Integers:
        """Compute the calibration bin of each entry, 0 to 9, shape (n,); all are 0 without scores."""
        return np.zeros(len(self), dtype=np.int64)


def measure_sample(
    sample: Sample,
    people: DecidedPeople,
    config: GroupConfig,
    metrics: Metrics | None,
    overall: Mapping[str, Quantity] | None = None,
    **fields: Any,
) -> GroupMetrics:
    """Build the group metrics of decisions, labels or numbers.

    ``people`` holds the same decisions as the sample, one entry per person or cell. ``overall`` are metrics that are
    only defined for all people, and ``fields`` are further fields of the result.
    """
    custom, comparable = estimate_metrics(metrics or {}, people, config), "label_set" not in fields
    total = sample.count(np.zeros(len(sample), dtype=np.int64), 1)
    everyone = describe_groups(total, [{}], config, custom.get((), {}))[0]
    return GroupMetrics(
        people=everyone.size,
        weights=None if people.weights is None else people.weights.name,
        effective_size=everyone.effective_size,
        min_group_size=config.min_group_size,
        overall={**everyone.metrics, **(overall or {})},
        overall_rates=everyone.rates,
        overall_confusion=everyone.confusion,
        label_coverage=everyone.label_coverage,
        breakdowns=break_down(sample, config, custom),
        calibration=tuple(calibrate(sample, config.confidence)),
        # Audits with several labels are not compared by person.
        people_fingerprint=fingerprint_people(people) if comparable else "",
        kept=KeptDecisions.keep(people) if config.keep_decisions and comparable else None,
        seed=config.seed,
        seconds=0.0,
        **fields,
    )


def describe_groups(
    counts: GroupCounts, values: Sequence[dict[str, str]], config: GroupConfig, custom: Mapping[str, Estimator]
) -> list[Group]:
    """Compute the metrics of each group from its values by attribute, including custom metrics."""
    columns = {name: estimator.measure(config.confidence) for name, estimator in counts.estimators.items()}
    for name, reason in counts.unknown.items():
        columns[name] = [Unknown(reason=reason)] * len(values)
    columns = {name: columns[name] for name in METRICS if name in columns}
    columns |= {name: estimator.measure(config.confidence) for name, estimator in custom.items()}
    rates = {
        label: {name: rate.measure(config.confidence) for name, rate in rates.items()}
        for label, rates in counts.rates.items()
    }
    return [
        Group(
            values=values[i],
            size=size,
            effective_size=float(n) if counts.weighted else None,
            small=bool(n < config.min_group_size),
            metrics={name: column[i] for name, column in columns.items()},
            label_coverage=counts.coverage[i],
            rates={label: {name: column[i] for name, column in part.items()} for label, part in rates.items()},
            confusion=() if counts.confusion is None else tuple(map(tuple, counts.confusion[i].tolist())),
        )
        for i, (size, n) in enumerate(zip(counts.people.tolist(), counts.n.tolist(), strict=True))
    ]


def break_down(
    sample: Sample,
    config: GroupConfig,
    custom: Mapping[tuple[str, ...], Mapping[str, Estimator]] | None = None,
) -> tuple[Breakdown, ...]:
    """Break a sample down by each attribute and by all of them jointly. ``custom`` are custom metrics by attributes.

    Raises:
        OptionError: A reference is not a group.
    """
    references = find_references(config.reference, sample.memberships)
    breakdowns = []
    for memberships in list_subsets(sample.memberships):
        partition = Partition.of(memberships)
        counts = sample.at(partition.known).count(partition.codes, len(partition.values))
        own = (custom or {}).get(partition.by, {})
        groups = describe_groups(counts, partition.values, config, own)
        # The reference of an intersection is the intersection of the references.
        reference = partition.find_reference(references)
        comparison = GroupComparison(partition.labels, config.confidence, config.min_group_size, reference)
        gaps = compare_metrics({**counts.estimators, **own}, counts.rates, comparison) if len(groups) > 1 else ()
        unknown = sample.size(~partition.known)
        breakdowns.append(
            Breakdown(by=partition.by, groups=tuple(groups), gaps=add_cautions(gaps, groups), unknown=unknown)
        )
    return tuple(breakdowns)


def calibrate(sample: Sample, confidence: float) -> Iterator[CalibrationBin]:
    """Yield the mean score and the observed mean of each group in each calibration bin, by each attribute.

    Only people with a true label or number are counted.
    """
    labelled = sample.labelled()
    if labelled is None:
        return
    for membership in sample.memberships:
        partition = Partition.of([membership])
        part, codes = sample.at(partition.known & labelled), partition.codes[labelled[partition.known]]
        cell, keys = number_combinations([(codes, len(partition.values)), (part.tenths(), TENTHS)])
        counts = part.count(cell, len(keys))
        scores = counts.estimators[sample.scored]
        assert isinstance(scores, Mean | SkewedMean)
        observed: list[Quantity] = counts.estimators[sample.observed].measure(confidence)
        for i, code in enumerate(keys[:, 0].tolist()):
            if counts.n[i] > 0:
                yield CalibrationBin(
                    by=membership.name,
                    group=partition.labels[code],
                    n=int(counts.people[i]),
                    mean_score=float(scores.values[i]),
                    base_rate=observed[i],
                )
