"""AEQUITAS: random global search, then local walks whose directions and attributes are learnt from success.

Source: Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing" (ASE 2018). The local walk is that of
basin hopping at temperature 1. Unlike the published program it does not move protected attributes.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.findings import Findings
from evenhand.individual.search.methods import Options
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]

LEARNING = 0.001
"""By how much one outcome changes the probability of a direction or an attribute."""

ACCEPTED = math.exp(-1)
"""Probability of going on from a move that lost the discrimination (Metropolis rule at temperature 1)."""


def random_walk(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """Attribute and direction of a local move uniformly at random."""
    _search(space, oracle, len(seeds), rng, options, directions=False, attributes=False)


def semi_directed(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """The direction of a local move is learnt, its attribute uniformly at random."""
    _search(space, oracle, len(seeds), rng, options, directions=True, attributes=False)


def fully_directed(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """Attribute and direction of a local move are both learnt."""
    _search(space, oracle, len(seeds), rng, options, directions=True, attributes=True)


def _search(
    space: Space,
    oracle: Oracle,
    n: int,
    rng: np.random.Generator,
    options: Options,
    *,
    directions: bool,
    attributes: bool,
) -> None:
    drawn = space.uniform(n, rng)
    current = drawn[oracle.ask(drawn).flips]
    n = len(current)
    if n == 0:
        return
    holds = np.ones(n, dtype=np.bool_)
    down = np.full(space.width, 0.5)
    chance = np.full(space.width, 1 / space.width)
    everyone = np.arange(n)
    for _ in range(options.local):
        attribute = rng.choice(space.width, size=n, p=chance)
        downwards = rng.random(n) < down[attribute]
        steps = np.zeros(current.shape)
        steps[everyone, attribute] = np.where(downwards, -1.0, 1.0)
        moved = space.moved(current, steps, rng)
        flips = oracle.ask(moved).flips
        # All walks learn into the same probabilities, as one after the other would.
        if directions:
            down += LEARNING * np.bincount(attribute, np.where(flips == downwards, 1.0, -1.0), minlength=space.width)
            np.clip(down, 0.0, 1.0, out=down)
        if attributes:
            chance += LEARNING * np.bincount(attribute, np.where(flips, 1.0, -1.0), minlength=space.width)
            np.maximum(chance, 0.0, out=chance)
            chance = chance / chance.sum() if chance.sum() > 0 else np.full(space.width, 1 / space.width)
        kept = flips | ~holds | (rng.random(n) < ACCEPTED)
        current = np.where(kept[:, None], moved, current)
        holds = np.where(kept, flips, holds)
