"""What the shields are compared with: recursion over whole traces, which knows no counters and no layers.

Every trace of a horizon has a position in one array: the position of its first step, then of its second, and so on. A
step is (group, recommendation, cost, decision), and for equal opportunity also the label that comes to be known after
the decision. The welfare of the groups is counted only in complete traces, with fractions.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

Counters = tuple[int, int, int, int]
"""Seen and accepted of group a, seen and accepted of group b."""
NOBODY: Counters = (0, 0, 0, 0)
FLIP = np.array([[0.0, 1.0], [1.0, 0.0]])
"""Whether a decision (column) overrides a recommendation (row)."""


@dataclass(frozen=True)
class Bound:
    """What a trace must keep, in words of the paper and of the conventions for empty groups."""

    kind: str
    kappa: Fraction
    empty: str = "zero"

    @property
    def labelled(self) -> bool:
        return self.kind == "equal_opportunity"

    def bias(self, seen: tuple[int, int], accepted: tuple[int, int]) -> Fraction:
        if self.empty == "vacuous" and 0 in seen:
            return Fraction(0)
        if self.empty.startswith("min_count=") and min(seen) < int(self.empty.partition("=")[2]):
            return Fraction(0)
        first, second = (Fraction(k, n) if n else Fraction(0) for k, n in zip(accepted, seen, strict=True))
        if self.kind == "disparate_impact" and first != second:
            return 1 - min(first, second) / max(first, second)
        return abs(first - second)

    def fair(self, seen: tuple[int, int], accepted: tuple[int, int]) -> bool:
        return self.bias(seen, accepted) <= self.kappa


@dataclass(frozen=True)
class World:
    """Who comes, independently: group b with probability 1 - rate."""

    rate: float
    accept: tuple[float, float]
    label: tuple[float, float] = (1.0, 1.0)
    costs: tuple[float, ...] = (1.0,)
    weights: Any = None
    """[group][recommendation][cost]; all on the first cost unless given."""

    def inputs(self) -> np.ndarray:
        """Probability of (group, recommendation, cost)."""
        share = np.zeros((2, 2, len(self.costs)))
        for g, r in itertools.product(range(2), range(2)):
            one = (self.rate, 1 - self.rate)[g] * (1 - self.accept[g], self.accept[g])[r]
            share[g, r] = one * np.array(self.weights[g][r] if self.weights else [1.0] + [0.0] * (len(self.costs) - 1))
        return share


def steps(costs: int, labelled: bool) -> list[tuple[int, ...]]:
    """Every (group, recommendation, cost, decision) or (group, recommendation, cost, decision, label)."""
    return list(itertools.product(range(2), range(2), range(costs), range(2), *([range(2)] if labelled else [])))


@cache
def tallies(horizon: int, costs: int, labelled: bool) -> np.ndarray:
    """(seen a, seen b, accepted a, accepted b) of every trace, four bits each."""
    possible = steps(costs, labelled)
    adds = np.array([(step[-1] if labelled else 1) * (1 + 256 * step[3]) * 16 ** step[0] for step in possible])
    totals = np.zeros(1, np.uint16)
    for _ in range(horizon):
        totals = (totals[:, None] + adds.astype(np.uint16)).reshape(-1)
    return totals


@cache
def ends(bound: Bound, horizon: int, costs: int, past: Counters = NOBODY) -> np.ndarray:
    """Which of all traces end fair, together with whom was decided about before."""
    totals = tallies(horizon, costs, bound.labelled)
    fair = np.zeros(2**16, bool)
    for each in np.flatnonzero(np.bincount(totals, minlength=2**16)).tolist():
        seen, accepted = (each & 15, each >> 4 & 15), (each >> 8 & 15, each >> 12)
        fair[each] = bound.fair((past[0] + seen[0], past[2] + seen[1]), (past[1] + accepted[0], past[3] + accepted[1]))
    return fair[totals]


def least_cost(bound: Bound, world: World, horizon: int, past: Counters = NOBODY, times: tuple[int, ...] = ()) -> float:
    """The least expected cost of a shield that may look at everything that happened: Definition 1, by traces.

    Unfair ends are forbidden whatever their probability, and unfair prefixes where they are checked as well.
    """
    costs = len(world.costs)
    inputs = world.inputs().reshape(-1)
    values = np.where(ends(bound, horizon, costs, past), 0.0, np.inf)
    price = np.array(world.costs)[None, None, :, None] * FLIP[:, None, :]
    for t in reversed(range(horizon)):
        if bound.labelled:
            shaped = values.reshape(-1, 2, 2, costs, 2, 2)
            ones = np.array(world.label)[:, None, None, None]
            values = expected(shaped[..., 0], shaped[..., 1], ones)
        values = values.reshape(-1, 2, 2, costs, 2) + price
        best = np.minimum(values[..., 0], values[..., 1]).reshape(-1, 4 * costs)
        forbidden = np.isinf(best).any(axis=1)
        values = np.where(forbidden, np.inf, np.where(forbidden[:, None], 0.0, best) @ inputs)
        if t in times:
            values = np.where(ends(bound, t, costs, past), values, np.inf)
    return float(values[0])


def expected(without: np.ndarray, having: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The mean over a label that nobody can rule out."""
    forbidden = np.isinf(without) | np.isinf(having)
    mean = (1 - share) * np.where(forbidden, 0.0, without) + share * np.where(forbidden, 0.0, having)
    return np.where(forbidden, np.inf, mean)
