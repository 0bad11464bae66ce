"""AEQUITAS: random global search, then local walks whose directions and attributes are learnt from success.

Source: Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing" (ASE 2018). The local walk is that of
basin hopping at temperature 1. Unlike the published program it does not move protected attributes.
"""

from __future__ import annotations

import math

import numpy as np

from evenhand.individual.search.methods import MethodOptions
from evenhand.individual.search.oracle import Oracle
from evenhand.typing import Floats

LEARNING = 0.001
"""By how much one outcome changes the probability of a direction or an attribute."""

ACCEPTED = math.exp(-1)
"""Probability of going on from a move that lost the discrimination (Metropolis rule at temperature 1)."""


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
        moved = space.move(current, steps, rng)
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
