"""Group metrics of several labels or grades: one-vs-rest rates, confusion matrices, and the gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Integers
from evenhand.groups.cells import CellSample, GroupedCells
from evenhand.groups.config import GroupConfig
from evenhand.groups.engine import GroupCounts, measure_sample
from evenhand.groups.estimators import Computed, Estimator, Rate
from evenhand.groups.label_coverage import count_labels
from evenhand.groups.membership import DecidedPeople, Membership
from evenhand.groups.result import GroupMetrics, LabelSet
from evenhand.schema.decisions import RecordedLabels
from evenhand.schema.outcome import NEITHER
from evenhand.stats.proportion import mean_of_proportions
from evenhand.stats.quantity import Observed, Quantity, Unknown

MACRO = "Clopper-Pearson limits of all labels, combined"


def measure_label_columns(
    decisions: RecordedLabels, memberships: Sequence[Membership], config: GroupConfig
) -> GroupMetrics:
    """Measure one-vs-rest rates of labels by group, and confusion matrices if true labels are known."""
    people, decided, truth = decisions.people, decisions.decided, decisions.people.labels
    target = people.schema.target
    labels, ordered = target.values or (), target.kind == "ordinal"
    if ordered and target.favourable == labels[0]:  # the order lists the best grade first
        highest = len(labels) - 1
        labels, decided = labels[::-1], highest - decided
        truth = None if truth is None else np.where(truth < 0, -1, highest - truth)
    texts = tuple(map(str, labels))
    scores = decided.astype(np.float64)
    columns = DecidedPeople(memberships, decided, truth, scores, decisions.weights, people.counts)
    sample = LabelSample.tabulate(columns, len(texts), names=texts, ordered=ordered)
    label_set = LabelSet(target=target.name, labels=texts, ordered=ordered)
    return measure_sample(sample, columns, config, None, favourable=NEITHER, label_set=label_set)


@dataclass(frozen=True)
class LabelSample(CellSample):
    """Assigned and true labels of people, counted by cell.

    Attributes:
        names: Labels; grades in their order, worst first.
        ordered: Whether the labels are grades.
    """

    names: tuple[str, ...]
    ordered: bool

    def count(self, group: Integers, groups: int) -> GroupCounts:
        cells, decided, truth = GroupedCells(self, group, groups), self.decided, self.truth
        labelled = None if truth is None else truth >= 0
        rates: dict[str, dict[str, Rate]] = {}
        for label, name in enumerate(self.names):
            everyone, assigned = np.ones(len(self), dtype=np.bool_), decided == label
            masks: dict[str, tuple[Any, Any]] = {"label_share": (everyone, assigned)}
            if labelled is not None:
                true = truth == label
                masks |= {
                    "label_base_share": (labelled, true),
                    "label_true_positive_rate": (true, assigned),
                    "label_false_positive_rate": (labelled & ~true, assigned),
                    "label_precision": (labelled & assigned, true),
                }
            if self.ordered and label > 0:
                masks["at_least"] = everyone, decided >= label
            rates[name] = {metric: cells.rate(metric, *pair) for metric, pair in masks.items()}
        people, n = cells.size()
        estimators: dict[str, Estimator] = {}
        confusion = None
        if truth is not None and labelled is not None:
            masks = {"label_accuracy": (labelled, decided == truth)}
            if self.ordered:
                masks |= {"too_low": (labelled, decided < truth), "too_high": (labelled, decided > truth)}
            estimators |= {metric: cells.rate(metric, *pair) for metric, pair in masks.items()}
            estimators["macro_recall"] = _macro_recall(
                estimators["label_accuracy"], [columns["label_true_positive_rate"] for columns in rates.values()]
            )
            part, reach = GroupedCells(self.at(labelled), group[labelled], groups), float(len(self.names) - 1)
            if self.ordered:
                estimators["mean_grade_error"] = part.mean("mean_grade_error", truth[labelled], -reach, reach)
            shape = (groups, len(self.names), len(self.names))
            place = np.ravel_multi_index((part.group, truth[labelled], part.cells.decided), shape)
            confusion = np.bincount(place, weights=part.cells.n, minlength=math.prod(shape)).astype(int).reshape(shape)
        coverage = count_labels(group, groups, decided, self.names, labelled, self.n)
        return GroupCounts(people, n, self.weighted, estimators, coverage, rates=rates, confusion=confusion)


def _macro_recall(accuracy: Estimator, recalls: Sequence[Rate]) -> Computed:
    """Build the mean of the true positive rates of all labels; the accuracy is computed over the same people."""
    k, n = (np.stack([getattr(recall, field) for recall in recalls], axis=1) for field in ("k", "n"))

    def compute(i: int, confidence: float) -> Quantity:
        missing = int((n[i] == 0).sum())
        if missing:
            return Unknown(reason=f"{missing} of the labels do not occur as a true label")
        value, low, high = mean_of_proportions(k[i], n[i], confidence)
        return Observed(
            value=value,
            n=int(accuracy.people[i]),
            low=low,
            high=high,
            confidence=confidence,
            method=MACRO + accuracy.weighting,
        )

    return Computed(
        "macro_recall",
        accuracy.people,
        accuracy.n,
        compute,
        np.asarray((n > 0).all(axis=1)),
        weighting=accuracy.weighting,
        method=MACRO,
        requirement=", with every true label among them",
    )
