"""Tables of shields, and the walk through all their runs."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from shield_reference import costly_plan, follow, plan

from evenhand.shields import FairnessProperty, Inputs, SynthesisProblem, synthesize
from evenhand.shields.policy.tables import ThresholdTable, row_start, state_start
from evenhand.shields.simulation.reachability import layer_levels, layer_states, walk_reachable_states
from evenhand.shields.spec.ends import FairEnd, WelfareBounds
from evenhand.shields.spec.properties import EmptyGroupRule
from evenhand.shields.synthesis import planes, solve
from evenhand.shields.synthesis.kernels import DEAD_LEVEL
from evenhand.shields.synthesis.layer import TOLERANCE, mix_of_group
from evenhand.shields.synthesis.solve import sweep_layers

INPUTS = Inputs(("a", "b"), (0.37, 0.63), (0.21, 0.58))


class Soft:
    """Prices of ends without an order, some of them forbidden."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def values(self, n_a: int, n_b: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, n_a, n_b])
        drawn = rng.integers(0, 4, (n_a + 1, n_b + 1)).astype(float)
        drawn[rng.uniform(size=drawn.shape) < 0.2] = np.inf
        return drawn


def plain_step(rejected, accepted, mix):
    """The step of one group with whole arrays: its value and its levels."""
    one, zero, cost = mix.accept[1], mix.reject[1], mix.single
    down, up = cost + rejected, cost + accepted
    value = one * np.where(accepted < down, accepted, down) + zero * np.where(rejected < up, rejected, up)
    with np.errstate(invalid="ignore"):
        gain = rejected - accepted
    level = (gain >= mix.rises[0]).astype(int) + (gain > mix.rises[1])
    return value, np.where(np.minimum(rejected, accepted) < np.inf, level, DEAD_LEVEL)


def plain_planes(horizon, checks, mixes):
    """The values and the levels of both groups by (n_a, n_b)."""

    def checked(values, n_a, n_b):
        end = checks.get(n_a + n_b)
        return values if end is None else values + end.values(n_a, n_b)

    values = {(n, horizon - n): checked(np.zeros((n + 1, horizon - n + 1)), n, horizon - n) for n in range(horizon + 1)}
    levels = {}
    for t in reversed(range(horizon)):
        for n_a in range(t + 1):
            n_b = t - n_a
            up, right = values[n_a + 1, n_b], values[n_a, n_b + 1]
            value_a, level_a = plain_step(up[:-1], up[1:], mixes[0])
            value_b, level_b = plain_step(right[:, :-1], right[:, 1:], mixes[1])
            values[n_a, n_b] = checked(value_a + value_b, n_a, n_b)
            levels[n_a, n_b] = level_a, level_b
    return values, levels


def expected_thresholds(levels, horizon):
    """Rows of both groups, and whether they store the levels."""
    rows, stored = ([], []), True
    for t in range(horizon):
        for group in (0, 1):
            for n in range(t + 1):
                level = levels[n, t - n][0] if group == 0 else levels[t - n, n][1].T
                for line in level:
                    live = line != DEAD_LEVEL
                    rises = [next((b for b in np.flatnonzero(live) if line[b] >= j), len(line)) for j in (1, 2)]
                    rows[group].append(rises)
                    again = (np.arange(len(line)) >= rises[0]).astype(int) + (np.arange(len(line)) >= rises[1])
                    stored &= bool((again == line)[live].all())
    return rows, stored


def expected_cells(levels, horizon, group):
    flat = [levels[n_a, t - n_a][group].ravel() for t in range(horizon) for n_a in range(t + 1)]
    return np.where(np.concatenate(flat) == DEAD_LEVEL, 1, np.concatenate(flat))


