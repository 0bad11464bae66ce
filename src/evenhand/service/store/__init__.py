"""Where the service keeps its state and its log: SQLite beside it, or a PostgreSQL that several replicas share."""

from __future__ import annotations

from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Done, Ledger
from evenhand.service.store.replicas import Replicas
from evenhand.service.store.retention import Retention
from evenhand.service.store.upkeep import Upkeep

__all__ = ["Database", "Done", "Ledger", "Replicas", "Retention", "Upkeep"]
