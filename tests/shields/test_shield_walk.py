"""All runs at once: the same states, probabilities and overrides as following every run by itself."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shield_reference import costly_plan, follow, plan

from evenhand.shields import synthesize
from evenhand.shields.policy.tables import ThresholdTable
from evenhand.shields.simulation.reachability import GAP_BINS, layer_levels, layer_states, walk_reachable_states
from support import scaled

CASES = {
    "parity": plan(7),
    "parity at any time": plan(7, checks="anytime", empty_group="min_count=2"),
    "parity, carried over": plan(6, start={"a": [4, 3], "b": [5, 2]}, kappa="0.3"),
    "ratio": plan(6, property="disparate_impact", empty_group="vacuous"),
    "opportunity": plan(5, property="equal_opportunity"),
    "costs": costly_plan(6),
    "welfare bounds": plan(9, kind="static-bw", kappa="0.5", bounds=["0.25", "0.75"]),
    "feasible": plan(6, kind="feasible"),
}


@pytest.mark.parametrize("case", CASES)
def test_walking_is_following_every_run(case):
    policy = synthesize(CASES[case])
    found = walk_reachable_states(policy)
    layers, overrides, cost = follow(policy)
    assert found.expected_cost == pytest.approx(cost, abs=1e-12)
    assert found.expected_cost == pytest.approx(policy.expected_cost, abs=1e-9)
    np.testing.assert_allclose(found.overrides_by_gap.sum(axis=1), overrides, atol=1e-12)
    assert found.reached == sum(len(layer) for layer in layers[:-1])
    overriding = [
        [policy.action(t, state, group) != 0 for group in (0, 1)]
        for t, layer in enumerate(layers[:-1])
        for state in layer
    ]
    assert found.overriding == (
        sum(one for one, _ in overriding),
        sum(other for _, other in overriding),
        sum(one or other for one, other in overriding),
    )
    assert [check.time for check in found.checks] == list(policy.plan.times)
    assert [check.reached for check in found.checks] == [len(layers[t]) for t in policy.plan.times]
    assert found.fair


@pytest.mark.parametrize("case", CASES)
def test_levels_of_a_layer_are_those_of_its_states(case):
    policy = synthesize(CASES[case])
    for t in range(policy.plan.horizon):
        levels = layer_levels(policy, t)
        states = np.stack(layer_states(t, policy.plan.property.labelled), axis=1)
        assert len(states) == levels.shape[1]
        for state, pair in zip(states.tolist(), levels.T.tolist(), strict=True):
            assert [policy.action(t, state, group) + policy.levels for group in (0, 1)] == pair


def test_both_ways_of_storing_are_walked():
    forms = {type(synthesize(one).actions) for one in CASES.values()} | {type(synthesize(plan(40)).actions)}
    assert len(forms) == 2
    policy = synthesize(plan(40))
    assert isinstance(policy.actions, ThresholdTable)
    assert walk_reachable_states(policy).expected_cost == pytest.approx(policy.expected_cost, abs=1e-9)


def test_a_policy_that_is_not_fair_is_found_out():
    made = synthesize(plan(6))
    lax = synthesize(plan(6, kappa="0.5"))
    found = walk_reachable_states(dataclasses.replace(made, actions=lax.actions))
    (end,) = found.checks
    assert not found.fair
    assert 0 < end.unfair < end.reached
    layers, _, _ = follow(lax)
    unfair = {state: chance for state, chance in layers[6].items() if not made.plan.property.fair(*state)}
    assert end.unfair == len(unfair)
    assert end.chance == pytest.approx(sum(unfair.values()))


def test_what_cannot_come_is_walked_all_the_same():
    groups = {"a": {"rate": 0, "accept": 1}, "b": {"rate": 1, "accept": 0}}
    certain = walk_reachable_states(synthesize(plan(5, groups=groups)))
    likely = walk_reachable_states(synthesize(plan(5, kind="feasible", groups=groups)))
    assert certain.reached > 5
    assert likely.reached > 5
    assert certain.expected_cost == pytest.approx(0.0)


@given(
    st.integers(1, 8), st.sampled_from(["0.1", "0.25", "0.5"]), st.floats(0.05, 0.95), st.floats(0, 1), st.floats(0, 1)
)
@settings(max_examples=scaled(25), deadline=None)
def test_the_cost_of_all_runs_is_the_cost_that_synthesis_found(horizon, kappa, rate, first, second):
    groups = {"a": {"rate": rate, "accept": first}, "b": {"rate": 1 - rate, "accept": second}}
    policy = synthesize(plan(horizon, kappa=kappa, groups=groups))
    found = walk_reachable_states(policy)
    assert found.expected_cost == pytest.approx(policy.expected_cost, abs=1e-7)
    assert found.fair
    assert found.overrides_by_gap.shape == (horizon, GAP_BINS, 2, 3)
    np.testing.assert_allclose(found.overrides_by_gap[..., 0].sum(axis=(1, 2)), 1.0)
