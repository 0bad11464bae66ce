"""Pictures that were delivered, kept for the dashboard and at addresses that cannot be guessed."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Any

from sqlalchemy import ColumnElement, insert, select

from evenhand.errors import StoreError
from evenhand.genai.backends.generator import Item
from evenhand.service.store.database import Database
from evenhand.service.store.tables import pictures

MAX_WAITING = 64
"""Most pictures that wait in memory to be stored; further ones are missing from the dashboard."""


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
    """Those of a store.

    Args:
        database: the store.
        clock: seconds since 1970, from which their time in the store is counted.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._waiting: Queue[Mapping[str, Any] | None] = Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._write, name="evenhand-pictures", daemon=True)
        self._thread.start()

    def keep(self, stream: str, number: int, item: Item) -> str:
        """Store a picture durably; return the end of its address.

        Args:
            stream: of the guard.
            number: of the entry that admitted its request.
            item: the picture.

        Raises:
            StoreError: the store failed.
        """
        row = self._row(stream, number, item)
        self._insert_rows([row], durable=True)
        return str(row["id"])

    def keep_if_possible(self, stream: str, number: int, item: Item) -> None:
        """Keep a picture for the dashboard, unless too many wait for that, or the store fails; returns at once."""
        try:
            self._waiting.put_nowait(self._row(stream, number, item))
        except Full:
            return

    def close(self) -> None:
        """Store the pictures that wait, and stop."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def find(self, id: str) -> StoredPicture | None:
        """Return the picture at an address, unless its time is over.

        Raises:
            StoreError: the store failed.
        """
        return self._read(pictures.c.id == id)

    def of(self, stream: str, number: int) -> StoredPicture | None:
        """Return the picture of a request.

        Raises:
            StoreError: the store failed.
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
            found = [self._waiting.get()]
            while len(found) < MAX_WAITING:
                try:
                    found.append(self._waiting.get_nowait())
                except Empty:
                    break
            stopping = None in found
            rows = [row for row in found if row is not None]
            try:
                if rows:
                    self._insert_rows(rows, durable=False)
            except StoreError:
                continue  # The dashboard lacks these pictures; the callers have them.

    def _read(self, *where: ColumnElement[bool]) -> StoredPicture | None:
        with self._database.reading() as connection:
            query = select(pictures.c.media_type, pictures.c.data).where(*where)
            row = connection.execute(query).first()
        return None if row is None else StoredPicture(row.media_type, bytes(row.data))
