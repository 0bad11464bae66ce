"""Counterfactual flip rates of a search, over random samples of populations and over the data."""

from __future__ import annotations

import math

import numpy as np

from evenhand.errors import BudgetError
from evenhand.individual.flips import FlipRate, confirm_flips, find_flips, first_difference
from evenhand.individual.search.oracle import BudgetExhausted, Oracle
from evenhand.models.noise import can_vary
from evenhand.population.independent import DataPopulation, Population, product_of_marginals, uniform_population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.proportion import estimated_rate
from evenhand.stats.quantity import Unknown

BUDGET_SHARE = 0.1
"""Maximum fraction of the budget for the rates."""

SAMPLE_BATCH = 4096
"""Number of individuals drawn at a time."""


def estimate_flip_rates(
    oracle: Oracle, source: People | Schema, rng: np.random.Generator, *, samples: int, confidence: float
) -> tuple[FlipRate, ...]:
    """Estimate the counterfactual flip rate of the joint protected assignments, with exact intervals.

    With data, the populations are the product of marginals, the people in the data, and the uniform distribution over
    the domain. Without data, only the uniform distribution is used. Individuals are drawn independently. People
    with missing values, with a broken rule or without a plausible counterpart are omitted.

    Args:
        oracle: Oracle whose space contains all profiles that obey the rules, whether or not they are plausible in the
            data.
        source: People or their schema.
        rng: Source of randomness.
        samples: Number of individuals per rate. Fewer if a tenth of the budget does not cover them.
        confidence: Confidence level of the intervals.
    """
    populations: list[Population] = [uniform_population(oracle.space.schema)]
    if isinstance(source, People):
        # In a search, people do not keep the passthrough values of their own row, so the data are not a population.
        own = [] if source.schema.carries_rows else [DataPopulation(source)]
        populations = [product_of_marginals(source), *own, *populations]
    if oracle.ledger.budget is not None:
        affordable = BUDGET_SHARE * oracle.ledger.budget / len(oracle.space.assignments) / len(populations)
        samples = min(samples, math.floor(affordable))
    rates = []
    for population in populations:
        rate = _estimate_rate(oracle, population, rng, samples, confidence)
        if rate is None:
            break
        rates.append(rate)
    return tuple(rates)


def _estimate_rate(
    oracle: Oracle, population: Population, rng: np.random.Generator, samples: int, confidence: float
) -> FlipRate | None:
    """Estimate the rate of one population. None if no individual was queried."""
    space, sample_size = oracle.space, 0
    batches = [np.empty((0, space.width))]
    answers = [np.empty((0, len(space.assignments)), dtype=np.int64)]
    try:
        while sample_size < samples:
            individuals = population.sample(min(SAMPLE_BATCH, samples - sample_size), rng)
            individuals = individuals[~np.isnan(individuals).any(axis=1)]
            if len(individuals) == 0:
                break
            plausible = individuals[space.schema.obeys_rules(individuals)]
            batch = np.ascontiguousarray(space.normalize(plausible)[:, space.columns])
            batch = batch[space.is_legal(batch)]
            if len(batch):
                answers.append(oracle.ask(batch).labels)
                batches.append(batch)
            sample_size += len(individuals)
    except (BudgetExhausted, BudgetError):
        pass  # whole batches were drawn independently, so those answered are a fair sample
    profiles = np.concatenate(batches)
    labels = np.concatenate(answers)
    compared = space.compared(profiles)
    flips = find_flips(labels, compared)
    check = None
    if can_vary(oracle.scorer) and flips.any():
        rows = np.flatnonzero(flips)
        pairs = first_difference(labels[rows], compared[rows])
        confirmed, _, check = confirm_flips(
            oracle.scorer,
            space.sides(profiles[rows], pairs),
            np.take_along_axis(labels[rows], pairs, axis=1),
            confidence=confidence,
            ledger=oracle.ledger,
            left=lambda: oracle.queries_left,
        )
        # Only profiles before the first untested flip count.
        end = len(flips) if check.tested == len(rows) else int(rows[check.tested])
        flips[rows[~confirmed]] = False
        flips, check = flips[:end], check.model_copy(update={"differed": check.tested})
    rate = estimated_rate(int(flips.sum()), len(flips), population=population.name, confidence=confidence)
    if isinstance(rate, Unknown):
        return None
    return FlipRate(
        over="population",
        population=population.name,
        protected=space.protected,
        rate=rate,
        flips=int(flips.sum()),
        n=len(flips),
        without=sample_size - len(flips),
        repeats=check,
    )
