"""Replay of all logs in a store, and checks of states, answers, checkpoints and pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, func, select

from evenhand.core.canonical_json import canonical_json, hash_json
from evenhand.core.document import Document, Text
from evenhand.core.result import Result
from evenhand.errors import OptionError
from evenhand.service.replay.replay import (
    LogDifference,
    LogReplayer,
    ServiceReplay,
    compare_values,
    parse_line,
)
from evenhand.service.store.database import Database, read_log
from evenhand.service.store.tables import STREAM_TABLES, answers, checkpoints, entries, pictures, streams
from evenhand.shields.policy.policy import ShieldPolicy


class StoreReplay(Result):
    """Result of the replay of all logs in a store.

    Attributes:
        replays: Result of each stream.
    """

    kind: str = "service-replays"
    seed: int = 0
    replays: tuple[ServiceReplay, ...]

    @property
    def all_agree(self) -> bool:
        """Whether all logs agree."""
        return all(replay.all_agree for replay in self.replays)

    def document(self) -> Document:
        """Return a document with the result of every stream."""
        blocks = tuple(block for replay in self.replays for block in replay.blocks())
        if not blocks:
            blocks = (Text("There is no stream in this store.", role="finding"),)
        return Document("Replay of a store", blocks=blocks, brand="Evenhand service", made=self.provenance)


def replay_stored_logs(
    database: Database,
    *,
    policies: Sequence[ShieldPolicy] = (),
    heads: Mapping[str, str] | None = None,
    stream: str | None = None,
) -> StoreReplay:
    """Replay each log of a store, up to the last entry at the start of the replay. The service may keep running.

    Args:
        database: Store.
        policies: Policies for ``replay_log``.
        heads: Hash of an entry that must be in the log, by stream. These streams must exist.
        stream: Name of the only stream to replay. None replays all streams.

    Raises:
        OptionError: There is no such stream, or a policy is missing.
        StoreError: The store failed.
    """
    known_heads = heads or {}
    with database.reading() as connection:
        stored = connection.execute(select(streams).order_by(streams.c.name)).mappings()
        rows: dict[str, dict[str, Any] | None] = {row["name"]: dict(row) for row in stored}
        # If a row was deleted, its log, or at least its name, is still in other tables.
        rows |= dict.fromkeys(name for name in sorted(_stream_names(connection)) if name not in rows)
        strays = {name: _find_stray(connection, name, row) for name, row in rows.items()}
    for name in known_heads:
        rows.setdefault(name, None)
    if stream is not None and stream not in rows:
        raise OptionError(f"there is no stream {stream!r}", location="--stream", hint=f"one of: {', '.join(rows)}")
    replays = tuple(
        _replay_stream(
            database,
            name,
            row,
            LogReplayer(policies, known_heads.get(name), None if row is None else row["state_number"]),
            strays.get(name),
        )
        for name, row in (rows.items() if stream is None else [(stream, rows[stream])])
    )
    return StoreReplay(seconds=sum(replay.seconds for replay in replays), replays=replays)


def _stream_names(connection: Connection) -> set[str]:
    """Return the names of streams in all tables. Each name requires one step along an index."""
    names: set[str] = set()
    for column in STREAM_TABLES:
        name = connection.execute(select(func.min(column))).scalar()
        while name is not None:
            names.add(name)
            name = connection.execute(select(func.min(column)).where(column > name)).scalar()
    return names


def _find_stray(connection: Connection, stream: str, row: Mapping[str, Any] | None) -> LogDifference | None:
    """Return a row beyond the end of a stream's log, or of a stream that does not exist."""
    if row is None:
        count = connection.execute(select(func.count()).where(entries.c.stream == stream)).scalar_one()
        message = f"the stream's row in the table streams is missing; {count:,} entries are left of its log"
        return LogDifference(entry=None, what=message)
    for column in (entries.c.number, answers.c.number, checkpoints.c.number, pictures.c.number):
        table = column.table
        end = connection.execute(select(func.max(column)).where(table.c.stream == stream)).scalar()
        if end is not None and end > row["number"]:
            message = f"the table {table.name} has a row after the last entry of the stream"
            return _build_difference(end, message, row["number"], end)
    return None


def _replay_stream(
    database: Database,
    name: str,
    row: Mapping[str, Any] | None,
    replayer: LogReplayer,
    stray: LogDifference | None,
) -> ServiceReplay:
    # The service may append entries and cut the log in the meantime.
    records = _StoredRecords(database, name)
    entry = None
    for entry in takewhile(lambda entry: row is None or entry["number"] <= row["number"], read_log(database, name)):
        if not replayer.take(entry):
            break
        records.take(entry)
    if entry is None:
        message = "the stream is missing" if row is None else "all entries of the log are missing"
        digest, machine = ("", "stream") if row is None else (row["digest"], row["kind"])
        return ServiceReplay(
            seconds=0.0,
            stream=name,
            machine=machine,
            digest=digest,
            entries=0,
            first=0,
            last=0,
            head="",
            operations={},
            difference=stray or LogDifference(entry=None, what=message),
        )
    replay = replayer.result()
    if replay.difference is not None:
        return replay
    difference = None if row is None else _compare_stream_row(row, replayer)
    return replay.model_copy(update={"difference": difference or records.compare(replayer) or stray})


