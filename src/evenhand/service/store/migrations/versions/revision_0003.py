"""Certificates by reference, answers in the log alone, and indexes for the dashboard's columns."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table, Text, text

revision = "0003"
down_revision = "0002"

MARKED = text("""(body NOT LIKE '%"reason":"followed"%' OR body NOT LIKE '%"op":"decide"%')""")


def upgrade() -> None:
    """Make the table of terms, and leave out of the answers what their entries say."""
    connection, now = op.get_bind(), MetaData()
    Table(
        "certificates",
        now,
        Column("hash", String(64), primary_key=True),
        Column("terms", Text, nullable=False),
        sqlite_with_rowid=False,
    ).create(connection)
    op.rename_table("answers", "answers_old")
    answers = Table(
        "answers",
        now,
        Column("stream", String(200), primary_key=True),
        Column("id", String(64), primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("asked", String(64), nullable=False),
    )
    answers.create(connection)
    op.execute("INSERT INTO answers SELECT stream, id, number, asked FROM answers_old")
    op.drop_table("answers_old")
    Index("answers_by_number", answers.c.stream, answers.c.number, unique=True).create(connection)
    op.drop_index("entries_by_time")
    op.create_index("entries_by_stream_and_time", "entries", ["stream", "at"])
    op.create_index("entries_marked", "entries", ["stream", "number"], sqlite_where=MARKED, postgresql_where=MARKED)
    op.execute("UPDATE versions SET version = 3")
