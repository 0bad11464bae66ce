"""Opens what the settings describe: streams, store, guards."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.service.context import Context
from evenhand.service.guards import machine_of, served
from evenhand.service.machines import Machine
from evenhand.service.settings import Settings
from evenhand.service.shields import ServedShield, shield_of
from evenhand.service.store import Database, Ledger


@dataclass(frozen=True)
class Streams:
    """Everything that decides, at its beginning.

    Attributes:
        machines: by name, what keeps each.
        shields: by name, what never changes about each shield.
    """

    machines: dict[str, Machine]
    shields: dict[str, ServedShield]


def open_service(settings: Settings, streams: Streams | None = None) -> Context:
    """Open the store and everything that works on it.

    Args:
        settings: as read.
        streams: what `streams_of` gave, if it was asked before.

    Raises:
        EvenhandError: something cannot be loaded, or the store cannot be used; nothing is left open.
    """
    streams = streams_of(settings) if streams is None else streams
    database = Database(settings.service.database)
    try:
        ledger = Ledger(database, streams.machines)
    except BaseException:
        database.close()
        raise
    context = Context(settings, database, ledger, streams.shields)
    try:
        for entry in settings.guards:
            guard = served(entry, settings.folder, ledger, context.replica, context.pictures)
            context.guards[entry.name] = guard
            context.metrics.watch(guard)
        context.upkeep.start()
    except BaseException:
        context.close()
        raise
    return context


def streams_of(settings: Settings) -> Streams:
    """What the settings describe, at its beginning.

    Raises:
        EvenhandError: a policy or a configuration cannot be loaded.
    """
    found = Streams({}, {})
    for entry in settings.shields:
        found.shields[entry.name], found.machines[entry.name] = shield_of(entry, settings.folder)
    for guard in settings.guards:
        found.machines[guard.name] = machine_of(guard, settings.folder)
    return found
