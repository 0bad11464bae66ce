"""A running shield, on every order in which individuals can come: what it decides ends fair, at the least cost."""

from __future__ import annotations

import itertools

import pytest
from guarantee_cases import EMPTY, KAPPAS, KINDS, LONGEST, ONE_COST, TWO_COSTS, arrivals, bounds, close, policy
from traces import Bound, World, least_cost

from evenhand.shields import Shield, ShieldPolicy
from support import shortened


def every_run(bound: Bound, world: World, made: ShieldPolicy) -> float:
    """The expected cost, added up over all sequences; each of them must end fair, also those of probability 0."""
    total = 0.0
    labels = (0, 1) if bound.labelled else (1,)
    each = [
        (g, r, cost, z, share * (abs(1 - z - world.label[g]) if bound.labelled else 1.0))
        for (g, r, cost, share), z in itertools.product(arrivals(world), labels)
    ]
    for sequence in itertools.product(each, repeat=made.plan.horizon):
        shield = Shield(made)
        seen, accepted = [0, 0], [0, 0]
        paid, chance = 0.0, 1.0
        for i, (g, r, cost, z, share) in enumerate(sequence):
            decided = shield.decide("ab"[g], r, cost, id=i if bound.labelled else None)
            if bound.labelled:
                shield.observe(i, z)
            seen[g] += z
            accepted[g] += z * decided.decision
            paid += cost * (decided.decision != r)
            chance *= share
        assert bound.fair((seen[0], seen[1]), (accepted[0], accepted[1])), (bound, world, sequence)
        total += chance * paid
    return total


@pytest.mark.parametrize("empty", shortened(EMPTY, to=2))
@pytest.mark.parametrize("kind", KINDS)
def test_every_short_sequence_ends_fair_at_the_least_cost(kind: str, empty: str) -> None:
    horizon = LONGEST[kind] - 1
    for kappa, world in itertools.product((KAPPAS[1], KAPPAS[5]), (*ONE_COST[:3], ONE_COST[6])):
        bound = Bound(kind, kappa, empty)
        made = policy(bound, world, horizon)
        assert close(every_run(bound, world, made), least_cost(bound, world, horizon)), (bound, world)


@pytest.mark.parametrize("kind", KINDS)
def test_every_sequence_with_two_costs_ends_fair_at_the_least_cost(kind: str) -> None:
    bound, world = Bound(kind, KAPPAS[4], "zero"), TWO_COSTS[0]
    horizon = 2 if kind == "equal_opportunity" else 3
    assert close(every_run(bound, world, policy(bound, world, horizon)), least_cost(bound, world, horizon))


@pytest.mark.full
@pytest.mark.parametrize(("kind", "empty"), [*itertools.product(KINDS[:2], EMPTY[::2]), (KINDS[2], "zero")])
def test_every_sequence_of_the_longest_horizon_ends_fair(kind: str, empty: str) -> None:
    bound, world, horizon = Bound(kind, KAPPAS[4], empty), ONE_COST[0], LONGEST[kind]
    assert close(every_run(bound, world, policy(bound, world, horizon)), least_cost(bound, world, horizon))


@pytest.mark.slow
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sequence_of_many_instances_ends_fair(kind: str, empty: str) -> None:
    horizon = LONGEST[kind]
    for bound, world in itertools.product(
        bounds(kind, empty), ONE_COST if kind != "equal_opportunity" else ONE_COST[:2]
    ):
        made = policy(bound, world, horizon)
        assert close(every_run(bound, world, made), least_cost(bound, world, horizon)), (bound, world)
