"""Genetic search for profiles with a wide gap between the scores of their assignments.

The fitness of a profile is the largest difference between two assignments' scores of the same class, plus one if their
labels differ. Parents are selected by tournament. Children inherit every part from either parent, and some parts
mutate. Parents and children compete for the next generation. The method needs no gradients, so it also works on models
that were retrained to flatten them.

Source: Fan et al., "Explanation-guided fairness testing through genetic algorithm" (ICSE 2022), which defines this
fitness. The published selection of seeds by explanations is omitted, and a generation is queried in one batch.
"""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.methods.choice import MethodOptions
from evenhand.individual.search.moves import Moves
from evenhand.individual.search.oracle import ModelAnswers, Oracle

CROSSOVER_RATE = 0.9
"""Fraction of children with two parents."""

MUTATIONS = 1.5
"""Mean number of mutated parts per child."""


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Breed ``local`` generations from seeds (n, attributes), each as large as the seeds."""
    space = oracle.space
    moves = Moves.of(space)
    people = np.ascontiguousarray(seeds[:, space.columns])
    people = people[space.is_admissible(people)]
    if len(people) < 2:
        people = np.concatenate([people, space.uniform(2, rng)])
    if len(people) == 0:
        return
    size = len(people)
    codes, fitness = moves.codes(people), score_fitness(oracle.ask(people))
    for _ in range(options.local):
        children = breed_children(moves, codes, fitness, size, rng)
        rows = moves.rows(children)
        admissible = space.is_admissible(rows)
        if not admissible.any():
            continue
        codes = np.concatenate([codes, children[admissible]])
        fitness = np.concatenate([fitness, score_fitness(oracle.ask(rows[admissible]))])
        # Individuals are distinct. Otherwise, the fittest one would soon fill a generation.
        codes, positions = np.unique(codes, axis=0, return_index=True)
        fitness = fitness[positions]
        best = np.argsort(-fitness, kind="stable")[:size]
        codes, fitness = codes[best], fitness[best]


def score_fitness(answers: ModelAnswers) -> Floats:
    """Compute the fitness of profiles, shape (n,)."""
    gaps = answers.scores.max(axis=1) - answers.scores.min(axis=1)
    return np.asarray(gaps.max(axis=1) + answers.flips)


def breed_children(moves: Moves, codes: Integers, fitness: Floats, n: int, rng: np.random.Generator) -> Integers:
    """Breed children (n, parts) of a generation (m, parts) with this fitness (m,)."""
    mother, father = (_tournament_winners(fitness, n, rng) for _ in range(2))
    inherited = rng.random((n, codes.shape[1])) < 0.5
    crossed = rng.random(n) < CROSSOVER_RATE
    children = np.where(inherited & crossed[:, None], codes[father], codes[mother])
    sizes = np.array([len(levels) for levels in moves.levels])
    mutated = rng.random(children.shape) < MUTATIONS / children.shape[1]
    levels = moves.start + np.floor(rng.random(children.shape) * sizes).astype(np.int64)
    return np.asarray(np.where(mutated, levels, children))


def _tournament_winners(fitness: Floats, n: int, rng: np.random.Generator) -> Integers:
    pairs = rng.integers(0, len(fitness), size=(2, n))
    return np.asarray(np.where(fitness[pairs[0]] >= fitness[pairs[1]], pairs[0], pairs[1]))
