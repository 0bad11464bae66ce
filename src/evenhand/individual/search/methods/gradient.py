"""ADF, EIDIG and MAFT: two-phase search towards and along the decision boundary, with three kinds of slopes.

Global phase: every seed x moves at most ten times. Its partner x' is the assignment whose score differs most. Every
unprotected attribute whose slopes at x and x' have the same sign takes a step against it, so that both approach the
boundary and one crosses it first. Local phase: around every profile found, one attribute at a time takes a step up or
down. It is drawn with weight 1 / (abs(slope at x) + abs(slope at x') + 1e-6), so that labels tend not to change.

Seeds move in parallel, with one call to the model per move. Without a budget, all seeds move at once, as published;
otherwise, each wave has as many seeds as the budget covers in both phases. Unlike in the published programs, the result
of every move is queried, including the last, and the local phase never leaves the domain.

Sources: Zhang et al., "White-box fairness testing through adversarial sampling" (ICSE 2020: ADF, algorithms 1 and 2);
Zhang, Zhang and Zhang, "Efficient white-box fairness testing through gradient search" (ISSTA 2021: EIDIG); Wang et al.,
"MAFT: Efficient model-agnostic fairness testing for deep neural networks via zero-order gradient search" (ICSE 2024:
slopes by section 3.1 and algorithm 1, global phase by algorithm 3, local phase by algorithm 4, settings by section 4.1:
four clusters, ten moves, steps of 1, decay 0.5, h of 1, and 1000 seeds x 1000 local moves, or 100 x 100). EIDIG was
published in two variants: with new local weights after every 5 successes, and with the initial weights throughout the
    walk ("EIDIG-INF").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.config import SearchConfig
from evenhand.individual.search.oracle import BudgetExhausted, ModelAnswers, Oracle

Slopes: TypeAlias = Callable[[Oracle, Floats, Integers, Floats], Floats]
"""Function from an oracle, profiles (n, U), their assignments (n,) and scores (n, classes) to slopes, shape (n, U)."""

MAX_MOVES = 10
"""Maximum number of moves of the global phase per seed."""

EPSILON = 1e-6
"""Constant that keeps the weight of an attribute with slope 0 finite."""

DECAY = 0.5
"""Fraction of earlier slopes kept in the global phase of EIDIG and MAFT."""

UPDATE = 5
"""Number of consecutive successes after which EIDIG and MAFT compute new local weights."""

MAX_ENTRIES = 4_000_000
"""Maximum number of entries of the profiles queried for slopes at a time."""


@dataclass(frozen=True)
class SlopePlan:
    """Slopes of a method and their use in the search.

    Attributes:
        slopes: Slopes of the predicted label's probability. Slopes of its loss have the opposite sign.
        decay: Fraction of the sum of earlier slopes kept in the global phase (momentum).
        update: Number of consecutive successes after which the local weights are recomputed. None if they never are.
    """

    slopes: Slopes
    decay: float
    update: int | None

    def cost(self, oracle: Oracle) -> int:
        """Return the number of queries for the slopes of one profile under one assignment."""
        return oracle.space.width if self.slopes is estimate_slopes else 1


def search(oracle: Oracle, seeds: Floats, rng: np.random.Generator, config: SearchConfig) -> None:
    """Run both phases of ``config.method`` from seeds (n, attributes), wave by wave."""
    plan = PLANS[config.method]
    profiles, which = oracle.space.split(seeds)
    cost = MAX_MOVES * (len(oracle.space.assignments) + 2 * plan.cost(oracle))
    for wave in oracle.waves(len(profiles), cost):
        starts, assignments = move_to_boundary(oracle, profiles[wave], which[wave], rng, MAX_MOVES, plan)
        move_along_boundary(oracle, starts, assignments, rng, config.local, plan)


def move_to_boundary(
    oracle: Oracle, profiles: Floats, which: Integers, rng: np.random.Generator, max_moves: int, plan: SlopePlan
) -> tuple[Floats, Integers]:
    """Run the global phase from profiles (n, U) and their assignments (n,), at most ``max_moves`` per seed.

    Return the distinct profiles found, and the assignment of each.
    """
    space = oracle.space
    momentum = np.zeros((2, *profiles.shape))
    discriminating: list[tuple[Floats, Integers]] = [(profiles[:0], which[:0])]
    for move in range(max_moves + 1):
        answers = oracle.ask(profiles)
        discriminating.append((profiles[answers.flips], which[answers.flips]))
        undecided = np.flatnonzero(~answers.flips)[: _affordable_pairs(oracle, plan)]
        if move == max_moves or len(undecided) == 0:
            break
        profiles, which, momentum = profiles[undecided], which[undecided], momentum[:, undecided]
        scores = answers.scores[undecided]
        partner = farthest_assignment(scores, which)
        momentum = plan.decay * momentum + _pair_slopes(oracle, plan, profiles, which, partner, scores)
        signs = np.sign(momentum)
        directions = np.where(signs[0] == signs[1], -signs[0], 0.0)
        moved = space.move(profiles, directions, rng)
        stuck = (moved == profiles).all(axis=1)
        if stuck.any():
            moved[stuck] = space.move(profiles[stuck], random_step(int(stuck.sum()), space.width, rng), rng)
        profiles = moved
    starts, assignments = (np.concatenate(parts) for parts in zip(*discriminating, strict=True))
    _, positions = np.unique(space.keys(starts), return_index=True)
    positions.sort()
    return starts[positions], assignments[positions]


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
    rows, current, answers = np.arange(n), starts.copy(), oracle.ask(starts)
    start_weights = _attribute_weights(oracle, plan, starts, which, answers, rows)
    weights = start_weights.copy()
    successes = np.zeros(n, dtype=np.int64)
    for _ in range(moves):
        # Weights are slopes at an earlier profile. After some successes, the current profile is far from it.
        required = np.inf if plan.update is None else plan.update
        outdated = np.flatnonzero(successes >= required)[: _affordable_pairs(oracle, plan)]
        if len(outdated):
            weights[outdated] = _attribute_weights(oracle, plan, current, which, answers, outdated)
            successes[outdated] = 0
        draw = rng.random((2, n))
        # Weights are cumulative, so that a uniform number selects each attribute with probability proportional to its
        # weight.
        attribute = (weights < (draw[0] * weights[:, -1])[:, None]).sum(axis=1)
        directions = np.zeros(current.shape)
        directions[rows, attribute] = np.where(draw[1] < 0.5, -1.0, 1.0)
        moved = oracle.space.move(current, directions, rng)
        answers = oracle.ask(moved)
        successes = np.where(answers.flips, successes + 1, 0)
        failed = ~answers.flips
        moved[failed] = starts[failed]
        weights[failed] = start_weights[failed]
        current = moved


def farthest_assignment(scores: Floats, which: Integers) -> Integers:
    """Find the assignment whose score for the predicted label differs most, from scores (n, A, classes), shape (n,)."""
    rows = np.arange(len(which))
    predicted = np.argmax(scores[rows, which], axis=1)
    of_label = scores[rows, :, predicted]
    differences = np.abs(of_label - of_label[rows, which][:, None])
    differences[rows, which] = -1.0
    return np.asarray(np.argmax(differences, axis=1), dtype=np.int64)


def flipping_assignment(labels: Integers, which: Integers) -> Integers:
    """Return the first assignment with a label other than the profile's own, from labels (n, A), shape (n,)."""
    own = labels[np.arange(len(which)), which][:, None]
    return np.asarray(np.argmax(labels != own, axis=1), dtype=np.int64)


