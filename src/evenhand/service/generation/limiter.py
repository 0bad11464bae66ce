"""Limit of concurrent and queued work for one generator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from evenhand.errors import AccessError, StoreError

T = TypeVar("T")


class ConcurrencyLimiter:
    """Runs work in the event loop with limited concurrency. Queued work takes no thread.

    Args:
        name: Name of the generator, for messages.
        at_once: Maximum number of running tasks.
        waiting: Maximum number of queued tasks.
    """

    def __init__(self, name: str, *, at_once: int, waiting: int) -> None:
        self._name, self._max_tasks = name, at_once + waiting
        self._slots = asyncio.Semaphore(at_once)
        self._is_closed = False
        # The event loop adds and removes tasks, and `close` waits in another thread.
        self._accepted: set[asyncio.Task[Any]] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._changed = threading.Condition()

    @property
    def work_count(self) -> int:
        """Number of running and queued tasks."""
        return len(self._accepted)

    def start(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Queue work, to be run as soon as there is capacity. It runs to completion even if its caller leaves.

        Raises:
            AccessError: The queue is full.
            StoreError: The limiter is closed.
        """
        with self._changed:
            if self._is_closed:
                raise StoreError("the service is stopping", hint="use another replica, or retry later")
            if len(self._accepted) >= self._max_tasks:
                raise AccessError(
                    f"{self._name} has {len(self._accepted)} running or queued requests, and accepts at most "
                    f"{self._max_tasks}",
                    code="busy",
                    hint="retry later",
                )
            task = asyncio.get_running_loop().create_task(self._run(work), name=f"evenhand-{self._name}")
            self._accepted.add(task)
        task.add_done_callback(self._release)
        return task

    def leave(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task unless it is already running."""
        if task not in self._running:
            task.cancel()

    async def finish(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
        """Run work and return its result, or None after a time limit. Running work then continues.

        Raises:
            AccessError: The queue is full.
            StoreError: The limiter is closed.
            BaseException: The exception that the work raised.
        """
        task = self.start(work)
        finished = set[asyncio.Task[T]]()
        try:
            finished, _ = await asyncio.wait({task}, timeout=seconds)
        finally:
            if not finished:
                # No caller is left that could see its exception.
                task.add_done_callback(lambda task: task.cancelled() or task.exception())
                self.leave(task)
        return task.result() if finished else None

    def close(self, seconds: float) -> bool:
        """Accept no more work, and wait for running and queued tasks. Call it outside the event loop's thread.

        Args:
            seconds: Time limit.

        Returns:
            Whether all tasks ended within the time limit. Otherwise, they continue.
        """
        with self._changed:
            self._is_closed = True
            return self._changed.wait_for(lambda: not self._accepted, seconds)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._slots:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            return await work()

    def _release(self, task: asyncio.Task[Any]) -> None:
        with self._changed:
            self._accepted.discard(task)
            self._running.discard(task)
            self._changed.notify_all()
