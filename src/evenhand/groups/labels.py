"""Group metrics of several labels or grades: one-vs-rest rates, confusion matrices, and the gaps."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Self

import numpy as np

from evenhand.core.typing import Booleans, Integers
from evenhand.errors import DataError, OptionError
from evenhand.groups.breakdown import Gap, Group
from evenhand.groups.config import GroupConfig
from evenhand.groups.engine import GroupCounts, Sample, break_down, describe_groups
from evenhand.groups.estimators import Computed, Estimator, Mean, Rate
from evenhand.groups.gaps import (
    GroupComparison,
    compare_groups,
    largest_gap,
    registered_gaps,
)
from evenhand.groups.label_coverage import count_labels
from evenhand.groups.membership import Membership, group_people
from evenhand.groups.result import GroupMetrics, LabelMetrics
from evenhand.models.ledger import ask_people
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Value
from evenhand.schema.decisions import RecordedLabels
from evenhand.schema.outcome import NEITHER
from evenhand.schema.people import People
from evenhand.stats.metric_specs import LABEL_GAP_TITLES, LABEL_RATE_GAPS
from evenhand.stats.proportion import mean_of_proportions
from evenhand.stats.quantity import Observed, Quantity, Unknown

MACRO = "Clopper-Pearson limits of all labels, combined"


def measure_labels(
    scorer: Scorer,
    people: People,
    config: GroupConfig | None = None,
    *,
    reply: Reply | None = None,
    **settings: Any,
) -> LabelMetrics:
    """Measure one-vs-rest rates and confusion matrices of predicted labels by group.

    Args:
        scorer: Model. It is queried once per person.
        people: People with true labels. Ordinal labels are grades in the order of the schema, worst first.
        config: Settings.
        reply: Predictions of the model, if it was queried before.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: No attribute is protected, or the model predicts a label that the order lacks.
        DataError: There are no true labels.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    target = people.schema.target
    if people.labels is None or target.values is None:
        raise DataError(f"the data has no column {target.name!r} with the true labels")
    names = people.schema.protected if config.protected is None else config.protected
    labels = [*target.values, *(label for label in scorer.classes if label not in target.values)]
    if target.kind == "ordinal" and len(labels) > len(target.values):
        raise OptionError(
            f"the model predicts {labels[-1]!r}, which is not in the order of {target.name!r}",
            hint=f"name every label: order={[*target.values, labels[-1]]!r}",
        )
    positions = np.array([labels.index(label) for label in scorer.classes], dtype=np.int64)
    decided = positions[(ask_people(scorer, people.individuals) if reply is None else reply).labels]
    return _measure(people, decided, labels, names, config, started)


