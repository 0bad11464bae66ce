"""What Alembic runs: the steps that are missing, on the connection that it is handed, in that one's transaction."""

from __future__ import annotations

from alembic import context

from evenhand.service.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
