"""Ledger that applies operations in the store, with state, log and answers in one transaction.

One thread per process writes. It commits all queued operations in one transaction, and acknowledges none of them before
the commit is durable. A slow disk therefore leads to larger batches.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection

from evenhand.core.canonical_json import hash_json
from evenhand.errors import DecisionError, StoreError
from evenhand.service.state_machines import Operation, StateMachine
from evenhand.service.store.database import Database
from evenhand.service.store.tables import lock_migrations
from evenhand.service.store.transaction import (
    CHECKPOINT,
    Commit,
    OperationRequest,
    OperationResult,
    StreamBatch,
    Transaction,
    is_written,
)

if TYPE_CHECKING:
    from evenhand.service.tracing import Tracing

logger = logging.getLogger(__name__)

BATCH_SIZE = 500
"""Maximum number of operations in one transaction."""

GATHER_SECONDS = 0.001
"""Seconds that a transaction waits for as many operations as the previous one had."""

RETRY_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between checks for a commit whose confirmation was lost."""

MAX_ROUNDS = 3
"""Maximum number of planning attempts. Other replicas may make a plan obsolete before it is used."""

T = TypeVar("T")


Listener: TypeAlias = Callable[[Commit], None]

Outcome: TypeAlias = tuple[OperationRequest, OperationResult | Exception]


