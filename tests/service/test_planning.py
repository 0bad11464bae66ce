"""Machines that make plans: nobody else waits for them, and what waits is carried out in its order."""

import random
import threading

import pytest
from counting import Counting
from service_settings import LABELLED
from service_settings import PLAN as LONG_PLAN

from evenhand.service import Ledger
from evenhand.service.state_machines import ShieldMachine
from evenhand.shields import PeriodicShield, Shield, read_plan

SECONDS = 60
"""Far longer than anything here takes: what would wait for ever fails."""


class Planning(Counting):
    """Needs a plan before every third entry; `go` lets it be made."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.made = 0
        self.wrong = None

    def plan_ahead(self, state=None, operation=None):
        total = self.total if state is None else state["total"]
        return self.make if total // 3 > self.made else None

    def make(self):
        assert self.go.wait(SECONDS)
        if self.wrong is not None:
            raise self.wrong
        self.made += 1


def add(amount=1):
    return {"op": "add", "amount": amount}


@pytest.fixture
def planning():
    return Planning()


@pytest.fixture
def ledger(database, planning):
    here = Ledger(database, {"slow": planning, "quick": Counting()})
    yield here
    planning.go.set()
    here.close()


def test_other_streams_go_on_while_a_plan_is_made_and_what_waits_keeps_its_order(ledger, planning):
    asked = [ledger.submit("slow", add()) for _ in range(4)]
    assert [one.result(SECONDS).number for one in asked[:3]] == [1, 2, 3]
    assert ledger.submit("quick", add()).result(SECONDS).number == 1
    assert not asked[3].done()
    asked += [ledger.submit("slow", add()) for _ in range(4)]
    planning.go.set()
    assert [one.result(SECONDS).number for one in asked[3:]] == [4, 5, 6, 7, 8]
    assert planning.made == 2


def test_stopping_waits_for_the_plan(database, planning):
    ledger = Ledger(database, {"slow": planning})
    asked = [ledger.submit("slow", add()) for _ in range(4)]
    asked[2].result(SECONDS)
    closing = threading.Thread(target=ledger.close)
    closing.start()
    planning.go.set()
    closing.join(SECONDS)
    assert asked[3].result(0).number == 4


def test_a_plan_that_cannot_be_made_keeps_nobody_waiting_for_ever(ledger, planning, caplog):
    planning.wrong = RuntimeError("no plan")
    planning.go.set()
    asked = [ledger.submit("slow", add()) for _ in range(5)]
    assert [one.result(SECONDS).number for one in asked] == [1, 2, 3, 4, 5]
    assert "no plan could be computed for slow" in caplog.text


PLAN = read_plan({**LONG_PLAN, "horizon": 12})


def test_two_replicas_take_late_labels_as_one_shield_would(database):
    plan = read_plan({**LABELLED, "kappa": "0.3", "horizon": 6, "kind": "dynamic", "labels": {"wait": 8}})
    machines = [ShieldMachine(PeriodicShield(plan), {}) for _ in range(2)]
    ledgers = [Ledger(database, {"loans": one}) for one in machines]
    alone = Shield(PeriodicShield(plan))
    rng = random.Random(1)
    for k in range(40):
        ledger = ledgers[k // 3 % 2]
        group, recommendation = rng.choice(["women", "men"]), rng.randint(0, 1)
        operation = {"op": "decide", "id": str(k), "group": group, "recommendation": recommendation}
        done = ledger.submit("loans", operation).result(SECONDS)
        assert done.answer["decision"] == alone.decide(group, recommendation, id=str(k)).decision
        assert done.answer["certificate"] == alone.certificate().to_dict()
        if k >= 7 and rng.random() < 0.7:
            operation = {"op": "label", "id": str(k - 7), "label": rng.randint(0, 1)}
            done = ledger.submit("loans", operation).result(SECONDS)
            alone.observe(operation["id"], operation["label"])
            assert done.answer["certificate"] == alone.certificate().to_dict()
    assert alone.expired_labels
    for one in ledgers:
        one.close()


def test_a_shield_says_what_it_needs_ahead():
    shield = ShieldMachine(PeriodicShield(PLAN), {})
    assert shield.plan_ahead() is None
    for k in range(PLAN.horizon):
        shield.decide("men" if k % 2 else "women", k % 2)
    state = shield.state()
    fresh = ShieldMachine(PeriodicShield(PLAN), {})
    make = fresh.plan_ahead(state)
    assert make is not None
    make()
    assert fresh.plan_ahead(state) is None
    fresh.load(state)
    assert fresh.plan_ahead() is None
    assert shield.plan_ahead() is not None
    shield.decide("men", 1)
    assert shield.plan_ahead() is None
