"""Certificates of a running shield, and labels that are still open."""

import copy
import itertools
import sys
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_shield import plan, policy

from evenhand import shields
from evenhand.errors import DecisionError, LimitError, OptionError
from evenhand.shields import FairnessProperty, PeriodicShield, Shield, ShieldPlan, ShieldPolicy, read_plan, synthesize
from evenhand.shields.runtime import shield as shield_module
from evenhand.shields.runtime.certificate import PROMPT_LABELS
from evenhand.shields.runtime.reachable_states import LiveStates
from evenhand.shields.spec.configuration import plan_from_mapping, plan_to_mapping
from evenhand.shields.spec.ends import end_values_of
from evenhand.shields.spec.properties import EmptyGroupRule
from support import scaled, shortened

FINITE = [
    {"horizon": 5},
    {"horizon": 6, "kappa": "0.5", "empty": "vacuous"},
    {"horizon": 5, "kind": "disparate_impact", "empty": "min_count=2"},
    {"horizon": 4, "costs": (0.25, 1.0), "kappa": "0.34"},
    {"horizon": 5, "plan_kind": "feasible", "checks": "anytime", "kappa": "0.5"},
    {"horizon": 4, "kind": "equal_opportunity", "kappa": "0.5"},
    {"horizon": 4, "kind": "equal_opportunity", "empty": "min_count=1", "costs": (0.25, 1.0)},
]


class Futures:
    """Every future of a shield, by letting it decide: the worst bias at the end of its period, from any state.

    A label comes right after its decision.
    """

    def __init__(self, shield, kept, costs, ends=1):
        self.shield, self.kept, self.costs, self.ends = shield, kept, costs, ends
        self.known = {}
        self.visited = 0
        self.attained = set()

    def after(self, state, group, recommendation, cost, label):
        self.shield.load(state)
        self.shield.decide(group, recommendation, cost, id="one")
        if self.kept.labelled:
            self.shield.observe("one", label)
        # What is remembered of ids plays no part in what comes.
        return {**self.shield.state(), "ids": []}

    def worst(self, state):
        """The largest bias at the end of the period; every certificate on the way is checked."""
        course = state["course"]
        key = str([course[name] for name in ("past", "period", "held", "step", "counters")])
        if key in self.known:
            return self.known[key]
        self.shield.load(resealed(state))
        plain, exact = self.shield.certificate(), self.shield.certificate(exact=True)
        if plain.step == plain.horizon:
            found = plain.bias
        else:
            labels = (0, 1) if self.kept.labelled else (1,)
            found = max(
                self.worst(resealed(self.after(resealed(state), *arrival)))
                for arrival in itertools.product("ab", (0, 1), self.costs, labels)
            )
        self.known[key] = found
        self.visited += 1
        self.attained.add(exact.bound == plain.bound)
        assert plain.bound is not None
        assert found <= plain.bound
        assert exact.bound == found if exact.exact else found <= exact.bound
        if plain.step == plain.horizon and plain.assumption_held is not False and plain.assumption:
            assert found <= self.kept.kappa
        return found


def resealed(state):
    """A state whose ids were left out, with its checksum."""
    from evenhand.core.canonical_json import hash_json

    state = {key: value for key, value in state.items() if key != "checksum"}
    return {**state, "checksum": hash_json(state)}


@pytest.mark.parametrize("which", FINITE, ids=str)
def test_every_future_of_one_horizon(which):
    made = policy(**which)
    kept = made.plan.property
    futures = Futures(Shield(made), kept, made.plan.inputs.costs)
    assert futures.worst(Shield(made).state()) <= kept.kappa
    assert futures.visited > 20
    # The exact bound says more than kappa somewhere.
    assert futures.attained == {True, False}


