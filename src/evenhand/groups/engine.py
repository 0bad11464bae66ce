"""Group engine, which breaks down any sample of decisions, labels or numbers by protected attributes.

A sample counts its people by group. The counts provide estimators, and the engine turns these into groups, gaps and
calibration bins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.breakdown import Breakdown, Group
from evenhand.groups.config import GroupConfig
from evenhand.groups.custom import Metrics, estimate_metrics
from evenhand.groups.estimators import Estimator
from evenhand.groups.gaps import GroupComparison, add_cautions, compare_metrics
from evenhand.groups.kept import KeptDecisions, fingerprint_people
from evenhand.groups.label_coverage import LabelCoverage
from evenhand.groups.membership import (
    DecidedPeople,
    Membership,
    Partition,
    find_labelled,
    find_references,
    list_partitions,
)
from evenhand.groups.result import GroupMetrics
from evenhand.stats.metric_specs import order_names
from evenhand.stats.quantity import Quantity, Unknown

TENTHS = 10


class GroupCounts(NamedTuple):
    """Counts of a sample by group; arrays have shape (groups,).

    Attributes:
        people: Number of people.
        n: Kish's effective sample size; without weights, ``people``.
        estimators: Estimators by metric.
        coverage: Number of people with a true label, by decision.
        unknown: Metrics that cannot be computed, with the reasons.
        rates: One-vs-rest rates of each label; empty if one label is favourable.
        confusion: Number of people by true and assigned label, shape (groups, labels, labels); None without true
            labels, or if one label is favourable.
    """

    people: Integers
    n: Floats | Integers
    estimators: dict[str, Estimator]
    coverage: Sequence[LabelCoverage | None]
    unknown: Mapping[str, str] = {}
    rates: Mapping[str, Mapping[str, Estimator]] = {}
    confusion: Integers | None = None


@dataclass(frozen=True)
class Sample(ABC):
    """People with their decisions, one entry per person or cell.

    Attributes:
        people: Decisions.
        memberships: Groups of the entries by each attribute.
        bins: Calibration bin of each entry, 0 to 9; all are 0 without scores.
        decided, truth: Decision and true label or value of each entry, as in ``DecidedPeople``.
        scored, observed: Metrics whose means are compared by calibration; empty without calibration.
    """

    people: DecidedPeople
    memberships: Sequence[Membership]
    bins: Integers
    decided: Booleans | Integers | Floats
    truth: Integers | Floats | None

    scored: ClassVar[str] = ""
    observed: ClassVar[str] = ""

    @property
    def labelled(self) -> Booleans:
        """Mask of the entries with a known true label or value; all True if there are no true labels."""
        return np.ones(len(self.bins), dtype=np.bool_) if self.truth is None else find_labelled(self.truth)

    @abstractmethod
    def count(self, group: Integers, groups: int) -> GroupCounts:
        """Count the people by group, given the group of each entry, -1 for none, and the number of groups."""


def measure_sample(
    sample: Sample,
    config: GroupConfig,
    metrics: Metrics | None = None,
    overall: Mapping[str, Quantity] | None = None,
    **fields: Any,
) -> GroupMetrics:
    """Build the group metrics of decisions, labels or numbers.

    ``overall`` are metrics that are only defined for all people, and ``fields`` are further fields of the result.

    Raises:
        OptionError: A reference is not a group.
    """
    people, comparable = sample.people, "label_set" not in fields
    custom = estimate_metrics(metrics, people, config) if metrics else {}
    references = find_references(config.reference, sample.memberships)
    breakdowns: list[Breakdown] = []
    calibration: list[Breakdown] = []
    for partition in list_partitions(sample.memberships, len(sample.bins)):
        counts = sample.count(partition.codes, len(partition.values))
        estimators = counts.estimators | custom.get(partition.by, {})
        groups = describe_groups(counts._replace(estimators=estimators), partition, config, people.weights is not None)
        # The reference of an intersection is the intersection of the references.
        reference = partition.find_reference(references)
        comparison = GroupComparison(partition.labels, config.confidence, config.min_group_size, reference)
        gaps = compare_metrics(estimators, counts.rates, comparison) if len(groups) > 1 else ()
        unknown = people.size - int(counts.people.sum())
        breakdowns.append(Breakdown(by=partition.by, groups=groups, gaps=add_cautions(gaps, groups), unknown=unknown))
        if len(partition.by) == 1 and {sample.scored, sample.observed} <= estimators.keys():
            calibration.append(calibrate(sample, partition, config))
    everyone = breakdowns[0].groups[0]
    return GroupMetrics(
        people=everyone.size,
        weights=None if people.weights is None else people.weights.name,
        min_group_size=config.min_group_size,
        everyone=everyone.model_copy(update={"metrics": {**everyone.metrics, **(overall or {})}}),
        breakdowns=tuple(breakdowns[1:]),
        calibration=tuple(calibration),
        # Audits with several labels are not compared by person.
        people_fingerprint=fingerprint_people(people) if comparable else "",
        kept=KeptDecisions.keep(people) if config.keep_decisions and comparable else None,
        seed=config.seed,
        seconds=0.0,
        **fields,
    )


def describe_groups(
    counts: GroupCounts, partition: Partition, config: GroupConfig, weighted: bool
) -> tuple[Group, ...]:
    """Compute the metrics of each group."""
    # Label -> metrics of each group; metrics over all labels have an empty label.
    rates = {
        label: {name: estimator.measure(config.confidence) for name, estimator in part.items()}
        for label, part in {"": counts.estimators, **counts.rates}.items()
    }
    columns = rates.pop("") | {
        name: [Unknown(reason=reason)] * len(partition.values) for name, reason in counts.unknown.items()
    }
    return tuple(
        Group(
            values=values,
            size=int(counts.people[i]),
            effective_size=float(counts.n[i]) if weighted else None,
            small=bool(counts.n[i] < config.min_group_size),
            metrics={name: columns[name][i] for name in order_names(columns)},
            label_coverage=counts.coverage[i],
            rates={label: {name: column[i] for name, column in part.items()} for label, part in rates.items()},
            confusion=() if counts.confusion is None else tuple(map(tuple, counts.confusion[i].tolist())),
        )
        for i, values in enumerate(partition.values)
    )


def calibrate(sample: Sample, partition: Partition, config: GroupConfig) -> Breakdown:
    """Compute the mean score and the observed mean of each group in each calibration bin.

    Only people with a true label or number are counted. Empty bins are omitted.
    """
    known = (partition.codes >= 0) & sample.labelled
    cells = np.where(known, partition.codes * TENTHS + sample.bins, -1)
    counts = sample.count(cells, TENTHS * len(partition.values))
    estimators = {name: counts.estimators[name] for name in (sample.scored, sample.observed)}
    bins = replace(partition, values=[values for values in partition.values for _ in range(TENTHS)])
    counts = counts._replace(estimators=estimators, unknown={})
    groups = describe_groups(counts, bins, config, sample.people.weights is not None)
    return Breakdown(by=partition.by, groups=tuple(compress(groups, counts.n > 0)), gaps=())
