"""What the routes of a running service share."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from fastapi import Request

from evenhand.service.guards import ServedGuard
from evenhand.service.settings import Settings
from evenhand.service.store import Database, Ledger


@dataclass
class Context:
    """One per process.

    Attributes:
        settings: as read.
        database, ledger: the store.
        guards: by name, each guarded generator.
        replica: this process's name, new at every start.
    """

    settings: Settings
    database: Database
    ledger: Ledger
    guards: dict[str, ServedGuard] = field(default_factory=dict)
    replica: str = field(default_factory=lambda: uuid4().hex)


def context_of(request: Request) -> Context:
    """The context of the service that a request came to."""
    found: Context = request.app.state.context
    return found
