"""Apply operations within a transaction: update the state, write the log, and store the answers."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from evenhand.core.canonical_json import canonical_json, hash_json
from evenhand.errors import DecisionError, EvenhandError, StoreError
from evenhand.service.state_machines import GENESIS_HASH, Operation, StateMachine
from evenhand.service.store.tables import REVISION, answers, checkpoints, entries, streams

_SQLITE = {
    # A single writer locks everything when its transaction begins.
    "head": "SELECT number, hash, state_number, digest, (SELECT version_num FROM alembic_version) "
    "FROM streams WHERE name = :stream",
    "state": "UPDATE streams SET number = :number, hash = :hash, state_number = :number, state = :state "
    "WHERE name = :stream",
    "last": "UPDATE streams SET number = :number, hash = :hash WHERE name = :stream",
    "entries": "INSERT INTO entries (stream, number, at, marked, body, previous, hash) "
    "VALUES (:stream, :number, :at, :marked, :body, :previous, :hash)",
    "answers": "INSERT INTO answers (stream, id, number) VALUES (:stream, :id, :number)",
    "known": "SELECT id, number FROM answers WHERE stream = :stream AND id IN (SELECT value FROM json_each(:keys))",
}
_POSTGRES = {
    **_SQLITE,
    "locked": f"{_SQLITE['head']} FOR UPDATE OF streams",
    "known": "SELECT id, number FROM answers WHERE stream = :stream AND id = ANY(:keys)",
}
STATEMENTS = {
    "sqlite": {**_SQLITE, "locked": _SQLITE["head"]},
    "postgresql": {name: re.sub(r":(\w+)", r"%(\1)s", text) for name, text in _POSTGRES.items()},
}
"""Frequent statements by dialect. They are run by the driver itself, which is faster than with SQLAlchemy."""

logger = logging.getLogger(__name__)

CHECKPOINT: Operation = {"op": "checkpoint"}
"""Operation of `Transaction` itself: log the configuration and state of the stream, as the first entry does."""

REPLAY_HINT = "run `evenhand replay --store URL` to see what another program changed"


@dataclass(slots=True, eq=False)
class OperationRequest:
    """Requested operation.

    Attributes:
        stream: Name of the stream.
        operation: Operation of the stream's machine.
        id: ID under which it is applied once. None applies it every time.
        future: Future of the caller that receives the result.
        durable: Whether the future waits for the disk.
        trace: Context of the caller's span.
        key: Key of the ID's answer: its hash, so that IDs may be any text and are not stored in plain text. The ledger
            sets it in the thread of the caller.
    """

    stream: str
    operation: Operation
    id: str | None
    future: Future[OperationResult] | asyncio.Future[OperationResult]
    durable: bool = True
    trace: Any = None
    key: str | None = None


@dataclass(frozen=True)
class OperationResult:
    """Result of a committed operation.

    Attributes:
        number: Number of its entry in the log.
        answer: Output of the machine.
        repeated: Whether the ID was used before. The answer is the earlier one.
    """

    number: int
    answer: Mapping[str, Any]
    repeated: bool = False


@dataclass
class StreamBatch:
    """Effects of one transaction on one stream.

    Attributes:
        results: Results in the order of the requests. If a result is an error, nothing was changed.
        rows: Appended entries.
        applied: Operations and their outputs.
        plan_ahead: Function that computes the plan of the next operation. The results end before an operation without
            a plan.
    """

    results: list[OperationResult | EvenhandError] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    applied: list[tuple[Operation, Mapping[str, Any]]] = field(default_factory=list)
    plan_ahead: Callable[[], None] | None = None


@dataclass(frozen=True)
class Commit:
    """Committed transaction of operations.

    Attributes:
        requests: Requests of the transaction, some of which may still wait for a plan.
        batches: Effects by stream.
        count: Number of answered operations.
        seconds: Duration of the transaction.
    """

    requests: Sequence[OperationRequest]
    batches: Mapping[str, StreamBatch]
    count: int
    seconds: float


@dataclass
class LoadedMachine:
    """Machine and the entry that its state belongs to. Without an entry, it must be loaded first."""

    machine: StateMachine
    number: int | None = None
    hash: str = GENESIS_HASH


class Transaction:
    """Streams of a process. Every method runs inside a transaction of its caller.

    Until that transaction is committed, the machines in memory are ahead of the store. A caller that does not know
    whether it was committed must `forget` its streams: they are loaded again before the next operation.

    Args:
        machines: Machines in their initial state, by name of the stream.
        clock: Clock for the time of entries, in seconds since 1970. No decision depends on it.
    """

    def __init__(self, machines: Mapping[str, StateMachine], clock: Callable[[], float]) -> None:
        self._loaded = {name: LoadedMachine(machine) for name, machine in machines.items()}
        self._clock = clock

    def forget(self, stream: str) -> None:
        """Mark a machine as outdated. It is loaded again before its next operation."""
        self._loaded[stream].number = None

    def begin(self, connection: Connection, stream: str) -> None:
        """Write the first entry of a stream, unless the stream exists with the same configuration.

        A changed configuration starts a new run: an entry with the new configuration is chained to the log, and the
        state is the initial state of the machine.

        Raises:
            StoreError: The stream is of another kind, or its log was tampered with.
        """
        machine = self._loaded[stream].machine
        # The lock keeps other replicas from appending an entry between these two queries.
        row = connection.execute(select(streams).where(streams.c.name == stream).with_for_update()).first()
        _check_end(connection, stream, row)
        number, previous = (0, GENESIS_HASH) if row is None else (row.number + 1, row.hash)
        if row is not None:
            if row.kind != machine.kind:
                raise StoreError(
                    f"expected {stream!r} in the store to be a {machine.kind}, got a {row.kind}",
                    hint="rename the new one",
                )
            if row.digest == machine.digest:
                return
            logger.warning(
                "%s has a different configuration: a new run starts with entry %d of its log", stream, number
            )
        entry = self._entry(stream, number, previous, _checkpoint_body(machine), is_start=True)
        connection.execute(insert(entries).values(**entry))
        connection.execute(insert(checkpoints).values(stream=stream, number=number, at=entry["at"]))
        values = {
            "kind": machine.kind,
            "digest": machine.digest,
            "number": number,
            "hash": entry["hash"],
            "state_number": number,
            "state": json.dumps(machine.state()),
        }
        if row is None:
            connection.execute(insert(streams).values(name=stream, **values))
        else:
            connection.execute(update(streams).where(streams.c.name == stream).values(**values))

    def apply_operations(
        self, connection: Connection, stream: str, requests: Sequence[OperationRequest], *, defer_planning: bool = False
    ) -> StreamBatch:
        """Apply operations to a stream in their order.

        Args:
            connection: Connection in a transaction.
            stream: Name of the stream.
            requests: Requested operations.
            defer_planning: Whether to stop at an operation whose plan is missing, so that other streams need not wait.

        Raises:
            StoreError: The store failed.
        """
        loaded, run = self._loaded[stream], connection.exec_driver_sql
        statements, machine = STATEMENTS[connection.dialect.name], loaded.machine
        batch = StreamBatch()
        try:
            batch.plan_ahead = follow_stream(connection, stream, loaded, lock=True, defer_planning=defer_planning)
        except DecisionError as error:
            if error.code != "replaced":
                raise
            batch.results = [configuration_error(stream) for _ in requests]
            return batch
        if batch.plan_ahead is not None:
            return batch
        numbers: dict[str, int] = {}
        if used := list(filter(None, map(attrgetter("key"), requests))):
            values = {"stream": stream, "keys": json.dumps(used) if connection.dialect.name == "sqlite" else used}
            numbers = dict(run(statements["known"], values).all())
        new_answers: list[dict[str, Any]] = []
        new_checkpoints: list[dict[str, Any]] = []
        number, last_hash = loaded.number or 0, loaded.hash
        for request in requests:
            batch.plan_ahead = machine.plan_ahead(operation=request.operation)
            if batch.plan_ahead is not None and defer_planning:
                break
            key = request.key
            if key is not None and (earlier := numbers.get(key)) is not None:
                body = _read_body(connection, stream, earlier, batch.rows)
                batch.results.append(_repeat_answer(request, earlier, body))
                continue
            answer: Mapping[str, Any] = {}
            is_checkpoint = request.operation is CHECKPOINT
            if is_checkpoint:
                content = _checkpoint_body(machine)
            else:
                try:
                    counters = machine.counts()
                    answer = machine.apply(request.operation, number + 1)
                except EvenhandError as error:
                    batch.results.append(error)
                    continue
                content = {
                    "id": request.id,
                    "before": counters,
                    "input": request.operation,
                    "output": answer,
                    "digest": machine.digest,
                }
            number += 1
            entry = self._entry(stream, number, last_hash, content, is_start=is_checkpoint)
            last_hash = entry["hash"]
            batch.rows.append(entry)
            if is_checkpoint:
                new_checkpoints.append({"stream": stream, "number": number, "at": entry["at"]})
            if key is not None:
                numbers[key] = number
                new_answers.append({"stream": stream, "id": key, "number": number})
            batch.results.append(OperationResult(number, answer))
            batch.applied.append((request.operation, answer))
        if batch.rows:
            run(statements["entries"], batch.rows)
            if new_answers:
                run(statements["answers"], new_answers)
            if new_checkpoints:
                connection.execute(insert(checkpoints), new_checkpoints)
            head = {"stream": stream, "number": number, "hash": last_hash}
            if new_checkpoints or machine.needs_saving:
                run(statements["state"], {**head, "state": json.dumps(machine.state())})
            else:
                run(statements["last"], head)
        loaded.number, loaded.hash = number, last_hash
        if len(batch.results) == len(requests):
            # Compute the plan for the next decision now, so that it may be ready before the request arrives.
            batch.plan_ahead = machine.plan_ahead()
        return batch

    def _entry(
        self, stream: str, number: int, previous: str, content: Mapping[str, Any], *, is_start: bool
    ) -> dict[str, Any]:
        """Build the row of an entry. A log can start with it if ``is_start``."""
        at, body = self._clock(), canonical_json(content)
        return {
            "stream": stream,
            "number": number,
            "at": at,
            # Only recommendations that a shield follows are unmarked.
            "marked": '"reason":"followed"' not in body or '"op":"decide"' not in body,
            "body": body,
            "previous": previous if is_start else None,
            "hash": hash_json([previous, stream, number, at, body]),
        }


def follow_stream(
    connection: Connection, stream: str, loaded: LoadedMachine, *, lock: bool = False, defer_planning: bool = False
) -> Callable[[], None] | None:
    """Bring a machine to the end of its stream, from its own state or from a later state in the store.

    Args:
        connection: Connection in a transaction.
        stream: Name of the stream.
        loaded: Machine.
        lock: Whether to lock the row of the stream until the end of the transaction.
        defer_planning: Whether to return the function that computes a missing plan instead of loading a state.

    Raises:
        DecisionError: The stream has another configuration now.
        StoreError: The state or an entry is invalid. Alternatively, the row is locked, or the tables were migrated
            while this process was running.
    """
    statement = STATEMENTS[connection.dialect.name]["locked" if lock else "head"]
    row = connection.exec_driver_sql(statement, {"stream": stream}).one()
    number, end, state_number, digest, revision = row
    if lock and revision != REVISION:
        raise StoreError(
            f"the store was migrated from revision {REVISION} to {revision} while this process was running",
            hint="restart this process with the newer version of Evenhand",
        )
    if digest != loaded.machine.digest:
        raise configuration_error(stream)
    if (number, end) == (loaded.number, loaded.hash):
        return None
    own = select(entries.c.hash).where(entries.c.stream == stream, entries.c.number == loaded.number)
    # The log of a store that was restored from a backup may differ from the log of this process.
    if loaded.number is None or loaded.number < state_number or connection.execute(own).scalar() != loaded.hash:
        text = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar_one()
        state = json.loads(text)
        if defer_planning and (plan_ahead := loaded.machine.plan_ahead(state)) is not None:
            return plan_ahead
        loaded.machine.load(state)
        loaded.number = state_number
    query = select(entries.c.number, entries.c.body).where(
        entries.c.stream == stream, entries.c.number > loaded.number, entries.c.number <= number
    )
    loaded.hash = ""
    for position, body in connection.execute(query.order_by(entries.c.number)):
        try:
            loaded.machine.apply(json.loads(body)["input"], position)
        except (EvenhandError, ValueError, KeyError, TypeError) as error:
            loaded.number = None
            raise StoreError(
                f"entry {position:,} of {stream!r} cannot be replayed: {error}", hint=REPLAY_HINT
            ) from None
    loaded.number, loaded.hash = number, end
    return None


def configuration_error(stream: str) -> DecisionError:
    """Build the error for an operation of a process whose configuration of a stream was replaced."""
    return DecisionError(
        f"another replica has started {stream!r} with another configuration",
        code="replaced",
        hint="use that replica, or restart this one with the same configuration",
    )


def is_written(connection: Connection, stream: str, entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is in the store, after waiting for transactions that may still write there.

    An unconfirmed commit may still be running in the server. Its transaction holds the lock of the stream's row
    until it is decided, so the next holder of that lock sees the outcome.
    """
    connection.execute(select(streams.c.number).where(streams.c.name == stream).with_for_update()).one()
    query = select(entries.c.hash).where(entries.c.stream == stream, entries.c.number == entry["number"])
    return bool(connection.execute(query).scalar() == entry["hash"])


