"""A wider bound on the way to the end: left with the probability that is stated, while the end stays fair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DecisionError, OptionError
from evenhand.shields import (
    EmptyGroupRule,
    FairnessProperty,
    Inputs,
    PeriodicShield,
    Shield,
    ShieldPlan,
    ShieldPolicy,
    ShortTermBound,
    inspect_policy,
    policy_from_bytes,
    policy_to_bytes,
    read_plan,
    simulate_shield,
    synthesize,
)
from evenhand.shields.spec.ends import end_values_of
from evenhand.shields.synthesis.layer import LayerLayout
from evenhand.shields.synthesis.short_term import _Trials, short_term_end
from evenhand.shields.synthesis.solve import SynthesisProblem, solve_problem
from support import scaled

ADULT = Inputs(("women", "men"), (0.331, 0.669), (0.075, 0.252))
UNEVEN = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6))
PARITY = FairnessProperty("demographic_parity", Fraction(1, 10))

Node = tuple[tuple[int, int, int, int], bool]
"""Counters, and whether the short-term bound was ever left."""


def plan(horizon: int, *, inputs: Inputs = UNEVEN, kept: FairnessProperty = PARITY, **short: object) -> ShieldPlan:
    asked = {"kappa": Fraction("0.3"), "first": max(1, horizon // 2), "probability": 0.1} | short
    return ShieldPlan(kept, inputs, horizon, short_term=ShortTermBound(**asked))  # type: ignore[arg-type]  # any field


def arrivals(inputs: Inputs, labelled: bool) -> Iterator[tuple[int, int, float, int, float]]:
    """(group, recommendation, cost, label, probability)."""
    for g, r, k in itertools.product((0, 1), (0, 1), range(len(inputs.costs))):
        share = inputs.rate[g] * (inputs.accept[g] if r else 1 - inputs.accept[g]) * inputs.weights[g][r][k]
        if not labelled or inputs.label is None:
            yield g, r, inputs.costs[k], 1, share
            continue
        for z in (0, 1):
            yield g, r, inputs.costs[k], z, share * (inputs.label[g] if z else 1 - inputs.label[g])


def is_left(asked: ShieldPlan, t: int, counters: tuple[int, int, int, int], before: bool) -> bool:
    """Whether the bound was left by then, by fractions."""
    short = asked.short_term
    assert short is not None
    wider = replace(asked.property, kappa=short.kappa)
    return before or (t >= short.first and wider.bias(*counters) > short.kappa)


def after(counters: tuple[int, int, int, int], group: int, decision: int, label: int) -> tuple[int, int, int, int]:
    counts = list(counters)
    counts[2 * group] += label
    counts[2 * group + 1] += label * decision
    return counts[0], counts[1], counts[2], counts[3]


def followed(policy: ShieldPolicy) -> tuple[float, float, dict[Node, float]]:
    """Expected cost, probability of ever leaving the bound, and the ends, all of them, by the policy's decisions."""
    asked = policy.plan
    layer: dict[Node, float] = {((0, 0, 0, 0), False): 1.0}
    cost = 0.0
    for t in range(asked.horizon):
        later: dict[Node, float] = {}
        for (counters, left), chance in layer.items():
            for g, r, price, z, share in arrivals(asked.inputs, asked.property.labelled):
                y = policy.decision(t, counters, g, r, price, left=left)
                cost += chance * share * price * (y != r)
                now = after(counters, g, y, z)
                node = now, is_left(asked, t + 1, now, left)
                later[node] = later.get(node, 0.0) + chance * share
        layer = later
    return cost, sum(chance for (_, left), chance in layer.items() if left), layer


def least_at_price(asked: ShieldPlan, price: float) -> float:
    """The least expected cost where the first time beyond the bound has a price, by recursion over single states."""
    known: dict[tuple[int, Node], float] = {}

    def value(t: int, counters: tuple[int, int, int, int], left: bool) -> float:
        if t == asked.horizon:
            return 0.0 if asked.property.bias(*counters) <= asked.property.kappa else np.inf
        if (t, (counters, left)) in known:
            return known[t, (counters, left)]
        total = 0.0
        for g, r, c in {(g, r, c) for g, r, c, _, _ in arrivals(asked.inputs, asked.property.labelled)}:
            options = []
            for y in (0, 1):
                worth = c * (y != r)
                for g2, r2, c2, z, share in arrivals(asked.inputs, asked.property.labelled):
                    if (g2, r2, c2) != (g, r, c):
                        continue
                    now = after(counters, g, y, z)
                    gone = is_left(asked, t + 1, now, left)
                    here = value(t + 1, now, gone) + price * (gone and not left)
                    whole = sum(s for g3, r3, c3, _, s in arrivals(asked.inputs, asked.property.labelled)
                                if (g3, r3, c3) == (g, r, c))  # fmt: skip
                    worth += here if np.isinf(here) else share / whole * here
                options.append(worth)
            total += min(options) if np.isinf(min(options)) else whole * min(options)
        known[t, (counters, left)] = total
        return total

    return value(0, (0, 0, 0, 0), False)


