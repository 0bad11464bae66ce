"""Audit of a model: groups, subgroups and individuals, with proofs if the model is a white box."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from evenhand import groups, individual, models, population
from evenhand import subgroups as subgroup
from evenhand.auditing.config import AuditConfig, check_settings
from evenhand.auditing.labels import (
    THRESHOLDS,
    list_skipped,
    record_decisions,
    record_labels,
    select_any_favourable,
)
from evenhand.auditing.numbers import SUBGROUP_SHARE, audit_number_model
from evenhand.auditing.parts import (
    MIN_SECONDS,
    SUBGROUPS,
    AuditParts,
    describe_failure,
    make_data_card,
    measure_base_rate,
)
from evenhand.auditing.proofs import certify_sets
from evenhand.auditing.result import AuditResult, DataCard, ModelCard
from evenhand.certification.bounds.scores import needs_kernels
from evenhand.certification.certificate.result import Certificate, estimated_share
from evenhand.core.interrupts import RUNNING_SECONDS
from evenhand.core.time_limit import Clock, TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import BudgetError, DataError, EvenhandError, OptionError
from evenhand.groups.proxies import measure_proxies
from evenhand.individual.result import IndividualResult
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.noise import NoiseCheck
from evenhand.models.replies import QuestionLedger, Reply, ask_people, find_ledger
from evenhand.models.scorer import Scorer, find_caution
from evenhand.models.subject import Subject
from evenhand.models.thresholds import ThresholdScorer
from evenhand.models.white_box import extract_white_box
from evenhand.population.independent import ProductPopulation
from evenhand.population.mixture import MixturePopulation
from evenhand.schema.people import People
from evenhand.schema.thresholds import Threshold
from evenhand.stats.combined import Draws
from evenhand.stats.quantity import quantity_value

if TYPE_CHECKING:
    from evenhand.individual.search.result import SearchResult
    from evenhand.models.trees.ensemble import TreeEnsemble

Metrics: TypeAlias = Mapping[str, Callable[..., Any]] | None

FLIP_SHARE, WHITE_FLIP_SHARE = 0.8, 0.4
"""Shares of the remaining time and budget for flip rates, without and with a white box (which is also certified)."""

SEARCH_SHARE = 0.25
"""Maximum share of the remaining time for the searches for individuals."""

SEARCH_SEEDS = 50
"""Number of people that a search starts from."""


def audit(
    subject: Subject,
    config: AuditConfig | None = None,
    *,
    metrics: Metrics = None,
    progress: Progress | None = None,
    **settings: Any,
) -> AuditResult:
    """Audit a model on people with true labels or numbers.

    Args:
        subject: Model and people.
        config: Settings of the audit.
        metrics: Custom metrics by name (see ``evenhand.groups.custom``).
        progress: Progress function.
        settings: Fields of ``AuditConfig``. They override those of ``config``.

    Returns:
        The result, with the reasons for parts that were not run. After an interrupt (Ctrl-C), it contains the parts
        completed before.

    Raises:
        EvenhandError: The people, the model or the options are invalid.
    """
    started = time.perf_counter()
    config = AuditConfig.of(config, settings)
    progress = progress or ignore_progress
    if config.threshold is not None:
        subject = replace(subject, threshold=Threshold.parse(config.threshold))
    schema = subject.people.schema
    if subject.memberships and schema.target.kind != "label":
        raise OptionError(
            f"group probabilities require a favourable label, but {schema.target.name!r} contains "
            f"{'numbers' if schema.target.is_number else 'several labels'}",
            hint="leave `membership=` out; or pass the `favourable=` label and `kind=label`",
        )
    if schema.target.kind in ("number", "labels"):
        threshold = subject.threshold is not None
        check_settings(config, is_number=schema.target.is_number, metrics=metrics, threshold=threshold)
    if not schema.protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    if not schema.target.is_number:
        # Raise the error for too many assignments now instead of after minutes of work.
        for name in schema.protected:
            schema.assignments([name])
        _require_two_classes(subject.people)
    ledger = subject.ledger if schema.target.is_number else find_ledger(subject.model) or subject.ledger
    queries = ledger.settled
    with ledger.within(config.budget):
        if schema.target.is_number:
            parts = AuditParts(TimeLimit(config.time_limit, Clock(subject.requested)))
            result = audit_number_model(subject, config, parts, progress, metrics=metrics)
        else:
            result = _audit_labels(subject, config, metrics, progress, ledger)
    ledger.settle()
    return result.model_copy(update={"queries": ledger.sent - queries, "seconds": time.perf_counter() - started})


def forecast_queries(people: People, config: AuditConfig) -> int:
    """Compute an upper bound on the number of individuals for which an audit without a budget queries a black box.

    The bound includes all people once; for flip rates, all people and the sample under each assignment of each set of
    protected attributes, twice if counterparts differ from these because of rules; repeated queries of both sides of
    each flip; subgroups; and searches. With a time limit, fewer individuals are queried.
    """
    from evenhand.individual.analysis import RESERVED_ROUNDS
    from evenhand.individual.search import SearchConfig
    from evenhand.individual.search.analysis import forecast_queries as forecast_search
    from evenhand.subgroups.analysis import forecast_queries as forecast_subgroups

    schema, names = people.schema, people.schema.protected
    sets = [[name] for name in names] + ([list(names)] if len(names) > 1 else [])
    assignments = sum(len(schema.assignments(protected)) for protected in sets)
    variants = (assignments + 2 * RESERVED_ROUNDS * len(sets)) * (2 if schema.constrains_people else 1)
    if schema.target.is_number:
        return len(people) + variants * (len(people) + config.samples)
    local = -(-config.searched // SEARCH_SEEDS)
    searches = [
        forecast_search(people, SearchConfig(protected=(name,), seeds=SEARCH_SEEDS, local=local, samples=0))
        for name in (names if config.searched else ())
    ]
    by_subgroup = forecast_subgroups(people, subgroup.SubgroupConfig(repeats=config.repeats)) or 0
    return by_subgroup + config.repeats * variants * (len(people) + config.samples) + sum(searches)


def _audit_labels(
    subject: Subject, config: AuditConfig, metrics: Metrics, progress: Progress, ledger: QuestionLedger
) -> AuditResult:
    with RUNNING_SECONDS.paused():  # the first import takes seconds: keep it outside the time limit
        importlib.import_module("sklearn.cluster")
    parts = AuditParts(TimeLimit(config.time_limit, Clock(subject.requested)))
    described = subject.people
    several = described.schema.target.kind == "labels"
    subject = select_any_favourable(subject) if several else subject
    # The audit describes how the table was read, so this description is removed from the results of its parts.
    subject = replace(subject, people=replace(subject.people, reading=None))
    people, schema = subject.people, subject.people.schema
    progress("loading the model", 0.02)
    scorer = subject.scorer
    if find_ledger(scorer) is not None and len(people) > ledger.left:
        raise BudgetError(
            f"the budget of {ledger.budget:,} rows is not sufficient for the {len(people):,} people in the data",
            location="`budget=`",
            hint="raise the budget, or pass fewer people",
        )
    progress("querying the model for all people", 0.05)
    reply = ask_people(scorer, people.individuals)
    parts.not_run += list_skipped(scorer) if several else []
    by_group = _measure_groups(subject, config, metrics, reply, parts, several=several)
    progress("fitting the simulated population", 0.09)
    wider = parts.attempt(
        "simulated population",
        lambda: population.choose_population(config.population, people, as_published=config.as_published),
    )
    network, reason = _open_white_box(scorer, people, reply, parts.limit)
    share = WHITE_FLIP_SHARE if network is not None else FLIP_SHARE
    flips: IndividualResult | None = None
    if wider is not None:
        flips = parts.run(
            "individual flip rates",
            lambda: individual.measure_flips(
                scorer,
                people,
                wider,
                individual.FlipConfig(
                    protected=schema.protected,
                    samples=config.samples,
                    confidence=config.confidence,
                    time_limit=parts.limit.left(share, MIN_SECONDS),
                    budget=None if config.budget is None else max(1, int(share * ledger.left)),
                    repeats=config.repeats,
                    as_published=config.as_published,
                    seed=config.seed,
                ),
                white_box=network,
                progress=lambda step, done: progress(step, 0.1 + 0.25 * done),
            ),
        )
        parts.interrupted |= flips is not None and flips.interrupted
    if config.thresholds and by_group.thresholds is None and by_group.breakdowns:
        parts.skip("other thresholds", "the model returns labels without scores")
    noise = None if flips is None else flips.noise
    results: dict[str, Any] = {}
    if not several:
        progress("searching for subgroups", 0.34)
        results["subgroups"] = parts.run(
            SUBGROUPS,
            lambda: subgroup.find_subgroups(
                scorer,
                people,
                weights=subject.weights,
                noise=noise,
                confidence=config.confidence,
                time_limit=parts.limit.left(SUBGROUP_SHARE, MIN_SECONDS),
                repeats=config.repeats,
                seed=config.seed,
            ),
        )
        white_box = network if flips is not None and flips.counted_with == "white box" else None
        results["searches"] = tuple(_search_individuals(subject, white_box, noise, config, progress, parts))
    certificates: list[Certificate] = []
    if network is None:
        parts.skip("certification", reason)
    elif wider is not None:
        certificates = certify_sets(
            network, wider, config, parts, progress, drawn={} if flips is None else _find_draws(flips, wider)
        )
    if flips is not None:
        flips = _combine_with_proofs(flips, certificates)
    joint = None if flips is None else flips.rate(schema.protected, "data")
    progress("done", 1.0)
    settings: dict[str, Any] = {
        "threshold": None if config.threshold is None else f"{config.threshold:g}",
        "metrics": ", ".join(metrics or ()) or None,
    }
    if network is not None and certificates:
        settings["proofs_by"] = _name_prover(network, certificates)
    return parts.finish(
        described,
        config,
        model=ModelCard(
            name=scorer.name,
            type=type(scorer).__name__,
            classes=tuple(str(label) for label in scorer.classes),
            favourable=str(described.schema.target.favourable),
            label_only=scorer.label_only,
            white_box=network is not None,
            why_not=reason or None,
            caution=find_caution(scorer),
        ),
        data=_describe_data(subject, described.dropped, several=several),
        groups=by_group,
        settings=settings,
        individual=flips,
        certificates=tuple(certificates),
        flip_rate=None if joint is None else quantity_value(joint.rate),
        **results,
    )


def _describe_data(subject: Subject, dropped: int, *, several: bool) -> DataCard:
    people, weights = subject.people, None if subject.weights is None else subject.weights.values
    carried = ["\x1f".join(map(str, column)).encode("utf-8", "surrogatepass") for column in people.carried_columns()]
    return make_data_card(
        people,
        subject.data_name,
        (people.individuals, *carried, people.labels, weights),
        recorded=False,
        dropped=dropped,
        held_out=subject.held_out,
        base_rate=None if several else measure_base_rate(people, weights),
    )


def _measure_groups(
    subject: Subject, config: AuditConfig, metrics: Metrics, reply: Reply, parts: AuditParts, *, several: bool
) -> groups.GroupMetrics:
    """Compute group metrics, and those of group probabilities and of grades. They are empty after a failure.

    Args:
        subject: Model and people.
        config: Settings of the audit.
        metrics: Custom metrics.
        reply: Answers of the model for all people.
        parts: Parts of the audit.
        several: Whether the model has several labels, none of which is favourable.
    """
    scorer, people, weights = subject.scorer, subject.people, subject.weights
    try:
        if several:
            return groups.measure_groups(record_labels(scorer, people, weights, reply), config)
        by_group = groups.measure_groups(record_decisions(scorer, people, weights, reply), config, metrics=metrics)
    except EvenhandError:
        raise
    except Exception as error:
        parts.skip("group metrics", describe_failure(error))
        return groups.GroupMetrics(
            people=len(people),
            favourable=str(scorer.classes[scorer.favourable]),
            min_group_size=config.min_group_size,
            everyone=groups.Group(values={}, size=len(people), small=False),
            breakdowns=(),
            seed=config.seed,
            seconds=0.0,
        )
    if subject.memberships:
        selected, sample_weight = reply.labels == scorer.favourable, None if weights is None else weights.values
        proxies = parts.attempt(
            "group probabilities",
            lambda: tuple(
                measure_proxies(selected, attribute, config, sample_weight) for attribute in subject.memberships
            ),
        )
        by_group = by_group.model_copy(update={"proxies": proxies or ()})
    if people.schema.target.kind == "ordinal":
        if subject.threshold is not None:
            parts.skip("grades", THRESHOLDS)
            return by_group
        grades = parts.attempt(
            "grades", lambda: groups.measure_groups(record_labels(scorer, people, weights, reply), config)
        )
        by_group = by_group.model_copy(update={"grades": grades})
    return by_group


def _require_two_classes(people: People) -> None:
    name = people.schema.target.name
    if people.labels is None:
        raise DataError(f"the target column {name!r} is missing: an audit requires the true labels")
    present = np.unique(people.labels)
    if len(present) < 2:
        values = people.schema.target.values or ()
        raise DataError(
            f"the target column {name!r} has only one class: {values[int(present[0])]!r}",
            hint="an audit requires people with and without the favourable label",
        )


def _open_white_box(
    scorer: Scorer, people: People, reply: Reply, limit: TimeLimit
) -> tuple[AdditiveNetwork | TreeEnsemble | None, str]:
    """Extract a white box that agrees with the model's labels of all people. If there is none, return the reason."""
    if isinstance(scorer, ThresholdScorer):
        return None, "proofs apply to the decisions of the model, but a threshold was set instead"
    known = ~np.isnan(people.individuals).any(axis=1)
    complete = people.individuals[known]
    try:
        with limit.enforced():
            network = extract_white_box(scorer)
            if network is scorer:
                return network, ""
            differ = int((models.predict_labels(network, complete) != reply.labels[known]).sum())
    except BudgetError as error:
        return None, f"the budget is not sufficient to compare the model with its white box: {error.message}"
    except Exception as error:
        return None, describe_failure(error)
    if differ:
        return None, (
            f"the white box decides {differ:,} of {len(complete):,} people differently from the model, so a proof "
            "about it would not apply to the model"
        )
    return network, ""