def _check_end(connection: Connection, stream: str, row: Row[Any] | None) -> None:
    """Check that the row and the log of a stream end in the same entry."""
    log = select(entries.c.number, entries.c.hash).where(entries.c.stream == stream)
    last_entry = connection.execute(log.order_by(entries.c.number.desc()).limit(1)).first()
    if row is None and last_entry is None:
        answer = select(answers.c.number).where(answers.c.stream == stream).limit(1)
        if connection.execute(answer).first() is None:
            return
    elif row is not None and last_entry is not None and (row.number, row.hash) == tuple(last_entry):
        return
    row_end = "no row in the table streams" if row is None else f"a row that ends in entry {row.number:,}"
    log_end = "no log" if last_entry is None else f"a log that ends in entry {last_entry.number:,}"
    if row is not None and last_entry is not None and row.number == last_entry.number:
        log_end += " with another hash"
    raise StoreError(
        f"another program changed the store: {stream!r} has {row_end}, and {log_end}",
        hint=f"restore a backup, or {REPLAY_HINT}",
    )


def _checkpoint_body(machine: StateMachine) -> dict[str, Any]:
    """Return the body of an entry from which a replay can start."""
    return {
        "kind": machine.kind,
        "digest": machine.digest,
        "configuration": machine.configuration,
        "state": machine.state(),
    }


