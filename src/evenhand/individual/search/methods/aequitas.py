"""AEQUITAS: random global search followed by local walks with learned directions and attributes.

Global phase: one profile per seed is drawn uniformly from the domain. Local phase: a walk of single steps starts from
every profile that discriminates. After a step to a profile that does not discriminate, the walk returns to its start. A
success increases the probability of its direction and attribute by a thousandth, a failure decreases it, for all walks.

Source: Udeshi, Arora and Chattopadhyay, "Automated directed fairness testing" (ASE 2018), sections 3.2 and 3.3, variant
"fully-directed". Their program continues after a failure with the probability of basin hopping. The comparison in Wang
et al. (MAFT, ICSE 2024) returned to the start, which finds about one and a half times as many profiles. Unlike both
programs, this one does not change protected attributes, since that would find the same profiles again, and does
not learn from a step without effect (at the end of the domain, or to an implausible profile).
"""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.oracle import Oracle

LEARNING_RATE = 0.001
"""Change in the probability of a direction or an attribute per step."""


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, config: SearchConfig) -> None:
    """Draw one random profile per seed and walk from each one that discriminates."""
    space = oracle.space
    chance, down = np.full(space.width, 1 / space.width), np.full(space.width, 0.5)
    for wave in oracle.waves(len(seeds), len(space.assignments)):
        profiles = space.uniform(wave.stop - wave.start, rng)
        starts = profiles[oracle.ask(profiles).flips]
        _, positions = np.unique(space.keys(starts), return_index=True)
        _walk(oracle, starts[np.sort(positions)], rng, config.local, chance, down)


def _walk(oracle: Oracle, starts: Floats, rng: np.random.Generator, moves: int, chance: Floats, down: Floats) -> None:
    """Walk from profiles that discriminate (n, U), all in parallel.

    Update the probability of each attribute, ``chance`` (U,), and that it decreases, ``down`` (U,), in place.
    """
    space, rows = oracle.space, np.arange(len(starts))
    current = starts
    for _ in range(moves if len(starts) else 0):
        attribute = rng.choice(space.width, size=len(starts), p=chance)
        downwards = rng.random(len(starts)) < down[attribute]
        # At the ends of the domain, both directions are equally likely, as in the published program.
        entries = current[rows, attribute]
        ends = (entries == space.lower[attribute]) | (entries == space.upper[attribute])
        downwards = np.where(ends, rng.random(len(starts)) < 0.5, downwards)
        steps = np.zeros(current.shape)
        steps[rows, attribute] = np.where(downwards, -1.0, 1.0)
        moved = space.move(current, steps, rng)
        flips = oracle.ask(moved).flips
        changed = (moved != current).any(axis=1)
        _learn(chance, down, attribute[changed], downwards[changed], flips[changed])
        current = np.where(flips[:, None], moved, starts)


def _learn(chance: Floats, down: Floats, attribute: Integers, downwards: Booleans, flips: Booleans) -> None:
    """Update the probabilities from steps (n,) as if these had been taken in sequence."""
    for probability, success in ((down, flips == downwards), (chance, flips)):
        probability += LEARNING_RATE * np.bincount(attribute, np.where(success, 1.0, -1.0), minlength=len(probability))
        np.maximum(probability, 0.0, out=probability)
    np.minimum(down, 1.0, out=down)
    total = chance.sum()
    chance[:] = chance / total if total > 0 else 1 / len(chance)
