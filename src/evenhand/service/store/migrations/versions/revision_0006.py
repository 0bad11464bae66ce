"""Monitors: one row each, with all that decides what it will say."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, LargeBinary, String

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "monitors",
        Column("name", String(200), primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("told", BigInteger, nullable=False),
        Column("state", LargeBinary, nullable=False),
    )
    op.execute("UPDATE versions SET version = 6")