def test_worked_example() -> None:
    """One accepted of group a is beyond the bound at once: the first decision on it is what must not be followed."""
    inputs = Inputs(("a", "b"), (0.5, 0.5), (0.5, 0.0))
    kept = FairnessProperty("demographic_parity", Fraction(1, 2))
    free = synthesize(ShieldPlan(kept, inputs, 2))
    asked = ShieldPlan(kept, inputs, 2, short_term=ShortTermBound(Fraction(1, 2), 1, 0.01))
    made = synthesize(asked)
    # Without the bound a first a may be accepted; with it, half of the first people are a, half of them recommended.
    assert free.decision(0, (0, 0, 0, 0), "a", 1) == 1
    assert made.decision(0, (0, 0, 0, 0), "a", 1) == 0
    assert made.outside == 0
    cost, chance, ends = followed(made)
    assert (cost, chance) == (pytest.approx(made.expected_cost), 0)
    assert all(kept.fair(*counters) for counters, _ in ends)


CASES = st.tuples(
    st.sampled_from(["demographic_parity", "disparate_impact", "equal_opportunity"]),
    st.sampled_from(["zero", "vacuous", "min_count=2"]),
    st.sampled_from([(1.0,), (0.5, 2.0)]),
    st.tuples(*[st.floats(0.05, 0.95)] * 5),
    st.integers(2, 5),
)


@given(CASES, st.floats(0.05, 4.0))
@settings(max_examples=scaled(100), deadline=None)
def test_every_price_is_solved_exactly(case: tuple, price: float) -> None:
    """Against a recursion over single states that knows no layers; the chance against the policy's own decisions."""
    kind, empty, costs, (rate, one, other, label, more), horizon = case
    weights = (((0.3, 0.7), (0.6, 0.4)),) * 2 if len(costs) == 2 else ()
    inputs = Inputs(("a", "b"), (rate, 1 - rate), (one, other), (label, more), costs, weights)
    kept = FairnessProperty(kind, Fraction(1, 4), EmptyGroupRule.parse(empty))
    asked = plan(horizon, inputs=inputs, kept=kept, kappa=Fraction(1, 3), first=2)
    problem = SynthesisProblem(horizon, kept.labelled, inputs, {horizon: end_values_of(asked)})
    bound = short_term_end(asked)
    assert bound is not None
    trials = _Trials(problem, bound, LayerLayout(horizon, kept.labelled), solve_problem(problem))
    found = trials.solve(price)
    assert found.cost + price * found.chance == pytest.approx(least_at_price(asked, price), abs=1e-9)
    policy = ShieldPolicy(asked, found.before, found.cost, 0, 0, 0.0, after=found.after, short_from=2)
    cost, chance, ends = followed(policy)
    assert (cost, chance) == (pytest.approx(found.cost, abs=1e-9), pytest.approx(found.chance, abs=1e-9))
    assert all(kept.fair(*counters) for counters, _ in ends)
    inspected = inspect_policy(policy)
    assert inspected.outside == pytest.approx(chance, abs=1e-9)
    assert inspected.expected_cost == pytest.approx(cost, abs=1e-9)
    assert inspected.verified


def test_every_sequence_of_twelve_ends_fair() -> None:
    """All 4^12 sequences of people, through the states that they come to; the bound is left as rarely as stated."""
    made = synthesize(plan(12, kept=FairnessProperty("demographic_parity", Fraction(1, 4)), kappa=Fraction("0.4")))
    cost, chance, ends = followed(made)
    assert made.outside == pytest.approx(chance)
    assert chance <= 0.1
    assert cost == pytest.approx(made.expected_cost)
    assert all(made.plan.property.fair(*counters) for counters, _ in ends)


def test_a_running_shield_takes_every_sequence_to_a_fair_end() -> None:
    made = synthesize(plan(5, kept=FairnessProperty("demographic_parity", Fraction(1, 3)), kappa=Fraction(1, 2)))
    total, beyond = 0.0, 0.0
    for sequence in itertools.product([(g, r, s) for g, r, _, _, s in arrivals(UNEVEN, False)], repeat=5):
        shield = Shield(made)
        counters = (0, 0, 0, 0)
        chance, left = 1.0, False
        for t, (g, r, share) in enumerate(sequence):
            counters = after(counters, g, shield.decide(UNEVEN.groups[g], r).decision, 1)
            left = is_left(made.plan, t + 1, counters, left)
            chance *= share
        assert made.plan.property.fair(*counters)
        total += chance * shield.cost
        beyond += chance * left
    assert (total, beyond) == (pytest.approx(made.expected_cost), pytest.approx(made.outside))


