"""Answers to requests with an idempotency key."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Float, LargeBinary, String, Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table of answers."""
    op.create_table(
        "responses",
        Column("name", String(64), primary_key=True),
        Column("asked", String(64), nullable=False),
        Column("at", Float(53), nullable=False),
        Column("replica", String(64), nullable=False),
        Column("status", BigInteger, nullable=True),
        Column("headers", Text, nullable=True),
        Column("body", LargeBinary, nullable=True),
    )
    op.create_index("responses_by_time", "responses", ["at"])
    op.execute("UPDATE versions SET version = 4")
