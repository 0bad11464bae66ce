"""Ask the model about everybody once, count, and compare groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import field_validator

from evenhand.core.config import Assignments, Config, setting
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.errors import DataError, OptionError
from evenhand.groups.breakdown import Breakdown, Group
from evenhand.groups.custom import BootstrapSettings, DecidedPeople, add_metrics
from evenhand.groups.gaps import GroupComparison, add_cautions, compute_gaps
from evenhand.groups.kept import KeptDecisions, fingerprint_people
from evenhand.groups.label_coverage import DECISIONS, LabelCoverage, count_labels
from evenhand.groups.membership import (
    Membership,
    breakdown_positions,
    find_references,
    group_by_attribute,
    group_by_values,
)
from evenhand.groups.metrics import (
    TENTHS,
    ContingencyTable,
    compute_metrics,
    count_benefits,
    count_groups,
    cross_tabulate,
    cross_tabulate_counts,
    measure_rates,
    number_combinations,
)
from evenhand.groups.proxies.rates import measure_proxies
from evenhand.groups.result import SMALL, CalibrationBin, GroupMetrics
from evenhand.groups.threshold_rates import count_threshold_rates
from evenhand.groups.thresholds import BandSettings, ScoredPeople, trace_curves
from evenhand.models.ledger import ask_people
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer
from evenhand.schema.arrays import check_index, check_rows, read_column, read_columns
from evenhand.schema.columns import PeopleWeights, list_names
from evenhand.schema.decisions import RecordedDecisions
from evenhand.schema.people import People
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.thresholds import Thresholds, describe_scale
from evenhand.stats.auc import auc
from evenhand.stats.inequality import decision_inequality
from evenhand.stats.quantity import Quantity

ROUNDING = 1e-6
"""Scores may leave [0, 1] by this much, as softmax in single precision does."""

LABELS_ONLY = "the model gives labels, no scores"
NO_SCORES = "no scores were given"


class GroupConfig(Config):
    """Settings of the group metrics. Nothing is drawn at random but the bands around curves over the threshold."""

    protected: tuple[str, ...] | None = setting(
        None, "attributes to group by, each alone and then all together; by default the schema's"
    )
    confidence: float = setting(0.95, "confidence level of every interval", gt=0, lt=1)
    min_group_size: int = setting(
        SMALL, "smallest denominator of a rate that is compared between groups; smaller ones are not assessable", ge=1
    )
    reference: Assignments = setting(
        (), "compare every other group with this one, such as sex=Male, in place of best and worst"
    )
    thresholds: bool = setting(
        False, "trace accuracy, selection rates and gaps over the threshold of the score, in simultaneous bands"
    )
    keep_decisions: bool = setting(
        False,
        "keep what was decided about each person, and the score, by which another audit of the same people is compared "
        "with shorter intervals",
    )
    seed: int = setting(0, "of the bands around curves over the threshold", ge=0)

    @field_validator("protected")
    @classmethod
    def _check_protected(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else list_names(names, "protected")


def measure_groups(
    scorer: Scorer,
    people: People,
    config: GroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    progress: Progress | None = None,
    reply: Reply | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Measure performance and group metrics of a model on people with known labels.

    The model is asked for everybody's label and score once, in batches; the rest is counting.

    Args:
        scorer: the model.
        people: whom it decides about, with true labels. An integer attribute with many values is cut into at most five
            ranges.
        config: the settings.
        weights: how much each person counts; None where all count alike.
        metrics: more metrics of one's own, see ``add_metrics``.
        progress: called with what is being done and the share done, 0 to 1.
        reply: the model's answers about everybody, if it was asked already.
        settings: fields of ``GroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: no attribute is protected, or one is a real number.
        SchemaError: there is no attribute of that name.
        DataError: the people have no true labels.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    schema = people.schema
    names = schema.protected if config.protected is None else config.protected
    if not names:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    if progress is not None:
        progress("asking the model about everybody in the data", 0.0)
    true_labels = people.true_labels  # read first: without labels the model is not asked
    memberships = [group_by_attribute(schema[name], people.individuals[:, schema.position(name)]) for name in names]
    reply = ask_people(scorer, people.individuals) if reply is None else reply
    decided = _Decisions(
        memberships,
        selected=reply.labels == scorer.favourable,
        true_labels=true_labels,
        scores=None if scorer.label_only else reply.scores[:, scorer.favourable],
        why_no_scores=LABELS_ONLY,
        weights=weights,
        in_force=getattr(scorer, "thresholds", None),
    )
    found = _build_result(decided, str(schema.target.favourable), config, started)
    return _add_own_metrics(found, metrics, decided.each(), config)


def measure_recorded_decisions(
    decisions: RecordedDecisions,
    config: GroupConfig | None = None,
    *,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    **settings: Any,
) -> GroupMetrics:
    """Measure group metrics of decisions already made; those that compare with the truth where it is known.

    Args:
        decisions: the decisions, and the people they are about.
        config: the settings; by default groups are those of all attributes.
        metrics: more metrics of one's own, see ``add_metrics``.
        settings: fields of ``GroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: an attribute is a real number.
        SchemaError: there is no attribute of that name.
    """
    started = time.perf_counter()
    config = GroupConfig.of(config, settings)
    people, schema = decisions.people, decisions.people.schema
    names = schema.names if config.protected is None else config.protected
    if people.counts is not None:
        _refuse_of_cells(thresholds=config.thresholds, keep_decisions=config.keep_decisions, metrics=bool(metrics))
    memberships = [
        group_by_attribute(schema[name], people.individuals[:, schema.position(name)], people.counts) for name in names
    ]
    decided = _Decisions(
        memberships,
        selected=decisions.selected,
        true_labels=None if people.labels is None else people.true_labels,
        scores=decisions.scores,
        why_no_scores=NO_SCORES,
        risks=decisions.risks,
        counts=people.counts,
        weights=decisions.weights,
        in_force=decisions.thresholds,
    )
    found = _build_result(decided, str(schema.target.favourable), config, started)
    if people.counts is not None:
        return found
    known = decided.each()
    drawn = BootstrapSettings(config.confidence, config.min_group_size, config.seed)
    found = add_proxies(found, decisions.memberships, known, drawn)
    return _add_own_metrics(found, metrics, known, config)


def add_proxies(
    found: GroupMetrics, probable: Sequence[GroupProbabilities], people: DecidedPeople, settings: BootstrapSettings
) -> GroupMetrics:
    """Return group metrics with the rates of groups that are known by probability alone.

    Args:
        found: what was measured of the same people.
        probable: the probabilities of their groups.
        people: what was decided about them; with true labels, error rates are measured too.
        settings: confidence, smallest size, and seed.
    """
    proxies = tuple(
        measure_proxies(
            people.selected,
            one,
            true_favourable=people.true_labels,
            weights=people.weights,
            confidence=settings.confidence,
            min_group_size=settings.least,
            seed=settings.seed,
        )
        for one in probable
    )
    return found.model_copy(update={"proxies": proxies})


def _add_own_metrics(
    found: GroupMetrics,
    metrics: Mapping[str, Callable[..., Any]] | None,
    people: DecidedPeople,
    config: GroupConfig,
) -> GroupMetrics:
    if not metrics:
        return found
    return add_metrics(found, metrics, people, BootstrapSettings(config.confidence, config.min_group_size, config.seed))


def measure_decisions(
    predicted_favourable: ArrayLike,
    true_favourable: ArrayLike | None,
    protected: Mapping[str, ArrayLike],
    *,
    scores: ArrayLike | None = None,
    favourable: str = "favourable",
    confidence: float = 0.95,
    min_group_size: int = SMALL,
    seed: int = 0,
) -> GroupMetrics:
    """Measure group metrics of decisions already made, from plain arrays.

    Args:
        predicted_favourable: who was given the favourable label, booleans or 0 and 1, shape (n,).
        true_favourable: whose true label is favourable, likewise; None where that is not known.
        protected: attribute -> value of each person, shape (n,). Whole numbers with many values are cut into ranges.
        scores: the probability of the favourable label, shape (n,).
        favourable: how to call the favourable label.
        confidence: of every interval.
        min_group_size: the smallest denominator of a rate that is compared between groups.
        seed: kept in the result; nothing is drawn at random.

    Raises:
        DataError: the arrays differ in length, are empty, or hold what they must not.
        OptionError: no protected attribute.
    """
    started = time.perf_counter()
    config = GroupConfig(confidence=confidence, min_group_size=min_group_size, seed=seed)
    check_index(
        predicted_favourable=predicted_favourable, true_favourable=true_favourable, protected=protected, scores=scores
    )
    selected = _read_flags("predicted_favourable", predicted_favourable)
    true_labels = None
    if true_favourable is not None:
        true_labels = _read_flags("true_favourable", true_favourable).astype(np.int64)
    columns = read_columns("protected", protected)
    if not columns:
        raise OptionError("no attribute is protected", hint="name at least one: protected={name: values}")
    given = None if scores is None else _read_numbers("scores", scores)
    arrays = {"predicted_favourable": selected, "true_favourable": true_labels, "scores": given}
    arrays |= {f"protected[{name!r}]": column for name, column in columns.items()}
    if not check_rows({name: array for name, array in arrays.items() if array is not None}):
        raise DataError("expected at least one person, got empty arrays")
    memberships = [group_by_values(name, column) for name, column in columns.items()]
    return _build_result(_Decisions(memberships, selected, true_labels, given, NO_SCORES), favourable, config, started)


class _Decisions(NamedTuple):
    """What was decided about people, and what is known about them.

    Attributes:
        memberships: their groups.
        selected: Whether the decision is the favourable label.
        true_labels: 1 favourable, 0 unfavourable, -1 unknown; None without true labels.
        scores: the probability of the favourable label; None without scores, for the reason ``why_no_scores``.
        risks: the scores as they were given, where a low one is good.
        counts: Number of people per row, shape (n,). None if every row is one person.
        weights: how much each person counts; None where all count alike.
        in_force: the thresholds of the score by which it was decided.
    """

    memberships: Sequence[Membership]
    selected: Booleans
    true_labels: Integers | None
    scores: Floats | None
    why_no_scores: str
    risks: Floats | None = None
    counts: Integers | None = None
    weights: PeopleWeights | None = None
    in_force: Thresholds | None = None

    def each(self) -> DecidedPeople:
        """Return the same, person by person."""
        weights = None if self.weights is None else self.weights.values
        return DecidedPeople(self.memberships, self.selected, self.true_labels, self.scores, weights)


def _refuse_of_cells(**given: bool) -> None:
    """Refuse what needs every person where people were counted by what they share.

    Raises:
        OptionError: one of these is asked for.
    """
    for name, wanted in given.items():
        if wanted:
            raise OptionError(
                f"`{name}=` needs every person, and these rows are counted where they are",
                hint="leave it out, or read a sample of the rows into memory",
            )


def _build_result(decided: _Decisions, favourable: str, config: GroupConfig, started: float) -> GroupMetrics:
    memberships, selected, true_labels, scores, why_no_scores, risks, counts, weights, in_force = decided
    area: Quantity | None = None
    if scores is not None and true_labels is not None:
        labelled = true_labels >= 0
        kept = None if weights is None else weights.values[labelled]
        area = auc(scores[labelled], true_labels[labelled] == 1, config.confidence, weights=kept)
    # Calibration compares scores with rates, which makes sense for probabilities only.
    calibrated = scores is not None and scores.min() >= -ROUNDING and scores.max() <= 1 + ROUNDING
    if scores is not None and not calibrated:
        why_no_scores = describe_scale(scores)
    if counts is not None:
        tally = cross_tabulate_counts(memberships, selected, true_labels, counts)
    else:
        probabilities = np.clip(scores, 0.0, 1.0) if scores is not None and calibrated else None
        tally = cross_tabulate(memberships, selected, true_labels, probabilities, weights)
    people, low_is_good = int(tally.n.sum()), risks is not None
    everybody = count_groups(tally, np.zeros(len(tally.n), dtype=np.int64), 1)
    overall = compute_metrics(everybody, config.confidence, why_no_scores=why_no_scores)[0]
    if area is not None:
        overall["auc"] = area
    if tally.true_labels is not None:
        benefits, labels = count_benefits(tally), int(tally.n[tally.true_labels >= 0].sum())
        for name, alpha in (("generalized_entropy_index", 2.0), ("theil_index", 1.0)):
            overall[name] = decision_inequality(benefits, labels, alpha, config.confidence)
    scored = None
    if scores is not None:
        scored = ScoredPeople(
            memberships,
            scores if risks is None else risks,
            true_labels,
            None if weights is None else weights.values,
            low_is_good=low_is_good,
        )
    references = find_references(config.reference, memberships)
    return GroupMetrics(
        people=people,
        weights=None if weights is None else weights.name,
        effective_size=None if weights is None else float(everybody.effective[0]),
        favourable=favourable,
        min_group_size=config.min_group_size,
        overall=overall,
        label_coverage=_cover_labels(tally, np.zeros(len(tally.n), dtype=np.int64), 1)[0],
        breakdowns=tuple(
            _build_breakdown(memberships, chosen, tally, config, references, why_no_scores=why_no_scores)
            for chosen in breakdown_positions(len(memberships))
        ),
        calibration=()
        if not calibrated or true_labels is None
        else tuple(
            cell
            for i, membership in enumerate(memberships)
            for cell in _calibration_bins(
                membership, i, tally.at(_are_known(memberships, [i], tally)), config.confidence
            )
        ),
        people_fingerprint=fingerprint_people(memberships, true_labels, counts),
        kept=KeptDecisions.keep(memberships, selected, true_labels, {} if scores is None else {"mean_score": scores})
        if config.keep_decisions
        else None,
        decided_by=in_force,
        low_is_good=low_is_good,
        thresholds=None
        if scored is None or not config.thresholds
        else trace_curves(scored, BandSettings(config.confidence, config.min_group_size, config.seed), in_force),
        threshold_rates=None
        if scored is None
        else count_threshold_rates(scored, selected, config.min_group_size, in_force),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _build_breakdown(
    memberships: Sequence[Membership],
    chosen: list[int],
    tally: ContingencyTable,
    config: GroupConfig,
    references: Mapping[str, str],
    *,
    why_no_scores: str,
) -> Breakdown:
    everybody = tally
    tally = tally.at(_are_known(memberships, chosen, tally))
    group, keys = number_combinations([(tally.cells[:, i], len(memberships[i].labels)) for i in chosen])
    values = [
        {memberships[i].name: memberships[i].labels[code] for i, code in zip(chosen, key, strict=True)}
        for key in keys.tolist()
    ]
    counted = count_groups(tally, group, len(keys))
    measured = compute_metrics(counted, config.confidence, why_no_scores=why_no_scores)
    coverage = _cover_labels(tally, group, len(keys))
    groups = tuple(
        Group(
            values=named,
            size=size,
            effective_size=float(effective) if counted.weighted else None,
            small=bool(effective < config.min_group_size),
            metrics=metrics,
            label_coverage=covered,
        )
        for named, size, effective, metrics, covered in zip(
            values, counted.size.tolist(), counted.effective.tolist(), measured, coverage, strict=True
        )
    )
    # The reference of an intersection is that of each of its attributes.
    reference = next((i for i, named in enumerate(values) if named.items() <= references.items()), None)
    labels = [group.label for group in groups]
    return Breakdown(
        by=tuple(memberships[i].name for i in chosen),
        groups=groups,
        gaps=add_cautions(
            compute_gaps(
                GroupComparison(counted, labels, config.confidence, config.min_group_size, reference=reference)
            ),
            groups,
        ),
        unknown=int(everybody.n.sum() - tally.n.sum()),
    )


def _cover_labels(tally: ContingencyTable, group: Integers, groups: int) -> Sequence[LabelCoverage | None]:
    """Count the people with a true label in each group, by decision; None where there is nothing missing."""
    if tally.true_labels is None or (tally.true_labels >= 0).all():
        return [None] * groups
    return count_labels(
        group, groups, tally.selected.astype(np.int64), DECISIONS, tally.true_labels >= 0, counts=tally.n
    )


def _are_known(memberships: Sequence[Membership], chosen: Sequence[int], tally: ContingencyTable) -> Booleans:
    """Return of which kinds of people all these attributes are known, shape (kinds,)."""
    known = np.ones(len(tally.n), dtype=np.bool_)
    for i in chosen:
        known &= tally.cells[:, i] < len(memberships[i].known)
    return known


def _calibration_bins(
    membership: Membership, i: int, tally: ContingencyTable, confidence: float
) -> list[CalibrationBin]:
    """Compute mean score and observed rate in each tenth of the score, per group by attribute ``i``.

    Only people with a true label are counted.
    """
    assert tally.true_labels is not None
    tally = tally.at(tally.true_labels >= 0)
    cell, keys = number_combinations([(tally.cells[:, i], len(membership.labels)), (tally.tenth, TENTHS)])
    counted = count_groups(tally, cell, len(keys))
    counts = counted.rates["base_rate"]
    came_true: list[Quantity] = list(measure_rates(counts, confidence, weighting=counted.weighting))
    means = counted.moments["mean_score"].mean
    return [
        CalibrationBin(
            by=membership.name,
            group=membership.labels[code],
            n=int(counts.people[i]),
            mean_score=float(means[i]),
            base_rate=came_true[i],
        )
        for i, code in enumerate(keys[:, 0].tolist())
    ]


def _read_flags(name: str, values: ArrayLike) -> Booleans:
    import pandas as pd

    flags = pd.Series(read_column(name, values))
    bad = flags[~flags.isin([0, 1])]
    if len(bad):
        raise DataError(
            f"expected booleans, or 0 and 1, as `{name}=`, got {bad.iloc[0]!r} in row {bad.index[0] + 1} "
            f"({len(bad):,} such rows)"
        )
    return flags.to_numpy(np.bool_)


def _read_numbers(name: str, values: ArrayLike) -> Floats:
    column = read_column(name, values)
    try:
        array: Floats = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"expected numbers as `{name}=`") from None
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(f"expected finite numbers as `{name}=`, got {array[bad[0]]} in row {bad[0] + 1}")
    return array
