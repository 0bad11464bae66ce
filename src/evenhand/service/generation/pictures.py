"""Delivered pictures, kept for the dashboard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any, NamedTuple

from sqlalchemy import insert, select

from evenhand.errors import StoreError
from evenhand.genai.backends.generator import Item
from evenhand.service.store.database import Database
from evenhand.service.store.tables import pictures

MAX_WAITING = 64
"""Maximum number of pictures that wait in memory to be stored. Further ones are missing from the dashboard."""


class StoredPicture(NamedTuple):
    """Media type and content of a picture in the store."""

    media_type: str
    data: bytes


class PictureStore:
    """Pictures in the store, written in a background thread.

    Args:
        database: Store.
        clock: Clock that gives the time of a picture, in seconds since 1970.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock
        self._waiting: Queue[Mapping[str, Any] | None] = Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._write, name="evenhand-pictures", daemon=True)
        self._thread.start()

    def keep(self, stream: str, number: int, item: Item) -> None:
        """Store a picture in the background. It is dropped if too many are waiting or the store fails.

        Args:
            stream: Name of the guard.
            number: Number of the entry that admitted the request.
            item: Picture.
        """
        row = {"stream": stream, "number": number, "at": self._clock(), "media_type": item.media_type}
        with suppress(Full):
            self._waiting.put_nowait({**row, "data": item.data})

    def find_delivered(self, stream: str, number: int) -> StoredPicture | None:
        """Return the picture that was delivered for an admission. None if there is none.

        Raises:
            StoreError: The store failed.
        """
        columns = select(pictures.c.media_type, pictures.c.data)
        with self._database.reading() as connection:
            row = connection.execute(columns.where(pictures.c.stream == stream, pictures.c.number == number)).first()
        return None if row is None else StoredPicture(row.media_type, bytes(row.data))

    def close(self) -> None:
        """Store the pictures that are waiting, and stop the thread."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _write(self) -> None:
        is_stopping = False
        while not is_stopping:
            batch = [self._waiting.get()]
            while len(batch) < MAX_WAITING:
                try:
                    batch.append(self._waiting.get_nowait())
                except Empty:
                    break
            is_stopping = None in batch
            rows = [row for row in batch if row is not None]
            if rows:
                # On failure, the dashboard lacks these pictures; the callers have them.
                with suppress(StoreError), self._database.transaction(durable=False) as connection:
                    connection.execute(insert(pictures), rows)
