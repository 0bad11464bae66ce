"""Carries operations out in the store: state, log and answers of each in one transaction.

One thread per process writes. It takes whatever has come in the meantime into one transaction and acknowledges nothing
before that is durable; so a slow disk makes batches larger, not the service slower by each decision.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from sqlalchemy import Connection, insert, select, update

from evenhand.errors import DecisionError, EvenhandError, StoreError
from evenhand.service.machines.machine import Machine, Operation
from evenhand.service.store import chain
from evenhand.service.store.database import Database
from evenhand.service.store.tables import answers, entries, streams

BATCH = 500
"""Operations in one transaction, at most."""

Listener: TypeAlias = Callable[[str, Sequence[Mapping[str, Any]]], None]
Measurer: TypeAlias = Callable[[int, float], None]


@dataclass(frozen=True)
class Done:
    """An operation that was carried out, durably.

    Attributes:
        number: of its entry in the stream's log.
        answer: what the machine said.
        repeated: whether it was done before, under the same id; the answer is the one given then.
    """

    number: int
    answer: Mapping[str, Any]
    repeated: bool = False


@dataclass
class _Task:
    stream: str
    operation: Operation
    id: str | None
    durable: bool
    future: Future[Done] = field(default_factory=Future)


@dataclass
class _Kept:
    """A machine, and the entry of the log whose state it is in; None: it must be loaded first."""

    machine: Machine
    number: int | None = None
    hash: str = chain.BEGINNING


class Ledger:
    """All streams of a store that this process serves.

    Args:
        database: the store.
        machines: by name of the stream, at their beginning.
        clock: gives the time that entries carry, in seconds since 1970.

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
    ) -> None:
        self._database = database
        self._kept = {name: _Kept(machine) for name, machine in machines.items()}
        self._clock = clock
        self.listeners: list[Listener] = []
        self.measurers: list[Measurer] = []
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._closed = False
        for name, kept in self._kept.items():
            self._begin(name, kept.machine)
        self._thread = threading.Thread(target=self._write, name="evenhand-ledger", daemon=True)
        self._thread.start()

    def submit(
        self,
        stream: str,
        operation: Operation,
        *,
        id: str | None = None,  # noqa: A002
        durable: bool = True,
    ) -> Future[Done]:
        """Have an operation carried out; the future is done when it is durable.

        Args:
            stream: its name.
            operation: see the stream's machine.
            id: asked again with the same operation under the same id, the answer is the same and nothing is done.
            durable: the future waits until the disk has it; else it may be lost in a power cut, together with all after
                it, unless a durable operation follows.

        The future raises:
            DecisionError: the operation makes no sense, or the id was used for another one; nothing changed.
            StoreError: the store failed; ask again with the same id.
        """
        if stream not in self._kept:
            raise DecisionError(f"there is no {stream!r}", code="stream", mend=f"one of: {', '.join(self._kept)}")
        task = _Task(stream, operation, id, durable)
        if self._closed:
            raise StoreError("the service is stopping", mend="ask another replica, or again later")
        self._queue.put(task)
        return task.future

    @property
    def waiting(self) -> int:
        """Operations that no transaction has taken up yet, about."""
        return self._queue.qsize()

    def close(self) -> None:
        """Carry out what was submitted, and stop."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()

    # ---- the writing thread

    def _write(self) -> None:
        stopping = False
        while not stopping:
            tasks: list[_Task] = []
            first = self._queue.get()
            stopping = first is None
            if first is not None:
                tasks.append(first)
            while len(tasks) < BATCH and not stopping:
                try:
                    one = self._queue.get_nowait()
                except Empty:
                    break
                stopping = one is None
                if one is not None:
                    tasks.append(one)
            if tasks:
                self._carry_out(tasks)

    def _carry_out(self, tasks: list[_Task]) -> None:
        # From here on nobody can take a request back: callers who gave up before have not asked for anything.
        tasks = [task for task in tasks if task.future.set_running_or_notify_cancel()]
        if not tasks:
            return
        by_stream: dict[str, list[_Task]] = defaultdict(list)
        for task in tasks:
            by_stream[task.stream].append(task)
        results: list[tuple[_Task, Done | EvenhandError]] = []
        logged: dict[str, list[dict[str, Any]]] = {}
        started = time.perf_counter()
        try:
            with self._database.transaction(durable=any(task.durable for task in tasks)) as connection:
                # In one order everywhere, so that replicas never wait for each other in a circle.
                for stream in sorted(by_stream):
                    logged[stream] = self._advance(connection, stream, by_stream[stream], results)
        except BaseException as error:
            # What was applied in memory may not be in the store: load it again.
            for stream in by_stream:
                self._kept[stream].number = None
            failure = error if isinstance(error, EvenhandError) else StoreError(f"the store failed: {error}")
            for task in tasks:
                task.future.set_exception(failure)
            return
        seconds = time.perf_counter() - started
        for task, result in results:
            if isinstance(result, Done):
                task.future.set_result(result)
            else:
                task.future.set_exception(result)
        for measurer in self.measurers:
            measurer(len(tasks), seconds)
        if self.listeners:
            for stream, rows in logged.items():
                told = [chain.entry(row) for row in rows]
                for listener in self.listeners if told else ():
                    listener(stream, told)

    def _advance(
        self, connection: Connection, stream: str, tasks: list[_Task], results: list[tuple[_Task, Done | EvenhandError]]
    ) -> list[dict[str, Any]]:
        kept = self._kept[stream]
        self._catch_up(connection, stream, kept)
        known = _answers(connection, stream, [task.id for task in tasks if task.id is not None])
        rows: list[dict[str, Any]] = []
        remembered: list[dict[str, Any]] = []
        number, last = kept.number or 0, kept.hash
        for task in tasks:
            asked = hashlib.sha256(chain.canonical(task.operation).encode()).hexdigest()
            if task.id in known:
                results.append((task, _again(task, asked, known[task.id])))
                continue
            try:
                before = kept.machine.before(task.operation)
                answer = kept.machine.apply(task.operation, number + 1)
            except EvenhandError as error:
                results.append((task, error))
                continue
            number += 1
            at = self._clock()
            body = chain.canonical({"id": task.id, "before": before, "input": task.operation, "output": answer,
                                    "digest": kept.machine.digest})  # fmt: skip
            previous, last = last, chain.link(last, stream, number, at, body)
            rows.append({"stream": stream, "number": number, "at": at, "body": body, "previous": previous,
                         "hash": last})  # fmt: skip
            if task.id is not None:
                row = {"stream": stream, "id": task.id, "number": number, "asked": asked,
                       "answer": chain.canonical(answer)}  # fmt: skip
                remembered.append(row)
                known[task.id] = row
            results.append((task, Done(number, answer)))
        if rows:
            connection.execute(insert(entries), rows)
            if remembered:
                connection.execute(insert(answers), remembered)
            connection.execute(
                update(streams)
                .where(streams.c.name == stream)
                .values(number=number, hash=last, state=json.dumps(kept.machine.state()))
            )
        kept.number, kept.hash = number, last
        return rows

    def _catch_up(self, connection: Connection, stream: str, kept: _Kept) -> None:
        """Lock the stream's row, and load its state unless this process wrote it last."""
        row = connection.execute(
            select(streams.c.number, streams.c.hash).where(streams.c.name == stream).with_for_update()
        ).one()
        if row.number != kept.number or row.hash != kept.hash:
            state = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar_one()
            kept.machine.load(json.loads(state))
            kept.number, kept.hash = row.number, row.hash

    def _begin(self, stream: str, machine: Machine) -> None:
        """The stream's first entry, which says what it is."""
        with self._database.transaction() as connection:
            found = connection.execute(select(streams.c.digest, streams.c.kind).where(streams.c.name == stream)).first()
            if found is not None:
                if (found.digest, found.kind) != (machine.digest, machine.kind):
                    raise StoreError(
                        f"{stream!r} in the store belongs to another configuration",
                        mend="give the new configuration a new name, or use the old one",
                    )
                return
            at = self._clock()
            body = chain.canonical({"kind": machine.kind, "digest": machine.digest,
                                    "configuration": machine.configuration, "state": machine.state()})  # fmt: skip
            first = chain.link(chain.BEGINNING, stream, 0, at, body)
            connection.execute(insert(entries).values(stream=stream, number=0, at=at, body=body,
                                                      previous=chain.BEGINNING, hash=first))  # fmt: skip
            connection.execute(insert(streams).values(name=stream, kind=machine.kind, digest=machine.digest, number=0,
                                                      hash=first, state=json.dumps(machine.state())))  # fmt: skip


def _answers(connection: Connection, stream: str, ids: Sequence[str]) -> dict[str | None, Mapping[str, Any]]:
    found: dict[str | None, Mapping[str, Any]] = {}
    if ids:
        query = select(answers).where(answers.c.stream == stream, answers.c.id.in_(ids))
        for row in connection.execute(query).mappings():
            found[row["id"]] = dict(row)
    return found


def _again(task: _Task, asked: str, row: Mapping[str, Any]) -> Done | DecisionError:
    if row["asked"] != asked:
        return DecisionError(
            f"the id {task.id!r} was used for another request", code="repeated", mend="give every request its own id"
        )
    return Done(row["number"], json.loads(row["answer"]), repeated=True)
