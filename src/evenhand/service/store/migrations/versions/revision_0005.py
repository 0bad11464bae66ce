"""Entries packed, hashes as bytes, and nothing twice: what was asked, and the entry before, follow from the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    insert,
    select,
    text,
    tuple_,
)

from evenhand.service.store.packing import pack_text

revision = "0005"
down_revision = "0004"

ROWS_AT_ONCE = 2_000


def upgrade() -> None:
    """Copy both tables into new ones, piece by piece."""
    connection, before, now = op.get_bind(), MetaData(), MetaData()
    key = (Column("stream", String(200), primary_key=True), Column("number", BigInteger, primary_key=True))
    old_entries = Table("entries", before, *key, Column("at", Float(53)), Column("body", Text),
                        Column("previous", String(64)), Column("hash", String(64)))  # fmt: skip
    old_answers = Table("answers", before, Column("stream", String(200), primary_key=True),
                        Column("id", String(64), primary_key=True), Column("number", BigInteger))  # fmt: skip
    entries = Table(
        "entries_new",
        now,
        Column("stream", String(200), primary_key=True),
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        Column("at", Float(53), nullable=False),
        Column("marked", Boolean, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("previous", LargeBinary, nullable=True),
        Column("hash", LargeBinary, nullable=False),
    )
    answers = Table(
        "answers_new",
        now,
        Column("stream", String(200), primary_key=True),
        Column("id", LargeBinary, primary_key=True),
        Column("number", BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    now.create_all(connection)
    _copy(connection, old_entries, entries, _pack_entry)
    _copy(connection, old_answers, answers, lambda row: {**row, "id": bytes.fromhex(row["id"])})
    for name in ("entries", "answers"):
        op.drop_table(name)
        op.rename_table(f"{name}_new", name)
        if connection.dialect.name == "postgresql":
            op.execute(f"ALTER INDEX {name}_new_pkey RENAME TO {name}_pkey")
    named = Table("entries", MetaData(), *(Column(one.name, one.type) for one in entries.columns))
    Index("entries_by_stream_and_time", named.c.stream, named.c.at).create(connection)
    Index("entries_marked", named.c.stream, named.c.number, sqlite_where=text("marked = 1"),
          postgresql_where=named.c.marked).create(connection)  # fmt: skip
    op.execute("UPDATE versions SET version = 5")


def _pack_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    body = row["body"]
    starts = '"configuration":' in body and '"state":' in body
    return {
        **row,
        "marked": '"reason":"followed"' not in body or '"op":"decide"' not in body,
        "body": pack_text(body),
        "previous": bytes.fromhex(row["previous"]) if starts else None,
        "hash": bytes.fromhex(row["hash"]),
    }


def _copy(
    connection: Connection, old: Table, new: Table, convert: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Copy the rows of a table in the order of its key."""
    key = list(old.primary_key.columns)
    last: tuple[Any, ...] | None = None
    while True:
        query = select(old).order_by(*key).limit(ROWS_AT_ONCE)
        if last is not None:
            query = query.where(tuple_(*key) > tuple_(*last))
        rows = [dict(row) for row in connection.execute(query).mappings()]
        if not rows:
            return
        connection.execute(insert(new), [convert(row) for row in rows])
        last = tuple(rows[-1][one.name] for one in key)
