"""Where the service keeps its state and its log: SQLite beside it, or a PostgreSQL that several replicas share."""

from __future__ import annotations

from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Done, Ledger

__all__ = ["Database", "Done", "Ledger"]
