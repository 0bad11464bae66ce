"""The audit of a number that is decided, such as a premium: by a model, or already made."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand import certification, groups, individual, population, subgroups
from evenhand.auditing.config import DEFAULT_SECONDS, AuditConfig, DecisionAuditConfig
from evenhand.auditing.result import AuditResult, DataCard, ModelCard, SkippedAnalysis
from evenhand.auditing.versions import count_values, library_versions
from evenhand.certification import Certificate
from evenhand.core import WorkClock
from evenhand.errors import (
    BudgetError,
    DataError,
    EvenhandError,
    LimitError,
    MissingExtraError,
    ModelError,
    NotAdditiveError,
    OptionError,
)
from evenhand.groups import GroupMetrics
from evenhand.models import AdditiveNetwork, Regressor, Scorer, Subject, ask_numbers, find_caution
from evenhand.schema import People, PeopleWeights, RecordedNumbers
from evenhand.subgroups import SubgroupResult
from evenhand.text import join_names
from evenhand.typing import Floats, Progress

if TYPE_CHECKING:
    from evenhand.models import TreeEnsemble

CERTIFICATION = "certification"
MIN_CERTIFY_SECONDS = 1.0
"""Less time than this for a certificate is not worth starting."""

OUTCOME_SHARE = 0.2
"""Share of the time limit, beyond it, for the proof of who can get several different labels or bands."""

SUBGROUPS = "search for subgroups"
SUBGROUP_SHARE = 0.1
LEAST_SUBGROUP_SECONDS = 2.0
"""Share of the time limit for each search for subgroups, at most, and what it gets at least."""


def audit_number_model(
    subject: Subject, config: AuditConfig, *, progress: Progress, clock: WorkClock, started: float
) -> AuditResult:
    """Audit a model that decides a number: its numbers by group, and how far they are from the true ones.

    Args:
        subject: the model and the people, whose target is a number.
        config: confidence, sizes, budget, seed.
        progress: called with what is being done and the share done, 0 to 1.
        clock: of this run.
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
    wider = population.choose_population(config.population, people, as_published=config.as_published)
    with subject.ledger.within(config.budget):
        progress("loading the model", 0.02)
        regressor = subject.regressor
        progress("asking the model about everybody in the data", 0.05)
        measured = groups.measure_numbers(
            regressor,
            people,
            weights=subject.weights,
            confidence=config.confidence,
            min_group_size=config.min_group_size,
            keep_decisions=config.keep_decisions,
            seed=config.seed,
        )
        skipped: list[SkippedAnalysis] = []
        found: dict[str, SubgroupResult] = {}
        try:
            progress("counting subgroups", 0.08)
            if len(people) > subject.ledger.left:
                raise BudgetError("the budget does not pay for asking about everybody once more")
            decided = RecordedNumbers(people, ask_numbers(regressor, people.individuals), weights=subject.weights)
            seconds = max(LEAST_SUBGROUP_SECONDS, SUBGROUP_SHARE * (config.time_limit or DEFAULT_SECONDS))
            found = _search_subgroups(decided, schema.protected, config, seconds, clock, skipped)
        except BudgetError as error:
            skipped.append(SkippedAnalysis(what=SUBGROUPS, reason=error.message))
        changes = None
        try:
            changes = individual.measure_changes(
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
            )
        except (BudgetError, OptionError) as error:
            skipped.append(SkippedAnalysis(what="individual changes", reason=error.message))
        outcomes = None
        try:
            outcomes = _count_bands(regressor, people, wider, config)
        except (BudgetError, OptionError) as error:
            skipped.append(SkippedAnalysis(what="different bands", reason=error.message))
        box, why_not = _read_inside(subject, config, skipped, progress)
        certificates, bounds = [], None
        if box is not None and config.tolerance is not None:
            certificates = _certify_changes(box, subject, config, skipped, progress)
        if box is not None and config.bands:
            progress("proving different bands", 0.95)
            bounds = prove_outcomes(box, wider, config, clock, skipped)
    subject.ledger.settle()
    progress("done", 1.0)
    model = ModelCard(
        name=regressor.name,
        type=str(getattr(regressor, "kind", type(regressor).__name__)),
        classes=(),
        favourable=str(schema.target.favourable),
        label_only=False,
        white_box=bool(certificates) or bounds is not None,
        why_not=why_not,
        caution=find_caution(regressor),
    )
    return _make_result(
        model,
        _make_data_card(people, subject.data_name, people.dropped, None, subject.weights),
        people,
        measured,
        tuple(skipped),
        config.model_dump() | {"bands": ", ".join(f"{edge:g}" for edge in config.bands) or None},
        clock,
        started,
    ).model_copy(
        update={
            "queries": subject.ledger.sent - before,
            "changes": changes,
            "outcomes": outcomes,
            "outcome_certificate": bounds,
            "certificates": tuple(certificates),
            **found,
        }
    )


