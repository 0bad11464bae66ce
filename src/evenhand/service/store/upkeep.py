"""Background work of a replica: heartbeats, retention, readiness and copies of the store.

Each replica increments a counter in the store. The other replicas observe it with their own monotonic clocks, so
clocks need not be synchronised. A replica whose counter does not change for too long is declared dead: its row is
deleted, and its open work fails.

The declaration may be wrong, because the replica may only have been suspended. This is safe: failed work is no longer
open in the state of the stream, under whose lock every completion is applied. The completion of the suspended replica
is therefore refused, and its item is not delivered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Collection

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, tuple_, update

from evenhand.errors import StoreError
from evenhand.service.settings import RetentionConfig
from evenhand.service.state_machines import KEY_STREAM
from evenhand.service.store.database import Database, read_heads
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import (
    answers,
    checkpoints,
    entries,
    metadata,
    pictures,
    replicas,
    revisions,
    streams,
)
from evenhand.service.store.transaction import configuration_error

logger = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
"""Seconds between two heartbeats, and between two checks of other replicas."""

DEAD_SECONDS = 15.0
"""Seconds without a heartbeat after which a replica is declared dead."""

PAUSE_SECONDS = 3 * BEAT_SECONDS
"""After a longer pause between checks, this replica itself was suspended, so its view of the others is outdated."""

TIDY_SECONDS = 600.0
"""Seconds between two deletions of expired data."""

DAY_SECONDS = 86_400.0

PARTS_PER_PERIOD = 8
"""Number of checkpoints per retention period. Logs are cut at checkpoints."""

ENTRIES_PER_DELETE = 500
"""Number of entries deleted in one transaction, while operations wait."""

PICTURES_PER_DELETE = 50
"""Number of pictures deleted in one transaction."""

JUMP_SECONDS = 3_600.0
"""If the wall clock and the monotonic clock differ by more than this many seconds, nothing is deleted this time."""

FRESH_SECONDS = 1.0
"""Lifetime of a readiness result, so that frequent probes do not load the store."""

PATIENCE_SECONDS = 5.0
"""Time limit of the trial transaction of a readiness check."""

COPIED_ROWS = 1_000
"""Number of rows that are copied at once."""

NOT_COPIED = (replicas, revisions)
"""Tables whose rows concern one store only."""


class Replicas:
    """Heartbeat of one replica, and its view of the others.

    `beat` and `look` raise `StoreError` if the store fails.

    Args:
        database: Store.
        ledger: Ledger of this process.
        name: Name of this replica, unique to each start.
        steady: Monotonic clock in seconds.
    """

    def __init__(
        self, database: Database, ledger: Ledger, name: str, *, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._ledger, self._name, self._steady = database, ledger, name, steady
        self._checked_at: float | None = None
        # Last heartbeat of each replica, and when it was first seen.
        self._seen: dict[str, tuple[int, float]] = {}
        # Hash of the last entry and replicas with open work, by stream.
        self._holders: dict[str, tuple[str, Collection[str]]] = {}

    def beat(self) -> None:
        """Record that this replica is alive, even if it was declared dead."""

        def count_up(connection: Connection) -> None:
            beat = update(replicas).where(replicas.c.name == self._name).values(beat=replicas.c.beat + 1)
            if connection.execute(beat).rowcount == 0:
                connection.execute(insert(replicas).values(name=self._name, beat=1))

        self._ledger.submit_work(count_up).result()

    def look(self) -> None:
        """Declare silent replicas dead, and fail open work of replicas that are gone."""
        now = self._steady()
        was_suspended = self._checked_at is not None and now - self._checked_at > PAUSE_SECONDS
        self._checked_at = now
        with self._database.reading() as connection:
            # These are read in one snapshot, because a new replica writes its row before it opens anything.
            beats = {row.name: row.beat for row in connection.execute(select(replicas))}
            abandoned = [
                (stream, name)
                for stream in self._ledger.machines
                for name in self._find_holders(connection, stream)
                if name not in beats and name != self._name
            ]
        for stream, name in abandoned:
            logger.warning("%s: open work of the replica %s has failed", stream, name)
            self._ledger.submit(stream, {"op": "abandon", "replica": name}).result()
        for name, beat in beats.items():
            last_seen = self._seen.get(name)
            if last_seen is None or last_seen[0] != beat or was_suspended:
                self._seen[name] = (beat, now)
                continue
            is_silent = name != self._name and now - last_seen[1] >= DEAD_SECONDS
            # This is skipped if the replica has sent a heartbeat since.
            if is_silent and self._delete(replicas.c.name == name, replicas.c.beat == beat):
                logger.warning("the replica %s was silent for %g seconds: declared dead", name, DEAD_SECONDS)
        self._seen = {name: last_seen for name, last_seen in self._seen.items() if name in beats}

    def leave(self) -> None:
        """Record that this replica has ended. Another replica fails its open work."""
        try:
            self._delete(replicas.c.name == self._name)
        except StoreError as error:
            logger.warning("cannot notify the other replicas of the shutdown: %s", error.message)

    def _delete(self, *where: ColumnElement[bool]) -> int:
        statement = delete(replicas).where(*where)
        return self._ledger.submit_work(lambda connection: connection.execute(statement).rowcount).result()

    def _find_holders(self, connection: Connection, stream: str) -> Collection[str]:
        """Return the replicas with open work in a stream."""
        head = connection.execute(select(streams.c.hash).where(streams.c.name == stream)).scalar_one()
        cached = self._holders.get(stream)
        if cached is None or cached[0] != head:
            state = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar_one()
            cached = self._holders[stream] = head, self._ledger.machines[stream].holders(json.loads(state))
        return cached[1]


class RetentionJob:
    """Deletes expired entries and pictures.

    **A truncated log can still be replayed.** A checkpoint is an entry with the configuration and state of the
    stream, like the first entry, and chained like any other. Logs are truncated only before checkpoints, so every log
    starts with an entry from which it can be replayed. The state, and with it every future decision, does not depend on
    deleted entries.

    **An ID stays used.** With an entry, the answer to its ID is deleted, but the hash of the ID remains. A repeated
    request with this ID is refused, and never causes a second decision.

    Args:
        database: Store.
        ledger: Ledger of this process. All of its streams are processed, except the keys.
        config: Minimum ages of deleted data. Deleted entries are at most an eighth older.
        clock: Clock in seconds since 1970.
        steady: Monotonic clock in seconds.
    """

    def __init__(
        self,
        database: Database,
        ledger: Ledger,
        config: RetentionConfig,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._ledger = database, ledger
        days = (config.log_days, config.picture_days)
        self._log_seconds, self._picture_seconds = (None if n is None else n * DAY_SECONDS for n in days)
        self._clock, self._steady = clock, steady
        self._previous = (clock(), steady())
        self._finished_at = float("-inf")

    def delete_if_due(self) -> None:
        """Delete expired data unless that was done recently.

        Raises:
            StoreError: The store failed.
        """
        now = self._steady()
        if now - self._finished_at >= TIDY_SECONDS:
            self._finished_at = now
            self.delete_expired()

    def delete_expired(self) -> None:
        """Write the checkpoints that are due, and delete expired data.

        Raises:
            StoreError: The store failed. The remaining work is done next time.
        """
        # A clock that is set forward would make all data expire immediately.
        now, steady = self._clock(), self._steady()
        jump = now - self._previous[0] - (steady - self._previous[1])
        self._previous = (now, steady)
        if abs(jump) > JUMP_SECONDS:
            logger.warning("the clock jumped by %.0f seconds: nothing is deleted this time", jump)
            return
        if self._log_seconds is not None:
            for stream in self._ledger.machines:
                if stream != KEY_STREAM:
                    self._write_checkpoint(stream, now - self._log_seconds / PARTS_PER_PERIOD)
                    self._cut(stream, now - self._log_seconds)
        if self._picture_seconds is not None:
            while self._ledger.submit_work(_delete_pictures(now - self._picture_seconds)).result():
                pass

    def _write_checkpoint(self, stream: str, cutoff: float) -> None:
        """Write a checkpoint if the last one is older than a given time and is followed by entries."""
        with self._database.reading() as connection:
            head = connection.execute(select(streams.c.number).where(streams.c.name == stream)).scalar_one()
            query = select(checkpoints).where(checkpoints.c.stream == stream).order_by(checkpoints.c.number.desc())
            checkpoint = connection.execute(query.limit(1)).one()
        if head > checkpoint.number and checkpoint.at <= cutoff:
            self._ledger.checkpoint(stream).result()

    def _cut(self, stream: str, cutoff: float) -> None:
        """Delete the entries before the most recent checkpoint that is old enough."""
        query = select(func.max(checkpoints.c.number)).where(checkpoints.c.stream == stream, checkpoints.c.at <= cutoff)
        with self._database.reading() as connection:
            start = connection.execute(query).scalar()
        if not start:
            return
        # From now on, the log starts there for every reader, even if the rest is deleted later.
        older = delete(checkpoints).where(checkpoints.c.stream == stream, checkpoints.c.number < start)
        self._ledger.submit_work(lambda connection: connection.execute(older), durable=True).result()
        while self._ledger.submit_work(_delete_entries(stream, start)).result():
            pass


def _delete_entries(stream: str, start: int) -> Callable[[Connection], bool]:
    """Build a transaction that deletes some entries before a number, and returns whether more may exist."""

    def work(connection: Connection) -> bool:
        lowest = connection.execute(select(func.min(entries.c.number)).where(entries.c.stream == stream)).scalar_one()
        end = min(lowest + ENTRIES_PER_DELETE, start)
        connection.execute(delete(entries).where(entries.c.stream == stream, entries.c.number < end))
        return bool(end < start)

    return work


def _delete_pictures(cutoff: float) -> Callable[[Connection], bool]:
    """Build a transaction that deletes some pictures from before a time, and returns whether more may exist."""

    def work(connection: Connection) -> bool:
        query = select(pictures.c.stream, pictures.c.number).where(pictures.c.at < cutoff).limit(PICTURES_PER_DELETE)
        old = [tuple(row) for row in connection.execute(query)]
        connection.execute(delete(pictures).where(tuple_(pictures.c.stream, pictures.c.number).in_(old)))
        return len(old) == PICTURES_PER_DELETE

    return work


def copy_store(
    source: Database, target: Database, progress: Callable[[int], None] = lambda rows: None
) -> dict[str, tuple[int, str]]:
    """Copy a snapshot of one store to another, which may be of another kind.

    Args:
        source: Store that is read in one transaction, which does not block writers.
        target: New store, which is written in one transaction.
        progress: Function that receives the number of copied rows.

    Returns:
        Number and hash of the last entry in the copy, by stream.

    Raises:
        StoreError: The target is not empty, or one of the stores failed.
    """
    copied = 0
    with source.reading() as reader, target.transaction() as writer:
        if writer.execute(select(func.count()).select_from(streams)).scalar_one():
            raise StoreError(
                "the store is not empty, and the copy would be mixed with its content",
                hint="use a new store, or move the old one elsewhere",
            )
        for table in metadata.sorted_tables:
            if table in NOT_COPIED:
                continue
            rows = reader.execution_options(stream_results=True).execute(select(table)).mappings()
            for part in rows.partitions(COPIED_ROWS):
                writer.execute(insert(table), [dict(row) for row in part])
                copied += len(part)
                progress(copied)
        return read_heads(writer)


class Readiness:
    """Checks whether the store accepts writes, by a trial write in the ledger's thread.

    Args:
        ledger: Ledger of this process.
        replica: Name of this process, whose heartbeat continues.
        steady: Monotonic clock in seconds.
        patience: Time limit in seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        replica: str,
        *,
        steady: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._ledger, self._replica, self._steady, self._patience = ledger, replica, steady, patience
        self._tried_at = float("-inf")
        self._trial: asyncio.Future[None] | None = None

    async def check(self) -> None:
        """Return if a decision could be written now.

        Raises:
            StoreError: The trial failed or took too long.
        """
        now = self._steady()
        if self._trial is None or (self._trial.done() and now - self._tried_at >= FRESH_SECONDS):
            self._tried_at = now
            self._trial = asyncio.wrap_future(self._ledger.submit_work(self._write, durable=True))
        finished, _ = await asyncio.wait({self._trial}, timeout=self._patience)
        if not finished:
            raise StoreError(
                f"the store has not accepted a write for {self._patience:g} seconds",
                hint="check its log and disk",
            )
        self._trial.result()

    def _write(self, connection: Connection) -> None:
        """Write an entry and an answer to each stream, as a decision does, and delete them again."""
        # Use the same order as in transactions of decisions, to prevent deadlocks between replicas.
        for stream in sorted(self._ledger.machines):
            row = connection.execute(select(streams).where(streams.c.name == stream).with_for_update()).one()
            if row.digest != self._ledger.machines[stream].digest:
                raise configuration_error(stream)
            # The entry is about as large as that of a decision, and its random ID may be stored on any page.
            key = {"stream": stream, "number": row.number + 1}
            entry = {**key, "at": 0.0, "marked": False, "body": row.state, "hash": row.hash}
            answer = {**key, "id": secrets.token_hex(32)}
            for table, values, column in ((entries, entry, entries.c.number), (answers, answer, answers.c.id)):
                connection.execute(insert(table).values(values))
                connection.execute(delete(table).where(table.c.stream == stream, column == values[column.name]))
        beat = update(replicas).where(replicas.c.name == self._replica)
        connection.execute(beat.values(beat=replicas.c.beat + 1))
