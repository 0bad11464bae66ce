"""Pictures that were delivered, kept for the dashboard and at addresses that nobody can guess."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import insert, select

from evenhand.genai.backends import Item
from evenhand.service.store import Database
from evenhand.service.store.tables import pictures


@dataclass(frozen=True)
class Picture:
    """A picture in the store.

    Attributes:
        media_type: such as ``image/png``.
        data: its bytes.
    """

    media_type: str
    data: bytes


class Pictures:
    """Those of a store.

    Args:
        database: the store.
        clock: seconds since 1970, from which their time in the store is counted.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def keep(self, stream: str, number: int, item: Item, *, durable: bool) -> str:
        """Keep a picture; the end of its address.

        Args:
            stream: of the guard.
            number: of the entry that admitted its request.
            item: the picture.
            durable: whether a power cut may not take it.

        Raises:
            StoreError: the store failed.
        """
        id = secrets.token_urlsafe(32)  # noqa: A001
        row = {"stream": stream, "number": number, "id": id, "at": self._clock(), "media_type": item.media_type,
               "data": item.data}  # fmt: skip
        with self._database.transaction(durable=durable) as connection:
            connection.execute(insert(pictures).values(**row))
        return id

    def find(self, id: str) -> Picture | None:  # noqa: A002
        """The picture at an address, unless its time is over.

        Raises:
            StoreError: the store failed.
        """
        return self._read(pictures.c.id == id)

    def of(self, stream: str, number: int) -> Picture | None:
        """The picture of a request.

        Raises:
            StoreError: the store failed.
        """
        return self._read(pictures.c.stream == stream, pictures.c.number == number)

    def _read(self, *where: object) -> Picture | None:
        with self._database.reading() as connection:
            query = select(pictures.c.media_type, pictures.c.data).where(*where)  # type: ignore[arg-type]
            row = connection.execute(query).first()
        return None if row is None else Picture(row.media_type, bytes(row.data))
