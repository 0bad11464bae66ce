"""Shields that go on, through everything that can come in a few short periods: where the assumption held, all is fair.

The assumptions are written down here once more, from the paper.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import ceil

import pytest
from guarantee_cases import EMPTY, KINDS, ONE_COST, fair, plan
from traces import NOBODY, Bound, Counters, World

from evenhand.shields import PeriodicShield, ShieldPolicy, always_ends_fair
from evenhand.shields.policy.periodic import ShieldPeriod
from support import shortened

GAPS = ("demographic_parity", "equal_opportunity")
PASTS: tuple[Counters, ...] = ((0, 0, 0, 0), (4, 2, 4, 2), (2, 1, 5, 2), (3, 3, 6, 5), (1, 0, 7, 2))


def reached(bound: Bound, made: ShieldPolicy) -> set[Counters]:
    """The counters of a period in which it can end, whatever comes."""
    states: set[Counters] = {(0, 0, 0, 0)}
    most = made.levels
    for t in range(made.plan.horizon):
        after: set[Counters] = set()
        for state, g in itertools.product(states, range(2)):
            level = made.action(t, state, g)
            # A threshold between two costs leaves both decisions possible, whatever is recommended.
            for y in {0, 1} - ({0} if level == most else {1} if level == -most else set()):
                moved = list(state)
                moved[2 * g] += 1
                moved[2 * g + 1] += y
                after.add((moved[0], moved[1], moved[2], moved[3]))
            if bound.labelled:
                after.add(state)
        states = after
    return states


def together(past: Counters, own: Counters) -> Counters:
    return (past[0] + own[0], past[1] + own[1], past[2] + own[2], past[3] + own[3])


def bias(counters: Counters) -> Fraction:
    n_a, a, n_b, b = counters
    return abs(Fraction(a, n_a or 1) - Fraction(b, n_b or 1))


def assumed(kind: str, kappa: Fraction, period: ShieldPeriod, own: Counters, width: Fraction) -> bool:
    """Half of each group (Theorem 2), Assumption 1, Assumption 2; the last with the convention of the paper."""
    n_a, _, n_b, _ = own
    if kind == "static-fair":
        return 2 * n_a == 2 * n_b == period.policy.plan.horizon
    if kind == "static-bw":
        return min(n_a, n_b) >= ceil(1 / width)
    seen_a, seen_b = period.start[0] + n_a, period.start[2] + n_b
    return min(seen_a, seen_b) > 0 and Fraction(1, seen_a) + Fraction(1, seen_b) <= kappa + bias(period.start)


def explored(
    kind: str, bound: Bound, world: World, horizon: int, periods: int, past: Counters = NOBODY, **options: object
) -> dict[str, int]:
    """How many ends of periods there are; every one where the assumption held until then must be fair."""
    shield = PeriodicShield(plan(bound, world, horizon, kind=kind, **options))
    width = shield.bounds.upper - shield.bounds.lower if shield.bounds else Fraction(0)
    counts = {"ends": 0, "held": 0, "unfair": 0}
    alive = {(past, fair(bound, past))}
    for _ in range(periods):
        after: set[tuple[Counters, bool]] = set()
        for start, held in alive:
            period = shield.begin(start)
            exempt = options.get("terminal") == "exempt" and any(start) and period.end is not None
            for own in reached(bound, period.policy):
                now = bool(period.assumption_held(own[0], own[2]))
                if kind != "dynamic" or (exempt and bound.empty == "zero" and bound.kind in GAPS):
                    assert now == assumed(kind, bound.kappa, period, own, width), (bound, start, own)
                end = together(start, own)
                kept = held and now
                counts["ends"] += 1
                counts["held"] += kept
                counts["unfair"] += not fair(bound, end)
                if kept or period.guaranteed:
                    assert fair(bound, end), (kind, bound, world, start, own)
                after.add((end, kept))
        alive = after
    return counts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("horizon", shortened([2, 4]))
def test_balanced_periods_of_static_fair_shields_stay_fair(kind: str, horizon: int) -> None:
    unfair = 0
    for kappa, empty, world in itertools.product(("1/4", "1/2"), EMPTY[:2], ONE_COST[:2]):
        counts = explored("static-fair", Bound(kind, Fraction(kappa), empty), world, horizon, 3)
        assert 0 < counts["held"] < counts["ends"]
        unfair += counts["unfair"]
    assert unfair > 0, "the assumption is needed"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("kappa", "horizon"), shortened([("1/2", 4), ("2/3", 4), ("1/2", 5), ("1/3", 6)], to=2))
def test_periods_large_enough_of_bounded_welfare_shields_are_fair(kind: str, kappa: str, horizon: int) -> None:
    for empty, world in itertools.product(EMPTY[:2], ONE_COST[:2]):
        # The widest bounds that a ratio allows lie at the top; around a rate they would need more people.
        bounds = {"bounds": (1 - Fraction(kappa), Fraction(1))} if kind == "disparate_impact" else {}
        counts = explored("static-bw", Bound(kind, Fraction(kappa), empty), world, horizon, 2, **bounds)
        assert 0 < counts["held"] < counts["ends"]


@pytest.mark.parametrize("terminal", ["exempt", "strict", "soft"])
@pytest.mark.parametrize("empty", shortened(EMPTY[:3:2]))
@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_shields_are_fair_where_that_is_owed(kind: str, empty: str, terminal: str) -> None:
    held = unfair = 0
    for kappa, past in itertools.product(("1/4", "1/2"), PASTS):
        counts = explored(
            "dynamic", Bound(kind, Fraction(kappa), empty), ONE_COST[0], 3, 2, past=past, terminal=terminal
        )
        held += counts["held"]
        unfair += counts["unfair"]
    assert held > 0
    assert unfair > 0 or terminal != "exempt", "the assumption is needed"


@pytest.mark.parametrize("terminal", ["exempt", "strict", "soft"])
@pytest.mark.parametrize("kind", GAPS)
def test_dynamic_shields_are_always_fair_after_the_warm_up(kind: str, terminal: str) -> None:
    bound = Bound(kind, Fraction(1, 2), "zero")
    shield = PeriodicShield(plan(bound, ONE_COST[0], 3, kind="dynamic", terminal=terminal))
    for n, m in itertools.product(range(4, 7), repeat=2):
        for a, b in itertools.product(range(n + 1), range(m + 1)):
            start = (n, a, m, b)
            assert always_ends_fair(shield.plan, start) == fair(bound, start)
            if fair(bound, start):
                period = shield.begin(start)
                assert period.guaranteed
                assert all(fair(bound, together(start, own)) for own in reached(bound, period.policy)), start


@pytest.mark.slow
@pytest.mark.parametrize("terminal", ["exempt", "strict", "soft"])
@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_shields_of_more_and_longer_periods(kind: str, empty: str, terminal: str) -> None:
    for kappa, (horizon, periods) in itertools.product(("1/5", "1/3", "1/2"), ((2, 4), (3, 3), (5, 2))):
        bound = Bound(kind, Fraction(kappa), empty)
        assert explored("dynamic", bound, ONE_COST[0], horizon, periods, terminal=terminal)["held"] > 0
