"""Costs in proportion to a classifier's confidence: many of them, exactly, and bins in their place."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from evenhand.errors import OptionError
from evenhand.shields import FairnessProperty, Inputs, ShieldPlan, synthesize
from evenhand.shields.spec.plan import MAX_COSTS
from evenhand.shields.spec.properties import EmptyGroupRule

KEPT = FairnessProperty("demographic_parity", Fraction(1, 5), EmptyGroupRule("min_count", 2))


def with_costs(costs: np.ndarray, seed: int | None = None) -> Inputs:
    """These costs; all alike likely, or at random for each group and recommendation."""
    rng = np.random.default_rng(seed)
    rows = [rng.random(len(costs)) ** 2 if seed is not None else np.ones(len(costs)) for _ in range(4)]
    likely = [tuple(float(value) for value in row / row.sum()) for row in rows]
    weights = ((likely[0], likely[1]), (likely[2], likely[3]))
    return Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), None, tuple(float(cost) for cost in costs), weights)


def exact_cost(plan: ShieldPlan) -> float:
    """The recursion with E[min] over all costs at once."""
    inputs, costs = plan.inputs, np.array(plan.inputs.costs)

    @cache
    def value(t: int, n_a: int, a: int, b: int) -> float:
        n_b = t - n_a
        if t == plan.horizon:
            return 0.0 if plan.property.fair(n_a, a, n_b, b) else np.inf
        total = 0.0
        for g in (0, 1):
            after = [value(t + 1, n_a + 1 - g, a + (1 - g) * y, b + g * y) for y in (0, 1)]
            if min(after) == np.inf:
                return np.inf
            for r in (0, 1):
                share = inputs.accept[g] if r else 1 - inputs.accept[g]
                best = np.minimum(after[r], costs + after[1 - r])
                total += inputs.rate[g] * share * float(np.array(inputs.weights[g][r]) @ best)
        return total

    return value(0, 0, 0, 0)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 30, MAX_COSTS])
def test_any_number_of_costs_is_taken_exactly(count: int) -> None:
    costs = np.sort(np.random.default_rng(count).random(count))
    plan = ShieldPlan(KEPT, with_costs(costs, seed=count), 12)
    expected = exact_cost(plan)
    assert expected > 0
    assert synthesize(plan).expected_cost == pytest.approx(expected, abs=1e-9)


def test_with_most_costs_every_end_is_fair() -> None:
    # The outermost levels, which force a decision, are the first that a byte could not hold.
    plan = ShieldPlan(KEPT, with_costs(np.linspace(0.1, 1, MAX_COSTS)), 9)
    policy = synthesize(plan)
    states = {(0, 0, 0, 0)}
    forced = 0
    for t in range(plan.horizon):
        after = set()
        for n_a, a, n_b, b in states:
            for g in (0, 1):
                level = policy.action(t, (n_a, a, n_b, b), g)
                forced += abs(level) == MAX_COSTS
                for y in {0, 1} - ({0} if level == MAX_COSTS else {1} if level == -MAX_COSTS else set()):
                    after.add((n_a + 1 - g, a + (1 - g) * y, n_b + g, b + g * y))
        states = after
    assert forced > 0
    assert len(states) > 50
    assert all(KEPT.fair(*state) for state in states)


def test_more_costs_are_refused() -> None:
    with pytest.raises(OptionError, match="128 different costs") as caught:
        with_costs(np.linspace(0.1, 1, MAX_COSTS + 1))
    assert caught.value.hint is not None
    assert "bins" in caught.value.hint
