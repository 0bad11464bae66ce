"""One audit: read the people, ask the model, measure groups and individuals, certify what can be certified."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand import certification, groups, individual, models, population
from evenhand import subgroups as subgroup
from evenhand.auditing.config import DEFAULT_SECONDS, AuditConfig
from evenhand.auditing.labels import (
    add_labels,
    drop_directions,
    list_skipped,
    measure_each,
    name_any_favourable,
    refuse_settings_of_one_label,
)
from evenhand.auditing.numbers import (
    MIN_CERTIFY_SECONDS,
    audit_number_model,
    count_outcomes,
    describe_refusal,
    prove_outcomes,
    refuse_metrics,
)
from evenhand.auditing.result import AuditResult, ModelCard, SkippedAnalysis
from evenhand.auditing.versions import library_versions, make_data_card
from evenhand.certification import Certificate, estimated_share
from evenhand.core import WorkClock
from evenhand.errors import BudgetError, DataError, LimitError, ModelError, NotAdditiveError, OptionError
from evenhand.individual import IndividualResult, OutcomeResult
from evenhand.models import (
    AdditiveNetwork,
    NoiseCheck,
    QuestionLedger,
    Scorer,
    Subject,
    ThresholdScorer,
    find_caution,
    find_ledger,
)
from evenhand.population import MixturePopulation, ProductPopulation
from evenhand.schema import People, Thresholds
from evenhand.stats import Draws, quantity_value
from evenhand.subgroups import SubgroupResult
from evenhand.typing import Progress

if TYPE_CHECKING:
    from evenhand.individual import FlipRate, SearchResult
    from evenhand.models import TreeEnsemble

MIN_PROGRESS = 5e-4
"""Without a time limit, proofs end where another second would decide less than this share."""

ENOUGH_UNDECIDED = 5e-3
"""Without a time limit, proofs also end where no more than this share is undecided: the rest takes most of the time."""

SEARCH_SHARE = 0.1
"""Share of the time limit for the searches, at most."""

SUBGROUP_SHARE = 0.1
LEAST_SUBGROUP_SECONDS = 2.0
"""Share of the time limit for the subgroups, at most, and what they get at least: mostly it is over in a second."""


SEARCH_SEEDS = 50
"""People whom a search starts from."""


def audit(
    subject: Subject,
    config: AuditConfig | None = None,
    *,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    progress: Progress | None = None,
    clock: WorkClock | None = None,
    **settings: Any,
) -> AuditResult:
    """Audit a model on people with known labels.

    Args:
        subject: the model and the people.
        config: time limit, population, confidence, seed.
        metrics: more metrics of groups, of one's own, see ``evenhand.groups.add_metrics``.
        progress: called as work goes on.
        clock: by which limits of time are told; one made of ``AuditResult.work`` repeats that run.
        settings: fields of ``AuditConfig`` by name, in place of those in ``config``.

    Returns:
        Everything found, and what could not be run with the reason. An interrupt (Ctrl-C) while the model is being
        asked leaves a result with what was found before it.

    Raises:
        EvenhandError: the people, the model or the options cannot be used; nothing was asked in vain.
    """
    started = time.perf_counter()
    config = AuditConfig.of(config, settings)
    timer = WorkClock.start(clock, config)
    say = progress or (lambda what, share: None)
    if config.threshold:
        thresholds = Thresholds.parse(config.threshold)
        thresholds.check_schema(subject.people.schema)
        subject = replace(subject, thresholds=thresholds)
    people, schema = subject.people, subject.people.schema
    individual.check_bands(config.bands, is_number=schema.target.is_number)
    given = {"thresholds": config.thresholds, "metrics": metrics, "memberships": subject.memberships}
    groups.refuse_beside_replicates(subject.weights, **given)
    if subject.memberships and schema.target.kind != "label":
        raise OptionError(
            f"probabilities of groups are read for one favourable decision, and {schema.target.name!r} holds "
            f"{'numbers' if schema.target.is_number else 'several labels'}",
            hint="leave `membership=` out; or name the `favourable=` label and say `kind=label`",
        )
    if schema.target.is_number:
        refuse_metrics(metrics)
        return audit_number_model(subject, config, progress=say, clock=timer, started=started)
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
        found = _run_analyses(subject, config, metrics, say, timer, ledger)
    ledger.settle()
    return found.model_copy(
        update={"queries": ledger.sent - before, "work": timer.work(), "seconds": time.perf_counter() - started}
    )


def forecast_queries(people: People, config: AuditConfig) -> int:
    """Return how many individuals an audit without a budget asks a black box about at most.

    Everybody once, or twice where a number is decided; for the flip rates everybody and the sample under every
    assignment of each set of protected attributes (twice where rules make counterparts that differ from those);
    subgroups; and the searches. Where a time limit ends them early it is fewer.
    """
    from evenhand.individual import search

    schema, names = people.schema, people.schema.protected
    sets = [[name] for name in names] + ([list(names)] if len(names) > 1 else [])
    each = sum(len(schema.assignments(one)) for one in sets)
    variants = each * (2 if schema.constrains_people else 1)
    outcomes = each * (len(people) + config.samples) if config.bands or config.outcomes > 2 else 0
    if schema.target.is_number:
        return 2 * len(people) + variants * (len(people) + config.samples) + outcomes
    seeds, local = SEARCH_SEEDS, -(-config.searched // SEARCH_SEEDS)
    found = [
        search.forecast_queries(people, search.SearchConfig(protected=(name,), seeds=seeds, local=local, samples=0))
        for name in (names if config.searched else ())
    ]
    groups = subgroup.forecast_queries(people, subgroup.SubgroupConfig(repeats=config.repeats)) or 0
    return groups + config.repeats * variants * (len(people) + config.samples) + outcomes + sum(found)


def _run_analyses(
    subject: Subject,
    config: AuditConfig,
    metrics: Mapping[str, Callable[..., Any]] | None,
    say: Progress,
    timer: WorkClock,
    ledger: QuestionLedger,
) -> AuditResult:
    started = time.perf_counter()
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
    reply = models.ask_people(scorer, people.individuals)
    not_run = list_skipped(scorer) if several else []
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
    if subject.memberships:
        weights = None if subject.weights is None else subject.weights.values
        decided = groups.DecidedPeople((), reply.labels == scorer.favourable, people.true_labels, None, weights)
        drawn = groups.BootstrapSettings(config.confidence, config.min_group_size, config.seed)
        by_group = groups.add_proxies(by_group, subject.memberships, decided, drawn)
    by_group, left_out = add_labels(by_group, scorer, reply, subject, config)
    not_run += left_out
    say("fitting the simulated population", 0.09)
    wider = population.choose_population(config.population, people, as_published=config.as_published)
    # Proofs need the inside of the model; without it their share of the time goes to the sample.
    network, why_not = _open_white_box(scorer, people)
    part = 0.4 if network is not None else 1 - SEARCH_SHARE - SUBGROUP_SHARE
    importlib.import_module("sklearn.cluster")  # for the searches: seconds at the first use, not in the time limit
    timer = timer.from_now()
    flips = individual.measure_flips(
        scorer,
        people,
        wider,
        individual.FlipConfig(
            protected=schema.protected,
            samples=config.samples,
            confidence=config.confidence,
            time_limit=config.share(part),
            budget=None if config.budget is None else max(1, int(part * ledger.left)),
            repeats=config.repeats,
            as_published=config.as_published,
            seed=config.seed,
        ),
        weights=subject.weights,
        white_box=network,
        progress=lambda what, share: say(what, 0.1 + 0.25 * share),
        clock=timer,
    )
    if config.thresholds and by_group.thresholds is None:
        not_run.append(SkippedAnalysis(what="other thresholds", reason="the model gives labels, no scores"))
    subgroups: list[SubgroupResult] = []
    certificates: list[Certificate] = []
    searches: list[SearchResult] = []
    white_box = network if flips.counted_with == "white box" else None
    interrupted = flips.interrupted
    if not several:
        interrupted = (
            interrupted
            or _add_subgroups(subject, flips.noise, config, say, timer, subgroups, not_run)
            or _add_searches(subject, white_box, flips.noise, config, say, timer, searches, not_run)
        )
    if network is None:
        not_run.append(SkippedAnalysis(what="certification", reason=why_not))
    elif not interrupted:
        interrupted = _add_certificates(network, wider, flips, config, timer, say, certificates, not_run)
    outcomes, bounds = None, None
    if not interrupted and (config.bands or config.outcomes > 2):
        say(f"counting different {'bands' if config.bands else 'labels'}", 0.97)
        outcomes = _count_outcomes(scorer, flips.noise, people, wider, config, not_run)
        bounds = None if network is None else prove_outcomes(network, wider, config, timer, not_run)
    if interrupted:
        not_run.append(
            SkippedAnalysis(what="the rest of the audit", reason="it was interrupted; what is here was found before")
        )
    flips = _combine_with_proofs(drop_directions(flips) if several else flips, certificates)
    joint = flips.rate(schema.protected, "data")
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
        subgroups=subgroups[0] if subgroups else None,
        individual=flips,
        searches=tuple(searches),
        certificates=tuple(certificates),
        outcomes=outcomes,
        outcome_certificate=bounds,
        not_run=tuple(not_run),
        interrupted=interrupted,
        settings=config.model_dump()
        | {
            "threshold": Thresholds.parse(config.threshold).describe() if config.threshold else None,
            "reference": ", ".join(config.reference) or None,
            "bands": ", ".join(f"{edge:g}" for edge in config.bands) or None,
            "metrics": ", ".join(metrics or ()) or None,
            "time_limit": config.seconds,
            "stop_at_little_progress": config.time_limit is None and config.max_boxes is None,
        }
        | ({"proofs_by": _name_prover(network, wider, certificates)} if network is not None and certificates else {}),
        versions=library_versions(),
        counterfactual_flip_rate=None if joint is None else quantity_value(joint.headline.rate),
        flip_rate=None if joint is None else joint.flips / joint.n,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _require_two_classes(people: People) -> None:
    name = people.schema.target.name
    if people.labels is None:
        raise DataError(f"the target column {name!r} is missing: an audit needs the true labels")
    present = np.unique(people.labels)
    if len(present) < 2:
        values = people.schema.target.values or ()
        raise DataError(
            f"the target column {name!r} has one class only: {values[int(present[0])]!r}",
            hint="an audit needs people with and without the favourable label",
        )


def _open_white_box(scorer: Scorer, people: People) -> tuple[AdditiveNetwork | TreeEnsemble | None, str]:
    """Return the model as a white box that answers like the model itself, or why there is none."""
    if isinstance(scorer, ThresholdScorer):
        return None, "proofs are about the model's own decisions, and a threshold was given in place of them"
    known = people.individuals[~np.isnan(people.individuals).any(axis=1)]
    try:
        network = models.extract_white_box(scorer)
        if network is scorer:
            return network, ""
        labels = models.predict_labels(scorer, known)
    except NotAdditiveError as error:
        return None, error.message
    except BudgetError as error:
        return None, f"whether the model decides like its inside could not be asked: {error.message}"
    differ = int((models.predict_labels(network, known) != labels).sum())
    if differ:
        return None, (
            f"read from the inside, the model decides {differ:,} of {len(known):,} people differently than when it "
            "runs, so a proof about the one would say nothing about the other"
        )
    return network, ""


def _add_subgroups(
    subject: Subject,
    noise: NoiseCheck | None,
    config: AuditConfig,
    say: Progress,
    clock: WorkClock,
    subgroups: list[SubgroupResult],
    not_run: list[SkippedAnalysis],
) -> bool:
    """Add the search for subgroups over the protected attributes. Whether it was interrupted."""
    what = "search for subgroups"
    say("counting subgroups", 0.34)
    try:
        found = subgroup.find_subgroups(
            subject.scorer,
            subject.people,
            weights=subject.weights,
            noise=noise,
            confidence=config.confidence,
            time_limit=config.share(SUBGROUP_SHARE, LEAST_SUBGROUP_SECONDS),
            repeats=config.repeats,
            seed=config.seed,
            clock=clock,
        )
    except (OptionError, ModelError, LimitError) as error:
        not_run.append(SkippedAnalysis(what=what, reason=error.message))
        return False
    except KeyboardInterrupt:
        return True
    subgroups.append(found)
    return False


def _add_searches(
    subject: Subject,
    white_box: Scorer | None,
    noise: NoiseCheck | None,
    config: AuditConfig,
    say: Progress,
    clock: WorkClock,
    searches: list[SearchResult],
    not_run: list[SkippedAnalysis],
) -> bool:
    """Add a short search per protected attribute. Whether it was interrupted."""
    from threadpoolctl import threadpool_limits

    from evenhand.individual import search

    scorer, people = subject.scorer, subject.people
    names = people.schema.protected if config.searched else ()
    ledger = find_ledger(scorer) or subject.ledger
    for step, name in enumerate(names):
        what = f"searching people whose decision flips with {name}"
        ledger.settle()  # each search has its own share of what is left
        left = None if ledger.budget is None else int(ledger.left / (len(names) - step))
        say(what, 0.35 + 0.05 * step / len(names))
        try:
            with ledger.within(left), threadpool_limits(1):  # the arrays are small: more threads mostly wait
                found = search.search(
                    scorer,
                    people,
                    protected=[name],
                    seeds=SEARCH_SEEDS,
                    local=-(-config.searched // SEARCH_SEEDS),
                    samples=0,
                    time_limit=config.share(SEARCH_SHARE / len(names)),
                    as_published=config.as_published,
                    seed=config.seed,
                    clock=clock,
                    white_box=white_box,
                    noise=noise,
                )
        except (OptionError, ModelError) as error:
            not_run.append(SkippedAnalysis(what=f"search for individuals by {name}", reason=error.message))
            continue
        except KeyboardInterrupt:
            return True
        if found.queries or found.interrupted:
            searches.append(found)
        else:
            reason = "the budget was spent" if found.stopped_by == "budget" else "the time limit was too short for it"
            not_run.append(SkippedAnalysis(what=f"search for individuals by {name}", reason=reason))
        if found.interrupted:
            return True
    return False


def _name_prover(
    network: AdditiveNetwork | TreeEnsemble,
    wider: ProductPopulation | MixturePopulation,
    certificates: Sequence[Certificate],
) -> str:
    """Return the name of the prover."""
    if not certification.needs_kernels(network, wider):
        return "the distribution of scores"
    if all(one.method == "enumeration" for one in certificates):
        return "enumeration"
    return "numpy" if any("linear" in one.not_compiled for one in certificates) else "compiled kernels"


def _add_certificates(
    network: AdditiveNetwork | TreeEnsemble,
    wider: ProductPopulation | MixturePopulation,
    flips: IndividualResult,
    config: AuditConfig,
    clock: WorkClock,
    say: Progress,
    certificates: list[Certificate],
    not_run: list[SkippedAnalysis],
) -> bool:
    """Add a certificate per protected attribute, and one for all together. Whether it was interrupted."""
    names = network.schema.protected
    sets = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    spare = None if config.seconds is None else config.seconds - clock.now()
    hurried = config.time_limit is None and config.seconds is not None
    try:
        proving = clock.from_now()
        for step, protected in enumerate(sets):
            left = None if spare is None else spare - proving.now()
            asked = flips.rate(protected, "population")
            what = f"certification for {' x '.join(protected)}"
            if left is not None and left < MIN_CERTIFY_SECONDS:
                reason = f"the time limit of {config.seconds:g} s was used up: give it more"
                not_run.append(SkippedAnalysis(what=what, reason=reason))
                continue
            begun, part = 0.4 + 0.6 * step / len(sets), 0.6 / len(sets)
            try:
                found = certification.certify(
                    network,
                    protected=protected,
                    population=wider,
                    time_limit=None if left is None else left / (len(sets) - step),
                    max_boxes=config.max_boxes,
                    min_progress=MIN_PROGRESS if hurried else None,
                    target_undecided=ENOUGH_UNDECIDED if config.time_limit is None else None,
                    compile_limit=DEFAULT_SECONDS if hurried else config.compile_limit,
                    confidence=config.confidence,
                    seed=config.seed,
                    drawn=None if asked is None else _draws_of(asked, wider),
                    progress=partial(_report_part, say, begun, part),
                    clock=clock,
                )
            except (OptionError, ModelError, LimitError) as error:
                not_run.append(SkippedAnalysis(what=what, reason=describe_refusal(error)))
                continue
            certificates.append(found)
            if found.stopped_by == "interrupt":
                return True
    except KeyboardInterrupt:
        return True
    return False


def _report_part(say: Progress, begun: float, part: float, what: str, share: float) -> None:
    """Report the progress of a part of the audit as progress of the whole."""
    say(what, begun + part * share)


def _count_outcomes(
    scorer: Scorer,
    noise: NoiseCheck | None,
    people: People,
    wider: ProductPopulation | MixturePopulation,
    config: AuditConfig,
    not_run: list[SkippedAnalysis],
) -> OutcomeResult | None:
    """Count who can get several different labels or bands; None, with the reason, where that cannot be counted."""
    what = "different outcomes"
    if noise is not None and noise.noisy:
        reason = "the model answers differently each time: its noise would count as different outcomes"
        not_run.append(SkippedAnalysis(what=what, reason=reason))
        return None
    try:
        return count_outcomes(scorer, people, wider, config)
    except (OptionError, BudgetError) as error:
        not_run.append(SkippedAnalysis(what=what, reason=error.message))
        return None


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
