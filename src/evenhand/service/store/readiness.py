"""Whether the store takes decisions now: what a decision writes is written, and taken back in the same transaction."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select, update

from evenhand.errors import StoreError
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import answers, entries, replicas, streams

FRESH_SECONDS = 1.0
"""For so long a result is believed: probes that come meanwhile cost the store nothing."""

PATIENCE_SECONDS = 5.0
"""For so long the store is waited for."""


class Readiness:
    """Tries the store for everybody who asks, in the thread that writes decisions, by writing what they write.

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
            # As large as a decision's entry is, about; under an identifier that may fall on any page.
            mine = {"stream": stream, "number": row.number + 1}
            entry = {**mine, "at": 0.0, "marked": False, "body": row.state, "hash": row.hash}
            answer = {**mine, "id": secrets.token_hex(32)}
            for table, values, key in ((entries, entry, entries.c.number), (answers, answer, answers.c.id)):
                connection.execute(insert(table).values(values))
                connection.execute(delete(table).where(table.c.stream == stream, key == values[key.name]))
        beat = update(replicas).where(replicas.c.name == self._replica)
        connection.execute(beat.values(beat=replicas.c.beat + 1))
