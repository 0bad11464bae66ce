"""Application of operations within a transaction: apply, log, and remember the answers."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from evenhand.errors import DecisionError, EvenhandError, StoreError
from evenhand.service.state_machines import Operation, StateMachine
from evenhand.service.store import chain, statements
from evenhand.service.store.statements import StreamHead
from evenhand.service.store.tables import (
    REVISION,
    answers,
    checkpoints,
    entries,
    streams,
)

logger = logging.getLogger(__name__)

CHECKPOINT: Operation = {"op": "checkpoint"}
"""Operation of `Transaction` itself: log the configuration and state of the stream, as the first entry does."""


@dataclass(frozen=True)
class OperationRequest:
    """Requested operation.

    Attributes:
        stream: Name of the stream.
        operation: Operation of the stream's machine.
        id: under which it is carried out once, however often it is asked for; None: every time.
        answered: what the caller asked, if they were told the answer already, without this operation. Then it is
            carried out whatever has the id, unless that was this very operation, and a repeated request is told what
            they were told.
    """

    stream: str
    operation: Operation
    id: str | None = None
    answered: Operation | None = None


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
        results: Results in the order of the requests. For an error, nothing was changed.
        rows: Appended entries.
        done: Applied operations and their outputs.
        plan_ahead: Function that computes the plan of the next operation. The results end before an operation without
            a plan.
    """

    results: list[OperationResult | EvenhandError] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    done: list[tuple[Operation, Mapping[str, Any]]] = field(default_factory=list)
    plan_ahead: Callable[[], None] | None = None


@dataclass
class LoadedMachine:
    """Machine and the entry that its state belongs to. Without an entry, it must be loaded first."""

    machine: StateMachine
    number: int | None = None
    hash: str = chain.GENESIS_HASH


