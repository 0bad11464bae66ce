"""What a running certificate claims is true of every run: every order of people is tried, and assumptions counted anew.

The assumptions of the static shields are written down here once more, in the words of the paper; of what a shield says
about itself only its claims are used.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

import pytest
from guarantee_cases import KINDS, ONE_COST, fair, plan
from hypothesis import example, given, settings
from hypothesis import strategies as st
from traces import Bound

from evenhand.shields import PeriodicShield, Shield, ShieldCertificate, read_plan, synthesize
from evenhand.shields.runtime.certificate import PROMPT_FROM_HERE, PROMPT_LABELS
from support import scaled

UNCONDITIONAL = ("", PROMPT_LABELS, PROMPT_FROM_HERE)
"""Assumptions that say nothing about who comes."""


def assumed(made: PeriodicShield, counts: tuple[int, int], said: ShieldCertificate) -> bool:
    """Whether a period that ended with so many of each group keeps the assumption, as the paper has it."""
    if made.plan.kind == "static-fair":
        return 2 * counts[0] == 2 * counts[1] == made.plan.horizon
    if made.bounds is not None:
        return min(counts) >= ceil(1 / (made.bounds.upper - made.bounds.lower))
    return said.assumption_held is not False


class Ends(NamedTuple):
    """What can come from a state on.

    Attributes:
        now: this period can end unfair; held: with the assumption held in it and all before.
        later: a later one can end unfair, with the assumption held until then; anyhow: or without.
    """

    now: bool = False
    held: bool = False
    later: bool = False
    anyhow: bool = False

    def __or__(self, other: Any) -> Ends:
        return Ends(*(one or two for one, two in zip(self, other, strict=True)))


class EveryRun:
    """All runs of a shield over some periods, whatever people, recommendations and labels come."""

    def __init__(self, kind: str, bound: Bound, horizon: int, **options: Any) -> None:
        self.bound = bound
        self.made = PeriodicShield(plan(bound, ONE_COST[0], horizon, kind=kind, **options))
        self.shield = Shield(self.made)
        self.known: dict[str, Ends] = {}
        self.claims: set[str] = set()
        self.unfair = False

    def after(self, state: dict[str, Any], group: str, recommendation: int, label: int) -> dict[str, Any]:
        self.shield.load(state)
        number = 1000 * state["course"]["period"] + state["course"]["step"]
        self.shield.decide(group, recommendation, id=number)
        if self.bound.labelled:
            self.shield.observe(number, label)
        return self.shield.state()

    def ends(self, state: dict[str, Any], held: bool, periods: int) -> Ends:
        """Compare every claim from a state on with what can come in this and so many periods in all."""
        course = state["course"]
        key = str([course["past"], course["held"], course["step"], course["counters"], held, periods])
        if key in self.known:
            return self.known[key]
        self.shield.load(state)
        said = self.shield.certificate()
        found = Ends()
        labels = (0, 1) if self.bound.labelled else (1,)
        done = said.step == said.horizon
        if done:
            held = held and assumed(self.made, (course["counters"][0], course["counters"][2]), said)
        if not done or periods > 1:
            for arrival in itertools.product("ab", (0, 1), labels):
                found |= self.ends(self.after(state, *arrival), held, periods - done)
        if done:
            later = Ends(later=found.held or found.later, anyhow=found.now or found.anyhow)
            totals = tuple(old + new for old, new in zip(course["past"], course["counters"], strict=True))
            unfair = not fair(self.bound, totals)
            assert said.bound is not None
            assert (said.bound > self.bound.kappa) == unfair
            found = later | Ends(now=unfair, held=unfair and held)
            self.unfair |= unfair
        elif said.bound is not None and said.bound <= self.bound.kappa:
            assert not found.now, (self.bound, state, said)
            self.claims.add("bound")
        if said.later is not None:
            assert said.later == self.bound.kappa
            assert not found.later, (self.bound, state, said)
            self.claims.add("later")
            if said.assumption in UNCONDITIONAL:
                assert not found.anyhow, (self.bound, state, said)
                self.claims.add("settled")
        self.known[key] = found
        return found

    def check(self, periods: int) -> EveryRun:
        state = self.shield.state()
        # What was carried over counts as a period that has been.
        start = self.made.plan.start
        held = not any(start) or self.shield.certificate().assumption_held is not False
        self.ends(state, held, periods)
        return self


CASES = [
    (kind, measure, kappa, empty, horizon)
    for kind in ("static-fair", "static-bw", "dynamic", "greedy")
    for measure in KINDS
    for kappa in ("1/4", "1/2")
    for empty in ("zero", "vacuous", "min_count=1", "min_count=2", "min_count=3", "min_count=5")
    for horizon in (2, 3, 4)
    if horizon < 4 or measure != "equal_opportunity"
]
# In the short run one horizon of every kind and convention.
SHORT = [
    (kind, KINDS[(one + two) % 2], "1/2" if one % 2 else "1/4", empty, 2 + (one + two) % 2)
    for one, kind in enumerate(("static-fair", "static-bw", "dynamic", "greedy"))
    for two, empty in enumerate(("zero", "vacuous", "min_count=1", "min_count=2", "min_count=3"))
]
SHORT += [
    ("static-fair", "demographic_parity", "1/4", "min_count=3", 4),
    ("static-bw", "disparate_impact", "1/2", "min_count=3", 4),
    ("static-fair", "equal_opportunity", "1/2", "min_count=2", 2),
    ("dynamic", "equal_opportunity", "1/2", "min_count=2", 2),
]


@pytest.mark.parametrize(("kind", "measure", "kappa", "empty", "horizon"), SHORT)
def test_no_run_refutes_a_claim(kind, measure, kappa, empty, horizon):
    seen = EveryRun(kind, Bound(measure, Fraction(kappa), empty), horizon).check(2)
    assert len(seen.known) > 20
    assert seen.claims or kind == "greedy" or seen.unfair or empty != "zero"


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "measure", "kappa", "empty", "horizon"),
    # Every tenth with the full tests, the others with the slow ones.
    [case if i % 10 == 0 else pytest.param(*case, marks=pytest.mark.slow) for i, case in enumerate(CASES)],
)
def test_no_run_refutes_a_claim_over_all_small_cases(kind, measure, kappa, empty, horizon):
    EveryRun(kind, Bound(measure, Fraction(kappa), empty), horizon).check(3 if horizon == 2 else 2)


@pytest.mark.parametrize("start", [(2, 2, 2, 0), (3, 0, 3, 0), (4, 4, 1, 0), (2, 1, 2, 1)])
@pytest.mark.parametrize("kind", ["static-fair", "static-bw", "dynamic"])
def test_what_was_before_the_first_period_counts_in_its_claims(kind, start):
    EveryRun(kind, Bound("demographic_parity", Fraction(1, 2), "zero"), 4, start=start).check(2)


def walk(shield: Shield, arrivals: list[tuple[str, int]]) -> list[ShieldCertificate]:
    said = []
    for group, recommendation in arrivals:
        shield.decide(group, recommendation)
        said.append(shield.certificate())
    return said


def asked(**changes: Any) -> dict[str, Any]:
    groups = {"a": {"rate": 0.5, "accept": 0.5}, "b": {"rate": 0.5, "accept": 0.5}}
    return {"property": "demographic_parity", "kappa": "0.2", "horizon": 20, "groups": groups, **changes}


def test_a_period_that_is_not_judged_supports_no_claim_about_later_ones():
    """Found in use: 20 decisions, 10 on each group, are never judged with min_count=12, and may be as unfair as any."""
    bound = Bound("demographic_parity", Fraction(1, 5), "min_count=12")
    made = PeriodicShield(plan(bound, ONE_COST[0], 20, kind="static-fair"))
    said = walk(Shield(made), [("a", 1), ("b", 0)] * 20)
    assert said[-1].bias == 1
    assert {one.later for one in said} == {None}
    assert {one.assumption_held for one in said} == {False}
    assert "fewer than 12 of a group are not judged" in said[-1].summary()


def test_periods_with_an_odd_number_of_decisions_are_never_balanced():
    shield = Shield(synthesize(read_plan(asked(kind="static-fair", horizon=5))))
    assert shield.certificate().later is None
    assert "5 decisions cannot be halved" in shield.certificate().assumption


def test_an_assumption_that_can_no_longer_hold_is_said_at_once():
    fair_ = walk(Shield(synthesize(read_plan(asked(kind="static-fair", horizon=4)))), [("a", 0)] * 4)
    assert [one.later for one in fair_] == [Fraction(1, 5)] * 2 + [None] * 2
    assert [one.assumption_held for one in fair_] == [True, True, False, False]
    bounded = walk(Shield(synthesize(read_plan(asked(kind="static-bw", horizon=12)))), [("a", 0)] * 9)
    assert [one.assumption_held for one in bounded] == [True] * 7 + [False] * 2
    groups = {name: {"rate": 1 / 3, "accept": 0.5} for name in "abc"}
    several = Shield(synthesize(read_plan(asked(kind="static-bw", horizon=16, groups=groups))))
    assert [one.assumption_held for one in walk(several, [("a", 0)] * 8)] == [True] * 6 + [False] * 2
    few = Shield(synthesize(read_plan(asked(kind="static-bw", horizon=14, groups=groups))))
    assert few.certificate().later is None
    assert "3 groups of 5 are more than the 14 decisions" in few.certificate().assumption


def test_counters_outside_the_bounds_at_the_start_support_no_claim():
    groups = {name: {"rate": 1 / 3, "accept": 0.5} for name in "abc"}
    for start, held in (({"a": [10, 5], "b": [8, 4], "c": [2, 1]}, True), ({"a": [10, 9], "b": [8, 0]}, False)):
        shield = Shield(synthesize(read_plan(asked(kind="static-bw", horizon=16, groups=groups, start=start))))
        assert (shield.certificate().later is not None) == held


ARRIVALS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=36)


@settings(max_examples=scaled(400), deadline=None)
@given(
    kind=st.sampled_from(["static-fair", "static-bw", "dynamic", "greedy"]),
    measure=st.sampled_from(KINDS),
    kappa=st.sampled_from(["1/10", "1/5", "1/4", "1/3", "1/2", "3/4"]),
    empty=st.sampled_from(["zero", "vacuous", *(f"min_count={number}" for number in range(1, 9))]),
    horizon=st.integers(1, 10),
    terminal=st.sampled_from(["strict", "exempt", "soft"]),
    late=st.integers(0, 2),
    arrivals=ARRIVALS,
)
@example("static-fair", "demographic_parity", "1/5", "min_count=6", 10, "strict", 0, [("a", 1, 1), ("b", 0, 1)] * 18)
@example("dynamic", "equal_opportunity", "1/2", "min_count=6", 6, "strict", 2, [("a", 1, 1), ("b", 0, 1)] * 18)
def test_claims_of_long_runs_come_true(kind, measure, kappa, empty, horizon, terminal, late, arrivals):
    """Where labels come late, claims made before are void, as they rest on prompt labels; those made after are not."""
    bound = Bound(measure, Fraction(kappa), empty)
    made = PeriodicShield(plan(bound, ONE_COST[0], horizon, kind=kind, terminal=terminal))
    shield = Shield(made)
    this: list[Fraction] = []
    later: list[tuple[int, bool]] = []
    held = True
    waiting: list[tuple[int, int]] = []
    for number, (group, recommendation, label) in enumerate(arrivals):
        if waiting:
            this, later = [], []
        shield.decide(group, recommendation, id=number)
        waiting += [(number, label)] if bound.labelled else []
        while len(waiting) > (late if number % 3 else 0):
            shield.observe(*waiting.pop(0))
        said = shield.certificate()
        if said.step == horizon:
            now = shield.counters
            held = held and assumed(made, (now[0], now[2]), said)
            assert said.bound is not None
            assert all(said.bias <= claim for claim in this)
            for period, settled in later:
                assert period == said.period or said.bias <= bound.kappa or not (held or settled)
            this = []
        elif said.bound is not None:
            this.append(said.bound)
        if said.later is not None:
            assert kind != "greedy"
            later.append((said.period, said.assumption in UNCONDITIONAL))