def _compare_stream_row(row: Mapping[str, Any], replayer: LogReplayer) -> LogDifference | None:
    """Compare the row of a stream with the end of its log."""
    machine = replayer.machine
    assert machine is not None
    pairs = {
        "number": (row["number"], replayer.number),
        "hash": (row["hash"], replayer.hash),
        "kind": (row["kind"], machine.kind),
        "digest": (row["digest"], machine.digest),
        "state": (parse_line(row["state"]), replayer.state),
    }
    for name, (stored, replayed) in pairs.items():
        if canonical_json(stored) != canonical_json(replayed):
            number = row["state_number"] if name == "state" else replayer.number
            place = "the last entry" if number == replayer.number else f"entry {number:,}"
            message = f"the stored {name} does not match {place}"
            return _build_difference(number, message, stored, replayed)
    return None


class _StoredRecords:
    """Checkpoints, answers and pictures in a store, which are compared with a log.

    Args:
        database: Store.
        stream: Name of the stream.
    """

    def __init__(self, database: Database, stream: str) -> None:
        self._database, self._stream = database, stream
        with database.reading() as connection:
            query = select(checkpoints.c.number, checkpoints.c.at).where(checkpoints.c.stream == stream)
            self._checkpoints = {row.number: row.at for row in connection.execute(query)}
            query = select(pictures.c.number).where(pictures.c.stream == stream)
            self._pictures = set(connection.execute(query).scalars())
        self._logged_checkpoints: dict[int, float] = {}
        # Hashes of the items in the log, by admission.
        self._digests: dict[int, set[str]] = {}

    def take(self, entry: Mapping[str, Any]) -> None:
        """Record an entry of the log."""
        body = entry["body"]
        if "configuration" in body:
            self._logged_checkpoints[entry["number"]] = entry["at"]
            return
        operation = body["input"]
        admission = operation.get("admission")
        item = (operation.get("note") or {}).get("item") or {}
        if operation.get("op") in ("complete", "fail") and admission in self._pictures and "sha256" in item:
            self._digests.setdefault(admission, set()).add(item["sha256"])

    def compare(self, replayer: LogReplayer) -> LogDifference | None:
        """Compare the records with the log."""
        with self._database.reading() as connection:
            return (
                self._compare_checkpoints(replayer.first, replayer.number)
                or self._compare_answers(connection, replayer)
                or self._compare_pictures(connection)
            )

    def _compare_checkpoints(self, start: int, end: int) -> LogDifference | None:
        logged = self._logged_checkpoints
        stored = {number: at for number, at in self._checkpoints.items() if start <= number <= end}
        for number in sorted(logged.keys() | stored.keys()):
            if logged.get(number) != stored.get(number):
                message = "the table checkpoints has another time or no row"
                return _build_difference(number, message, logged.get(number), stored.get(number))
        return None

    def _compare_answers(self, connection: Connection, replayer: LogReplayer) -> LogDifference | None:
        """Check that the answers of the log are those of the last entries with their IDs."""
        ids = {number: id for id, number in replayer.ids.items()}
        same_stream = answers.c.stream == self._stream
        query = select(answers.c.number, answers.c.id).where(same_stream, answers.c.number >= replayer.first)
        surplus = []
        for number, key in connection.execute(query):
            if number in ids and hash_json(ids[number]) == key:
                del ids[number]
            elif number <= replayer.number:
                surplus.append(number)
        for number, id in sorted(ids.items()):
            other = connection.execute(
                select(answers.c.number).where(same_stream, answers.c.id == hash_json(id))
            ).scalar()
            # An entry that was appended in the meantime may have the same ID.
            if other is None or self._logged_id(connection, other) != id:
                return _build_difference(number, "the stored answer of its ID is missing", id, other)
        if surplus:
            message = "an answer is stored for an ID that the entry does not have"
            return LogDifference(entry=min(surplus), what=message)
        return None

    def _logged_id(self, connection: Connection, number: int) -> str | None:
        query = select(entries.c.body).where(entries.c.stream == self._stream, entries.c.number == number)
        body = parse_line(connection.execute(query).scalar() or "")
        return body.get("id") if isinstance(body, Mapping) else None

    def _compare_pictures(self, connection: Connection) -> LogDifference | None:
        """Compare the pictures with the hashes in the entries of their admissions."""
        for number, digests in sorted(self._digests.items()):
            query = select(pictures.c.data).where(pictures.c.stream == self._stream, pictures.c.number == number)
            data = connection.execute(query).scalar()
            digest = None if data is None else hashlib.sha256(data).hexdigest()
            if digest is not None and digest not in digests:
                message = "the stored picture differs from the delivered one"
                return _build_difference(number, message, ", ".join(sorted(digests)), digest)
        return None


def _build_difference(number: int, message: str, logged: object, replayed: object) -> LogDifference:
    return LogDifference(entry=number, what=message, **compare_values(logged, replayed))
