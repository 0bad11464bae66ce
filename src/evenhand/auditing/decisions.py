"""Audit of recorded decisions, labels or numbers: groups and subgroups, without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from evenhand import groups, subgroups
from evenhand.auditing.config import DecisionAuditConfig, check_settings
from evenhand.auditing.labels import NO_FAVOURABLE, ONE_LABEL
from evenhand.auditing.parts import MIN_SECONDS, SUBGROUPS, AuditParts, make_data_card, measure_base_rate
from evenhand.auditing.result import AuditResult, DataCard, ModelCard
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels, RecordedNumbers
from evenhand.subgroups.result import SubgroupResult

Recorded: TypeAlias = RecordedDecisions | RecordedNumbers | RecordedLabels
Metrics: TypeAlias = Mapping[str, Callable[..., Any]] | None


def audit_decisions(
    decisions: Recorded,
    config: DecisionAuditConfig | None = None,
    *,
    data_name: str = "data",
    metrics: Metrics = None,
    progress: Progress | None = None,
    **settings: Any,
) -> AuditResult:
    """Audit recorded decisions by group, intersection and subgroup.

    The result contains selection rates and their gaps; with true labels also error rates; with scores and true labels
    also calibration and the area under the ROC curve. For numbers, it contains means, quantiles and distributions; with
    true values also errors. Several labels or grades are each compared with all others.

    Args:
        decisions: Decisions, labels or numbers of the people, with their attributes.
        config: Settings of the audit.
        data_name: Name of the data in reports.
        metrics: Custom metrics by name (see ``evenhand.groups.custom``).
        progress: Progress function.
        settings: Fields of ``DecisionAuditConfig``. They override those of ``config``.

    Raises:
        EvenhandError: The decisions or the settings are invalid.
    """
    config = DecisionAuditConfig.of(config, settings)
    progress = progress or ignore_progress
    parts = AuditParts(TimeLimit(config.time_limit))
    if not isinstance(decisions, RecordedDecisions):
        check_settings(config, is_number=isinstance(decisions, RecordedNumbers), metrics=metrics)
    progress("comparing groups", 0.0)
    measured = groups.measure_groups(decisions, config, metrics=metrics)
    if config.thresholds and measured.thresholds is None:
        parts.skip("other thresholds", "there are no scores")
    searches = _search_subgroups(decisions, config, parts, progress)
    progress("done", 1.0)
    return parts.finish(
        decisions.people,
        config,
        model=_describe_decisions(decisions),
        data=_describe_data(decisions, data_name),
        groups=measured,
        settings={"metrics": ", ".join(metrics or ()) or None},
        **searches,
    )


def _search_subgroups(
    decisions: Recorded, config: DecisionAuditConfig, parts: AuditParts, progress: Progress
) -> dict[str, SubgroupResult | None]:
    """Search for subgroups, and return the results by field of the audit."""
    # The audit describes how the table was read, so this description is removed from the results of its parts.
    people = replace(decisions.people, reading=None)
    if isinstance(decisions, RecordedNumbers):
        return search_number_subgroups(replace(decisions, people=people), people.schema.names, config, parts, share=0.5)
    if isinstance(decisions, RecordedLabels):
        several = people.schema.target.kind == "labels"
        parts.skip(SUBGROUPS, NO_FAVOURABLE if several else ONE_LABEL)
        return {}
    unread = replace(decisions, people=people)
    search = parts.run(
        SUBGROUPS,
        lambda: subgroups.find_subgroups_of_decisions(
            unread,
            confidence=config.confidence,
            time_limit=config.time_limit,
            seed=config.seed,
            progress=lambda step, share: progress(step, 0.2 + 0.8 * share),
        ),
    )
    return {"subgroups": search}


def search_number_subgroups(
    numbers: RecordedNumbers,
    attributes: tuple[str, ...],
    config: DecisionAuditConfig,
    parts: AuditParts,
    *,
    share: float,
) -> dict[str, SubgroupResult | None]:
    """Search for subgroups by mean and, with true values, by mean residual. Return them by field of the audit.

    Each search takes at most the given share of the remaining time.
    """

    def search(measure: Literal["mean", "residual"]) -> SubgroupResult:
        return subgroups.find_subgroups_of_numbers(
            numbers,
            attributes=attributes,
            measure=measure,
            confidence=config.confidence,
            time_limit=parts.limit.left(share, MIN_SECONDS),
            seed=config.seed,
        )

    results = {"subgroups": parts.run(f"{SUBGROUPS} by mean", lambda: search("mean"))}
    if numbers.people.numbers is not None:
        results["residual_subgroups"] = parts.run(f"{SUBGROUPS} by residual", lambda: search("residual"))
    return results


def _describe_decisions(decisions: Recorded) -> ModelCard:
    """Describe recorded decisions as a model."""
    target = decisions.people.schema.target
    kind = "numbers" if isinstance(decisions, RecordedNumbers) else "decisions"
    name = f"{'labels' if isinstance(decisions, RecordedLabels) else kind} in column {target.name!r}"
    if isinstance(decisions, RecordedDecisions):
        name = f"decisions in column {decisions.decided_by!r}"
        if decisions.threshold is not None:
            limit = f"{decisions.threshold.value:g}"
            limit = f"up to {limit}" if decisions.threshold.low_is_good else f"from {limit} on"
            name = f"decisions by score {decisions.decided_by!r} {limit}"
    return ModelCard(
        name=name,
        type=f"recorded {kind}",
        classes=() if kind == "numbers" else tuple(map(str, target.values or ())),
        favourable=str(target.favourable),
        label_only=not (isinstance(decisions, RecordedDecisions) and decisions.scores is not None),
        white_box=False,
        recorded=True,
    )


def _describe_data(decisions: Recorded, name: str) -> DataCard:
    people = decisions.people
    contents: list[Any] = [people.individuals]
    base_rate = None
    if isinstance(decisions, RecordedDecisions):
        weights = people.counts if decisions.weights is None else decisions.weights.values
        contents += [decisions.selected, people.labels, decisions.scores, weights]
        base_rate = measure_base_rate(people, weights)
    elif isinstance(decisions, RecordedNumbers):
        weights = None if decisions.weights is None else decisions.weights.values
        contents += [decisions.decided, people.numbers, weights]
    else:
        weights = None if decisions.weights is None else decisions.weights.values
        contents += [decisions.decided, people.labels, weights]
    return make_data_card(people, name, contents, recorded=True, dropped=people.undecided, base_rate=base_rate)
