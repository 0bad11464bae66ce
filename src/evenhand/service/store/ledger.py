"""Carries operations out in the store: state, log and answers of each in one transaction.

One thread per process writes. It takes whatever has come in the meantime into one transaction and acknowledges nothing
before that is durable; so a slow disk makes batches larger, not the service slower by each decision.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection

from evenhand.errors import DecisionError, EvenhandError, StoreError
from evenhand.service.machines.machine import Machine, Operation
from evenhand.service.store import chain
from evenhand.service.store.book import CHECKPOINT, Asked, Book, Done, Page, wrote
from evenhand.service.store.database import Database
from evenhand.service.store.migrations import alone

logger = logging.getLogger(__name__)

BATCH = 500
"""Operations in one transaction, at most."""

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds between the looks for a commit whose answer was lost."""

Listener: TypeAlias = Callable[[str, Sequence[Mapping[str, Any]]], None]
Measurer: TypeAlias = Callable[[int, float], None]
T = TypeVar("T")

ROUNDS = 3
"""So often operations wait for a plan; other replicas may then have gone so far that another one is needed."""


@dataclass(frozen=True)
class _Task:
    asked: Asked
    durable: bool
    future: Future[Done] = field(default_factory=Future)


@dataclass(frozen=True)
class _Errand(Generic[T]):
    work: Callable[[Connection], T]
    durable: bool
    future: Future[T] = field(default_factory=Future)


@dataclass(frozen=True)
class _Planned:
    stream: str