def _search_individuals(
    subject: Subject,
    white_box: Scorer | None,
    noise: NoiseCheck | None,
    config: AuditConfig,
    progress: Progress,
    parts: AuditParts,
) -> list[SearchResult]:
    """Run a short search for individuals for each protected attribute."""
    from threadpoolctl import threadpool_limits

    from evenhand.individual import search

    scorer, people = subject.scorer, subject.people
    names = people.schema.protected if config.searched else ()
    ledger = find_ledger(scorer) or subject.ledger
    searches: list[SearchResult] = []

    def run(name: str, share: float) -> SearchResult:
        left = None if ledger.budget is None else int(ledger.left * share)
        with ledger.within(left), threadpool_limits(1):  # the arrays are small, so more threads would mostly wait
            return search.search(
                scorer,
                people,
                protected=[name],
                seeds=SEARCH_SEEDS,
                local=-(-config.searched // SEARCH_SEEDS),
                samples=0,
                time_limit=parts.limit.left(SEARCH_SHARE * share, MIN_SECONDS),
                as_published=config.as_published,
                seed=config.seed,
                white_box=white_box,
                noise=noise,
            )

    for step, name in enumerate(names):
        part = f"search for individuals by {name}"
        ledger.settle()  # each search has a share of the remaining budget
        progress(f"searching for people whose decision flips with {name}", 0.35 + 0.05 * step / len(names))
        result = parts.run(part, partial(run, name, 1 / (len(names) - step)))
        if result is None:
            continue
        parts.interrupted |= result.interrupted
        if result.queries or result.interrupted:
            searches.append(result)
        else:
            spent = result.stopped_by == "budget"
            parts.skip(part, "the budget was spent" if spent else "the time limit was too short")
    return searches


def _name_prover(network: AdditiveNetwork | TreeEnsemble, certificates: Sequence[Certificate]) -> str:
    """Return the name of the prover."""
    if all(certificate.method == "enumeration" for certificate in certificates):
        return "enumeration"
    return "compiled kernels" if needs_kernels(network) else "the distribution of scores"


def _find_draws(flips: IndividualResult, wider: ProductPopulation | MixturePopulation) -> dict[tuple[str, ...], Draws]:
    """Return the flips of sampled people by protected attributes, as used by certificates of the population."""
    if flips.counterparts and not isinstance(wider, MixturePopulation):
        return {}  # certificates of independent attributes ignore the rules
    return {rate.protected: Draws(rate.flips, rate.n) for rate in flips.rates if rate.over == "population"}


def _combine_with_proofs(flips: IndividualResult, certificates: Sequence[Certificate]) -> IndividualResult:
    """Replace flip rates of the population by the estimates of their certificates, so that each quantity has one."""
    proofs = {(certificate.protected, certificate.population): certificate for certificate in certificates}
    rates = []
    for rate in flips.rates:
        proof = proofs.get((rate.protected, rate.population))
        # A proof replaces a rate only if both compare plausible counterparts, or neither does.
        if proof is not None and flips.counterparts == (proof.moved is not None):
            rate = rate.model_copy(update={"rate": estimated_share(proof)})
        rates.append(rate)
    return flips.model_copy(update={"rates": tuple(rates)})
