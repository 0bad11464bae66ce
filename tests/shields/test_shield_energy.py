"""Overrides at random, the more probable the larger the bias; with a filter, every run ends fair all the same."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.shields import (
    FairnessProperty,
    Inputs,
    Nudging,
    PeriodicShield,
    Shield,
    ShieldPlan,
    compare_shields,
    inspect_policy,
    long_run_bias,
    read_plan,
    replay_log,
    simulate_shield,
    synthesize,
)
from evenhand.shields.policy.file import policy_from_bytes, policy_to_bytes
from evenhand.shields.policy.nudging import NudgedRuns, NudgedTable, draw, draws
from evenhand.shields.simulation.comparison import plans_of_kinds
from evenhand.shields.spec.properties import EmptyGroupRule
from support import scaled

ADULT = Inputs(("women", "men"), (0.331, 0.669), (0.075, 0.252))
UNEVEN = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6))
PARITY = FairnessProperty("demographic_parity", Fraction(1, 10))


def plan(horizon: int = 12, inputs: Inputs = UNEVEN, kept: FairnessProperty = PARITY, **nudging: object) -> ShieldPlan:
    return ShieldPlan(kept, inputs, horizon, kind="energy", nudging=Nudging(**nudging))  # type: ignore[arg-type]  # any field


def probability(asked: ShieldPlan, counters: tuple[int, ...], group: int) -> tuple[float, int]:
    """How probable a nudge is, by the formula, and to which decision; by fractions."""
    rule, (n, a, m, b) = asked.nudging, counters
    assert rule is not None
    smaller = 0 if asked.inputs.rate[0] <= asked.inputs.rate[1] else 1
    if n + m < rule.first or (rule.groups == "smaller" and group != smaller):
        return 0.0, 0
    bias = asked.property.bias(n, a, m, b)
    higher = Fraction(a, max(n, 1)) > Fraction(b, max(m, 1))
    share = (float(bias) - rule.free) / (rule.full - rule.free)
    return min(1.0, max(0.0, share) ** rule.power), int(higher != (group == 0))


def followed(made, horizon: int) -> tuple[float, dict[tuple[int, ...], float]]:
    """Expected cost, and every end with its probability, over all people and all draws."""
    asked, table = made.plan, made.actions
    layer = {(0, 0, 0, 0): 1.0}
    cost = 0.0
    for t in range(horizon):
        later: dict[tuple[int, ...], float] = {}
        for counters, chance in layer.items():
            for g, r in itertools.product((0, 1), (0, 1)):
                share = asked.inputs.rate[g] * (asked.inputs.accept[g] if r else 1 - asked.inputs.accept[g])
                forced = 0 if table.base is None else table.base.level(t, counters, g)
                q, towards = probability(asked, counters, g)
                choices = [(forced > 0, 1.0)] if forced else [(towards, q), (r, 1 - q)]
                for y, likely in choices:
                    cost += chance * share * likely * (y != r)
                    now = list(counters)
                    now[2 * g] += 1
                    now[2 * g + 1] += y
                    later[tuple(now)] = later.get(tuple(now), 0.0) + chance * share * likely
        layer = later
    return cost, layer


def test_worked_example() -> None:
    """The rates are 3/4 and 1/4: half way from 0 to 1, squared, every fourth recommendation to accept an a falls."""
    asked = plan(20, free=0.0, full=1.0, power=2, groups="both", filter=False)
    table = NudgedTable.of(asked, None)
    hits = [
        NudgedTable.of(replace(asked, nudging=replace(asked.nudging, seed=seed)), None).level(8, (4, 3, 4, 1), 0)
        for seed in range(4000)
    ]
    assert set(hits) == {-1, 0}
    assert abs(np.mean(hits) + 0.25) < 0.03
    assert {table.level(8, (4, 2, 4, 2), group) for group in (0, 1)} == {0}
    # From the full bias on, everything that widens it is overridden, on either side of it.
    sure = NudgedTable.of(plan(20, full=0.4, groups="both", filter=False), None)
    assert (sure.level(8, (4, 3, 4, 1), 0), sure.level(8, (4, 3, 4, 1), 1)) == (-1, 1)


def test_draws_are_even_and_the_same_for_arrays() -> None:
    keys = np.arange(20000, dtype=np.uint64)
    found = draws(keys, 7)
    assert [draw(int(key), 7) for key in keys[:100]] == found[:100].tolist()
    assert (found >= 0).all()
    assert (found < 1).all()
    counts, _ = np.histogram(found, 10, (0, 1))
    assert abs(counts - 2000).max() < 200
    assert abs(np.corrcoef(found, draws(keys, 8))[0, 1]) < 0.03


CASES = st.tuples(
    st.sampled_from(["demographic_parity", "disparate_impact"]),
    st.sampled_from(["zero", "vacuous", "min_count=2"]),
    st.sampled_from(["smaller", "both"]),
    st.booleans(),
    st.tuples(*[st.floats(0.05, 0.95)] * 3),
    st.integers(1, 4),
    st.integers(0, 3),
)


@given(CASES)
@settings(max_examples=scaled(100), deadline=None)
def test_cost_and_probabilities_are_those_of_all_draws(case: tuple) -> None:
    """The forward walk against a recursion over single states; with the filter no end is unfair, whatever is drawn."""
    kind, empty, groups, filtered, (rate, one, other), power, first = case
    kept = FairnessProperty(kind, Fraction(1, 4), EmptyGroupRule.parse(empty))
    inputs = Inputs(("a", "b"), (rate, 1 - rate), (one, other))
    asked = plan(6, inputs, kept, free=0.05, full=0.6, power=power, first=first, groups=groups, filter=filtered)
    made = PeriodicShield(asked).begin().policy
    cost, ends = followed(made, 6)
    found = inspect_policy(made)
    assert found.expected_cost == pytest.approx(cost, abs=1e-9)
    assert sum(ends.values()) == pytest.approx(1)
    unfair = sum(chance for end, chance in ends.items() if not kept.fair(*end))
    assert found.ends[-1].chance == pytest.approx(unfair, abs=1e-12)
    if filtered:
        assert unfair == 0
        assert found.verified
    else:
        assert found.verified is None


@pytest.mark.parametrize("kind", ["demographic_parity", "disparate_impact"])
def test_with_the_filter_every_sequence_of_twelve_ends_fair_whatever_is_drawn(kind: str) -> None:
    asked = plan(12, kept=FairnessProperty(kind, Fraction(1, 4)), full=0.25, groups="both")
    made = synthesize(asked)
    _, ends = followed(made, 12)
    assert all(asked.property.fair(*end) for end in ends)


def test_a_running_shield_draws_as_the_simulation_does() -> None:
    """Equal people, counters and seeds: equal decisions, in the first period and in later ones."""
    for filtered in (False, True):
        asked = plan(20, free=0.02, full=0.3, power=3, groups="both", filter=filtered, seed=11)
        shield, periodic = Shield(PeriodicShield(asked)), PeriodicShield(asked)
        rng = np.random.default_rng(4)
        past, now = (0, 0, 0, 0), [0, 0, 0, 0]
        for step in range(60):
            t = step % 20
            if t == 0 and step:
                past, now = tuple(p + n for p, n in zip(past, now, strict=True)), [0, 0, 0, 0]
            table = periodic.begin(past).policy.actions
            assert isinstance(table, NudgedTable)
            group, r = int(rng.integers(0, 2)), int(rng.integers(0, 2))
            seen, accepted = np.array([now[::2]]).T, np.array([now[1::2]]).T
            before = np.array([past[::2]]).T, np.array([past[1::2]]).T
            runs = NudgedRuns.begin(np.array([11], dtype=np.uint64), *before)
            level = table.levels(t, seen, accepted, np.array([group]), runs)[0]
            decided = shield.decide("ab"[group], r).decision
            assert decided == (r if level == 0 else int(level > 0))
            now[2 * group] += 1
            now[2 * group + 1] += decided


def test_files_states_and_logs_carry_the_draws() -> None:
    asked = plan(30, ADULT, full=0.1, seed=5)
    made = synthesize(asked)
    again = policy_from_bytes(policy_to_bytes(made))
    assert again.digest == made.digest
    assert again.expected_cost == made.expected_cost
    shield, log = Shield(made), []
    rng = np.random.default_rng(6)
    for number in range(100):
        group, r = ADULT.groups[rng.integers(0, 2)], int(rng.random() < 0.3)
        if number % 10 == 0:
            shield = Shield.restore(again, shield.state())
        decided = shield.decide(group, r)
        log.append({"group": group, "recommendation": r, "decision": decided.decision})
    assert shield.interventions
    assert replay_log(Shield(again), log).difference is None
    groups = {"women": {"rate": 0.331, "accept": 0.075}, "men": {"rate": 0.669, "accept": 0.252}}
    other = read_plan(
        {"property": "demographic_parity", "kappa": "0.1", "horizon": 30, "kind": "energy", "seed": 6, "groups": groups}
    )
    assert Shield(PeriodicShield(other)).digest != shield.digest
    assert replay_log(Shield(PeriodicShield(other)), log).difference is not None


@pytest.mark.parametrize(("inputs", "expected"), [(ADULT, 0.0348), (UNEVEN, 0.0409)], ids=["adult", "uneven"])
def test_the_limit_is_where_recommendations_and_nudges_agree(inputs: Inputs, expected: float) -> None:
    """Nudging both groups, q(b*) = (D - b*) / (1 + D), by hand."""
    asked = plan(1000, inputs, free=0.0, full=0.1, power=2, groups="both", filter=False)
    limit, gap = long_run_bias(asked), abs(inputs.accept[0] - inputs.accept[1])
    assert limit == pytest.approx(expected, abs=5e-5)
    assert (limit / 0.1) ** 2 == pytest.approx((gap - limit) / (1 + gap))


@pytest.mark.full
@pytest.mark.parametrize("groups", ["smaller", "both"])
@pytest.mark.parametrize("inputs", [ADULT, UNEVEN], ids=["adult", "uneven"])
def test_long_runs_come_to_the_limit(inputs: Inputs, groups: str) -> None:
    asked = plan(1000, inputs, full=0.1, groups=groups, filter=False)
    result = simulate_shield(asked, runs=60, periods=20)
    assert abs(result.bias.value - long_run_bias(asked)) < 0.005


def test_a_kappa_of_zero_and_powers_that_are_not_whole_are_refused() -> None:
    described = {
        "property": "demographic_parity",
        "kappa": "0",
        "horizon": 20,
        "kind": "energy",
        "groups": {"a": {"rate": 0.3, "accept": 0.3}, "b": {"rate": 0.7, "accept": 0.6}},
    }
    with pytest.raises(OptionError):
        read_plan(described)
    with pytest.raises(OptionError, match="whole number"):
        read_plan(described | {"kappa": "0.1", "energy": {"power": 1.5}})
    with pytest.raises(OptionError, match="two groups"):
        PeriodicShield(
            read_plan(described | {"kappa": "0.1", "groups": {name: {"rate": 1 / 3, "accept": 0.5} for name in "abc"}})
        )


def test_kinds_are_compared_on_the_same_people() -> None:
    asked = plan(20, full=0.3)
    plans = plans_of_kinds(asked, ["finite", "energy", "greedy"])
    result = compare_shields(plans, runs=300, seed=1)
    assert [one.name for one in result.simulations] == ["finite", "energy", "greedy"]
    first = result.simulations[0]
    for one in result.simulations[1:]:
        assert one.over_time[-1].unshielded == first.over_time[-1].unshielded
        assert one.fair_share_unshielded == first.fair_share_unshielded
    assert [one.fair_share for one in result.simulations[:2]] == [1, 1]
    assert result.to_frame()["shield"].tolist() == [one.name for one in result.simulations]
    assert type(result).from_json(result.to_json()) == result
    with pytest.raises(OptionError, match="no kind"):
        plans_of_kinds(asked, ["energetic"])
