"""Running shields over three groups and more."""

import itertools
import json
import random
from fractions import Fraction

import pytest

from evenhand.errors import DecisionError
from evenhand.shields import FairnessProperty, Inputs, Shield, ShieldPlan, synthesize, synthesize_separable
from evenhand.shields.spec.properties import EmptyGroupRule

NAMES = ("a", "b", "c")


def made(kind, horizon, kappa="0.5", plan_kind="finite", names=NAMES, empty="vacuous"):
    number = len(names)
    inputs = Inputs(
        groups=names,
        rate=(1 / number,) * number,
        accept=tuple(0.2 + 0.6 * i / number for i in range(number)),
        label=(0.5,) * number if kind == "equal_opportunity" else None,
    )
    plan = ShieldPlan(FairnessProperty(kind, Fraction(kappa), EmptyGroupRule.parse(empty)), inputs, horizon, plan_kind)
    return synthesize_separable(plan) if plan_kind == "static-bw" else synthesize(plan)


def bias(kept, happened, which):
    """By hand, from what happened; labels None are 1 where no labels are needed."""
    counters = {name: [0, 0] for name in {one[0] for one in happened}}
    for one in happened:
        if one[3]:
            counters[one[0]][0] += 1
            counters[one[0]][1] += one[which]
    found = [kept.bias(*one, *other) for one, other in itertools.combinations(counters.values(), 2)]
    return max(found, default=Fraction(0))


@pytest.mark.parametrize("kind", ["demographic_parity", "equal_opportunity"])
def test_every_order_of_three_groups_ends_fair(kind):
    horizon = 3 if kind == "equal_opportunity" else 4
    policy = made(kind, horizon)
    kept = policy.plan.property
    labels = (0, 1) if kept.labelled else (1,)
    intervened = 0
    for sequence in itertools.product(itertools.product(NAMES, (0, 1), labels), repeat=horizon):
        shield, happened = Shield(policy), []
        for number, (group, recommendation, label) in enumerate(sequence):
            decided = shield.decide(group, recommendation, id=number)
            assert decided.guaranteed
            if kept.labelled:
                shield.observe(number, label)
            happened.append((group, decided.decision, recommendation, label))
        said = shield.certificate()
        assert said.shielded == bias(kept, happened, 1) <= kept.kappa
        assert said.unshielded == bias(kept, happened, 2)
        intervened += shield.interventions
    assert intervened
    with pytest.raises(DecisionError, match="of the horizon have been made"):
        shield.decide("a", 1, id="more")


def test_a_late_label_ends_the_guarantee_of_the_period():
    shield = Shield(made("equal_opportunity", 3))
    assert shield.decide("a", 1, id=0).guaranteed
    assert not shield.decide("b", 1, id=1).guaranteed
    assert shield.certificate().bound is None


@pytest.mark.parametrize("kind", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("late", [0, 4])
@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c", "d", "e")])
def test_welfare_bounds_over_periods(kind, late, names):
    policy = made(kind, 60, "0.3", "static-bw", names)
    kept = policy.plan.property
    rng = random.Random(3)
    shield, other = Shield(policy), Shield(policy)
    happened, waiting, ends = [], [], 0
    for number in range(250):
        group, recommendation, label = rng.choice(names), rng.randint(0, 1), rng.randint(0, 1)
        decided = shield.decide(group, recommendation, id=number)
        assert decided == other.decide(group, recommendation, id=number)
        happened.append([group, decided.decision, recommendation, 1 if not kept.labelled else 0])
        waiting.append((number, label))
        while kept.labelled and len(waiting) > late:
            one, truth = waiting.pop(0)
            happened[one][3] = truth
            shield.observe(one, truth)
            other.observe(one, truth)
        if number % 11 == 0:
            other = Shield.restore(policy, json.loads(json.dumps(other.state())))
        assert other.state() == shield.state()
        said = shield.certificate()
        if not said.open_labels:
            assert said.shielded == bias(kept, happened, 1)
            assert said.unshielded == bias(kept, happened, 2)
        if shield.step == 60:
            ends += 1
            if said.assumption_held:
                assert said.bound <= kept.kappa
                assert said.later == kept.kappa
        assert not (late and kept.labelled and number > 1 and said.assumption_held)
    assert ends == 4
    assert said.assumption_held or len(names) == 5 or late
