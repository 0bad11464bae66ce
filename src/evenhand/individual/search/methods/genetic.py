"""Genetic search: profiles bred for a wide gap between their assignments' scores.

The fitness of a profile is the widest difference between two assignments' scores of the same class, plus one if they
are decided differently. Parents are chosen by tournament, children take every part from either parent and change some
parts at random; parents and children compete for the next generation. What is bred that way needs no gradient, so it
gets through where retraining has flattened them.

Source: Fan et al., "Explanation-guided fairness testing through genetic algorithm" (ICSE 2022), whose fitness this is;
the explanations that choose the seeds there are left out, and all of a generation is asked about at once.
"""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Floats
from evenhand.individual.search.methods.choice import MethodOptions
from evenhand.individual.search.moves import Codes, Moves
from evenhand.individual.search.oracle import ModelAnswers, Oracle

CROSSED = 0.9
"""Share of children with two parents."""

CHANGED = 1.5
"""Parts that change at random in a child, on average."""


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Breed from seeds (n, attributes) for ``local`` generations, each as large as the seeds."""
    space = oracle.space
    moves = Moves.of(space)
    people = np.ascontiguousarray(seeds[:, space.columns])
    people = people[space.is_admissible(people)]
    if len(people) < 2:
        people = np.concatenate([people, space.uniform(2, rng)])
    if len(people) == 0:
        return
    size = len(people)
    codes, fit = moves.codes(people), score_fitness(oracle.ask(people))
    for _ in range(options.local):
        children = breed_children(moves, codes, fit, size, rng)
        rows = moves.rows(children)
        good = space.is_admissible(rows)
        if not good.any():
            continue
        children = children[good]
        codes = np.concatenate([codes, children])
        fit = np.concatenate([fit, score_fitness(oracle.ask(rows[good]))])
        # No individual occurs twice in a generation: else the fittest one soon fills it.
        codes, first = np.unique(codes, axis=0, return_index=True)
        fit = fit[first]
        best = np.argsort(-fit, kind="stable")[:size]
        codes, fit = codes[best], fit[best]


def score_fitness(said: ModelAnswers) -> Floats:
    """Return how differently profiles are treated, shape (n,)."""
    gaps = said.scores.max(axis=1) - said.scores.min(axis=1)
    return np.asarray(gaps.max(axis=1) + said.flips)


def breed_children(moves: Moves, codes: Codes, fit: Floats, n: int, rng: np.random.Generator) -> Codes:
    """Return children (n, parts) of a generation (m, parts) of this fitness (m,)."""
    mother, father = (_tournament_winners(fit, n, rng) for _ in range(2))
    inherited = rng.random((n, codes.shape[1])) < 0.5
    crossed = rng.random(n) < CROSSED
    children = np.where(inherited & crossed[:, None], codes[father], codes[mother])
    sizes = np.array([len(levels) for levels in moves.levels])
    changed = rng.random(children.shape) < CHANGED / children.shape[1]
    drawn = moves.start + np.floor(rng.random(children.shape) * sizes).astype(np.int64)
    return np.asarray(np.where(changed, drawn, children))


def _tournament_winners(fit: Floats, n: int, rng: np.random.Generator) -> Codes:
    pairs = rng.integers(0, len(fit), size=(2, n))
    return np.asarray(np.where(fit[pairs[0]] >= fit[pairs[1]], pairs[0], pairs[1]))
