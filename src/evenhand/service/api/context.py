"""Context that the routes of a running service share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Event
from typing import Annotated, TypeVar
from uuid import uuid4

from fastapi import Depends, Request

from evenhand.errors import DecisionError
from evenhand.service.auth.access import FailureThrottle
from evenhand.service.auth.keys import KeyCache
from evenhand.service.auth.oidc import IdentityProvider
from evenhand.service.background import PeriodicThread
from evenhand.service.generation.guards import GRACE_SECONDS, ServedGuard, build_guard_machine, open_guard
from evenhand.service.generation.pictures import PictureStore
from evenhand.service.metrics import Metrics
from evenhand.service.monitors import PAUSE_SECONDS, MonitorCollector, ServedMonitor, build_monitor_machine
from evenhand.service.settings import ServiceConfig
from evenhand.service.shields import ServedShield, build_shield
from evenhand.service.state_machines import KEY_STREAM, KeyMachine, StateMachine
from evenhand.service.store.database import Database
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.upkeep import BEAT_SECONDS, Readiness, Replicas, RetentionJob
from evenhand.service.tracing import Tracing

T = TypeVar("T")


class ServedStreams(dict[str, T]):
    """Streams of one kind by name, in which an unknown name raises a `DecisionError`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, name: str) -> T:
        hint = f"one of: {', '.join(self) or 'none is served'}"
        raise DecisionError(f"there is no {self._kind} {name!r}", code="stream", hint=hint)


class ServiceContext:
    """Store, streams and background threads of one process.

    Args:
        settings: Configuration of the service.
        database: Store.
        ledger: Ledger of the store.
        shields: Shields by name.

    Attributes:
        guards: Guarded generators by name.
        monitors: Monitors by name.
        replica: Name of this process, unique to each start.
        keys: Cache of the API keys.
        logins: Identity provider. None if callers only use keys.
        failures: Throttle of requests without a valid key.
        pictures: Store of delivered pictures.
        metrics: Metrics for Prometheus.
        readiness: Check whether the store accepts writes.
        monitor_thread: Thread that passes decisions to monitors and posts alarms.
        draining: Set when the service is about to stop; requests are still answered.
        grace: Time limit in seconds for running requests when the service stops.
    """

    def __init__(
        self, settings: ServiceConfig, database: Database, ledger: Ledger, shields: ServedStreams[ServedShield]
    ) -> None:
        self.settings, self.database, self.ledger, self.shields = settings, database, ledger, shields
        self.guards: dict[str, ServedGuard] = {}
        self.monitors = ServedStreams[ServedMonitor]("monitor")
        self.replica = uuid4().hex
        self.draining = Event()
        self.grace = GRACE_SECONDS
        self.logins: IdentityProvider | None = None
        self.failures = FailureThrottle()
        self.metrics = Metrics(ledger)
        self.metrics.registry.register(MonitorCollector(self.monitors))
        self.readiness = Readiness(ledger, self.replica)
        self.monitor_thread = PeriodicThread("evenhand-monitors", PAUSE_SECONDS, {})
        self.keys = KeyCache(database)
        self.pictures = PictureStore(database, ledger)
        self._replicas = replicas = Replicas(database, ledger, self.replica)
        retention = RetentionJob(database, ledger, settings.retention)
        tasks = {"beat": replicas.beat, "look": replicas.look, "delete expired data": retention.delete_if_due}
        self._upkeep = PeriodicThread("evenhand-upkeep", BEAT_SECONDS, tasks)
        self._is_closed = False

    def start(self) -> None:
        """Send a first heartbeat, and start the background threads.

        Raises:
            StoreError: The store failed.
        """
        self._replicas.beat()
        self._upkeep.start()
        self.monitor_thread.start()

    def close(self) -> None:
        """Apply the queued operations, and close the store. Closing twice has no effect."""
        if self._is_closed:
            return
        self._is_closed = True
        self.draining.set()
        until = time.monotonic() + self.grace
        for guard in self.guards.values():
            guard.close(max(0.0, until - time.monotonic()))
        self.monitor_thread.stop()
        self._upkeep.stop()
        if self._upkeep.is_started:
            self._replicas.leave()
        self.ledger.close()
        self.database.close()
        if self.ledger.tracing is not None:
            self.ledger.tracing.close()


async def context_of(request: Request) -> ServiceContext:
    """Return the context of the service that received a request."""
    # FastAPI would call a plain function in a thread, which costs more than a decision.
    context: ServiceContext = request.app.state.context
    return context


RequestContext = Annotated[ServiceContext, Depends(context_of)]
"""Context of the service, as a parameter of routes."""


def open_service(settings: ServiceConfig, streams: BuiltStreams | None = None) -> ServiceContext:
    """Open the store, the streams and the background threads.

    Args:
        settings: Configuration of the service.
        streams: Result of `build_streams`, if it was called before.

    Raises:
        EvenhandError: A part cannot be loaded, or the store cannot be used; nothing is left open.
    """
    oidc = settings.oidc
    logins = None if oidc is None else IdentityProvider(oidc, settings.service.public_url or "")
    tracing = Tracing(settings.tracing) if settings.tracing.enabled else None
    database = Database(settings.service.database)
    try:
        streams = streams or build_streams(settings)
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
            # The machine in the ledger belongs to its thread.
            machine = build_monitor_machine(monitor, settings.folder)
            served = context.monitors[monitor.name] = ServedMonitor(database, ledger, monitor, machine)
            if served.needs_updates:
                context.monitor_thread.tasks[f"the monitor {monitor.name}"] = served.update
        context.start()
    except BaseException:
        context.close()
        raise
    return context


@dataclass(frozen=True)
class BuiltStreams:
    """Streams of the settings in their initial state.

    Attributes:
        machines: Machines by name. With an identity provider, they include the keys, because each login creates one.
        shields: Constant properties of the shields by name.
    """

    machines: dict[str, StateMachine] = field(default_factory=dict)
    shields: ServedStreams[ServedShield] = field(default_factory=lambda: ServedStreams("shield"))


def build_streams(settings: ServiceConfig) -> BuiltStreams:
    """Build the streams of the settings.

    Raises:
        EvenhandError: A policy or a configuration cannot be loaded.
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
