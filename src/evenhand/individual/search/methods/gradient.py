"""ADF, EIDIG and MAFT: a search in two phases with three kinds of slopes, towards the boundary and along it.

Global phase: every seed x moves at most ten times. Its partner x' is the assignment whose score differs most; every
unprotected attribute whose slopes at x and x' agree in sign takes a step against it, so that both come closer to the
boundary and one crosses it first. Local phase: around every profile found, one attribute at a time takes a step up or
down. It is drawn with weight 1 / (abs(slope at x) + abs(slope at x') + 1e-6), so that decisions tend to stay.

Seeds move in lock-step, one call to the model per move: all of them without a budget, as published, and otherwise as
many at a time as the budget pays for in both phases. Unlike the published programs the outcome of every move is asked
about, the last included, and the local phase never leaves the domain.

Sources: Zhang et al., "White-box fairness testing through adversarial sampling" (ICSE 2020: ADF, algorithms 1 and 2);
Zhang, Zhang and Zhang, "Efficient white-box fairness testing through gradient search" (ISSTA 2021: EIDIG); Wang et al.,
"MAFT: Efficient model-agnostic fairness testing for deep neural networks via zero-order gradient search" (ICSE 2024:
slopes by section 3.1 and algorithm 1, global phase by algorithm 3, local phase by algorithm 4, settings by section 4.1:
four clusters, ten moves, steps of 1, decay 0.5, h of 1, and 1000 seeds x 1000 local moves, or 100 x 100). EIDIG was
published with new local weights every 5 successes, and with those of the walk's beginning throughout ("EIDIG-INF").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.methods.choice import MethodOptions, cut_into_waves
from evenhand.individual.search.oracle import BudgetExhausted, ModelAnswers, Oracle

Slopes: TypeAlias = Callable[[Floats, Integers, Floats], Floats]
"""(profiles (n, U), assignment of each (n,), scores there (n, classes)) -> slopes along the attributes (n, U)."""

EPSILON = 1e-6
"""Keeps the weight of an attribute without any slope finite."""


@dataclass(frozen=True)
class SlopePlan:
    """How a method uses slopes.

    Attributes:
        slopes: of the predicted label's probability; those of its loss have the opposite sign.
        cost: questions to the model for the slopes of one profile under one assignment.
        decay: share of the sum of former slopes that is kept in the global phase (momentum).
        update: successes in a row after which the local weights are recomputed; None: never.
    """

    slopes: Slopes
    cost: int
    decay: float
    update: int | None


def search_two_phases(
    oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions, plan: SlopePlan
) -> None:
    """Run both phases from seeds (n, attributes), wave by wave."""
    profiles, which = oracle.space.split(seeds)
    each = options.most_moves * (len(oracle.space.assignments) + 2 * plan.cost)
    for wave in cut_into_waves(oracle, len(profiles), each):
        starts, under = move_to_boundary(oracle, profiles[wave], which[wave], rng, options.most_moves, plan)
        move_along_boundary(oracle, starts, under, rng, options.local, plan)


def move_to_boundary(
    oracle: Oracle, profiles: Floats, which: Integers, rng: np.random.Generator, most_moves: int, plan: SlopePlan
) -> tuple[Floats, Integers]:
    """Return the global phase.

    Args:
        profiles: seeds (n, U); which: the assignment of each (n,).

    Returns:
        The distinct profiles that it found, and the assignment each arrived with.
    """
    space = oracle.space
    former = np.zeros((2, *profiles.shape))
    found: list[tuple[Floats, Integers]] = [(profiles[:0], which[:0])]
    for move in range(most_moves + 1):
        answers = oracle.ask(profiles)
        found.append((profiles[answers.flips], which[answers.flips]))
        on = np.flatnonzero(~answers.flips)[: _affordable_pairs(oracle, plan)]
        if move == most_moves or len(on) == 0:
            break
        profiles, which, former = profiles[on], which[on], former[:, on]
        scores = answers.scores[on]
        partner = farthest_assignment(scores, which)
        former = plan.decay * former + _pair_slopes(plan, profiles, which, partner, scores)
        signs = np.sign(former)
        directions = np.where(signs[0] == signs[1], -signs[0], 0.0)
        moved = space.move(profiles, directions, rng)
        stuck = (moved == profiles).all(axis=1)
        if stuck.any():
            moved[stuck] = space.move(profiles[stuck], random_step(int(stuck.sum()), space.width, rng), rng)
        profiles = moved
    starts, under = (np.concatenate(each) for each in zip(*found, strict=True))
    _, first = np.unique(space.keys(starts), return_index=True)
    first.sort()
    return starts[first], under[first]


def move_along_boundary(
    oracle: Oracle, starts: Floats, which: Integers, rng: np.random.Generator, moves: int, plan: SlopePlan
) -> None:
    """Run the local phase around profiles that discriminate (n, U), each with its assignment (n,)."""
    if len(starts) == 0 or moves == 0:
        return
    affordable = _affordable_pairs(oracle, plan)
    if affordable == 0:
        raise BudgetExhausted
    starts, which = starts[:affordable], which[:affordable]
    n = len(starts)
    first = _attribute_weights(plan, starts, which, oracle.ask(starts))
    weights = first.copy()
    current = starts.copy()
    successes = np.zeros(n, dtype=np.int64)
    everyone = np.arange(n)
    answers: ModelAnswers | None = None
    for _ in range(moves):
        # The weights are slopes where they were taken; after some successes the profile has moved away from there.
        often = np.inf if plan.update is None else plan.update
        due = np.flatnonzero(successes >= often)[: _affordable_pairs(oracle, plan)]
        if answers is not None and len(due):
            chosen = ModelAnswers(answers.scores[due], answers.labels[due], answers.flips[due])
            weights[due] = _attribute_weights(plan, current[due], which[due], chosen)
            successes[due] = 0
        draw = rng.random((2, n))
        # The weights are cumulated, so that a uniform number picks an attribute with probability as its weight.
        attribute = (weights < (draw[0] * weights[:, -1])[:, None]).sum(axis=1)
        directions = np.zeros(current.shape)
        directions[everyone, attribute] = np.where(draw[1] < 0.5, -1.0, 1.0)
        moved = oracle.space.move(current, directions, rng)
        answers = oracle.ask(moved)
        flips = answers.flips
        successes = np.where(flips, successes + 1, 0)
        back = ~flips
        moved[back] = starts[back]
        weights[back] = first[back]
        current = moved


def farthest_assignment(scores: Floats, which: Integers) -> Integers:
    """The assignment whose score for the own predicted label differs most, from scores (n, A, classes): shape (n,)."""
    n = np.arange(len(which))
    predicted = np.argmax(scores[n, which], axis=1)
    of_label = scores[n, :, predicted]
    differences = np.abs(of_label - of_label[n, which][:, None])
    differences[n, which] = -1.0
    return np.asarray(np.argmax(differences, axis=1), dtype=np.int64)


def flipping_assignment(labels: Integers, which: Integers) -> Integers:
    """Return the first assignment with another label than the own, from labels (n, A): shape (n,)."""
    own = labels[np.arange(len(which)), which][:, None]
    return np.asarray(np.argmax(labels != own, axis=1), dtype=np.int64)


def random_step(n: int, width: int, rng: np.random.Generator) -> Floats:
    """Return one attribute up or down, at random, shape (n, width)."""
    directions = np.zeros((n, width))
    directions[np.arange(n), rng.integers(0, width, size=n)] = rng.choice((-1.0, 1.0), size=n)
    return directions


def _affordable_pairs(oracle: Oracle, plan: SlopePlan) -> int:
    """For how many profiles the budget pays for the slopes under both assignments."""
    return int(min(oracle.queries_left / (2 * plan.cost), np.iinfo(np.int64).max))


def _pair_slopes(plan: SlopePlan, profiles: Floats, which: Integers, partner: Integers, scores: Floats) -> Floats:
    """Return the slopes at the profiles under both assignments, shape (2, n, U)."""
    n = np.arange(len(profiles))
    slopes = plan.slopes(
        np.concatenate([profiles, profiles]),
        np.concatenate([which, partner]),
        np.concatenate([scores[n, which], scores[n, partner]]),
    )
    return slopes.reshape(2, *profiles.shape)


def _attribute_weights(plan: SlopePlan, profiles: Floats, which: Integers, answers: ModelAnswers) -> Floats:
    """Return cumulated weights of the attributes for the local phase, shape (n, U)."""
    slopes = _pair_slopes(plan, profiles, which, flipping_assignment(answers.labels, which), answers.scores)
    return np.asarray(np.cumsum(1 / (np.abs(slopes).sum(axis=0) + EPSILON), axis=1))


DECAY = 0.5
UPDATE = 5

NUMBERS = 4_000_000
"""Entries of the questions for slopes that are held at a time."""


def adf(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """ADF (Zhang et al., ICSE 2020): slopes of the loss, without momentum, new local weights after every success."""

    def slopes(profiles: Floats, which: Integers, scores: Floats) -> Floats:
        return -oracle.gradient(profiles, which, loss=True)

    search_two_phases(oracle, seeds, rng, options, SlopePlan(slopes, cost=1, decay=0.0, update=1))


def eidig(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """EIDIG (Zhang, Zhang & Zhang, ISSTA 2021): slopes of the output, with momentum, new weights every 5 successes."""
    search_two_phases(oracle, seeds, rng, options, SlopePlan(_output_slopes(oracle), 1, DECAY, UPDATE))


def eidig_inf(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """EIDIG-INF (same source): as EIDIG, with the weights of a local walk's beginning throughout."""
    search_two_phases(oracle, seeds, rng, options, SlopePlan(_output_slopes(oracle), 1, DECAY, None))


