"""How often the label flips when only protected attributes change: the violation rate.

An individual discriminatory instance is a person whose label differs under some other assignment of the
protected attributes, everything else unchanged (Galhotra, Brun & Meliou, "Fairness testing", ESEC/FSE 2017,
causal discrimination; Aggarwal et al., ESEC/FSE 2019). The violation rate is their share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.individual.examples import clearest
from evenhand.individual.flips import disagree, distinct_unprotected, labels_by_assignment, scores_by_assignment
from evenhand.individual.result import IndividualResult, Profile, Rate
from evenhand.models import Scorer
from evenhand.population import Population
from evenhand.schema import People
from evenhand.stats import Quantity, estimated_rate, observed_rate

CHUNK = 65_536
"""Individuals asked about between two looks at the clock."""


@dataclass(frozen=True)
class Config:
    """Settings of the violation rate.

    Attributes:
        protected: attributes to vary, each alone and then all together.
        samples: individuals drawn from the population.
        examples: profiles kept per set of protected attributes.
        confidence: of every interval.
        time_limit: seconds for all rates together; what is not reached is left out, what is begun is estimated
            from the people reached (in random order). None: no limit.
        seed: of sampling and of the order in which people are asked about.
    """

    protected: tuple[str, ...]
    samples: int = 20_000
    examples: int = 6
    confidence: float = 0.95
    time_limit: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.protected:
            raise OptionError("no protected attribute to vary", mend="name at least one: --protected NAME")
        if self.samples < 1:
            raise OptionError(f"samples must be at least 1, not {self.samples}")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}")


@dataclass(frozen=True)
class Answered:
    """What the model said about the people reached: how many flip, and one individual per distinct one who does."""

    flips: int
    people: int
    queries: int
    complete: bool
    interrupted: bool
    violators: NDArray[np.float64]


def run(
    scorer: Scorer,
    people: People,
    population: Population,
    config: Config,
    *,
    progress: Callable[[str, float], None] | None = None,
) -> IndividualResult:
    """Measure the violation rate over the people in the data and over a population, with the clearest examples.

    Args:
        scorer: the model.
        people: everybody is asked about (once per protected assignment), within the time limit.
        population: where further individuals are drawn from.
        progress: called with what is being done and the share done, 0 to 1.

    Raises:
        OptionError: a protected attribute has one value, or there are too many joint assignments.
    """
    started = time.perf_counter()
    rng = np.random.default_rng(config.seed)
    sampled = population.sample(config.samples, rng)
    shuffled = people.individuals[rng.permutation(len(people))]
    sets: list[tuple[str, ...]] = [(name,) for name in config.protected]
    if len(config.protected) > 1:
        sets.append(config.protected)
    for protected in sets:
        people.schema.assignments(protected)  # refuse all that is wrong before anything is asked
    deadline = None if config.time_limit is None else started + config.time_limit
    rates: list[Rate] = []
    examples: list[Profile] = []
    parts: list[tuple[tuple[str, ...], Literal["data", "population"]]] = [
        (protected, source) for protected in sets for source in ("data", "population")
    ]
    interrupted = False
    for step, (protected, source) in enumerate(parts):
        if progress is not None:
            progress(f"flips with {' x '.join(protected)}, {source}", step / len(parts))
        share = None if deadline is None else _share(deadline, len(parts) - step)
        answered = _ask(scorer, people, shuffled if source == "data" else sampled, protected, share)
        if answered.people > 0:
            rates.append(_rate(source, answered, protected, people, population, config))
            wanted = config.examples - sum(set(profile.better.values) == set(protected) for profile in examples)
            examples += _examples(scorer, people, answered, protected, source, wanted)
        interrupted = answered.interrupted
        if interrupted:
            break
    return IndividualResult(
        rates=tuple(rates),
        examples=tuple(examples),
        interrupted=interrupted,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _share(deadline: float, parts_left: int) -> float:
    """When this part must stop so that each of the remaining parts gets as much time."""
    now = time.perf_counter()
    return now + max(0.0, deadline - now) / parts_left


def _ask(
    scorer: Scorer, people: People, individuals: NDArray[np.float64], protected: Sequence[str], stop_at: float | None
) -> Answered:
    schema = people.schema
    columns = schema.positions(protected)
    assignments = schema.assignments(protected)
    distinct = distinct_unprotected(individuals, columns)
    rows = max(1, CHUNK // len(assignments))
    flipped = np.zeros(len(distinct.individuals), dtype=bool)
    at = 0
    interrupted = False
    try:
        while at < len(flipped) and not (stop_at is not None and at > 0 and time.perf_counter() > stop_at):
            chunk = distinct.individuals[at : at + rows]
            flipped[at : at + rows] = disagree(labels_by_assignment(scorer, chunk, columns, assignments))
            at += len(chunk)
    except KeyboardInterrupt:
        interrupted = True
    complete = at >= len(flipped)
    # Only people before the first one not asked about: these are a random draw, in which nobody was preferred.
    reached = len(individuals) if complete else int(distinct.first[at])
    return Answered(
        flips=int(flipped[distinct.of[:reached]].sum()),
        people=reached,
        queries=at * len(assignments),
        complete=complete,
        interrupted=interrupted,
        violators=distinct.individuals[flipped],
    )


def _rate(
    source: Literal["data", "population"],
    answered: Answered,
    protected: tuple[str, ...],
    people: People,
    population: Population,
    config: Config,
) -> Rate:
    flips, n = answered.flips, answered.people
    if source == "population":
        name = population.name
        rate: Quantity = estimated_rate(flips, n, population=name, confidence=config.confidence)
    elif answered.complete:
        name = "the people in the data"
        rate = observed_rate(flips, n, confidence=config.confidence)
    else:
        name = f"the {len(people):,} people in the data"
        rate = estimated_rate(flips, n, population=name, confidence=config.confidence)
    return Rate(
        over=source, population=name, protected=protected, rate=rate, flips=flips, n=n, queries=answered.queries
    )


def _examples(
    scorer: Scorer,
    people: People,
    answered: Answered,
    protected: Sequence[str],
    source: Literal["data", "population"],
    most: int,
) -> list[Profile]:
    schema = people.schema
    columns = schema.positions(protected)
    assignments = schema.assignments(protected)
    looked_at = answered.violators[: max(most, CHUNK // len(assignments))]
    if len(looked_at) == 0 or most <= 0 or answered.interrupted:
        return []
    return clearest(
        schema,
        looked_at,
        columns,
        assignments,
        labels_by_assignment(scorer, looked_at, columns, assignments),
        scores_by_assignment(scorer, looked_at, columns, assignments),
        classes=scorer.classes,
        most=most,
        source=source,
    )
