"""Delivered pictures, kept for the dashboard and under unguessable addresses."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Any

from sqlalchemy import ColumnElement, insert, select

from evenhand.errors import StoreError
from evenhand.genai.backends.generator import Item
from evenhand.service.store.database import Database
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
        clock: Clock that gives the time of a picture, in seconds since 1970.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock
        self._waiting: Queue[Mapping[str, Any] | None] = Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._write, name="evenhand-pictures", daemon=True)
        self._thread.start()

    def keep(self, stream: str, number: int, item: Item) -> str:
        """Store a picture durably, and return the last part of its address.

        Args:
            stream: Name of the guard.
            number: Number of the entry that admitted the request.
            item: Picture.

        Raises:
            StoreError: The store failed.
        """
        row = self._row(stream, number, item)
        self._insert_rows([row], durable=True)
        return str(row["id"])

    def keep_if_possible(self, stream: str, number: int, item: Item) -> None:
        """Store a picture in the background. It is dropped if too many are waiting or the store fails."""
        with suppress(Full):
            self._waiting.put_nowait(self._row(stream, number, item))

    def close(self) -> None:
        """Store the pictures that are waiting, and stop the thread."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

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

    def _row(self, stream: str, number: int, item: Item) -> dict[str, Any]:
        return {
            "stream": stream,
            "number": number,
            "id": secrets.token_urlsafe(32),
            "at": self._clock(),
            "media_type": item.media_type,
            "data": item.data,
        }

    def _insert_rows(self, rows: Sequence[Mapping[str, Any]], *, durable: bool) -> None:
        with self._database.transaction(durable=durable) as connection:
            connection.execute(insert(pictures), rows)

    def _write(self) -> None:
        stopping = False
        while not stopping:
            batch = [self._waiting.get()]
            while len(batch) < MAX_WAITING:
                try:
                    batch.append(self._waiting.get_nowait())
                except Empty:
                    break
            stopping = None in batch
            rows = [row for row in batch if row is not None]
            try:
                if rows:
                    self._insert_rows(rows, durable=False)
            except StoreError:
                continue  # The dashboard lacks these pictures; the callers have them.

    def _read(self, *where: ColumnElement[bool]) -> StoredPicture | None:
        query = select(pictures.c.media_type, pictures.c.data).where(*where)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else StoredPicture(row.media_type, bytes(row.data))
