"""Group metrics of a model or of recorded decisions with a favourable label."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.config import GroupConfig
from evenhand.groups.custom import DecidedPeople, add_metrics
from evenhand.groups.decisions import DecisionSample, tabulate
from evenhand.groups.engine import break_down, calibrate, describe_groups
from evenhand.groups.kept import KeptDecisions, fingerprint_people
from evenhand.groups.membership import Membership, group_by_values, group_people
from evenhand.groups.proxies.rates import measure_proxies
from evenhand.groups.result import GroupMetrics
from evenhand.groups.thresholds import ScoredPeople, trace_curves
from evenhand.models.ledger import ask_people
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer
from evenhand.schema.arrays import check_index, check_rows, read_column, read_columns
from evenhand.schema.decisions import RecordedDecisions
from evenhand.schema.people import People, PeopleWeights
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.thresholds import Threshold, describe_scale
from evenhand.stats.auc import auc
from evenhand.stats.inequality import decision_inequality
from evenhand.stats.quantity import Quantity

ROUNDING = 1e-6
"""Tolerance for probabilities outside [0, 1], such as those of a softmax in single precision."""

LABELS_ONLY = "the model gives labels, no scores"
NO_SCORES = "no scores were given"

Metrics = Mapping[str, Callable[..., Any]]


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
        people: People with true labels. Integer attributes with many values are cut into at most five ranges.
        config: Settings.
        weights: Sample weights. None means equal weights.
        metrics: Custom metrics by name (see ``add_metrics``).
        progress: Function that is called with the current step and the completed fraction, 0 to 1.
        reply: Predictions of the model, if it was queried before.
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: No attribute is protected, or one is a real number.
        SchemaError: A named attribute does not exist.
        DataError: There are no true labels.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    names = people.schema.protected if config.protected is None else config.protected
    memberships = group_people(people, names)
    true_labels = people.true_labels  # raises before the model is queried
    (progress or ignore_progress)("querying the model about all people in the data", 0.0)
    reply = ask_people(scorer, people.individuals) if reply is None else reply
    decisions = _Decisions(
        memberships,
        selected=reply.labels == scorer.favourable,
        true_labels=true_labels,
        scores=None if scorer.label_only else reply.scores[:, scorer.favourable],
        why_no_scores=LABELS_ONLY,
        weights=weights,
        applied_threshold=getattr(scorer, "threshold", None),
    )
    result = decisions.measure(str(people.schema.target.favourable), config, started)
    return add_metrics(result, metrics or {}, decisions.people, config)


def measure_recorded_decisions(
    decisions: RecordedDecisions,
    config: GroupConfig | None = None,
    *,
    metrics: Metrics | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Measure group metrics of recorded decisions. Error rates need true labels.

    Args:
        decisions: Decisions and people.
        config: Settings. By default, people are grouped by all attributes.
        metrics: Custom metrics by name (see ``add_metrics``).
        settings: Fields of ``GroupConfig`` that replace those of ``config``.

    Raises:
        OptionError: An attribute is a real number, or a setting requires individual people but the people are counted.
        SchemaError: A named attribute does not exist.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    people = decisions.people
    if people.counts is not None:
        _check_counted(thresholds=config.thresholds, keep_decisions=config.keep_decisions, metrics=bool(metrics))
    names = people.schema.names if config.protected is None else config.protected
    sample = _Decisions(
        group_people(people, names),
        selected=decisions.selected,
        true_labels=None if people.labels is None else people.true_labels,
        scores=decisions.scores,
        why_no_scores=NO_SCORES,
        risks=decisions.risks,
        counts=people.counts,
        weights=decisions.weights,
        applied_threshold=decisions.threshold,
    )
    result = sample.measure(str(people.schema.target.favourable), config, started)
    if people.counts is not None:
        return result
    result = add_proxies(result, decisions.memberships, sample.people, config)
    return add_metrics(result, metrics or {}, sample.people, config)


def measure_decisions(
    predicted_favourable: ArrayLike,
    true_favourable: ArrayLike | None,
    protected: Mapping[str, ArrayLike],
    *,
    scores: ArrayLike | None = None,
    favourable: str = "favourable",
    **settings: Any,
) -> GroupMetrics:
    """Measure group metrics of decisions in plain arrays.

    Args:
        predicted_favourable: Whether each decision is favourable, as booleans or 0 and 1, shape (n,).
        true_favourable: Whether each true label is favourable, shape (n,). None without true labels.
        protected: Values of each protected attribute, shape (n,). Integers with many values are cut into ranges.
        scores: Probabilities of the favourable label, shape (n,).
        favourable: Name of the favourable label.
        settings: Fields of ``GroupConfig``.

    Raises:
        OptionError: There is no protected attribute.
        DataError: Arrays are empty, have different lengths, or contain invalid values.
    """
    started = time.perf_counter()
    config = GroupConfig.of(None, settings)
    check_index(
        predicted_favourable=predicted_favourable, true_favourable=true_favourable, protected=protected, scores=scores
    )
    columns = read_columns("protected", protected)
    if not columns:
        raise OptionError("no attribute is protected", hint="name at least one: protected={name: values}")
    decided = _read_flags("predicted_favourable", predicted_favourable)
    true_labels = None if true_favourable is None else _read_flags("true_favourable", true_favourable)
    probabilities = None if scores is None else _read_numbers("scores", scores)
    arrays = {"predicted_favourable": decided, "true_favourable": true_labels, "scores": probabilities}
    arrays |= {f"protected[{name!r}]": column for name, column in columns.items()}
    if not check_rows({name: array for name, array in arrays.items() if array is not None}):
        raise DataError("expected at least one person, got empty arrays")
    memberships = tuple(group_by_values(name, column) for name, column in columns.items())
    decisions = _Decisions(memberships, decided == 1, true_labels, probabilities, NO_SCORES)
    return decisions.measure(favourable, config, started)


def _read_flags(name: str, values: ArrayLike) -> Integers:
    """Read booleans, or 0 and 1, shape (n,)."""
    import pandas as pd

    flags = pd.Series(read_column(name, values))
    bad = flags[~flags.isin([0, 1])]
    if len(bad):
        raise DataError(
            f"expected booleans, or 0 and 1, as `{name}=`, got {bad.iloc[0]!r} in row {bad.index[0] + 1} "
            f"({len(bad):,} such rows)"
        )
    return flags.to_numpy(np.int64)


def _read_numbers(name: str, values: ArrayLike) -> Floats:
    """Read finite numbers, shape (n,)."""
    column = read_column(name, values)
    try:
        array = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"expected numbers as `{name}=`") from None
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(f"expected finite numbers as `{name}=`, got {array[bad[0]]} in row {bad[0] + 1}")
    return array


def add_proxies(
    result: GroupMetrics, attributes: Sequence[GroupProbabilities], people: DecidedPeople, config: GroupConfig
) -> GroupMetrics:
    """Add the rates of groups whose membership is known only as a probability.

    Args:
        result: Group metrics of the same people.
        attributes: Probabilities of the groups by each attribute.
        people: Decisions.
        config: Confidence level, minimum size of a compared group, and random seed.
    """
    proxies = tuple(
        measure_proxies(
            np.asarray(people.decided == 1),
            probabilities,
            weights=people.weights,
            confidence=config.confidence,
            min_group_size=config.min_group_size,
            seed=config.seed,
        )
        for probabilities in attributes
    )
    return result.model_copy(update={"proxies": proxies})


@dataclass(frozen=True)
class _Decisions:
    """Decisions with the known facts about the people, who may be counted by cell.

    Attributes:
        memberships: Groups of the people.
        selected: Whether the decision is the favourable label.
        true_labels: 1 favourable, 0 unfavourable, -1 unknown; None without true labels.
        scores: Scores of the favourable label; None without scores.
        why_no_scores: Reason if there are no scores.
        risks: Original scores if low ones are good.
        counts: Number of people in each cell; None for individual people.
        weights: Sample weights.
        applied_threshold: Threshold that was applied to the scores.
    """

    memberships: tuple[Membership, ...]
    selected: Booleans
    true_labels: Integers | None
    scores: Floats | None
    why_no_scores: str
    risks: Floats | None = None
    counts: Integers | None = None
    weights: PeopleWeights | None = None
    applied_threshold: Threshold | None = None

    @property
    def people(self) -> DecidedPeople:
        """Columns for custom metrics."""
        weights = None if self.weights is None else self.weights.values
        return DecidedPeople(self.memberships, self.selected, self.true_labels, self.scores, weights)

    def measure(self, favourable: str, config: GroupConfig, started: float) -> GroupMetrics:
        """Compute the group metrics, without custom metrics and proxies."""
        people = self.people
        sample = self.tabulate()
        everyone = describe_groups(sample.total(), [{}], config)[0]
        curves = kept = None
        if config.thresholds and self.scores is not None:
            scores = self.scores if self.risks is None else self.risks
            scored = ScoredPeople(self.memberships, scores, self.true_labels, people.weights, self.risks is not None)
            curves = trace_curves(scored, config, self.applied_threshold)
        if config.keep_decisions:
            numbers = {} if self.scores is None else {"mean_score": self.scores}
            kept = KeptDecisions.keep(self.memberships, self.selected, self.true_labels, numbers)
        return GroupMetrics(
            people=everyone.size,
            weights=None if self.weights is None else self.weights.name,
            effective_size=everyone.effective_size,
            favourable=favourable,
            min_group_size=config.min_group_size,
            overall=everyone.metrics | self._measure_overall(sample, config.confidence),
            label_coverage=everyone.label_coverage,
            breakdowns=break_down(sample, config),
            calibration=tuple(calibrate(sample, config.confidence)),
            people_fingerprint=fingerprint_people(self.memberships, self.true_labels, self.counts),
            kept=kept,
            decided_by=self.applied_threshold,
            low_is_good=self.risks is not None,
            thresholds=curves,
            seed=config.seed,
            seconds=time.perf_counter() - started,
        )

    def tabulate(self) -> DecisionSample:
        """Count the people by cell. Scores that are not probabilities are left out: they cannot be calibrated."""
        scores, why_no_scores = self.scores, self.why_no_scores
        if scores is not None and scores.min() >= -ROUNDING and scores.max() <= 1 + ROUNDING:
            scores = np.clip(scores, 0.0, 1.0)
        elif scores is not None:
            why_no_scores, scores = describe_scale(scores), None
        return tabulate(
            self.memberships,
            self.selected,
            self.true_labels,
            scores=scores,
            weights=self.people.weights,
            counts=self.counts,
            why_no_scores=why_no_scores,
        )

    def _measure_overall(self, sample: DecisionSample, confidence: float) -> dict[str, Quantity]:
        """Compute the metrics that are only defined for all people together."""
        metrics: dict[str, Quantity] = {}
        weights = self.people.weights
        if self.scores is not None and self.true_labels is not None:
            labelled = self.people.labelled
            weights = None if weights is None else weights[labelled]
            metrics["auc"] = auc(self.scores[labelled], self.true_labels[labelled] == 1, confidence, weights=weights)
        if sample.true_labels is not None:
            benefits, labels = sample.count_benefits(), sample.size(sample.true_labels >= 0)
            for name, alpha in (("generalized_entropy_index", 2.0), ("theil_index", 1.0)):
                metrics[name] = decision_inequality(benefits, labels, alpha, confidence)
        return metrics


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
