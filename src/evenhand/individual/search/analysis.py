"""One search: how common it is, then the method, then what the model itself has not said about a finding yet."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand import models
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import BudgetError, LimitError, OptionError
from evenhand.individual.flips import WhiteBoxScorer, find_flips, find_real, stand_in
from evenhand.individual.noise import ASKED_AGAIN, NoiseRecorder, confirm_flips, first_difference
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.distance import score_severity
from evenhand.individual.search.findings import DiscriminatoryProfiles, FindingCollector, ProfileTable
from evenhand.individual.search.methods.choice import MethodOptions, load_method
from evenhand.individual.search.noise import check_source, confirm_against_noise, reserve_answers
from evenhand.individual.search.oracle import BudgetExhausted, CachedScorer, Oracle
from evenhand.individual.search.reading import TRIED, RankedReading, read_profiles
from evenhand.individual.search.result import Example, SampledFlipRate, SearchResult, build_examples
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.ledger import QuestionLedger, ask_model, find_ledger
from evenhand.models.noise import FreshScorer, NoiseCheck, RepeatCheck, can_vary
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.parallel import open_parallel
from evenhand.models.scorer import BATCH_ROWS, Scorer, find_caution
from evenhand.population.independent import DataPopulation, Population, product_of_marginals, uniform_population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.proportion import estimated_rate
from evenhand.stats.quantity import Estimated

StoppedBy: TypeAlias = Literal["plan", "budget", "time", "interrupt"]

SEEDS = 100
"""Seeds of the first round, unless set."""

MOST_SEEDS = 1000
"""Rounds grow to this many, since more seeds at a time make larger and fewer calls to the model."""

VERIFY_AT_ONCE = 10_000
"""Profiles that are confirmed at a time; an interrupt loses no more than these."""

SEARCH_SHARE = 0.8
"""Share of a time limit for the search itself, if its findings are asked about again."""

COMPARED = 50
"""Profiles that model and white box are both asked about before the white box answers alone."""

MOST_VARIANTS = 1_000_000
"""Variants of profiles that are compared with the data at a time."""

IDLE_ROUNDS = 5
"""After so many rounds in a row that asked nothing new, a budget is left unspent."""


def search(
    model: Any,
    source: People | Schema,
    config: SearchConfig | None = None,
    *,
    white_box: Scorer | None = None,
    noise: NoiseCheck | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
    **settings: Any,
) -> SearchResult:
    """Search for profiles that a model decides differently under some protected assignment.

    Args:
        model: a ``Scorer``, or anything that ``evenhand.models.load_model`` takes.
        source: the people (seeds, and which profiles are plausible), or their schema alone.
        config: the settings.
        white_box: the inside of the model. It answers the search's questions if it answers like the model about the
            first people (see ``flips``); the labels and scores of what is found are always the model's own.
        noise: whether the model answers differently each time, where that is known; by default some people are asked
            about twice. Then only profiles that differ beyond its noise are reported.
        progress: called with what is being done and the share done, 0 to 1.
        workers: number of worker processes with a copy of the model each; -1 uses all processors, or all workers of the
            backend that ``joblib.parallel_config`` selects. The result does not depend on it.
        settings: fields of ``SearchConfig`` by name, in place of those in ``config``.

    Returns:
        What was found; an interrupt (Ctrl-C) or a limit leaves what was found before.

    Raises:
        EvenhandError: the options make no sense, or the model cannot be asked.
    """
    started = time.perf_counter()
    config = SearchConfig.of(config, settings)
    if workers is not None:
        schema = source.schema if isinstance(source, People) else source
        local = models.load_model(model, schema, ledger=QuestionLedger(config.budget))
        _require_slow_model(local)
        with open_parallel(local, workers) as parallel:
            return search(parallel, source, config, white_box=white_box, noise=noise, progress=progress)
    limit = TimeLimit.after(config.time_limit)
    method = load_method(config.method)
    options = MethodOptions(local=config.local, h=config.h)
    space = ProfileSpace(
        source,
        config.protected,
        constraints=config.constraints,
        allow_infeasible=config.allow_infeasible,
        as_published=config.as_published,
    )
    seeds, budget = config.seeds, config.budget
    given = None if isinstance(seeds, int | None) else space.normalize(_check_seeds(np.asarray(seeds), space.schema))
    ledger = QuestionLedger(config.budget)
    scorer: Scorer = models.load_model(model, space.schema, ledger=ledger)
    # A model that was loaded before has been counting since then: that is in the budget and in the report too.
    ledger = find_ledger(scorer) or ledger
    memory = CachedScorer(scorer, config.resume, ledger) if config.resume is not None else None
    scorer = memory or scorer
    rng, rate_rng, reading_rng, compared_rng, noise_rng = np.random.default_rng(config.seed).spawn(5)
    asked: Scorer = scorer
    compared: Floats | None = None
    with suppress(LimitError), limit.enforced():
        compared = _some_variants(space, compared_rng)
    if white_box is not None and memory is None and compared is not None and len(compared) <= ledger.left:
        asked = stand_in(scorer, white_box, compared)
    # The inside of a model has an account of its own: what is asked of it costs nothing.
    account = ledger if asked is scorer else QuestionLedger(config.budget)
    say = progress or ignore_progress
    findings = FindingCollector(space, len(scorer.classes))
    rates: tuple[SampledFlipRate, ...] = ()
    stopped_by: StoppedBy = "plan"
    shown: RankedReading | None = None
    tested: RepeatCheck | None = None
    with account.within(budget):
        if noise is None and asked is scorer:
            noise = check_source(scorer, source, space, budget, noise_rng)
        noisy = noise is not None and noise.noisy
        varies = can_vary(scorer)
        searching = limit.share(SEARCH_SHARE) if varies else limit
        kept = reserve_answers(account, noisy=noisy) if varies and asked is scorer else 0
        if account.budget is not None:
            account.budget -= kept
        oracle = Oracle(
            asked,
            space,
            findings,
            ledger=account,
            budget=budget,
            limit=searching,
            progress=_progress_by_queries(say, config.method, account),
        )
        try:
            say("how common it is", 0.0)
            if compared is None:
                raise BudgetExhausted
            if config.samples:
                # The sample for the rate has an oracle of its own: its findings are a random sample, and what a search
                # finds is none.
                everybody = ProfileSpace(space.schema, space.protected, as_published=config.as_published)
                collector = FindingCollector(everybody, len(scorer.classes))
                aside = Oracle(asked, everybody, collector, ledger=account, limit=searching)
                rates = estimate_flip_rates(
                    aside, source, rate_rng, samples=config.samples, confidence=config.confidence, noisy=noisy
                )
            idle, count = 0, seeds if isinstance(seeds, int) else SEEDS
            while True:
                chosen = space.seeds(count, rng) if given is None else given
                if len(chosen) == 0:
                    raise OptionError(
                        "found no individual that satisfies the constraints",
                        hint="loosen the constraints, or give people who satisfy them",
                    )
                findings.record_seeds(np.ascontiguousarray(chosen[:, space.columns]))
                # A method ends by saying that there is nothing left, by running out of budget (an exception), or by
                # asking nothing new in several rounds in a row.
                before = oracle.queries
                with searching.enforced():
                    over = method(oracle, chosen, rng, options) is False
                idle = idle + 1 if oracle.queries == before else 0
                if over or budget is None or seeds is not None or idle == IDLE_ROUNDS:
                    break
                count = _next_seed_count(count, oracle.queries - before, oracle.queries_left)
        except (BudgetExhausted, LimitError):
            late = searching.passed()
            stopped_by = "time" if late else "budget"
        except KeyboardInterrupt:
            stopped_by = "interrupt"
        if account.budget is not None:
            account.budget += kept
        say("verifying", 1.0)
        # Whatever ended the search, only what the model itself decides differently is reported.
        unconfirmed = findings.reportable()
        if asked is not scorer:
            unconfirmed = replace(unconfirmed, scores=np.full_like(unconfirmed.scores, np.nan))
        confirmed, cut_short = confirm_findings(scorer, space, unconfirmed, ledger)
        try:
            if varies:
                confirmed, tested = confirm_against_noise(
                    scorer,
                    space,
                    confirmed,
                    noisy=noisy,
                    confidence=config.confidence,
                    ledger=ledger,
                    limit=limit,
                    rng=noise_rng,
                )
                noisy |= tested.noise > 0
        except BudgetError:
            confirmed = confirmed[:0]
        except KeyboardInterrupt:
            confirmed, cut_short = confirmed[:0], True
        if cut_short:
            stopped_by = "interrupt"
        table = ProfileTable(
            schema=space.schema,
            protected=space.protected,
            assignments=space.assignments,
            classes=scorer.classes,
            favourable=scorer.favourable,
            found=confirmed,
            with_data=space.people is not None,
            real=_find_real(source, space, confirmed),
            carried=source.first_carried() if isinstance(source, People) else {},
        )
        try:
            # Reading the findings may ask the model further questions: only if there is budget left for every
            # attribute, and the model does not undo flips by chance.
            unhurried = not noisy and stopped_by in ("plan", "budget") and account.left >= 2 * TRIED * space.width
            shown = read_profiles(
                table, space, (lambda rows: _ask_labels(asked, rows, account)) if unhurried else None, reading_rng
            )
        except KeyboardInterrupt:
            stopped_by = "interrupt"
    if memory is not None:
        memory.close()
    found = table.found
    return SearchResult(
        caution=" ".join(filter(None, [find_caution(scorer), _say_carried(space.schema)])),
        method=config.method,
        protected=space.protected,
        counterparts=space.schema.constrains_people,
        profiles=len(found),
        valid=int(found.valid.sum()) if table.with_data else None,
        given=int(found.given.sum()),
        queries=account.settle(),
        rate=rates[0] if rates else None,
        rates=rates,
        examples=_example_profiles(table, shown, config.most_examples),
        reading=None if shown is None else shown.reading,
        representatives=_representative_profiles(table, shown, space),
        interrupted=stopped_by == "interrupt",
        stopped_by=stopped_by,
        remembered=memory.remembered if memory is not None else 0,
        noise=noise,
        noise_test=tested,
        asked="white box" if isinstance(asked, WhiteBoxScorer) else "model",
        table_reading=source.reading if isinstance(source, People) else None,
        settings={
            "seeds": len(seeds) if isinstance(seeds, np.ndarray) else seeds or SEEDS,
            "local": config.local,
            "h": config.h,
            "budget": budget,
            "time_limit": config.time_limit,
            "constraints": [text.strip() for text in config.constraints],
            "allow_infeasible": config.allow_infeasible,
            "as_published": config.as_published,
            "samples": config.samples,
        },
        table=table,
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _find_real(source: People | Schema, space: ProfileSpace, found: DiscriminatoryProfiles) -> Booleans:
    """Find the profiles that tell about a person in the data, shape (n,)."""
    real = np.zeros(len(found), dtype=np.bool_)
    if isinstance(source, People):
        step = max(1, MOST_VARIANTS // len(space.assignments))
        for at in range(0, len(found), step):
            part = slice(at, at + step)
            compared = space.compared(found.unprotected[part])
            variants = space.rows(found.unprotected[part]).reshape(*compared.shape, -1)
            real[part] = find_real(source, space.protected, variants, compared)
    return real


def _require_slow_model(scorer: Scorer) -> None:
    """Refuse workers for models that answer faster without.

    Raises:
        OptionError: The model is read from inside, or answers over the network.
    """
    if isinstance(scorer, AdditiveNetwork):
        raise OptionError(
            f"{scorer.name} is computed here, millions of profiles a second, and needs no workers",
            location="`workers=`",
            hint="leave them out",
        )
    if getattr(scorer, "batch", None) is not None:
        raise OptionError(
            f"{scorer.name} answers over the network, and has many questions under way as it is",
            location="`workers=`",
            hint="leave them out",
        )


def forecast_queries(people: People, config: SearchConfig) -> int:
    """Return how many individuals a search without a budget asks a black box about at most: rates, plan and the rest.

    Every profile takes one question per assignment, and each starting person is looked around ``local`` times; as many
    again are for slopes and for what is asked about what was found.
    """
    each = len(people.schema.assignments(config.protected or people.schema.protected))
    seeds = (
        config.seeds
        if isinstance(config.seeds, int)
        else SEEDS
        if config.seeds is None
        else len(np.asarray(config.seeds))
    )
    plan = seeds * (1 + config.local) * each
    return FIRST_QUESTIONS + 3 * config.samples * each + 2 * plan + 2 * TRIED * len(people.schema.attributes)


def _example_profiles(table: ProfileTable, shown: RankedReading | None, most: int) -> tuple[Example, ...]:
    if shown is None:  # nothing was found, or somebody had no time for the ranking
        rows = np.lexsort((-table.gap, ~table.found.valid))[:most]
        return build_examples(table, rows, table.gap[rows])
    ranked = shown.ranked[:most]
    return build_examples(table, ranked.rows, ranked.severity, ranked.distance, ranked.nearest)


def _representative_profiles(
    table: ProfileTable, shown: RankedReading | None, space: ProfileSpace
) -> tuple[Example, ...]:
    if shown is None:
        return ()
    ranked = score_severity(table, space, shown.representatives)
    return build_examples(table, ranked.rows, ranked.severity, ranked.distance, ranked.nearest)


def _some_variants(space: ProfileSpace, rng: np.random.Generator) -> Floats:
    """Draw some people, or anybody where there are none, under every assignment, (m, attributes)."""
    if space.people is None or len(space.people) == 0:
        return space.rows(space.uniform(COMPARED, rng))
    return space.rows(space.people[rng.integers(0, len(space.people), size=COMPARED)])


def confirm_findings(
    scorer: Scorer, space: ProfileSpace, found: DiscriminatoryProfiles, ledger: QuestionLedger
) -> tuple[DiscriminatoryProfiles, bool]:
    """Ask the model what it has not said about profiles yet, and return those that it decides differently.

    What it has said is not asked again. Scores that are missing (NaN) mark what is asked: assignments that a method
    left out, as far as the budget pays for them, and everything that the white box answered in the model's place.

    Returns:
        The profiles, and whether somebody stopped it (Ctrl-C): then only those that the model itself has answered.
    """
    parts, at = [found[:0]], 0
    try:
        while at < len(found):
            part = found[at : at + VERIFY_AT_ONCE]
            # Questions up to each profile: the budget pays for those before it is passed.
            missing = np.cumsum(np.isnan(part.scores).any(axis=2).sum(axis=1))
            paid = int(np.searchsorted(missing, ledger.left, side="right"))
            if paid == 0:
                break
            parts.append(_confirm_profiles(scorer, space, part[:paid], ledger))
            at += paid
    except (BudgetError, KeyboardInterrupt) as stop:
        stopped = isinstance(stop, KeyboardInterrupt)
    else:
        stopped = False
    rest = found[at:]
    parts.append(rest[find_flips(rest.labels) & ~np.isnan(rest.scores).all(axis=(1, 2))])
    return DiscriminatoryProfiles.concatenate(parts), stopped


def _confirm_profiles(
    scorer: Scorer, space: ProfileSpace, found: DiscriminatoryProfiles, ledger: QuestionLedger
) -> DiscriminatoryProfiles:
    labels, scores = found.labels.copy(), found.scores.copy()
    profile, assignment = np.nonzero(np.isnan(scores).any(axis=2))
    stand_ins = space.stand_ins(found.unprotected)
    for at in range(0, len(profile), BATCH_ROWS):
        rows, which = profile[at : at + BATCH_ROWS], assignment[at : at + BATCH_ROWS]
        reply = ask_model(scorer, space.rows_as(found.unprotected[rows], stand_ins[rows, which]), ledger)
        labels[rows, which], scores[rows, which] = reply.labels, reply.scores
    return replace(found, labels=labels, scores=scores)[find_flips(labels)]


def _ask_labels(scorer: Scorer, individuals: Floats, ledger: QuestionLedger) -> Integers:
    if find_ledger(scorer) is None:
        ledger.charge(len(individuals))
    return models.predict_labels(scorer, individuals)


def _next_seed_count(count: int, cost: int, left: float) -> int:
    """Seeds of the next round: twice as many as in the last, as far as the budget is likely to pay for the round."""
    payable = int(count * left / cost) if cost else count
    return max(SEEDS, min(2 * count, payable, MOST_SEEDS))


def _say_carried(schema: Schema) -> str:
    """Say what the model was given of columns that are in no domain; empty where there are none."""
    if not schema.passthrough:
        return ""
    return (
        f"Everybody in this search has the passthrough columns ({', '.join(schema.passthrough)}) of the first row of "
        "the data."
    )


def _check_seeds(seeds: Floats, schema: Schema) -> Floats:
    """Return given seeds, if they are individuals of this schema."""
    if seeds.ndim == 2:
        seeds = seeds[:, : len(schema.attributes)]  # everybody in a search carries the first row of the data
    if seeds.ndim != 2 or seeds.shape[1] != len(schema.attributes) or len(seeds) == 0:
        raise OptionError(
            f"seeds of shape {seeds.shape} are not individuals",
            hint=f"expected (n, {len(schema.attributes)}), n above 0",
        )
    outside = ~schema.contains(seeds)
    if outside.any():
        raise OptionError(f"seed {int(np.argmax(outside)) + 1} lies outside the domain")
    return np.asarray(seeds, dtype=np.float64)


def _progress_by_queries(say: Progress, name: str, ledger: QuestionLedger) -> Callable[[int], None]:
    budget = ledger.budget
    return lambda queries: say(f"{name}: {queries:,} queries", 0.1 if budget is None else queries / budget)


# First of all: how common it is, by random samples of everybody, of people like those in the data, and of the data.

BUDGET_SHARE = 0.1
"""Of a budget no more than this goes into the rates."""

SAMPLED_AT_ONCE = 4096


def estimate_flip_rates(
    oracle: Oracle,
    source: People | Schema,
    rng: np.random.Generator,
    *,
    samples: int,
    confidence: float,
    noisy: bool = False,
) -> tuple[SampledFlipRate, ...]:
    """Return the counterfactual flip rate for the joint protected assignments, with exact (Clopper-Pearson) intervals.

    With data: of independent attributes each as in the data, of the people in the data, and of the whole domain
    uniformly; without data of the last alone. Individuals are drawn independently, missing values left out, and people
    who break a rule or have no plausible counterpart.

    Args:
        oracle: its space is that of everybody who may exist by the rules, whatever the data say.
        samples: individuals per rate; fewer where a tenth of the budget does not pay for them.
        noisy: whether the model answers differently each time. Then everybody drawn gets answers of their own, and some
            are asked about again.
    """
    populations: list[Population] = [uniform_population(oracle.space.schema)]
    if isinstance(source, People):
        # The people in the data are not asked about as they are where a search has everybody carry one row of them.
        own = [] if source.schema.carries_rows else [DataPopulation(source)]
        populations = [product_of_marginals(source), *own, *populations]
    if oracle.ledger.budget is not None:
        affordable = BUDGET_SHARE * oracle.ledger.budget / len(oracle.space.assignments) / len(populations)
        samples = min(samples, math.floor(affordable))
    found = []
    for population in populations:
        recorder = NoiseRecorder(FreshScorer(oracle.scorer), rng) if noisy else None
        rate = _estimate_rate(oracle, population, rng, samples, confidence, recorder)
        if rate is None:
            break
        found.append(rate)
    return tuple(found)


def _estimate_rate(
    oracle: Oracle,
    population: Population,
    rng: np.random.Generator,
    samples: int,
    confidence: float,
    recorder: NoiseRecorder | None,
) -> SampledFlipRate | None:
    seen, space = 0, oracle.space
    answered, drawn_profiles = [], [np.empty((0, space.width))]
    try:
        while seen < samples:
            drawn = population.sample(min(SAMPLED_AT_ONCE, samples - seen), rng)
            drawn = drawn[~np.isnan(drawn).any(axis=1)]
            if len(drawn) == 0:
                break
            plausible = drawn[space.schema.obeys_rules(drawn)]
            profiles = np.ascontiguousarray(space.normalize(plausible)[:, space.columns])
            profiles = profiles[space.is_legal(profiles)]
            if len(profiles):
                answered.append(
                    oracle.ask(profiles).labels if recorder is None else _ask_apart(oracle, profiles, recorder)
                )
                drawn_profiles.append(profiles)
            seen += len(drawn)
    except (BudgetExhausted, BudgetError):
        pass  # whole batches were drawn independently, so what is there is a fair sample
    profiles = np.concatenate(drawn_profiles)
    labels = np.concatenate([np.empty((0, len(space.assignments)), dtype=np.int64), *answered])
    compared = space.compared(profiles)
    flips = find_flips(labels, compared)
    check = None
    if can_vary(oracle.scorer) and flips.any():
        flips, check = _confirm_sampled(oracle, profiles, labels, compared, flips, confidence)
        if check.noise and recorder is None:
            recorder = NoiseRecorder(FreshScorer(oracle.scorer), rng)
            affordable = int(min(ASKED_AGAIN, oracle.queries_left // (2 * len(space.assignments))))
            with suppress(BudgetError):
                _ask_apart(oracle, profiles[: len(flips)][:affordable], recorder)
    rate = estimated_rate(int(flips.sum()), len(flips), population=population.name, confidence=confidence)
    if not isinstance(rate, Estimated):
        return None
    return SampledFlipRate(
        estimate=rate.value,
        low=rate.low,
        high=rate.high,
        confidence=confidence,
        population=population.name,
        flips=int(flips.sum()),
        n=len(flips),
        drawn=seen,
        repeats=check,
        noise=None if recorder is None else recorder.result(space.schema, space.protected, confidence, population.name),
    )


def _confirm_sampled(
    oracle: Oracle, profiles: Floats, labels: Integers, compared: Booleans, flips: Booleans, confidence: float
) -> tuple[Booleans, RepeatCheck]:
    """Ask about sampled flips again; return which of the first profiles flip, as far as a budget goes."""
    rows, space = np.flatnonzero(flips), oracle.space
    pairs = first_difference(labels[rows], compared[rows])
    sides = space.rows_as(np.repeat(profiles[rows], 2, axis=0), pairs.ravel())
    again = confirm_flips(
        oracle.scorer,
        sides.reshape(len(rows), 2, sides.shape[1]),
        labels[rows[:, None], pairs],
        confidence=confidence,
        ledger=oracle.ledger,
        left=lambda: oracle.queries_left,
    )
    kept = np.zeros_like(flips)
    kept[rows[again.confirmed]] = True
    end = len(flips) if again.check.tested == len(rows) else int(rows[again.check.tested])
    return kept[:end], again.check.model_copy(update={"differed": again.check.tested})


def _ask_apart(oracle: Oracle, profiles: Floats, recorder: NoiseRecorder) -> Integers:
    """Ask a noisy model about every profile (n, U), alike or not, and about some again: labels (n, A)."""
    space = oracle.space
    rows = space.rows(profiles)
    labels = ask_model(recorder.scorer, rows, oracle.ledger).labels.reshape(len(profiles), -1)
    recorder.add(rows.reshape(*labels.shape, -1), labels, space.compared(profiles))
    return labels
