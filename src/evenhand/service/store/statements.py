"""SQL statements of every transaction, as text for the driver because SQLAlchemy builds them too slowly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from evenhand.service.store.tables import is_marked

_ENTRY = ("stream", "number", "at", "marked", "body", "previous", "hash")

HEAD = (
    "SELECT number, hash, state_number, digest, (SELECT version_num FROM alembic_version) FROM streams WHERE name = {0}"
)
STATE = "UPDATE streams SET number = {0}, hash = {0}, state_number = {0}, state = {0} WHERE name = {0}"
LAST = "UPDATE streams SET number = {0}, hash = {0} WHERE name = {0}"
ENTRIES = f"INSERT INTO entries ({', '.join(_ENTRY)}) VALUES ({', '.join(['{0}'] * len(_ENTRY))})"
ANSWERS = "INSERT INTO answers (stream, id, number) VALUES ({0}, {0}, {0})"
KNOWN = "SELECT id, number FROM answers WHERE stream = {0} AND id "

MARKS = {"sqlite": "?", "postgresql": "%s"}
"""Placeholder of a value, by dialect."""


class StreamHead(NamedTuple):
    """The number and hash of a stream's last entry, the entry after which its state was written, and the digest of its
    configuration."""

    number: int
    hash: str
    state_number: int
    digest: str


def lock_head(connection: Connection, stream: str) -> tuple[StreamHead, str]:
    """Lock the row of a stream, and return the head and the revision of the tables."""
    # SQLite has one writer, which has locked everything when its transaction began.
    lock = "" if connection.dialect.name == "sqlite" else " FOR UPDATE OF streams"
    row = _run(connection, HEAD + lock, (stream,)).one()
    return StreamHead(*row[:4]), row[4]


def read_head(connection: Connection, stream: str) -> StreamHead:
    """Return the head of a stream."""
    row = _run(connection, HEAD, (stream,)).one()
    return StreamHead(*row[:4])


def find_answers(connection: Connection, stream: str, keys: Sequence[str]) -> dict[str, int]:
    """Return the numbers of the entries that answered used IDs, by their keys."""
    if not keys:
        return {}
    if connection.dialect.name == "sqlite":
        rows = _run(connection, f"{KNOWN}IN ({','.join('?' * len(keys))})", (stream, *keys))
    else:
        rows = _run(connection, KNOWN + "= ANY({0})", (stream, list(keys)))
    return dict(rows.all())


def insert_entries(connection: Connection, rows: Iterable[Mapping[str, Any]], starts: frozenset[int]) -> None:
    """Append entries. ``starts`` are the numbers of entries that a log can begin with."""
    values = [
        (
            row["stream"],
            row["number"],
            row["at"],
            is_marked(row["body"]),
            row["body"],
            row["previous"] if row["number"] in starts else None,
            row["hash"],
        )
        for row in rows
    ]
    _run(connection, ENTRIES, values)


def insert_answers(connection: Connection, stream: str, numbers: Mapping[str, int]) -> None:
    """Store the numbers of the entries that answered IDs, by their keys."""
    _run(connection, ANSWERS, [(stream, key, number) for key, number in numbers.items()])


def update_state(connection: Connection, stream: str, head: tuple[int, str], state: str | None) -> None:
    """Store the number and hash of a stream's last entry, and the state after it. If None, the older state stays."""
    if state is None:
        _run(connection, LAST, (*head, stream))
    else:
        _run(connection, STATE, (*head, head[0], state, stream))


def _run(connection: Connection, statement: str, values: Any) -> Any:
    return connection.exec_driver_sql(statement.format(MARKS[connection.dialect.name]), values)