def maft(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """MAFT (Wang et al., ICSE 2024): as EIDIG, with slopes estimated from answers alone (zero-order)."""
    slopes = estimate_slopes(oracle, options.h)
    search_two_phases(oracle, seeds, rng, options, SlopePlan(slopes, oracle.space.width, DECAY, UPDATE))


def maft_inf(oracle: Oracle, seeds: Floats, rng: np.random.Generator, options: MethodOptions) -> None:
    """MAFT with the schedule of EIDIG-INF: under a budget the better one, since every new weight costs questions."""
    slopes = estimate_slopes(oracle, options.h)
    search_two_phases(oracle, seeds, rng, options, SlopePlan(slopes, oracle.space.width, DECAY, None))


def _output_slopes(oracle: Oracle) -> Slopes:
    return lambda profiles, which, scores: oracle.gradient(profiles, which)


def estimate_slopes(oracle: Oracle, h: float) -> Slopes:
    """Return difference quotients of the predicted label's score over ``h`` steps of each attribute, one question each.

    They are forward, backward at the domain's upper end, and never leave the domain. Attributes of which the model
    cannot be asked about values between (categories; whole numbers, unless they enter a network affinely) take a whole
    number of steps, at least one.
    """
    space = oracle.space
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
        # At the upper end of an attribute the quotient is taken backward.
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
