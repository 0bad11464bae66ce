"""Replay of all logs in a store, and checks of states, answers, checkpoints and pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain, islice, takewhile
from typing import Any

from sqlalchemy import Connection, func, select

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
from evenhand.service.store.chain import canonical_json
from evenhand.service.store.database import PAGE_ENTRIES, Database, read_log
from evenhand.service.store.tables import STREAM_TABLES, answers, checkpoints, entries, pictures, streams
from evenhand.service.store.transaction import answer_key
from evenhand.shields.policy.policy import ShieldPolicy


class StoreReplay(Result):
    """What came of doing the logs of a store again.

    Attributes:
        replays: one for each stream.
    """

    kind: str = "service-replays"
    seed: int = 0
    replays: tuple[ServiceReplay, ...]

    @property
    def all_agree(self) -> bool:
        """Whether all of them do."""
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
    """Replay the logs of a store, each up to its end at the start of the replay; the service may go on meanwhile.

    Args:
        database: the store.
        policies: as for ``replay_log``.
        heads: by stream, the hash of an entry that was noted down before; a stream that is named must be there.
        stream: this one alone.

    Raises:
        OptionError: there is no such stream, or a policy is missing.
        StoreError: the store failed.
    """
    known_heads = heads or {}
    with database.reading() as connection:
        stored = connection.execute(select(streams).order_by(streams.c.name)).mappings()
        rows: dict[str, dict[str, Any] | None] = {row["name"]: dict(row) for row in stored}
        # What a deleted row leaves behind has its log still, or at least its name.
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
    """Return every stream that any table has rows of; each name is one step along an index."""
    names: set[str] = set()
    for column in STREAM_TABLES:
        name = connection.execute(select(func.min(column))).scalar()
        while name is not None:
            names.add(name)
            name = connection.execute(select(func.min(column)).where(column > name)).scalar()
    return names


def _find_stray(connection: Connection, stream: str, row: Mapping[str, Any] | None) -> LogDifference | None:
    """Return rows of a stream that lie outside its log: behind its last entry, or without any row of the stream."""
    if row is None:
        count = connection.execute(select(func.count()).where(entries.c.stream == stream)).scalar_one()
        said = f"the stream's row in the table streams is missing; {count:,} entries are left of its log"
        return LogDifference(entry=None, what=said)
    for column in (entries.c.number, answers.c.number, checkpoints.c.number, pictures.c.number):
        table = column.table
        last = connection.execute(select(func.max(column)).where(table.c.stream == stream)).scalar()
        if last is not None and last > row["number"]:
            said = f"the table {table.name} has a row behind the last entry of the stream"
            return _build_difference(last, said, row["number"], last)
    return None


def _replay_stream(
    database: Database,
    name: str,
    row: Mapping[str, Any] | None,
    replayer: LogReplayer,
    stray: LogDifference | None,
) -> ServiceReplay:
    known = takewhile(lambda entry: row is None or entry["number"] <= row["number"], read_log(database, name))
    first = next(known, None)
    if first is None:
        what = "the stream is missing: nothing of it is left" if row is None else "all entries of its log are missing"
        digest, machine = ("", "stream") if row is None else (row["digest"], row["kind"])
        difference = stray or LogDifference(entry=None, what=what)
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
            difference=difference,
        )
    beside = _KeptInStore(database, name, row)
    rest, extra = chain((first,), known), None
    while extra is None and (page := list(islice(rest, PAGE_ENTRIES))):
        agreeing = list(takewhile(replayer.take, page))
        extra = beside.compare(agreeing)
        if len(agreeing) < len(page):
            break
    done = replayer.result()
    done = done.model_copy(update={"difference": done.difference or extra or beside.compare_end(replayer)})
    return done if stray is None else done.model_copy(update={"difference": done.difference or stray})


def _compare_stream_row(row: Mapping[str, Any], replayer: LogReplayer) -> LogDifference | None:
    """Compare the row of a stream with the end of its log."""
    machine = replayer.machine
    assert machine is not None
    kept = {
        "number": (row["number"], replayer.number),
        "hash": (row["hash"], replayer.hash),
        "kind": (row["kind"], machine.kind),
        "digest": (row["digest"], machine.digest),
        "state": (parse_line(row["state"]), replayer.state),
    }
    for what, (logged, found) in kept.items():
        if canonical_json(logged) != canonical_json(found):
            entry = row["state_number"] if what == "state" else replayer.number
            said = f"the {what} that is kept for the stream is not the one after its last entry"
            if entry != replayer.number:
                said = f"the {what} that is kept for the stream is not the one after entry {entry:,}"
            return LogDifference(entry=entry, what=said, **compare_values(logged, found))
    return None


class _KeptInStore:
    """What a store keeps beside a log: the stream's row, its checkpoints, answers by id, and delivered pictures."""

    def __init__(self, database: Database, stream: str, row: Mapping[str, Any] | None) -> None:
        self._database, self._stream, self._row = database, stream, row
        # The hashes of the items of admissions that are open, by number.
        self._items: dict[int, set[str]] = {}
        # Answers that are those of the entries' ids.
        self._answers = 0
        # Ids whose answer is said to be that of a later entry, by the number of that.
        self._later: dict[str, tuple[int, int]] = {}

    def compare(self, page: Sequence[Mapping[str, Any]]) -> LogDifference | None:
        """Compare answers, checkpoints and pictures with consecutive entries."""
        if not page:
            return None
        return self._compare_answers(page) or self._compare_checkpoints(page) or self._compare_pictures(page)

    def _compare_checkpoints(self, page: Sequence[Mapping[str, Any]]) -> LogDifference | None:
        logged = {entry["number"]: entry["at"] for entry in page if "configuration" in entry["body"]}
        here = (
            checkpoints.c.stream == self._stream,
            checkpoints.c.number.between(page[0]["number"], page[-1]["number"]),
        )
        with self._database.reading() as connection:
            kept = {row.number: row.at for row in connection.execute(select(checkpoints).where(*here))}
        for number in sorted(logged.keys() | kept.keys()):
            if logged.get(number) != kept.get(number):
                return _build_difference(
                    number,
                    "the table checkpoints has another time for it, or no row",
                    logged.get(number),
                    kept.get(number),
                )
        return None

    def _compare_pictures(self, page: Sequence[Mapping[str, Any]]) -> LogDifference | None:
        """Compare the pictures that were delivered with the hashes in the entries that completed their admissions."""
        complete: dict[int, tuple[int, set[str]]] = {}
        for entry in page:
            asked, said = entry["body"].get("input", {}), entry["body"].get("output", {})
            admission = asked.get("admission")
            if asked.get("op") not in ("complete", "fail") or admission is None:
                continue
            item = (asked.get("note") or {}).get("item") or {}
            digests = self._items.setdefault(admission, set())
            digests |= {item["sha256"]} if "sha256" in item else set()
            if said["outcome"]["admission"] is None:
                del self._items[admission]
                complete[admission] = (entry["number"], digests)
        here = pictures.c.stream == self._stream
        with self._database.reading() as connection:
            numbers = connection.execute(select(pictures.c.number).where(here, pictures.c.number.in_(complete)))
            for admission in numbers.scalars().all():
                data = connection.execute(select(pictures.c.data).where(here, pictures.c.number == admission))
                kept, (number, known) = hashlib.sha256(data.scalar() or b"").hexdigest(), complete[admission]
                if known and kept not in known:
                    return _build_difference(
                        number, "the picture that is kept for it is another one", ", ".join(sorted(known)), kept
                    )
        return None

    def _compare_answers(self, page: Sequence[Mapping[str, Any]]) -> LogDifference | None:
        keys = [
            None if "id" not in one["body"] or one["body"]["id"] is None else answer_key(one["body"]["id"])
            for one in page
        ]
        kept = self._kept_answers([key for key in keys if key is not None])
        for entry, key in zip(page, keys, strict=True):
            number = entry["number"]
            if key is None:
                continue
            if key not in kept:
                return _build_difference(number, "no answer is kept for its id", entry["body"]["id"], None)
            if kept[key] != number:
                self._later[key] = (number, kept[key])
                continue
            self._later.pop(key, None)
            self._answers += 1
        return None

    def compare_end(self, replayer: LogReplayer) -> LogDifference | None:
        """Compare the row with the end of the log, and the remaining answers with their entries."""
        differs = None if self._row is None else _compare_stream_row(self._row, replayer)
        return differs or self._find_moved_answer() or self._find_false_answer(replayer.first, replayer.number)

    def _find_moved_answer(self) -> LogDifference | None:
        """Return an answer that is said to be that of an entry which has not its id."""
        for key, (number, other) in self._later.items():
            if key != self._key_of(other):
                return _build_difference(
                    number, "no answer is kept for its id, but one under another entry", number, other
                )
        return None

    def _find_false_answer(self, first: int, last: int) -> LogDifference | None:
        """Return an answer beyond those of the entries' ids: it is kept for an id that its entry does not have."""
        here = (answers.c.stream == self._stream, answers.c.number.between(first, last))
        with self._database.reading() as connection:
            count = connection.execute(select(func.count()).select_from(answers).where(*here)).scalar_one()
            if count == self._answers:
                return None
            kept = connection.execute(select(answers.c.number, answers.c.id).where(*here).order_by(answers.c.number))
            rows = kept.all()
        false = next((row.number for row in rows if row.id != self._key_of(row.number)), first)
        return _build_difference(false, "an answer is kept for an id that it does not have", self._answers, count)

    def _key_of(self, number: int) -> str | None:
        """Return the key of the id that an entry has."""
        with self._database.reading() as connection:
            query = select(entries.c.body).where(entries.c.stream == self._stream, entries.c.number == number)
            body = parse_line(connection.execute(query).scalar() or "")
        id_ = body.get("id") if isinstance(body, Mapping) else None
        return None if id_ is None else answer_key(id_)

    def _kept_answers(self, keys: Sequence[str]) -> dict[str, int]:
        query = select(answers.c.id, answers.c.number).where(answers.c.stream == self._stream, answers.c.id.in_(keys))
        with self._database.reading() as connection:
            return {row.id: row.number for row in connection.execute(query)}


def _build_difference(number: int, what: str, logged: object, found: object) -> LogDifference:
    return LogDifference(entry=number, what=what, **compare_values(logged, found))
