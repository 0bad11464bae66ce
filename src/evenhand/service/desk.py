"""How many requests to a generator are under way at once, and how many may wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from evenhand.errors import AccessError, StoreError

T = TypeVar("T")


class Desk:
    """Does work that blocks, each piece in a thread of its own, and not too many at once.

    The threads end with the process: an upstream that hangs does not keep it alive.

    Args:
        name: of what is asked, for messages.
        at_once: pieces of work under way.
        waiting: pieces that may wait.
    """

    def __init__(self, name: str, *, at_once: int, waiting: int) -> None:
        self._name, self._most = name, at_once + waiting
        self._free = asyncio.Semaphore(at_once)
        self._taken = 0
        self._closed = False
        self._running = 0
        self._changed = threading.Condition()

    @property
    def taken(self) -> int:
        """Pieces of work under way or waiting."""
        return self._taken

    async def gather(
        self, work: Sequence[Callable[[], T]], *, seconds: float, late: Callable[[], None]
    ) -> list[T | BaseException | None]:
        """Do several pieces at the same time.

        Args:
            work: the pieces.
            seconds: how long they are waited for.
            late: called once nobody waits any more for what is not done: the time is up, or the caller has gone. What
                has begun then goes on; what waits is never begun.

        Returns:
            for every piece what came of it; an exception that it raised; None if it was not done in time.

        Raises:
            AccessError: there is too much to do already; nothing was begun.
            StoreError: the service is stopping.
        """
        if self._closed:
            raise StoreError("the service is stopping", mend="ask another replica, or again later")
        if self._taken + len(work) > self._most:
            raise AccessError(
                f"{self._name} has {self._taken} requests under way or waiting, and takes {self._most} at most",
                code="busy",
                mend="ask again later",
            )
        self._taken += len(work)
        tasks = [asyncio.ensure_future(self._one(piece)) for piece in work]
        try:
            await asyncio.wait(tasks, timeout=seconds)
        finally:
            if not all(task.done() for task in tasks):
                late()
            for task in tasks:
                task.cancel()
        return [(task.exception() or task.result()) if task.done() else None for task in tasks]

    def close(self, seconds: float) -> bool:
        """Begin nothing more, and wait for what is under way; whether all of it ended in time."""
        self._closed = True
        until = time.monotonic() + seconds
        with self._changed:
            while self._running:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    async def _one(self, piece: Callable[[], T]) -> T:
        try:
            await self._free.acquire()
        except BaseException:
            self._taken -= 1
            raise
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._taken -= 1
            self._free.release()
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = piece()
            except BaseException as raised:
                error = raised
            with self._changed:
                self._running -= 1
                self._changed.notify_all()
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:
                return  # The loop has ended, and nobody waits any more.

        with self._changed:
            self._running += 1
        try:
            threading.Thread(target=run, name=f"evenhand-{self._name}", daemon=True).start()
        except RuntimeError as error:
            with self._changed:
                self._running -= 1
            settle(None, StoreError(f"no thread can be started: {error}", mend="allow more, or lower at_once"))
        return await future
