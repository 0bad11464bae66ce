"""Alembic environment, which runs missing migrations on a given connection, within its transaction."""

from __future__ import annotations

from alembic import context

from evenhand.service.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
