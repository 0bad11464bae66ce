"""Inputs that are not known: the worst case by brute force, and shields made anew on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shield_reference import stored

from evenhand.errors import OptionError
from evenhand.shields import (
    EmptyGroupRule,
    FairnessProperty,
    InputEstimator,
    Inputs,
    PeriodicShield,
    ProbabilityRanges,
    ShieldPlan,
    ShieldPolicy,
    resynthesize_rest,
    synthesize,
    synthesize_robust,
)
from support import scaled

Counters = tuple[int, int, int, int]


def moved(state: Counters, group: int, decision: int) -> Counters:
    counters = list(state)
    counters[2 * group] += 1
    counters[2 * group + 1] += decision
    return (counters[0], counters[1], counters[2], counters[3])


def worst_cost(plan: ShieldPlan, ranges: ProbabilityRanges) -> float:
    """The value of the game: an adversary picks one corner of the ranges at every state, and the label's at the end."""
    kept, labelled = plan.property, plan.property.labelled
    corners = ranges.corner_inputs()

    @cache
    def value(t: int, state: Counters) -> float:
        if t in plan.times and not kept.fair(*state):
            return np.inf
        if t == plan.horizon:
            return 0.0
        return max(expectation(t, state, corner) for corner in corners)

    def expectation(t: int, state: Counters, inputs: Inputs) -> float:
        total = 0.0
        for g in (0, 1):
            after = []
            for decision in (0, 1):
                counted = value(t + 1, moved(state, g, decision))
                if labelled:
                    assert ranges.label is not None
                    unseen = value(t + 1, state)
                    if max(counted, unseen) < np.inf:
                        counted = max(share * counted + (1 - share) * unseen for share in ranges.label[g])
                    else:
                        counted = np.inf
                after.append(counted)
            if min(after) == np.inf:
                return np.inf
            for r, (k, cost) in itertools.product((0, 1), enumerate(inputs.costs)):
                share = (inputs.accept[g] if r else 1 - inputs.accept[g]) * inputs.weights[g][r][k]
                total += inputs.rate[g] * share * min(after[r], cost + after[1 - r])
        return total

    return value(0, (0, 0, 0, 0))


def cost_under(policy: ShieldPolicy, at: Callable[[int], Inputs]) -> float:
    """The expected cost of a policy when the inputs at time t are these."""
    labelled = policy.plan.property.labelled
    costs = policy.plan.inputs.costs

    @cache
    def value(t: int, state: Counters) -> float:
        if t == policy.plan.horizon:
            return 0.0
        inputs, total = at(t), 0.0
        for g, r, k in itertools.product((0, 1), (0, 1), range(len(costs))):
            share = inputs.rate[g] * (inputs.accept[g] if r else 1 - inputs.accept[g]) * inputs.weights[g][r][k]
            if share:
                decision = policy.decision(t, state, g, r, costs[k])
                one = inputs.label[g] if labelled and inputs.label else 1.0
                later = one * value(t + 1, moved(state, g, decision)) if one else 0.0
                later += (1 - one) * value(t + 1, state) if one < 1 else 0.0
                total += share * (costs[k] * (decision != r) + later)
        return total

    return value(0, (0, 0, 0, 0))


