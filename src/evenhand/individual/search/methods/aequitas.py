"""AEQUITAS: random global search, then local walks whose directions and attributes are learnt from success.

Global phase: profiles are drawn uniformly from the domain, one per seed. Local phase: from every one that discriminates
a walk of single steps; a step that loses the discrimination is taken back to where the walk began. A success makes its
direction and its attribute likelier, by a thousandth, a failure less likely, for all walks.

Source: Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing" (ASE 2018), sections 3.2 and 3.3: the
variants "random", "semi-directed" and "fully-directed". Their program leaves a lost discrimination behind with the
probability of basin hopping; going back to the beginning is what the comparison in Wang et al. (MAFT, ICSE 2024) ran,
and finds about one and a half times as many. Unlike both programs it does not move protected attributes, which finds
the same profiles again, and learns nothing from a step that leads nowhere (the domain ends, or no such person exists).
"""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.search.methods.choice import MethodOptions, cut_into_waves
from evenhand.individual.search.oracle import Oracle

LEARNING = 0.001
"""By how much one outcome changes the probability of a direction or an attribute."""


def random_walk(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Choose attribute and direction of a local move uniformly at random."""
    _walk_from_seeds(oracle, len(seeds), rng, options, directions=False, attributes=False)


def semi_directed(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Learn the direction of a local move; choose its attribute uniformly at random."""
    _walk_from_seeds(oracle, len(seeds), rng, options, directions=True, attributes=False)


def fully_directed(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """Learn both attribute and direction of a local move."""
    _walk_from_seeds(oracle, len(seeds), rng, options, directions=True, attributes=True)


def _walk_from_seeds(
    oracle: Oracle,
    n: int,
    rng: np.random.Generator,
    options: MethodOptions,
    *,
    directions: bool,
    attributes: bool,
) -> None:
    space = oracle.space
    learnt = StepChances(space.width, directions=directions, attributes=attributes)
    for wave in cut_into_waves(oracle, n, len(space.assignments)):
        drawn = space.uniform(wave.stop - wave.start, rng)
        starts = drawn[oracle.ask(drawn).flips]
        _, first = np.unique(space.keys(starts), return_index=True)
        _walk(oracle, starts[np.sort(first)], rng, options.local, learnt)


def _walk(oracle: Oracle, starts: Floats, rng: np.random.Generator, moves: int, learnt: StepChances) -> None:
    """Walk from profiles that discriminate (n, U), all at the same time."""
    space, everyone = oracle.space, np.arange(len(starts))
    current = starts
    for _ in range(moves if len(starts) else 0):
        attribute, downwards = learnt.draw(len(starts), rng)
        # At an end of the domain both directions are equally likely, as in the published program.
        here = current[everyone, attribute]
        ends = (here == space.lower[attribute]) | (here == space.upper[attribute])
        downwards = np.where(ends, rng.random(len(starts)) < 0.5, downwards)
        steps = np.zeros(current.shape)
        steps[everyone, attribute] = np.where(downwards, -1.0, 1.0)
        moved = space.move(current, steps, rng)
        flips = oracle.ask(moved).flips
        went = (moved != current).any(axis=1)
        learnt.learn(attribute[went], downwards[went], flips[went])
        current = np.where(flips[:, None], moved, starts)


class StepChances:
    """How likely each attribute is chosen, and each direction along it; all walks learn into the same numbers."""

    def __init__(self, width: int, *, directions: bool, attributes: bool) -> None:
        """Begin with equal chances; what is not learnt stays so."""
        self._down = np.full(width, 0.5)
        self._chance = np.full(width, 1 / width)
        self._directions, self._attributes = directions, attributes

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Integers, Booleans]:
        """Draw attributes (n,) and whether they go down (n,)."""
        attribute = rng.choice(len(self._chance), size=n, p=self._chance)
        return attribute, rng.random(n) < self._down[attribute]

    def learn(self, attribute: Integers, downwards: Booleans, flips: Booleans) -> None:
        """Learn from steps (n,), as if they had been taken one after the other."""
        width = len(self._chance)
        if self._directions:
            self._down += LEARNING * np.bincount(attribute, np.where(flips == downwards, 1.0, -1.0), minlength=width)
            np.clip(self._down, 0.0, 1.0, out=self._down)
        if self._attributes:
            self._chance += LEARNING * np.bincount(attribute, np.where(flips, 1.0, -1.0), minlength=width)
            np.maximum(self._chance, 0.0, out=self._chance)
            total = self._chance.sum()
            self._chance = self._chance / total if total > 0 else np.full(width, 1 / width)
