import itertools
import json
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import shield_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import Bound, World, least_cost

from evenhand import shields
from evenhand.errors import OptionError
from evenhand.shields import FairnessProperty, Inputs, ShieldPlan, SynthesisProblem, read_plan, synthesize
from evenhand.shields.policy.policy import ACCEPT, FOLLOW, REJECT
from evenhand.shields.policy.tables import PackedTable, ThresholdTable
from evenhand.shields.spec.ends import FairEnd
from evenhand.shields.spec.properties import EmptyGroupRule, parse_kappa
from evenhand.shields.synthesis.solve import sweep_layers
from support import scaled, shared

KINDS = ("demographic_parity", "disparate_impact", "equal_opportunity")
EVEN = Inputs(("a", "b"), (0.3, 0.7), (0.5, 0.5), (0.5, 0.5))


def plan(kind: str = "demographic_parity", kappa: str = "0.1", horizon: int = 10, **options: Any) -> ShieldPlan:
    convention = EmptyGroupRule.parse(options.pop("empty", "zero"))
    return ShieldPlan(
        FairnessProperty(kind, parse_kappa(kappa), convention), options.pop("inputs", EVEN), horizon, **options
    )


# By hand


# Against recursion over whole traces


@st.composite
def worlds(draw: st.DrawFn) -> World:
    share = st.sampled_from((0.0, 0.1, 0.3, 0.5, 0.8, 1.0))
    costs = draw(st.sampled_from(((1.0,), (0.0,), (0.25, 1.0), (0.1, 0.5, 3.0))))
    parts = st.lists(st.integers(0, 4), min_size=len(costs), max_size=len(costs)).filter(any)
    rows = [tuple(part / sum(row) for part in row) for row in (draw(parts) for _ in range(4))]
    weights = ((rows[0], rows[1]), (rows[2], rows[3]))
    return World(draw(share), (draw(share), draw(share)), (draw(share), draw(share)), costs, weights)