def ranged(low: float, high: float) -> st.SearchStrategy[tuple[float, float]]:
    ends = st.sampled_from((0.0, 0.2, 0.3, 0.5, 0.75, 1.0))
    return st.tuples(ends, ends).map(lambda pair: (min(pair), max(pair)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[ShieldPlan, ProbabilityRanges]:
    kind = draw(st.sampled_from(("demographic_parity", "disparate_impact", "equal_opportunity")))
    labelled = kind == "equal_opportunity"
    costs, weights = draw(st.sampled_from((((1.0,), ()), ((0.5, 2.0), ((0.3, 0.7), (0.8, 0.2))))))
    inputs = Inputs(("a", "b"), (0.5, 0.5), (0.5, 0.5), (0.5, 0.5), costs, (weights,) * 2 if weights else ())
    inputs = inputs if labelled else Inputs(("a", "b"), (0.5, 0.5), (0.5, 0.5), None, costs, inputs.weights)
    pair = ranged(0, 1)
    label = (draw(pair), draw(pair)) if labelled else None
    ranges = ProbabilityRanges(inputs, draw(pair), (draw(pair), draw(pair)), label)
    kappa = draw(st.sampled_from((Fraction(0), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2))))
    horizon = draw(st.integers(1, 4 if labelled else 6))
    checks = draw(st.sampled_from(("end", "anytime")))
    return ShieldPlan(FairnessProperty(kind, kappa), inputs, horizon, checks=checks), ranges


@settings(max_examples=scaled(80), deadline=None)
@given(cases())
def test_the_worst_case_is_that_of_all_corners(case: tuple[ShieldPlan, ProbabilityRanges]) -> None:
    plan, ranges = case
    expected = worst_cost(plan, ranges)
    if expected == np.inf:
        with pytest.raises(OptionError, match="no shield can keep"):
            synthesize_robust(plan, ranges)
        return
    assert synthesize_robust(plan, ranges).expected_cost == pytest.approx(expected, abs=1e-9)


@settings(max_examples=scaled(30), deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_no_drift_within_the_ranges_costs_more(case: tuple[ShieldPlan, ProbabilityRanges], seed: int) -> None:
    plan, ranges = case
    rng = np.random.default_rng(seed)
    corners = ranges.corner_inputs()
    try:
        policy = synthesize_robust(plan, ranges)
    except OptionError:
        return
    drift = rng.integers(len(corners), size=plan.horizon)
    assert cost_under(policy, lambda t: corners[drift[t]]) <= policy.expected_cost + 1e-9


def test_one_point_is_no_range() -> None:
    for kind in ("demographic_parity", "equal_opportunity"):
        inputs = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), (0.4, 0.6), (0.2, 1.0), (((0.5, 0.5), (0.1, 0.9)),) * 2)
        plan = ShieldPlan(FairnessProperty(kind, Fraction(1, 10)), inputs, 15)
        policy = synthesize_robust(plan, ProbabilityRanges.around_inputs(inputs))
        assert policy.expected_cost == pytest.approx(synthesize(plan).expected_cost, abs=1e-9)
        assert policy.plan.inputs == inputs


def test_ranges_that_make_no_sense_are_refused() -> None:
    inputs = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6))
    with pytest.raises(OptionError, match=r"range from 0\.6 to 0\.5"):
        ProbabilityRanges(inputs, (0.6, 0.5), ((0.1, 0.2), (0.1, 0.2)))
    with pytest.raises(OptionError, match="labels"):
        ProbabilityRanges(inputs, (0.1, 0.5), ((0.1, 0.2), (0.1, 0.2)), ((0.1, 0.2), (0.1, 0.2)))
    other = ProbabilityRanges.around_inputs(Inputs(("x", "y"), (0.3, 0.7), (0.35, 0.6)))
    with pytest.raises(OptionError, match="other groups"):
        synthesize_robust(ShieldPlan(FairnessProperty("demographic_parity", Fraction(1, 10)), inputs, 5), other)


WRONG = Inputs(("a", "b"), (0.9, 0.1), (0.1, 0.95), (0.2, 0.9))
RIGHT = Inputs(("a", "b"), (0.4, 0.6), (0.6, 0.4), (0.7, 0.5))