class Transaction:
    """All streams that a process serves; every method works inside a transaction of its caller.

    The machines in memory run ahead of the store until that transaction is over. A caller that cannot say for certain
    that it was committed must `forget` the streams it touched: they are loaded again the next time.

    Args:
        machines: by name of the stream, at their beginning.
        clock: gives the time that entries carry, in seconds since 1970. Nothing is decided by it.
    """

    def __init__(self, machines: Mapping[str, StateMachine], clock: Callable[[], float]) -> None:
        self._kept = {name: LoadedMachine(machine) for name, machine in machines.items()}
        self._clock = clock

    @property
    def streams(self) -> Sequence[str]:
        """Names of the streams."""
        return list(self._kept)

    def serves(self, stream: str) -> bool:
        """Return whether a stream is served."""
        return stream in self._kept

    def machine(self, stream: str) -> StateMachine:
        """Return what decides in a stream; only the thread that writes may ask it for its state."""
        return self._kept[stream].machine

    def forget(self, stream: str) -> None:
        """Mark a machine as outdated. It is loaded again before its next operation."""
        self._kept[stream].number = None

    def begin(self, connection: Connection, stream: str) -> None:
        """Write the entry that a stream begins with, unless it goes on under the same configuration.

        A stream whose configuration has changed starts a new run: an entry with the new configuration is chained to its
        log, and the state is that of the machine at its beginning.

        Raises:
            StoreError: the stream is of another kind, or its log was tampered with.
        """
        machine = self._kept[stream].machine
        # Locked, so that no other replica appends an entry between this look at the row and that at the log.
        found = connection.execute(select(streams).where(streams.c.name == stream).with_for_update()).first()
        _check_end(connection, stream, found)
        number, previous = (0, chain.GENESIS_HASH) if found is None else (found.number + 1, found.hash)
        if found is not None:
            if found.kind != machine.kind:
                raise StoreError(
                    f"{stream!r} in the store is a {found.kind}, and not a {machine.kind}",
                    hint="give the new one another name",
                )
            if found.digest == machine.digest:
                return
            logger.warning(
                "%s has another configuration than before: a new run starts with entry %d of its log", stream, number
            )
        row = self._row(stream, number, previous, chain.canonical_json(_checkpoint_body(machine)))
        statements.insert_entries(connection, [row], frozenset([number]))
        connection.execute(insert(checkpoints).values(stream=stream, number=number, at=row["at"]))
        values = {
            "kind": machine.kind,
            "digest": machine.digest,
            "number": number,
            "hash": row["hash"],
            "state_number": number,
            "state": json.dumps(machine.state()),
        }
        if found is None:
            connection.execute(insert(streams).values(name=stream, **values))
        else:
            connection.execute(update(streams).where(streams.c.name == stream).values(**values))

    def apply_operations(
        self, connection: Connection, stream: str, asked: Sequence[OperationRequest], *, patient: bool = False
    ) -> StreamBatch:
        """Carry out what was asked of a stream, in this order.

        Args:
            connection: in a transaction.
            stream: its name.
            asked: of it.
            patient: end where a machine needs a plan that is not made yet: everybody else would wait for it too.

        Raises:
            StoreError: the store failed.
        """
        kept = self._kept[stream]
        page = StreamBatch()
        head = self._lock_head(connection, stream)
        if head.digest != kept.machine.digest:
            page.results = [configuration_error(stream) for _ in asked]
            return page
        page.plan_ahead = follow_stream(connection, stream, head, kept, patient=patient)
        if page.plan_ahead is not None:
            return page
        keys = [None if request.id is None else answer_key(request.id) for request in asked]
        used = statements.find_answers(connection, stream, [key for key in keys if key is not None])
        remembered: dict[str, int] = {}
        marks: list[dict[str, Any]] = []
        number, last = kept.number or 0, kept.hash
        for request, key in zip(asked, keys, strict=True):
            page.plan_ahead = kept.machine.plan_ahead(operation=request.operation)
            if page.plan_ahead is not None and patient:
                break
            earlier = None if key is None else used.get(key)
            if earlier is not None:
                body_of_earlier = _read_body(connection, stream, earlier, page.rows)
                if request.answered is None or _was_done_by(request, body_of_earlier):
                    page.results.append(_repeat_answer(request, earlier, body_of_earlier))
                    continue
            answer: Mapping[str, Any] = {}
            if request.operation is CHECKPOINT:
                body = chain.canonical_json(_checkpoint_body(kept.machine))
            else:
                try:
                    before = kept.machine.before(request.operation)
                    answer = kept.machine.apply(request.operation, number + 1)
                except EvenhandError as error:
                    page.results.append(error)
                    continue
                body = chain.canonical_json(
                    {
                        "id": request.id,
                        "before": before,
                        "input": request.operation,
                        "output": answer,
                        "digest": kept.machine.digest,
                    }
                )
            number += 1
            row = self._row(stream, number, last, body)
            last = row["hash"]
            page.rows.append(row)
            if request.operation is CHECKPOINT:
                marks.append({"stream": stream, "number": number, "at": row["at"]})
            if key is not None:
                remembered[key] = number
                used[key] = number
            page.results.append(OperationResult(number, answer))
            page.done.append((request.operation, answer))
        if page.rows:
            statements.insert_entries(connection, page.rows, frozenset(mark["number"] for mark in marks))
            if remembered:
                told = [
                    key
                    for request, key in zip(asked, keys, strict=True)
                    if request.answered is not None and key is not None and key in remembered
                ]
                if told:
                    connection.execute(delete(answers).where(answers.c.stream == stream, answers.c.id.in_(told)))
                statements.insert_answers(connection, stream, remembered)
            if marks:
                connection.execute(insert(checkpoints), marks)
            is_saved = bool(marks) or kept.machine.needs_saving()
            state = json.dumps(kept.machine.state()) if is_saved else None
            statements.update_state(connection, stream, (number, last), state)
        kept.number, kept.hash = number, last
        if len(page.results) == len(asked):
            # Plan for the next decision now, so that the plan may be there before its request.
            page.plan_ahead = kept.machine.plan_ahead()
        return page

    def _lock_head(self, connection: Connection, stream: str) -> StreamHead:
        """Lock a stream's row and return where the stream stands.

        Raises:
            StoreError: the tables were changed while this process ran.
        """
        head, revision = statements.lock_head(connection, stream)
        if revision != REVISION:
            raise StoreError(
                f"the store was brought from revision {REVISION} to {revision} while this ran",
                hint="stop this process; one of the newer Evenhand takes its place",
            )
        return head

    def _row(self, stream: str, number: int, previous: str, body: str) -> dict[str, Any]:
        at = self._clock()
        return {
            "stream": stream,
            "number": number,
            "at": at,
            "body": body,
            "previous": previous,
            "hash": chain.hash_entry(previous, stream, number, at, body),
        }


def follow_stream(
    connection: Connection, stream: str, head: StreamHead, kept: LoadedMachine, *, patient: bool = False
) -> Callable[[], None] | None:
    """Bring a machine to the end of its stream, unless it is there: from its own state or the store's, whichever is
    later, by the entries since.

    Args:
        connection: in whose transaction the head was read.
        stream: its name.
        head: where it stands.
        kept: the machine.
        patient: whether to return the work of a missing plan, and load nothing.

    Returns:
        What the planner has to do before; then nothing was loaded.

    Raises:
        DecisionError: the stream has another configuration now.
        StoreError: the state, or an entry since, makes no sense.
    """
    if head.digest != kept.machine.digest:
        raise configuration_error(stream)
    if (head.number, head.hash) == (kept.number, kept.hash):
        return None
    own = select(entries.c.hash).where(entries.c.stream == stream, entries.c.number == kept.number)
    # A store that was brought back from a backup may go on elsewhere than this process did.
    if kept.number is None or kept.number < head.state_number or connection.execute(own).scalar() != kept.hash:
        state = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar_one()
        loaded = json.loads(state)
        if patient and (plan_ahead := kept.machine.plan_ahead(loaded)) is not None:
            return plan_ahead
        kept.machine.load(loaded)
        kept.number = head.state_number
    since = select(entries.c.number, entries.c.body).where(
        entries.c.stream == stream, entries.c.number > kept.number, entries.c.number <= head.number
    )
    kept.hash = ""
    for number, body in connection.execute(since.order_by(entries.c.number)):
        try:
            kept.machine.apply(json.loads(body)["input"], number)
        except (EvenhandError, ValueError, KeyError, TypeError) as error:
            kept.number = None
            raise StoreError(
                f"entry {number:,} of {stream!r} cannot be done again: {error}",
                hint="something else changed the store; `evenhand replay --store URL` says what differs",
            ) from None
    kept.number, kept.hash = head.number, head.hash
    return None


