"""Group metrics of a model or of recorded decisions, labels or numbers."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from evenhand.core.typing import Integers
from evenhand.errors import DataError, OptionError
from evenhand.groups.config import GroupConfig
from evenhand.groups.custom import Metrics
from evenhand.groups.decisions import DecisionSample
from evenhand.groups.engine import measure_sample
from evenhand.groups.labels import measure_label_columns
from evenhand.groups.membership import DecidedPeople, group_by_values, group_people
from evenhand.groups.numbers import NumberSample
from evenhand.groups.proxies import measure_proxies
from evenhand.groups.result import GroupMetrics, NumberOutcome
from evenhand.groups.roles import read_scores
from evenhand.groups.thresholds import trace_curves
from evenhand.schema.arrays import table_of_columns
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels, RecordedNumbers
from evenhand.schema.table import CodedColumn, CodedTable
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
        individual = {"thresholds": config.thresholds, "keep_decisions": config.keep_decisions, "metrics": metrics}
        for name in (name for name, used in individual.items() if used):
            raise OptionError(
                f"`{name}=` requires individual rows, but these rows are counted where they are stored",
                hint="omit it, or read a sample of the rows into memory",
            )
    memberships = group_people(people, people.schema.protected or people.schema.names)
    target = people.schema.target
    if isinstance(decisions, RecordedLabels):
        result = measure_label_columns(decisions, memberships, config)
    elif isinstance(decisions, RecordedNumbers):
        columns = DecidedPeople(memberships, decisions.decided, people.numbers, weights=decisions.weights)
        outcome = NumberOutcome(name=target.name, unit=target.unit)
        sample = NumberSample.of(columns)
        result = measure_sample(sample, config, metrics, favourable=str(target.favourable), outcome=outcome)
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
            proxies=tuple(
                measure_proxies(decisions.selected, attribute, config, columns.sample_weight)
                for attribute in decisions.memberships
            ),
        )
    return result.model_copy(update={"seconds": time.perf_counter() - started})


def measure_decisions(
    y_pred: Any, y_true: Any, sensitive_features: Any, *, y_score: Any = None, **settings: Any
) -> GroupMetrics:
    """Measure group metrics of decisions in plain arrays.

    Missing sensitive features form a group. ``evenhand.audit_predictions`` reads other labels, missing true labels and
    sample weights.

    Args:
        y_pred: Decisions, shape (n,): 1 or True if favourable, 0 or False otherwise.
        y_true: True labels in the same form, shape (n,). None without true labels.
        sensitive_features: Values of each protected attribute, as in ``evenhand.audit_predictions``.
        y_score: Scores of the favourable decision, shape (n,).
        settings: Fields of ``GroupConfig``.

    Raises:
        EvenhandError: An array or a setting is invalid.
    """
    arrays = {"y_pred": y_pred, "y_true": y_true, "y_score": y_score}
    frame, features, columns = table_of_columns(arrays, sensitive_features)
    if y_pred is None or len(frame) == 0:
        raise DataError("expected at least one decision as `y_pred=`, got none")
    if not features:
        raise OptionError("no attribute is protected", hint="sensitive_features={name: values}")
    table = CodedTable(frame)
    selected = _read_flags(table[columns["y_pred"]], "y_pred") == 1
    truth = None if y_true is None else _read_flags(table[columns["y_true"]], "y_true")
    scores = None if y_score is None else read_scores(table[columns["y_score"]], np.arange(table.rows))
    memberships = tuple(group_by_values(table[name]) for name in features)
    return measure_people(DecidedPeople(memberships, selected, truth, scores), GroupConfig.of(None, settings))


def _read_flags(column: CodedColumn, argument: str) -> Integers:
    """Read booleans, or 0 and 1, shape (n,)."""
    flags = column.numbers(lambda value: value if isinstance(value, int | float) else math.nan)
    hint = f"compare with the favourable label: `{argument} == LABEL`; or use `evenhand.audit_predictions`"
    column.refuse((flags != 0) & (flags != 1), "a boolean, 0 or 1", hint)
    return flags.astype(np.int64)


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
    scores, truth = people.scores, people.truth
    if truth is not None:
        if scores is not None:
            labelled = truth >= 0
            weights = None if people.sample_weight is None else people.sample_weight[labelled]
            overall["auc"] = auc(scores[labelled], truth[labelled] == 1, config.confidence, weights=weights)
        benefits, n = sample.count_benefits()
        for name, alpha in (("generalized_entropy_index", 2.0), ("theil_index", 1.0)):
            overall[name] = decision_inequality(benefits, n, alpha, config.confidence)
    return measure_sample(sample, config, metrics, overall, favourable=favourable, **fields)
