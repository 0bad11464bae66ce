"""Work that waits for others: how much of it is under way, what waits, and what is no longer waited for."""

import asyncio
import threading
from concurrent.futures import Future

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from service_settings import in_loop

from evenhand.errors import AccessError, StoreError
from evenhand.service.generation.limiter import ConcurrencyLimiter
from evenhand.service.store import retry_queue
from evenhand.service.store.retry_queue import RetryQueue
from evenhand.service.store.transaction import OperationResult


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


# ---- what the store could not take


class Store:
    """Takes operations, or does not."""

    def __init__(self, *, later=False):
        self.up, self.later = False, later
        self.taken = []

    def submit(self, _stream, operation, **_):
        future = Future()
        if self.up:
            self.taken.append(operation)
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
