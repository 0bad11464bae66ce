"""The instances on which the shields' guarantees are shown, all of them, and what follows from a table of decisions."""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from shield_reference import State, follow
from traces import Bound, World

from evenhand.shields import FairnessProperty, Inputs, ShieldPlan, ShieldPolicy, synthesize
from evenhand.shields.spec.properties import EmptyGroupRule

KINDS = ("demographic_parity", "disparate_impact", "equal_opportunity")
KAPPAS = tuple(Fraction(each) for each in ("0", "0.1", "1/5", "1/4", "1/3", "1/2", "1"))
"""With few people rates differ by exactly 1/5, 1/4, 1/3 or 1/2, where an error of rounding would show."""
EMPTY = ("zero", "vacuous", "min_count=2", "min_count=3")
LONGEST = {"demographic_parity": 6, "disparate_impact": 6, "equal_opportunity": 5}

ONE_COST = (
    World(0.3, (0.35, 0.6), (0.4, 0.6)),
    World(0.5, (0.5, 0.5), (0.5, 0.5)),
    World(0.7, (0.0, 1.0), (1.0, 0.3), (2.5,)),
    World(0.0, (0.4, 0.6), (0.2, 0.7)),
    World(1.0, (0.2, 0.9), (0.0, 1.0)),
    World(0.25, (1.0, 1.0), (0.9, 0.0), (0.01,)),
    World(0.6, (0.0, 0.0), (1.0, 1.0)),
    World(0.1, (0.9, 0.05), (0.05, 0.95), (1.0,)),
    World(0.45, (0.3, 0.8), (0.6, 0.6), (0.0,)),
)
"""Probabilities of 0 among them: nobody of a group, one recommendation, one label; and overrides that cost nothing."""
TWO_COSTS = (
    World(0.3, (0.35, 0.6), (0.4, 0.6), (0.25, 1.0), (((0.3, 0.7), (0.5, 0.5)), ((0.9, 0.1), (0.2, 0.8)))),
    World(0.5, (0.2, 0.9), (0.5, 1.0), (0.0, 2.0), (((1.0, 0.0), (0.0, 1.0)), ((0.5, 0.5), (1.0, 0.0)))),
    World(0.8, (1.0, 0.4), (0.0, 0.7), (1.0, 3.0), (((0.5, 0.5), (0.25, 0.75)), ((0.1, 0.9), (0.6, 0.4)))),
)


def bounds(kind: str, empty: str) -> list[Bound]:
    return [Bound(kind, kappa, empty) for kappa in KAPPAS]


def plan(bound: Bound, world: World, horizon: int, **options: Any) -> ShieldPlan:
    """The same problem in the words of the library."""
    weights = world.weights or ()
    label = world.label if bound.labelled else None
    shares = {"rate": (world.rate, 1 - world.rate), "accept": world.accept, "label": label}
    inputs = Inputs(groups=("a", "b"), costs=world.costs, weights=weights, **shares)
    return ShieldPlan(
        FairnessProperty(bound.kind, bound.kappa, EmptyGroupRule.parse(bound.empty)), inputs, horizon, **options
    )


def policy(bound: Bound, world: World, horizon: int, **options: Any) -> ShieldPolicy:
    return synthesize(plan(bound, world, horizon, **options))


def arrivals(world: World) -> Iterator[tuple[int, int, float, float]]:
    """(group, recommendation, cost, probability), those of probability 0 as well."""
    shares = world.inputs()
    for g, r, k in itertools.product(range(2), range(2), range(len(world.costs))):
        yield g, r, world.costs[k], float(shares[g, r, k])


def followed(bound: Bound, made: ShieldPolicy, checked: tuple[int, ...] = ()) -> tuple[float, dict[State, float]]:
    """What a policy's own decisions cost on average, and with which probability each end comes.

    At the times ``checked`` all states must be fair.
    """
    layers, _, cost = follow(made)
    assert all(fair(bound, state) for t in checked for state in layers[t]), (bound, made.plan)
    return cost, layers[-1]


def fair(bound: Bound, counters: tuple[int, ...]) -> bool:
    n_a, a, n_b, b = counters
    return bound.fair((n_a, n_b), (a, b))


def close(found: float, expected: float) -> bool:
    return bool(np.isclose(found, expected, rtol=1e-9, atol=1e-9))
