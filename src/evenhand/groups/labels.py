"""Group metrics of several labels or grades: one-vs-rest rates, confusion matrices, and the gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.typing import Integers
from evenhand.groups.cells import CellSample, GroupedCells
from evenhand.groups.config import GroupConfig
from evenhand.groups.engine import GroupCounts, measure_sample
from evenhand.groups.estimators import Estimator, limit_each
from evenhand.groups.label_coverage import count_labels
from evenhand.groups.membership import DecidedPeople, Membership
from evenhand.groups.result import GroupMetrics, LabelSet
from evenhand.schema.decisions import RecordedLabels
from evenhand.schema.outcome import NEITHER
from evenhand.stats.proportion import mean_of_proportions

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
    return measure_sample(sample, config, favourable=NEITHER, label_set=label_set)


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
        everyone, labelled = np.ones(len(decided), dtype=np.bool_), self.labelled
        rates: dict[str, dict[str, Estimator]] = {}
        for label, name in enumerate(self.names):
            assigned = decided == label
            masks = {"label_share": (everyone, assigned)}
            if truth is not None:
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
        estimators: dict[str, Estimator] = {}
        confusion = None
        if truth is not None:
            estimators["label_accuracy"] = cells.rate("label_accuracy", labelled, decided == truth)
            estimators["macro_recall"] = _macro_recall(cells, truth, len(self.names), estimators["label_accuracy"])
            if self.ordered:
                reach = float(len(self.names) - 1)
                estimators["too_low"] = cells.rate("too_low", labelled, decided < truth)
                estimators["too_high"] = cells.rate("too_high", labelled, decided > truth)
                estimators["mean_grade_error"] = cells.mean("mean_grade_error", truth, (-reach, reach), labelled)
            shape = (groups + 1, len(self.names), len(self.names))
            place = np.ravel_multi_index((group[labelled] + 1, truth[labelled], decided[labelled]), shape)
            confusion = np.bincount(place, weights=self.n[labelled], minlength=math.prod(shape))
            confusion = confusion.astype(int).reshape(shape)[1:]
        coverage = count_labels(group, groups, decided, self.names, labelled, self.n)
        return GroupCounts(*cells.size(), estimators, coverage, rates=rates, confusion=confusion)


def _macro_recall(cells: GroupedCells, truth: Integers, labels: int, accuracy: Estimator) -> Estimator:
    """Build the mean of the true positive rates of all labels; the accuracy is computed over the same people."""
    counts = [cells.counts(truth == label, cells.cells.decided == label) for label in range(labels)]
    _, n, k = np.moveaxis(np.array(counts, dtype=np.float64), 0, -1)
    missing = (n == 0).sum(axis=1).tolist()

    def compute(i: int, confidence: float) -> Sequence[float]:
        return (math.nan,) * 3 if missing[i] else mean_of_proportions(k[i], n[i], confidence)

    return replace(
        accuracy,
        metric="macro_recall",
        limits=limit_each(compute),
        method=MACRO,
        unknown=[f"{count} of the labels do not occur as a true label" if count else "" for count in missing],
    )
