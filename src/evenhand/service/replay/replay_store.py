"""The logs in a store done again, and beside them what else it keeps: the states, and the answers by id."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from sqlalchemy import select

from evenhand.core import Document, Result, Text
from evenhand.errors import OptionError
from evenhand.service.replay.replay import (
    LogDifference,
    LogReplayer,
    ServiceReplay,
    compare_values,
    parse_line,
    walk_log,
)
from evenhand.service.store.chain import canonical_json
from evenhand.service.store.database import Database, read_log
from evenhand.service.store.tables import answers, entries, streams
from evenhand.service.store.transaction import answer_key
from evenhand.shields import ShieldPolicy


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
        return all(one.all_agree for one in self.replays)

    def document(self) -> Document:
        """Return what came of every stream."""
        blocks = tuple(block for one in self.replays for block in one.blocks())
        if not blocks:
            blocks = (Text("There is no stream in this store.", role="finding"),)
        return Document("Replay of a store", blocks=blocks, brand="Evenhand service", made=self.provenance)


def replay_stored_logs(database: Database, *, policies: Sequence[ShieldPolicy] = (), head: str | None = None,
                 stream: str | None = None) -> StoreReplay:  # fmt: skip
    """Replay the logs of a store, each up to its end at the start of the replay; the service may go on meanwhile.

    Args:
        database: the store.
        policies: as for ``replay_log``.
        head: as for ``replay_log``, of ``stream``.
        stream: this one alone.

    Raises:
        OptionError: there is no such stream, or a policy is missing.
        StoreError: the store failed.
    """
    with database.reading() as connection:
        found = connection.execute(select(streams).order_by(streams.c.name)).mappings()
        rows = {row["name"]: dict(row) for row in found}
    if stream is not None and stream not in rows:
        raise OptionError(f"there is no stream {stream!r}", location="--stream", hint=f"one of: {', '.join(rows)}")
    chosen = list(rows.values()) if stream is None else [rows[stream]]
    replays = tuple(_replay_stream(database, row, LogReplayer(policies, head)) for row in chosen)
    return StoreReplay(seconds=sum(one.seconds for one in replays), replays=replays)


def _replay_stream(database: Database, row: Mapping[str, Any], replayer: LogReplayer) -> ServiceReplay:
    name, last = row["name"], row["number"]
    known = takewhile(lambda entry: entry["number"] <= last, read_log(database, name))
    return walk_log(known, replayer, _KeptInStore(database, row))


def _compare_stream_row(row: Mapping[str, Any], replayer: LogReplayer) -> LogDifference | None:
    """Return how the stream's row differs from what its log ends in."""
    machine = replayer.machine
    assert machine is not None
    kept = {
        "number": (row["number"], replayer.number),
        "hash": (row["hash"], replayer.hash),
        "kind": (row["kind"], machine.kind),
        "digest": (row["digest"], machine.digest),
        "state": (parse_line(row["state"]), machine.state()),
    }
    for what, (logged, found) in kept.items():
        if canonical_json(logged) != canonical_json(found):
            said = f"the {what} that is kept for the stream is not the one after its last entry"
            return LogDifference(entry=replayer.number, what=said, **compare_values(logged, found))
    return None


class _KeptInStore:
    """What a store keeps beside a log: the stream's row, and the answers by id of the entries that gave them."""

    def __init__(self, database: Database, row: Mapping[str, Any]) -> None:
        self._database, self._row = database, row
        self._stream: str = row["name"]
        # Ids whose answer is said to be that of a later entry, by the number of that.
        self._later: dict[str, tuple[int, int]] = {}

    def compare(self, page: Sequence[Mapping[str, Any]]) -> LogDifference | None:
        """Return how the answers differ from entries that follow each other."""
        if not page:
            return None
        keys = [None if "id" not in one["body"] or one["body"]["id"] is None else answer_key(one["body"]["id"])
                for one in page]  # fmt: skip
        kept, numbers = self._kept_answers(
            [key for key in keys if key is not None], page[0]["number"], page[-1]["number"]
        )
        for entry, key in zip(page, keys, strict=True):
            number = entry["number"]
            if numbers.get(number, key) != key:
                return _build_difference(
                    number, "an answer is kept for an id that it does not have", entry["body"].get("id"), None
                )
            if key is None:
                continue
            row = kept.get(key)
            if row is None:
                return _build_difference(number, "no answer is kept for its id", entry["body"]["id"], None)
            if row["number"] != number:
                self._later[key] = (number, row["number"])
                continue
            self._later.pop(key, None)
            if found := _compare_answer(entry["body"], row):
                return LogDifference(entry=number, what=f"the {found[0]} that is kept for its id is another one",
                                  **compare_values(*found[1:]))  # fmt: skip
        return None

    def compare_end(self, replayer: LogReplayer) -> LogDifference | None:
        """Return how the row differs from what the log ends in, or the last answers from their entries."""
        return _compare_stream_row(self._row, replayer) or self._find_moved_answer()

    def _find_moved_answer(self) -> LogDifference | None:
        """Return an answer that is said to be that of an entry which has not its id."""
        for key, (number, other) in self._later.items():
            with self._database.reading() as connection:
                query = select(entries.c.body).where(entries.c.stream == self._stream, entries.c.number == other)
                body = parse_line(connection.execute(query).scalar() or "")
            id_ = body.get("id") if isinstance(body, Mapping) else None
            if id_ is None or answer_key(id_) != key:
                return _build_difference(
                    number, "no answer is kept for its id, but one under another entry", number, other
                )
        return None

    def _kept_answers(
        self, keys: Sequence[str], first: int, last: int
    ) -> tuple[dict[str, dict[str, Any]], dict[int, str]]:
        here = answers.c.stream == self._stream
        with self._database.reading() as connection:
            rows = connection.execute(select(answers).where(here, answers.c.id.in_(keys))).mappings()
            kept = {row["id"]: dict(row) for row in rows}
            among = select(answers.c.number, answers.c.id).where(here, answers.c.number.between(first, last))
            return kept, {row.number: row.id for row in connection.execute(among)}


def _compare_answer(body: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """Return what of a kept answer is not as in the log: its name, what the log says, what is kept."""
    asked = body["input"]
    if asked.get("op") == "unguarded":
        # The caller asked for a decision, and was told that the recommendation stands.
        asked = {**asked, "op": "decide"}
    fingerprint = hashlib.sha256(canonical_json(asked).encode()).hexdigest()
    if row["asked"] != fingerprint:
        return "question", fingerprint, row["asked"]
    # Answers may be forgotten before their entries are; the id is known all the same.
    if row["answer"] is not None and row["answer"] != canonical_json(body["output"]):
        return "answer", body["output"], parse_line(row["answer"])
    return None


def _build_difference(number: int, what: str, logged: object, found: object) -> LogDifference:
    return LogDifference(entry=number, what=what, **compare_values(logged, found))
