"""What the routes of a running service share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Event
from uuid import uuid4

from fastapi import Request

from evenhand.service.deciding import Decider
from evenhand.service.guards import GRACE, ServedGuard
from evenhand.service.metrics import Metrics
from evenhand.service.pictures import Pictures
from evenhand.service.security.keys import Keys
from evenhand.service.settings import Settings
from evenhand.service.shields import ServedShield
from evenhand.service.store import Database, Ledger, Replicas, Retention, Upkeep


@dataclass
class Context:
    """One per process.

    Attributes:
        settings: as read.
        database, ledger: the store.
        shields: by name, what never changes about each.
        guards: by name, each guarded generator.
        replica: this process's name, new at every start.
        keys: who may ask.
        pictures: that were delivered.
        deciders: by name, what asks each shield.
        metrics: what is counted.
        upkeep: what the replica does by itself: it beats, watches the others, deletes what is too old.
        stopping: set when the service begins to stop; whatever is sent without an end must end then.
        grace: seconds that work under way has to end when all of it is closed.
    """

    settings: Settings
    database: Database
    ledger: Ledger
    shields: dict[str, ServedShield] = field(default_factory=dict)
    guards: dict[str, ServedGuard] = field(default_factory=dict)
    replica: str = field(default_factory=lambda: uuid4().hex)
    stopping: Event = field(default_factory=Event)
    grace: float = GRACE
    closed: bool = field(default=False, init=False)
    keys: Keys = field(init=False)
    pictures: Pictures = field(init=False)
    upkeep: Upkeep = field(init=False)
    deciders: dict[str, Decider] = field(init=False)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.ledger)
        self.keys = Keys(self.database)
        self.pictures = Pictures(self.database)
        kept = self.settings.retention
        self.upkeep = Upkeep(
            Replicas(self.database, self.ledger, self.replica),
            Retention(self.database, self.ledger, log_days=kept.log_days, picture_days=kept.picture_days),
        )
        self.deciders = {
            name: Decider(self.ledger, name, one.plan.inputs.groups, one.when_down)
            for name, one in self.shields.items()
        }

    def close(self) -> None:
        """Carry out what was submitted, and let go of the store. Once more does nothing."""
        if self.closed:
            return
        self.closed = True
        self.stopping.set()
        until = time.monotonic() + self.grace
        for decider in self.deciders.values():
            decider.close()
        for guard in self.guards.values():
            guard.close(max(0.0, until - time.monotonic()))
        self.pictures.close()
        self.upkeep.stop()
        self.ledger.close()
        self.database.close()


async def context_of(request: Request) -> Context:
    """The context of the service that a request came to."""
    # Not a plain function: those are called in a thread each, which costs more than all that a decision takes.
    found: Context = request.app.state.context
    return found