def count_outcomes(
    asked: Scorer | Regressor, people: People, wider: population.Population, config: AuditConfig
) -> individual.OutcomeResult:
    """Count who can get several different labels or bands, by the settings of an audit.

    Raises:
        EvenhandError: that cannot be counted, or the budget does not pay for it.
    """
    return individual.count_outcomes(
        asked,
        people,
        wider,
        protected=people.schema.protected,
        bands=config.bands,
        samples=config.samples,
        confidence=config.confidence,
        as_published=config.as_published,
        seed=config.seed,
    )


def _count_bands(
    regressor: Regressor,
    people: People,
    wider: population.Population,
    config: AuditConfig,
) -> individual.OutcomeResult | None:
    """Count who can get different bands of the number, where they are asked for."""
    return count_outcomes(regressor, people, wider, config) if config.bands else None


def prove_outcomes(
    box: AdditiveNetwork | TreeEnsemble,
    wider: population.ProductPopulation | population.MixturePopulation,
    config: AuditConfig,
    clock: WorkClock,
    skipped: list[SkippedAnalysis],
) -> Certificate | None:
    """Prove who can get several different labels or bands, with the protected attributes together."""
    try:
        found = certification.certify(
            box,
            protected=box.schema.protected,
            population=wider,
            bands=config.bands,
            outcomes=config.outcomes,
            time_limit=config.share(OUTCOME_SHARE, MIN_CERTIFY_SECONDS),
            compile_limit=config.compile_limit,
            max_boxes=config.max_boxes,
            confidence=config.confidence,
            seed=config.seed,
            clock=clock,
        )
    except (OptionError, ModelError, LimitError) as error:
        skipped.append(SkippedAnalysis(what="certification of different outcomes", reason=describe_refusal(error)))
        return None
    two = certification.OutcomeShare.of(2, found.certified, found.falsified)
    return found if found.outcomes else found.model_copy(update={"outcomes": (two,)})


def describe_refusal(error: EvenhandError) -> str:
    """Return why a proof was not run; of a limit, also how to have it run."""
    return f"{error.message}; {error.hint}" if isinstance(error, LimitError) and error.hint else error.message


def _read_inside(
    subject: Subject, config: AuditConfig, skipped: list[SkippedAnalysis], progress: Progress
) -> tuple[AdditiveNetwork | TreeEnsemble | None, str | None]:
    """Return the model as a white box where something is to be proved of it, and why it is none."""
    if config.tolerance is None:
        reason = "no tolerance was given: by how much a number may change (tolerance)"
        skipped.append(SkippedAnalysis(what=CERTIFICATION, reason=reason))
        if not config.bands:
            return None, None
    try:
        progress("reading the model from the inside", 0.5)
        return subject.white_box, None
    except (NotAdditiveError, ModelError, MissingExtraError, BudgetError) as error:
        skipped.append(SkippedAnalysis(what=CERTIFICATION, reason=error.message))
        return None, error.message


def _certify_changes(
    box: AdditiveNetwork | TreeEnsemble,
    subject: Subject,
    config: AuditConfig,
    skipped: list[SkippedAnalysis],
    progress: Progress,
) -> list[Certificate]:
    """Prove who changes by no more than the tolerance, for each protected attribute and all together."""
    schema = subject.people.schema
    sets: list[tuple[str, ...]] = [(name,) for name in schema.protected]
    if len(sets) > 1:
        sets.append(schema.protected)
    if schema.constrains_people and not config.as_published:
        reason = (
            "a tolerance is proved where the protected attributes alone change, so that people appear in it who break"
        )
        skipped.append(SkippedAnalysis(what="certification of plausible counterparts", reason=f"{reason} a rule"))
    published = config.population if schema.constrains_people is False else "independent"
    wider = population.choose_population(published, subject.people, as_published=True)
    found = []
    for step, protected in enumerate(sets):
        try:
            progress(f"proving: {' x '.join(protected)}", 0.5 + 0.5 * step / len(sets))
            found.append(
                certification.certify(
                    box,
                    protected=protected,
                    tolerance=config.tolerance,
                    population=wider if isinstance(wider, population.ProductPopulation) else None,
                    as_published=True,
                    time_limit=(config.time_limit or DEFAULT_SECONDS) / len(sets),
                    compile_limit=config.compile_limit,
                    confidence=config.confidence,
                    seed=config.seed,
                )
            )
        except (OptionError, ModelError, LimitError) as error:
            reason = describe_refusal(error)
            skipped.append(SkippedAnalysis(what=f"certification by {join_names(protected)}", reason=reason))
    return found


