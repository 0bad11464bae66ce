"""Delivered pictures, kept for the dashboard and under unguessable addresses."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, insert, select

from evenhand.errors import StoreError
from evenhand.genai.backends.generator import Item
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import pictures

MAX_WAITING = 64
"""Maximum number of pictures that wait in memory to be stored. Further ones are missing from the dashboard."""


@dataclass(frozen=True)
class StoredPicture:
    """A picture in the store.

    Attributes:
        media_type: such as ``image/png``.
        data: its bytes.
    """

    media_type: str
    data: bytes


class PictureStore:
    """Pictures in the store.

    Args:
        database: Store.
        ledger: Ledger of this process, whose thread writes the pictures.
        clock: Clock that gives the time of a picture, in seconds since 1970.
    """

    def __init__(self, database: Database, ledger: Ledger, clock: Callable[[], float] = time.time) -> None:
        self._database, self._ledger, self._clock = database, ledger, clock
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)

    def keep(self, stream: str, number: int, item: Item) -> str:
        """Store a picture durably, and return the last part of its address.

        Args:
            stream: Name of the guard.
            number: Number of the entry that admitted the request.
            item: Picture.

        Raises:
            StoreError: The store failed.
        """
        id = secrets.token_urlsafe(32)
        self._insert(id, stream, number, item, durable=True).result()
        return id

    def keep_if_possible(self, stream: str, number: int, item: Item) -> None:
        """Store a picture in the background. It is dropped if too many are waiting or the store fails."""
        if not self._waiting.acquire(blocking=False):
            return
        try:
            insertion = self._insert(secrets.token_urlsafe(32), stream, number, item, durable=False)
        except StoreError:
            self._waiting.release()
        else:
            insertion.add_done_callback(lambda _: self._waiting.release())

    def find(self, id: str) -> StoredPicture | None:
        """Return the picture with an address, or None if it has expired.

        Raises:
            StoreError: The store failed.
        """
        return self._read(pictures.c.id == id)

    def find_delivered(self, stream: str, number: int) -> StoredPicture | None:
        """Return the picture that was delivered for an admission.

        Raises:
            StoreError: The store failed.
        """
        return self._read(pictures.c.stream == stream, pictures.c.number == number)

    def _insert(self, id: str, stream: str, number: int, item: Item, *, durable: bool) -> Future[Any]:
        row = {
            "stream": stream,
            "number": number,
            "id": id,
            "at": self._clock(),
            "media_type": item.media_type,
            "data": item.data,
        }
        return self._ledger.submit_work(lambda connection: connection.execute(insert(pictures), row), durable=durable)

    def _read(self, *where: ColumnElement[bool]) -> StoredPicture | None:
        query = select(pictures.c.media_type, pictures.c.data).where(*where)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else StoredPicture(row.media_type, bytes(row.data))
