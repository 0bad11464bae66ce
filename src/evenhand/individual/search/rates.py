"""First of all: how common it is, by random samples of everybody, of people like those in the data, and of the data."""

from __future__ import annotations

import math

import numpy as np

from evenhand.individual.flips import disagree
from evenhand.individual.search.oracle import Oracle, Spent
from evenhand.individual.search.result import ViolationRate
from evenhand.individual.search.space import Space
from evenhand.population import DataPopulation, Population, marginals, uniform
from evenhand.schema import People, Schema
from evenhand.stats import Estimated, estimated_rate

BUDGET_SHARE = 0.1
"""Of a budget no more than this goes into the rates."""

BATCH = 4096


def measure(
    oracle: Oracle, space: Space, source: People | Schema, rng: np.random.Generator, *, samples: int, confidence: float
) -> tuple[ViolationRate, ...]:
    """The violation rate for the joint protected assignments, with exact (Clopper-Pearson) intervals.

    With data: of independent attributes each as in the data, of the people in the data, and of the whole domain
    uniformly; without data of the last alone. Individuals are drawn independently, missing values left out.

    Args:
        samples: individuals per rate; fewer where a tenth of the budget does not pay for them.
    """
    populations: list[Population] = [uniform(space.schema)]
    if isinstance(source, People):
        populations = [marginals(source), DataPopulation(source), *populations]
    if oracle.budget is not None:
        affordable = BUDGET_SHARE * oracle.budget / len(space.assignments) / len(populations)
        samples = min(samples, math.floor(affordable))
    found = []
    for population in populations:
        rate = _rate(oracle, space, population, rng, samples, confidence)
        if rate is None:
            break
        found.append(rate)
    return tuple(found)


def _rate(
    oracle: Oracle, space: Space, population: Population, rng: np.random.Generator, samples: int, confidence: float
) -> ViolationRate | None:
    flips = n = 0
    try:
        while n < samples:
            drawn = population.sample(min(BATCH, samples - n), rng)
            drawn = drawn[~np.isnan(drawn).any(axis=1)]
            if len(drawn) == 0:
                break
            labels = oracle.ask(np.ascontiguousarray(drawn[:, space.columns])).labels
            flips += int(disagree(labels).sum())
            n += len(drawn)
    except Spent:
        pass  # whole batches were drawn independently, so what is there is a fair sample
    rate = estimated_rate(flips, n, population=population.name, confidence=confidence)
    if not isinstance(rate, Estimated):
        return None
    return ViolationRate(
        estimate=rate.value,
        low=rate.low,
        high=rate.high,
        confidence=confidence,
        population=population.name,
        flips=flips,
        n=n,
    )
