"""What the routes of a running service share, and how it is opened: streams, store, guards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Annotated
from uuid import uuid4

from fastapi import Depends, Request

from evenhand.service.auth.keys import KeyCache
from evenhand.service.auth.limits import FailureThrottle
from evenhand.service.auth.oidc import IdentityProvider
from evenhand.service.generation.guards import GRACE_SECONDS, ServedGuard, build_guard_machine, open_guard
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.metrics import Metrics
from evenhand.service.monitors import MonitorCollector, MonitorThread, ServedMonitor, build_monitor_machine
from evenhand.service.settings import ServiceConfig
from evenhand.service.shields import ServedShield, ShieldDecider, build_shield
from evenhand.service.state_machines import KEY_STREAM, KeyMachine, StateMachine
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.upkeep import Readiness, Replicas, RetentionJob, UpkeepThread
from evenhand.service.tracing import open_tracing


@dataclass
class ServiceContext:
    """One per process.

    Attributes:
        settings: as read.
        database, ledger: the store.
        shields: by name.
        guards: by name, each guarded generator.
        monitors: by name.
        replica: this process's name, new at every start.
        keys: who may ask.
        logins: where people log in; None: with keys alone.
        failures: holds up addresses from which only requests without a valid key come.
        pictures: that were delivered.
        metrics: what is counted.
        upkeep: what the replica does by itself: it beats, watches the others, deletes what is too old.
        readiness: whether the store takes decisions now.
        monitor_thread: takes what shields decide to their monitors, and posts alarms.
        deciders: by shield, what decides also while the store is away.
        draining: set when the service is about to stop; requests are still answered.
        stopping: set when the service stops; event streams end.
        grace: seconds that work under way has to end when all of it is closed.
    """

    settings: ServiceConfig
    database: Database
    ledger: Ledger
    shields: Mapping[str, ServedShield]
    guards: dict[str, ServedGuard] = field(default_factory=dict)
    monitors: dict[str, ServedMonitor] = field(default_factory=dict)
    replica: str = field(default_factory=lambda: uuid4().hex)
    draining: Event = field(default_factory=Event)
    stopping: Event = field(default_factory=Event)
    grace: float = GRACE_SECONDS
    closed: bool = field(default=False, init=False)
    keys: KeyCache = field(init=False)
    logins: IdentityProvider | None = field(default=None, init=False)
    failures: FailureThrottle = field(default_factory=FailureThrottle, init=False)
    pictures: PictureStore = field(init=False)
    upkeep: UpkeepThread = field(init=False)
    metrics: Metrics = field(init=False)
    readiness: Readiness = field(init=False)
    monitor_thread: MonitorThread = field(init=False)
    deciders: Mapping[str, ShieldDecider] = field(init=False)

    def __post_init__(self) -> None:
        self.deciders = {
            name: ShieldDecider(self.ledger, name, shield.plan.inputs.groups, shield.when_down)
            for name, shield in self.shields.items()
        }
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

    def close(self) -> None:
        """Apply the queued operations, and close the store. Closing twice has no effect."""
        if self.closed:
            return
        self.closed = True
        self.draining.set()
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
        if self.ledger.tracing is not None:
            self.ledger.tracing.close()


async def context_of(request: Request) -> ServiceContext:
    """Return the context of the service that a request came to."""
    # Not a plain function: those are called in a thread each, which costs more than all that a decision takes.
    context: ServiceContext = request.app.state.context
    return context


RequestContext = Annotated[ServiceContext, Depends(context_of)]
"""Context of the service, as a parameter of routes."""


# Opens what the settings describe: streams, store, guards.


def open_service(settings: ServiceConfig, streams: BuiltStreams | None = None) -> ServiceContext:
    """Open the store, the streams and the background threads.

    Args:
        settings: as read.
        streams: what `build_streams` gave, if it was asked before.

    Raises:
        EvenhandError: something cannot be loaded, or the store cannot be used; nothing is left open.
    """
    oidc = settings.oidc
    logins = None if oidc is None else IdentityProvider(oidc, settings.service.public_url or "")
    tracing = open_tracing(settings.tracing)
    database = Database(settings.service.database)
    try:
        if streams is None:
            streams = build_streams(settings)
        ledger = Ledger(database, streams.machines, tracing=tracing)
    except BaseException:
        database.close()
        raise
    context = ServiceContext(settings, database, ledger, streams.shields)
    context.logins = logins
    try:
        for name in context.shields:
            context.metrics.watch_shield(name)
        for entry in settings.guards:
            guard = open_guard(entry, settings.folder, ledger, context.replica, context.pictures)
            guard.log_start()
            context.guards[entry.name] = guard
            context.metrics.watch_guard(guard)
        for monitor in settings.monitors:
            own = build_monitor_machine(monitor, settings.folder)
            context.monitors[monitor.name] = ServedMonitor(database, ledger, monitor, own)
        context.upkeep.start()
        context.monitor_thread.start()
    except BaseException:
        context.close()
        raise
    return context


@dataclass(frozen=True)
class BuiltStreams:
    """The streams of the settings at their beginning.

    Attributes:
        machines: by name; with logins, those of the keys too, as each login makes one.
        shields: by name, what never changes about each.
    """

    machines: dict[str, StateMachine] = field(default_factory=dict)
    shields: dict[str, ServedShield] = field(default_factory=dict)


def build_streams(settings: ServiceConfig) -> BuiltStreams:
    """Build the streams of the settings.

    Raises:
        EvenhandError: a policy or a configuration cannot be loaded.
    """
    streams = BuiltStreams()
    for shield in settings.shields:
        streams.shields[shield.name], streams.machines[shield.name] = build_shield(shield, settings.folder)
    for guard in settings.guards:
        streams.machines[guard.name] = build_guard_machine(guard, settings.folder)
    for monitor in settings.monitors:
        streams.machines[monitor.name] = build_monitor_machine(monitor, settings.folder)
    if settings.oidc is not None:
        streams.machines[KEY_STREAM] = KeyMachine()
    return streams
