"""Reading the store: heads, states, and logs in pages, without holding anybody up who writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, func, select

from evenhand.errors import StoreError
from evenhand.service.store import chain
from evenhand.service.store.database import Database
from evenhand.service.store.tables import checkpoints, entries, streams

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
        .where(
            entries.c.stream == stream, entries.c.number > number, entries.c.number >= first_kept(connection, stream)
        )
        .order_by(entries.c.number)
        .limit(limit)
    )
    return [chain.entry(dict(row)) for row in connection.execute(query).mappings()]


def first_kept(connection: Connection, stream: str) -> int:
    """The number of the entry that a log starts with: 0, or a checkpoint if those before it are not kept any more."""
    first = connection.execute(select(func.min(checkpoints.c.number)).where(checkpoints.c.stream == stream)).scalar()
    return int(first or 0)


def log(database: Database, stream: str, *, after: int = -1, page: int = PAGE) -> Iterator[dict[str, Any]]:
    """A whole log up to its end, whatever its length: it is read in pages, and each page in a transaction of its own.

    Args:
        database: the store.
        stream: its name.
        after: the number of the entry after which to begin.
        page: entries that are in memory at once.

    Raises:
        StoreError: the store failed, or what comes next was deleted while this was read.
    """
    begun = False
    while True:
        with database.reading() as connection:
            found = entries_after(connection, stream, after, page)
        if begun and found and found[0]["number"] != after + 1:
            raise StoreError(
                f"entries after {after} of {stream!r} were deleted while its log was read", mend="begin again"
            )
        begun = True
        yield from found
        if len(found) < page:
            return
        after = found[-1]["number"]


def heads(connection: Connection) -> dict[str, tuple[int, str]]:
    """By stream, the number and the hash of its last entry."""
    rows = connection.execute(select(streams.c.name, streams.c.number, streams.c.hash).order_by(streams.c.name))
    return {row.name: (row.number, row.hash) for row in rows}


def standing_of(connection: Connection, stream: str) -> tuple[int, str, dict[str, Any]]:
    """The number and the hash of a stream's last entry, and the state after it; the stream must be there."""
    query = select(streams.c.number, streams.c.hash, streams.c.state).where(streams.c.name == stream)
    row = connection.execute(query).one()
    return row.number, row.hash, json.loads(row.state)


def state_of(connection: Connection, stream: str) -> dict[str, Any] | None:
    """The state after the last entry of a stream; None if there is no such stream."""
    found = connection.execute(select(streams.c.state).where(streams.c.name == stream)).scalar()
    state: dict[str, Any] | None = None if found is None else json.loads(found)
    return state
