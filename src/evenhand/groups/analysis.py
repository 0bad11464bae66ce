"""Group metrics of a model or of recorded decisions with a favourable label."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.config import GroupConfig
from evenhand.groups.custom import Metrics
from evenhand.groups.decisions import NO_SCORES, DecisionSample
from evenhand.groups.engine import measure_sample
from evenhand.groups.kept import KeptDecisions
from evenhand.groups.labels import measure_recorded_labels
from evenhand.groups.membership import DecidedPeople, group_by_values, group_people
from evenhand.groups.numbers import measure_recorded_numbers
from evenhand.groups.proxies.rates import measure_proxies
from evenhand.groups.result import GroupMetrics
from evenhand.groups.roles import read_scores
from evenhand.groups.thresholds import trace_curves
from evenhand.models.ledger import ask_people
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer
from evenhand.schema.arrays import check_roles, table_of_columns
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels, RecordedNumbers
from evenhand.schema.people import People, PeopleWeights
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.table import CodedColumn, CodedTable
from evenhand.schema.thresholds import Threshold
from evenhand.stats.auc import auc
from evenhand.stats.inequality import decision_inequality
from evenhand.stats.quantity import Quantity

LABELS_ONLY = "the model gives labels, no scores"


def measure_groups(
    scorer: Scorer,
    people: People,
    config: GroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    metrics: Metrics | None = None,
    progress: Progress | None = None,
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
        progress: Function that is called with the current step and the completed fraction, 0 to 1.
        reply: Predictions of the model, if it was queried before.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: No attribute is protected, or one is a real number.
        SchemaError: A named attribute does not exist.
        DataError: There are no true labels.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings).with_default(people.schema.protected)
    memberships = group_people(people, config.protected)
    true_labels = people.true_labels  # raise errors before the model is queried
    (progress or ignore_progress)("querying the model for all people in the data", 0.0)
    reply = ask_people(scorer, people.individuals) if reply is None else reply
    scores = None if scorer.label_only else reply.scores[:, scorer.favourable]
    return measure_people(
        DecidedPeople(memberships, reply.labels == scorer.favourable, true_labels, scores, weights),
        config,
        metrics,
        started,
        favourable=str(people.schema.target.favourable),
        why_no_scores=LABELS_ONLY,
        threshold=getattr(scorer, "threshold", None),
    )


def measure_recorded(
    decisions: RecordedDecisions | RecordedLabels | RecordedNumbers,
    config: GroupConfig | None = None,
    *,
    metrics: Metrics | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Measure group metrics of recorded decisions, labels or numbers. Errors need true labels or values.

    Args:
        decisions: Decisions and people.
        config: Settings. By default, people are grouped by all attributes.
        metrics: Custom metrics by name (see ``groups.custom``), unless there are several labels.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: An attribute is a real number, or a setting requires individual people but the people are counted.
        SchemaError: A named attribute does not exist.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    if isinstance(decisions, RecordedNumbers):
        return measure_recorded_numbers(decisions, config, metrics)
    if isinstance(decisions, RecordedLabels):
        return measure_recorded_labels(decisions, config)
    people = decisions.people
    if people.counts is not None:
        _check_counted(thresholds=config.thresholds, keep_decisions=config.keep_decisions, metrics=bool(metrics))
    true_labels = None if people.labels is None else people.true_labels
    memberships = group_people(people, config.with_default(people.schema.names).protected)
    return measure_people(
        DecidedPeople(memberships, decisions.selected, true_labels, decisions.scores, decisions.weights, people.counts),
        config,
        metrics,
        started,
        favourable=str(people.schema.target.favourable),
        risks=decisions.risks,
        threshold=decisions.threshold,
        probabilities=decisions.memberships,
    )


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
    started = time.perf_counter()
    config = GroupConfig.of(None, settings)
    arrays = {"y_pred": y_pred, "y_true": y_true, "y_score": y_score}
    frame, features, columns = table_of_columns(arrays, sensitive_features)
    if y_pred is None or len(frame) == 0:
        raise DataError("expected at least one decision as `y_pred=`, got none")
    if not features:
        raise OptionError("no attribute is protected", hint="sensitive_features={name: values}")
    names = features if config.protected is None else config.protected
    check_roles({"protected": names}, features)
    table = CodedTable(frame)
    decided, truth = (
        None if role not in columns else _read_flags(table[columns[role]], role) for role in ("y_pred", "y_true")
    )
    assert decided is not None
    scores = None if y_score is None else read_scores(table[columns["y_score"]], np.arange(table.rows))
    memberships = tuple(group_by_values(table[name]) for name in names)
    return measure_people(DecidedPeople(memberships, decided == 1, truth, scores), config, started=started)


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
    started: float | None = None,
    *,
    favourable: str = "favourable",
    why_no_scores: str = NO_SCORES,
    risks: Floats | None = None,
    threshold: Threshold | None = None,
    probabilities: Sequence[GroupProbabilities] = (),
) -> GroupMetrics:
    """Compute the group metrics of decisions with a favourable label.

    Args:
        people: Decisions.
        config: Settings.
        metrics: Custom metrics by name.
        started: Start of the analysis, by ``time.perf_counter``. Default: now.
        favourable: Favourable label.
        why_no_scores: Reason why there are no scores.
        risks: Original scores if low scores are favourable.
        threshold: Threshold that was applied to the scores.
        probabilities: Group probabilities.
    """
    sample = DecisionSample.of(people, why_no_scores)
    overall: dict[str, Quantity] = {}
    scores, truth, labelled = people.scores, people.truth, people.labelled
    if scores is not None and truth is not None:
        weights = None if people.sample_weight is None else people.sample_weight[labelled]
        overall["auc"] = auc(scores[labelled], truth[labelled] == 1, config.confidence, weights=weights)
    if truth is not None:
        benefits, n = sample.count_benefits()
        for name, alpha in (("generalized_entropy_index", 2.0), ("theil_index", 1.0)):
            overall[name] = decision_inequality(benefits, n, alpha, config.confidence)
    curves = None
    if config.thresholds and scores is not None:
        scored = people if risks is None else people._replace(scores=risks)
        curves = trace_curves(scored, config, threshold, low_is_good=risks is not None)
    numbers = {} if scores is None else {"mean_score": scores}
    return measure_sample(
        sample,
        people,
        config,
        metrics,
        started=time.perf_counter() if started is None else started,
        overall=overall,
        favourable=favourable,
        kept=KeptDecisions.keep(people, numbers) if config.keep_decisions else None,
        decided_by=threshold,
        low_is_good=risks is not None,
        thresholds=curves,
        proxies=measure_proxies(people.decided == 1, probabilities, config, people.sample_weight),
    )


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
