"""Group metrics of a model or of recorded decisions, labels or numbers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
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
from evenhand.models.ledger import ask_people
from evenhand.models.replies import Reply
from evenhand.models.scorer import Regressor, Scorer, ask_numbers
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels, RecordedNumbers
from evenhand.schema.people import People, PeopleWeights
from evenhand.stats.auc import auc
from evenhand.stats.inequality import decision_inequality
from evenhand.stats.quantity import Quantity


def measure_groups(
    scorer: Scorer,
    people: People,
    config: GroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    metrics: Metrics | None = None,
    reply: Reply | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Measure performance and group metrics of a model on people with true labels.

    Args:
        scorer: Model. It is queried once per person, in batches.
        people: People with true labels. Integer attributes with many values are divided into at most five ranges.
        config: Settings.
        weights: Sample weights. None means equal weights.
        metrics: Custom metrics by name (see ``groups.custom``).
        reply: Predictions of the model, if it was queried before.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: No attribute is protected, or one is a real number.
        SchemaError: A named attribute does not exist.
        DataError: There are no true labels.
    """
    config = GroupConfig.of(config, settings)
    group_people(people, people.schema.protected)  # raises errors before the model is queried, as do the true labels
    if people.labels is None:
        raise DataError(f"the data has no column {people.schema.target.name!r} with the true label")
    reply = ask_people(scorer, people.individuals) if reply is None else reply
    decisions = RecordedDecisions(
        people,
        reply.labels == scorer.favourable,
        None if scorer.label_only else reply.scores[:, scorer.favourable],
        weights=weights,
        threshold=getattr(scorer, "threshold", None),
    )
    return measure_recorded(decisions, config, metrics=metrics)


def measure_labels(
    scorer: Scorer,
    people: People,
    config: GroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    reply: Reply | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Measure one-vs-rest rates and confusion matrices of predicted labels by group.

    Args:
        scorer: Model. It is queried once per person.
        people: People with true labels. Ordinal labels are grades in the order of the schema, worst first.
        config: Settings.
        weights: Sample weights. None means equal weights.
        reply: Predictions of the model, if it was queried before.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: No attribute is protected, or the model predicts a label that the order lacks.
        DataError: There are no true labels.
    """
    target = people.schema.target
    if people.labels is None or target.values is None:
        raise DataError(f"the data has no column {target.name!r} with the true labels")
    labels = [*target.values, *(label for label in scorer.classes if label not in target.values)]
    if target.kind == "ordinal" and len(labels) > len(target.values):
        raise OptionError(
            f"the model predicts {labels[-1]!r}, which is not in the order of {target.name!r}",
            hint=f"name every label: order={[*target.values, labels[-1]]!r}",
        )
    positions = np.array([labels.index(label) for label in scorer.classes], dtype=np.int64)
    decided = positions[(ask_people(scorer, people.individuals) if reply is None else reply).labels]
    schema = people.schema.model_copy(update={"target": target.model_copy(update={"values": tuple(labels)})})
    decisions = RecordedLabels(replace(people, schema=schema), decided, weights=weights)
    return measure_recorded(decisions, config, **settings)


def measure_numbers(
    regressor: Regressor,
    people: People,
    config: GroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    metrics: Metrics | None = None,
    **settings: object,
) -> GroupMetrics:
    """Measure the numbers that a model predicts, by group, and their errors.

    Args:
        regressor: Model. It is queried once per person.
        people: People with true values.
        config: Settings.
        weights: Sample weights. None means equal weights.
        metrics: Custom metrics by name (see ``groups.custom``).
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: No attribute is protected, or one is a real number.
        DataError: There are no true values.
    """
    if people.numbers is None:
        raise DataError(f"the data has no column {people.schema.target.name!r} with the true values")
    decided = ask_numbers(regressor, people.individuals)
    return measure_recorded(RecordedNumbers(people, decided, weights=weights), config, metrics=metrics, **settings)


def measure_recorded(
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
        SchemaError: A named attribute does not exist.
    """
    started = time.perf_counter()
    config, people = GroupConfig.of(config, settings), decisions.people
    if people.counts is not None:
        _check_counted(thresholds=config.thresholds, keep_decisions=config.keep_decisions, metrics=bool(metrics))
    memberships = group_people(people, people.schema.protected or people.schema.names)
    if isinstance(decisions, RecordedLabels):
        return measure_label_columns(decisions, memberships, config, started)
    target, favourable = people.schema.target, str(people.schema.target.favourable)
    if isinstance(decisions, RecordedNumbers):
        columns = DecidedPeople(memberships, decisions.decided, people.numbers, weights=decisions.weights)
        sample, outcome = NumberSample.of(columns), NumberOutcome(name=target.name, unit=target.unit)
        return measure_sample(sample, columns, config, metrics, started, favourable=favourable, outcome=outcome)
    true_labels = None if people.labels is None else people.true_labels
    columns = DecidedPeople(
        memberships, decisions.selected, true_labels, decisions.scores, decisions.weights, people.counts
    )
    curves, risks = None, decisions.risks
    if config.thresholds and columns.scores is not None:
        scored = columns if risks is None else columns._replace(scores=risks)
        curves = trace_curves(scored, config, decisions.threshold, low_is_good=risks is not None)
    return measure_people(
        columns,
        config,
        metrics,
        started,
        favourable=favourable,
        decided_by=decisions.threshold,
        low_is_good=risks is not None,
        thresholds=curves,
        proxies=measure_proxies(decisions.selected, decisions.memberships, config, columns.sample_weight),
    )


def measure_people(
    people: DecidedPeople,
    config: GroupConfig,
    metrics: Metrics | None = None,
    started: float | None = None,
    *,
    favourable: str = "favourable",
    **fields: Any,
) -> GroupMetrics:
    """Compute the group metrics of decisions with a favourable label.

    Args:
        people: Decisions.
        config: Settings.
        metrics: Custom metrics by name.
        started: Start of the analysis, by ``time.perf_counter``. Default: now.
        favourable: Favourable label.
        fields: Further fields of the result.
    """
    started = time.perf_counter() if started is None else started
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
    return measure_sample(sample, people, config, metrics, started, overall, favourable=favourable, **fields)


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