@pytest.mark.parametrize("kind", ["demographic_parity", "disparate_impact", "equal_opportunity"])
def test_a_shield_made_anew_at_every_step_stays_fair(kind: str) -> None:
    # From every state that a shield for other inputs reaches, a shield for these exists, and its costs add up.
    plan = ShieldPlan(FairnessProperty(kind, Fraction(1, 2), EmptyGroupRule("min_count", 2)), WRONG, 7)
    policy = synthesize(plan)
    states: set[Counters] = {(0, 0, 0, 0)}
    tried = 0
    for t in range(plan.horizon):
        for state in states:
            assert resynthesize_rest(plan, t, state, RIGHT).expected_cost < np.inf
            tried += 1
        after = set(states) if plan.property.labelled else set()
        for state, g, r in itertools.product(states, (0, 1), (0, 1)):
            after.add(moved(state, g, policy.decision(t, state, g, r)))
        states = after
    assert all(plan.property.fair(*state) for state in states)
    assert tried > 50


def test_resumed_from_the_start_is_the_shield_itself() -> None:
    for checks in ("end", "anytime", (3, 5)):
        plan = ShieldPlan(FairnessProperty("demographic_parity", Fraction(1, 4)), WRONG, 7, checks=checks)
        again = resynthesize_rest(plan, 0, (0, 0, 0, 0), RIGHT)
        fresh = synthesize(ShieldPlan(plan.property, RIGHT, 7, checks=checks))
        assert again.expected_cost == fresh.expected_cost
        assert stored(again) == stored(fresh)


def test_resumed_looks_at_the_end_of_its_period() -> None:
    plan = ShieldPlan(FairnessProperty("demographic_parity", Fraction(1, 5)), WRONG, 8, "dynamic", terminal="exempt")
    period = PeriodicShield(plan).begin((3, 1, 3, 1))
    passed = (2, 1, 1, 0)
    policy = resynthesize_rest(period.policy.plan, 3, passed, WRONG, period.end)
    assert policy.plan.start == (5, 2, 4, 1)
    assert policy.plan.horizon == 5
    for state in ((0, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 1)):
        t = state[0] + state[2]
        whole = tuple(one + other for one, other in zip(passed, state, strict=True))
        for g in (0, 1):
            assert policy.action(t, state, g) == period.policy.action(t + 3, whole, g)


def test_resumed_complains_about_what_cannot_be() -> None:
    plan = ShieldPlan(FairnessProperty("demographic_parity", Fraction(1, 10)), WRONG, 5)
    with pytest.raises(OptionError, match="nothing is left"):
        resynthesize_rest(plan, 5, (3, 1, 2, 1), RIGHT)
    with pytest.raises(OptionError, match="no fair end"):
        resynthesize_rest(plan, 4, (2, 2, 2, 0), RIGHT)
    with pytest.raises(OptionError, match="other groups"):
        resynthesize_rest(plan, 0, (0, 0, 0, 0), Inputs(("x", "y"), (0.5, 0.5), (0.5, 0.5)))


def test_estimates_go_from_what_was_expected_to_what_was_seen() -> None:
    estimator = InputEstimator(WRONG, weight=10)
    assert estimator.inputs() == WRONG
    rng = np.random.default_rng(3)
    for group in (rng.random(5000) > RIGHT.rate[0]).astype(int):
        recommendation = int(rng.random() < RIGHT.accept[group])
        estimator.observe(int(group), recommendation, int(rng.random() < RIGHT.label[group]))
    found = estimator.inputs()
    assert found.rate == pytest.approx(RIGHT.rate, abs=0.03)
    assert found.accept == pytest.approx(RIGHT.accept, abs=0.03)
    assert found.label == pytest.approx(RIGHT.label, abs=0.03)


def test_a_group_that_nobody_expected_keeps_its_rates() -> None:
    estimator = InputEstimator(Inputs(("a", "b"), (1.0, 0.0), (0.5, 0.25)), weight=4)
    estimator.observe(0, 1)
    assert estimator.inputs().rate == (1.0, 0.0)
    assert estimator.inputs().accept == (0.6, 0.25)
    with pytest.raises(OptionError, match="weight"):
        InputEstimator(RIGHT, weight=0)