def assert_planes_are_those_of_the_recursion(horizon, inputs, checks, largest=0.0):
    mixes = tuple(mix_of_group(inputs, group, TOLERANCE + 1e-13 * largest) for group in (0, 1))
    values, levels = plain_planes(horizon, checks, mixes)
    problem = SynthesisProblem(horizon, False, inputs, checks)
    packed = sweep_layers(problem, "packed", None)
    assert packed.value == values[0, 0][0, 0]
    for group, cells in enumerate(packed.actions.cells):
        unpacked = (cells[:, None] >> np.array([0, 2, 4, 6]) & 3).ravel()[: state_start(horizon, False)]
        assert (unpacked == expected_cells(levels, horizon, group)).all()
    rows, stored = expected_thresholds(levels, horizon)
    compact = sweep_layers(problem, "thresholds", None)
    assert (compact is not None) == stored
    if stored:
        assert compact.value == packed.value
        for group, positions in enumerate(compact.actions.positions):
            assert (positions.reshape(row_start(horizon, False), 2) == rows[group]).all()
    return stored


def cut_blocks(monkeypatch, values, planes_of_a_block=planes.MINIMUM_PLANES, strip=planes.STRIP):
    for name, size in (("BLOCK_VALUES", values), ("MINIMUM_PLANES", planes_of_a_block), ("STRIP", strip)):
        monkeypatch.setattr(planes, name, size)


@pytest.mark.parametrize("horizon", [1, 8, 9, 40])
@pytest.mark.parametrize("kind", ["end", "anytime", "soft", "soft on the way"])
@pytest.mark.parametrize("block", [(1, 4, 3), (200,), (planes.BLOCK_VALUES,)])
def test_planes_are_those_of_the_recursion(horizon, kind, block, monkeypatch):
    cut_blocks(monkeypatch, *block)
    fair = FairEnd(FairnessProperty("demographic_parity", Fraction(1, 5)), (3, 2, 4, 1))
    checks = {
        "end": {horizon: fair},
        "anytime": dict.fromkeys(range(1, horizon + 1), fair),
        "soft": {horizon: Soft(1)},
        "soft on the way": {horizon // 2 + 1: Soft(2), horizon // 3 + 1: fair, horizon: Soft(3)},
    }[kind]
    assert_planes_are_those_of_the_recursion(horizon, INPUTS, checks, 3.0 if kind.startswith("soft") else 0.0)


@pytest.mark.parametrize("seed", range(40))
def test_searched_thresholds_are_those_of_the_recursion(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    cut_blocks(monkeypatch, int(rng.choice([1, 100, 1000])), int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    horizon = int(rng.integers(2, 45))
    rule = EmptyGroupRule.parse(str(rng.choice(["zero", "vacuous", "min_count=4"])))
    kind = str(rng.choice(["demographic_parity", "disparate_impact"]))
    kappa = Fraction(int(rng.integers(0, 12)), 20)
    a, b = rng.integers(0, 5, 2)
    start = (int(a + rng.integers(4)), int(a), int(b + rng.integers(4)), int(b)) if rng.integers(2) else (0, 0, 0, 0)
    end = FairEnd(FairnessProperty(kind, kappa, rule), start)
    bounds = WelfareBounds(Fraction(1, 4), Fraction(1, 4) + max(kappa, Fraction(1, 20)))
    end = end if rng.integers(3) else bounds
    times = {horizon, *rng.integers(1, horizon + 1, int(rng.choice([0, 2, 2 * horizon]))).tolist()}
    rate = float(rng.choice([0.02, 0.3, 0.5]))
    inputs = Inputs(("a", "b"), (rate, 1 - rate), tuple(rng.uniform(0.01, 0.99, 2).tolist()))
    assert assert_planes_are_those_of_the_recursion(horizon, inputs, dict.fromkeys(times, end))


def test_a_table_in_a_file_is_that_in_memory(monkeypatch):
    end = FairEnd(FairnessProperty("demographic_parity", Fraction(1, 5)))
    problem = SynthesisProblem(40, False, INPUTS, {40: end})
    in_memory = sweep_layers(problem, "thresholds", None)
    monkeypatch.setattr(solve, "MAPPED_BYTES", 1)
    cut_blocks(monkeypatch, 200, 4)
    in_file = sweep_layers(problem, "thresholds", None)
    assert in_file.peak_bytes < in_memory.peak_bytes
    for expected, mapped in zip(in_memory.actions.positions, in_file.actions.positions, strict=True):
        assert (expected == mapped).all()


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
