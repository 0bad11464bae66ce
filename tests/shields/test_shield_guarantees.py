"""Optimal and always fair, on every instance of a grid, against recursion over whole traces."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable

import pytest
from guarantee_cases import (
    EMPTY,
    KAPPAS,
    KINDS,
    LONGEST,
    ONE_COST,
    TWO_COSTS,
    bounds,
    close,
    fair,
    followed,
    policy,
)
from traces import Bound, World, all_policies_of_two, least_cost

from evenhand.errors import OptionError


def horizons(costs: int) -> list[tuple[str, int]]:
    """Every property with every horizon; the longest is for the full run, longer ones with two costs are slow."""
    found = []
    for kind in KINDS:
        for horizon in range(1, LONGEST[kind] + 1):
            marks = [pytest.mark.full] if horizon == LONGEST[kind] else []
            if costs == 2 and horizon >= LONGEST[kind] - 1:
                marks = [pytest.mark.slow]
            found.append(pytest.param(kind, horizon, marks=marks))
    return found


@pytest.fixture
def as_thresholds(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Store shields as thresholds, as if they were long ones: short tables are smaller when packed."""
    # The package's own `solve` is a function of the same name.
    module = importlib.import_module("evenhand.shields.synthesis.solve")

    def change() -> str:
        monkeypatch.setattr(module, "_packed_bytes", lambda problem, costs: 2**60)
        return "thresholds"

    return change


def check(bound: Bound, world: World, horizon: int, form: str) -> None:
    """The cost is the least there is, the decisions have it, and every end that they allow is fair."""
    made = policy(bound, world, horizon)
    expected = least_cost(bound, world, horizon)
    assert made.actions.form == form
    instance = (bound, world, horizon)
    assert close(made.expected_cost, expected), (instance, made.expected_cost, expected)
    cost, ends = followed(bound, made)
    assert close(cost, expected), (instance, cost, expected)
    assert [end for end in ends if not fair(bound, end)] == [], instance


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize(("kind", "horizon"), horizons(1))
def test_every_instance_with_one_cost(kind: str, horizon: int, empty: str, as_thresholds: Callable[[], str]) -> None:
    form = "packed"
    if empty in EMPTY[::2]:
        form = as_thresholds()
    for bound, world in itertools.product(bounds(kind, empty), ONE_COST):
        check(bound, world, horizon, form)


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize(("kind", "horizon"), horizons(2))
def test_every_instance_with_two_costs(kind: str, horizon: int, empty: str, as_thresholds: Callable[[], str]) -> None:
    form = "packed"
    if empty in EMPTY[1::2]:
        form = as_thresholds()
    for bound, world in itertools.product(bounds(kind, empty), TWO_COSTS):
        check(bound, world, horizon, form)


@pytest.mark.slow
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize(("kind", "horizon"), [(kind, t) for kind in KINDS for t in range(1, LONGEST[kind] + 1)])
def test_every_instance_in_the_other_form(
    kind: str, horizon: int, empty: str, as_thresholds: Callable[[], str]
) -> None:
    form = "packed"
    if empty in EMPTY[1::2]:
        form = as_thresholds()
    for bound, world in itertools.product(bounds(kind, empty), ONE_COST):
        check(bound, world, horizon, form)


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("kind", KINDS)
def test_no_policy_of_two_steps_is_cheaper(kind: str, empty: str) -> None:
    for kappa, world in itertools.product((KAPPAS[0], KAPPAS[-2]), (ONE_COST[0], ONE_COST[2])):
        bound = Bound(kind, kappa, empty)
        assert close(policy(bound, world, 2).expected_cost, all_policies_of_two(bound, world))


PASTS = ((3, 1, 2, 2), (1, 1, 4, 0), (5, 2, 5, 3), (0, 0, 3, 3), (10, 7, 2, 0))


@pytest.mark.parametrize("past", PASTS, ids=str)
@pytest.mark.parametrize(
    ("kind", "horizon"), [(kind, horizon) for kind in KINDS for horizon in (1, 3, LONGEST[kind] - 1)]
)
def test_what_was_decided_before_counts(kind: str, horizon: int, past: tuple[int, int, int, int]) -> None:
    for kappa, empty, world in itertools.product(KAPPAS[1:6:2], EMPTY[::2], ONE_COST[::3]):
        bound = Bound(kind, kappa, empty)
        expected = least_cost(bound, world, horizon, past)
        if expected == float("inf"):
            with pytest.raises(OptionError, match="no shield can guarantee"):
                policy(bound, world, horizon, start=past)
            continue
        made = policy(bound, world, horizon, start=past)
        assert close(made.expected_cost, expected), (bound, world)
        cost, ends = followed(bound, made)
        assert close(cost, expected), (bound, world)
        assert all(fair(bound, tuple(x + y for x, y in zip(end, past, strict=True))) for end in ends), (bound, world)


@pytest.mark.parametrize("checks", ["anytime", (2,), (1, 4)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_check_on_the_way_holds(kind: str, checks: str | tuple[int, ...]) -> None:
    horizon = LONGEST[kind] - 1
    times = tuple(range(1, horizon)) if checks == "anytime" else tuple(t for t in checks if t < horizon)
    for kappa, empty, world in itertools.product(KAPPAS[1::2], EMPTY, ONE_COST[::3]):
        bound = Bound(kind, kappa, empty)
        expected = least_cost(bound, world, horizon, times=times)
        made = policy(bound, world, horizon, checks=checks if checks == "anytime" else times)
        assert close(made.expected_cost, expected), (bound, world)
        cost, ends = followed(bound, made, checked=times)
        assert close(cost, expected), (bound, world)
        assert all(fair(bound, end) for end in ends), (bound, world)


@pytest.mark.parametrize("empty", EMPTY[::2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_shield_that_knows_nobody_overrides_what_must_be_and_ends_fair(kind: str, empty: str) -> None:
    for bound, world in itertools.product(bounds(kind, empty)[1::2], (ONE_COST[0], ONE_COST[3], TWO_COSTS[1])):
        made = policy(bound, world, LONGEST[kind] - 1, kind="feasible")
        cost, ends = followed(bound, made)
        assert all(fair(bound, end) for end in ends), (bound, world)
        least = least_cost(bound, world, LONGEST[kind] - 1)
        assert cost >= least - 1e-9, (bound, world)
        assert least > 0 or bound.kappa < 1 or cost == 0, "nothing must be overridden"
