"""Work in flight, and plans that are made beside it."""

import asyncio
import random
import threading
from concurrent.futures import Future

import pytest
from counting import Counting
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from service_settings import LABELLED, in_loop
from service_settings import PLAN as LONG_PLAN

from evenhand.errors import AccessError, DecisionError, StoreError
from evenhand.service import Ledger
from evenhand.service.generation.guards import ConcurrencyLimiter
from evenhand.service.state_machines import ShieldMachine
from evenhand.service.store import retry_queue
from evenhand.service.store.retry_queue import RetryQueue
from evenhand.service.store.transaction import OperationResult
from evenhand.shields import PeriodicShield, Shield, read_plan
from support import scaled


class Work:
    """Goes on until it is let go."""

    def __init__(self):
        self.go = asyncio.Event()
        self.begun = self.most = self.now = self.done = 0

    async def __call__(self):
        self.begun += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go.wait()
        self.now -= 1
        self.done += 1


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0)


@in_loop
async def test_no_more_than_so_many_are_under_way():
    limiter, work = ConcurrencyLimiter("one", at_once=2, waiting=4), Work()
    for _ in range(6):
        limiter.start(work)
    await until(lambda: work.begun == 2)
    with pytest.raises(AccessError) as over:
        limiter.start(work)
    assert over.value.code == "busy"
    work.go.set()
    await until(lambda: work.done == 6)
    assert work.most == 2
    await until(lambda: limiter.work_count == 0)


@pytest.mark.parametrize("begun", [False, True])
@in_loop
async def test_close_waits_for_running_and_queued_work(begun):
    limiter, work = ConcurrencyLimiter("one", at_once=1, waiting=2), Work()
    for _ in range(3):
        limiter.start(work)
    if begun:
        await until(lambda: work.begun == 1)
    assert limiter.close(0) is False
    with pytest.raises(StoreError):
        limiter.start(work)
    closing = asyncio.create_task(asyncio.to_thread(limiter.close, 30))
    work.go.set()
    assert await closing is True
    assert (work.done, limiter.work_count) == (3, 0)


