"""Which shields and guards are served: those of the file, and over them those that were set over the API."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection

from evenhand.errors import OptionError
from evenhand.service.generation.guards import build_guard_machine
from evenhand.service.rebuilding import rebuild_machine
from evenhand.service.settings import ServedGuardConfig, ServedShieldConfig, ServiceConfig
from evenhand.service.shields import ServedShield, build_shield
from evenhand.service.state_machines import SETTINGS_STREAM, GuardMachine, ShieldMachine, StateMachine
from evenhand.service.store.chain import canonical_json
from evenhand.service.store.database import Database, read_state
from evenhand.service.versions import FIRST_VERSION, VersionedMachine
from evenhand.shields import load_policy

Served: TypeAlias = ServedShieldConfig | ServedGuardConfig


@dataclass(frozen=True)
class StreamVersion:
    """One version of a shield or guard.

    Attributes:
        number: from 1.
        entry: as in the service's file.
        digest: of what decides.
        by: who set it; ``file``: it stands in the service's file.
        at: when, in seconds since 1970; None: with the file.
        when: see ``When``; None: with the file.
    """

    number: int
    entry: Served
    digest: str
    by: str
    at: float | None = None
    when: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "entry": self.entry.model_dump(mode="json", exclude_defaults=True)}


@dataclass(frozen=True)
class ManagedStream:
    """A shield or guard that was set over the API.

    Attributes:
        replaces: the fingerprint of the file's entry that it took the place of; None: the file had none.
        served: whether it is served still.
        versions: all that there were, first to last.
        in_force: the number of the one that decides.
    """

    replaces: str | None
    served: bool
    versions: tuple[StreamVersion, ...]
    in_force: int

    @property
    def latest(self) -> StreamVersion:
        """The last one, which may wait for the end of a period."""
        return self.versions[-1]

    @property
    def current(self) -> StreamVersion:
        """The one that decides."""
        return next((one for one in self.versions if one.number == self.in_force), self.latest)


def entry_fingerprint(entry: Served) -> str:
    """Return the digest of an entry of the file."""
    return hashlib.sha256(canonical_json(entry.model_dump(mode="json")).encode()).hexdigest()


def entries_by_name(settings: ServiceConfig) -> dict[str, Served]:
    """Return the shields and guards of a file."""
    found: tuple[Served, ...] = (*settings.shields, *settings.guards)
    return {one.name: one for one in found}


def read_managed_streams(database: Database) -> dict[str, ManagedStream]:
    """Return what was set over the API, by name, as the store has it at one moment.

    Raises:
        StoreError: the store failed.
    """
    with database.reading() as connection:
        state = read_state(connection, SETTINGS_STREAM) or {}
        return {name: _read_managed(connection, name, about) for name, about in state.get("streams", {}).items()}


def _read_managed(connection: Connection, name: str, about: Mapping[str, Any]) -> ManagedStream:
    model = ServedShieldConfig if about["kind"] == "shield" else ServedGuardConfig
    versions = tuple(StreamVersion(**{**one, "entry": model.model_validate(one["entry"])}) for one in about["versions"])
    state = read_state(connection, name) or {}
    return ManagedStream(about["replaces"], about["served"], versions, version_in_force(state))


def version_in_force(state: Mapping[str, Any]) -> int:
    """Return the number of the version that decides, from a state of its stream."""
    return int(state.get("versions", {}).get("number", FIRST_VERSION))


def overlay_settings(settings: ServiceConfig, managed: Mapping[str, ManagedStream]) -> ServiceConfig:
    """Return a file's settings with what was set over the API in its place.

    An entry of the file that the API replaced stays replaced, and one that the API added is there; one that is not in
    the file any more is gone.

    Raises:
        OptionError: the file's entry is another one than the one that was replaced, and either may be meant.
    """
    entries = entries_by_name(settings)
    for name, one in managed.items():
        written = entries.get(name)
        if written is None and (one.replaces is not None or not one.served):
            continue
        known = (one.replaces, entry_fingerprint(one.latest.entry))
        if written is not None and entry_fingerprint(written) not in known:
            raise OptionError(
                f"the file has another {name!r} than when version {one.latest.number} was set over the API",
                location=f"the entry {name!r}",
                hint=f"write what it had then, or the version itself: GET /v1/admin/streams/{name}/versions",
            )
        entries[name] = one.latest.entry
    return settings.with_streams(entries.values())


def build_machine(folder: Path, kind: str, digest: str, configuration: Mapping[str, Any]) -> StateMachine:
    """Return the machine of a version at its beginning, from what the store has of it.

    Raises:
        EvenhandError: it cannot be built here.
    """
    policy = configuration.get("policy") if kind == "shield" else None
    return rebuild_machine(kind, digest, configuration, () if policy is None else (load_policy(folder / policy),))


@dataclass
class BuiltStreams:
    """Everything that decides, at its beginning.

    Attributes:
        folder: that relative paths start from.
        managed: what was set over the API, by name.
        machines: by name, what keeps each.
        shields: by name, what never changes about each shield.
        pending: Versions of shields that take effect after the period of the one in force, by name.
    """

    folder: Path
    managed: Mapping[str, ManagedStream] = field(default_factory=dict)
    machines: dict[str, StateMachine] = field(default_factory=dict)
    shields: dict[str, ServedShield] = field(default_factory=dict)
    pending: dict[str, ServedShield] = field(default_factory=dict)

    def add(self, entry: Served) -> None:
        """Build what one entry describes.

        Raises:
            EvenhandError: a policy or a configuration cannot be loaded.
        """
        name, one = entry.name, self.managed.get(entry.name)
        if one is None:
            one = ManagedStream(None, True, (StreamVersion(FIRST_VERSION, entry, "", "file"),), FIRST_VERSION)
        about, machine = build_entry(one.current.entry, self.folder)
        self.machines[name] = versioned = self.versioned(machine)
        if about is not None:
            self.shields[name] = replace(about, version=one.current.number)
        if one.current is not one.latest:
            following, waiting = build_entry(one.latest.entry, self.folder)
            versioned.offer(waiting)
            if following is not None:
                self.pending[name] = replace(following, version=one.latest.number)

    def version(self, name: str) -> int:
        """Return the number of a guard's version; of a guard the latest decides."""
        one = self.managed.get(name)
        return FIRST_VERSION if one is None else one.latest.number

    def versioned(self, machine: ShieldMachine | GuardMachine) -> VersionedMachine:
        """Return a machine that others can follow."""
        return VersionedMachine(machine, partial(build_machine, self.folder))


def build_entry(entry: Served, folder: Path) -> tuple[ServedShield | None, ShieldMachine | GuardMachine]:
    """Return what an entry describes, at its beginning, and what never changes about it if it is a shield.

    Raises:
        EvenhandError: a policy or a configuration cannot be loaded.
    """
    if isinstance(entry, ServedShieldConfig):
        return build_shield(entry, folder)
    return None, build_guard_machine(entry, folder)
