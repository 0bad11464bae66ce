"""Audit of a model with a numeric target, such as a premium."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from evenhand import groups, individual, population
from evenhand.auditing.config import AuditConfig
from evenhand.auditing.decisions import search_number_subgroups
from evenhand.auditing.parts import AuditParts, make_data_card
from evenhand.auditing.proofs import certify_sets
from evenhand.auditing.result import AuditResult, ModelCard
from evenhand.certification.certificate.result import Certificate
from evenhand.core.typing import Progress
from evenhand.errors import DataError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.scorer import ask_numbers, find_caution
from evenhand.models.subject import Subject
from evenhand.schema.decisions import RecordedNumbers

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

SUBGROUP_SHARE = 0.25
"""Maximum share of the remaining time for each search for subgroups."""


def audit_number_model(
    subject: Subject,
    config: AuditConfig,
    parts: AuditParts,
    progress: Progress,
    *,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
) -> AuditResult:
    """Audit the numbers of a model by group, subgroup and individual, and their errors.

    Args:
        subject: Model and people, with a numeric target.
        config: Settings of the audit.
        parts: Parts of the audit.
        progress: Progress function.
        metrics: Custom metrics by name.

    Raises:
        EvenhandError: The people have no true values, or the model returns no numbers.
    """
    people, schema = subject.people, subject.people.schema
    if people.numbers is None:
        raise DataError(f"the target column {schema.target.name!r} is missing: an audit requires the true numbers")
    wider = parts.attempt(
        "simulated population",
        lambda: population.choose_population(config.population, people, as_published=config.as_published),
    )
    progress("loading the model", 0.02)
    regressor = subject.regressor
    progress("querying the model for all people", 0.05)
    decided = RecordedNumbers(people, ask_numbers(regressor, people.individuals), weights=subject.weights)
    measured = groups.measure_groups(decided, config, metrics=metrics)
    progress("searching for subgroups", 0.08)
    # The audit describes how the table was read, so this description is removed from the results of its parts.
    asked = replace(decided, people=replace(people, reading=None))
    results: dict[str, Any] = {**search_number_subgroups(asked, schema.protected, config, parts, share=SUBGROUP_SHARE)}
    if wider is not None:
        results["changes"] = parts.run(
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
    network, reason = _open_white_box(subject, config, parts, progress)
    certificates = [] if network is None else _certify_changes(network, subject, config, parts, progress)
    progress("done", 1.0)
    weights = None if subject.weights is None else subject.weights.values
    return parts.finish(
        people,
        config,
        model=ModelCard(
            name=regressor.name,
            type=str(getattr(regressor, "kind", type(regressor).__name__)),
            classes=(),
            favourable=str(schema.target.favourable),
            label_only=False,
            white_box=bool(certificates),
            why_not=reason,
            caution=find_caution(regressor),
        ),
        data=make_data_card(
            people,
            subject.data_name,
            (people.individuals, people.numbers, weights),
            recorded=False,
            dropped=people.dropped,
        ),
        groups=measured,
        settings={"threshold": None, "metrics": ", ".join(metrics or ()) or None},
        certificates=tuple(certificates),
        **results,
    )


def _open_white_box(
    subject: Subject, config: AuditConfig, parts: AuditParts, progress: Progress
) -> tuple[AdditiveNetwork | TreeEnsemble | None, str | None]:
    """Extract a white box of the model if a tolerance is set. If there is none, also return the reason."""
    if config.tolerance is None:
        parts.skip("certification", "no tolerance was set: the maximum change of a number (tolerance)")
        return None, None
    progress("reading the white box", 0.5)
    network = parts.run("certification", lambda: subject.white_box)
    return network, None if network is not None or not parts.not_run else parts.not_run[-1].reason


def _certify_changes(
    network: AdditiveNetwork | TreeEnsemble,
    subject: Subject,
    config: AuditConfig,
    parts: AuditParts,
    progress: Progress,
) -> list[Certificate]:
    """Certify changes within the tolerance, for each protected attribute and for all of them jointly."""
    schema = subject.people.schema
    if schema.constrains_people and not config.as_published:
        parts.skip(
            "certification of plausible counterparts",
            "a tolerance is certified only for changes of the protected attributes alone, so the population includes "
            "people who violate a rule",
        )
    kind: Literal["data", "uniform", "independent"] = "independent" if schema.constrains_people else config.population
    wider = population.choose_population(kind, subject.people, as_published=True)
    return certify_sets(
        network,
        wider if isinstance(wider, population.ProductPopulation) else None,
        config,
        parts,
        progress,
        drawn={},
        tolerance=config.tolerance,
        as_published=True,
    )