class Ledger:
    """All streams of a store that this process serves.

    Args:
        database: the store.
        machines: by name of the stream, at their beginning.
        clock: gives the time that entries carry, in seconds since 1970.
        pauses: seconds between the looks for a commit whose answer was lost.

    Attributes:
        listeners: are told, in the writing thread, of entries that were committed: the stream, and the entries as they
            are exported. They must be quick, and change nothing in them.
        measurers: are told of every commit: how many operations it took in, and its seconds.

    Raises:
        StoreError: the store cannot be used, or a stream in it belongs to another configuration.
    """

    def __init__(
        self,
        database: Database,
        machines: Mapping[str, Machine],
        *,
        clock: Callable[[], float] = time.time,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._database = database
        self._book = Book(machines, clock)
        self._pauses = pauses
        self.listeners: list[Listener] = []
        self.measurers: list[Measurer] = []
        self._queue: SimpleQueue[_Task | _Errand[Any] | _Planned | None] = SimpleQueue()
        # By stream, what waits for its machine's plan, and how often it has waited.
        self._aside: dict[str, list[_Task]] = {}
        self._rounds: dict[str, int] = defaultdict(int)
        self._gate = threading.Lock()
        self._closed = False
        with database.transaction() as connection:
            # Replicas that start at the same time must not begin a stream twice.
            alone(connection)
            for stream in self._book.streams:
                self._book.begin(connection, stream)
        self._thread = threading.Thread(target=self._write, name="evenhand-ledger", daemon=True)
        self._thread.start()

    @property
    def streams(self) -> Sequence[str]:
        """The names of those that this process serves."""
        return self._book.streams

    @property
    def waiting(self) -> int:
        """Operations that no transaction has taken up yet, about."""
        return self._queue.qsize()

    def holders(self, stream: str, state: Mapping[str, Any]) -> Collection[str]:
        """The replicas that have something open in a state of a stream."""
        return self._book.machine(stream).holders(state)

    def submit(
        self,
        stream: str,
        operation: Operation,
        *,
        id: str | None = None,  # noqa: A002
        durable: bool = True,
        answered: Operation | None = None,
    ) -> Future[Done]:
        """Have an operation carried out; the future is done when it is durable.

        Args:
            stream: its name.
            operation: see the stream's machine.
            id: asked again with the same operation under the same id, the answer is the same and nothing is done.
            durable: the future waits until the disk has it; else it may be lost in a power cut, together with all after
                it, unless a durable operation follows.
            answered: what the caller asked, if they were told the answer already; see ``Asked``.

        Raises:
            DecisionError: there is no such stream.
            StoreError: the service is stopping.

        The future raises:
            DecisionError: the operation makes no sense, or the id was used for another one; nothing changed.
            StoreError: the store failed; ask again with the same id.
        """
        if stream not in self._book.streams:
            raise DecisionError(f"there is no {stream!r}", code="stream", mend=f"one of: {', '.join(self.streams)}")
        task = _Task(Asked(stream, operation, id, answered), durable)
        self._put(task)
        return task.future

    def checkpoint(self, stream: str) -> Future[Done]:
        """Have an entry written from which a replay can start: what the stream is, and its state."""
        return self.submit(stream, CHECKPOINT)

    def aside(self, work: Callable[[Connection], T], *, durable: bool = False) -> Future[T]:
        """Have something else done in the store, in a transaction of its own between two of operations.

        In SQLite, which has one writer at a time, it waits for none then. It must be short: operations wait for it.

        The future raises:
            StoreError: the store failed.
        """
        errand = _Errand(work, durable)
        self._put(errand)
        return errand.future

    def close(self) -> None:
        """Carry out what was submitted, and stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _put(self, one: _Task | _Errand[Any]) -> None:
        # Behind the mark of the end nothing is ever taken up.
        with self._gate:
            if self._closed:
                raise StoreError("the service is stopping", mend="ask another replica, or again later")
            self._queue.put(one)

    # ---- the writing thread

    def _write(self) -> None:
        stopping = False
        while not stopping or self._aside:
            one = self._queue.get()
            tasks: list[_Task] = []
            errands: list[_Errand[Any]] = []
            while True:
                if one is None:
                    stopping = True
                    break
                if isinstance(one, _Planned):
                    # What waited came before all that was taken up now.
                    tasks = self._aside.pop(one.stream) + tasks
                elif isinstance(one, _Errand):
                    errands.append(one)
                # From here on nobody can take a request back: callers who gave up before have not asked for anything.
                elif one.future.set_running_or_notify_cancel():
                    tasks.append(one)
                if len(tasks) >= BATCH:
                    break
                try:
                    one = self._queue.get_nowait()
                except Empty:
                    break
            self._carry_out(tasks)
            for errand in errands:
                if errand.future.set_running_or_notify_cancel():
                    self._run(errand)

    def _run(self, errand: _Errand[Any]) -> None:
        try:
            with self._database.transaction(durable=errand.durable) as connection:
                result = errand.work(connection)
        except Exception as error:
            errand.future.set_exception(error)
        else:
            errand.future.set_result(result)

    def _carry_out(self, asked: Sequence[_Task]) -> None:
        tasks = []
        by_stream: dict[str, list[_Task]] = defaultdict(list)
        for task in asked:
            if task.asked.stream in self._aside:
                self._aside[task.asked.stream].append(task)
            else:
                tasks.append(task)
                by_stream[task.asked.stream].append(task)
        if not tasks:
            return
        started = time.perf_counter()
        try:
            pages = self._transact(by_stream, durable=any(task.durable for task in tasks))
        except StoreError as error:
            for task in tasks:
                task.future.set_exception(StoreError(error.what, where=error.where, mend=error.mend))
            return
        except Exception as error:
            # A fault in one machine, of one operation: it must not be that of everybody else's.
            if len(tasks) == 1:
                logger.exception("an operation of %s could not be carried out", tasks[0].asked.stream)
                tasks[0].future.set_exception(error)
            else:
                for task in tasks:
                    self._carry_out([task])
            return
        seconds = time.perf_counter() - started
        for stream, page in pages.items():
            done = len(page.results)
            if page.ahead is not None:
                self._plan(stream, page.ahead, by_stream[stream][done:])
            self._rounds[stream] = 0 if done else self._rounds[stream] + 1
            for task, result in zip(by_stream[stream][:done], page.results, strict=True):
                if isinstance(result, EvenhandError):
                    task.future.set_exception(result)
                else:
                    task.future.set_result(result)
        self._tell(pages, sum(len(page.results) for page in pages.values()), seconds)

    def _plan(self, stream: str, work: Callable[[], None], waiting: list[_Task]) -> None:
        """Have a plan made by another thread; meanwhile the other streams go on."""
        self._aside[stream] = waiting

        def make() -> None:
            try:
                work()
            except Exception:
                # Whoever needs the plan runs into the same, and is told.
                logger.exception("no plan could be made for %s", stream)
            self._queue.put(_Planned(stream))

        threading.Thread(target=make, name=f"evenhand-plan-{stream}", daemon=True).start()

    def _transact(self, by_stream: Mapping[str, Sequence[_Task]], *, durable: bool) -> dict[str, Page]:
        pages: dict[str, Page] = {}
        committing = False
        try:
            with self._database.transaction(durable=durable) as connection:
                # In one order everywhere, so that replicas never wait for each other in a circle.
                for stream in sorted(by_stream):
                    asked = [task.asked for task in by_stream[stream]]
                    patient = self._rounds[stream] < ROUNDS
                    pages[stream] = self._book.advance(connection, stream, asked, patient=patient)
                committing = True
        except BaseException as error:
            for stream in by_stream:
                self._book.forget(stream)
            if committing and isinstance(error, StoreError) and self._committed(pages, error):
                return pages
            raise
        return pages

    def _committed(self, pages: Mapping[str, Page], error: StoreError) -> bool:
        """Whether a commit happened whose answer was lost: the store itself is asked.

        Raises:
            StoreError: it did not answer.
        """
        written = [(stream, page.rows[-1]) for stream, page in pages.items() if page.rows]
        if not written:
            return False
        stream, last = written[0]
        for pause in self._pauses:
            try:
                with self._database.transaction() as connection:
                    return wrote(connection, stream, last)
            except StoreError as again:
                logger.warning("whether a commit happened is not known yet: %s", again.what)
                time.sleep(pause)
        raise StoreError(
            f"{error.what}; whether it was done is not known yet", where=error.where,
            mend="ask again with the same id, and the answer will be the one that was given, if one was",
        )  # fmt: skip

    def _tell(self, pages: Mapping[str, Page], count: int, seconds: float) -> None:
        """Tell those who listen; what they do wrong is no fault of the decisions, nor of this thread."""
        told = {stream: [chain.entry(row) for row in page.rows] for stream, page in pages.items() if self.listeners}
        calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (measurer, (count, seconds)) for measurer in self.measurers
        ]
        calls += [(listener, (stream, rows)) for stream, rows in told.items() if rows for listener in self.listeners]
        for call, arguments in calls:
            try:
                call(*arguments)
            except Exception:
                logger.exception("%r failed at what it was told", call)


__all__ = ["BATCH", "Done", "Ledger", "Listener", "Measurer"]