PERIODIC = [
    *({"plan_kind": kind, "horizon": 4, "kappa": "0.25"} for kind in ("static-fair", "greedy")),
    {"plan_kind": "static-bw", "horizon": 4, "kappa": "0.5"},
    {"plan_kind": "static-fair", "horizon": 4, "kappa": "0.5", "empty": "min_count=2"},
    {"plan_kind": "static-fair", "horizon": 4, "kind": "disparate_impact"},
    {"plan_kind": "static-bw", "horizon": 4, "kappa": "0.9", "kind": "disparate_impact"},
    {"plan_kind": "static-fair", "horizon": 3, "kind": "equal_opportunity", "kappa": "0.5"},
    {"plan_kind": "static-bw", "horizon": 2, "kind": "equal_opportunity", "kappa": "1"},
    {"plan_kind": "dynamic", "horizon": 4, "kappa": "0.25"},
    {"plan_kind": "dynamic", "horizon": 3, "kappa": "0.75", "terminal": "exempt", "periods": 3, "settles": True},
    {"plan_kind": "dynamic", "horizon": 4, "kappa": "0.25", "terminal": "soft"},
    {"plan_kind": "dynamic", "horizon": 3, "kind": "equal_opportunity", "kappa": "0.5"},
]


# Those with the most futures are gone through in the full run alone.
LONG = (PERIODIC[2], PERIODIC[9])


def key_of(state):
    """All but what was recommended, which decides nothing."""
    course = state["course"]
    return str([course[name] for name in ("period", "past", "held", "step", "counters")])


@pytest.mark.parametrize("which", shortened(PERIODIC, to=lambda which: which not in LONG), ids=str)
def test_every_future_of_several_periods(which):
    made = PeriodicShield(plan(**{key: value for key, value in which.items() if key not in ("periods", "settles")}))
    kept, costs, horizon = made.plan.property, made.plan.inputs.costs, made.plan.horizon
    shield = Shield(made)
    futures = Futures(shield, kept, costs)
    labels = (0, 1) if kept.labelled else (1,)
    states, promised = {"": shield.state()}, set()
    proved = 0
    for _ in range(which.get("periods", 2) * horizon):
        following, still = {}, set()
        for name, state in states.items():
            worst = futures.worst(state)
            shield.load(state)
            said = shield.certificate()
            if said.step == horizon:
                proved += name in promised
                assert worst <= kept.kappa or name not in promised
            settled = said.later is not None and said.assumption in ("", PROMPT_LABELS)
            for arrival in itertools.product("ab", (0, 1), costs, labels):
                after = resealed(futures.after(state, *arrival))
                following[key_of(after)] = after
                if name in promised or (settled and said.step == horizon):
                    still.add(key_of(after))
        # A state that is also reached without the promise has it all the same: it is the same state.
        states, promised = following, still
    for name, state in states.items():
        worst = futures.worst(state)
        proved += name in promised
        assert worst <= kept.kappa or name not in promised
    assert futures.visited > 50
    assert proved or not which.get("settles")


def test_too_many_futures_are_refused():
    shield = Shield(policy("equal_opportunity", horizon=4))
    from evenhand.shields.runtime import reachable_states

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reachable_states, "MAX_STATE_CODES", 10)
        with pytest.raises(LimitError, match="4 decisions before the end"):
            shield.certificate(exact=True)


def test_what_a_certificate_says():
    shield = Shield(policy(horizon=6, kappa="0.2"))
    shield.decide("a", 1)
    said = shield.certificate()
    assert said.to_dict()["bound_exact"] == "1/5"
    absent = ("bound_later", "how_later", "assumption", "assumption_held")
    assert [said.to_dict()[name] for name in absent] == [None] * 4
    assert [words for _, words in said.describe(said.to_dict())] == said.summary().splitlines()[1:]
    assert said.describe(said.to_dict())[0][0] == "proved"
    advice = Shield(policy(horizon=6, kappa="0.2"), advisory=True).certificate()
    assert advice.describe(advice.to_dict())[0][0] == "unknown"


GROUPS = {"a": {"rate": 0.5, "accept": 0.3}, "b": {"rate": 0.5, "accept": 0.6}}
PERIODS = {"property": "demographic_parity", "kappa": "0.2", "horizon": 10, "groups": GROUPS}


@pytest.mark.parametrize(
    ("kind", "held"), [("dynamic", True), ("static-fair", False), ("static-bw", False), ("greedy", None)]
)
def test_later_periods_have_a_bound_or_a_reason_for_none(kind, held):
    shield = Shield(PeriodicShield(read_plan({**PERIODS, "kind": kind})))
    for _ in range(8):
        shield.decide("a", 1)
    said = shield.certificate()
    assert (said.assumption_held, said.later) == (held, Fraction(1, 5) if held else None)
    assert said.how_later
    assert [kind for kind, _ in said.describe(said.to_dict())] == ["proved", "proved" if held else "unknown"]
    advice = Shield(PeriodicShield(read_plan({**PERIODS, "kind": kind})), advisory=True).certificate()
    assert [kind for kind, _ in advice.describe(advice.to_dict())] == ["unknown"] * 2


