"""ADF, EIDIG and MAFT: the two-phase search with three kinds of slopes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.findings import Findings
from evenhand.individual.search.methods import Options
from evenhand.individual.search.methods.two_phases import Plan, Slopes
from evenhand.individual.search.methods.two_phases import search as two_phases
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

DECAY = 0.5
UPDATE = 5

NUMBERS = 4_000_000
"""Entries of the questions for slopes that are held at a time."""


def adf(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """ADF (Zhang et al., ICSE 2020): slopes of the loss, without momentum, local weights anew after every success."""

    def slopes(profiles: Floats, which: Integers, scores: Floats) -> Floats:
        return -oracle.gradient(profiles, which, loss=True)

    two_phases(space, oracle, seeds, rng, options, Plan(slopes, decay=0.0, update=1))


def eidig(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """EIDIG (Zhang, Zhang & Zhang, ISSTA 2021): slopes of the output, with momentum, weights anew every 5 successes."""

    def slopes(profiles: Floats, which: Integers, scores: Floats) -> Floats:
        return oracle.gradient(profiles, which)

    two_phases(space, oracle, seeds, rng, options, Plan(slopes, decay=DECAY, update=UPDATE))


def maft(
    space: Space, oracle: Oracle, findings: Findings, seeds: Floats, rng: np.random.Generator, options: Options
) -> None:
    """MAFT (Wang et al., ICSE 2024): as EIDIG, with slopes estimated from answers alone (zero-order)."""
    two_phases(space, oracle, seeds, rng, options, Plan(estimated(space, oracle, options.h), DECAY, UPDATE))


def estimated(space: Space, oracle: Oracle, h: float) -> Slopes:
    """Difference quotients of the predicted label's score over ``h`` steps of each attribute, one question each.

    They are forward, backward at the domain's upper end, and never leave the domain. Attributes of which the model
    cannot be asked about values between (categories; whole numbers, unless they enter a network affinely) take a whole
    number of steps, at least one.
    """
    whole = max(1.0, float(round(h)))
    width = space.step * np.where(oracle.fractions, h, whole)
    each = max(1, NUMBERS // space.width**2)

    def slopes(profiles: Floats, which: Integers, scores: Floats) -> Floats:
        parts = [
            part(profiles[i : i + each], which[i : i + each], scores[i : i + each])
            for i in range(0, len(profiles), each)
        ]
        return np.concatenate(parts)

    def part(profiles: Floats, which: Integers, scores: Floats) -> Floats:
        n, u = profiles.shape
        ahead = np.minimum(profiles + width, space.upper)
        there = np.where(ahead > profiles, ahead, np.maximum(profiles - width, space.lower))
        questions = np.repeat(profiles, u, axis=0).reshape(n, u, u)
        diagonal = np.arange(u)
        questions[:, diagonal, diagonal] = there
        answered = oracle.scores_at(questions.reshape(n * u, u), np.repeat(which, u))
        predicted = np.argmax(scores, axis=1)
        rise = answered[np.arange(n * u), np.repeat(predicted, u)].reshape(n, u)
        rise -= scores[np.arange(n), predicted][:, None]
        distance = there - profiles
        return np.asarray(np.divide(rise, distance, out=np.zeros_like(rise), where=distance != 0))

    return slopes
