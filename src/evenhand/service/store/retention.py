"""Deletes what need not be kept any more: the beginnings of logs, the answers in them, and pictures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from sqlalchemy import Connection, delete, func, select, update

from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import answers, checkpoints, entries, pictures, streams

logger = logging.getLogger(__name__)

DAY = 86_400.0

PARTS = 8
"""A log is cut at checkpoints, and so many of them are made in the time that it is kept."""

ENTRIES = 500
"""Entries that are deleted at once, while operations wait."""

PICTURES = 50
"""Pictures that are deleted at once."""

JUMP_SECONDS = 3_600.0
"""If the time of day went so much faster or slower than a steady clock, nothing is deleted this time."""


class Retention:
    """Deletes what is older than the settings want it.

    **A log that is cut still replays.** A checkpoint is an entry that says, as the first one does, what the stream is
    and what its state is then; it is chained to the entry before it and the next is chained to it. Logs are cut before
    checkpoints only, so that every log starts with an entry from which it can be done again. The state, and with it
    every decision to come, does not depend on what is deleted.

    **An id stays used.** With its entry, the answer to an id goes, not the fact that it was used: who asks again with
    the same id is refused, and never gets a second decision. What stays of the id is its hash.

    Args:
        database: the store.
        ledger: of this process; its streams are those that are looked after.
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
        self._log_seconds = None if log_days is None else log_days * DAY
        self._picture_seconds = None if picture_days is None else picture_days * DAY
        self._clock, self._steady = clock, steady
        self._last = (clock(), steady())

    def tidy(self) -> None:
        """Make the checkpoints that are due, and delete what is too old.

        Raises:
            StoreError: the store failed; the rest is done the next time.
        """
        now, steady = self._clock(), self._steady()
        passed, ran = now - self._last[0], steady - self._last[1]
        self._last = (now, steady)
        if abs(passed - ran) > JUMP_SECONDS:
            logger.warning("the clock jumped by %.0f seconds: nothing is deleted this time", passed - ran)
            return
        if self._log_seconds is not None:
            for stream in self._ledger.streams:
                self._mark(stream, now - self._log_seconds / PARTS)
                self._cut(stream, now - self._log_seconds)
        if self._picture_seconds is not None:
            while self._ledger.aside(_without_pictures(now - self._picture_seconds)).result():
                pass

    def _mark(self, stream: str, due: float) -> None:
        """A checkpoint, if the last one is from before `due` and something happened since."""
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
        self._ledger.aside(
            lambda connection: connection.execute(
                delete(checkpoints).where(checkpoints.c.stream == stream, checkpoints.c.number < first)
            ),
            durable=True,
        ).result()
        while self._ledger.aside(_without_entries(stream, first)).result():
            pass


def _without_entries(stream: str, first: int) -> Callable[[Connection], bool]:
    """Deletes some of the entries before `first`; whether there may be more."""

    def work(connection: Connection) -> bool:
        lowest = connection.execute(select(func.min(entries.c.number)).where(entries.c.stream == stream)).scalar_one()
        end = min(lowest + ENTRIES, first)
        connection.execute(
            update(answers)
            .where(answers.c.stream == stream, answers.c.number >= lowest, answers.c.number < end)
            .values(answer=None)
        )
        connection.execute(delete(entries).where(entries.c.stream == stream, entries.c.number < end))
        return bool(end < first)

    return work


def _without_pictures(before: float) -> Callable[[Connection], bool]:
    """Deletes some of the pictures from before a time; whether there may be more."""

    def work(connection: Connection) -> bool:
        old = connection.execute(select(pictures.c.id).where(pictures.c.at < before).limit(PICTURES)).scalars().all()
        connection.execute(delete(pictures).where(pictures.c.id.in_(old)))
        return len(old) == PICTURES

    return work