def random_step(n: int, width: int, rng: np.random.Generator) -> Floats:
    """Draw steps of one random attribute up or down, shape (n, width)."""
    directions = np.zeros((n, width))
    directions[np.arange(n), rng.integers(0, width, size=n)] = rng.choice((-1.0, 1.0), size=n)
    return directions


def _affordable_pairs(oracle: Oracle, plan: SlopePlan) -> int:
    """Return the number of profiles for which the budget covers the slopes under both assignments."""
    return int(min(oracle.queries_left / (2 * plan.cost(oracle)), np.iinfo(np.int64).max))


def _pair_slopes(
    oracle: Oracle, plan: SlopePlan, profiles: Floats, which: Integers, partner: Integers, scores: Floats
) -> Floats:
    """Compute the slopes of the profiles under both assignments, shape (2, n, U)."""
    rows = np.arange(len(profiles))
    slopes = plan.slopes(
        oracle,
        np.concatenate([profiles, profiles]),
        np.concatenate([which, partner]),
        np.concatenate([scores[rows, which], scores[rows, partner]]),
    )
    return slopes.reshape(2, *profiles.shape)


def _attribute_weights(
    oracle: Oracle, plan: SlopePlan, profiles: Floats, which: Integers, answers: ModelAnswers, rows: Integers
) -> Floats:
    """Compute cumulative attribute weights for the local phase, for the profiles in these rows (n,), shape (n, U)."""
    partner = flipping_assignment(answers.labels[rows], which[rows])
    slopes = _pair_slopes(oracle, plan, profiles[rows], which[rows], partner, answers.scores[rows])
    return np.asarray(np.cumsum(1 / (np.abs(slopes).sum(axis=0) + EPSILON), axis=1))


