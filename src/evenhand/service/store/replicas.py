"""Who serves the store: replicas that beat, and what becomes of what a dead one left open.

Each replica counts up a number in the store. The others watch it by their own steady clocks, so that no two machines
need to agree on the time and no clock may jump. A replica whose number stands still for too long is declared dead: its
row is deleted. Whatever is open in a stream under a name that has no row is then failed for good.

That may be wrong: the replica may only have been stopped, and come back. Nothing rests on its being right. What was
failed is not open any more in the stream's state, under whose lock every completion is taken, so the returned replica's
completion is refused, and an item whose completion was refused is not released.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection

from sqlalchemy import Connection, delete, insert, select, update

from evenhand.service.store import tables
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger

logger = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
"""Between two beats, and between two looks at those of the others."""

DEAD_SECONDS = 15.0
"""A replica that has not beaten for so long is declared dead."""

PAUSE_SECONDS = 3 * BEAT_SECONDS
"""Who has not looked for so long was stopped itself, and knows nothing of the others' silence."""


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
        """Say that this one lives, again if it was declared dead.

        Raises:
            StoreError: the store failed.
        """
        table = tables.replicas

        def count_up(connection: Connection) -> None:
            mine = update(table).where(table.c.name == self._name).values(beat=table.c.beat + 1)
            if connection.execute(mine).rowcount == 0:
                connection.execute(insert(table).values(name=self._name, beat=1))

        self._ledger.aside(count_up).result()

    def look(self) -> None:
        """Declare those dead that are silent for too long, and fail what is open under names that nobody has.

        Raises:
            StoreError: the store failed.
        """
        now = self._steady()
        stopped = self._looked is not None and now - self._looked > PAUSE_SECONDS
        self._looked = now
        with self._database.reading() as connection:
            # Who is there is read at the same moment as what is open: a new replica first writes its row.
            beats = {row.name: row.beat for row in connection.execute(select(tables.replicas))}
            left = [(stream, name) for stream in self._ledger.streams for name in self._holders(connection, stream)
                    if name not in beats and name != self._name]  # fmt: skip
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
        """Say that this one has ended; what it left open is failed by the next that looks.

        Raises:
            StoreError: the store failed.
        """
        table = tables.replicas
        self._ledger.aside(
            lambda connection: connection.execute(delete(table).where(table.c.name == self._name))
        ).result()

    def _declare_dead(self, name: str, count: int) -> None:
        table = tables.replicas

        def remove(connection: Connection) -> int:
            # Unless it has beaten since.
            return connection.execute(delete(table).where(table.c.name == name, table.c.beat == count)).rowcount

        if self._ledger.aside(remove).result():
            logger.warning("the replica %s has been silent for %g seconds: declared dead", name, DEAD_SECONDS)

    def _holders(self, connection: Connection, stream: str) -> Collection[str]:
        """Under which names something is open in a stream."""
        table = tables.streams
        head = connection.execute(select(table.c.hash).where(table.c.name == stream)).scalar_one()
        known = self._held.get(stream)
        if known is None or known[0] != head:
            state = connection.execute(select(table.c.state).where(table.c.name == stream)).scalar_one()
            self._held[stream] = head, self._ledger.holders(stream, json.loads(state))
        return self._held[stream][1]
