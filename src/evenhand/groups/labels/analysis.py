"""Several labels measured by group: of a model, or of decisions already made."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core.typing import Integers
from evenhand.errors import DataError, OptionError
from evenhand.groups.analysis import GroupConfig
from evenhand.groups.breakdown import Breakdown, Group
from evenhand.groups.gaps import add_cautions
from evenhand.groups.label_coverage import LabelCoverage, count_labels
from evenhand.groups.label_result import LabelBreakdown, LabelGroup, LabelMetrics
from evenhand.groups.labels.counts import (
    LabelComparison,
    LabelCounts,
    compute_label_gaps,
    measure_label_rates,
    measure_over_labels,
)
from evenhand.groups.membership import Membership, breakdown_positions, find_references, group_by_attribute
from evenhand.groups.metrics import measure_rates, number_combinations
from evenhand.groups.result import GroupMetrics
from evenhand.models.ledger import ask_people
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Value
from evenhand.schema.decisions import RecordedLabels
from evenhand.schema.outcome import NEITHER
from evenhand.schema.people import People
from evenhand.stats.quantity import Quantity


def measure_labels(
    scorer: Scorer,
    people: People,
    config: GroupConfig | None = None,
    *,
    reply: Reply | None = None,
    **settings: Any,
) -> LabelMetrics:
    """Measure the labels that a model gives, by group: each against the rest, and how they are confused.

    Args:
        scorer: the model; it is asked about everybody once.
        people: whom it decides about, with true labels. Where these are ordinal, the labels are grades, and their
            order is that of the schema, worst first.
        config: the settings: protected attributes, confidence, sizes, reference, seed.
        reply: the model's answers about everybody, if it was asked already.
        settings: fields of ``GroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: no attribute is protected, or the model gives a label that the order does not have.
        DataError: the people have no true labels.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    target = people.schema.target
    if people.labels is None or target.values is None:
        raise DataError(f"the data has no column {target.name!r} with the true labels")
    names = people.schema.protected if config.protected is None else config.protected
    known = list(target.values)
    known += [one for one in scorer.classes if one not in known]
    if target.kind == "ordinal" and len(known) > len(target.values):
        raise OptionError(
            f"the model gives {known[-1]!r}, which is not in the order of {target.name!r}",
            hint=f"name every label: order={[*target.values, known[-1]]!r}",
        )
    position = np.array([known.index(one) for one in scorer.classes], dtype=np.int64)
    decided = position[(ask_people(scorer, people.individuals) if reply is None else reply).labels]
    pairs = _LabelPairs(tuple(known), decided, people.labels, ordered=target.kind == "ordinal")
    return _build_result(pairs.worst_first(target.favourable), people, names, config, started)


