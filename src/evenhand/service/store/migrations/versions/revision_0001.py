"""The first tables."""

from __future__ import annotations

from alembic import op

from evenhand.service.store.tables import metadata, revisions

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables, except the one in which Alembic keeps the revision."""
    tables = [table for table in metadata.sorted_tables if table is not revisions]
    metadata.create_all(op.get_bind(), tables=tables)
