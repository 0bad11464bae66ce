"""Parts of a log, however long it is: the latest entries of a time, and searches that read a bounded piece at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from evenhand.service.dashboard.rows import Entry, Row, Wanted, row_of
from evenhand.service.store import Database
from evenhand.service.store.tables import entries, streams

KINDS = ("shield", "guard")
"""Of streams that people look at."""

WINDOW = 10_000
"""Rows that a page holds of one stream, at most."""

SCANNED = 20_000
"""Entries that one search looks at before it says how far it came."""

PIECE = 1_000
"""Entries that are read at once."""

POINTS = 600
"""Of an overview."""


ENTRY = select(entries.c.number, entries.c.at, entries.c.body)
"""Entries without their hashes, which nobody looks at here."""


def streams_of(connection: Connection) -> list[dict[str, Any]]:
    """Every shield and guard: its name, kind and digest, its last entry's number and time, and how many are kept."""
    heads = connection.execute(
        select(streams.c.name, streams.c.kind, streams.c.digest, streams.c.number)
        .where(streams.c.kind.in_(KINDS))
        .order_by(streams.c.kind.desc(), streams.c.name)
    ).all()
    return [{**row._asdict(), "at": _time_of(connection, row.name, row.number)} for row in heads]


def _time_of(connection: Connection, stream: str, number: int) -> float | None:
    found: float | None = connection.execute(
        select(entries.c.at).where(entries.c.stream == stream, entries.c.number == number)
    ).scalar()
    return found


def rows_of(connection: Connection, stream: str, some: Sequence[Entry]) -> list[Row]:
    """Entries as rows; outcomes of a guard with what their admissions said."""
    asked = {number for one in some if (number := one["body"].get("input", {}).get("admission")) is not None}
    admitted = {one["number"]: row_of(one) for one in some if one["number"] in asked}
    missing = sorted(asked - admitted.keys())
    for start in range(0, len(missing), PIECE):
        query = ENTRY.where(entries.c.stream == stream, entries.c.number.in_(missing[start : start + PIECE]))
        admitted.update((one["number"], row_of(one)) for one in _read(connection, query))
    return [row_of(one, admitted) for one in some]


def new_rows(connection: Connection, stream: str, after: int, until: int) -> list[Row]:
    """The rows of the entries after one number, up to another."""
    query = ENTRY.where(entries.c.stream == stream, entries.c.number > after, entries.c.number <= until)
    return rows_of(connection, stream, _read(connection, query.order_by(entries.c.number)))


def window(connection: Connection, stream: str, kind: str, wanted: Wanted, limit: int = WINDOW) -> dict[str, Any]:
    """The latest rows of a time, in their order, for charts.

    Returns:
        ``rows``; ``total``: entries of that time; ``number``: of the last entry of all that was there.
    """
    limit = min(limit, WINDOW)
    where = _time(stream, wanted)
    total = connection.execute(select(func.count()).select_from(entries).where(*where)).scalar_one()
    last = connection.execute(select(streams.c.number).where(streams.c.name == stream)).scalar_one()
    some = _read(connection, ENTRY.where(*where).order_by(entries.c.number.desc()).limit(limit))[::-1]
    return {"rows": _shown(rows_of(connection, stream, some)), "total": total, "number": last}


def overview(connection: Connection, stream: str, points: int = POINTS) -> list[Row]:
    """So many rows, evenly spread over the whole of what is kept of a log."""
    first, last = connection.execute(
        select(func.min(entries.c.number), func.max(entries.c.number)).where(
            entries.c.stream == stream, entries.c.number > 0
        )
    ).one()
    if first is None:
        return []
    n = min(points, last - first + 1)
    numbers = sorted({first + (last - first) * i // max(1, n - 1) for i in range(n)})
    query = ENTRY.where(entries.c.stream == stream, entries.c.number.in_(numbers)).order_by(entries.c.number)
    return [row_of(one) for one in _read(connection, query)]


def found(
    connection: Connection,
    stream: str,
    kind: str,
    wanted: Wanted,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 100,
) -> dict[str, Any]:
    """Rows that are wanted, the newest first.

    Args:
        connection: to the store.
        stream, kind: of the log.
        wanted: which rows.
        before, after: only entries with numbers below and above these.
        limit: rows at most.

    Returns:
        ``rows``; ``reached``: the number of the oldest entry that was looked at; ``more``: whether older ones are left;
        ``number``: of the last entry of the log.
    """
    rows: list[Row] = []
    looked, reached = 0, before
    number = connection.execute(select(streams.c.number).where(streams.c.name == stream)).scalar_one()
    while len(rows) < limit and looked < SCANNED:
        query = ENTRY.where(*_time(stream, wanted), *_likely(kind, wanted))
        if reached is not None:
            query = query.where(entries.c.number < reached)
        if after is not None:
            query = query.where(entries.c.number > after)
        piece = _read(connection, query.order_by(entries.c.number.desc()).limit(PIECE))
        for row in _shown(rows_of(connection, stream, piece)):
            reached = row["n"]
            if wanted.fits(row):
                rows.append(row)
                if len(rows) == limit:
                    return {"rows": rows, "reached": reached, "more": True, "number": number}
        looked += len(piece)
        if piece:
            reached = piece[-1]["number"]
        if len(piece) < PIECE:
            return {"rows": rows, "reached": reached, "more": False, "number": number}
    return {"rows": rows, "reached": reached, "more": True, "number": number}


def all_found(database: Database, stream: str, kind: str, wanted: Wanted) -> Iterator[Row]:
    """All rows that are wanted, the newest first, read piece by piece."""
    before: int | None = None
    while True:
        with database.reading() as connection:
            part = found(connection, stream, kind, wanted, before=before, limit=PIECE)
        yield from part["rows"]
        if not part["more"]:
            return
        before = part["reached"]


def _read(connection: Connection, query: Select[Any]) -> list[Entry]:
    return [{"number": number, "at": at, "body": json.loads(body)} for number, at, body in connection.execute(query)]


def _time(stream: str, wanted: Wanted) -> list[ColumnElement[bool]]:
    where = [entries.c.stream == stream, entries.c.number > 0]
    if wanted.since is not None:
        where.append(entries.c.at >= wanted.since)
    if wanted.until is not None:
        where.append(entries.c.at < wanted.until)
    return where


def _likely(kind: str, wanted: Wanted) -> list[ColumnElement[bool]]:
    """What the store itself can leave out, so that a few interventions among many decisions are found at once."""
    if kind != "shield" or not wanted.marked:
        return []
    body = entries.c.body
    return [or_(body.not_like('%"reason":"followed"%'), body.not_like('%"op":"decide"%'))]


def _shown(rows: list[Row]) -> list[Row]:
    """Nothing happened at a checkpoint, and admissions are shown with their outcomes."""
    return [row for row in rows if row["op"] not in ("admit", "checkpoint")]