class ClosingMachine(RuleBasedStateMachine):
    """Starts, leaves and ends work in any order; the limiter then closes without waiting."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.limiter = ConcurrencyLimiter("one", at_once=2, waiting=3)
        self.works = []
        self.pieces = []
        self.left = set()

    def steps(self, number):
        for _ in range(number):
            self.loop.run_until_complete(asyncio.sleep(0))

    @precondition(lambda self: self.limiter.work_count < 5)
    @rule()
    def start(self):
        work = Work()

        async def accept():
            self.pieces.append(self.limiter.start(work))

        self.loop.run_until_complete(accept())
        self.works.append(work)

    @precondition(lambda self: self.works)
    @rule(data=st.data())
    def leave(self, data):
        number = data.draw(st.integers(0, len(self.works) - 1))
        if not self.works[number].begun:
            self.left.add(number)
        self.limiter.leave(self.pieces[number])

    @precondition(lambda self: self.works)
    @rule(data=st.data())
    def end(self, data):
        self.works[data.draw(st.integers(0, len(self.works) - 1))].go.set()

    @rule(number=st.integers(1, 5))
    def run_steps(self, number):
        self.steps(number)

    def teardown(self):
        closed = self.limiter.close(0)
        begun = sum(work.begun for work in self.works)
        for work in self.works:
            work.go.set()
        self.steps(30)
        if closed:
            assert sum(work.begun for work in self.works) == begun
        assert self.limiter.close(0)
        unfinished = {number for number, work in enumerate(self.works) if not work.done}
        assert unfinished <= self.left
        self.loop.close()


TestClosing = ClosingMachine.TestCase


class Store:
    """Takes operations, or does not; those of kind ``bad`` are refused."""

    def __init__(self, *, later=False):
        self.up, self.later = False, later
        self.taken, self.durable = [], []

    def submit(self, _stream, operation, *, durable=True):
        future = Future()
        if self.up and operation["op"] == "bad":
            future.set_exception(DecisionError("refused", code="operation"))
        elif self.up:
            self.taken.append(operation)
            self.durable.append(durable)
            future.set_result(OperationResult(len(self.taken), {}))
        elif self.later:
            future.set_exception(StoreError("failed"))
        else:
            raise StoreError("stopping")
        return future


@pytest.mark.parametrize("later", [False, True])
def test_what_the_store_could_not_take_comes_when_it_is_back(monkeypatch, later):
    monkeypatch.setattr(retry_queue, "RETRY_SECONDS", 0.005)
    store = Store(later=later)
    left = RetryQueue(store, "guard", lambda lost: {"op": "record", "lost": lost})
    operations = [{"op": "abandon", "call": str(k)} for k in range(3)]
    for operation in operations:
        left.submit(operation)
    assert left.waiting == 3
    store.up = True
    for _ in range(2000):
        if not left.waiting:
            break
        threading.Event().wait(0.005)
    assert store.taken == operations
    left.submit({"op": "record"})
    assert len(store.taken) == 4
    left.close()


class Unstarted:
    """In the place of a thread: the test retries by itself."""

    is_started = False

    def __init__(self, _name, _seconds, tasks):
        (self.run,) = tasks.values()

    def start(self):
        pass

    stop = start


class Expected:
    """What a queue of two operations does."""

    def __init__(self):
        self.pending, self.taken, self.durable, self.messages = [], [], [], []
        self.lost = self.unlogged = 0

    def submit(self, operation, up):
        if up:
            if operation["op"] != "bad":
                self.take(operation, durable=False)
            return
        if not self.pending and not self.unlogged:
            self.messages.append("the store does not answer")
        if operation["op"] == "abandon" or len(self.pending) < 2:
            self.pending.append(operation)
        else:
            self.lose()

    def take(self, operation, *, durable):
        self.taken.append(operation)
        self.durable.append(durable)

    def lose(self):
        self.lost += 1
        self.unlogged += 1

    def retry(self):
        if not self.pending and not self.unlogged:
            return
        for operation in self.pending:
            if operation["op"] == "bad":
                self.lose()
                self.messages.append("a queued operation was refused")
            else:
                self.take(operation, durable=True)
        if self.unlogged:
            self.take({"op": "record", "lost": self.unlogged}, durable=True)
        self.pending, self.unlogged = [], 0
        self.messages.append("the store answers again")


@pytest.mark.parametrize("later", [False, True])
@given(steps=st.lists(st.sampled_from(["up", "down", "retry", "record", "bad", "abandon"]), max_size=30))
@settings(max_examples=scaled(400), deadline=None)
def test_every_operation_is_carried_out_once_in_order_or_counted_as_lost(later, steps):
    store, expected = Store(later=later), Expected()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry_queue, "MAX_WAITING", 2)
        patch.setattr(retry_queue, "PeriodicThread", Unstarted)
        logged = []
        patch.setattr(retry_queue.logger, "_log", lambda _level, message, _args, **more: logged.append((message, more)))
        left = RetryQueue(store, "guard", lambda lost: {"op": "record", "lost": lost})
        for number, step in enumerate([*steps, "down", "record", "close", "up", "close"]):
            if step in ("up", "down"):
                store.up = step == "up"
            elif step in ("retry", "close"):
                left._thread.run() if step == "retry" else left.close()
                if store.up:
                    expected.retry()
                elif step == "close":
                    expected.messages.append("operations were never logged: the store does not respond")
                    about = logged[-1][1]["extra"]["about"]
                    assert about["operations"] == len(expected.pending) + expected.unlogged
            else:
                operation = {"op": step, "number": number}
                left.submit(operation)
                expected.submit(operation, store.up)
            assert (store.taken, store.durable) == (expected.taken, expected.durable)
            assert (left.waiting, left.lost) == (len(expected.pending), expected.lost)
            assert left.is_empty == (not expected.pending and not expected.unlogged)
            assert [message for message, _ in logged] == expected.messages


def test_losses_whose_record_fails_or_while_it_is_written_are_logged_later(monkeypatch):
    monkeypatch.setattr(retry_queue, "MAX_WAITING", 1)
    monkeypatch.setattr(retry_queue, "PeriodicThread", Unstarted)
    store = Store()
    left = RetryQueue(store, "guard", lambda lost: {"op": "lost", "lost": lost})
    for _ in range(3):
        left.submit({"op": "record"})
    store.up, submit = True, store.submit
    faults = [StoreError("stopping"), None]

    def submit_with_faults(stream, operation, **options):
        if operation["op"] == "lost" and faults:
            if (fault := faults.pop(0)) is not None:
                raise fault
            for _ in range(4):
                left.keep({"op": "record"})
        return submit(stream, operation, **options)

    monkeypatch.setattr(store, "submit", submit_with_faults)
    for waiting in (0, 1, 0):
        left.close()
        assert (left.waiting, left.is_empty) == (waiting, not faults and not waiting)
    assert [operation["lost"] for operation in store.taken if operation["op"] == "lost"] == [2, 3]


def test_of_more_records_than_can_be_kept_their_number_is_and_nothing_stays_open(monkeypatch):
    monkeypatch.setattr(retry_queue, "MAX_WAITING", 2)
    monkeypatch.setattr(retry_queue, "RETRY_SECONDS", 60)
    store = Store()
    left = RetryQueue(store, "guard", lambda lost: {"op": "record", "lost": lost})
    for k in range(5):
        left.submit({"op": "record", "note": {"k": k}})
    left.submit({"op": "abandon", "call": "x"})
    assert left.waiting == 3
    store.up = True
    left.close()
    assert [one["op"] for one in store.taken] == ["record", "record", "abandon", "record"]
    assert store.taken[-1]["lost"] == 3


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