@pytest.mark.parametrize("inputs", [ADULT, UNEVEN], ids=["adult", "uneven"])
def test_a_hundred_decisions_cost_little_more_and_never_leak(inputs: Inputs) -> None:
    """The end stays hard, infinities included, at most 1.10 times the overrides; P is verified by a forward walk."""
    made = synthesize(plan(100, inputs=inputs, kappa=Fraction("0.15"), first=40, probability=0.05))
    plain = synthesize(ShieldPlan(PARITY, inputs, 100))
    found = inspect_policy(made)
    assert found.verified
    assert all(end.unfair == 0 and end.chance == 0 for end in found.ends)
    assert found.outside == pytest.approx(made.outside, rel=1e-9)
    assert found.outside is not None
    assert found.outside <= 0.05
    assert plain.expected_cost <= made.expected_cost <= 1.10 * plain.expected_cost


def test_what_cannot_be_kept_is_refused_with_the_least_that_was_found() -> None:
    # The first decision counts, and what was before is beyond the bound whatever it is.
    asked = plan(12, kept=FairnessProperty("demographic_parity", Fraction(1, 4)), kappa=Fraction("0.3"), first=1)
    with pytest.raises(OptionError, match="leaves it with 1") as refused:
        synthesize(replace(asked, start=(10, 6, 10, 2)))
    assert refused.value.location == "short_term"


def test_files_and_states_say_whether_the_bound_was_left() -> None:
    made = synthesize(plan(12, kept=FairnessProperty("demographic_parity", Fraction(1, 4)), kappa=Fraction("0.4")))
    again = policy_from_bytes(policy_to_bytes(made))
    assert again.digest == made.digest
    assert (again.outside, again.short_from) == (made.outside, made.short_from)
    rng = np.random.default_rng(1)
    for _ in range(40):
        shield, other = Shield(made), Shield(again)
        for group, r in zip(rng.integers(0, 2, 12), rng.integers(0, 2, 12), strict=True):
            other = Shield.restore(again, other.state())
            decided = shield.decide("ab"[group], int(r))
            assert decided == other.decide("ab"[group], int(r))
        assert shield.state() == other.state()
        assert shield.certificate(exact=True).bound <= Fraction(1, 4)
    bad = shield.state()
    bad["course"] = {name: value for name, value in bad["course"].items() if name != "left"}
    with pytest.raises(DecisionError):
        Shield(made).load(bad)


def test_simulated_runs_leave_the_bound_as_often_as_stated() -> None:
    asked = plan(30, kappa=Fraction("0.2"), first=15, probability=0.2)
    made = synthesize(asked)
    result = simulate_shield(made, runs=3000, seed=3)
    assert result.fair_share == 1
    assert result.short_term is not None
    assert made.outside is not None
    assert abs(result.short_term.outside.value - made.outside) < 0.03
    assert abs(result.cost_mean - made.expected_cost) < 0.15


def test_every_period_of_a_dynamic_shield_keeps_the_bound() -> None:
    asked = replace(plan(30, kappa=Fraction("0.2"), first=15, probability=0.2), kind="dynamic")
    first = PeriodicShield(asked).begin()
    assert first.policy.outside is not None
    assert first.policy.outside <= 0.2
    later = PeriodicShield(asked).begin((30, 12, 60, 30))
    assert later.policy.short_from == 1
    assert later.policy.outside is not None
    assert later.policy.outside <= 0.2
    shield = Shield(PeriodicShield(asked))
    rng = np.random.default_rng(2)
    for group, r in zip(rng.integers(0, 2, 75), rng.integers(0, 2, 75), strict=True):
        shield = Shield.restore(PeriodicShield(asked), shield.state())
        shield.decide("ab"[group], int(r))
    assert shield.period == 2


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"short_term": {"kappa": "0.05", "from": 5, "probability": 0.05}}, "narrower"),
        ({"short_term": {"kappa": "0.2", "from": 50, "probability": 0.05}}, "past"),
        ({"short_term": {"kappa": "0.2", "from": 0, "probability": 0.05}}, "less than 1"),
        ({"short_term": {"kappa": "0.2", "from": 5, "probability": 0.95}}, "at most 0.5"),
        ({"short_term": {"kappa": "0.2", "from": 5, "probability": 0}}, "above 0"),
        ({"short_term": {"kappa": "0.2", "form": 5, "probability": 0.1}}, "form"),
        ({"kind": "greedy", "short_term": {"kappa": "0.2", "from": 5, "probability": 0.1}}, "finite, dynamic"),
        ({"nudge": "both"}, "kind energy"),
        ({"energy": {"power": 2}}, "kind energy"),
    ],
)
def test_entries_that_make_no_sense_are_refused(entries: dict, said: str) -> None:
    described = {
        "property": "demographic_parity",
        "kappa": "0.1",
        "horizon": 20,
        "groups": {"a": {"rate": 0.3, "accept": 0.3}, "b": {"rate": 0.7, "accept": 0.6}},
    }
    with pytest.raises(OptionError, match=said):
        read_plan(described | entries)
