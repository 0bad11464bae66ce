"""Dynamic shields for three groups: periods count everything before, and end fair wherever that can be made sure."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.shields import (
    FairnessProperty,
    Inputs,
    PeriodicShield,
    Shield,
    ShieldPlan,
    always_ends_fair,
    inspect_policy,
    simulate_shield,
    synthesize,
)
from support import scaled

INPUTS = Inputs(("a", "b", "c"), (0.2, 0.5, 0.3), (0.3, 0.6, 0.5))
KEPT = FairnessProperty("demographic_parity", Fraction(1, 4))


def plan(horizon: int = 4, kept: FairnessProperty = KEPT, **options) -> ShieldPlan:
    return ShieldPlan(kept, INPUTS, horizon, kind="dynamic", **options)


def fair(kept: FairnessProperty, counters: tuple[int, ...]) -> bool:
    rates = [Fraction(a, max(n, 1)) for n, a in zip(counters[::2], counters[1::2], strict=True)]
    return max(rates) - min(rates) <= kept.kappa


def can_end_fair(kept: FairnessProperty, counters: tuple[int, ...], left: int) -> bool:
    """Whether a fair end can be forced, by recursion over whoever comes."""
    if left == 0:
        return fair(kept, counters)
    for group in range(3):
        after = []
        for decision in (0, 1):
            now = list(counters)
            now[2 * group] += 1
            now[2 * group + 1] += decision
            after.append(can_end_fair(kept, tuple(now), left - 1))
        if not any(after):
            return False
    return True


PASTS = st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=3, max_size=3)


@given(PASTS, st.integers(1, 3))
@settings(max_examples=scaled(100), deadline=None)
def test_a_period_is_certain_where_a_fair_end_can_be_forced(past: list[tuple[int, float]], horizon: int) -> None:
    counters = tuple(count for n, share in past for count in (n, round(n * share)))
    period = PeriodicShield(plan(horizon)).begin(counters)
    assert period.guaranteed == can_end_fair(KEPT, counters, horizon)
    if always_ends_fair(plan(horizon), counters):
        assert period.guaranteed
    # Whoever comes, with any recommendation: certain periods end fair.
    layer = {(0,) * 6}
    for t in range(horizon):
        later = set()
        for here in layer:
            for group, r in itertools.product(range(3), (0, 1)):
                now = list(here)
                now[2 * group] += 1
                now[2 * group + 1] += period.policy.decision(t, here, group, r)
                later.add(tuple(now))
        layer = later
    ends = [tuple(p + n for p, n in zip(counters, end, strict=True)) for end in layer]
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
            assert always_ends_fair(plan(), counters)
            assert can_end_fair(KEPT, counters, 3)
    assert found > 20
    assert not always_ends_fair(plan(), (7, 3, 20, 10, 20, 10))


def test_every_run_of_two_periods_through_a_running_shield() -> None:
    shield, kept = PeriodicShield(plan(3)), KEPT
    for sequence in itertools.product(itertools.product("abc", (0, 1)), repeat=3):
        running = Shield(shield)
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


def test_states_files_and_simulation() -> None:
    asked = plan(8)
    made = synthesize(asked)
    assert inspect_policy(made).verified
    shield, other = Shield(PeriodicShield(asked)), Shield(made)
    assert shield.policy_digest == other.policy_digest
    rng = np.random.default_rng(5)
    for _ in range(30):
        group, r = "abc"[rng.integers(0, 3)], int(rng.integers(0, 2))
        other = Shield.restore(made, other.state())
        assert shield.decide(group, r) == other.decide(group, r)
    assert shield.state() == other.state()
    assert shield.period == 3
    result = simulate_shield(asked, runs=20, periods=3, seed=2)
    assert result.fair_when_assumed.value == 1
    assert result.fair_share > 0.9


def test_equal_opportunity_counts_labels_of_earlier_periods() -> None:
    inputs = Inputs(INPUTS.groups, INPUTS.rate, INPUTS.accept, (0.5, 0.6, 0.7))
    asked = ShieldPlan(FairnessProperty("equal_opportunity", Fraction(1, 2)), inputs, 3, kind="dynamic")
    shield = Shield(PeriodicShield(asked))
    for number, (group, r, label) in enumerate(itertools.product("abc", (0, 1), (0, 1))):
        shield.decide(group, r, id=number)
        if number != 4:
            shield.observe(number, label)
    assert shield.period == 3
    assert shield.certificate().later is None
    again = Shield.restore(PeriodicShield(asked), shield.state())
    shield.observe(4, 1)
    again.observe(4, 1)
    assert Shield.restore(PeriodicShield(asked), shield.state()).state() == again.state()
    assert shield.decide("a", 1, id="x") == again.decide("a", 1, id="x")


def test_what_several_groups_cannot_have_is_refused() -> None:
    with pytest.raises(OptionError, match="exempt"):
        PeriodicShield(plan(terminal="exempt"))
    with pytest.raises(OptionError, match="two groups"):
        PeriodicShield(plan(kept=FairnessProperty("disparate_impact", Fraction(1, 5)))).begin()
