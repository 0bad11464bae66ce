"""Saved states are values: no shield that saved or loaded one changes it."""

import copy
import json
from functools import cache
from random import Random
from typing import Any

import pytest

from evenhand.shields import PeriodicShield, Shield, ShieldPolicy, read_plan, synthesize, synthesize_separable

LABELLED = {"property": "equal_opportunity"}
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "finite": ("ab", {"horizon": 20}),
    "finite, three groups": ("abc", {"horizon": 8}),
    "finite, four groups": ("abcd", {"horizon": 6}),
    "finite, labels": ("ab", {"horizon": 8, **LABELLED}),
    "finite, three groups and labels": ("abc", {"horizon": 5, **LABELLED}),
    "feasible": ("ab", {"horizon": 20, "kind": "feasible"}),
    "greedy": ("ab", {"horizon": 10, "kind": "greedy"}),
    "static-fair": ("ab", {"horizon": 10, "kind": "static-fair"}),
    "static-fair, labels": ("ab", {"horizon": 10, "kind": "static-fair", **LABELLED}),
    "static-bw": ("ab", {"horizon": 20, "kind": "static-bw"}),
    "static-bw, three groups": ("abc", {"horizon": 20, "kind": "static-bw"}),
    "static-bw, three groups and labels": ("abc", {"horizon": 20, "kind": "static-bw", **LABELLED}),
    "dynamic": ("ab", {"horizon": 10, "kind": "dynamic"}),
    "dynamic, labels": ("ab", {"horizon": 6, "kind": "dynamic", **LABELLED}),
    "dynamic, three groups": ("abc", {"horizon": 4, "kind": "dynamic"}),
    "dynamic, three groups and labels": ("abc", {"horizon": 3, "kind": "dynamic", **LABELLED}),
}


@cache
def policy_of(name: str) -> ShieldPolicy | PeriodicShield:
    groups, entries = PLANS[name]
    label = {"label": 0.5} if "property" in entries else {}
    members = {group: {"rate": 1 / len(groups), "accept": 0.5, **label} for group in groups}
    plan = read_plan({"property": "demographic_parity", "kappa": "1/3", "groups": members, **entries})
    if plan.kind == "static-bw" and len(groups) > 2:
        return synthesize_separable(plan)
    return PeriodicShield(plan) if plan.makes_periods else synthesize(plan)


def decide(shield: Shield, steps: int, seed: int) -> list[tuple[int, ...]]:
    """Make decisions with labels in random order, until the horizon of a shield without periods."""
    rng = Random(seed)
    made: list[tuple[int, ...]] = []
    waiting: list[str] = [key for key, code in shield.state()["ids"] if code >= 0] if shield.labelled else []
    for number in range(steps):
        key = f"{seed}-{number}"
        decision = shield.decide(rng.choice(shield.groups), rng.randint(0, 1), id=key)
        made.append(tuple(map(int, (decision.decision, decision.intervened, decision.guaranteed))))
        if shield.labelled:
            waiting.append(key)
            while waiting and rng.random() < 0.6:
                shield.observe(waiting.pop(rng.randrange(len(waiting))), rng.randint(0, 1))
        certificate = shield.certificate()
        if certificate.step == certificate.horizon and not certificate.how_later:
            break
    return made


@pytest.mark.parametrize("name", PLANS)
def test_states_are_values(name: str) -> None:
    policy = policy_of(name)
    first = Shield(policy)
    decide(first, 14 if isinstance(policy, PeriodicShield) else 3, seed=1)
    saved = first.state()
    original = copy.deepcopy(saved)
    decide(first, 50, seed=2)
    assert saved == original

    shields = [Shield(policy), Shield(policy)]
    for shield in shields:
        shield.load(saved)
    expected = decide(shields[0], 50, seed=3)
    assert saved == original
    assert shields[1].state() == original
    assert decide(shields[1], 50, seed=3) == expected
    assert saved == original

    third = Shield.restore(policy, json.loads(json.dumps(saved)))
    assert third.state() == original
    certificate = third.certificate()
    described = certificate.to_dict()
    decide(third, 50, seed=3)
    assert third.state() == shields[1].state()
    assert third.certificate() == shields[1].certificate()
    assert certificate.to_dict() == described


@pytest.mark.parametrize("name", PLANS)
def test_changing_a_returned_state_does_not_change_the_shield(name: str) -> None:
    shield = Shield(policy_of(name))
    decide(shield, 3, seed=1)
    original = copy.deepcopy(shield.state())
    for returned in (shield.state(), shield.counts()):
        overwrite(returned)
        assert shield.state() == original


def overwrite(value: Any) -> None:
    """Change every list and mapping inside a value."""
    if isinstance(value, dict):
        for inner in value.values():
            overwrite(inner)
        value.clear()
    elif isinstance(value, list):
        for inner in value:
            overwrite(inner)
        value[:] = [-1]