def measure_recorded_labels(
    decisions: RecordedLabels, config: GroupConfig | None = None, **settings: Any
) -> LabelMetrics:
    """Measure one-vs-rest rates of recorded labels by group, and confusion matrices if true labels are known.

    Args:
        decisions: Labels and people.
        config: Settings. By default, people are grouped by all attributes.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: An attribute is a real number.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    people = decisions.people
    names = people.schema.names if config.protected is None else config.protected
    return _measure(people, decisions.decided, people.schema.target.values or (), names, config, started)


def size_groups(labels: LabelMetrics) -> GroupMetrics:
    """Build group metrics with the sizes of the groups and the labels only, for labels without a favourable one."""
    fields = ("values", "size", "small")
    return GroupMetrics(
        people=labels.people,
        favourable=NEITHER,
        min_group_size=labels.min_group_size,
        overall={},
        breakdowns=tuple(
            breakdown.model_copy(
                update={
                    "groups": tuple(
                        Group(**{name: getattr(group, name) for name in fields}) for group in breakdown.groups
                    ),
                    "gaps": (),
                }
            )
            for breakdown in labels.breakdowns
        ),
        labels=labels,
        seed=labels.seed,
        seconds=labels.seconds,
    )


@dataclass(frozen=True)
class LabelSample(Sample):
    """Assigned and true labels of people.

    Attributes:
        memberships: Groups by each protected attribute.
        decided: Positions of the assigned labels in ``names``, shape (n,).
        truth: Positions of the true labels, -1 if unknown, shape (n,); None without true labels.
        names: Labels; grades in their order, worst first.
        ordered: Whether the labels are grades.
    """

    memberships: Sequence[Membership]
    decided: Integers
    truth: Integers | None
    names: tuple[str, ...]
    ordered: bool

    def __len__(self) -> int:
        return len(self.decided)

    def at(self, entries: Booleans) -> Self:
        truth = None if self.truth is None else self.truth[entries]
        return type(self)((), self.decided[entries], truth, self.names, self.ordered)

    def count(self, group: Integers, groups: int) -> GroupCounts:
        kinds = len(self.names)
        given = np.bincount(group * kinds + self.decided, minlength=groups * kinds).reshape(groups, kinds)
        confused = None
        if self.truth is not None:
            cells = ((group * kinds + self.truth) * kinds + self.decided)[self.truth >= 0]
            confused = np.bincount(cells, minlength=groups * kinds**2).reshape(groups, kinds, kinds)
        tables = LabelTables(self.names, given, confused, ordered=self.ordered)
        coverage = count_labels(
            group, groups, self.decided, self.names, None if self.truth is None else self.truth >= 0
        )
        size = tables.size
        return GroupCounts(size, size, False, tables.estimators, coverage, tables.gaps, details=tables.details)


class LabelTables:
    """Number of people by group and labels.

    Attributes:
        names: Labels; grades in their order, worst first.
        given: Number of people by assigned label, shape (groups, labels).
        confused: Number of people by true and assigned label, shape (groups, labels, labels); None without true labels.
        ordered: Whether the labels are grades.
        size: Number of people in each group.
        labelled: Number of people with a true label in each group.
        rates: One-vs-rest rates of each label. For every grade above the lowest, also the share of people with this or
            a higher grade.
    """

    def __init__(self, names: tuple[str, ...], given: Integers, confused: Integers | None, *, ordered: bool) -> None:
        self.names, self.given, self.confused, self.ordered = names, given, confused, ordered
        self.size = np.asarray(given.sum(axis=1))
        self.labelled = np.zeros_like(self.size) if confused is None else np.asarray(confused.sum(axis=(1, 2)))
        self.rates = {name: self._rates_of(i) for i, name in enumerate(names)}
        self.measure_rates = cache(self._measure_rates)

    def _rates_of(self, label: int) -> dict[str, Rate]:
        """Build the one-vs-rest rates of a label."""
        counts = {"label_share": (self.given[:, label], self.size)}
        if self.confused is not None:
            positive, given = self.confused[:, label].sum(axis=1), self.confused[:, :, label].sum(axis=1)
            correct = self.confused[:, label, label]
            counts |= {
                "label_base_share": (positive, self.labelled),
                "label_true_positive_rate": (correct, positive),
                "label_false_positive_rate": (given - correct, self.labelled - positive),
                "label_precision": (correct, given),
            }
        if self.ordered and label > 0:
            counts["at_least"] = self.given[:, label:].sum(axis=1), self.size
        return {name: _rate(name, *pair) for name, pair in counts.items()}

    @cached_property
    def estimators(self) -> dict[str, Estimator]:
        """Estimators over all labels; none without true labels."""
        confused, labelled, kinds = self.confused, self.labelled, len(self.names)
        if confused is None:
            return {}
        below = np.tri(kinds, k=-1, dtype=np.bool_)
        cells = {"label_accuracy": np.eye(kinds, dtype=np.bool_)}
        cells |= {"too_low": below, "too_high": below.T} if self.ordered else {}
        estimators: dict[str, Estimator] = {
            name: _rate(name, confused[:, mask].sum(axis=1), labelled) for name, mask in cells.items()
        }
        truly = confused.sum(axis=2)

        def macro_recall(i: int, confidence: float) -> Quantity:
            missing = int((truly[i] == 0).sum())
            if missing:
                return Unknown(reason=f"no one here has {missing} of the labels as true label")
            value, low, high = mean_of_proportions(np.diagonal(confused[i]), truly[i], confidence)
            n = int(truly[i].sum())
            return Observed(value=value, n=n, low=low, high=high, confidence=confidence, method=MACRO)

        condition = ", with every true label among them"
        complete = (truly > 0).all(axis=1)
        estimators["macro_recall"] = Computed(
            "macro_recall", labelled, labelled, macro_recall, MACRO, condition, complete
        )
        if self.ordered:
            grades = np.arange(kinds, dtype=np.float64)
            errors = grades - grades[:, None]
            mean = np.asarray((confused * errors).sum(axis=(1, 2)) / np.maximum(labelled, 1))
            squares = (confused * (errors - mean[:, None, None]) ** 2).sum(axis=(1, 2))
            variance, reach = np.asarray(squares / np.maximum(labelled - 1, 1)), float(kinds - 1)
            estimators["mean_grade_error"] = Mean("mean_grade_error", labelled, labelled, mean, variance, -reach, reach)
        return estimators

    def details(self, i: int, confidence: float) -> dict[str, Any]:
        """Compute the rates of each label in a group, and the confusion."""
        return {
            "rates": {
                label: {name: quantities[i] for name, quantities in columns.items()}
                for label, columns in self.measure_rates(confidence).items()
            },
            "confusion": () if self.confused is None else tuple(map(tuple, self.confused[i].tolist())),
        }

    def _measure_rates(self, confidence: float) -> dict[str, dict[str, list[Quantity]]]:
        return {
            label: {name: rate.measure(confidence) for name, rate in columns.items()}
            for label, columns in self.rates.items()
        }

    def gaps(self, comparison: GroupComparison) -> Iterator[Gap]:
        """Yield the gaps between groups; gaps of rates first as the largest over all labels, then for each label."""
        kinds = len(self.names)
        gaps = {name: [gap] for name, gap in registered_gaps(LABEL_GAP_TITLES, self.estimators, comparison).items()}
        for name, metric in LABEL_RATE_GAPS.items():
            rates = {label: columns[metric] for label, columns in self.rates.items() if metric in columns}
            # The gaps of two labels are equal.
            gaps[name] = _compare_each(name, rates, comparison, len(rates) if kinds > 2 else 1)
        for name in LABEL_GAP_TITLES:
            yield from gaps.get(name, ())


def _rate(metric: str, k: Integers, n: Integers) -> Rate:
    return Rate(metric, np.asarray(n), np.asarray(n), np.asarray(k))


def _compare_each(name: str, rates: Mapping[str, Rate], comparison: GroupComparison, comparisons: int) -> list[Gap]:
    """Compute the largest gap in a rate over all labels, and the gap of each label, with simultaneous intervals."""
    gaps = [
        compare_groups(name, rate, comparison, comparisons=comparisons).model_copy(update={"label": label})
        for label, rate in rates.items()
    ]
    if not gaps:
        return []
    largest = largest_gap(gaps)
    place = {"label": "", "largest_at": "" if largest is None else largest.label}
    # Groups that every label omits for the same reason are named once, the others by label.
    always = {
        group: n
        for group, n in gaps[0].not_assessable.items()
        if all(gap.not_assessable.get(group) == n for gap in gaps)
    }
    left_out = always | {
        f"{gap.label}: {group}": n for gap in gaps for group, n in gap.not_assessable.items() if group not in always
    }
    return [(largest or gaps[0]).model_copy(update={**place, "not_assessable": left_out}), *gaps]


def _measure(
    people: People,
    decided: Integers,
    labels: Sequence[Value],
    names: Sequence[str],
    config: GroupConfig,
    started: float,
) -> LabelMetrics:
    target, truth = people.schema.target, people.labels
    ordered = target.kind == "ordinal"
    if ordered and target.favourable == labels[0]:  # the order lists the best grade first
        highest = len(labels) - 1
        labels, decided = labels[::-1], highest - decided
        truth = None if truth is None else np.where(truth < 0, -1, highest - truth)
    texts = tuple(map(str, labels))
    sample = LabelSample(group_people(people, names), decided, truth, texts, ordered)
    return LabelMetrics(
        people=len(people),
        target=target.name,
        labels=texts,
        ordered=ordered,
        min_group_size=config.min_group_size,
        overall=describe_groups(sample.total(), [{}], config)[0],
        breakdowns=break_down(sample, config),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )
