"""Group metrics of a model or of recorded decisions, labels or numbers."""

from __future__ import annotations

import time
from typing import Any

from evenhand.errors import OptionError
from evenhand.groups.config import GroupConfig
from evenhand.groups.custom import Metrics
from evenhand.groups.decisions import DecisionSample
from evenhand.groups.engine import measure_sample
from evenhand.groups.labels import measure_label_columns
from evenhand.groups.membership import DecidedPeople, group_people
from evenhand.groups.numbers import NumberSample
from evenhand.groups.proxies.rates import measure_proxies
from evenhand.groups.result import GroupMetrics, NumberOutcome
from evenhand.groups.thresholds import trace_curves
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels, RecordedNumbers
from evenhand.stats.auc import auc
from evenhand.stats.inequality import decision_inequality
from evenhand.stats.quantity import Quantity


def measure_groups(
    decisions: RecordedDecisions | RecordedLabels | RecordedNumbers,
    config: GroupConfig | None = None,
    *,
    metrics: Metrics | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Measure group metrics of recorded decisions, labels or numbers. Errors need true labels or values.

    Args:
        decisions: Decisions and people, who are grouped by the protected attributes of their schema; by default, by
            all attributes.
        config: Settings.
        metrics: Custom metrics by name (see ``groups.custom``), unless there are several labels.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: An attribute is a real number, or a setting requires individual people but the people are counted.
    """
    started = time.perf_counter()
    config, people = GroupConfig.of(config, settings), decisions.people
    if people.counts is not None:
        _check_counted(thresholds=config.thresholds, keep_decisions=config.keep_decisions, metrics=bool(metrics))
    memberships = group_people(people, people.schema.protected or people.schema.names)
    target = people.schema.target
    if isinstance(decisions, RecordedLabels):
        result = measure_label_columns(decisions, memberships, config)
    elif isinstance(decisions, RecordedNumbers):
        columns = DecidedPeople(memberships, decisions.decided, people.numbers, weights=decisions.weights)
        outcome = NumberOutcome(name=target.name, unit=target.unit)
        sample = NumberSample.of(columns)
        result = measure_sample(sample, columns, config, metrics, favourable=str(target.favourable), outcome=outcome)
    else:
        truth = None if people.labels is None else people.true_labels
        columns = DecidedPeople(
            memberships, decisions.selected, truth, decisions.scores, decisions.weights, people.counts
        )
        curves, risks = None, decisions.risks
        if config.thresholds and columns.scores is not None:
            scored = columns if risks is None else columns._replace(scores=risks)
            curves = trace_curves(scored, config, decisions.threshold, low_is_good=risks is not None)
        result = measure_people(
            columns,
            config,
            metrics,
            favourable=str(target.favourable),
            decided_by=decisions.threshold,
            low_is_good=risks is not None,
            thresholds=curves,
            proxies=measure_proxies(decisions.selected, decisions.memberships, config, columns.sample_weight),
        )
    return result.model_copy(update={"seconds": time.perf_counter() - started})


def measure_people(
    people: DecidedPeople,
    config: GroupConfig,
    metrics: Metrics | None = None,
    *,
    favourable: str = "favourable",
    **fields: Any,
) -> GroupMetrics:
    """Compute the group metrics of decisions with a favourable label. ``fields`` are further fields of the result."""
    sample = DecisionSample.of(people)
    overall: dict[str, Quantity] = {}
    scores, truth, labelled = people.scores, people.truth, people.labelled
    if scores is not None and truth is not None:
        weights = None if people.sample_weight is None else people.sample_weight[labelled]
        overall["auc"] = auc(scores[labelled], truth[labelled] == 1, config.confidence, weights=weights)
    if truth is not None:
        benefits, n = sample.count_benefits()
        for name, alpha in (("generalized_entropy_index", 2.0), ("theil_index", 1.0)):
            overall[name] = decision_inequality(benefits, n, alpha, config.confidence)
    return measure_sample(sample, people, config, metrics, overall, favourable=favourable, **fields)


def _check_counted(**settings: bool) -> None:
    """Check that no setting requires individual people.

    Raises:
        OptionError: A setting is used.
    """
    for name, used in settings.items():
        if used:
            raise OptionError(
                f"`{name}=` requires individual rows, but these rows are counted where they are stored",
                hint="omit it, or read a sample of the rows into memory",
            )
