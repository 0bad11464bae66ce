"""Other shields and guards while the service runs: from a changed file, or set over the API. Nothing else stops."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import select

from evenhand.errors import DecisionError, EvenhandError, OptionError
from evenhand.service.api.context import ServiceContext
from evenhand.service.generation.guards import ServedGuard, open_guard
from evenhand.service.served_streams import (
    BuiltStreams,
    Served,
    StreamVersion,
    build_entry,
    entries_by_name,
    entry_fingerprint,
    overlay_settings,
    read_managed_streams,
)
from evenhand.service.settings import ServedGuardConfig, ServiceConfig
from evenhand.service.state_machines import SETTINGS_STREAM, Operation, SettingsMachine
from evenhand.service.store.database import read_heads
from evenhand.service.store.ledger import OperationResult
from evenhand.service.store.tables import streams
from evenhand.service.versions import FIRST_VERSION, When

logger = logging.getLogger("evenhand.service")

_one_at_a_time = threading.Lock()


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
    start, or is replaced over the API. What the API replaced or added stays. What is under way is answered by what it
    was asked of.

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
        written = ServiceConfig.read(before.source)
        change = _Change(context, written)
        parts = ("service", "limits", "retention", "oidc", "tracing", "monitors")
        needs_restart = tuple(
            name
            for name in parts
            if _without_address(getattr(before, name)) != _without_address(getattr(written, name))
        )
        report = ReloadReport(change.added, change.gone, change.changed, needs_restart)
        if change.fresh or change.gone:
            serves = {name: entry_fingerprint(entry) for name, entry in entries_by_name(change.after).items()}
            operation = {"op": "reload", "by": by, "at": time.time(), "added": list(report.added),
                         "removed": list(report.removed), "changed": list(report.changed),
                         "serves": serves}  # fmt: skip
            done = change.take_up({SETTINGS_STREAM: operation})
            report = replace(report, number=done[SETTINGS_STREAM].number)
        context.written = written
        return report


def reload_in_background(context: ServiceContext) -> None:
    """Reload as a signal asks for it, and tell the service's log what came of it."""

    def run() -> None:
        try:
            report = reload_service(context, "signal")
        except EvenhandError as error:
            logger.error("the file was not taken up, and nothing changed: %s", _words(error))
        else:
            logger.warning("the file was read again", extra={"about": report.to_dict()})

    threading.Thread(target=run, name="evenhand-reload", daemon=True).start()


def follow_streams(context: ServiceContext) -> None:
    """Take up what another replica set over the API, if there is something new.

    Raises:
        EvenhandError: something cannot be loaded here, or the store failed; it is tried again the next time.
    """
    with context.database.reading() as connection:
        number, _hash = read_heads(connection).get(SETTINGS_STREAM, (-1, ""))
    if number <= context.settings_number:
        return
    with _one_at_a_time:
        change = _Change(context, context.written)
        if change.fresh or change.gone:
            change.take_up({})
            logger.warning(
                "took up what was set over the API", extra={"about": {"streams": [*change.fresh, *change.gone]}}
            )
        context.settings_number = number