def configuration_error(stream: str) -> DecisionError:
    """Return the error for an operation of a process whose configuration of a stream is not the one in force."""
    return DecisionError(
        f"another replica has started {stream!r} with another configuration",
        code="replaced",
        hint="ask that replica; this one goes on once it is restarted with the same configuration",
    )


def is_written(connection: Connection, stream: str, last: Mapping[str, Any]) -> bool:
    """Return whether this entry is in the store, waiting for transactions that may still write there.

    A commit whose answer was lost may still be going on in the server. Its transaction holds the lock of the stream's
    row until it is decided, so the holder of that lock sees what came of it.
    """
    connection.execute(select(streams.c.number).where(streams.c.name == stream).with_for_update()).one()
    digest = connection.execute(
        select(entries.c.hash).where(entries.c.stream == stream, entries.c.number == last["number"])
    ).scalar()
    return bool(digest == last["hash"])


def _check_end(connection: Connection, stream: str, row: Row[Any] | None) -> None:
    """Check that the row and the log of a stream end in the same entry.

    Raises:
        StoreError: they do not.
    """
    log = select(entries.c.number, entries.c.hash).where(entries.c.stream == stream)
    last = connection.execute(log.order_by(entries.c.number.desc()).limit(1)).first()
    answer = select(answers.c.number).where(answers.c.stream == stream).limit(1)
    whole = connection.execute(answer).first() is None if row is None and last is None else False
    if whole or (row is not None and last is not None and (row.number, row.hash) == tuple(last)):
        return
    row_end = "no row in the table streams" if row is None else f"a row that ends in entry {row.number:,}"
    log_end = "no log" if last is None else f"a log that ends in entry {last.number:,}"
    if row is not None and last is not None and row.number == last.number:
        log_end += " with another hash"
    raise StoreError(
        f"the store was changed by something else: {stream!r} has {row_end}, and {log_end}",
        hint="bring back a backup; `evenhand replay --store URL` says what differs",
    )


def answer_key(id: str) -> str:
    """Return the key of an id's answer: its hash, so that any text is an id, and none is stored in the clear."""
    return hashlib.sha256(chain.canonical_json(id).encode()).hexdigest()


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
    """Return the body of an entry, which may be among rows to be written. None if it was deleted."""
    body = next((row["body"] for row in rows if row["number"] == number), None)
    if body is None:
        query = select(entries.c.body).where(entries.c.stream == stream, entries.c.number == number)
        body = connection.execute(query).scalar()
    if body is None:
        return None
    try:
        content: dict[str, Any] = json.loads(body)
    except ValueError:
        return StoreError(
            f"entry {number:,} of {stream!r} cannot be read",
            location="the store",
            hint="something else changed the store; `evenhand replay --store URL` says what differs",
        )
    return content


def question_of(logged: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a caller asked, from an operation: what passed unguarded was asked for as a decision, and the seed of
    events was not theirs."""
    if logged.get("op") == "events":
        return {name: value for name, value in logged.items() if name != "seed"}
    return {**logged, "op": "decide"} if logged.get("op") == "unguarded" else logged


def _was_done_by(request: OperationRequest, body: Mapping[str, Any] | StoreError | None) -> bool:
    """Return whether an entry has exactly this operation, whose first attempt may have failed after the commit."""
    if isinstance(body, StoreError):
        raise body
    logged = None if body is None else body.get("input")
    return logged is not None and chain.canonical_json(logged) == chain.canonical_json(request.operation)


def _repeat_answer(
    request: OperationRequest, number: int, body: Mapping[str, Any] | StoreError | None
) -> OperationResult | EvenhandError:
    """Return the earlier answer to an ID if the request is the same."""
    if isinstance(body, StoreError):
        return body
    if body is None:
        return DecisionError(
            f"the id {request.id!r} was used long ago, and the answer is not kept any more",
            code="repeated",
            hint="see retention.log_days",
        )
    question = request.operation if request.answered is None else request.answered
    if chain.canonical_json(question_of(body["input"])) != chain.canonical_json(question_of(question)):
        return DecisionError(
            f"the id {request.id!r} was used for another request", code="repeated", hint="give every request its own id"
        )
    return OperationResult(number, body["output"], repeated=True)