def _tell_callers(outcomes: Sequence[Outcome]) -> None:
    """Pass the outcomes to the callers, those of an event loop in one call."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        future = outcome[0].future
        by_loop[future.get_loop() if isinstance(future, asyncio.Future) else None].append(outcome)
    for loop, of_loop in by_loop.items():
        if loop is None:
            _resolve(of_loop)
            continue
        # A closed loop has no waiting callers.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, of_loop)


def _resolve(outcomes: Sequence[Outcome]) -> None:
    for request, outcome in outcomes:
        future = request.future
        if future.done():  # Its caller has given up.
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


@dataclass(frozen=True)
class _WorkTask(Generic[T]):
    work: Callable[[Connection], T]
    durable: bool
    future: Future[T] = field(default_factory=Future)


@dataclass(frozen=True)
class _PlanReady:
    stream: str


class Ledger:
    """Streams of a store that this process serves.

    Args:
        database: Store.
        machines: Machines in their initial state, by name of the stream.
        clock: Clock for the time of entries, in seconds since 1970.
        pauses: Seconds between checks for a commit whose confirmation was lost.
        tracing: Tracing of transactions. None disables it.

    Attributes:
        machines: Machines by name of the stream. Only the writing thread may use their states, as in a listener.
        listeners: Functions that receive every commit, in the writing thread. They must be fast and have no side
            effects on the streams.

    Raises:
        StoreError: The store cannot be used, or contains a stream of another kind.
    """

    def __init__(
        self,
        database: Database,
        machines: Mapping[str, StateMachine],
        *,
        clock: Callable[[], float] = time.time,
        pauses: Sequence[float] = RETRY_PAUSES,
        tracing: Tracing | None = None,
    ) -> None:
        self.tracing = tracing
        self._database = database
        self._clock = clock
        self.machines = machines
        self._transaction = Transaction(machines, clock)
        self._pauses = pauses
        self.listeners: list[Listener] = [] if tracing is None else [tracing.record_commit]
        self._queue: SimpleQueue[OperationRequest | _WorkTask[Any] | _PlanReady | None] = SimpleQueue()
        # Operations that wait for a plan, and how often they have waited, by stream.
        self._waiting_for_plan: dict[str, list[OperationRequest]] = {}
        self._rounds: dict[str, int] = defaultdict(int)
        self._gate = threading.Lock()
        self._closed = False
        with database.transaction() as connection:
            # Replicas that start at the same time must not begin a stream twice.
            lock_migrations(connection)
            # Use the same order as in transactions of operations, to prevent deadlocks between replicas.
            for stream in sorted(machines):
                self._transaction.begin(connection, stream)
        self._thread = threading.Thread(target=self._write, name="evenhand-ledger", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Approximate number of queued operations."""
        return self._queue.qsize()

    def submit(
        self,
        stream: str,
        operation: Operation,
        *,
        id: str | None = None,
        durable: bool = True,
    ) -> Future[OperationResult]:
        """Queue an operation, and return its future.

        The future raises `DecisionError` if the operation is invalid or its ID was used for another one, and
        `StoreError` if the store failed; repeat the request with the same ID then.

        Args:
            stream: Name of the stream.
            operation: Operation of the stream's machine.
            id: ID of the request. A repeated request gets the same answer and changes nothing.
            durable: Whether the future waits for the disk. Otherwise, a power cut may lose the operation and all later
                ones, unless a durable operation follows.

        Raises:
            DecisionError: There is no such stream.
            StoreError: The service is stopping.
        """
        future: Future[OperationResult] = Future()
        self._put(OperationRequest(stream, operation, id, future, durable))
        return future

    def ask(self, stream: str, operation: Operation, *, id: str | None = None) -> asyncio.Future[OperationResult]:
        """Queue a durable operation, as `submit` does, and return a future of the current event loop."""
        future: asyncio.Future[OperationResult] = asyncio.get_running_loop().create_future()
        self._put(OperationRequest(stream, operation, id, future))
        return future

    def checkpoint(self, stream: str) -> Future[OperationResult]:
        """Write a checkpoint, from which a replay can start."""
        return self.submit(stream, CHECKPOINT)

    def submit_work(self, work: Callable[[Connection], T], *, durable: bool = False) -> Future[T]:
        """Queue other work as a separate transaction between those of operations, and return its future.

        In the writing thread, it waits for no other writer of SQLite. It must be short because operations wait for it.
        The future raises `StoreError` if the store failed.
        """
        task = _WorkTask(work, durable)
        self._put(task)
        return task.future

    def close(self) -> None:
        """Apply the queued operations, and stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _put(self, task: OperationRequest | _WorkTask[Any]) -> None:
        if isinstance(task, OperationRequest):
            if task.stream not in self.machines:
                raise DecisionError(
                    f"there is no {task.stream!r}", code="stream", hint=f"one of: {', '.join(self.machines)}"
                )
            if task.id is not None:
                task.key = hash_json(task.id)
            if self.tracing is not None:
                task.trace = self.tracing.current
        # Nothing may be queued after the end marker.
        with self._gate:
            if self._closed:
                raise StoreError("the service is stopping", hint="use another replica, or retry later")
            self._queue.put(task)

    def _write(self) -> None:
        stopping = False
        # Callers that were answered together send their next requests at about the same time, so the next batch is
        # expected to be as large as the last one.
        expected = 0
        # Operations whose plan is ready. They are older than those in the queue.
        ready: deque[OperationRequest] = deque()
        while not stopping or self._waiting_for_plan or ready:
            tasks: list[OperationRequest] = []
            work: list[_WorkTask[Any]] = []
            waits = not ready
            until = 0.0
            while len(tasks) < BATCH_SIZE:
                if ready:
                    tasks.append(ready.popleft())
                    continue
                try:
                    if waits:
                        task = self._queue.get()
                        waits, until = False, time.monotonic() + GATHER_SECONDS
                    elif len(tasks) < expected and (left := until - time.monotonic()) > 0:
                        task = self._queue.get(timeout=left)
                    else:
                        task = self._queue.get_nowait()
                except Empty:
                    break
                if task is None:
                    stopping = True
                    break
                if isinstance(task, _PlanReady):
                    # Waiting operations are older than those of this transaction.
                    ready.extend([*self._waiting_for_plan.pop(task.stream), *tasks])
                    tasks = []
                elif isinstance(task, _WorkTask):
                    work.append(task)
                elif isinstance(task.future, asyncio.Future):
                    if not task.future.cancelled():
                        tasks.append(task)
                # From now on, the operation is carried out even if its caller gives up.
                elif task.future.set_running_or_notify_cancel():
                    tasks.append(task)
            expected = len(tasks)
            self._carry_out(tasks)
            for work_task in work:
                if work_task.future.set_running_or_notify_cancel():
                    self._run(work_task)

    def _run(self, task: _WorkTask[Any]) -> None:
        try:
            with self._database.transaction(durable=task.durable) as connection:
                result = task.work(connection)
        except Exception as error:
            task.future.set_exception(error)
        else:
            task.future.set_result(result)

    def _carry_out(self, queued: Sequence[OperationRequest]) -> None:
        tasks = []
        durable = False
        by_stream: dict[str, list[OperationRequest]] = defaultdict(list)
        for task in queued:
            if task.stream in self._waiting_for_plan:
                self._waiting_for_plan[task.stream].append(task)
            else:
                tasks.append(task)
                by_stream[task.stream].append(task)
                durable = durable or task.durable
        if not tasks:
            return
        started = time.perf_counter()
        batches: dict[str, StreamBatch] = {}
        committing = False
        try:
            with self._database.transaction(durable=durable) as connection:
                # Use the same order everywhere, to prevent deadlocks between replicas.
                for stream in sorted(by_stream):
                    defer_planning = self._rounds[stream] < MAX_ROUNDS
                    batches[stream] = self._transaction.apply_operations(
                        connection, stream, by_stream[stream], defer_planning=defer_planning
                    )
                committing = True
        except Exception as error:
            for stream in by_stream:
                self._transaction.forget(stream)
            if not self._recover(error, tasks, batches if committing else {}):
                return
        seconds = time.perf_counter() - started
        results: list[Outcome] = []
        for stream, batch in batches.items():
            count = len(batch.results)
            if batch.plan_ahead is not None:
                self._plan(stream, batch.plan_ahead, by_stream[stream][count:])
            self._rounds[stream] = 0 if count else self._rounds[stream] + 1
            results += zip(by_stream[stream][:count], batch.results, strict=True)
        _tell_callers(results)
        commit = Commit(tasks, batches, len(results), seconds)
        for listener in self.listeners:
            try:
                listener(commit)
            except Exception:
                logger.exception("the listener %r failed", listener)

    def _plan(self, stream: str, work: Callable[[], None], waiting: list[OperationRequest]) -> None:
        """Compute a plan in another thread. Other streams continue meanwhile."""
        self._waiting_for_plan[stream] = waiting

        def compute_plan() -> None:
            try:
                work()
            except Exception:
                # The caller that needs the plan gets the same error.
                logger.exception("no plan could be computed for %s", stream)
            self._queue.put(_PlanReady(stream))

        threading.Thread(target=compute_plan, name=f"evenhand-plan-{stream}", daemon=True).start()

    def _recover(self, error: Exception, tasks: Sequence[OperationRequest], batches: Mapping[str, StreamBatch]) -> bool:
        """Handle the error of a transaction, and return whether it was committed nevertheless.

        Args:
            error: Error of the transaction.
            tasks: Operations of the transaction. Unless it was committed, their callers receive the error.
            batches: Effects of the transaction if the error occurred during the commit. Otherwise empty.
        """
        if isinstance(error, StoreError):
            try:
                if self._was_committed(batches, error):
                    return True
            except StoreError as unknown:
                error = unknown
            failed = [(task, StoreError(error.message, location=error.location, hint=error.hint)) for task in tasks]
            _tell_callers(failed)
        elif len(tasks) == 1:
            logger.exception("an operation of %s could not be carried out", tasks[0].stream)
            _tell_callers([(tasks[0], error)])
        else:
            # The fault of one operation must not affect the others.
            for task in tasks:
                self._carry_out([task])
        return False

    def _was_committed(self, batches: Mapping[str, StreamBatch], error: StoreError) -> bool:
        """Return whether an unconfirmed commit took effect, according to the store."""
        last_entries = [(stream, batch.rows[-1]) for stream, batch in batches.items() if batch.rows]
        if not last_entries:
            return False
        stream, entry = last_entries[0]
        for pause in self._pauses:
            try:
                with self._database.transaction() as connection:
                    return is_written(connection, stream, entry)
            except StoreError as again:
                logger.warning("the outcome of a commit is not known yet: %s", again.message)
                time.sleep(pause)
        raise StoreError(
            f"{error.message}; the outcome is not known yet",
            location=error.location,
            hint="repeat the request with the same id to get the same answer",
        )
