"""Several groups within the same bounds: the sum over the groups is the cost of the whole, by recursion over it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import LimitError, OptionError
from evenhand.shields import (
    FairnessProperty,
    Inputs,
    PeriodicShield,
    ShieldPlan,
    synthesize,
    synthesize_separable,
)
from evenhand.shields.spec.ends import WelfareBounds, welfare_bounds_of
from support import scaled

Counters = tuple[int, ...]


def whole_cost(plan: ShieldPlan, bounds: WelfareBounds) -> float:
    """The least expected cost of keeping the condition of every group, over the counters of all groups together."""
    inputs, groups, horizon = plan.inputs, len(plan.inputs.groups), plan.horizon
    label = inputs.label if plan.property.labelled else (1.0,) * groups
    assert label is not None

    def kept(state: Counters) -> bool:
        return all(
            n < bounds.least_seen or bounds.lower <= Fraction(a, n) <= bounds.upper
            for n, a in zip(state[::2], state[1::2], strict=True)
        )

    @cache
    def value(t: int, state: Counters) -> float:
        if t in plan.times and not kept(state):
            return np.inf
        if t == horizon:
            return 0.0
        total = 0.0
        for g in range(groups):
            after = []
            for decision in (0, 1):
                moved = list(state)
                moved[2 * g] += 1
                moved[2 * g + 1] += decision
                seen = value(t + 1, tuple(moved))
                unseen = value(t + 1, state) if plan.property.labelled else 0.0
                mean = label[g] * seen + (1 - label[g]) * unseen if max(seen, unseen) < np.inf else np.inf
                after.append(mean)
            for r, (k, cost) in itertools.product((0, 1), enumerate(inputs.costs)):
                share = (inputs.accept[g] if r else 1 - inputs.accept[g]) * inputs.weights[g][r][k]
                best = min(after[r], cost + after[1 - r])
                if best == np.inf:
                    return np.inf
                total += inputs.rate[g] * share * best
        return total

    return value(0, (0,) * (2 * groups))


def probabilities(count: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.tuples(*[st.sampled_from((0.0, 0.1, 0.35, 0.5, 0.8, 1.0))] * count)


@st.composite
def plans(draw: st.DrawFn, groups: int, longest: int) -> tuple[ShieldPlan, WelfareBounds]:
    kind = draw(st.sampled_from(("demographic_parity", "equal_opportunity", "disparate_impact")))
    parts = draw(st.lists(st.integers(0, 4), min_size=groups, max_size=groups).filter(any))
    costs, weights = draw(st.sampled_from((((1.0,), ()), ((0.25, 2.0), ((0.3, 0.7), (0.8, 0.2))))))
    inputs = Inputs(
        tuple("abcd"[:groups]),
        tuple(part / sum(parts) for part in parts),
        draw(probabilities(groups)),
        draw(probabilities(groups)),
        costs,
        (weights,) * groups if weights else (),
    )
    low, high = draw(st.sampled_from(list(itertools.combinations(range(7), 2))))
    bounds = WelfareBounds(Fraction(low, 6), Fraction(high, 6))
    # A ratio needs kappa 1 to allow bounds from 0 on; the bounds are what is kept.
    horizon = draw(st.integers(1, longest))
    checks = draw(st.sampled_from(("end", "anytime", (1,))))
    return ShieldPlan(FairnessProperty(kind, Fraction(1)), inputs, horizon, "static-bw", checks), bounds


@settings(max_examples=scaled(60), deadline=None)
@given(plans(2, 6))
def test_the_sum_over_two_groups_is_the_cost_of_the_whole(case: tuple[ShieldPlan, WelfareBounds]) -> None:
    assert synthesize_separable(*case).expected_cost == pytest.approx(whole_cost(*case), abs=1e-9)


@settings(max_examples=scaled(25), deadline=None)
@given(plans(3, 5))
def test_the_sum_over_three_groups_is_the_cost_of_the_whole(case: tuple[ShieldPlan, WelfareBounds]) -> None:
    assert synthesize_separable(*case).expected_cost == pytest.approx(whole_cost(*case), abs=1e-9)


def three(horizon: int = 20, kappa: str = "0.2", kind: str = "demographic_parity") -> ShieldPlan:
    inputs = Inputs(("a", "b", "c"), (0.5, 0.3, 0.2), (0.3, 0.6, 0.5), (0.5, 0.6, 0.7))
    return ShieldPlan(FairnessProperty(kind, Fraction(kappa)), inputs, horizon, "static-bw")


@pytest.mark.parametrize("kind", ["demographic_parity", "equal_opportunity"])
def test_every_group_ends_within_the_bounds_whatever_comes(kind: str) -> None:
    # All states that the table allows to be reached, group by group, with any recommendation and any label.
    plan = three(kind=kind)
    policy, bounds = synthesize_separable(plan), welfare_bounds_of(plan)
    for g in range(3):
        states = {(0, 0)}
        for t in range(plan.horizon):
            after = set(states)
            for n, a in states:
                counters = [0] * 6
                counters[2 * g : 2 * g + 2] = n, a
                level = policy.actions.level(t, counters, g)
                after |= {(n + 1, a + y) for y in (0, 1) if level == 0 or (level > 0) == bool(y)}
            states = after
        small = {n for n, _ in states if n < bounds.least_seen}
        assert small == set(range(bounds.least_seen))
        assert len(states) > 50
        assert all(n < bounds.least_seen or bounds.lower <= Fraction(a, n) <= bounds.upper for n, a in states)


def test_many_runs_are_looked_up_as_one_is() -> None:
    policy = synthesize_separable(three())
    rng = np.random.default_rng(0)
    t, runs = 12, 50
    seen = rng.multinomial(t, (0.5, 0.3, 0.2), size=runs).T
    accepted = rng.integers(0, seen + 1)
    group = rng.integers(3, size=runs)
    found = policy.actions.levels(t, seen, accepted, group)
    states = np.stack([seen, accepted], axis=2).transpose(1, 0, 2).reshape(runs, -1).tolist()
    assert found.tolist() == [policy.action(t, tuple(state), int(g)) for state, g in zip(states, group, strict=True)]
    assert set(found.tolist()) == {-1, 0, 1}


def test_beyond_two_groups_static_bw_is_separable() -> None:
    plan = three(kappa="0.5")
    shield = PeriodicShield(plan)
    period = shield.begin((9, 4, 6, 3, 5, 3))
    assert synthesize(plan).expected_cost == period.policy.expected_cost == synthesize_separable(plan).expected_cost
    assert shield.bounds is not None
    assert shield.bounds.least_seen == 2
    assert period.assumption_held([5, 1], [6, 9], [9, 10]).tolist() == [True, False]
    assert period.policy.decision(0, (0,) * 6, "c", 1) in (0, 1)


def test_one_condition_for_each_costs_at_least_one_for_both() -> None:
    # The exact shield for two groups exempts both when one is small; each of them alone does not.
    inputs = Inputs(("a", "b"), (0.2, 0.8), (0.3, 0.7))
    plan = ShieldPlan(FairnessProperty("demographic_parity", Fraction(1, 5)), inputs, 20, "static-bw")
    assert synthesize_separable(plan).expected_cost > synthesize(plan).expected_cost > 0


def test_a_table_that_would_not_fit_is_refused() -> None:
    with pytest.raises(LimitError, match="GiB"):
        synthesize_separable(three(horizon=3000))


def test_bounds_wider_than_kappa_are_refused() -> None:
    with pytest.raises(OptionError, match="at most kappa apart"):
        synthesize_separable(three(kappa="0.1"), WelfareBounds(Fraction(1, 5), Fraction(2, 5)))