def audit_recorded_numbers(
    decisions: RecordedNumbers,
    config: DecisionAuditConfig,
    *,
    data_name: str,
    progress: Progress,
    clock: WorkClock,
) -> AuditResult:
    """Audit numbers that were decided, with no model to ask.

    Args:
        decisions: the numbers, and the people they are about.
        config: confidence, sizes, seed.
        data_name: how to call the data in reports.
        progress: called with what is being done and the share done, 0 to 1.
        clock: of this run.

    Raises:
        EvenhandError: the numbers or the settings cannot be used.
    """
    started = time.perf_counter()
    _refuse_label_settings(config, threshold=False)
    people, schema = decisions.people, decisions.people.schema
    progress("comparing groups", 0.0)
    measured = groups.measure_recorded_numbers(
        decisions,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
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
    skipped: list[SkippedAnalysis] = []
    found = _search_subgroups(decisions, schema.names, config, config.time_limit, clock, skipped)
    result = _make_result(model, data, people, measured, tuple(skipped), config.model_dump(), clock, started)
    return result.model_copy(update=found)


def _search_subgroups(
    numbers: RecordedNumbers,
    attributes: tuple[str, ...],
    config: AuditConfig | DecisionAuditConfig,
    seconds: float | None,
    clock: WorkClock,
    skipped: list[SkippedAnalysis],
) -> dict[str, SubgroupResult]:
    """Return the subgroups by mean and, with true numbers, by mean residual, as fields of the audit.

    Args:
        numbers: what was decided.
        attributes: what describes subgroups.
        config: confidence, seed.
        seconds: for each search, at most.
        clock: of this run.
        skipped: what could not be run is added, with the reason.
    """
    numbers = replace(numbers, people=replace(numbers.people, reading=None))  # the audit itself says it
    found = {}
    measures = {"subgroups": "mean", "residual_subgroups": "residual"}
    for field, measure in measures.items():
        if measure == "residual" and numbers.people.numbers is None:
            continue
        try:
            found[field] = subgroups.find_subgroups_of_numbers(
                numbers,
                attributes=attributes,
                measure=measure,
                confidence=config.confidence,
                time_limit=seconds,
                seed=config.seed,
                clock=clock,
            )
        except (OptionError, LimitError) as error:
            skipped.append(SkippedAnalysis(what=f"{SUBGROUPS} by {measure}", reason=error.message))
    return found


def refuse_metrics(metrics: Mapping[str, Callable[..., Any]] | None) -> None:
    """Refuse metrics of one's own where a number is decided.

    Raises:
        OptionError: there are some.
    """
    if metrics:
        raise OptionError(
            f"expected no metrics where a number is decided, got {', '.join(metrics)}: they are for labels",
            hint="leave them out; for labels say `kind=label`",
        )


def _refuse_label_settings(config: AuditConfig | DecisionAuditConfig, *, threshold: bool) -> None:
    """Refuse what is computed for labels alone, rather than leave it out silently.

    Raises:
        OptionError: a setting that numbers have no use for.
    """
    given = {
        "threshold=": threshold or bool(getattr(config, "threshold", ())),
        "thresholds=": config.thresholds,
        "reference=": bool(config.reference),
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
    skipped: tuple[SkippedAnalysis, ...],
    settings: dict[str, Any],
    clock: WorkClock,
    started: float,
) -> AuditResult:
    return AuditResult(
        model=model,
        data=data,
        table_reading=people.reading,
        described=people.schema,
        protected=people.schema.names if model.recorded else people.schema.protected,
        groups=measured,
        not_run=skipped,
        settings={name: value for name, value in settings.items() if not isinstance(value, tuple)},
        versions=library_versions(),
        seed=measured.seed,
        work=clock.work(),
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