def measure_recorded_labels(
    decisions: RecordedLabels, config: GroupConfig | None = None, **settings: Any
) -> LabelMetrics:
    """Measure labels that were given, by group: each against the rest, and with true labels how they are confused.

    Args:
        decisions: the labels, and the people they are about.
        config: the settings; by default groups are those of all attributes.
        settings: fields of ``GroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: an attribute is a real number.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    people = decisions.people
    names = people.schema.names if config.protected is None else config.protected
    target = people.schema.target
    pairs = _LabelPairs(target.values or (), decisions.decided, people.labels, ordered=target.kind == "ordinal")
    return _build_result(pairs.worst_first(target.favourable), people, names, config, started)


@dataclass(frozen=True)
class _LabelPairs:
    """Decided and true label of each row.

    Attributes:
        names: All labels, in order if they are ordinal.
        decided: Positions of the decided labels in ``names``, shape (n,).
        truth: Positions of the true labels, -1 where unknown, shape (n,); None without a column of true labels.
        ordered: Whether the labels are ordinal.
    """

    names: tuple[Value, ...]
    decided: Integers
    truth: Integers | None
    ordered: bool

    def at(self, rows: Integers) -> _LabelPairs:
        """Select rows by position."""
        return replace(self, decided=self.decided[rows], truth=None if self.truth is None else self.truth[rows])

    def worst_first(self, favourable: Value) -> _LabelPairs:
        """Reverse ordinal labels whose first label is the favourable one."""
        if not self.ordered or favourable != self.names[0]:
            return self
        highest = len(self.names) - 1
        truth = None if self.truth is None else np.where(self.truth < 0, -1, highest - self.truth)
        return replace(self, names=self.names[::-1], decided=highest - self.decided, truth=truth)


def size_groups(labels: LabelMetrics) -> GroupMetrics:
    """Return the groups with their sizes and labels alone, where no label is the favourable one."""
    return GroupMetrics(
        people=labels.people,
        favourable=NEITHER,
        min_group_size=labels.min_group_size,
        overall={},
        breakdowns=tuple(
            Breakdown(
                by=one.by,
                groups=tuple(
                    Group(values=group.values, size=group.size, small=group.small, metrics={}) for group in one.groups
                ),
                gaps=(),
                unknown=one.unknown,
            )
            for one in labels.breakdowns
        ),
        labels=labels,
        seed=labels.seed,
        seconds=labels.seconds,
    )


def _build_result(
    pairs: _LabelPairs, people: People, names: Sequence[str], config: GroupConfig, started: float
) -> LabelMetrics:
    schema = people.schema
    if not names:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    memberships = [group_by_attribute(schema[name], people.individuals[:, schema.position(name)]) for name in names]
    references = find_references(config.reference, memberships)
    labels = tuple(map(str, pairs.names))
    everybody = LabelCounts.tabulate(
        np.zeros(len(people), dtype=np.int64), ["everybody"], pairs.decided, pairs.truth, len(labels)
    )
    return LabelMetrics(
        people=len(people),
        target=schema.target.name,
        labels=labels,
        ordered=pairs.ordered,
        min_group_size=config.min_group_size,
        overall=_describe_groups(
            everybody,
            [{}],
            pairs,
            config,
            _cover_labels(pairs, np.zeros(len(people), dtype=np.int64), 1),
            confusions=True,
        )[0],
        breakdowns=tuple(
            _build_breakdown([memberships[i] for i in chosen], pairs, references, config)
            for chosen in breakdown_positions(len(memberships))
        ),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _rates_of_grade(counts: LabelCounts, grade: int, confidence: float) -> list[Quantity]:
    return list(measure_rates(counts.at_least(grade), confidence, weighting=""))


def _build_breakdown(
    memberships: Sequence[Membership], pairs: _LabelPairs, references: Mapping[str, str], config: GroupConfig
) -> LabelBreakdown:
    known = np.logical_and.reduce([one.codes < len(one.known) for one in memberships])
    unknown = int((~known).sum())
    if unknown:
        pairs = pairs.at(np.flatnonzero(known))
        memberships = [replace(one, codes=one.codes[known]) for one in memberships]
    group, keys = number_combinations([(one.codes, len(one.labels)) for one in memberships])
    values = [{one.name: one.labels[code] for one, code in zip(memberships, key, strict=True)} for key in keys.tolist()]
    counts = LabelCounts.tabulate(
        group, [", ".join(one.values()) for one in values], pairs.decided, pairs.truth, len(pairs.names)
    )
    reference = next((i for i, named in enumerate(values) if named.items() <= references.items()), None)
    coverage = _cover_labels(pairs, group, len(keys))
    groups = _describe_groups(counts, values, pairs, config, coverage, confusions=len(memberships) == 1)
    comparison = LabelComparison(
        counts,
        tuple(map(str, pairs.names)),
        pairs.ordered,
        config.confidence,
        config.min_group_size,
        reference,
        config.seed,
    )
    return LabelBreakdown(
        by=tuple(one.name for one in memberships),
        groups=tuple(groups),
        gaps=add_cautions(compute_label_gaps(comparison), groups),
        unknown=unknown,
    )


def _cover_labels(pairs: _LabelPairs, group: Integers, groups: int) -> Sequence[LabelCoverage | None]:
    """Count the people with a true label in each group, by decided label; None where there is nothing missing."""
    if pairs.truth is None or (pairs.truth >= 0).all():
        return [None] * groups
    return count_labels(group, groups, pairs.decided, list(map(str, pairs.names)), pairs.truth >= 0)


def _describe_groups(
    counts: LabelCounts,
    values: list[dict[str, str]],
    pairs: _LabelPairs,
    config: GroupConfig,
    coverage: Sequence[LabelCoverage | None],
    *,
    confusions: bool,
) -> list[LabelGroup]:
    names, level = list(map(str, pairs.names)), config.confidence
    rates = {name: measure_label_rates(counts, i, level) for i, name in enumerate(names)}
    grades = names[1:] if pairs.ordered else []
    reached = {name: _rates_of_grade(counts, names.index(name), level) for name in grades}
    over = measure_over_labels(counts, level, ordered=pairs.ordered)
    tables = counts.confused if confusions and counts.confused is not None else None
    return [
        LabelGroup(
            values=named,
            size=int(counts.size[i]),
            small=bool(counts.size[i] < config.min_group_size),
            rates={name: rates[name][i] for name in names},
            at_least={name: reached[name][i] for name in grades},
            metrics=over[i],
            confusion=() if tables is None else tuple(map(tuple, tables[i].tolist())),
            label_coverage=coverage[i],
        )
        for i, named in enumerate(values)
    ]
