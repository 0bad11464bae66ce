"""The tables of the store, and what brings an older store to them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
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
    inspect,
    select,
    text,
    update,
)

from evenhand.errors import StoreError

metadata = MetaData()

streams = Table(
    "streams",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("digest", String(64), nullable=False),
    # The last entry of the log, and the state after it: one small row for everything that decides.
    Column("number", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("state", Text, nullable=False),
)

entries = Table(
    "entries",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)

checkpoints = Table(
    # The entries that say what the stream is, and its state: the first, and others from which a log can start.
    "checkpoints",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
)

answers = Table(
    # One row for every id that was ever used, so that asking again gives the same answer, and never another decision.
    "answers",
    metadata,
    Column("stream", String(200), primary_key=True),
    # Its hash: any text can be an id, and none is kept in the clear for longer than the log.
    Column("id", String(64), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("asked", String(64), nullable=False),
    # None: it is not kept any more.
    Column("answer", Text, nullable=True),
    Index("answers_by_number", "stream", "number", unique=True),
)

pictures = Table(
    # What was delivered, under the number of its admission in the stream's log.
    "pictures",
    metadata,
    Column("stream", String(200), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # The end of its address, which cannot be guessed.
    Column("id", String(64), nullable=False, unique=True),
    Column("at", Float(53), nullable=False),
    Column("media_type", String(100), nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("pictures_by_time", "at"),
)

replicas = Table(
    "replicas",
    metadata,
    Column("name", String(64), primary_key=True),
    # Counts up while it lives. Others watch it by their own steady clock: no two machines need to agree on the time.
    Column("beat", BigInteger, nullable=False),
)

versions = Table("versions", metadata, Column("version", BigInteger, primary_key=True, autoincrement=False))

Index("entries_by_time", entries.c.at)

STREAM_TABLES = (streams.c.name, entries.c.stream, checkpoints.c.stream, answers.c.stream, pictures.c.stream)
"""The columns that name a stream."""


# Brings a store to the version of this Evenhand: each step by the tables as they were then, not as they are now.


STORE_VERSION = 2
"""Of the tables, as `tables` describes them."""

MIGRATION_LOCK = 7_253_869_114
"""The number of the lock under which PostgreSQL's tables are made and changed."""

PAGE_ROWS = 200
"""Rows that are rewritten at once; some hold a picture."""


def migrate_store(connection: Connection) -> None:
    """Make the tables of an empty store, or bring those of an older one to this version; all of it or nothing.

    Raises:
        StoreError: a newer Evenhand made them.
    """
    lock_migrations(connection)
    if not inspect(connection).has_table("versions"):
        metadata.create_all(connection)
        connection.execute(insert(versions).values(version=STORE_VERSION))
        return
    for number in range(read_version(connection) + 1, STORE_VERSION + 1):
        MIGRATIONS[number](connection)
    # Also where nothing is to be done: who may only read is told at once.
    connection.execute(update(versions).values(version=STORE_VERSION))


def read_version(connection: Connection) -> int:
    """Return the version of a store that has tables.

    Raises:
        StoreError: a newer Evenhand made them.
    """
    found: int = connection.execute(select(versions.c.version)).scalar_one()
    if found > STORE_VERSION:
        raise StoreError(
            f"the store has version {found}, and this Evenhand knows versions up to {STORE_VERSION}",
            hint="use the Evenhand that made it, or a newer one",
        )
    return found


def lock_migrations(connection: Connection) -> None:
    """Keep other processes from changing tables until this transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": MIGRATION_LOCK})


def _migrate_to_2(connection: Connection) -> None:
    """Add checkpoints, ids as hashes, answers that need not be kept, and addresses of pictures."""
    now = MetaData()
    marks = Table(
        "checkpoints",
        now,
        Column("stream", String(200), primary_key=True),
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        Column("at", Float(53), nullable=False),
    )
    marks.create(connection)
    connection.execute(
        text("INSERT INTO checkpoints (stream, number, at) SELECT stream, number, at FROM entries WHERE number = 0")
    )
    answers = Table(
        "answers",
        now,
        Column("stream", String(200), primary_key=True),
        Column("id", String(64), primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("asked", String(64), nullable=False),
        Column("answer", Text, nullable=True),
        Index("answers_by_number", "stream", "number", unique=True),
    )

    def hash_row(row: Mapping[str, Any]) -> dict[str, Any]:
        quoted = json.dumps(row["id"], ensure_ascii=True)
        return {**row, "id": hashlib.sha256(quoted.encode()).hexdigest()}

    _rewrite_table(connection, answers, hash_row)
    pictures = Table(
        "pictures",
        now,
        Column("stream", String(200), primary_key=True),
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        Column("id", String(64), nullable=False, unique=True),
        Column("at", Float(53), nullable=False),
        Column("media_type", String(100), nullable=False),
        Column("data", LargeBinary, nullable=False),
        Index("pictures_by_time", "at"),
    )
    _rewrite_table(connection, pictures, lambda row: {**row, "id": secrets.token_hex(16)})
    connection.execute(text("DROP TABLE keys"))


def _rewrite_table(connection: Connection, table: Table, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Rebuild a table with its rows changed."""
    old = f"{table.name}_old"
    connection.execute(text(f"ALTER TABLE {table.name} RENAME TO {old}"))
    table.create(connection)
    before = Table(old, MetaData(), autoload_with=connection)
    rows = connection.execute(select(before).execution_options(yield_per=PAGE_ROWS)).mappings()
    for page in rows.partitions():
        connection.execute(insert(table), [change(dict(row)) for row in page])
    connection.execute(text(f"DROP TABLE {old}"))


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {2: _migrate_to_2}
"""What brings a store of the version before to this one."""
