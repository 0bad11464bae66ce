"""The audit of a number that is decided, such as a premium: by a model, or already made."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand import groups, individual, population, subgroups
from evenhand.auditing.config import AuditConfig, DecisionAuditConfig
from evenhand.auditing.parts import AuditParts
from evenhand.auditing.proofs import certify_sets
from evenhand.auditing.result import AuditResult, DataCard, ModelCard
from evenhand.auditing.versions import count_values, library_versions
from evenhand.certification.certificate.result import Certificate
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Progress
from evenhand.errors import BudgetError, DataError, OptionError
from evenhand.groups.result import GroupMetrics
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.scorer import ask_numbers, find_caution
from evenhand.models.subject import Subject
from evenhand.schema.columns import PeopleWeights
from evenhand.schema.decisions import RecordedNumbers
from evenhand.schema.people import People
from evenhand.subgroups.result import SubgroupResult

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

SUBGROUPS = "search for subgroups"

SUBGROUP_SHARE = 0.25
"""Share of the time left for each search for subgroups, at most."""

LEAST_SECONDS = 0.5
"""Time limit of a part, at least: mostly it ends sooner."""


def audit_number_model(
    subject: Subject,
    config: AuditConfig,
    *,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    progress: Progress,
    started: float,
) -> AuditResult:
    """Audit a model that decides a number: its numbers by group, and how far they are from the true ones.

    Args:
        subject: the model and the people, whose target is a number.
        config: confidence, sizes, budget, seed.
        metrics: custom metrics by name.
        progress: called with what is being done and the share done, 0 to 1.
        started: when it began, by ``time.perf_counter``.

    Raises:
        EvenhandError: the people have no true numbers, or the model gives none.
    """
    people, schema = subject.people, subject.people.schema
    if people.numbers is None:
        raise DataError(f"the target column {schema.target.name!r} is missing: an audit needs the true numbers")
    if not schema.protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    _refuse_label_settings(config, threshold=subject.thresholds is not None)
    before = subject.ledger.settled
    parts = AuditParts(TimeLimit.after(config.time_limit))
    wider = parts.attempt(
        "simulated population",
        lambda: population.choose_population(config.population, people, as_published=config.as_published),
    )
    with subject.ledger.within(config.budget):
        progress("loading the model", 0.02)
        regressor = subject.regressor
        progress("asking the model about everybody in the data", 0.05)
        measured = groups.measure_numbers(
            regressor,
            people,
            weights=subject.weights,
            metrics=metrics,
            confidence=config.confidence,
            min_group_size=config.min_group_size,
            reference=config.reference,
            keep_decisions=config.keep_decisions,
            seed=config.seed,
        )
        progress("counting subgroups", 0.08)
        decided = parts.run(SUBGROUPS, lambda: _ask_again(subject))
        subgroup_results = {} if decided is None else _search_subgroups(decided, schema.protected, config, parts)
        changes = None
        if wider is not None:
            changes = parts.run(
                "individual changes",
                lambda: individual.measure_changes(
                    regressor,
                    people,
                    wider,
                    protected=schema.protected,
                    tolerance=config.tolerance or 0.0,
                    samples=config.samples,
                    confidence=config.confidence,
                    as_published=config.as_published,
                    seed=config.seed,
                    progress=progress,
                ),
            )
        box, why_not = _read_inside(subject, config, parts, progress)
        certificates = [] if box is None else _certify_changes(box, subject, config, parts, progress)
    subject.ledger.settle()
    progress("done", 1.0)
    model = ModelCard(
        name=regressor.name,
        type=str(getattr(regressor, "kind", type(regressor).__name__)),
        classes=(),
        favourable=str(schema.target.favourable),
        label_only=False,
        white_box=bool(certificates),
        why_not=why_not,
        caution=find_caution(regressor),
    )
    return _make_result(
        model,
        _make_data_card(people, subject.data_name, people.dropped, None, subject.weights),
        people,
        measured,
        parts,
        config.model_dump(),
        started,
    ).model_copy(
        update={
            "queries": subject.ledger.sent - before,
            "changes": changes,
            "certificates": tuple(certificates),
            **subgroup_results,
        }
    )


def _ask_again(subject: Subject) -> RecordedNumbers:
    """Ask the model about everybody once more, as numbers that subgroups are searched in."""
    people = subject.people
    if len(people) > subject.ledger.left:
        raise BudgetError("the budget does not pay for asking about everybody once more")
    return RecordedNumbers(people, ask_numbers(subject.regressor, people.individuals), weights=subject.weights)


def _read_inside(
    subject: Subject, config: AuditConfig, parts: AuditParts, progress: Progress
) -> tuple[AdditiveNetwork | TreeEnsemble | None, str | None]:
    """Return the model as a white box if something is to be proved of it, and why there is none."""
    if config.tolerance is None:
        parts.skip("certification", "no tolerance was given: by how much a number may change (tolerance)")
        return None, None
    progress("reading the model from the inside", 0.5)

    def read() -> AdditiveNetwork | TreeEnsemble:
        with parts.limit.enforced():
            return subject.white_box

    box = parts.run("certification", read)
    return box, None if box is not None or not parts.not_run else parts.not_run[-1].reason


def _certify_changes(
    box: AdditiveNetwork | TreeEnsemble,
    subject: Subject,
    config: AuditConfig,
    parts: AuditParts,
    progress: Progress,
) -> list[Certificate]:
    """Prove who changes by no more than the tolerance, for each protected attribute and all together."""
    schema = subject.people.schema
    if schema.constrains_people and not config.as_published:
        parts.skip(
            "certification of plausible counterparts",
            "a tolerance is proved where the protected attributes alone change, so that people appear in it who break "
            "a rule",
        )
    published = config.population if schema.constrains_people is False else "independent"
    wider = population.choose_population(published, subject.people, as_published=True)
    return certify_sets(
        box,
        wider if isinstance(wider, population.ProductPopulation) else None,
        config,
        parts,
        progress,
        drawn={},
        tolerance=config.tolerance,
        as_published=True,
    )


def audit_recorded_numbers(
    decisions: RecordedNumbers,
    config: DecisionAuditConfig,
    *,
    data_name: str,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    progress: Progress,
) -> AuditResult:
    """Audit numbers that were decided, with no model to ask.

    Args:
        decisions: the numbers, and the people they are about.
        config: confidence, sizes, seed.
        data_name: how to call the data in reports.
        metrics: custom metrics by name.
        progress: called with what is being done and the share done, 0 to 1.

    Raises:
        EvenhandError: the numbers or the settings cannot be used.
    """
    started = time.perf_counter()
    _refuse_label_settings(config, threshold=False)
    people, schema = decisions.people, decisions.people.schema
    progress("comparing groups", 0.0)
    measured = groups.measure_recorded_numbers(
        decisions,
        metrics=metrics,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
        reference=config.reference,
        keep_decisions=config.keep_decisions,
        seed=config.seed,
    )
    progress("done", 1.0)
    model = ModelCard(
        name=f"numbers in column {schema.target.name!r}",
        type="numbers already decided",
        classes=(),
        favourable=str(schema.target.favourable),
        label_only=True,
        white_box=False,
        recorded=True,
    )
    data = _make_data_card(people, data_name, decisions.undecided, decisions.decided, decisions.weights)
    parts = AuditParts(TimeLimit.after(config.time_limit))
    subgroup_results = _search_subgroups(decisions, schema.names, config, parts)
    result = _make_result(model, data, people, measured, parts, config.model_dump(), started)
    return result.model_copy(update=subgroup_results)


def _search_subgroups(
    numbers: RecordedNumbers,
    attributes: tuple[str, ...],
    config: AuditConfig | DecisionAuditConfig,
    parts: AuditParts,
) -> dict[str, SubgroupResult]:
    """Return the subgroups by mean and, with true numbers, by mean residual, as fields of the audit.

    Args:
        numbers: The numbers that were decided.
        attributes: Attributes that describe subgroups.
        config: Confidence and seed.
        parts: Parts of the audit.
    """
    numbers = replace(numbers, people=replace(numbers.people, reading=None))  # the audit itself says it
    share = SUBGROUP_SHARE if isinstance(config, AuditConfig) else 0.5

    def search(measure: Literal["mean", "residual"]) -> SubgroupResult:
        return subgroups.find_subgroups_of_numbers(
            numbers,
            attributes=attributes,
            measure=measure,
            confidence=config.confidence,
            time_limit=parts.limit.left(share, LEAST_SECONDS),
            seed=config.seed,
        )

    results = {"subgroups": parts.run(f"{SUBGROUPS} by mean", lambda: search("mean"))}
    if numbers.people.numbers is not None:
        results["residual_subgroups"] = parts.run(f"{SUBGROUPS} by residual", lambda: search("residual"))
    return {field: result for field, result in results.items() if result is not None}


def _refuse_label_settings(config: AuditConfig | DecisionAuditConfig, *, threshold: bool) -> None:
    """Refuse what is computed for labels alone, rather than leave it out silently.

    Raises:
        OptionError: a setting that numbers have no use for.
    """
    given = {
        "threshold=": threshold or bool(getattr(config, "threshold", ())),
        "thresholds=": config.thresholds,
        "repeats=": getattr(config, "repeats", 1) > 1,
    }
    for name, is_given in given.items():
        if is_given:
            raise OptionError(
                f"expected no {name} where a number is decided: it is there for labels alone",
                hint="leave it out; for labels say `kind=label`",
            )


def _make_result(
    model: ModelCard,
    data: DataCard,
    people: People,
    measured: GroupMetrics,
    parts: AuditParts,
    settings: dict[str, Any],
    started: float,
) -> AuditResult:
    return AuditResult(
        model=model,
        data=data,
        table_reading=people.reading,
        described=people.schema,
        protected=people.schema.names if model.recorded else people.schema.protected,
        groups=measured,
        not_run=parts.end(),
        interrupted=parts.interrupted,
        settings={name: value for name, value in settings.items() if not isinstance(value, tuple)},
        versions=library_versions(),
        seed=measured.seed,
        time_limited=parts.limit.decided,
        seconds=time.perf_counter() - started,
    )


def _make_data_card(
    people: People, name: str, dropped: int, decided: Floats | None, weights: PeopleWeights | None
) -> DataCard:
    fingerprint = hashlib.sha256()
    for part in (people.individuals, decided, people.numbers, None if weights is None else weights.values):
        fingerprint.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    names = people.schema.names if decided is not None else people.schema.protected
    return DataCard(
        name=name,
        people=len(people),
        dropped=dropped,
        fingerprint=fingerprint.hexdigest(),
        counts=count_values(people, names),
        unknown=people.count_unknown(),
        base_rate=None,
        unlabelled=people.unlabelled,
    )
