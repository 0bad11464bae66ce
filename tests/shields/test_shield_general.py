"""Shields for more than two groups."""

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import shield_reference
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import shields
from evenhand.errors import LimitError, OptionError
from evenhand.shields import FairnessProperty, Inputs, PeriodicShield, ShieldPlan, synthesize, synthesize_separable
from evenhand.shields.spec.ends import WelfareBounds, welfare_bounds_of
from evenhand.shields.spec.properties import EmptyGroupRule, parse_kappa
from evenhand.shields.synthesis.general import synthesize_general
from support import scaled

COSTS = (0.25, 1.0)
WEIGHTS = (((0.5, 0.5), (0.1, 0.9)), ((0.3, 0.7), (1.0, 0.0)), ((0.8, 0.2), (0.5, 0.5)))
THREE = Inputs(("a", "b", "c"), (0.2, 0.5, 0.3), (0.3, 0.5, 0.8), (0.5, 0.2, 0.9), COSTS, WEIGHTS)
TWO = Inputs(("a", "b"), (0.4, 0.6), (0.3, 0.7), (0.5, 0.2), COSTS, WEIGHTS[:2])


def plan(
    kind: str, inputs: Inputs, horizon: int, kappa: str = "0.25", empty: str = "zero", **options: Any
) -> ShieldPlan:
    return ShieldPlan(
        FairnessProperty(kind, parse_kappa(kappa), EmptyGroupRule.parse(empty)), inputs, horizon, **options
    )


def pairwise(asked: ShieldPlan) -> Any:
    """Worth of a state by every two of its groups, in fractions."""

    def worth(t: int, state: tuple[int, ...]) -> float:
        if t not in asked.times:
            return 0.0
        counts = [(state[i], state[i + 1]) for i in range(0, len(state), 2)]
        biases = [asked.property.bias(*one, *other) for one, other in itertools.combinations(counts, 2)]
        return 0.0 if max(biases) <= asked.property.kappa else float("inf")

    return worth


