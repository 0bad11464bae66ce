"""Decisions, labels, mistakes, and saving at any time, in any order: a shield does what the slow reference does."""

import json

import pytest
from hypothesis import assume, settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule
from naive_shield import Naive, policy

from evenhand.errors import DecisionError
from evenhand.shields import Shield
from evenhand.shields.runtime.shield import DecisionReason
from support import scaled

POLICIES = [
    {"horizon": 6},
    {"horizon": 6, "kind": "disparate_impact", "empty": "min_count=2"},
    {"horizon": 5, "costs": (0.25, 1.0)},
    {"horizon": 6, "plan_kind": "feasible", "checks": "anytime", "kappa": "0.5"},
    {"horizon": 5, "kind": "equal_opportunity"},
    {"horizon": 5, "kind": "equal_opportunity", "empty": "min_count=1", "kappa": "0.4"},
    {"horizon": 4, "kind": "equal_opportunity", "empty": "vacuous", "costs": (0.25, 1.0)},
    {"horizon": 6, "kind": "equal_opportunity", "empty": "min_count=2", "kappa": "0.5"},
]
MISTAKES = [
    (("c", 1, None), "group"),
    ((["a"], 1, None), "group"),
    ((0, 1, None), "group"),
    (("a", 2, None), "recommendation"),
    (("a", None, None), "recommendation"),
    (("a", [1], None), "recommendation"),
    (("a", 1, -1.0), "cost"),
    (("a", 1, float("nan")), "cost"),
    (("a", 1, 2.0), "cost"),
    (("a", 1, "much"), "cost"),
]


class Machine(RuleBasedStateMachine):
    waiting = Bundle("waiting")

    @initialize(which=st.sampled_from(POLICIES), advisory=st.booleans())
    def begin(self, which, advisory):
        self.made = policy(**which)
        self.advisory = advisory
        self.shield = Shield(self.made, advisory=advisory)
        self.naive = Naive(self.made)
        self.costs = self.made.plan.inputs.costs
        self.spent, self.against = 0.0, 0

    @precondition(lambda self: len(self.naive.happened) < self.made.plan.horizon)
    @rule(
        target=waiting,
        group=st.sampled_from([0, 1]),
        recommendation=st.sampled_from([0, 1]),
        which=st.integers(0, 1),
        as_text=st.booleans(),
    )
    def decide(self, group, recommendation, which, as_text):
        cost = self.costs[min(which, len(self.costs) - 1)]
        number = len(self.naive.happened)
        key = f"person {number}" if as_text else number
        given = None if len(self.costs) == 1 and which else cost
        made = self.shield.decide("ab"[group], recommendation, given, id=key)
        expected = self.naive.decide(group, recommendation, cost, key)
        against = expected != recommendation
        self.spent, self.against = self.spent + cost * against, self.against + against
        if self.advisory:
            reason = (
                (DecisionReason.WOULD_REJECT, DecisionReason.WOULD_ACCEPT)[expected]
                if against
                else DecisionReason.FOLLOWED
            )
            assert made == (recommendation, False, reason, False)
        else:
            reason = (
                (DecisionReason.REJECTED, DecisionReason.ACCEPTED)[expected] if against else DecisionReason.FOLLOWED
            )
            assert made == (expected, against, reason, self.naive.guaranteed())
        return key if self.naive.labelled else stateful.multiple()

    @rule(key=consumes(waiting), label=st.sampled_from([0, 1]))
    def label(self, key, label):
        self.shield.observe(key, label)
        self.naive.observe(key, label)

    def refused(self, code, call):
        before = self.shield.state()
        with pytest.raises(DecisionError) as caught:
            call()
        assert caught.value.code == code
        assert caught.value.hint
        assert self.shield.state() == before

    @rule(which=st.sampled_from(MISTAKES))
    def mistake(self, which):
        (group, recommendation, cost), code = which
        self.refused(code, lambda: self.shield.decide(group, recommendation, cost, id="new"))

    @rule(data=st.data())
    def repeated(self, data):
        assume(self.naive.happened)
        one = data.draw(st.sampled_from(self.naive.happened))
        self.refused("repeated", lambda: self.shield.decide("a", 1, self.costs[0], id=one["id"]))

    @rule(key=st.sampled_from([None, True, 1.5, ("a",), b"a"]))
    def no_id(self, key):
        if key is None:
            assume(self.naive.labelled)
        self.refused("id", lambda: self.shield.decide("a", 1, self.costs[0], id=key))

    @precondition(lambda self: len(self.naive.happened) == self.made.plan.horizon)
    @rule()
    def past_the_horizon(self):
        self.refused("horizon", lambda: self.shield.decide("a", 1, self.costs[0], id="one more"))

    @precondition(lambda self: self.naive.labelled)
    @rule(data=st.data(), label=st.sampled_from([0, 1]))
    def wrong_label(self, data, label):
        self.refused("unknown-id", lambda: self.shield.observe("nobody", label))
        self.refused("unknown-id", lambda: self.shield.observe(["nobody"], label))
        known = [one for one in self.naive.happened if one["label"] is not None]
        assume(known)
        one = data.draw(st.sampled_from(known))
        code = "repeated" if label == one["label"] else "contradiction"
        self.refused(code, lambda: self.shield.observe(one["id"], label))
        self.refused("label", lambda: self.shield.observe(one["id"], 2))

    @precondition(lambda self: not self.naive.labelled)
    @rule()
    def label_that_nobody_needs(self):
        self.refused("label", lambda: self.shield.observe("nobody", 1))

    @rule(elsewhere=st.booleans())
    def save_and_restore(self, elsewhere):
        state = json.loads(json.dumps(self.shield.state()))
        if elsewhere:
            self.shield = Shield.restore(self.made, state)
        else:
            self.shield.load(state)
        assert self.shield.state() == state

    @invariant()
    def same_as_the_reference(self):
        if not hasattr(self, "shield"):
            return
        kept, naive = self.made.plan.property, self.naive
        found = self.shield.certificate()
        step = len(naive.happened)
        assert (found.step, self.shield.step, found.horizon) == (step, step, self.made.plan.horizon)
        shielded = max(kept.bias(*counters) for counters in naive.outcomes())
        unshielded = max(kept.bias(*counters) for counters in naive.outcomes("recommendation"))
        assert (found.shielded, found.unshielded) == (shielded, unshielded)
        assert found.bias == (unshielded if self.advisory else shielded)
        assert self.shield.interventions == self.against
        assert self.shield.cost == pytest.approx(self.spent)
        assert found.open_labels == (sum(one["label"] is None for one in naive.happened) if naive.labelled else 0)
        assert found.assumption_held == (naive.prompt if naive.labelled else None)
        if self.advisory:
            assert found.bound is None
        elif step == found.horizon:
            assert found.bound == shielded
        else:
            assert found.bound == (kept.kappa if naive.guaranteed() else None)
        if naive.prompt:
            assert naive.guaranteed()
        if step == found.horizon and naive.guaranteed():
            assert shielded <= kept.kappa


Machine.TestCase.settings = settings(max_examples=scaled(120), stateful_step_count=25, deadline=None, derandomize=True)
TestMachine = Machine.TestCase
