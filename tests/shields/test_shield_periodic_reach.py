"""Everything that a shield lets happen in longer periods, and the worst of it again and again."""

from fractions import Fraction

import pytest
from shield_reference import reached

from evenhand.shields import FairnessProperty, Inputs, PeriodicShield, ShieldPlan, always_ends_fair
from evenhand.shields.policy.periodic import ShieldPeriod
from support import shortened

Counters = tuple[int, ...]
FIFTH = Fraction(1, 5)
INPUTS = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), (0.4, 0.6))
GAPS = ("demographic_parity", "equal_opportunity")


def ends(period: ShieldPeriod) -> list[tuple[Counters, Counters]]:
    """What is possible at its end: counters of the period, and with everything before."""
    own = sorted(reached(period.policy)[-1])
    return [(each, tuple(x + y for x, y in zip(period.start, each, strict=True))) for each in own]


@pytest.mark.parametrize("terminal", ["strict", "soft", "exempt"])
@pytest.mark.parametrize("kind", GAPS)
def test_after_the_warm_up_the_worst_ends_are_fair_period_after_period(kind: str, terminal: str) -> None:
    horizon = 20 if kind == "demographic_parity" else 10
    plan = ShieldPlan(FairnessProperty(kind, FIFTH), INPUTS, horizon, "dynamic", terminal=terminal)
    shield, past = PeriodicShield(plan), (10, 5, 10, 3)
    for _ in range(4):
        assert always_ends_fair(plan, past)
        period = shield.begin(past)
        assert period.guaranteed
        possible = ends(period)
        assert len(possible) > 500
        assert all(plan.property.fair(*whole) for _, whole in possible)
        assert all(period.assumption_held(own[0], own[2]) for own, _ in possible)
        # On from the end with the largest bias, and of those from where fewest of group b came.
        past = max((whole for _, whole in possible), key=lambda whole: (plan.property.bias(*whole), -whole[2]))
        assert plan.property.bias(*past) > Fraction(1, 10)


@pytest.mark.parametrize("terminal", shortened(["strict", "soft", "exempt"]))
def test_from_nothing_on_every_end_is_fair_where_the_assumption_held(terminal: str) -> None:
    # The first period and then from its 40 most lopsided ends: 41 tables, every end of which is looked at.
    plan = ShieldPlan(FairnessProperty("demographic_parity", FIFTH), INPUTS, 16, "dynamic", terminal=terminal)
    shield = PeriodicShield(plan)
    first = shield.begin()
    assert first.guaranteed
    unfair = unheld = 0
    starts = sorted((whole for _, whole in ends(first)), key=lambda whole: (min(whole[0], whole[2]), whole))[:40]
    for start in starts:
        assert plan.property.fair(*start)
        period = shield.begin(start)
        for own, whole in ends(period):
            fair, held = plan.property.fair(*whole), bool(period.assumption_held(own[0], own[2]))
            assert fair or not (held or period.guaranteed)
            unfair += not fair
            unheld += not held
    assert (unheld > 0) == (terminal == "exempt" or unfair > 0)


@pytest.mark.parametrize("kind", GAPS)
def test_checks_on_the_way_hold_where_they_are_owed(kind: str) -> None:
    horizon = 12 if kind == "demographic_parity" else 8
    plan = ShieldPlan(FairnessProperty(kind, FIFTH), INPUTS, horizon, "dynamic", "anytime", "exempt")
    past = (10, 5, 10, 4)
    period = PeriodicShield(plan).begin(past)
    assert period.guaranteed
    for layer in reached(period.policy)[1:]:
        for own in layer:
            assert plan.property.fair(*(x + y for x, y in zip(past, own, strict=True)))
    only_end = PeriodicShield(
        ShieldPlan(FairnessProperty(kind, FIFTH), INPUTS, horizon, "dynamic", "end", "exempt")
    ).begin(past)
    # With labels it is the same: perhaps nobody with label 1 comes any more, so that every state may be the end.
    dearer = period.policy.expected_cost - only_end.policy.expected_cost
    assert dearer == pytest.approx(0, abs=1e-12) if plan.property.labelled else dearer > 0.01


@pytest.mark.parametrize("checks", ["end", "anytime", (6, 9)])
@pytest.mark.parametrize("kind", GAPS)
def test_bounds_hold_at_every_check_once_both_groups_are_large_enough(kind: str, checks: str | tuple[int, ...]) -> None:
    horizon = 14 if kind == "demographic_parity" else 10
    plan = ShieldPlan(FairnessProperty(kind, Fraction(1, 3)), INPUTS, horizon, "static-bw", checks)
    shield = PeriodicShield(plan)
    bounds = shield.bounds
    assert bounds is not None
    assert bounds.least_seen == 3
    layers = reached(shield.begin().policy)
    large = 0
    for t in plan.times:
        for n_a, a, n_b, b in layers[t]:
            if min(n_a, n_b) >= bounds.least_seen:
                large += 1
                assert bounds.holds(n_a, a)
                assert bounds.holds(n_b, b)
    assert large > 20