@dataclass(frozen=True)
class PutReport:
    """What came of a shield or guard that was set over the API.

    Attributes:
        name: its stream.
        kind: ``shield`` or ``guard``.
        version: its number.
        digest: of what it decides by.
        previous: the digest of what decided before; None: it is new.
        in_force: whether it decides from now on; else once the period under way is over.
        kept: whether it decides as the one before, so that counters go on.
        number: of the entry in the log of settings; None: that is the latest version already, and nothing changed.
    """

    name: str
    kind: str
    version: int
    digest: str
    previous: str | None
    in_force: bool
    kept: bool
    number: int | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def put_stream(
    context: ServiceContext, entry: Served, by: str, *, when: When = "period-end", previous: str | None = None
) -> PutReport:
    """Add a shield or guard, or have another version of it decide, in one transaction with what the logs say of it.

    Args:
        context: of the running service.
        entry: as in the service's file; of a guard all of its configuration.
        by: who asked for it, for the log.
        when: the new version of a shield decides.
        previous: the digest of what is to be replaced; None: whatever there is.

    Raises:
        EvenhandError: it makes no sense, cannot be built, or something else than ``previous`` decides; nothing changed.
    """
    with _one_at_a_time:
        name = entry.name
        managed = read_managed_streams(context.database)
        known, written = managed.get(name), entries_by_name(context.written).get(name)
        is_served = name in entries_by_name(context.settings)
        current = known.current.entry if known is not None else written
        if current is not None and type(current) is not type(entry):
            raise OptionError(f"{name!r} is another kind of stream", hint="give the new one a name of its own")
        about, machine = build_entry(entry, context.settings.folder)
        change = _Change(context, context.written, (entry,))
        old = None
        if current is not None:
            _about, before = build_entry(current, context.settings.folder)
            old = before.digest
        _check_previous(name, previous, old if is_served else None)
        last = FIRST_VERSION if known is None else known.latest.number
        if is_served and entry == (written if known is None else known.latest.entry):
            waits = known is not None and known.current is not known.latest
            return PutReport(name, machine.kind, last, machine.digest, old, not waits, kept=True, number=None)
        number = (
            FIRST_VERSION if current is None else known.latest.number + 1 if known is not None else FIRST_VERSION + 1
        )
        operations: dict[str, Operation] = {}
        asked = {"by": by, "at": time.time(), "when": when if is_served else "now"}
        if current is None:
            _check_unused(context, name, machine.digest)
            versioned = change.built.versioned(machine)
        else:
            versioned = change.built.versioned(before)
            versioned.offer(machine)
            operations[name] = {"op": "replace", "version": number, "previous": old, "digest": machine.digest,
                                "configuration": dict(machine.configuration), **asked}  # fmt: skip
        operations[SETTINGS_STREAM] = {
            "op": "put", "name": name, "kind": machine.kind, "version": number, **asked,
            "entry": entry.model_dump(mode="json", exclude_defaults=True), "old": old, "new": machine.digest,
            "replaces": None if written is None else entry_fingerprint(written),
            **({} if known is not None or written is None
               else {"first": written.model_dump(mode="json", exclude_defaults=True)}),
        }  # fmt: skip
        change.built.machines[name] = versioned
        if about is not None:
            change.built.shields[name] = replace(about, version=number)
        done = change.take_up(operations, {name: number})
        came = done[name].answer if name in done else {"in_force": True, "kept": False}
        return PutReport(name, machine.kind, number, machine.digest, old if is_served else None, came["in_force"],
                         came["kept"], done[SETTINGS_STREAM].number)  # fmt: skip


def drop_stream(context: ServiceContext, name: str, by: str) -> int:
    """Serve a shield or guard no longer that was added over the API; its log stays.

    Returns:
        the number of the entry in the log of settings.

    Raises:
        EvenhandError: there is none, or the service's file names it; nothing changed.
    """
    with _one_at_a_time:
        managed = read_managed_streams(context.database).get(name)
        if name in entries_by_name(context.written):
            raise OptionError(f"the service's file names {name!r}", hint="take it out of the file, and reload")
        if managed is None or not managed.served:
            raise DecisionError(f"there is no {name!r} that was set over the API", code="stream")
        change = _Change(context, context.written, without=name)
        operation = {"op": "drop", "name": name, "by": by, "at": time.time()}
        return change.take_up({SETTINGS_STREAM: operation})[SETTINGS_STREAM].number


def list_versions(context: ServiceContext, name: str) -> tuple[int, tuple[StreamVersion, ...]]:
    """Return all versions of a shield or guard, and the number of the one that decides.

    Raises:
        DecisionError: there is none of this name.
    """
    managed = read_managed_streams(context.database).get(name)
    if managed is not None:
        return managed.in_force, managed.versions
    entry = entries_by_name(context.written).get(name)
    if entry is None:
        raise DecisionError(f"there is no shield or guard {name!r}", code="stream", hint="see /v1/streams")
    _about, machine = build_entry(entry, context.settings.folder)
    return FIRST_VERSION, (StreamVersion(FIRST_VERSION, entry, machine.digest, "file"),)