ANY_WAIT = 10**9


def plan_of(groups: str = "ab", **entries: Any) -> ShieldPlan:
    members = {name: {"rate": 1 / len(groups), "accept": 0.5, "label": 0.5} for name in groups}
    return read_plan({"property": "equal_opportunity", "kappa": "1/3", "horizon": 8, "groups": members, **entries})


@cache
def made(groups: str, kind: str, horizon: int, wait: int) -> ShieldPolicy | PeriodicShield:
    plan = plan_of(groups, kind=kind, horizon=horizon, labels={"wait": wait})
    return PeriodicShield(plan) if plan.makes_periods else synthesize(plan)


def slow_worst_bias(kept: FairnessProperty, counters: tuple[int, ...], open_labels: tuple[int, ...]) -> Fraction:
    """Compute the largest bias by trying every pair of outcomes that are extreme for their number of labels 1."""
    outcomes = [
        [
            (n + more, k + accepted)
            for more in range(rejected_open + accepted_open + 1)
            for accepted in {max(0, more - rejected_open), min(more, accepted_open)}
        ]
        for n, k, rejected_open, accepted_open in (
            (*counters[:2], *open_labels[:2]),
            (*counters[2:], *open_labels[2:]),
        )
    ]
    return max(kept.bias(*first, *second) for first in outcomes[0] for second in outcomes[1])


@settings(max_examples=scaled(400))
@given(
    kind=st.sampled_from(["equal_opportunity", "demographic_parity", "disparate_impact"]),
    empty=st.sampled_from(["zero", "vacuous", "min_count=1", "min_count=4", "min_count=12"]),
    groups=st.tuples(*[st.tuples(st.integers(0, 12), st.floats(0, 1), st.integers(0, 9), st.integers(0, 9))] * 2),
)
def test_the_largest_bias_is_that_of_all_outcomes(kind, empty, groups):
    kept = FairnessProperty(kind, Fraction(1, 10), EmptyGroupRule.parse(empty))
    counters = tuple(count for n, share, _, _ in groups for count in (n, round(n * share)))
    open_labels = tuple(count for _, _, rejected, accepted in groups for count in (rejected, accepted))
    assert kept.bias(*counters, open_labels=open_labels) == slow_worst_bias(kept, counters, open_labels)


