"""Search for profiles whose decision changes: estimate flip rates, run a method, and confirm findings."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand import models
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Progress, ignore_progress
from evenhand.errors import BudgetError, LimitError, OptionError
from evenhand.individual.analysis import FlipMeter
from evenhand.individual.flips import FlipRate, find_real
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.confirmation import confirm_against_noise, confirm_findings
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.methods.choice import SearchMethod, find_method
from evenhand.individual.search.oracle import BudgetExhausted, Oracle
from evenhand.individual.search.result import SearchResult, build_examples
from evenhand.individual.search.space import ProfileSpace
from evenhand.individual.white_box import compare_scores
from evenhand.models.noise import CHECKED, NoiseCheck, RepeatCheck, can_vary, check_noise
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.replies import QuestionLedger, find_ledger
from evenhand.models.scorer import Scorer, find_caution
from evenhand.population.independent import DataPopulation, Population, product_of_marginals, uniform_population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

StoppedBy: TypeAlias = Literal["plan", "budget", "time", "interrupt"]

SEEDS = 100
"""Default number of seeds of the first round."""

MAX_SEEDS = 1000
"""Maximum number of seeds of a later round. More seeds give fewer and larger calls to the model."""

NOISY_SHARE, QUIET_SHARE = 0.5, 0.2
"""Fractions of the budget reserved for repeated queries of findings, for noisy models and for all others."""

CHECK_SHARE = 0.05
"""Fraction of the budget for people who are queried twice."""

SEARCH_SHARE = 0.8
"""Fraction of the time limit for the method, if its findings are queried again."""

COMPARED = 50
"""Number of profiles on which the model and the white box are compared."""

MAX_VARIANTS = 1_000_000
"""Maximum number of variants of profiles that are compared with the data at a time."""

GAP_BINS = 20
"""Number of bins of the distribution of gaps."""

RATE_SHARE = 0.1
"""Maximum fraction of the budget for the rates."""

SAMPLE_BATCH = 4096
"""Number of individuals drawn at a time."""

SHOWN_SETTINGS = {
    "local",
    "budget",
    "time_limit",
    "constraints",
    "allow_infeasible",
    "as_published",
    "samples",
}
"""Settings that are shown in a result."""

MAX_IDLE_ROUNDS = 5
"""Number of consecutive rounds without new queries after which the search ends."""


def search(
    model: Any,
    source: People | Schema,
    config: SearchConfig | None = None,
    *,
    white_box: Scorer | None = None,
    noise: NoiseCheck | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> SearchResult:
    """Search for profiles whose decision changes with a protected assignment.

    Args:
        model: A ``Scorer``, or anything that ``evenhand.models.load_model`` accepts.
        source: People (seeds, and evidence of plausible profiles), or their schema only.
        config: The settings.
        white_box: White box of the model. It answers the queries of the search if it reproduces the model's scores on a
            sample of people (see ``white_box``). Labels and scores of the findings always come from the model.
        noise: Result of a noise check (see ``models.check_noise``). Default: some people are queried twice. If the
            answers vary, only profiles whose decisions differ beyond the noise are reported.
        progress: Called with a description of the current step and the completed fraction.
        settings: Fields of ``SearchConfig`` that replace those of ``config``.

    Returns:
        The findings. After an interrupt (Ctrl-C) or at a limit, the findings so far.

    Raises:
        EvenhandError: The options are inconsistent, or the model cannot be queried.
    """
    started = time.perf_counter()
    config = SearchConfig.of(config, settings)
    progress = progress or ignore_progress
    limit = TimeLimit(config.time_limit)
    method = find_method(config.method)
    space = ProfileSpace(
        source,
        config.protected,
        constraints=config.constraints,
        allow_infeasible=config.allow_infeasible,
        as_published=config.as_published,
    )
    ledger = QuestionLedger(config.budget)
    scorer: Scorer = models.load_model(model, space.schema, ledger=ledger)
    # A model loaded earlier has its own ledger, which includes the queries during loading.
    ledger = find_ledger(scorer) or ledger
    rng, rate_rng, _, compared_rng, noise_rng = np.random.default_rng(config.seed).spawn(5)
    compared: Floats | None = None
    with suppress(LimitError), limit.enforced():
        compared = _some_variants(space, compared_rng)
    front: Scorer | None = None
    if white_box is not None and compared is not None and len(compared) <= ledger.left:
        front = compare_scores(scorer, white_box, compared)
    # Queries to the white box have their own ledger: they cost nothing.
    account = ledger if front is None else QuestionLedger(config.budget)
    varies = can_vary(scorer)
    rates: tuple[FlipRate, ...] = ()
    stopped_by: StoppedBy = "plan"
    test: RepeatCheck | None = None
    with account.within(config.budget):
        if noise is None and front is None:
            # Without data, individuals are drawn from the domain.
            if isinstance(source, People):
                people = source.individuals[noise_rng.permutation(len(source))]
            else:
                people = uniform_population(space.schema).sample(CHECKED, noise_rng)
            most = CHECKED if config.budget is None else min(CHECKED, int(CHECK_SHARE * config.budget))
            noise = check_noise(scorer, people, most=most)
        noisy = noise is not None and noise.noisy
        budget, end = account.budget, limit.share(SEARCH_SHARE) if varies else limit
        if budget is not None and varies and front is None:  # for repeated queries of findings
            account.budget = budget - int((NOISY_SHARE if noisy else QUIET_SHARE) * max(0.0, account.left))
        available = account.budget
        oracle = Oracle(
            front or scorer,
            space,
            ledger=account,
            budget=config.budget,
            limit=end,
            progress=lambda queries: progress(
                f"{config.method}: {queries:,} queries", 0.1 if available is None else queries / available
            ),
        )
        try:
            progress("estimating flip rates", 0.0)
            if compared is None:
                raise BudgetExhausted
            if config.samples:
                rates = _estimate_flip_rates(oracle, rate_rng, config, end)
            _run_rounds(oracle, method, rng, config, end)
        except (BudgetExhausted, LimitError):
            stopped_by = "time" if end.passed() else "budget"
        except KeyboardInterrupt:
            stopped_by = "interrupt"
        finally:
            account.budget = budget
        table = oracle.findings.reportable()
        progress("verifying", 1.0)
        if front is not None:
            table = replace(table, scores=np.full_like(table.scores, np.nan))
        table, interrupted = confirm_findings(scorer, table, ledger)
        try:
            if varies:
                table, test = confirm_against_noise(
                    scorer,
                    table,
                    noisy=noisy,
                    confidence=config.confidence,
                    ledger=ledger,
                    limit=limit,
                    rng=noise_rng,
                )
        except BudgetError:
            table = table[:0]
        except KeyboardInterrupt:
            table, interrupted = table[:0], True
    table = _mark_real(table, source)
    cautions = [find_caution(scorer)]
    if names := ", ".join(space.schema.passthrough):
        cautions.append(
            f"All individuals of this search have the passthrough columns ({names}) of the first row of the data."
        )
    gaps = np.histogram(np.clip(table.pairs.gaps, 0, 1), GAP_BINS, (0, 1))[0].tolist() if len(table) else ()
    return SearchResult(
        caution=" ".join(filter(None, cautions)),
        method=config.method,
        protected=space.protected,
        counterparts=space.schema.constrains_people,
        profiles=len(table),
        valid=None if space.people is None else int(table.valid.sum()),
        queries=account.settle(),
        rates=rates,
        examples=build_examples(table, table.by_gap[: config.most_examples]),
        gaps=tuple(gaps),
        favoured=table.favoured,
        interrupted=interrupted or stopped_by == "interrupt",
        stopped_by="interrupt" if interrupted else stopped_by,
        noise=noise,
        noise_test=test,
        asked="model" if front is None else "white box",
        table_reading=source.reading if isinstance(source, People) else None,
        settings={"seeds": config.seeds or SEEDS} | config.model_dump(mode="json", include=SHOWN_SETTINGS),
        table=table,
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _estimate_flip_rates(
    oracle: Oracle, rng: np.random.Generator, config: SearchConfig, limit: TimeLimit
) -> tuple[FlipRate, ...]:
    """Estimate the counterfactual flip rate of the joint protected assignments, with exact intervals.

    With data, the populations are the product of marginals, the people in the data, and the uniform distribution over
    the domain. Without data, only the uniform distribution is used. Individuals are drawn independently. People
    with missing values, with a broken rule or without a plausible counterpart are omitted. There are fewer samples if a
    tenth of the budget does not cover them.
    """
    space, ledger, samples = oracle.space, oracle.ledger, config.samples
    source = space.source
    populations: list[Population] = [uniform_population(space.schema)]
    if isinstance(source, People):
        # In a search, people do not keep the passthrough values of their own row, so the data are not a population.
        own = [] if source.schema.carries_rows else [DataPopulation(source)]
        populations = [product_of_marginals(source), *own, *populations]
    if ledger.budget is not None:
        samples = min(samples, math.floor(RATE_SHARE * ledger.budget / len(space.assignments) / len(populations)))
    meter = FlipMeter(oracle.scorer, None, space.schema, config.confidence, rng, ledger)
    rates: list[FlipRate] = []
    for population in populations:
        rate, _, interrupted = meter.count(
            _draw_complete(population, samples, rng),
            space.protected,
            over="population",
            population=population.name,
            limit=limit,
            left=lambda: ledger.left,
        )
        if interrupted:
            raise KeyboardInterrupt
        if rate is None or rate.n == 0:
            break
        rates.append(rate)
    return tuple(rates)


def _draw_complete(population: Population, n: int, rng: np.random.Generator) -> Floats:
    """Draw up to n individuals without missing values, shape (m, attributes)."""
    parts = [population.sample(0, rng)]
    count = 0
    while count < n:
        individuals = population.sample(min(SAMPLE_BATCH, n - count), rng)
        individuals = individuals[~np.isnan(individuals).any(axis=1)]
        if len(individuals) == 0:
            break
        parts.append(individuals)
        count += len(individuals)
    return np.concatenate(parts)


def _run_rounds(
    oracle: Oracle, method: SearchMethod, rng: np.random.Generator, config: SearchConfig, limit: TimeLimit
) -> None:
    """Run a method from new seeds until it can find no more profiles, or repeatedly makes no new query."""
    count, idle = config.seeds or SEEDS, 0
    while True:
        seeds = oracle.space.seeds(count, rng)
        if len(seeds) == 0:
            raise OptionError(
                "found no individual that satisfies the constraints",
                hint="relax the constraints, or provide people who satisfy them",
            )
        queries = oracle.queries
        with limit.enforced():
            exhausted = method(oracle, seeds, rng, config) is False
        cost = oracle.queries - queries
        idle = 0 if cost else idle + 1
        if exhausted or config.budget is None or config.seeds is not None or idle == MAX_IDLE_ROUNDS:
            return
        # At most twice as many seeds, if the budget is likely to cover them.
        payable = int(count * oracle.queries_left / cost) if cost else count
        count = max(SEEDS, min(2 * count, payable, MAX_SEEDS))


def _mark_real(table: ProfileTable, source: People | Schema) -> ProfileTable:
    """Mark the profiles that reveal a person in the data."""
    real, space = table.real.copy(), table.space
    if isinstance(source, People):
        step = max(1, MAX_VARIANTS // len(space.assignments))
        for at in range(0, len(table), step):
            profiles = table.unprotected[at : at + step]
            compared = space.compared(profiles)
            variants = space.rows(profiles).reshape(*compared.shape, -1)
            real[at : at + step] = find_real(source, space.protected, variants, compared)
    return replace(table, real=real)


def forecast_queries(people: People, config: SearchConfig) -> int:
    """Forecast the maximum number of individuals for which a search without a budget queries a black box.

    Every profile takes one query per assignment, and ``local`` profiles near each seed are queried. The same number is
    added for slopes and for repeated queries of the findings.
    """
    assignments = len(people.schema.assignments(config.protected or people.schema.protected))
    plan = (config.seeds or SEEDS) * (1 + config.local) * assignments
    return FIRST_QUESTIONS + 3 * config.samples * assignments + 2 * plan


def _some_variants(space: ProfileSpace, rng: np.random.Generator) -> Floats:
    """Draw people from the data, or from the domain if there are no data, under every assignment, (m, attributes)."""
    if space.people is None or len(space.people) == 0:
        return space.rows(space.uniform(COMPARED, rng))
    return space.rows(space.people[rng.integers(0, len(space.people), size=COMPARED)])
