"""One shield or guard after another under one name: one log, and every decision under exactly one version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from evenhand.errors import DecisionError, OptionError
from evenhand.service.state_machines import (
    GuardMachine,
    Operation,
    Planner,
    ShieldMachine,
    StateMachine,
)

When: TypeAlias = Literal["period-end", "now"]
"""When a new version decides: once the period under way is over, or from the next decision on."""

VersionedStream: TypeAlias = ShieldMachine | GuardMachine
"""What may be followed by another version of itself."""

MachineBuilder: TypeAlias = Callable[[str, str, Mapping[str, Any]], StateMachine]
"""Builds a machine at its beginning from its kind, digest and configuration."""


@dataclass(frozen=True)
class _Version:
    """One of them; ``since``: the first of those before it that decide alike, whose counters it goes on with."""

    number: int
    machine: VersionedStream
    since: int

    def describe(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "since": self.since,
            "digest": self.machine.digest,
            "configuration": dict(self.machine.configuration),
        }

    def with_state(self) -> dict[str, Any]:
        return {**self.describe(), "state": self.machine.state()}


FIRST_VERSION = 1


class VersionedMachine:
    """A shield or guard, those that it replaced as long as something is open in them, and the one that comes next.

    Operations are those of the machine, and ``{"op": "replace", "version", "previous", "digest", "configuration",
    "when", "by", "at"}``: version ``version`` follows the one with the digest ``previous``. It decides from the next
    decision on if ``when`` is ``now``, or no period is under way; else it waits until the period is over. Counters
    begin at zero with it. One that decides as the version in force does takes its place and keeps its counters; a
    version that waits is withdrawn by that. Labels of decisions and items of admissions go to the version that they
    belong to.

    The state is that of the version in force; ``versions`` in it has all else once there is a second version.

    Args:
        machine: version 1, or what decides now.
        build: builds versions that the log or the state names.
    """

    def __init__(self, machine: VersionedStream, build: MachineBuilder) -> None:
        self._first = machine
        self._build = build
        self._now = _Version(FIRST_VERSION, machine, FIRST_VERSION)
        self._next: _Version | None = None
        self._retired: tuple[_Version, ...] = ()
        self._offered: list[VersionedStream] = []

    @property
    def kind(self) -> str:
        return self._now.machine.kind

    @property
    def digest(self) -> str:
        return self._now.machine.digest

    @property
    def configuration(self) -> Mapping[str, Any]:
        return self._now.machine.configuration

    @property
    def version(self) -> int:
        """The number of the version in force."""
        return self._now.number

    def offer(self, machine: VersionedStream) -> None:
        """Have a machine ready that a later operation names, so that it need not be built then."""
        self._offered.append(machine)

    def state(self) -> dict[str, Any]:
        state = self._now.machine.state()
        if self._now.number == FIRST_VERSION and self._next is None:
            return state
        versions = {
            **self._now.describe(),
            "next": None if self._next is None else self._next.with_state(),
            "retired": [one.with_state() for one in self._retired],
        }
        return {**state, "versions": versions}

    def load(self, state: Mapping[str, Any]) -> None:
        about = state.get("versions")
        if about is None:
            self._now, self._next, self._retired = _Version(FIRST_VERSION, self._first, FIRST_VERSION), None, ()
            self._first.load(state)
            return
        pool = self._known_machines()
        now = self._version_from(about, pool)
        now.machine.load(state)
        others = [
            self._version_from(one, pool) for one in (*about["retired"], *([about["next"]] if about["next"] else ()))
        ]
        for version, described in zip(others, (*about["retired"], about["next"]), strict=False):
            version.machine.load(described["state"])
        self._now, self._next = now, others.pop() if about["next"] else None
        self._retired = tuple(others)
        # One that is in use now is not at its beginning any more.
        self._offered = [one for one in self._offered if any(one is left for left in pool)]

    def holders(self, state: Mapping[str, Any]) -> Collection[str]:
        inner = self._now.machine
        found = set(inner.holders(state))
        for one in state.get("versions", {}).get("retired", ()):
            found |= set(inner.holders(one["state"]))
        return found

    def plan_ahead(
        self, state: Mapping[str, Any] | None = None, operation: Operation | None = None
    ) -> Callable[[], None] | None:
        about = None if state is None else state.get("versions")
        if state is None or about is None:
            is_label = operation is not None and operation.get("op") == "label"
            version = self._version_for(operation) if operation is not None and is_label else self._next_decider()
            machine = version.machine if state is None else self._first
            return machine.plan_ahead(state, operation) if isinstance(machine, Planner) else None
        pool = self._known_machines()
        described = (about, *about["retired"], *([about["next"]] if about["next"] else ()))
        missing = [one for one in described if _claim(one, pool) is None]

        def make() -> None:
            for one in missing:
                self.offer(self._built(one["digest"], one["configuration"]))

        if missing:
            return make
        now = _claim(about, self._known_machines())
        return now.plan_ahead(state) if isinstance(now, Planner) else None

    def before(self, operation: Operation) -> Mapping[str, Any]:
        if operation.get("op") == "replace":
            return {"version": self._now.number}
        return self._version_for(operation).machine.before(operation)

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        if operation.get("op") == "replace":
            return self._replace(operation)
        version = self._version_for(operation)
        if operation.get("op") == "admit" and operation.get("version", FIRST_VERSION) < version.since:
            raise DecisionError(
                "the guard was replaced while this was read", code="replaced", hint="ask again: the new one answers"
            )
        if operation.get("op") == "abandon":
            answer = self._abandon(operation, number)
        else:
            answer = version.machine.apply(operation, number)
        if version is self._next:
            self._switch(version)
        self._retired = tuple(one for one in self._retired if one.machine.is_open())
        return answer

    def _abandon(self, operation: Operation, number: int) -> dict[str, Any]:
        """Give up what a replica or a call has open, in whatever version."""
        found: dict[str, Any] = {}
        for one in (self._now, *self._retired):
            if one is self._now or one.machine.is_open(operation):
                found |= one.machine.apply(operation, number)["abandoned"]
        return {"abandoned": found}

    def _version_for(self, operation: Operation) -> _Version:
        """Return which version an operation is for."""
        what = operation.get("op")
        if what in ("decide", "admit"):
            return self._next_decider()
        if self._retired and what in ("label", "complete", "fail"):
            return next((one for one in self._retired if one.machine.is_open(operation)), self._now)
        return self._now

    def _next_decider(self) -> _Version:
        follows = self._next is not None and self._now.machine.between_periods()
        return self._next if follows and self._next is not None else self._now

    def _replace(self, operation: Operation) -> dict[str, Any]:
        last = self._now.number if self._next is None else self._next.number
        version, digest, configuration = operation["version"], operation["digest"], operation["configuration"]
        if operation["previous"] != self.digest or version <= last:
            raise DecisionError(
                f"version {last} was made meanwhile, or another one decides",
                code="replaced",
                hint="look, and ask again",
            )
        if operation["when"] not in ("period-end", "now"):
            raise DecisionError(f"expected period-end or now, got {operation['when']!r}", code="operation")
        if _decides_as(self._now.machine, digest, configuration):
            self._now.machine.configuration = {**configuration}
            self._now, self._next = _Version(version, self._now.machine, self._now.since), None
            return {"version": version, "in_force": True, "kept": True}
        machine = _claim({"digest": digest, "configuration": configuration}, self._offered)
        following = _Version(version, self._built(digest, configuration) if machine is None else machine, version)
        at_once = operation["when"] == "now" or self._now.machine.between_periods()
        if at_once:
            self._switch(following)
        else:
            self._next = following
        return {"version": version, "in_force": at_once, "kept": False}

    def _switch(self, version: _Version) -> None:
        if self._now.machine.is_open():
            self._retired = (*self._retired, self._now)
        self._now, self._next = version, None

    def _built(self, digest: str, configuration: Mapping[str, Any]) -> VersionedStream:
        machine = self._build(self.kind, digest, configuration)
        if machine.digest != digest:
            raise OptionError(
                f"the {self.kind} with the digest {digest[:12]}... cannot be built again: it comes to another one",
                hint="use the Evenhand, and the policy file, that it was made with",
            )
        assert isinstance(machine, VersionedStream)
        return machine

    def _known_machines(self) -> list[VersionedStream]:
        """Return every machine that was built, each once; a state says what each of them is to be."""
        known = [one.machine for one in (self._now, *self._retired, *([self._next] if self._next else ()))]
        return known + [one for one in (self._first, *self._offered) if all(one is not other for other in known)]

    def _version_from(self, described: Mapping[str, Any], pool: list[VersionedStream]) -> _Version:
        machine = _claim(described, pool)
        if machine is None:
            machine = self._built(described["digest"], described["configuration"])
        machine.configuration = described["configuration"]
        return _Version(described["number"], machine, described["since"])


def follow_versions(machine: StateMachine, build: MachineBuilder) -> StateMachine:
    """Return a machine that others may follow, where it is a shield's or a guard's; any other one as it is."""
    return VersionedMachine(machine, build) if isinstance(machine, VersionedStream) else machine


def _decides_as(machine: VersionedStream, digest: str, configuration: Mapping[str, Any]) -> bool:
    """Return whether a machine decides as one with this digest and configuration would."""
    mode = machine.configuration.get("advisory")
    return machine.digest == digest and mode == configuration.get("advisory")


def _claim(described: Mapping[str, Any], pool: list[VersionedStream]) -> VersionedStream | None:
    """Take a machine that was built already out of a pool, if there is one as described."""
    for machine in pool:
        if _decides_as(machine, described["digest"], described["configuration"]):
            pool[:] = [one for one in pool if one is not machine]
            return machine
    return None