class _Change:
    """From what is served now to what is to be served; all of it is built before anything changes.

    Args:
        context: of the running service.
        written: what the file says.
        put: entries that are set over the API.
        without: an entry that is to go.
    """

    def __init__(
        self, context: ServiceContext, written: ServiceConfig, put: Iterable[Served] = (), without: str = ""
    ) -> None:
        self._context = context
        managed = read_managed_streams(context.database)
        wanted = {**entries_by_name(overlay_settings(written, managed)), **{one.name: one for one in put}}
        wanted.pop(without, None)
        self.after = written.with_streams(wanted.values())
        known = entries_by_name(context.settings)
        self.fresh = {name: entry for name, entry in wanted.items() if known.get(name) != entry}
        self.gone = tuple(sorted(known.keys() - wanted.keys()))
        self.added = tuple(sorted(self.fresh.keys() - known.keys()))
        self.changed = tuple(sorted(self.fresh.keys() & known.keys()))
        self.built = BuiltStreams(written.folder, managed)
        self._put = {one.name: one for one in put}

    def take_up(
        self, operations: Mapping[str, Operation], numbers: Mapping[str, int] | None = None
    ) -> Mapping[str, OperationResult]:
        """Serve what is new, and no longer serve what is gone.

        Args:
            operations: what the logs say of it, in the transaction in which it changes.
            numbers: of versions that are set over the API; what they need is built already.
        """
        context, built = self._context, self.built
        fresh = {**self.fresh, **self._put}
        for name, entry in fresh.items():
            if name not in (numbers or {}):
                built.add(entry)
        guards: dict[str, ServedGuard] = {}
        try:
            for name, entry in fresh.items():
                if isinstance(entry, ServedGuardConfig):
                    version = (numbers or {}).get(name) or built.version(name)
                    guards[name] = open_guard(entry, built.folder, context.ledger, context.replica, context.pictures,
                                              version=version)  # fmt: skip
            # Refused as a whole where one of them belongs to another configuration.
            done = context.ledger.serve({SETTINGS_STREAM: SettingsMachine(), **built.machines} if operations
                                        else built.machines, operations)  # fmt: skip
        except BaseException:
            for guard in guards.values():
                guard.close(0.0)
            raise
        waiting = {name for name in numbers or {} if name in done and not done[name].answer["in_force"]}
        context.registry.update(
            {name: shield for name, shield in built.shields.items() if name not in waiting},
            {**built.pending, **{name: built.shields[name] for name in waiting}},
            self.gone,
        )
        for name in built.shields:
            context.metrics.watch_shield(name)
        self._serve_guards(guards)
        context.settings = context.settings.with_streams(entries_by_name(self.after).values())
        if SETTINGS_STREAM in done:
            context.settings_number = done[SETTINGS_STREAM].number
        return done

    def _serve_guards(self, guards: Mapping[str, ServedGuard]) -> None:
        context = self._context
        old = [context.guards[name] for name in (*guards, *self.gone) if name in context.guards]
        for guard in guards.values():
            guard.log_start()
            context.metrics.watch_guard(guard)
        context.guards = {**{name: one for name, one in context.guards.items() if name not in self.gone}, **guards}
        for guard in old:
            threading.Thread(target=guard.close, args=(context.grace,), name="evenhand-retire", daemon=True).start()


def _check_previous(name: str, previous: str | None, old: str | None) -> None:
    if previous is not None and previous != old:
        raise DecisionError(
            f"expected {name!r} with the digest {previous[:12]}..., and it has {(old or 'none')[:12]}",
            code="replaced",
            hint=f"look at GET /v1/admin/streams/{name}/versions, and ask again",
        )


def _check_unused(context: ServiceContext, name: str, digest: str) -> None:
    """Refuse the name of a stream that is in the store, from an entry that the file had, and decides otherwise."""
    with context.database.reading() as connection:
        found = connection.execute(select(streams.c.digest).where(streams.c.name == name)).scalar()
    if found not in (None, digest):
        raise DecisionError(
            f"the store has another stream {name!r}, which the service's file named before",
            code="repeated",
            hint="give the new one another name",
        )


def _without_address(part: Any) -> Any:
    """Return a part of the file, without the address, which the command line may have given."""
    if isinstance(part, tuple):
        return [one.model_dump() for one in part]
    return None if part is None else part.model_dump(exclude={"host", "port"})


def _words(error: EvenhandError) -> str:
    return f"{error.location}: {error.message}" if error.location else error.message