def estimate_slopes(oracle: Oracle, profiles: Floats, which: Integers, scores: Floats) -> Floats:
    """Estimate slopes by difference quotients of the predicted label's score over one step, one query per attribute.

    Quotients are forward, backward at the domain's upper end, and never leave the domain.
    """
    space = oracle.space
    u = space.width
    forward = np.minimum(profiles + space.step, space.upper)
    # At the upper end of an attribute, the quotient is backward.
    shifted = np.where(forward > profiles, forward, np.maximum(profiles - space.step, space.lower))
    run, rise = shifted - profiles, np.empty(profiles.shape)
    predicted, diagonal = np.argmax(scores, axis=1)[:, None], np.arange(u)
    batch = max(1, MAX_ENTRIES // u**2)
    for at in range(0, len(profiles), batch):
        part = slice(at, at + batch)
        queries = np.repeat(profiles[part], u, axis=0).reshape(-1, u, u)
        queries[:, diagonal, diagonal] = shifted[part]
        answers = oracle.scores_at(queries.reshape(-1, u), np.repeat(which[part], u)).reshape(len(queries), u, -1)
        rise[part] = np.take_along_axis(answers, predicted[part, None], axis=2)[..., 0]
    rise -= np.take_along_axis(scores, predicted, axis=1)
    return np.asarray(np.divide(rise, run, out=np.zeros_like(rise), where=run != 0))


def _output_slopes(oracle: Oracle, profiles: Floats, which: Integers, scores: Floats) -> Floats:
    return oracle.gradient(profiles, which)


def _loss_slopes(oracle: Oracle, profiles: Floats, which: Integers, scores: Floats) -> Floats:
    return -oracle.gradient(profiles, which, loss=True)


PLANS = {
    "adf": SlopePlan(_loss_slopes, 0.0, 1),
    "eidig": SlopePlan(_output_slopes, DECAY, UPDATE),
    "eidig-inf": SlopePlan(_output_slopes, DECAY, None),
    "maft": SlopePlan(estimate_slopes, DECAY, UPDATE),
    "maft-inf": SlopePlan(estimate_slopes, DECAY, None),
}
"""Plan of each method.

ADF uses the loss, without momentum, and new local weights after every success. MAFT is EIDIG with slopes estimated from
answers alone. MAFT-INF, MAFT with the schedule of EIDIG-INF, is better with a budget, since every new weight costs
queries.
"""
