"""Counterfactual flip rates of a search, over random samples of populations and over the data."""

from __future__ import annotations

import math

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats
from evenhand.individual.analysis import FlipMeter
from evenhand.individual.flips import FlipRate
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.replies import QuestionLedger
from evenhand.models.scorer import Scorer
from evenhand.population.independent import DataPopulation, Population, product_of_marginals, uniform_population
from evenhand.schema.people import People

BUDGET_SHARE = 0.1
"""Maximum fraction of the budget for the rates."""

SAMPLE_BATCH = 4096
"""Number of individuals drawn at a time."""


def estimate_flip_rates(
    scorer: Scorer,
    space: ProfileSpace,
    rng: np.random.Generator,
    *,
    samples: int,
    confidence: float,
    ledger: QuestionLedger,
    limit: TimeLimit,
) -> tuple[FlipRate, ...]:
    """Estimate the counterfactual flip rate of the joint protected assignments, with exact intervals.

    With data, the populations are the product of marginals, the people in the data, and the uniform distribution over
    the domain. Without data, only the uniform distribution is used. Individuals are drawn independently. People
    with missing values, with a broken rule or without a plausible counterpart are omitted. There are fewer samples if a
    tenth of the budget does not cover them.
    """
    source = space.source
    populations: list[Population] = [uniform_population(space.schema)]
    if isinstance(source, People):
        # In a search, people do not keep the passthrough values of their own row, so the data are not a population.
        own = [] if source.schema.carries_rows else [DataPopulation(source)]
        populations = [product_of_marginals(source), *own, *populations]
    if ledger.budget is not None:
        samples = min(samples, math.floor(BUDGET_SHARE * ledger.budget / len(space.assignments) / len(populations)))
    meter = FlipMeter(scorer, None, space.schema, confidence, rng, ledger)
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
