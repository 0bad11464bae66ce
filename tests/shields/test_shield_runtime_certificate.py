"""No future exceeds what a certificate says, and some future attains it where it says so: every future is tried."""

import itertools
from fractions import Fraction

import pytest
from naive_shield import plan, policy

from evenhand.errors import LimitError
from evenhand.shields import PeriodicShield, Shield, read_plan
from evenhand.shields.runtime.certificate import PROMPT_LABELS
from support import shortened

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
    from evenhand.shields.runtime.shield import _state_checksum

    state = {key: value for key, value in state.items() if key != "checksum"}
    return {**state, "checksum": _state_checksum(state)}


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


@pytest.mark.parametrize("which", FINITE[5:], ids=str)
def test_open_label_counts_both_ways(which):
    made = policy(**which)
    for group, recommendation in itertools.product("ab", (0, 1)):
        shield = Shield(made)
        shield.decide(group, recommendation, made.plan.inputs.costs[0], id=1)
        bounds = []
        for label in (0, 1):
            other = Shield.restore(made, shield.state())
            other.observe(1, label)
            bounds.append(other.certificate(exact=True).bound)
        assert shield.certificate(exact=True).bound == max(bounds)


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
    assert said.to_dict()["assumption_held"] is None
    assert [words for _, words in said.describe(said.to_dict())] == said.summary().splitlines()[1:]
    assert said.quantity.kind == "proved"
    advice = Shield(policy(horizon=6, kappa="0.2"), advisory=True).certificate()
    assert advice.quantity.kind == "unknown"


PERIODS = {
    "property": "demographic_parity",
    "kappa": "0.2",
    "horizon": 10,
    "groups": {"a": {"rate": 0.5, "accept": 0.3}, "b": {"rate": 0.5, "accept": 0.6}},
}


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
