"""Brings a store to the version of this Evenhand: each step by the tables as they were then, not as they are now."""

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
from evenhand.service.store.tables import metadata, versions

VERSION = 2
"""Of the tables, as `tables` describes them."""

ONE_AT_A_TIME = 7_253_869_114
"""The number of the lock under which PostgreSQL's tables are made and changed."""

PAGE = 200
"""Rows that are rewritten at once; some hold a picture."""


def prepare(connection: Connection) -> None:
    """Make the tables of an empty store, or bring those of an older one to this version; all of it or nothing.

    Raises:
        StoreError: a newer Evenhand made them.
    """
    alone(connection)
    if not inspect(connection).has_table("versions"):
        metadata.create_all(connection)
        connection.execute(insert(versions).values(version=VERSION))
        return
    for number in range(version_of(connection) + 1, VERSION + 1):
        STEPS[number](connection)
    # Also where nothing is to be done: who may only read is told at once.
    connection.execute(update(versions).values(version=VERSION))


def version_of(connection: Connection) -> int:
    """The version of a store that has tables.

    Raises:
        StoreError: a newer Evenhand made them.
    """
    found: int = connection.execute(select(versions.c.version)).scalar_one()
    if found > VERSION:
        raise StoreError(
            f"the store has version {found}, and this Evenhand knows versions up to {VERSION}",
            mend="use the Evenhand that made it, or a newer one",
        )
    return found


def alone(connection: Connection) -> None:
    """Let no other process make or change tables until this transaction ends; SQLite's writers are alone anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": ONE_AT_A_TIME})


def _step_2(connection: Connection) -> None:
    """Checkpoints; ids as hashes; answers that need not be kept; addresses of pictures."""
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

    def hashed(row: Mapping[str, Any]) -> dict[str, Any]:
        quoted = json.dumps(row["id"], ensure_ascii=True)
        return {**row, "id": hashlib.sha256(quoted.encode()).hexdigest()}

    _rewritten(connection, answers, hashed)
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
    _rewritten(connection, pictures, lambda row: {**row, "id": secrets.token_hex(16)})
    connection.execute(text("DROP TABLE keys"))


def _rewritten(connection: Connection, table: Table, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Make a table anew, with the rows that it had, changed."""
    old = f"{table.name}_old"
    connection.execute(text(f"ALTER TABLE {table.name} RENAME TO {old}"))
    table.create(connection)
    before = Table(old, MetaData(), autoload_with=connection)
    rows = connection.execute(select(before).execution_options(yield_per=PAGE)).mappings()
    for page in rows.partitions():
        connection.execute(insert(table), [change(dict(row)) for row in page])
    connection.execute(text(f"DROP TABLE {old}"))


STEPS: Mapping[int, Callable[[Connection], None]] = {2: _step_2}
"""What brings a store of the version before to this one."""
