"""The audit of several labels of which none is the favourable one, and of grades in an order."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand import groups
from evenhand.auditing.config import AuditConfig, DecisionAuditConfig
from evenhand.auditing.parts import AuditParts
from evenhand.auditing.result import AuditResult, DataCard, ModelCard, SkippedAnalysis
from evenhand.auditing.versions import count_values, library_versions
from evenhand.core.typing import Progress
from evenhand.errors import OptionError
from evenhand.groups.labels import size_groups
from evenhand.groups.result import GroupMetrics
from evenhand.individual.result import IndividualResult
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer
from evenhand.models.subject import Subject
from evenhand.schema.decisions import RecordedLabels
from evenhand.schema.outcome import Target

NO_FAVOURABLE = "it compares how often one favourable label is given, and none is favourable here"
WEIGHTED = "they count every person alike: leave the weights out for them"
THRESHOLDS = "the decision is made of the favourable label's score, so that other labels are not told apart"


def name_any_favourable(subject: Subject) -> Subject:
    """Return a subject whose model can be asked, where no label is favourable: the last one stands for it.

    Which one it is changes no label that the model gives, and so no flip and no proof.
    """
    schema = subject.people.schema
    values = schema.target.values
    assert values is not None  # of people with labels
    target = Target(name=schema.target.name, favourable=values[-1], values=values)
    people = replace(subject.people, schema=schema.model_copy(update={"target": target}))
    return replace(subject, people=people)


def add_labels(
    measured: GroupMetrics, scorer: Scorer, reply: Reply, subject: Subject, config: AuditConfig, parts: AuditParts
) -> GroupMetrics:
    """Return the metrics of groups with those of each grade, where labels have an order.

    Args:
        measured: Metrics of the favourable label against the rest.
        scorer: The model.
        reply: Answers of the model about everybody.
        subject: The model and the people.
        config: Settings of the audit.
        parts: Takes the reason if there are none.
    """
    why_not = WEIGHTED if subject.weights is not None else THRESHOLDS if subject.thresholds is not None else None
    if subject.people.schema.target.kind != "ordinal":
        return measured
    if why_not is not None:
        parts.skip("grades in their order", why_not)
        return measured
    return measured.model_copy(update={"labels": _measure(scorer, reply, subject, config)})


def measure_each(scorer: Scorer, reply: Reply, subject: Subject, config: AuditConfig) -> GroupMetrics:
    """Return the metrics of each label by group, where none is the favourable one."""
    return size_groups(_measure(scorer, reply, subject, config))


def _measure(scorer: Scorer, reply: Reply, subject: Subject, config: AuditConfig) -> groups.LabelMetrics:
    return groups.measure_labels(
        scorer,
        subject.people,
        reply=reply,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
        reference=config.reference,
        seed=config.seed,
    )


def list_skipped(scorer: Scorer) -> list[SkippedAnalysis]:
    """Return what an audit of a model leaves out where no label is favourable, with the reasons."""
    stand_in = scorer.classes[scorer.favourable]
    return [
        SkippedAnalysis(what="search for subgroups", reason=NO_FAVOURABLE),
        SkippedAnalysis(what="search for individuals", reason=NO_FAVOURABLE),
        SkippedAnalysis(
            what="which of two decisions is better",
            reason=f"no label is favourable; scores of pairs in the JSON are those of {stand_in!r}",
        ),
    ]


def drop_directions(flips: IndividualResult) -> IndividualResult:
    """Return flips without how often the favourable label is given under each value: no label is favourable."""
    rates = tuple(
        one
        if one.noise is None
        else one.model_copy(update={"noise": one.noise.model_copy(update={"directions": (), "p": None})})
        for one in flips.rates
    )
    return flips.model_copy(update={"rates": rates})


def audit_recorded_labels(
    decisions: RecordedLabels,
    config: DecisionAuditConfig,
    *,
    data_name: str,
    progress: Progress,
) -> AuditResult:
    """Audit labels that were given, with no model to ask.

    Args:
        decisions: the labels, and the people they are about.
        config: confidence, sizes, reference, seed.
        data_name: how to call the data in reports.
        progress: called with what is being done and the share done, 0 to 1.

    Raises:
        EvenhandError: the labels or the settings cannot be used.
    """
    started = time.perf_counter()
    people, schema = decisions.people, decisions.people.schema
    progress("comparing groups", 0.0)
    measured = groups.measure_recorded_labels(
        decisions,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
        reference=config.reference,
        seed=config.seed,
    )
    progress("done", 1.0)
    fingerprint = hashlib.sha256()
    for part in (people.individuals, decisions.decided, people.labels):
        fingerprint.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    reason = NO_FAVOURABLE if schema.target.kind == "labels" else "it compares how often one favourable label is given"
    return AuditResult(
        model=ModelCard(
            name=f"labels in column {schema.target.name!r}",
            type="decisions already made",
            classes=tuple(map(str, schema.target.values or ())),
            favourable=str(schema.target.favourable),
            label_only=True,
            white_box=False,
            recorded=True,
        ),
        data=DataCard(
            name=data_name,
            people=len(people),
            dropped=decisions.undecided,
            fingerprint=fingerprint.hexdigest(),
            counts=count_values(people, schema.names),
            unknown=people.count_unknown(),
            base_rate=None,
            unlabelled=people.unlabelled,
        ),
        table_reading=people.reading,
        described=schema,
        protected=schema.names,
        groups=size_groups(measured),
        not_run=(SkippedAnalysis(what="search for subgroups", reason=reason),),
        settings=config.model_dump() | {"reference": ", ".join(config.reference) or None},
        versions=library_versions(),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def refuse_settings_of_one_label(
    config: AuditConfig | DecisionAuditConfig,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    *,
    weighted: bool = False,
    threshold: bool = False,
) -> None:
    """Refuse what is computed for a favourable label alone, rather than leave it out silently.

    Raises:
        OptionError: a setting that several labels have no use for.
    """
    given = {
        "`threshold=`": threshold or bool(getattr(config, "threshold", ())),
        "`thresholds=`": config.thresholds,
        "`keep_decisions=`": config.keep_decisions,
        "metrics": bool(metrics),
        "weights": weighted,
    }
    for name, is_given in given.items():
        if is_given:
            raise OptionError(
                f"expected no {name} where each of several labels is compared: it is there for a favourable label",
                hint="leave it out; or name the `favourable=` label and say `kind=label`",
            )
