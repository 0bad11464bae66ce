"""The logs in a store done again, and beside them what else it keeps: the states, and the answers by id."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import select

from evenhand.errors import OptionError
from evenhand.result import Result
from evenhand.service.replay import Difference, Replayer, ServiceReplay, parsed, parting
from evenhand.service.store import Database
from evenhand.service.store.book import key_of
from evenhand.service.store.chain import canonical
from evenhand.service.store.reading import PAGE, log
from evenhand.service.store.tables import answers, streams
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
    entries = (entry for entry in log(database, name) if entry["number"] <= last)
    extra: Difference | None = None
    while extra is None and (page := list(islice(entries, PAGE))):
        agreeing = [entry for entry in page if replayer.take(entry)]
        extra = _answered(database, name, agreeing)
        if len(agreeing) < len(page):
            break
    done = replayer.result()
    return done.model_copy(update={"difference": done.difference or extra or _row(row, replayer)})


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


def _answered(database: Database, stream: str, entries: Sequence[Mapping[str, Any]]) -> Difference | None:
    """How the answers that are kept by id differ from entries that follow each other."""
    if not entries:
        return None
    query = select(answers).where(
        answers.c.stream == stream, answers.c.number.between(entries[0]["number"], entries[-1]["number"])
    )
    with database.reading() as connection:
        kept = {(row["number"], row["id"]): dict(row) for row in connection.execute(query).mappings()}
    for entry in entries:
        body, number = entry["body"], entry["number"]
        if body.get("id") is None:
            continue
        answer = kept.pop((number, key_of(body["id"])), None)
        if answer is None:
            return Difference(entry=number, what="no answer is kept for its id", logged=body["id"], found="nothing")
        asked = hashlib.sha256(canonical(body["input"]).encode()).hexdigest()
        for what, found, logged in (
            ("question", answer["asked"], asked),
            # Answers may be forgotten before their entries are; the id is known all the same.
            ("answer", body["output"] if answer["answer"] is None else parsed(answer["answer"]), body["output"]),
        ):
            if canonical(found) != canonical(logged):
                said = f"the {what} that is kept for its id is another one"
                return Difference(entry=number, what=said, **parting(logged, found))
    for number, given in kept:
        return Difference(
            entry=number, what="an answer is kept for an id that it does not have", logged="none", found=given
        )
    return None
