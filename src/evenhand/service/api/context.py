"""What the routes of a running service share, and how it is opened: streams, store, guards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from threading import Event
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from evenhand.service.auth.keys import KeyCache
from evenhand.service.auth.limits import FailureThrottle
from evenhand.service.generation.guards import GRACE_SECONDS, ServedGuard, build_guard_machine, open_guard
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.metrics import Metrics
from evenhand.service.monitors import MonitorCollector, MonitorThread, ServedMonitor
from evenhand.service.settings import ServiceConfig
from evenhand.service.shields import ServedShield, ShieldDecider, build_shield
from evenhand.service.state_machines import StateMachine
from evenhand.service.store.chain import unique_names
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.readiness import Readiness
from evenhand.service.store.upkeep import Replicas, RetentionJob, UpkeepThread


@dataclass
class ServiceContext:
    """One per process.

    Attributes:
        settings: as read.
        database, ledger: the store.
        shields: by name, what never changes about each.
        guards: by name, each guarded generator.
        monitors: by name.
        replica: this process's name, new at every start.
        keys: who may ask.
        failures: holds up addresses from which only requests without a valid key come.
        pictures: that were delivered.
        deciders: by name, what asks each shield.
        metrics: what is counted.
        upkeep: what the replica does by itself: it beats, watches the others, deletes what is too old.
        readiness: whether the store takes decisions now.
        monitor_thread: takes what shields decide to their monitors, and posts alarms.
        stopping: set when the service begins to stop; whatever is sent without an end must end then.
        grace: seconds that work under way has to end when all of it is closed.
    """

    settings: ServiceConfig
    database: Database
    ledger: Ledger
    shields: dict[str, ServedShield] = field(default_factory=dict)
    guards: dict[str, ServedGuard] = field(default_factory=dict)
    monitors: dict[str, ServedMonitor] = field(default_factory=dict)
    replica: str = field(default_factory=lambda: uuid4().hex)
    stopping: Event = field(default_factory=Event)
    grace: float = GRACE_SECONDS
    closed: bool = field(default=False, init=False)
    keys: KeyCache = field(init=False)
    failures: FailureThrottle = field(default_factory=FailureThrottle, init=False)
    pictures: PictureStore = field(init=False)
    upkeep: UpkeepThread = field(init=False)
    deciders: dict[str, ShieldDecider] = field(init=False)
    metrics: Metrics = field(init=False)
    readiness: Readiness = field(init=False)
    monitor_thread: MonitorThread = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.ledger)
        self.readiness = Readiness(self.ledger, self.replica)
        self.monitor_thread = MonitorThread(self.monitors)
        self.metrics.registry.register(MonitorCollector(self.monitors))
        self.keys = KeyCache(self.database)
        self.pictures = PictureStore(self.database)
        kept = self.settings.retention
        self.upkeep = UpkeepThread(
            Replicas(self.database, self.ledger, self.replica),
            RetentionJob(self.database, self.ledger, log_days=kept.log_days, picture_days=kept.picture_days),
        )
        self.deciders = {
            name: ShieldDecider(self.ledger, name, one.plan.inputs.groups, one.when_down)
            for name, one in self.shields.items()
        }

    def close(self) -> None:
        """Carry out what was submitted, and close the store. Closing twice does nothing."""
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
        self.monitor_thread.stop()
        self.upkeep.stop()
        self.ledger.close()
        self.database.close()


async def context_of(request: Request) -> ServiceContext:
    """Return the context of the service that a request came to."""
    # Not a plain function: those are called in a thread each, which costs more than all that a decision takes.
    found: ServiceContext = request.app.state.context
    return found


Here = Annotated[ServiceContext, Depends(context_of)]
"""What a route says that works with the service."""


class UniqueNamesRequest(Request):
    """A request in whose body no name occurs twice in an object, or it is refused as one that is not JSON."""

    async def json(self) -> Any:
        """Return the value of the body.

        Raises:
            JSONDecodeError: it is not JSON.
        """
        return json.loads(await self.body(), object_pairs_hook=unique_names)


class JsonRoute(APIRoute):
    """A route that takes a JSON body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await handler(UniqueNamesRequest(request.scope, request.receive))

        return answer


def example_response(example: Any) -> dict[int | str, dict[str, Any]]:
    """Return what a route says of its answers, as ``responses`` takes it."""
    return {200: {"content": {"application/json": {"example": example}}}}


# Opens what the settings describe: streams, store, guards.


@dataclass(frozen=True)
class ServiceStreams:
    """Everything that decides, at its beginning.

    Attributes:
        machines: by name, what keeps each.
        shields: by name, what never changes about each shield.
    """

    machines: dict[str, StateMachine]
    shields: dict[str, ServedShield]


def open_service(settings: ServiceConfig, streams: ServiceStreams | None = None) -> ServiceContext:
    """Open the store and everything that works on it.

    Args:
        settings: as read.
        streams: what `build_streams` gave, if it was asked before.

    Raises:
        EvenhandError: something cannot be loaded, or the store cannot be used; nothing is left open.
    """
    streams = build_streams(settings) if streams is None else streams
    database = Database(settings.service.database)
    try:
        ledger = Ledger(database, streams.machines)
    except BaseException:
        database.close()
        raise
    context = ServiceContext(settings, database, ledger, streams.shields)
    try:
        for entry in settings.guards:
            guard = open_guard(entry, settings.folder, ledger, context.replica, context.pictures)
            context.guards[entry.name] = guard
            context.metrics.watch_guard(guard)
        for monitor in settings.monitors:
            context.monitors[monitor.name] = ServedMonitor(database, monitor, settings.folder)
        context.upkeep.start()
        context.monitor_thread.start()
    except BaseException:
        context.close()
        raise
    return context


def build_streams(settings: ServiceConfig) -> ServiceStreams:
    """Return what the settings describe, at its beginning.

    Raises:
        EvenhandError: a policy or a configuration cannot be loaded.
    """
    found = ServiceStreams({}, {})
    for entry in settings.shields:
        found.shields[entry.name], found.machines[entry.name] = build_shield(entry, settings.folder)
    for guard in settings.guards:
        found.machines[guard.name] = build_guard_machine(guard, settings.folder)
    return found
