"""Opens what the settings describe: streams, store, guards."""

from __future__ import annotations

from evenhand.service.context import Context
from evenhand.service.guards import machine_of, served
from evenhand.service.machines import Machine, ShieldMachine
from evenhand.service.pictures import Pictures
from evenhand.service.settings import Settings, ShieldEntry
from evenhand.service.store import Database, Ledger
from evenhand.shield import Plan, Policy, Shield, synthesize
from evenhand.shield.file import load


def open_service(settings: Settings, machines: dict[str, Machine] | None = None) -> Context:
    """Open the store and everything that works on it.

    Args:
        settings: as read.
        machines: what `machines_of` gave, if it was asked before.

    Raises:
        EvenhandError: something cannot be loaded, or the store cannot be used; nothing is left open.
    """
    streams = machines_of(settings) if machines is None else machines
    database = Database(settings.service.database)
    try:
        ledger = Ledger(database, streams)
    except BaseException:
        database.close()
        raise
    context = Context(settings, database, ledger)
    pictures = Pictures(database)
    try:
        for entry in settings.guards:
            context.guards[entry.name] = served(entry, settings.folder, ledger, context.replica, pictures)
    except BaseException:
        context.close()
        raise
    return context


def machines_of(settings: Settings) -> dict[str, Machine]:
    """Every stream of the settings, at its beginning.

    Raises:
        EvenhandError: a policy or a configuration cannot be loaded.
    """
    found: dict[str, Machine] = {}
    for entry in settings.shields:
        shield = Shield(policy_of(entry, settings), advisory=entry.advisory)
        found[entry.name] = ShieldMachine(shield, entry.model_dump(mode="json"))
    for guard in settings.guards:
        found[guard.name] = machine_of(guard, settings.folder)
    return found


def policy_of(entry: ShieldEntry, settings: Settings) -> Policy:
    """The policy of a shield: from its file, or made from its plan.

    Raises:
        EvenhandError: it cannot be loaded or made.
    """
    if entry.policy is not None:
        return load(settings.folder / entry.policy)
    return synthesize(Plan.read(entry.plan or {}))
