"""Taking up a changed file while the service runs: shields and guards come, go and change; nothing else stops."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evenhand.errors import EvenhandError, OptionError
from evenhand.service.api.context import ServiceContext
from evenhand.service.generation.guards import ServedGuard, build_guard_machine, open_guard
from evenhand.service.settings import ServedGuardConfig, ServedShieldConfig, ServiceConfig
from evenhand.service.shields import ServedShield, ShieldDecider, build_shield
from evenhand.service.state_machines import SETTINGS_STREAM, SettingsMachine, StateMachine
from evenhand.service.store.chain import canonical_json

logger = logging.getLogger("evenhand.service")

_one_at_a_time = threading.Lock()

Served = ServedShieldConfig | ServedGuardConfig


@dataclass(frozen=True)
class ReloadReport:
    """What a reload did.

    Attributes:
        added, removed, changed: names of shields and guards.
        needs_restart: parts of the file that have changed and are taken up at the next start alone.
        number: of the entry in the log of settings; None: nothing has changed.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]
    number: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def reload_service(context: ServiceContext, by: str) -> ReloadReport:
    """Read the service's file again and serve what it says; all of it is checked before anything changes.

    A name in the store belongs to one policy, so a shield or guard that decides otherwise needs a new name, as at a
    start. What is under way is answered by what it was asked of.

    Args:
        context: of the running service.
        by: who asked for it, for the log.

    Raises:
        EvenhandError: the file makes no sense, something in it cannot be loaded, or a stream in the store belongs to
            another configuration; nothing changed.
    """
    with _one_at_a_time:
        before = context.settings
        if before.source is None:
            raise OptionError("the service was started without a file", hint="evenhand serve --config evenhand.toml")
        after = ServiceConfig.read(before.source)
        known, wanted = _entries(before), _entries(after)
        fresh = {name: entry for name, entry in wanted.items() if known.get(name) != entry}
        gone = tuple(sorted(known.keys() - wanted.keys()))
        parts = ("service", "limits", "retention", "monitors")
        needs_restart = tuple(
            name for name in parts if _described(getattr(before, name)) != _described(getattr(after, name))
        )
        added = tuple(sorted(fresh.keys() - known.keys()))
        report = ReloadReport(added, gone, tuple(sorted(fresh.keys() & known.keys())), needs_restart)
        if fresh or gone:
            report = ReloadReport(
                added, gone, report.changed, needs_restart, _take_up(context, fresh, after, report, by)
            )
        return report


def reload_in_background(context: ServiceContext) -> None:
    """Reload as a signal asks for it, and tell the service's log what came of it."""

    def run() -> None:
        try:
            report = reload_service(context, "signal")
        except EvenhandError as error:
            place = f"{error.location}: " if error.location else ""
            logger.error("the file was not taken up, and nothing changed: %s%s", place, error.message)
        else:
            logger.warning("the file was read again", extra={"about": report.to_dict()})

    threading.Thread(target=run, name="evenhand-reload", daemon=True).start()


def _entries(settings: ServiceConfig) -> dict[str, Served]:
    found: tuple[Served, ...] = (*settings.shields, *settings.guards)
    return {one.name: one for one in found}


def _described(part: Any) -> Any:
    """Return a part of the file, without the address, which the command line may have given."""
    return [one.model_dump() for one in part] if isinstance(part, tuple) else part.model_dump(exclude={"host", "port"})


def _take_up(
    context: ServiceContext, fresh: Mapping[str, Served], after: ServiceConfig, report: ReloadReport, by: str
) -> int:
    """Serve what is new, and no longer serve what is gone; return the number of the entry that says so."""
    machines: dict[str, StateMachine] = {SETTINGS_STREAM: SettingsMachine()}
    shields: dict[str, ServedShield] = {}
    for name, entry in fresh.items():
        if isinstance(entry, ServedShieldConfig):
            shields[name], machines[name] = build_shield(entry, after.folder)
        else:
            machines[name] = build_guard_machine(entry, after.folder)
    # Refused as a whole where one of them belongs to another configuration.
    context.ledger.serve(machines)
    guards: dict[str, ServedGuard] = {}
    try:
        for entry in fresh.values():
            if isinstance(entry, ServedGuardConfig):
                guards[entry.name] = open_guard(entry, after.folder, context.ledger, context.replica, context.pictures)
    except BaseException:
        for guard in guards.values():
            guard.close(0.0)
        raise
    serves = {name: hashlib.sha256(canonical_json(entry.model_dump(mode="json")).encode()).hexdigest()
              for name, entry in _entries(after).items()}  # fmt: skip
    operation = {"op": "reload", "by": by, "at": time.time(), "added": list(report.added),
                 "removed": list(report.removed), "changed": list(report.changed), "serves": serves}  # fmt: skip
    number = context.ledger.submit(SETTINGS_STREAM, operation).result().number
    old = [context.guards[name] for name in (*guards, *report.removed) if name in context.guards]
    for guard in guards.values():
        context.metrics.watch_guard(guard)
    for name, shield in shields.items():
        if name in context.deciders:
            context.deciders[name].when_down = shield.when_down
        else:
            context.deciders[name] = ShieldDecider(context.ledger, name, shield.plan.inputs.groups, shield.when_down)
    # Requests look these up once each: they meet the old or the new, and nothing between.
    kept = {name: one for name, one in context.shields.items() if name not in report.removed}
    context.shields = {**kept, **shields}
    context.guards = {**{name: one for name, one in context.guards.items() if name not in report.removed}, **guards}
    context.settings = context.settings.model_copy(update={"shields": after.shields, "guards": after.guards})
    for guard in old:
        threading.Thread(target=guard.close, args=(context.grace,), name="evenhand-retire", daemon=True).start()
    return number
