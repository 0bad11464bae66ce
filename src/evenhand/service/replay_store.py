"""The logs in a store done again, and beside them what else it keeps: the states, and the answers by id."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from sqlalchemy import select

from evenhand.errors import OptionError
from evenhand.result import Result
from evenhand.service.replay import Difference, Replayer, ServiceReplay, parsed, parting
from evenhand.service.store import Database
from evenhand.service.store.book import key_of
from evenhand.service.store.chain import canonical
from evenhand.service.store.reading import PAGE, log
from evenhand.service.store.tables import answers, entries, streams
from evenhand.shield.policy import Policy


class ServiceReplays(Result):
    """What came of doing the logs of a store again.

    Attributes:
        replays: one for each stream.
    """

    kind: str = "service-replays"
    seed: int = 0
    replays: tuple[ServiceReplay, ...]

    @property
    def agrees(self) -> bool:
        """Whether all of them do."""
        return all(one.agrees for one in self.replays)

    def summary(self) -> str:
        """Those of all streams."""
        return "\n".join(one.summary() for one in self.replays) or "there is no stream in this store"


def replay_store(database: Database, *, policies: Sequence[Policy] = (), head: str | None = None,
                 stream: str | None = None) -> ServiceReplays:  # fmt: skip
    """Do the logs of a store again, each as far as it went when this began; the service may go on meanwhile.

    Args:
        database: the store.
        policies: as for ``replay``.
        head: as for ``replay``, of ``stream``.
        stream: this one alone.

    Raises:
        OptionError: there is no such stream, or a policy is missing.
        StoreError: the store failed.
    """
    with database.reading() as connection:
        found = connection.execute(select(streams).order_by(streams.c.name)).mappings()
        rows = {row["name"]: dict(row) for row in found}
    if stream is not None and stream not in rows:
        raise OptionError(f"there is no stream {stream!r}", where="--stream", mend=f"one of: {', '.join(rows)}")
    chosen = list(rows.values()) if stream is None else [rows[stream]]
    replays = tuple(_replayed(database, row, Replayer(policies, head)) for row in chosen)
    return ServiceReplays(seconds=sum(one.seconds for one in replays), replays=replays)


def _replayed(database: Database, row: Mapping[str, Any], replayer: Replayer) -> ServiceReplay:
    name, last = row["name"], row["number"]
    known = takewhile(lambda entry: entry["number"] <= last, log(database, name))
    answered = _Answers(database, name)
    extra: Difference | None = None
    while extra is None and (page := list(islice(known, PAGE))):
        agreeing = [entry for entry in page if replayer.take(entry)]
        extra = answered.compare(agreeing)
        if len(agreeing) < len(page):
            break
    done = replayer.result()
    found = done.difference or extra or _row(row, replayer) or answered.moved()
    return done.model_copy(update={"difference": found})


def _row(row: Mapping[str, Any], replayer: Replayer) -> Difference | None:
    """How the stream's row differs from what its log ends in."""
    machine = replayer.machine
    assert machine is not None
    kept = {
        "number": (row["number"], replayer.number),
        "hash": (row["hash"], replayer.hash),
        "kind": (row["kind"], machine.kind),
        "digest": (row["digest"], machine.digest),
        "state": (parsed(row["state"]), machine.state()),
    }
    for what, (logged, found) in kept.items():
        if canonical(logged) != canonical(found):
            said = f"the {what} that is kept for the stream is not the one after its last entry"
            return Difference(entry=replayer.number, what=said, **parting(logged, found))
    return None


class _Answers:
    """The answers that a store keeps by id, beside the entries that gave them."""

    def __init__(self, database: Database, stream: str) -> None:
        self._database, self._stream = database, stream
        # Ids whose answer is said to be that of a later entry, by the number of that.
        self._later: dict[str, tuple[int, int]] = {}

    def compare(self, page: Sequence[Mapping[str, Any]]) -> Difference | None:
        """How the answers differ from entries that follow each other."""
        if not page:
            return None
        keys = [None if "id" not in one["body"] or one["body"]["id"] is None else key_of(one["body"]["id"])
                for one in page]  # fmt: skip
        kept, numbers = self._kept([key for key in keys if key is not None], page[0]["number"], page[-1]["number"])
        for entry, key in zip(page, keys, strict=True):
            number = entry["number"]
            if numbers.get(number, key) != key:
                return _wrong(
                    number, "an answer is kept for an id that it does not have", entry["body"].get("id"), None
                )
            if key is None:
                continue
            row = kept.get(key)
            if row is None:
                return _wrong(number, "no answer is kept for its id", entry["body"]["id"], None)
            if row["number"] != number:
                self._later[key] = (number, row["number"])
                continue
            self._later.pop(key, None)
            if found := _differs(entry["body"], row):
                return Difference(entry=number, what=f"the {found[0]} that is kept for its id is another one",
                                  **parting(*found[1:]))  # fmt: skip
        return None

    def moved(self) -> Difference | None:
        """An answer that is said to be that of an entry which has not its id."""
        for key, (number, other) in self._later.items():
            with self._database.reading() as connection:
                query = select(entries.c.body).where(entries.c.stream == self._stream, entries.c.number == other)
                body = parsed(connection.execute(query).scalar() or "")
            id_ = body.get("id") if isinstance(body, Mapping) else None
            if id_ is None or key_of(id_) != key:
                return _wrong(number, "no answer is kept for its id, but one under another entry", number, other)
        return None

    def _kept(self, keys: Sequence[str], first: int, last: int) -> tuple[dict[str, dict[str, Any]], dict[int, str]]:
        here = answers.c.stream == self._stream
        with self._database.reading() as connection:
            rows = connection.execute(select(answers).where(here, answers.c.id.in_(keys))).mappings()
            kept = {row["id"]: dict(row) for row in rows}
            among = select(answers.c.number, answers.c.id).where(here, answers.c.number.between(first, last))
            return kept, {row.number: row.id for row in connection.execute(among)}


def _differs(body: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """What of a kept answer is not as in the log: its name, what the log says, what is kept."""
    asked = body["input"]
    if asked.get("op") == "unguarded":
        # The caller asked for a decision, and was told that the recommendation stands.
        asked = {**asked, "op": "decide"}
    fingerprint = hashlib.sha256(canonical(asked).encode()).hexdigest()
    if row["asked"] != fingerprint:
        return "question", fingerprint, row["asked"]
    # Answers may be forgotten before their entries are; the id is known all the same.
    if row["answer"] is not None and row["answer"] != canonical(body["output"]):
        return "answer", body["output"], parsed(row["answer"])
    return None


def _wrong(number: int, what: str, logged: object, found: object) -> Difference:
    return Difference(entry=number, what=what, **parting(logged, found))