@pytest.mark.parametrize("kind", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("empty", ["zero", "vacuous", "min_count=2"])
def test_three_groups_cost_what_recursion_says(kind: str, empty: str) -> None:
    for horizon, checks in ((3, "end"), (5, "end"), (5, (2, 4))):
        asked = plan(kind, THREE, horizon, empty=empty, checks=checks)
        policy = synthesize(asked)
        labelled = kind == "equal_opportunity"
        expected = shield_reference.least_cost(lambda _: THREE, horizon, pairwise(asked), labelled=labelled)
        assert policy.expected_cost == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("kind", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("way", ["finite", "feasible"])
def test_two_groups_are_decided_as_by_the_sweep(kind: str, way: str) -> None:
    horizon = 9
    asked = replace(plan(kind, TWO, horizon, empty="min_count=2", start=(3, 2, 1, 0)), kind=way)
    fast, slow = synthesize(asked), synthesize_general(asked)
    assert fast.expected_cost == pytest.approx(slow.expected_cost, abs=1e-9)
    assert fast.states == slow.states
    # Along every run that the shield allows, the two act alike.
    *layers, ends = shield_reference.reached(fast)
    for t, layer in enumerate(layers):
        for state, group in itertools.product(layer, (0, 1)):
            assert slow.action(t, state, group) == fast.action(t, state, group)
    assert len(ends) > 10


def test_three_groups_stay_alike_in_every_run() -> None:
    asked = plan("demographic_parity", THREE, 12, kappa="0.4", empty="min_count=2")
    policy = synthesize(asked)
    ends = shield_reference.reached(policy)[-1]
    assert len(ends) > 1000
    assert all(pairwise(asked)(12, state) == 0.0 for state in ends)


def test_too_many_states_are_said_before_memory_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthesize_general.__globals__, "MAX_STATES", 10_000)
    with pytest.raises(LimitError, match="states within 40 decisions"):
        synthesize(plan("demographic_parity", THREE, 40))


def test_a_ratio_of_three_groups_is_refused() -> None:
    with pytest.raises(OptionError, match="two groups"):
        synthesize(plan("disparate_impact", THREE, 5))


@pytest.mark.parametrize("name", ["equalized_odds", "equalised_odds", "predictive_parity", "calibration"])
def test_properties_that_no_running_shield_keeps_are_refused_with_the_reason(name: str) -> None:
    groups = {"a": {"rate": 0.5, "accept": 0.5}, "b": {"rate": 0.5, "accept": 0.5}}
    described = {"property": name, "kappa": "0.1", "horizon": 5, "groups": groups}
    with pytest.raises(OptionError, match="does not support") as refused:
        shields.read_plan(described)
    assert refused.value.location == "property"


def whole_cost(plan: ShieldPlan, bounds: WelfareBounds) -> float:
    """The least expected cost of keeping the condition of every group, over the counters of all groups together."""

    def worth(t: int, state: tuple[int, ...]) -> float:
        kept = t not in plan.times or all(
            n < bounds.least_seen or bounds.lower <= Fraction(a, n) <= bounds.upper
            for n, a in zip(state[::2], state[1::2], strict=True)
        )
        return 0.0 if kept else np.inf

    return shield_reference.least_cost(lambda _: plan.inputs, plan.horizon, worth, labelled=plan.property.labelled)


def probabilities(count: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.tuples(*[st.sampled_from((0.0, 0.1, 0.35, 0.5, 0.8, 1.0))] * count)


@st.composite
def plans(draw: st.DrawFn, groups: int, longest: int) -> tuple[ShieldPlan, WelfareBounds]:
    kind = draw(st.sampled_from(("demographic_parity", "equal_opportunity", "disparate_impact")))
    parts = draw(st.lists(st.integers(0, 4), min_size=groups, max_size=groups).filter(any))
    costs, weights = draw(st.sampled_from((((1.0,), ()), ((0.25, 2.0), ((0.3, 0.7), (0.8, 0.2))))))
    names, rates = tuple("abcd"[:groups]), tuple(part / sum(parts) for part in parts)
    weighted = (weights,) * groups if weights else ()
    inputs = Inputs(names, rates, draw(probabilities(groups)), draw(probabilities(groups)), costs, weighted)
    low, high = draw(st.sampled_from(list(itertools.combinations(range(7), 2))))
    bounds = WelfareBounds(Fraction(low, 6), Fraction(high, 6))
    # A ratio needs kappa 1 to allow bounds from 0 on; the bounds are what is kept.
    horizon = draw(st.integers(1, longest))
    checks = draw(st.sampled_from(("end", "anytime", (1,))))
    return ShieldPlan(FairnessProperty(kind, Fraction(1)), inputs, horizon, "static-bw", checks), bounds


@settings(max_examples=scaled(80), deadline=None)
@given(plans(2, 6) | plans(3, 5))
def test_the_sum_over_groups_is_the_cost_of_the_whole(case: tuple[ShieldPlan, WelfareBounds]) -> None:
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


INPUTS = Inputs(("a", "b", "c"), (0.2, 0.5, 0.3), (0.3, 0.6, 0.5))
KEPT = FairnessProperty("demographic_parity", Fraction(1, 4))


def dynamic_plan(horizon: int = 4, kept: FairnessProperty = KEPT, **options) -> ShieldPlan:
    return ShieldPlan(kept, INPUTS, horizon, kind="dynamic", **options)


def fair(kept: FairnessProperty, counters: tuple[int, ...]) -> bool:
    rates = [Fraction(a, max(n, 1)) for n, a in zip(counters[::2], counters[1::2], strict=True)]
    return max(rates) - min(rates) <= kept.kappa


def can_end_fair(kept: FairnessProperty, counters: tuple[int, ...], left: int) -> bool:
    """Whether a fair end can be forced, by recursion over whoever comes."""
    if left == 0:
        return fair(kept, counters)
    for group in range(3):
        after = (shield_reference.added(counters, group, decision) for decision in (0, 1))
        if not any(can_end_fair(kept, state, left - 1) for state in after):
            return False
    return True


PASTS = st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=3, max_size=3)


@given(PASTS, st.integers(1, 3))
@settings(max_examples=scaled(100), deadline=None)
def test_a_period_is_certain_where_a_fair_end_can_be_forced(past: list[tuple[int, float]], horizon: int) -> None:
    counters = tuple(count for n, share in past for count in (n, round(n * share)))
    period = PeriodicShield(dynamic_plan(horizon)).begin(counters)
    assert period.guaranteed == can_end_fair(KEPT, counters, horizon)
    if shields.always_ends_fair(dynamic_plan(horizon), counters):
        assert period.guaranteed
    # Whoever comes, with any recommendation: certain periods end fair.
    reached = shield_reference.reached(period.policy)[-1]
    ends = [tuple(p + n for p, n in zip(counters, end, strict=True)) for end in reached]
    assert not period.guaranteed or all(fair(KEPT, end) for end in ends)


def test_enough_of_each_group_are_enough_for_ever() -> None:
    """2 / kappa of each, and rates kappa apart at most: a fair end can be forced, from every such past that is met."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(400):
        n = rng.integers(8, 14, 3)
        counters = tuple(int(c) for size in n for c in (size, rng.integers(0, size + 1)))
        if fair(KEPT, counters):
            found += 1
            assert shields.always_ends_fair(dynamic_plan(), counters)
            assert can_end_fair(KEPT, counters, 3)
    assert found > 20
    assert not shields.always_ends_fair(dynamic_plan(), (7, 3, 20, 10, 20, 10))


def test_every_run_of_two_periods_through_a_running_shield() -> None:
    shield, kept = PeriodicShield(dynamic_plan(3)), KEPT
    for sequence in itertools.product(itertools.product("abc", (0, 1)), repeat=3):
        running = shields.Shield(shield)
        counters = [0] * 6
        for t, (group, r) in enumerate([*sequence, *sequence]):
            decided = running.decide(group, r)
            counters[2 * "abc".index(group)] += 1
            counters[2 * "abc".index(group) + 1] += decided.decision
            if t in (2, 5) and decided.guaranteed:
                assert fair(kept, tuple(counters))
        assert running.period == 1
        assert running.certificate().shielded == max(
            abs(Fraction(counters[i + 1], max(counters[i], 1)) - Fraction(counters[j + 1], max(counters[j], 1)))
            for i, j in itertools.combinations((0, 2, 4), 2)
        )


def test_what_several_groups_cannot_have_is_refused() -> None:
    with pytest.raises(OptionError, match="exempt"):
        PeriodicShield(dynamic_plan(terminal="exempt"))
    with pytest.raises(OptionError, match="two groups"):
        PeriodicShield(dynamic_plan(kept=FairnessProperty("disparate_impact", Fraction(1, 5)))).begin()
