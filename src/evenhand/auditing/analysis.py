"""One audit: read the people, ask the model, measure groups and individuals, certify what can be certified."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand import groups, individual, models, population
from evenhand import subgroups as subgroup
from evenhand.auditing.config import AuditConfig
from evenhand.auditing.labels import (
    add_labels,
    drop_directions,
    list_skipped,
    measure_each,
    name_any_favourable,
    refuse_settings_of_one_label,
)
from evenhand.auditing.numbers import audit_number_model
from evenhand.auditing.parts import AuditParts, describe_failure
from evenhand.auditing.proofs import certify_sets
from evenhand.auditing.result import AuditResult, ModelCard
from evenhand.auditing.versions import library_versions, make_data_card
from evenhand.certification.bounds.scores import needs_kernels
from evenhand.certification.certificate.result import Certificate, estimated_share
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Progress, ignore_progress
from evenhand.errors import BudgetError, DataError, EvenhandError, OptionError
from evenhand.groups.analysis import add_proxies
from evenhand.groups.custom import DecidedPeople
from evenhand.individual.result import IndividualResult
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.ledger import QuestionLedger, ask_people, find_ledger
from evenhand.models.noise import NoiseCheck
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer, find_caution
from evenhand.models.subject import Subject
from evenhand.models.thresholds import ThresholdScorer
from evenhand.models.white_box import extract_white_box
from evenhand.population.independent import ProductPopulation
from evenhand.population.mixture import MixturePopulation
from evenhand.schema.people import People
from evenhand.schema.thresholds import Thresholds
from evenhand.stats.combined import Draws
from evenhand.stats.quantity import quantity_value
from evenhand.subgroups.result import SubgroupResult

if TYPE_CHECKING:
    from evenhand.individual.flips import FlipRate
    from evenhand.individual.search.result import SearchResult
    from evenhand.models.trees.ensemble import TreeEnsemble

FLIP_SHARE, WHITE_FLIP_SHARE = 0.8, 0.4
"""Share of the time left, and of the budget, for flip rates: less where the model is proved from the inside as well."""

SEARCH_SHARE, SUBGROUP_SHARE = 0.25, 0.25
"""Share of the time left for the searches and for the subgroups, at most."""

LEAST_SECONDS = 0.5
"""Time limit of a part, at least: mostly it ends sooner."""

SEARCH_SEEDS = 50
"""People whom a search starts from."""


def audit(
    subject: Subject,
    config: AuditConfig | None = None,
    *,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> AuditResult:
    """Audit a model on people with known labels.

    Args:
        subject: the model and the people.
        config: time limit, population, confidence, seed.
        metrics: more metrics of groups, of one's own, see ``evenhand.groups.add_metrics``.
        progress: called as work goes on.
        settings: fields of ``AuditConfig`` by name, in place of those in ``config``.

    Returns:
        Everything found, and what could not be run with the reason. An interrupt (Ctrl-C) while the model is being
        asked leaves a result with what was found before it.

    Raises:
        EvenhandError: the people, the model or the options cannot be used; nothing was asked in vain.
    """
    started = time.perf_counter()
    config = AuditConfig.of(config, settings)
    say = progress or ignore_progress
    if config.threshold:
        thresholds = Thresholds.parse(config.threshold)
        thresholds.check_schema(subject.people.schema)
        subject = replace(subject, thresholds=thresholds)
    people, schema = subject.people, subject.people.schema
    if subject.memberships and schema.target.kind != "label":
        raise OptionError(
            f"probabilities of groups require one favourable decision, and {schema.target.name!r} holds "
            f"{'numbers' if schema.target.is_number else 'several labels'}",
            hint="leave `membership=` out; or name the `favourable=` label and say `kind=label`",
        )
    if schema.target.is_number:
        return audit_number_model(subject, config, metrics=metrics, progress=say, started=started)
    if not schema.protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    # Too many assignments are an error; better now than after minutes of work.
    for name in schema.protected:
        schema.assignments([name])
    _require_two_classes(people)
    if schema.target.kind == "labels":
        weighted, threshold = subject.weights is not None, subject.thresholds is not None
        refuse_settings_of_one_label(config, metrics, weighted=weighted, threshold=threshold)
    ledger = find_ledger(subject.model) or subject.ledger
    before = ledger.settled
    with ledger.within(config.budget):
        result = _run_analyses(subject, config, metrics, say, ledger)
    ledger.settle()
    return result.model_copy(update={"queries": ledger.sent - before, "seconds": time.perf_counter() - started})


def forecast_queries(people: People, config: AuditConfig) -> int:
    """Return how many individuals an audit without a budget asks a black box about at most.

    Everybody once, or twice where a number is decided; for the flip rates everybody and the sample under every
    assignment of each set of protected attributes (twice where rules make counterparts that differ from those);
    both sides of every flip again; subgroups; and the searches. Where a time limit ends them early it is fewer.
    """
    from evenhand.individual.analysis import RESERVED_ROUNDS
    from evenhand.individual.search import SearchConfig
    from evenhand.individual.search.analysis import forecast_queries as forecast_search
    from evenhand.subgroups.analysis import forecast_queries as forecast_subgroups

    schema, names = people.schema, people.schema.protected
    sets = [[name] for name in names] + ([list(names)] if len(names) > 1 else [])
    each = sum(len(schema.assignments(one)) for one in sets)
    variants = (each + 2 * RESERVED_ROUNDS * len(sets)) * (2 if schema.constrains_people else 1)
    if schema.target.is_number:
        return 2 * len(people) + variants * (len(people) + config.samples)
    seeds, local = SEARCH_SEEDS, -(-config.searched // SEARCH_SEEDS)
    found = [
        forecast_search(people, SearchConfig(protected=(name,), seeds=seeds, local=local, samples=0))
        for name in (names if config.searched else ())
    ]
    groups = forecast_subgroups(people, subgroup.SubgroupConfig(repeats=config.repeats)) or 0
    return groups + config.repeats * variants * (len(people) + config.samples) + sum(found)


def _run_analyses(
    subject: Subject,
    config: AuditConfig,
    metrics: Mapping[str, Callable[..., Any]] | None,
    say: Progress,
    ledger: QuestionLedger,
) -> AuditResult:
    started = time.perf_counter()
    importlib.import_module("sklearn.cluster")  # for the searches: seconds at the first use, not in the time limit
    parts = AuditParts(TimeLimit.after(config.time_limit))
    described = subject.people.schema
    several = described.target.kind == "labels"
    subject = name_any_favourable(subject) if several else subject
    # The audit itself says how the table was read, so its parts do not.
    reading, subject = subject.people.reading, replace(subject, people=replace(subject.people, reading=None))
    people, schema = subject.people, subject.people.schema
    say("loading the model", 0.02)
    scorer = subject.scorer
    if find_ledger(scorer) is not None and len(people) > ledger.left:
        raise BudgetError(
            f"the budget of {ledger.budget:,} rows does not pay for the {len(people):,} people in the data",
            location="`budget=`",
            hint="give a larger budget, or fewer people",
        )
    say("asking the model about everybody in the data", 0.05)
    reply = ask_people(scorer, people.individuals)
    parts.not_run += list_skipped(scorer) if several else []
    by_group = _measure_groups(subject, config, metrics, reply, parts, several=several)
    say("fitting the simulated population", 0.09)
    wider = parts.attempt(
        "simulated population",
        lambda: population.choose_population(config.population, people, as_published=config.as_published),
    )
    # Proofs need the inside of the model; without it their share of the time goes to the sample.
    network, why_not = _open_white_box(scorer, people, parts.limit)
    flips = None
    if wider is not None:
        part = WHITE_FLIP_SHARE if network is not None else FLIP_SHARE
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
                    time_limit=parts.limit.left(part, LEAST_SECONDS),
                    budget=None if config.budget is None else max(1, int(part * ledger.left)),
                    repeats=config.repeats,
                    as_published=config.as_published,
                    seed=config.seed,
                ),
                white_box=network,
                progress=lambda what, share: say(what, 0.1 + 0.25 * share),
            ),
        )
        parts.interrupted = parts.interrupted or (flips is not None and flips.interrupted)
    if config.thresholds and by_group.thresholds is None and by_group.breakdowns:
        parts.skip("other thresholds", "the model gives labels, no scores")
    noise = None if flips is None else flips.noise
    subgroups: SubgroupResult | None = None
    searches: list[SearchResult] = []
    if not several:
        say("counting subgroups", 0.34)
        subgroups = parts.run(
            "search for subgroups",
            lambda: subgroup.find_subgroups(
                scorer,
                people,
                weights=subject.weights,
                noise=noise,
                confidence=config.confidence,
                time_limit=parts.limit.left(SUBGROUP_SHARE, LEAST_SECONDS),
                repeats=config.repeats,
                seed=config.seed,
            ),
        )
        white_box = network if flips is not None and flips.counted_with == "white box" else None
        searches = _search_individuals(subject, white_box, noise, config, say, parts)
    certificates: list[Certificate] = []
    if network is None:
        parts.skip("certification", why_not)
    elif wider is not None:
        rates = (
            {} if flips is None else {rate.protected: flips.rate(rate.protected, "population") for rate in flips.rates}
        )
        drawn = {protected: _draws_of(rate, wider) for protected, rate in rates.items() if rate is not None}
        certificates = certify_sets(
            network,
            wider,
            config,
            parts,
            say,
            drawn=drawn,
        )
    if flips is not None:
        flips = _combine_with_proofs(drop_directions(flips) if several else flips, certificates)
    joint = None if flips is None else flips.rate(schema.protected, "data")
    say("done", 1.0)
    return AuditResult(
        model=_make_model_card(scorer, network, why_not).model_copy(
            update={"favourable": str(described.target.favourable)}
        ),
        data=make_data_card(people, subject.data_name, subject.weights).model_copy(
            update={"base_rate": None} if several else {}
        ),
        table_reading=reading,
        described=described,
        protected=schema.protected,
        groups=by_group,
        subgroups=subgroups,
        individual=flips,
        searches=tuple(searches),
        certificates=tuple(certificates),
        not_run=parts.end(),
        interrupted=parts.interrupted,
        settings=config.model_dump()
        | {
            "threshold": Thresholds.parse(config.threshold).describe() if config.threshold else None,
            "reference": ", ".join(config.reference) or None,
            "metrics": ", ".join(metrics or ()) or None,
        }
        | ({"proofs_by": _name_prover(network, certificates)} if network is not None and certificates else {}),
        versions=library_versions(),
        counterfactual_flip_rate=None if joint is None else quantity_value(joint.headline.rate),
        flip_rate=None if joint is None else joint.flips / joint.n,
        seed=config.seed,
        time_limited=parts.limit.decided,
        seconds=time.perf_counter() - started,
    )


def _measure_groups(
    subject: Subject,
    config: AuditConfig,
    metrics: Mapping[str, Callable[..., Any]] | None,
    reply: Reply,
    parts: AuditParts,
    *,
    several: bool,
) -> groups.GroupMetrics:
    """Measure groups: performance, gaps, and what depends on memberships and grades.

    Args:
        subject: The model and the people.
        config: Settings of the audit.
        metrics: Custom metrics.
        reply: Answers of the model about everybody.
        parts: Takes what is not run. If nothing can be measured, the result has no groups.
        several: Whether the model gives several labels of which none is favourable.

    Raises:
        EvenhandError: The settings do not fit the data, or a custom metric fails.
        KeyboardInterrupt: Nothing is measured yet.
    """
    scorer, people = subject.scorer, subject.people
    try:
        if several:
            by_group = measure_each(scorer, reply, subject, config)
        else:
            by_group = groups.measure_groups(
                scorer,
                people,
                reply=reply,
                confidence=config.confidence,
                min_group_size=config.min_group_size,
                thresholds=config.thresholds,
                reference=config.reference,
                weights=subject.weights,
                metrics=metrics,
                keep_decisions=config.keep_decisions,
                seed=config.seed,
            )
    except EvenhandError:
        raise
    except Exception as error:
        parts.skip("group metrics", describe_failure(error))
        return groups.GroupMetrics(
            people=len(people),
            favourable=str(scorer.classes[scorer.favourable]),
            min_group_size=config.min_group_size,
            overall={},
            breakdowns=(),
            seed=config.seed,
            seconds=0.0,
        )
    if subject.memberships:
        weights = None if subject.weights is None else subject.weights.values
        decided = DecidedPeople((), reply.labels == scorer.favourable, people.true_labels, None, weights)
        settings = groups.GroupConfig(
            confidence=config.confidence, min_group_size=config.min_group_size, seed=config.seed
        )
        by_group = (
            parts.attempt(
                "groups known by probability",
                lambda: add_proxies(by_group, subject.memberships, decided, settings),
            )
            or by_group
        )
    return (
        parts.attempt("grades in their order", lambda: add_labels(by_group, scorer, reply, subject, config, parts))
        or by_group
    )


def _require_two_classes(people: People) -> None:
    name = people.schema.target.name
    if people.labels is None:
        raise DataError(f"the target column {name!r} is missing: an audit needs the true labels")
    present = np.unique(people.labels)
    if len(present) < 2:
        values = people.schema.target.values or ()
        raise DataError(
            f"the target column {name!r} has only one class: {values[int(present[0])]!r}",
            hint="an audit needs people with and without the favourable label",
        )


def _open_white_box(
    scorer: Scorer, people: People, limit: TimeLimit
) -> tuple[AdditiveNetwork | TreeEnsemble | None, str]:
    """Return the model as a white box that answers like the model itself, or why there is none."""
    if isinstance(scorer, ThresholdScorer):
        return None, "proofs are about the model's own decisions, and a threshold was given in place of them"
    known = people.individuals[~np.isnan(people.individuals).any(axis=1)]
    try:
        with limit.enforced():
            network = extract_white_box(scorer)
            if network is scorer:
                return network, ""
            labels = models.predict_labels(scorer, known)
            differ = int((models.predict_labels(network, known) != labels).sum())
    except BudgetError as error:
        return None, f"the budget does not pay for comparing the model with its white box: {error.message}"
    except Exception as error:
        return None, describe_failure(error)
    if differ:
        return None, (
            f"read from the inside, the model decides {differ:,} of {len(known):,} people differently than when it "
            "runs, so a proof about the one would say nothing about the other"
        )
    return network, ""


def _search_individuals(
    subject: Subject,
    white_box: Scorer | None,
    noise: NoiseCheck | None,
    config: AuditConfig,
    say: Progress,
    parts: AuditParts,
) -> list[SearchResult]:
    """Run a short search for each protected attribute."""
    from threadpoolctl import threadpool_limits

    from evenhand.individual import search

    scorer, people = subject.scorer, subject.people
    names = people.schema.protected if config.searched else ()
    ledger = find_ledger(scorer) or subject.ledger
    searches: list[SearchResult] = []

    def run(name: str, share: float) -> SearchResult:
        left = None if ledger.budget is None else int(ledger.left * share)
        with ledger.within(left), threadpool_limits(1):  # the arrays are small: more threads mostly wait
            return search.search(
                scorer,
                people,
                protected=[name],
                seeds=SEARCH_SEEDS,
                local=-(-config.searched // SEARCH_SEEDS),
                samples=0,
                time_limit=parts.limit.left(SEARCH_SHARE * share, LEAST_SECONDS),
                as_published=config.as_published,
                seed=config.seed,
                white_box=white_box,
                noise=noise,
            )

    for step, name in enumerate(names):
        what = f"search for individuals by {name}"
        ledger.settle()  # each search has its own share of what is left
        say(f"searching people whose decision flips with {name}", 0.35 + 0.05 * step / len(names))
        result = parts.run(what, partial(run, name, 1 / (len(names) - step)))
        if result is None:
            continue
        parts.interrupted = parts.interrupted or result.interrupted
        if result.queries or result.interrupted:
            searches.append(result)
        else:
            spent = result.stopped_by == "budget"
            parts.skip(what, "the budget was spent" if spent else "the time limit was too short for it")
    return searches


def _name_prover(network: AdditiveNetwork | TreeEnsemble, certificates: Sequence[Certificate]) -> str:
    """Return the name of the prover."""
    if all(certificate.method == "enumeration" for certificate in certificates):
        return "enumeration"
    if not needs_kernels(network):
        return "the distribution of scores"
    return "numpy" if any("linear" in certificate.not_compiled for certificate in certificates) else "compiled kernels"


def _draws_of(rate: FlipRate, wider: ProductPopulation | MixturePopulation) -> Draws:
    """Return who flips of the people drawn, in the way that a certificate of this population asks."""
    if isinstance(wider, MixturePopulation) and rate.counterfactual is not None:
        return Draws(rate.counterfactual.flips, rate.counterfactual.n)
    return Draws(rate.flips, rate.n)


def _combine_with_proofs(flips: IndividualResult, certificates: Sequence[Certificate]) -> IndividualResult:
    """Return the flip rates, with that of the population as its certificate estimates it: one quantity, one number."""
    certified = {(one.protected, one.population): one for one in certificates}
    rates = []
    for rate in flips.rates:
        proof = certified.get((rate.protected, rate.population))
        # A proof is about one of two rates: between plausible counterparts, or as published.
        if proof is not None and proof.moved is None:
            rate = rate.model_copy(update={"rate": estimated_share(proof)})
        elif proof is not None and rate.counterfactual is not None:
            found = rate.counterfactual.model_copy(update={"rate": estimated_share(proof)})
            rate = rate.model_copy(update={"counterfactual": found})
        rates.append(rate)
    return flips.model_copy(update={"rates": tuple(rates)})


def _make_model_card(scorer: Scorer, network: AdditiveNetwork | TreeEnsemble | None, why_not: str) -> ModelCard:
    return ModelCard(
        name=scorer.name,
        type=type(scorer).__name__,
        classes=tuple(str(label) for label in scorer.classes),
        favourable=str(scorer.classes[scorer.favourable]),
        label_only=scorer.label_only,
        white_box=network is not None,
        why_not=why_not or None,
        caution=find_caution(scorer),
    )
