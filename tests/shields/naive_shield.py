"""A running shield the slow way: everything is derived anew from the list of what happened."""

import itertools
from functools import cache

from shield_reference import added

from evenhand.shields import read_plan, synthesize

GROUPS = {"a": {"rate": 0.3, "accept": 0.35, "label": 0.4}, "b": {"rate": 0.7, "accept": 0.6, "label": 0.6}}


@cache
def policy(*given, **asked):
    """A small shield of `plan`."""
    return synthesize(plan(*given, **asked))


def plan(
    kind="demographic_parity",
    horizon=6,
    kappa="0.2",
    empty="zero",
    costs=(1.0,),
    plan_kind="finite",
    checks="end",
    terminal="strict",
):
    """A plan of two groups; with two costs both are as likely, whatever is recommended."""
    even = [1 / len(costs)] * len(costs)
    several = {"costs_if_rejected": even, "costs_if_accepted": even} if len(costs) > 1 else {}
    groups = {name: group | several for name, group in GROUPS.items()}
    rules = {"property": kind, "kappa": kappa, "horizon": horizon, "kind": plan_kind, "empty_group": empty}
    return read_plan({**rules, "costs": list(costs), "groups": groups, "checks": checks, "terminal": terminal})


@cache
def live(asked, t, counters):
    """Whether a fair end can be reached whoever comes, by the definition."""
    if t in asked.times and asked.property.bias(*counters) > asked.property.kappa:
        return False
    if t == asked.horizon:
        return True
    labels = (0, 1) if asked.property.labelled else (1,)
    return all(
        any(all(live(asked, t + 1, added(counters, group, y) if z else counters) for z in labels) for y in (0, 1))
        for group in (0, 1)
    )


class Naive:
    """What happened so far, as a list; labels None while they are open."""

    def __init__(self, made):
        self.policy = made
        self.plan = made.plan
        self.happened = []
        self.prompt = True

    @property
    def labelled(self):
        return self.plan.property.labelled

    def counters(self, labels, which="decision"):
        """Counters if the open labels turn out so."""
        counters, labels = (0, 0, 0, 0), iter(labels)
        for one in self.happened:
            label = 1 if not self.labelled else next(labels) if one["label"] is None else one["label"]
            if label:
                counters = added(counters, one["group"], one[which])
        return counters

    def outcomes(self, which="decision"):
        """All counters that the open labels can lead to."""
        number = sum(one["label"] is None for one in self.happened) if self.labelled else 0
        return {self.counters(labels, which) for labels in itertools.product((0, 1), repeat=number)}

    def guaranteed(self):
        return all(live(self.plan, len(self.happened), counters) for counters in self.outcomes())

    def choose(self, group, recommendation, cost):
        t, outcomes = len(self.happened), self.outcomes()
        votes = [self.policy.decision(t, counters, group, recommendation, cost) for counters in outcomes]
        open_ = self.labelled and any(one["label"] is None for one in self.happened)
        if not open_ and self.guaranteed():
            return votes[0]
        # Greedy shields do not look ahead.
        alive = [
            sum(
                live(self.plan, t + 1, counters) and live(self.plan, t + 1, added(counters, group, y))
                for counters in outcomes
                if self.plan.kind != "greedy"
            )
            for y in (0, 1)
        ]
        if alive[0] != alive[1]:
            return int(alive[1] > alive[0])
        against = sum(vote != recommendation for vote in votes)
        return 1 - recommendation if 2 * against > len(votes) else recommendation

    def decide(self, group, recommendation, cost, key):
        if self.labelled and any(one["label"] is None for one in self.happened):
            self.prompt = False
        decision = self.choose(group, recommendation, cost)
        entry = {"id": key, "group": group, "recommendation": recommendation, "decision": decision, "cost": cost}
        self.happened.append({**entry, "label": None})
        return decision

    def observe(self, key, label):
        (one,) = (one for one in self.happened if one["id"] == key)
        one["label"] = label
