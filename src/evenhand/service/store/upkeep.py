"""What replicas do besides decisions: they beat, watch each other, and delete what is old.

Each replica counts up a number in the store. The others watch it by their own steady clocks, so that no two machines
need to agree on the time and no clock may jump. A replica whose number stands still for too long is declared dead: its
row is deleted. Whatever is open in a stream under a name that has no row is then failed for good.

That may be wrong: the replica may only have been stopped, and come back. Nothing rests on its being right. What was
failed is not open any more in the stream's state, under whose lock every completion is taken, so the returned replica's
completion is refused, and an item whose completion was refused is not released.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Collection

from sqlalchemy import Connection, delete, func, insert, select, tuple_, update

from evenhand.errors import StoreError
from evenhand.service.background import PeriodicThread
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
"""Between two beats, and between two looks at those of the others."""

DEAD_SECONDS = 15.0
"""Seconds without a heartbeat after which a replica is declared dead."""

PAUSE_SECONDS = 3 * BEAT_SECONDS
"""After a longer pause between checks, this replica was suspended itself, so its view of the others is outdated."""


class Replicas:
    """One replica among the others.

    Args:
        database: the store.
        ledger: of this process.
        name: of this replica, new at every start.
        steady: a clock in seconds that never jumps; only its differences count.
    """

    def __init__(
        self, database: Database, ledger: Ledger, name: str, *, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._ledger, self._name = database, ledger, name
        self._steady = steady
        self._looked: float | None = None
        self._seen: dict[str, tuple[int, float]] = {}
        self._held: dict[str, tuple[str, Collection[str]]] = {}

    def beat(self) -> None:
        """Record that this replica is alive, again if it was declared dead.

        Raises:
            StoreError: the store failed.
        """
        table = replicas

        def count_up(connection: Connection) -> None:
            mine = update(table).where(table.c.name == self._name).values(beat=table.c.beat + 1)
            if connection.execute(mine).rowcount == 0:
                connection.execute(insert(table).values(name=self._name, beat=1))

        self._ledger.submit_work(count_up).result()

    def look(self) -> None:
        """Declare silent replicas dead, and fail open work of replicas that are gone.

        Raises:
            StoreError: the store failed.
        """
        now = self._steady()
        stopped = self._looked is not None and now - self._looked > PAUSE_SECONDS
        self._looked = now
        with self._database.reading() as connection:
            # Who is there is read at the same moment as what is open: a new replica first writes its row.
            beats = {row.name: row.beat for row in connection.execute(select(replicas))}
            left = [
                (stream, name)
                for stream in self._ledger.streams
                for name in self._holders(connection, stream)
                if name not in beats and name != self._name
            ]
        for stream, name in left:
            logger.warning("%s: what the replica %s left open has failed", stream, name)
            self._ledger.submit(stream, {"op": "abandon", "replica": name}).result()
        silent = []
        for name, count in beats.items():
            before = self._seen.get(name)
            if before is None or before[0] != count or stopped:
                self._seen[name] = (count, now)
            elif name != self._name and now - before[1] >= DEAD_SECONDS:
                silent.append((name, count))
        for name, count in silent:
            self._declare_dead(name, count)
        self._seen = {name: seen for name, seen in self._seen.items() if name in beats}

    def leave(self) -> None:
        """Record that this replica has ended. Another replica fails its open work.

        Raises:
            StoreError: the store failed.
        """
        table = replicas
        self._ledger.submit_work(
            lambda connection: connection.execute(delete(table).where(table.c.name == self._name))
        ).result()

    def _declare_dead(self, name: str, count: int) -> None:
        table = replicas

        def remove(connection: Connection) -> int:
            # Unless it has beaten since.
            return connection.execute(delete(table).where(table.c.name == name, table.c.beat == count)).rowcount

        if self._ledger.submit_work(remove).result():
            logger.warning("the replica %s has been silent for %g seconds: declared dead", name, DEAD_SECONDS)

    def _holders(self, connection: Connection, stream: str) -> Collection[str]:
        """Return the names under which something is open in a stream."""
        table = streams
        head = connection.execute(select(table.c.hash).where(table.c.name == stream)).scalar_one()
        known = self._held.get(stream)
        if known is None or known[0] != head:
            state = connection.execute(select(table.c.state).where(table.c.name == stream)).scalar_one()
            self._held[stream] = head, self._ledger.holders(stream, json.loads(state))
        return self._held[stream][1]


# What a replica does by itself in the background: it beats, watches the others, and deletes what is too old.

TIDY_SECONDS = 600.0
"""Seconds between two deletions of expired data."""


class UpkeepThread:
    """Background thread of a replica. Tasks that fail are retried the next time.

    Args:
        replicas: of this process.
        retention: of this process.
        steady: seconds of a clock that never jumps.
    """

    def __init__(
        self, replicas: Replicas, retention: RetentionJob, *, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._replicas, self._retention = replicas, retention
        self._steady = steady
        self._tidied: float | None = None
        self._thread = PeriodicThread("evenhand-upkeep", self.run_due_tasks, BEAT_SECONDS)

    def start(self) -> None:
        """Send a first heartbeat before anything is opened; then go on in the background.

        Raises:
            StoreError: the store failed.
        """
        self._replicas.beat()
        self._thread.start()

    def run_due_tasks(self) -> None:
        """Run everything that is due now."""
        duties = {"beat": self._replicas.beat, "look": self._replicas.look}
        now = self._steady()
        if self._tidied is None or now - self._tidied >= TIDY_SECONDS:
            self._tidied = now
            duties["delete_expired"] = self._retention.delete_expired
        for name, duty in duties.items():
            try:
                duty()
            except StoreError as error:
                logger.warning("%s: %s", name, error.message)
            except Exception:
                logger.exception("%s failed", name)

    def stop(self) -> None:
        """Stop, and tell the others; to be called before the ledger is closed."""
        self._thread.stop()
        if self._thread.is_started:
            try:
                self._replicas.leave()
            except StoreError as error:
                logger.warning("the other replicas will find out by themselves that this one ended: %s", error.message)


# Deletes what need not be kept any more: beginnings of logs, with the answers in them, and pictures.


DAY_SECONDS = 86_400.0

PARTS_PER_PERIOD = 8
"""Number of checkpoints per retention period. Logs are cut at checkpoints."""

ENTRIES_PER_DELETE = 500
"""Number of entries deleted in one transaction, while operations wait."""

PICTURES_PER_DELETE = 50
"""Number of pictures deleted in one transaction."""

JUMP_SECONDS = 3_600.0
"""If the wall clock and the steady clock differ by more seconds, nothing is deleted this time."""


class RetentionJob:
    """Deletes expired entries and pictures.

    **A log that is cut still replays.** A checkpoint is an entry that says, as the first one does, what the stream is
    and what its state is then; it is chained to the entry before it and the next is chained to it. Logs are cut before
    checkpoints only, so that every log starts with an entry from which it can be done again. The state, and with it
    every decision to come, does not depend on what is deleted.

    **An id stays used.** With its entry, the answer to an id goes, not the fact that it was used: who asks again with
    the same id is refused, and never gets a second decision. What stays of the id is its hash.

    Args:
        database: the store.
        ledger: of this process; its streams are those that are looked after, except the keys.
        log_days: how long entries are kept at least; they go an eighth of that later at most. None: for ever.
        picture_days: how long pictures are kept. None: for ever.
        clock: seconds since 1970.
        steady: seconds of a clock that never jumps.
    """

    def __init__(
        self,
        database: Database,
        ledger: Ledger,
        *,
        log_days: float | None,
        picture_days: float | None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._ledger = database, ledger
        self._log_seconds = None if log_days is None else log_days * DAY_SECONDS
        self._picture_seconds = None if picture_days is None else picture_days * DAY_SECONDS
        self._clock, self._steady = clock, steady
        self._last = (clock(), steady())

    def delete_expired(self) -> None:
        """Write the checkpoints that are due, and delete expired data.

        Raises:
            StoreError: the store failed; the rest is done the next time.
        """
        # A clock that was set forward would make everything old at once: where it does not agree with the steady one,
        # nothing is deleted.
        now, steady = self._clock(), self._steady()
        passed, ran = now - self._last[0], steady - self._last[1]
        self._last = (now, steady)
        if abs(passed - ran) > JUMP_SECONDS:
            logger.warning("the clock jumped by %.0f seconds: nothing is deleted this time", passed - ran)
            return
        if self._log_seconds is not None:
            for stream in self._ledger.streams:
                if stream == KEY_STREAM:
                    continue
                self._write_checkpoint(stream, now - self._log_seconds / PARTS_PER_PERIOD)
                self._cut(stream, now - self._log_seconds)
        if self._picture_seconds is not None:
            while self._ledger.submit_work(_delete_pictures(now - self._picture_seconds)).result():
                pass

    def _write_checkpoint(self, stream: str, due: float) -> None:
        """Write a checkpoint, if the last one is from before `due` and something happened since."""
        with self._database.reading() as connection:
            head = connection.execute(select(streams.c.number).where(streams.c.name == stream)).scalar_one()
            last = connection.execute(
                select(checkpoints).where(checkpoints.c.stream == stream).order_by(checkpoints.c.number.desc()).limit(1)
            ).one()
        if head > last.number and last.at <= due:
            self._ledger.checkpoint(stream).result()

    def _cut(self, stream: str, before: float) -> None:
        """Delete the entries before the last checkpoint that is old enough."""
        with self._database.reading() as connection:
            first = connection.execute(
                select(func.max(checkpoints.c.number)).where(checkpoints.c.stream == stream, checkpoints.c.at <= before)
            ).scalar()
        if not first:
            return
        # From here on the log starts there, for everybody who reads it, even if the rest is only done the next time.
        self._ledger.submit_work(
            lambda connection: connection.execute(
                delete(checkpoints).where(checkpoints.c.stream == stream, checkpoints.c.number < first)
            ),
            durable=True,
        ).result()
        while self._ledger.submit_work(_delete_entries(stream, first)).result():
            pass


def _delete_entries(stream: str, first: int) -> Callable[[Connection], bool]:
    """Delete some of the entries before `first`; return whether there may be more."""

    def work(connection: Connection) -> bool:
        lowest = connection.execute(select(func.min(entries.c.number)).where(entries.c.stream == stream)).scalar_one()
        end = min(lowest + ENTRIES_PER_DELETE, first)
        connection.execute(delete(entries).where(entries.c.stream == stream, entries.c.number < end))
        return bool(end < first)

    return work


def _delete_pictures(before: float) -> Callable[[Connection], bool]:
    """Delete some of the pictures from before a time; return whether there may be more."""

    def work(connection: Connection) -> bool:
        key = tuple_(pictures.c.stream, pictures.c.number)
        query = select(pictures.c.stream, pictures.c.number).where(pictures.c.at < before).limit(PICTURES_PER_DELETE)
        old = [tuple(row) for row in connection.execute(query)]
        connection.execute(delete(pictures).where(key.in_(old)))
        return len(old) == PICTURES_PER_DELETE

    return work


# Copies of a whole store, at one moment, while the service goes on: from one to a file, and from that to a new one.


ROWS_AT_ONCE = 1_000

NOT_COPIED = (replicas, revisions)
"""Of processes that are not there any more, and what every store has of its own."""


def copy_store(
    source: Database, target: Database, progress: Callable[[int], None] = lambda rows: None
) -> dict[str, tuple[int, str]]:
    """Copy a snapshot of one store to another, which may be of another kind.

    Args:
        source: read in one transaction, which does not hold up writers.
        target: new; all of it is written in one transaction.
        progress: is told the number of rows that were copied so far.

    Returns:
        By stream the number and the hash of its last entry in the copy.

    Raises:
        StoreError: the target has something in it already, or one of the stores failed.
    """
    done = 0
    with source.reading() as here, target.transaction() as there:
        if there.execute(select(func.count()).select_from(streams)).scalar_one():
            raise StoreError(
                "the store is not empty: what it has would be mixed with the copy",
                hint="name one that is not there yet, or move the old one away",
            )
        for table in metadata.sorted_tables:
            if table in NOT_COPIED:
                continue
            rows = here.execution_options(stream_results=True).execute(select(table)).mappings()
            for piece in rows.partitions(ROWS_AT_ONCE):
                there.execute(insert(table), [dict(row) for row in piece])
                done += len(piece)
                progress(done)
        return read_heads(there)


# Whether the store takes decisions now: what a decision writes is written, and taken back in the same transaction.


FRESH_SECONDS = 1.0
"""Seconds for which a result is cached, so that frequent probes cost the store nothing."""

PATIENCE_SECONDS = 5.0
"""Time limit for the trial transaction."""


class Readiness:
    """Checks whether the store accepts writes, by a trial write in the ledger's thread.

    Args:
        ledger: of this process.
        replica: this process's name, whose heartbeat stays counted.
        steady: seconds of a monotonic clock.
        patience: seconds; see `PATIENCE_SECONDS`.
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
            StoreError: it could not, or not in time.
        """
        now = self._steady()
        if self._trial is None or (self._trial.done() and now - self._tried_at >= FRESH_SECONDS):
            self._tried_at = now
            self._trial = asyncio.wrap_future(self._ledger.submit_work(self._write, durable=True))
        done, _ = await asyncio.wait({self._trial}, timeout=self._patience)
        if not done:
            raise StoreError(
                f"the store has not taken a write for {self._patience:g} seconds", hint="see its log, and its disk"
            )
        self._trial.result()

    def _write(self, connection: Connection) -> None:
        # In the order in which decisions take them, so that replicas never wait for each other in a circle.
        for stream in sorted(self._ledger.streams):
            row = connection.execute(select(streams).where(streams.c.name == stream).with_for_update()).one()
            if row.digest != self._ledger.machine(stream).digest:
                raise configuration_error(stream)
            # As large as a decision's entry is, about; under an identifier that may fall on any page.
            mine = {"stream": stream, "number": row.number + 1}
            entry = {**mine, "at": 0.0, "marked": False, "body": row.state, "hash": row.hash}
            answer = {**mine, "id": secrets.token_hex(32)}
            for table, values, key in ((entries, entry, entries.c.number), (answers, answer, answers.c.id)):
                connection.execute(insert(table).values(values))
                connection.execute(delete(table).where(table.c.stream == stream, key == values[key.name]))
        beat = update(replicas).where(replicas.c.name == self._replica)
        connection.execute(beat.values(beat=replicas.c.beat + 1))
