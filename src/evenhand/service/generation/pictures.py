"""Delivered pictures, kept for the dashboard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import insert, select

from evenhand.errors import StoreError
from evenhand.genai.backends.generator import Item
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import pictures

MAX_WAITING = 64
"""Maximum number of pictures that wait in memory to be stored. Further pictures are missing from the dashboard."""


class StoredPicture(NamedTuple):
    """Media type and content of a picture in the store."""

    media_type: str
    data: bytes


class PictureStore:
    """Pictures in the store, written in the ledger's thread.

    Args:
        database: Store.
        ledger: Ledger of the store.
        clock: Clock for the time of a picture, in seconds since 1970.
    """

    def __init__(self, database: Database, ledger: Ledger, clock: Callable[[], float] = time.time) -> None:
        self._database, self._ledger, self._clock = database, ledger, clock
        self._places = threading.Semaphore(MAX_WAITING)

    def keep(self, stream: str, number: int, item: Item) -> None:
        """Store a picture in the background. It is dropped if too many are waiting or the store fails.

        Args:
            stream: Name of the guard.
            number: Number of the entry that admitted the request.
            item: Picture.
        """
        row = {"stream": stream, "number": number, "at": self._clock(), "media_type": item.media_type}
        statement = insert(pictures).values(**row, data=item.data)
        if self._places.acquire(blocking=False):
            with suppress(StoreError):
                future = self._ledger.submit_work(lambda connection: connection.execute(statement).rowcount)
                future.add_done_callback(lambda _future: self._places.release())

    def find_delivered(self, stream: str, number: int) -> StoredPicture | None:
        """Return the picture that was delivered for an admission. None if there is none.

        Raises:
            StoreError: The store failed.
        """
        columns = select(pictures.c.media_type, pictures.c.data)
        with self._database.reading() as connection:
            row = connection.execute(columns.where(pictures.c.stream == stream, pictures.c.number == number)).first()
        return None if row is None else StoredPicture(row.media_type, bytes(row.data))