@settings(max_examples=scaled(60), deadline=None, derandomize=True)
@given(
    worlds(),
    st.sampled_from(KINDS),
    st.sampled_from(("0", "0.1", "1/3", "0.5")),
    st.sampled_from(("zero", "vacuous", "min_count=2")),
    st.integers(1, 4),
    st.sets(st.integers(1, 4)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_cost_is_that_of_traces(world, kind, kappa, empty, horizon, times, past):
    if len(world.costs) == 3 or kind == "equal_opportunity":
        horizon = min(horizon, 3)
    earlier = (past[0], min(past), past[1], 0)
    checks = tuple(sorted(t for t in times if t <= horizon))
    expected = least_cost(Bound(kind, Fraction(kappa), empty), world, horizon, earlier, checks)
    inputs = Inputs(("a", "b"), (world.rate, 1 - world.rate), world.accept, world.label, world.costs, world.weights)
    asked = plan(kind, kappa, horizon, empty=empty, inputs=inputs, checks=checks or "end", start=earlier)
    if expected == float("inf"):
        with pytest.raises(OptionError, match="no shield can guarantee"):
            synthesize(asked)
    else:
        assert synthesize(asked).expected_cost == pytest.approx(expected, abs=1e-8)


def test_costs_of_the_shared_cases():
    cases = json.loads(shared("data", "shields", "expected.json").read_text())["cases"]
    for case in cases:
        shares = {"a": case["group_a_rate"], "b": 1 - case["group_a_rate"]}
        groups = {name: {"rate": shares[name], "accept": case[f"accept_{name}"]} for name in "ab"}
        for name in "ab":
            if f"label_{name}" in case:
                groups[name]["label"] = case[f"label_{name}"]
        keys = ("property", "kappa", "horizon", "empty_group", "cost")
        given = {key: case[key] for key in keys} | {"groups": groups}
        if case["horizon"] == 5 and case["empty_group"].startswith("min_count"):  # no run has so many of both groups
            assert case["expected_cost"] == 0
            with pytest.raises(OptionError, match="would guarantee nothing"):
                read_plan(given)
            continue
        assert synthesize(read_plan(given)).expected_cost == pytest.approx(case["expected_cost"], abs=1e-6), case
    assert len(cases) == 43


# What a later stage needs: any terminal, any inputs over time


class Anything:
    """Worth that follows no order, so that no thresholds store what is best."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.known: dict[tuple[int, int], np.ndarray] = {}

    def values(self, n_a: int, n_b: int) -> np.ndarray:
        if (n_a, n_b) not in self.known:
            drawn = self.rng.uniform(0, 3, (n_a + 1, n_b + 1))
            drawn[self.rng.uniform(size=drawn.shape) < 0.2] = np.inf
            drawn[0, 0] = 1.0
            self.known[n_a, n_b] = drawn
        return self.known[n_a, n_b]


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("costs", [(0.7,), (0.2, 0.5, 1.5)])
@pytest.mark.parametrize("seed", range(3))
def test_terminals_of_any_shape(labelled, costs, seed):
    horizon = 6
    rng = np.random.default_rng(seed)

    def shares(n: int) -> tuple[float, ...]:
        return tuple(rng.dirichlet(np.ones(n)))

    rows = [shares(len(costs)) for _ in range(4)]
    accept, label = rng.uniform(size=2), rng.uniform(size=2)
    inputs = Inputs(("a", "b"), shares(2), tuple(accept), tuple(label), costs, ((rows[0], rows[1]), (rows[2], rows[3])))
    end, middle = Anything(seed), Anything(seed + 100)
    solution = shields.solve_problem(SynthesisProblem(horizon, labelled, inputs, {3: middle, horizon: end}))

    def worth(t: int, state: tuple[int, ...]) -> float:
        n_a, a, n_b, b = state
        terminal = {3: middle, horizon: end}.get(t)
        return 0.0 if terminal is None else float(terminal.values(n_a, n_b)[a, b])

    expected = shield_reference.least_cost(lambda _: inputs, horizon, worth, labelled=labelled)
    assert solution.value == pytest.approx(expected, abs=1e-7)
    assert isinstance(solution.actions, PackedTable)


# Tables


class Crossed:
    """After one of each group, more accepted of the one make it worth less to accept the other."""

    def __init__(self, of_a: bool) -> None:
        worth = np.array([[1.5, 0.0], [1.0, 0.5]])
        self.worth = worth.T if of_a else worth

    def values(self, n_a: int, n_b: int) -> np.ndarray:
        return self.worth if n_a == n_b == 1 else np.zeros((n_a + 1, n_b + 1))


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("of_a", [False, True])
def test_a_level_that_falls_is_not_stored_as_thresholds(labelled, of_a):
    # Accepting gains 1.5, more than its cost of 1, and after an acceptance of the other group 0.5. The other group's
    # gains are 0.5 and -0.5: followed both times, so that only one group's levels fall.
    problem = SynthesisProblem(2, labelled, replace(EVEN, label=(1.0, 1.0)), {2: Crossed(of_a)})
    assert sweep_layers(problem, "thresholds", None) is None
    policy = shields.solve_problem(problem).actions
    one, other = ((0, 0, 1, 0), (0, 0, 1, 1)) if of_a else ((1, 0, 0, 0), (1, 1, 0, 0))
    group = 0 if of_a else 1
    assert (policy.level(1, one, group), policy.level(1, other, group)) == (ACCEPT, FOLLOW)


def live(kind: str, kept: FairEnd, horizon: int) -> list[dict[tuple[int, int, int, int], tuple[bool, bool]]]:
    """By time, the states from which the end can be kept, group by group: by sets, not by values."""
    labelled = kind == "equal_opportunity"
    fair = {
        state
        for n_a, n_b in itertools.product(range(horizon + 1), repeat=2)
        if (n_a + n_b <= horizon if labelled else n_a + n_b == horizon)
        for a, b in itertools.product(range(n_a + 1), range(n_b + 1))
        if kept.property.fair(*(state := (n_a, a, n_b, b)))
    }
    layers = []
    for t in reversed(range(horizon)):
        alive = {}
        for n_a in range(t + 1):
            for n_b in range(t - n_a + 1) if labelled else (t - n_a,):
                for a, b in itertools.product(range(n_a + 1), range(n_b + 1)):
                    stays = not labelled or (n_a, a, n_b, b) in fair
                    of_a = stays and bool({(n_a + 1, a, n_b, b), (n_a + 1, a + 1, n_b, b)} & fair)
                    of_b = stays and bool({(n_a, a, n_b + 1, b), (n_a, a, n_b + 1, b + 1)} & fair)
                    alive[n_a, a, n_b, b] = (of_a, of_b)
        layers.append(alive)
        fair = {state for state, groups in alive.items() if all(groups)}
    return layers[::-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kappa", ["0.1", "0.2"])
@pytest.mark.parametrize("costs", [(1.0,), (0.3, 0.9, 2.0)])
def test_thresholds_give_back_every_live_action(kind, kappa, costs):
    horizon = 12 if kind == "equal_opportunity" else 20
    weights = ((tuple([1 / len(costs)] * len(costs)),) * 2,) * 2
    inputs = Inputs(("a", "b"), (0.4, 0.6), (0.35, 0.6), (0.4, 0.6), costs, weights)
    kept = FairEnd(FairnessProperty(kind, parse_kappa(kappa), EmptyGroupRule("min_count", 2)))
    problem = SynthesisProblem(horizon, kind == "equal_opportunity", inputs, {horizon: kept})
    compact, whole = sweep_layers(problem, "thresholds", None), sweep_layers(problem, "packed", None)
    assert compact is not None
    assert whole is not None
    assert isinstance(compact.actions, ThresholdTable)
    assert isinstance(whole.actions, PackedTable)
    assert compact.value == whole.value
    seen = set()
    for t, layer in enumerate(live(kind, kept, horizon)):
        for state, groups in layer.items():
            for group in (0, 1):
                if groups[group]:
                    level = whole.actions.level(t, state, group)
                    assert compact.actions.level(t, state, group) == level
                    seen.add(level)
    assert seen >= {-len(costs), 0, len(costs)}
    assert len(costs) == 1 or len(seen) > 3


def test_positions_beyond_a_byte():
    # After 1 of 1, one more acceptance needs 99 % of the other group, 256 of 258; a rejection half of it.
    policy = synthesize(plan(horizon=260, kappa="0.01"))
    assert isinstance(policy.actions, ThresholdTable)
    assert policy.actions.positions[0].dtype == np.uint16
    assert policy.action(259, (1, 1, 258, 256), "a") == policy.action(259, (1, 1, 258, 258), "a") == ACCEPT
    assert policy.action(259, (1, 1, 258, 129), "a") == REJECT
    assert policy.action(259, (129, 0, 130, 0), "b") == FOLLOW


def test_memory_of_synthesis():
    for kind, horizon, most in (("demographic_parity", 100, 6e6), ("equal_opportunity", 75, 20e6)):
        synthesize(plan(kind, horizon=3))  # compiled before it is measured
        synthesize(plan(kind, horizon=20))
        tracemalloc.start()
        policy = synthesize(plan(kind, horizon=horizon))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert policy.peak_bytes <= peak <= most
        assert peak < 1.5 * policy.peak_bytes


# Overrides only where they are forced


@pytest.mark.parametrize("kind", KINDS)
def test_a_feasibility_shield_knows_no_inputs(kind):
    horizon = 9
    first = synthesize(replace(plan(kind, "0.2", horizon), kind="feasible"))
    other = replace(EVEN, rate=(0.9, 0.1), accept=(0.1, 0.95), label=(0.2, 0.9))
    second = synthesize(replace(plan(kind, "0.2", horizon, inputs=other), kind="feasible"))
    assert shield_reference.stored(first) == shield_reference.stored(second)
    assert first.expected_cost >= synthesize(plan(kind, "0.2", horizon)).expected_cost
    for t, layer in enumerate(live(kind, FairEnd(first.plan.property), horizon)):
        following = live_after(first, t)
        for state, groups in layer.items():
            for group in (0, 1):
                if all(groups):
                    rejected, accepted = following(state, group)
                    assert first.action(t, state, group) == (0 if rejected and accepted else 1 if accepted else -1)


def live_after(policy: shields.ShieldPolicy, t: int) -> Any:
    """Whether the end can still be kept after a rejection and after an acceptance."""
    kept, horizon = policy.plan.property, policy.plan.horizon
    layers = live(kept.kind, FairEnd(kept), horizon)

    def can(state: tuple[int, ...]) -> bool:
        return kept.fair(*state) if t + 1 == horizon else all(layers[t + 1][state])

    def after(state: tuple[int, ...], group: int) -> tuple[bool, bool]:
        found = []
        for decision in (0, 1):
            counts = list(state)
            counts[2 * group] += 1
            counts[2 * group + 1] += decision
            found.append(can(tuple(counts)) and (not kept.labelled or can(state)))
        return found[0], found[1]

    return after


# Policies


def test_a_decision_overrides_up_to_its_level():
    weights = (((0.5, 0.5), (0.5, 0.5)),) * 2
    inputs = Inputs(("a", "b"), (0.5, 0.5), (0.1, 0.9), costs=(0.1, 5.0), weights=weights)
    policy = synthesize(plan(horizon=12, inputs=inputs, empty="vacuous"))
    levels = {}
    for t, layer in enumerate(live("demographic_parity", FairEnd(policy.plan.property), 12)):
        for state, groups in layer.items():
            if all(groups):
                levels[policy.action(t, state, "a")] = (t, state)
    for level, (t, state) in levels.items():
        for cost, least in ((0.1, 1), (5.0, 2), (99.0, 2)):
            assert policy.decision(t, state, "a", 0, cost) == (1 if level >= least else 0)
            assert policy.decision(t, state, "a", 1, cost) == (0 if level <= -least else 1)
    assert set(levels) >= {-2, 0, 1, 2}
    with pytest.raises(OptionError, match="cost"):
        policy.decision(0, (0, 0, 0, 0), "a", 0)


def test_counters_that_cannot_be_are_refused():
    policy = synthesize(plan(horizon=5))
    for t, counters in ((5, (3, 0, 2, 0)), (-1, (0, 0, 0, 0)), (2, (1, 0, 0, 0)), (2, (1, 2, 1, 0)), (1, (1, 0))):
        with pytest.raises(OptionError):
            policy.action(t, counters, "a")
    for group in ("c", 2, -1):
        with pytest.raises(OptionError, match="unknown group"):
            policy.action(0, (0, 0, 0, 0), group)


def test_a_start_from_which_nothing_can_be_kept():
    with pytest.raises(OptionError, match="no shield can guarantee"):
        synthesize(plan(horizon=2, start=(50, 50, 50, 0)))
