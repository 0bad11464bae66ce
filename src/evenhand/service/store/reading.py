"""Reading the store: heads, states, and logs in pages, without holding anybody up who writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from evenhand.service.store import chain
from evenhand.service.store.database import Database
from evenhand.service.store.tables import entries, streams

PAGE = 1_000
"""Entries that are read at once when a whole log is."""


def entries_after(connection: Connection, stream: str, number: int, limit: int = PAGE) -> list[dict[str, Any]]:
    """The next entries of a log, as they are exported.

    Args:
        connection: see ``Database.reading``.
        stream: its name.
        number: of the entry after which to begin; -1 for the first one that is kept.
        limit: how many at most.
    """
    query = (
        select(entries)
        .where(entries.c.stream == stream, entries.c.number > number)
        .order_by(entries.c.number)
        .limit(limit)
    )
    return [chain.entry(dict(row)) for row in connection.execute(query).mappings()]


def log(database: Database, stream: str, *, after: int = -1, page: int = PAGE) -> Iterator[dict[str, Any]]:
    """A whole log up to its end, whatever its length: it is read in pages, and each page in a transaction of its own.

    Args:
        database: the store.
        stream: its name.
        after: the number of the entry after which to begin.
        page: entries that are in memory at once.

    Raises:
        StoreError: the store failed.
    """
    while True:
        with database.reading() as connection:
            found = entries_after(connection, stream, after, page)
        yield from found
        if len(found) < page:
            return
        after = found[-1]["number"]


def heads(connection: Connection) -> dict[str, tuple[int, str]]:
    """By stream, the number and the hash of its last entry."""
    rows = connection.execute(select(streams.c.name, streams.c.number, streams.c.hash).order_by(streams.c.name))
    return {row.name: (row.number, row.hash) for row in rows}


def state_of(connection: Connection, stream: str) -> dict[str, Any] | None:
    """The state after the last entry of a stream; None if there is no such stream."""
    found = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar()
    state: dict[str, Any] | None = None if found is None else json.loads(found)
    return state
