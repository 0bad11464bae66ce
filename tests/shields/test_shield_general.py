from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import shield_reference

from evenhand.errors import LimitError, OptionError
from evenhand.shields import FairnessProperty, Inputs, ShieldPlan, read_plan, synthesize
from evenhand.shields.spec.properties import EmptyGroupRule, parse_kappa
from evenhand.shields.synthesis.general import synthesize_general

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
    states = {(0, 0, 0, 0)}
    for t in range(horizon):
        following = set()
        for state in states:
            for group in (0, 1):
                level = fast.action(t, state, group)
                assert slow.action(t, state, group) == level
                for decision in {0, 1} - ({0} if level == 2 else {1} if level == -2 else set()):
                    counts = list(state)
                    counts[2 * group] += 1
                    counts[2 * group + 1] += decision
                    following.add(tuple(counts))
                    if kind == "equal_opportunity":
                        following.add(state)
        states = following
    assert len(states) > 10


def test_three_groups_stay_alike_in_every_run() -> None:
    asked = plan("demographic_parity", THREE, 12, kappa="0.4", empty="min_count=2")
    policy = synthesize(asked)
    states = {(0,) * 6}
    for t in range(12):
        following = set()
        for state in states:
            for group in range(3):
                level = policy.action(t, state, group)
                for decision in {0, 1} - ({0} if level == 2 else {1} if level == -2 else set()):
                    counts = list(state)
                    counts[2 * group] += 1
                    counts[2 * group + 1] += decision
                    following.add(tuple(counts))
        states = following
    assert len(states) > 1000
    assert all(pairwise(asked)(12, state) == 0.0 for state in states)


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
        read_plan(described)
    assert refused.value.location == "property"
