"""Work that blocks: how much of it is under way, what waits, and what nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from evenhand.errors import AccessError, StoreError
from evenhand.service import OperationResult
from evenhand.service.generation import stored_enforcer
from evenhand.service.generation.guards import ConcurrencyLimiter
from evenhand.service.generation.stored_enforcer import RetryQueue


class Work:
    """Goes on until it is let go."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), 0
        self.most, self.now, self.lock = 0, 0, threading.Lock()

    def __call__(self) -> str:
        with self.lock:
            self.begun += 1
            self.now += 1
            self.most = max(self.most, self.now)
        self.go.wait(30)
        with self.lock:
            self.now -= 1
        return "done"


def never() -> None:
    raise AssertionError("somebody waited")


def test_no_more_than_so_many_are_under_way():
    async def run() -> list[Any]:
        limiter, work = ConcurrencyLimiter("one", at_once=2, waiting=4), Work()
        task = asyncio.create_task(limiter.gather([work] * 6, seconds=30, late=never))
        while work.begun < 2:
            await asyncio.sleep(0)
        with pytest.raises(AccessError) as over:
            await limiter.gather([work], seconds=30, late=never)
        assert over.value.code == "busy"
        work.go.set()
        found = await task
        assert work.most == 2
        assert limiter.work_count == 0
        return found

    assert asyncio.run(run()) == ["done"] * 6


def test_what_raises_is_handed_back_beside_what_does_not():
    def fail() -> str:
        raise ValueError("no")

    async def run() -> list[Any]:
        limiter = ConcurrencyLimiter("one", at_once=2, waiting=2)
        return await limiter.gather([fail, lambda: "yes", lambda: None], seconds=30, late=never)

    failed, fine, nothing = asyncio.run(run())
    assert isinstance(failed, ValueError)
    assert (fine, nothing) == ("yes", None)


@pytest.mark.parametrize("leaves", [False, True])
def test_after_its_time_what_waits_is_never_begun_and_what_has_begun_goes_on(leaves):
    async def run() -> None:
        limiter, work, told = ConcurrencyLimiter("one", at_once=1, waiting=2), Work(), []
        task = asyncio.create_task(
            limiter.gather([work, work, work], seconds=30 if leaves else 0.05, late=lambda: told.append(1))
        )
        while not work.begun:
            await asyncio.sleep(0)
        if leaves:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert await task == [None, None, None]
        assert told == [1]
        while limiter.work_count > 1:
            await asyncio.sleep(0)
        work.go.set()
        while limiter.work_count:
            await asyncio.sleep(0)
        assert work.begun == 1
        assert await limiter.gather([lambda: "next"], seconds=30, late=never) == ["next"]

    asyncio.run(run())


def test_a_desk_that_closes_begins_nothing_and_waits_for_the_rest():
    async def run() -> None:
        limiter, work = ConcurrencyLimiter("one", at_once=1, waiting=2), Work()
        task = asyncio.create_task(limiter.gather([work], seconds=30, late=never))
        while not work.begun:
            await asyncio.sleep(0)
        assert limiter.close(0.01) is False
        with pytest.raises(StoreError):
            await limiter.gather([work], seconds=30, late=never)
        work.go.set()
        assert limiter.close(30) is True
        await task

    asyncio.run(run())


# ---- what the store could not take


class Store:
    """Takes operations, or does not."""

    def __init__(self, *, later: bool = False) -> None:
        self.up, self.later = False, later
        self.taken: list[Any] = []

    def submit(self, _stream: str, operation: Any, **_: Any) -> Future[OperationResult]:
        future: Future[OperationResult] = Future()
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
    monkeypatch.setattr(stored_enforcer, "RETRY_SECONDS", 0.005)
    store: Any = Store(later=later)
    left = RetryQueue(store, "guard")
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
    monkeypatch.setattr(stored_enforcer, "MAX_WAITING", 2)
    monkeypatch.setattr(stored_enforcer, "RETRY_SECONDS", 60)
    store: Any = Store()
    left = RetryQueue(store, "guard")
    for k in range(5):
        left.submit({"op": "record", "note": {"k": k}})
    left.submit({"op": "abandon", "call": "x"})
    assert left.waiting == 3
    store.up = True
    left.close()
    assert [one["op"] for one in store.taken] == ["record", "record", "abandon", "record"]
    assert store.taken[-1]["note"] == {"what": "lost", "records": 3}
