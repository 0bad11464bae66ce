"""Checkpoints, ids as hashes, answers that need not be kept, and addresses of pictures."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from alembic import op
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
    select,
    text,
)

revision = "0002"
down_revision = "0001"

PAGE_ROWS = 200
"""Rows that are rewritten at once; some hold a picture."""


def upgrade() -> None:
    """Add checkpoints, ids as hashes, answers that need not be kept, and addresses of pictures."""
    connection, now = op.get_bind(), MetaData()
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