@pytest.mark.parametrize("groups", ["ab", "abc"])
def test_a_certificate_costs_the_same_with_any_number_of_open_labels(groups):
    shield = Shield(made(groups, "dynamic", 6, ANY_WAIT))
    costs = []
    for number in range(600):
        shield.decide(groups[number % len(groups)], number // 2 % 2, id=number)
        if number in (9, 599):
            events: list[str] = []
            sys.setprofile(lambda frame, event, argument, events=events: events.append(event))
            certificate = shield.certificate()
            sys.setprofile(None)
            assert certificate.open_labels == number + 1
            costs.append(len(events))
    assert costs[0] == costs[1]


@settings(max_examples=scaled(50))
@given(seed=st.integers(0, 2**32 - 1))
def test_live_outcomes_are_counted_as_by_looking_at_each(seed):
    rng = np.random.default_rng(seed)
    horizon = 6
    live = LiveStates(end_values_of(plan_of(horizon=horizon)), horizon, (horizon,))
    open_labels = rng.multinomial(rng.integers(0, horizon), [0.25] * 4)
    n_a, n_b = rng.multinomial(rng.integers(0, horizon - open_labels.sum()), [0.4, 0.4, 0.2])[:2]
    counters = (int(n_a), int(rng.integers(0, n_a + 1)), int(n_b), int(rng.integers(0, n_b + 1)))

    def is_live(state: tuple[int, ...]) -> bool:
        none = [np.zeros(1, dtype=np.int64)] * 4
        return live.count(horizon - 1, state, none) == (1, 1)

    outcomes = [np.arange(count + 1) for count in open_labels]
    for group in (0, 1, None):
        expected = [0, 0]
        for rejected_a, accepted_a, rejected_b, accepted_b in np.ndindex(*(open_labels + 1)):
            state = (
                counters[0] + rejected_a + accepted_a,
                counters[1] + accepted_a,
                counters[2] + rejected_b + accepted_b,
                counters[3] + accepted_b,
            )
            for decision in (0, 1):
                later = list(state)
                if group is not None:
                    later[2 * group] += 1
                    later[2 * group + 1] += decision
                expected[decision] += is_live(state) and is_live(tuple(later))
        assert live.count(horizon - 1, counters, outcomes, group=group) == tuple(expected)


@pytest.mark.parametrize(("outcomes", "votes"), [(1, 1), (6, 3), (40, 5)])
def test_of_many_outcomes_some_are_examined_and_nothing_is_promised_that_does_not_hold(outcomes, votes, monkeypatch):
    policy = made("ab", "finite", 8, ANY_WAIT)
    promised = 0
    for seed in range(20):
        rng = Random(seed)
        shield = Shield(policy)
        for number in range(8):
            with monkeypatch.context() as patch:
                patch.setattr(shield_module, "MAX_OUTCOMES", outcomes)
                patch.setattr(shield_module, "MAX_VOTES", votes)
                decision = shield.decide(rng.choice("ab"), rng.randint(0, 1), id=number)
                if rng.random() < 0.3:
                    shield.observe(number, rng.randint(0, 1))
                has_guarantee = shield.certificate().bound is not None
                again = Shield.restore(policy, shield.state())
                assert (again.certificate().bound is not None) == has_guarantee
            exact = Shield.restore(policy, shield.state()).certificate()
            assert exact.bound is not None or not has_guarantee
            promised += has_guarantee and decision.guaranteed
    assert promised


@given(counts=st.lists(st.integers(0, 40), min_size=4, max_size=4), most=st.integers(1, 500))
def test_outcomes_are_spread_from_end_to_end(counts, most):
    shield = Shield(made("ab", "finite", 8, ANY_WAIT))  # type: ignore[arg-type]
    shield.open = [counts[0], counts[1], 0, 0, counts[2], counts[3], 0, 0]
    spread = shield._spread_outcomes(most)
    assert np.prod([len(one) for one in spread]) <= most
    for count, one in zip(counts, spread, strict=True):
        assert set(one.tolist()) <= set(range(count + 1))
        assert len(set(one.tolist())) == len(one)
        assert len(one) == 1 or (one[0], one[-1]) == (0, count)
    if most >= np.prod([count + 1 for count in counts]):
        assert [len(one) for one in spread] == [count + 1 for count in counts]


@pytest.mark.parametrize("kind", ["finite", "static-fair", "dynamic"])
def test_live_states_are_computed_ahead(kind, monkeypatch):
    policy = made("ab", kind, 8, ANY_WAIT)
    monkeypatch.setattr("evenhand.shields.runtime.reachable_states._LIVE_STATES", {})
    shield = Shield(policy)
    shield.decide("a", 1, id=1)
    saved = shield.state()
    for other, state in ((shield, None), (Shield(policy), saved)):
        monkeypatch.setattr("evenhand.shields.runtime.reachable_states._LIVE_STATES", {})
        make = other.plan_decision(state and state["course"])
        assert make is not None
        make()
        assert other.plan_decision(state and state["course"]) is None
        if state is not None:
            other.load(state)
    monkeypatch.setattr("evenhand.shields.runtime.shield.find_live_states", lambda *_: pytest.fail("computed again"))
    shield.decide("b", 0, id=2)


def test_a_label_of_an_earlier_period_is_planned_ahead(monkeypatch):
    policies = [PeriodicShield(plan_of(horizon=6, kind="dynamic")) for _ in range(2)]
    shield, other = map(Shield, policies)
    for number in range(8):
        for each in (shield, other):
            each.decide("ab"[number % 2], 1, id=number)
    assert shield.plan_label(0, 0) is None
    assert shield.plan_label(7, 1) is None
    assert shield.plan_label(99, 1) is None
    make = shield.plan_label(0, 1)
    assert make is not None
    before = shield.state()
    make()
    assert shield.state() == before
    assert shield.plan_label(0, 1) is None
    other.observe(0, 1)
    with monkeypatch.context() as patch:
        patch.setattr("evenhand.shields.policy.periodic.solve_plan", lambda *_, **__: pytest.fail("planned again"))
        patch.setattr("evenhand.shields.runtime.reachable_states.LiveStates", lambda *_: pytest.fail("computed again"))
        shield.observe(0, 1)
    assert shield.state() == other.state()
    assert shield.certificate() == other.certificate()


@pytest.mark.parametrize(
    ("groups", "kind"),
    [("ab", "finite"), ("ab", "static-fair"), ("ab", "dynamic"), ("abc", "finite"), ("abc", "dynamic")],
)
@pytest.mark.parametrize("wait", [1, 3])
def test_an_expired_decision_counts_as_one_with_label_0(groups, kind, wait):
    horizon = 4 if groups == "abc" else 6
    rng = Random(wait)
    shield, other = (Shield(made(groups, kind, horizon, each)) for each in (wait, ANY_WAIT))
    waiting: list[int] = []
    expired = 0
    for number in range(horizon if kind == "finite" else 60):
        group, recommendation = rng.choice(groups), rng.randint(0, 1)
        decision = shield.decide(group, recommendation, id=number)
        assert decision[:3] == other.decide(group, recommendation, id=number)[:3]
        waiting.append(number)
        if len(waiting) > wait:
            other.observe(waiting.pop(0), 0)
            expired += 1
        while waiting and rng.random() < 0.3:
            label, key = rng.randint(0, 1), waiting.pop(rng.randrange(len(waiting)))
            shield.observe(key, label)
            other.observe(key, label)
        assert shield.counts() == other.counts()
        certificate = shield.certificate()
        assert (certificate.expired_labels, certificate.open_labels) == (expired, len(waiting))
        named = {"expired_labels": expired} if expired else {}
        assert certificate.to_dict() == {**other.certificate().to_dict(), **named}
        again = Shield.restore(made(groups, kind, horizon, wait), copy.deepcopy(shield.state()))
        assert again.state() == shield.state()
    assert expired
    assert shield.expired_labels == expired


def test_a_label_that_comes_after_its_decision_expired_is_refused():
    shield = Shield(made("ab", "static-fair", 4, 2))
    for number in range(3):
        shield.decide("a", 1, id=number)
    before = shield.state()
    for label in (0, 1):
        with pytest.raises(DecisionError) as error:
            shield.observe(0, label)
        assert error.value.code == "expired"
    with pytest.raises(DecisionError) as error:
        shield.decide("a", 1, id=0)
    assert error.value.code == "repeated"
    assert shield.state() == before
    for number in range(3, 8):
        shield.decide("a", 1, id=number)
    with pytest.raises(DecisionError) as error:
        shield.observe(0, 1)
    assert error.value.code == "unknown-id"
    assert len(shield.state()["ids"]) <= 4 + 2


def test_what_expired_is_named_with_the_bound():
    shield = Shield(made("ab", "static-fair", 4, 2))
    for number in range(5):
        shield.decide("ab"[number % 2], 1, id=number)
    certificate = shield.certificate()
    assert certificate.expired_labels == 3
    sentences = certificate.describe(certificate.to_dict())
    assert "3 decisions without a label" in sentences[0][1]
    assert "3 expired" in certificate.summary()


def test_the_wait_is_part_of_the_plan(tmp_path):
    default, short = plan_of(), plan_of(labels={"wait": 5})
    assert (default.label_wait, short.label_wait) == (10_000, 5)
    for one in (default, short):
        assert plan_from_mapping(plan_to_mapping(one), location=None) == one
    policy = synthesize(short)
    assert policy.digest != synthesize(default).digest
    shields.save_policy(policy, tmp_path / "a.shield")
    assert shields.load_policy(tmp_path / "a.shield").plan.label_wait == 5
    assert (
        Shield(made("ab", "static-fair", 8, 5)).policy_digest != Shield(made("ab", "static-fair", 8, 6)).policy_digest
    )


@pytest.mark.parametrize("wait", [0, -1, True, 2.5, "5", None])
def test_waits_that_are_refused(wait):
    with pytest.raises(OptionError) as error:
        plan_of(labels={"wait": wait})
    assert error.value.location == "labels.wait"


def test_only_properties_with_labels_have_a_wait():
    with pytest.raises(OptionError) as error:
        plan_of(property="demographic_parity", labels={"wait": 5})
    assert error.value.location == "labels"
