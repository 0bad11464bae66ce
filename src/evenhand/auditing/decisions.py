"""The audit of decisions already made: groups and subgroups, with no model to ask."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand import groups, subgroups
from evenhand.auditing.config import DecisionAuditConfig
from evenhand.auditing.labels import audit_recorded_labels, refuse_settings_of_one_label
from evenhand.auditing.numbers import audit_recorded_numbers
from evenhand.auditing.parts import AuditParts
from evenhand.auditing.result import AuditResult, DataCard, ModelCard
from evenhand.auditing.versions import count_values, library_versions
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels, RecordedNumbers
from evenhand.schema.people import People


def audit_decisions(
    decisions: RecordedDecisions | RecordedNumbers | RecordedLabels,
    config: DecisionAuditConfig | None = None,
    *,
    data_name: str = "data",
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> AuditResult:
    """Audit decisions already made: everything that needs no model.

    Selection rates and their gaps by group and intersection, and subgroups; with true labels error rates too, and with
    scores of known outcome calibration and the area under the ROC curve. Of numbers, their means, quantiles and
    distributions by group; with true numbers their errors too. Of several labels and of grades, each against the rest.

    Args:
        decisions: the decisions, labels or numbers, and the people they are about.
        config: confidence, sizes, seed.
        data_name: how to call the data in reports.
        metrics: more metrics of groups, of one's own, see ``evenhand.groups.add_metrics``.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``DecisionAuditConfig`` by name, in place of those in ``config``.

    Raises:
        EvenhandError: the decisions or the settings cannot be used.
    """
    started = time.perf_counter()
    config = DecisionAuditConfig.of(config, settings)
    say = progress or ignore_progress
    if isinstance(decisions, RecordedNumbers):
        return audit_recorded_numbers(decisions, config, data_name=data_name, metrics=metrics, progress=say)
    if isinstance(decisions, RecordedLabels):
        refuse_settings_of_one_label(config, metrics)
        return audit_recorded_labels(decisions, config, data_name=data_name, progress=say)
    schema = decisions.people.schema
    say("counting groups", 0.0)
    by_group = groups.measure_recorded_decisions(
        decisions,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
        thresholds=config.thresholds,
        reference=config.reference,
        metrics=metrics,
        keep_decisions=config.keep_decisions,
        seed=config.seed,
    )
    parts = AuditParts(TimeLimit.after(config.time_limit))
    if config.thresholds and by_group.thresholds is None:
        parts.skip("other thresholds", "no scores were given")
    subgroup_result = parts.run(
        "search for subgroups",
        lambda: subgroups.find_subgroups_of_decisions(
            replace(decisions, people=replace(decisions.people, reading=None)),  # the audit itself says it
            confidence=config.confidence,
            time_limit=config.time_limit,
            seed=config.seed,
            progress=lambda step, share: say(step, 0.2 + 0.8 * share),
        ),
    )
    interrupted = parts.interrupted or (subgroup_result is not None and subgroup_result.interrupted)
    say("done", 1.0)
    return AuditResult(
        model=ModelCard(
            name=_name_decisions(decisions),
            type="decisions already made",
            classes=tuple(map(str, schema.target.values or ())),
            favourable=str(schema.target.favourable),
            label_only=decisions.scores is None,
            white_box=False,
            recorded=True,
        ),
        data=make_decision_card(decisions, data_name),
        table_reading=decisions.people.reading,
        described=schema,
        protected=schema.names,
        groups=by_group,
        subgroups=subgroup_result,
        not_run=parts.end(),
        interrupted=interrupted,
        settings=config.model_dump()
        | {
            "reference": ", ".join(config.reference) or None,
            "metrics": ", ".join(metrics or ()) or None,
        },
        versions=library_versions(),
        seed=config.seed,
        time_limited=parts.limit.decided or (subgroup_result is not None and subgroup_result.time_limited),
        seconds=time.perf_counter() - started,
    )


def _name_decisions(decisions: RecordedDecisions) -> str:
    if decisions.thresholds is None:
        return f"decisions in column {decisions.decided_by!r}"
    limit = decisions.thresholds.describe()
    limit = f"up to {limit}" if decisions.thresholds.low_is_good else f"from {limit} on"
    return f"decisions by score {decisions.decided_by!r} {limit}"


def make_decision_card(decisions: RecordedDecisions, name: str) -> DataCard:
    """Return whom decisions were about, with the fingerprint of the data; ``name`` is what they are called."""
    people = decisions.people
    weights = people.counts if decisions.weights is None else decisions.weights.values
    seen = [people.individuals, decisions.selected, people.labels, decisions.scores, weights]
    fingerprint = hashlib.sha256()
    for part in seen:
        fingerprint.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return DataCard(
        name=name,
        people=people.size,
        dropped=decisions.undecided,
        fingerprint=fingerprint.hexdigest(),
        counts=count_values(people, people.schema.names),
        unknown=people.count_unknown(),
        base_rate=_base_rate(people, weights),
        unlabelled=people.unlabelled,
    )


def _base_rate(people: People, weights: Floats | Integers | None) -> float | None:
    """Compute the share of favourable true labels over the people who have one; None if none with a weight has."""
    if people.labels is None:
        return None
    labelled = people.true_labels >= 0
    kept = np.ones(int(labelled.sum())) if weights is None else weights[labelled]
    return float(np.average(people.true_labels[labelled], weights=kept)) if kept.sum() > 0 else None
