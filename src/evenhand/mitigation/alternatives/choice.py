"""Which candidate takes the given model's place: by a rule that was stated before anything was measured.

1. Numbers are those of cross-fitted decisions about the validation people. Losses of accuracy are paired, with the
   given model, or with its kind fitted again where that is known to be the fair comparison (see ``find_baseline``).
2. Feasible is a candidate whose loss, ``SURENESS`` standard errors up, stays within what is allowed. The error is that
   of the loss among as many new people as were kept aside, ``se sqrt(1 + n / m)``, so that they confirm it nine times
   in ten. Of a hundred candidates one always seems more accurate than its baseline by chance: a gain counts only as far
   as it exceeds ``GAIN_ERRORS`` standard errors.
3. The given model is always feasible.
4. Of the feasible ones within one standard error of the smallest gap, the one that loses least is taken; of equals the
   one with fewer numbers fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.alternatives.gaps import RateGap

SURENESS = 1.2816
"""Standard errors: those of a bound that holds nine times in ten."""

GAIN_ERRORS = 2.0
"""Standard errors by which a candidate must be more accurate before that counts."""

RULE = (
    "Candidates are compared by cross-fitted decisions about the validation people. Feasible: the loss of accuracy is "
    "within what is allowed with 90 % certainty, also among as many new people as were kept aside, and a gain counts "
    "only beyond two standard errors; the given model always is. Of the feasible ones within one standard error of the "
    "smallest gap, the one that loses least accuracy is taken. It takes the given model's place if its gap is smaller "
    "beyond noise on the people kept aside."
)
"""The rule in words."""


@dataclass(frozen=True, eq=False)
class Standing:
    """How all candidates stand among the validation people; each array has one entry per candidate.

    Attributes:
        losses: accuracy of its baseline minus its own; margins: what is added to be sure of it, with gains that do not
            count taken back. gaps: sizes.
        feasible: whose loss is surely within what is allowed. frontier: whom no other candidate beats in both.
        chosen: which one the rule takes.
    """

    losses: Floats
    margins: Floats
    gaps: Floats
    feasible: Booleans
    frontier: Booleans
    chosen: int


def rank_candidates(
    accepted: Booleans,
    favourable: Booleans,
    gap: RateGap,
    *,
    baselines: Integers,
    allowed: float,
    new_people: int,
    parameters: Sequence[int],
) -> Standing:
    """Return how candidates stand, and which the rule takes.

    Args:
        accepted: decisions, shape (candidates, n); the given model's first.
        favourable: true labels, shape (n,).
        gap: between the groups of these people.
        baselines: of each candidate, the one that its loss is counted from, shape (candidates,).
        allowed: accuracy that may be lost.
        new_people: how many were kept aside.
        parameters: how many numbers each candidate was fitted by.
    """
    n = len(favourable)
    right = accepted == favourable
    accuracy = right.mean(axis=1)
    losses = accuracy[baselines] - accuracy
    errors = np.array([paired_error(right[own], right[other]) for own, other in enumerate(baselines)])
    # The loss among other people varies by their sample and by this one: 1 + n / new times the variance seen here. A
    # gain is disregarded up to GAIN_ERRORS standard errors.
    disregarded = np.clip(-losses, 0.0, GAIN_ERRORS * errors)
    margins = SURENESS * errors * math.sqrt(1 + n / new_people) + disregarded
    feasible = losses + margins <= allowed + 1e-12
    feasible[0] = True
    gaps = np.array([float(gap.sizes(one.astype(np.float64))) for one in accepted])
    chosen = _choose(accepted, gap, gaps, losses, feasible, parameters)
    return Standing(losses, margins, gaps, feasible, find_frontier(losses, gaps), chosen)


def find_baseline(right: Booleans, refit: int | None) -> int:
    """Return the candidate from which losses of models fitted again are counted: 0, or the one with nothing changed.

    The latter where the given model is more accurate beyond two standard errors: then it knew these people, or had
    learnt from others, and what a fitted model lacks beside it is not what fairness costs.

    Args:
        right: who is decided rightly, shape (candidates, n). refit: which candidate that is; None if there is none.
    """
    if refit is None:
        return 0
    lacking = right[0].mean() - right[refit].mean()
    return refit if lacking > 2 * paired_error(right[0], right[refit]) else 0


def paired_error(one: Booleans, other: Booleans) -> float:
    """Return the standard error of the difference of two shares of the same people, each of shape (n,)."""
    return math.sqrt(max(float((one != other).mean()) - float(one.mean() - other.mean()) ** 2, 0.0) / len(one))


def _choose(
    accepted: Booleans,
    gap: RateGap,
    gaps: Floats,
    losses: Floats,
    feasible: Booleans,
    parameters: Sequence[int],
) -> int:
    possible = np.flatnonzero(feasible)
    best = int(possible[np.argmin(gaps[possible])])

    def contributions(candidate: int) -> Floats:
        decisions = accepted[candidate].astype(np.float64)
        return gap.influence(decisions, int(gap.differences(decisions).argmax()))

    smallest = contributions(best)
    # Of all whose gap is within a standard error of the smallest, the one that loses the least accuracy.
    near: list[int] = []
    for candidate in map(int, possible):
        error = math.sqrt(float(((contributions(candidate) - smallest) ** 2).sum()))
        if gaps[candidate] - gaps[best] <= error:
            near.append(candidate)
    return min(near, key=lambda one: (round(float(losses[one]), 12), parameters[one], one))


def find_frontier(losses: Floats, gaps: Floats) -> Booleans:
    """Return which candidates no other beats: losing as little with as small a gap, and better in one of the two.

    Of several with the same two numbers the first stands for all.
    """
    order: Integers = np.lexsort((np.arange(len(gaps)), gaps, losses))
    best, on = math.inf, np.zeros(len(gaps), dtype=np.bool_)
    for candidate in order:
        if gaps[candidate] < best:
            best, on[candidate] = gaps[candidate], True
    return on
