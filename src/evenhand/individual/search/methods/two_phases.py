"""The search in two phases that ADF, EIDIG and MAFT share: first towards the decision boundary, then along it.

Global phase: every seed x moves at most ten times. Its partner x' is the assignment whose score differs most; every
unprotected attribute whose slopes at x and x' agree in sign takes a step against it, so that both come closer to the
boundary and one crosses it first. Local phase: around every profile found, one attribute at a time takes a step up or
down. It is drawn with weight 1 / (abs(slope at x) + abs(slope at x') + 1e-6), so that decisions tend to stay.

All seeds move in lock-step, one call to the model per move. Unlike the published programs the outcome of every move is
asked about, the last included, and the local phase never leaves the domain.

Sources: Zhang et al., "White-box fairness testing through adversarial sampling" (ICSE 2020: ADF); Zhang, Zhang and
Zhang, "Efficient white-box fairness testing through gradient search" (ISSTA 2021: EIDIG); Wang et al., "MAFT: Efficient
model-agnostic fairness testing for deep neural networks via zero-order gradient search" (ICSE 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.methods import Options
from evenhand.individual.search.oracle import Answers, Oracle
from evenhand.individual.search.space import Space

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

Slopes: TypeAlias = Callable[[Floats, Integers, Floats], Floats]
"""(profiles (n, U), assignment of each (n,), scores there (n, classes)) -> slopes along the attributes (n, U)."""

EPSILON = 1e-6
"""Keeps the weight of an attribute without any slope finite."""


@dataclass(frozen=True)
class Plan:
    """How a method uses slopes.

    Attributes:
        slopes: of the predicted label's probability; those of its loss have the opposite sign.
        decay: share of the sum of former slopes that is kept in the global phase (momentum).
        update: successes in a row after which the local weights are computed anew.
    """

    slopes: Slopes
    decay: float
    update: int


def search(space: Space, oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: Options, plan: Plan) -> None:
    """Both phases from seeds (n, attributes)."""
    profiles, which = space.split(seeds)
    starts, under = towards_the_boundary(space, oracle, profiles, which, rng, options.most_moves, plan)
    along_the_boundary(space, oracle, starts, under, rng, options.local, plan)


def towards_the_boundary(
    space: Space,
    oracle: Oracle,
    profiles: Floats,
    which: Integers,
    rng: np.random.Generator,
    most_moves: int,
    plan: Plan,
) -> tuple[Floats, Integers]:
    """The global phase.

    Args:
        profiles: seeds (n, U); which: the assignment of each (n,).

    Returns:
        The distinct profiles that it found, and the assignment each arrived with.
    """
    former = np.zeros((2, *profiles.shape))
    found: list[tuple[Floats, Integers]] = [(profiles[:0], which[:0])]
    for move in range(most_moves + 1):
        answers = oracle.ask(profiles)
        found.append((profiles[answers.flips], which[answers.flips]))
        on = ~answers.flips
        if move == most_moves or not on.any():
            break
        profiles, which, former = profiles[on], which[on], former[:, on]
        scores = answers.scores[on]
        partner = farthest(scores, which)
        former = plan.decay * former + _both_slopes(plan, profiles, which, partner, scores)
        signs = np.sign(former)
        directions = np.where(signs[0] == signs[1], -signs[0], 0.0)
        moved = space.moved(profiles, directions, rng)
        stuck = (moved == profiles).all(axis=1)
        if stuck.any():
            moved[stuck] = space.moved(profiles[stuck], random_step(int(stuck.sum()), space.width, rng), rng)
        profiles = moved
    starts, under = (np.concatenate(each) for each in zip(*found, strict=True))
    _, first = np.unique(space.keys(starts), return_index=True)
    first.sort()
    return starts[first], under[first]


def along_the_boundary(
    space: Space,
    oracle: Oracle,
    starts: Floats,
    which: Integers,
    rng: np.random.Generator,
    moves: int,
    plan: Plan,
) -> None:
    """The local phase around profiles that discriminate (n, U), each with its assignment (n,)."""
    n = len(starts)
    if n == 0 or moves == 0:
        return
    first = _weights(plan, starts, which, oracle.ask(starts))
    weights = first.copy()
    current = starts.copy()
    successes = np.zeros(n, dtype=np.int64)
    everyone = np.arange(n)
    answers: Answers | None = None
    for _ in range(moves):
        due = successes >= plan.update
        if answers is not None and due.any():
            chosen = Answers(answers.scores[due], answers.labels[due], answers.flips[due])
            weights[due] = _weights(plan, current[due], which[due], chosen)
            successes[due] = 0
        draw = rng.random((2, n))
        attribute = (weights < (draw[0] * weights[:, -1])[:, None]).sum(axis=1)
        directions = np.zeros(current.shape)
        directions[everyone, attribute] = np.where(draw[1] < 0.5, -1.0, 1.0)
        moved = space.moved(current, directions, rng)
        answers = oracle.ask(moved)
        flips = answers.flips
        successes = np.where(flips, successes + 1, 0)
        back = ~flips
        moved[back] = starts[back]
        weights[back] = first[back]
        current = moved


def farthest(scores: Floats, which: Integers) -> Integers:
    """The assignment whose score for the own predicted label differs most, from scores (n, A, classes): shape (n,)."""
    n = np.arange(len(which))
    predicted = np.argmax(scores[n, which], axis=1)
    of_label = scores[n, :, predicted]
    differences = np.abs(of_label - of_label[n, which][:, None])
    differences[n, which] = -1.0
    return np.asarray(np.argmax(differences, axis=1), dtype=np.int64)


def flipping(labels: Integers, which: Integers) -> Integers:
    """The first assignment with another label than the own, from labels (n, A): shape (n,)."""
    own = labels[np.arange(len(which)), which][:, None]
    return np.asarray(np.argmax(labels != own, axis=1), dtype=np.int64)


def random_step(n: int, width: int, rng: np.random.Generator) -> Floats:
    """One attribute up or down, at random, shape (n, width)."""
    directions = np.zeros((n, width))
    directions[np.arange(n), rng.integers(0, width, size=n)] = rng.choice((-1.0, 1.0), size=n)
    return directions


def _both_slopes(plan: Plan, profiles: Floats, which: Integers, partner: Integers, scores: Floats) -> Floats:
    """Slopes at the profiles under both assignments, shape (2, n, U)."""
    n = np.arange(len(profiles))
    slopes = plan.slopes(
        np.concatenate([profiles, profiles]),
        np.concatenate([which, partner]),
        np.concatenate([scores[n, which], scores[n, partner]]),
    )
    return slopes.reshape(2, *profiles.shape)


def _weights(plan: Plan, profiles: Floats, which: Integers, answers: Answers) -> Floats:
    """Cumulated weights of the attributes for the local phase, shape (n, U)."""
    slopes = _both_slopes(plan, profiles, which, flipping(answers.labels, which), answers.scores)
    return np.asarray(np.cumsum(1 / (np.abs(slopes).sum(axis=0) + EPSILON), axis=1))