def _read_body(
    connection: Connection, stream: str, number: int, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | StoreError | None:
    """Return the body of an entry, which may be among the rows to be written. None if it was deleted."""
    body = next((row["body"] for row in rows if row["number"] == number), None)
    if body is None:
        query = select(entries.c.body).where(entries.c.stream == stream, entries.c.number == number)
        body = connection.execute(query).scalar()
    if body is None:
        return None
    try:
        content: dict[str, Any] = json.loads(body)
    except ValueError:
        return StoreError(f"entry {number:,} of {stream!r} cannot be read", location="the store", hint=REPLAY_HINT)
    return content


def question_of(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request of a caller from a logged operation. The seed of events is not part of it."""
    return {name: value for name, value in operation.items() if name != "seed"}


def _repeat_answer(
    request: OperationRequest, number: int, body: Mapping[str, Any] | StoreError | None
) -> OperationResult | EvenhandError:
    """Return the earlier answer to an ID if the request is the same."""
    if isinstance(body, StoreError):
        return body
    if body is None:
        return DecisionError(
            f"the id {request.id!r} was used before, and its answer was deleted",
            code="repeated",
            hint="see retention.log_days",
        )
    if canonical_json(question_of(body["input"])) != canonical_json(question_of(request.operation)):
        return DecisionError(
            f"the id {request.id!r} was used for another request",
            code="repeated",
            hint="use a unique id per request",
        )
    return OperationResult(number, body["output"], repeated=True)
