"""Replay of a log, which recomputes and compares every hash, state and decision.

Each entry is checked in this order: its format; its stream, number and chain; its hash; the digest of the machine,
unless the entry starts a run with another configuration; its counters and output, which the machine derives from the
same input. The first entry that fails a check is reported. See ``docs/reference/service-http.md#the-log``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic import Field

from evenhand.core.canonical_json import canonical_json, hash_json, unique_names
from evenhand.core.document import Block, Document, Facts, Note, Text
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.service.rebuilding import rebuild_machine
from evenhand.service.state_machines import GENESIS_HASH, StateMachine
from evenhand.shields.policy.policy import ShieldPolicy

ENTRY_FIELDS = frozenset({"stream", "number", "at", "body", "previous", "hash"})
FIRST_FIELDS = frozenset({"kind", "digest", "configuration", "state"})
OPERATION_FIELDS = frozenset({"id", "before", "input", "output", "digest"})

REFUSAL_ERRORS = (EvenhandError, KeyError, TypeError, ValueError, AttributeError, IndexError)
"""Errors of invalid operations and states."""

MAX_TEXT_LENGTH = 300
"""Maximum length of a value in a difference."""


class LogDifference(ResultPart):
    """First difference between a log and its replay.

    Attributes:
        entry: Number of the entry. None if it does not concern a single entry.
        what: Description of the difference.
        logged: Value in the log.
        found: Value in the replay.
    """

    entry: int | None
    what: str
    logged: str = ""
    found: str = ""

    def __str__(self) -> str:
        text = self.what if self.entry is None else f"entry {self.entry}: {self.what}"
        return f"{text}\n  logged  {self.logged}\n  replayed  {self.found}" if self.logged else text


class ServiceReplay(Result):
    """Result of the replay of one stream.

    Attributes:
        stream: Name of the stream.
        machine: Kind of the machine, such as ``shield`` or ``guard``.
        digest: Digest of the policy or configuration.
        entries: Number of entries that agree.
        first, last: Numbers of the first and the last of these entries.
        head: Hash of the last of these entries.
        operations: Number of replayed operations of each kind.
        difference: First difference. None if all entries agree.
    """

    kind: str = "service-replay"
    seed: int = 0
    stream: str
    machine: str
    digest: str
    entries: int = Field(ge=0)
    first: int = Field(ge=0)
    last: int = Field(ge=0)
    head: str
    operations: dict[str, int]
    difference: LogDifference | None

    @property
    def all_agree(self) -> bool:
        """Whether all entries agree."""
        return self.difference is None

    def document(self) -> Document:
        """Return a document with the result."""
        return Document("Replay of a log", blocks=self.blocks(), brand="Evenhand service", made=self.provenance)

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks of the result, which may be part of a document about several streams."""
        what = f"{self.machine} {self.stream!r}"
        if self.difference is not None:
            different = self.difference
            entry = "" if different.entry is None else f"entry {different.entry:,}: "
            verdict = Note(f"{what}: the log does not agree with its replay. {entry}{different.what}", "caution")
            values = (("logged", different.logged), ("replayed", different.found))
            return (verdict, Facts(values)) if different.logged else (verdict,)
        operations = ", ".join(f"{count:,} {name}" for name, count in self.operations.items()) or "no operations"
        begins = f" from entry {self.first:,} on" if self.first else ""
        return (
            Text(f"{what}: all {self.entries:,} entries{begins} agree ({operations})", role="finding"),
            Facts((("head", f"{self.last} {self.head}"),)),
        )


class _DifferenceError(Exception):
    """Ends a replay."""

    def __init__(self, what: str, logged: object, replayed: object) -> None:
        super().__init__(what)
        self.what, self.parting = what, compare_values(logged, replayed)


class LogReplayer:
    """Replays the entries of one stream in order.

    Args:
        policies: Policies for ``rebuild_machine``.
        head: Hash of an entry that must be in the log, or None if unknown.
        state_number: Number of the entry whose resulting state is stored in ``state``.

    Attributes:
        ids: Number of the last entry of each ID.
    """

    def __init__(
        self, policies: Sequence[ShieldPolicy] = (), head: str | None = None, state_number: int | None = None
    ) -> None:
        self.machine: StateMachine | None = None
        self.state: Mapping[str, Any] | None = None
        self.stream = ""
        self.first = self.number = 0
        self.hash = GENESIS_HASH
        self.entries = 0
        self.operations: Counter[str] = Counter()
        self.difference: LogDifference | None = None
        self._policies = policies
        self._head, self._state_number = head, state_number
        self._seen = False
        self._configuration: Any = None
        self.ids: dict[str, int] = {}
        self._started = perf_counter()

    def take(self, entry: object) -> bool:
        """Replay one entry.

        Returns:
            Whether it agrees. After a difference, no entry is replayed.

        Raises:
            DataError: The first entry is not the beginning of a log.
            OptionError: The policy is missing.
        """
        if self.difference is not None:
            return False
        beginning = self.machine is None
        try:
            checked = _check_entry(entry)
            if beginning:
                self._begin(checked)
            else:
                self._go_on(checked)
        except _DifferenceError as differs:
            if beginning and not (isinstance(entry, Mapping) and entry.keys() & ENTRY_FIELDS):
                raise DataError(f"this is not a log of the service: {differs.what}") from None
            number = self.number if beginning else self.number + 1
            self.difference = LogDifference(entry=number, what=differs.what, **differs.parting)
            return False
        self.number, self.hash = checked["number"], checked["hash"]
        self.entries += 1
        self._seen = self._seen or self.hash == self._head
        if self.number == self._state_number and self.machine is not None:
            self.state = self.machine.state()
        return True

    def result(self) -> ServiceReplay:
        """Return the result of the replay.

        Raises:
            DataError: There was no entry.
        """
        if self.machine is None and self.difference is None:
            raise DataError("the log is empty", hint="pass a response of GET /v1/streams/NAME/log")
        missing = None
        if self._head is not None and not self._seen:
            missing = LogDifference(
                entry=None,
                what="the log was truncated or replaced: the known head is missing",
                logged=f"{self.hash}, its last entry",
                found=self._head,
            )
        return ServiceReplay(
            seconds=perf_counter() - self._started,
            stream=self.stream,
            machine="" if self.machine is None else self.machine.kind,
            digest="" if self.machine is None else self.machine.digest,
            entries=self.entries,
            first=self.first,
            last=self.number,
            head=self.hash,
            operations=dict(sorted(self.operations.items())),
            difference=self.difference or missing,
        )

    def _begin(self, entry: Mapping[str, Any]) -> None:
        """Build the machine from the first entry or a checkpoint."""
        body, number = entry["body"], entry["number"]
        _require_same_fields(body, FIRST_FIELDS, "the first entry")
        self.stream, self.first = entry["stream"], number
        self.number = number
        if number:
            self.hash = entry["previous"]
        self._check_chain(entry)
        self._start_run(body, body["state"] if number else None)

    def _start_run(self, body: Mapping[str, Any], state: Any = None) -> None:
        """Build the machine of a run, in a given state or its initial state."""
        machine = rebuild_machine(body["kind"], body["digest"], body["configuration"], self._policies)
        _require_same("the digest of the configuration differs", body["digest"], machine.digest)
        if state is not None:
            self._load(machine, state)
        _require_same("the initial state differs", body["state"], machine.state())
        self.machine, self._configuration = machine, body["configuration"]

    def _load(self, machine: StateMachine, state: Any) -> None:
        try:
            machine.load(state)
        except REFUSAL_ERRORS as error:
            if isinstance(error, OptionError) and error.location == "--policy":
                raise
            raise _DifferenceError("the state is invalid", state, f"{type(error).__name__}: {error}") from None

    def _check_checkpoint(self, body: Mapping[str, Any]) -> None:
        """Check that a checkpoint follows from the entries before it."""
        machine = self.machine
        assert machine is not None
        if canonical_json(body["configuration"]) != canonical_json(self._configuration):
            other = rebuild_machine(body["kind"], body["digest"], body["configuration"], self._policies)
            _require_same("the configuration differs", other.digest, machine.digest)
            self._configuration = body["configuration"]
        _require_same("the state differs", body["state"], machine.state())
        self.operations["checkpoint"] += 1

    def _go_on(self, entry: Mapping[str, Any]) -> None:
        assert self.machine is not None
        body, number = entry["body"], entry["number"]
        if entry["stream"] != self.stream:
            raise _DifferenceError("the entry belongs to another stream", entry["stream"], self.stream)
        if number != self.number + 1:
            raise _DifferenceError("entries are missing, repeated or out of order", number, self.number + 1)
        self._check_chain(entry)
        if body.keys() == FIRST_FIELDS:
            _require_same("the kind of machine differs", body["kind"], self.machine.kind)
            if body["digest"] == self.machine.digest:
                self._check_checkpoint(body)
            else:
                self._start_run(body)
                self.operations["configuration"] += 1
            return
        _require_same_fields(body, OPERATION_FIELDS, "the body")
        operation, id_ = body["input"], body["id"]
        if not isinstance(operation, Mapping) or not (id_ is None or isinstance(id_, str)):
            raise _DifferenceError("the body is not an operation", body, "an id and an input")
        if id_ is not None and id_ in self.ids:
            raise _DifferenceError("duplicate entry with the same id", id_, "an id is used once")
        try:
            # The decision is computed from the input alone, and only then compared with the log.
            before = self.machine.counts()
            output: Mapping[str, Any] = self.machine.apply(operation, number)
        except REFUSAL_ERRORS as error:
            if isinstance(error, OptionError) and error.location == "--policy":
                raise
            raise _DifferenceError("the operation is invalid", operation, f"{type(error).__name__}: {error}") from None
        _require_same("the digest differs", body["digest"], self.machine.digest)
        _require_same("the counters before the operation differ", body["before"], before)
        _require_same("the output differs", body["output"], output)
        if id_ is not None:
            self.ids[id_] = number
        self.operations[str(operation.get("op"))] += 1

    def _check_chain(self, entry: Mapping[str, Any]) -> None:
        if entry["previous"] != self.hash:
            raise _DifferenceError("the entry is not chained to the previous one", entry["previous"], self.hash)
        fields = [entry[name] for name in ("previous", "stream", "number", "at")]
        again = hash_json([*fields, canonical_json(entry["body"])])
        if entry["hash"] != again:
            raise _DifferenceError("the entry was changed: its hash does not match its content", entry["hash"], again)


def replay_log(
    entries: Iterable[object], *, policies: Sequence[ShieldPolicy] = (), head: str | None = None
) -> ServiceReplay:
    """Replay the log of one stream, up to the first entry that differs.

    Args:
        entries: Entries in their export format, in order.
        policies: Policies of shields. Other policies are synthesised again from their plans.
        head: Hash of an entry that must be in the log, or None if unknown.

    Raises:
        DataError: The entries are not a log.
        OptionError: The policy of the shield is missing.
    """
    replayer = LogReplayer(policies, head)
    all(map(replayer.take, entries))
    return replayer.result()


def read_lines(path: Path) -> Iterator[object]:
    """Yield the lines of a log as JSON values. Invalid lines are yielded as bytes.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                yield parse_line(line)
    except OSError as error:
        raise DataError(f"the log cannot be read: {error.strerror}", location=str(path)) from None


def parse_line(line: bytes | str) -> object:
    """Parse a line. A line that is not JSON, or has a duplicate key, is returned unchanged."""
    try:
        return json.loads(line, object_pairs_hook=unique_names, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return line


def _refuse_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _check_entry(entry: object) -> Mapping[str, Any]:
    """Check the fields of an entry and their types."""
    if not isinstance(entry, Mapping):
        raise _DifferenceError("this line is not a JSON object", entry, "one with " + ", ".join(sorted(ENTRY_FIELDS)))
    _require_same_fields(entry, ENTRY_FIELDS, "the entry")
    types: dict[str, type | tuple[type, ...]] = {
        "stream": str,
        "number": int,
        "at": (int, float),
        "body": Mapping,
        "previous": str,
        "hash": str,
    }
    for name, kind in types.items():
        if not isinstance(entry[name], kind) or isinstance(entry[name], bool):
            raise _DifferenceError(f"the {name} has the wrong type", entry[name], "see the format of the log")
    return entry


def _require_same_fields(mapping: Mapping[str, Any], names: frozenset[str], what: str) -> None:
    if mapping.keys() != names:
        raise _DifferenceError(f"the fields of {what} differ", ", ".join(sorted(mapping)), ", ".join(sorted(names)))


def _require_same(what: str, logged: object, replayed: object) -> None:
    # Texts are compared, because 1, 1.0 and True are equal in Python, but have different hashes.
    if canonical_json(logged) != canonical_json(replayed):
        raise _DifferenceError(what, logged, replayed)


def compare_values(logged: object, replayed: object) -> dict[str, str]:
    """Format the parts of two values that differ."""
    # Descend to the innermost differing part, as long as exactly one part differs and both values have it.
    path = []
    while isinstance(logged, Mapping) and isinstance(replayed, Mapping):
        texts = [{name: canonical_json(part) for name, part in side.items()} for side in (logged, replayed)]
        names = [name for name in sorted({*logged, *replayed}) if texts[0].get(name) != texts[1].get(name)]
        if len(names) != 1 or names[0] not in logged or names[0] not in replayed:
            logged, replayed = ({name: side[name] for name in names if name in side} for side in (logged, replayed))
            break
        path.append(names[0])
        logged, replayed = logged[names[0]], replayed[names[0]]
    before = f"{'.'.join(path)}: " if path else ""
    return {"logged": before + _format_value(logged), "found": before + _format_value(replayed)}


def _format_value(value: object) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace").rstrip("\n")
    else:
        # Invisible characters and changes of direction are escaped.
        text = value if isinstance(value, str) and value.isprintable() else canonical_json(value)
    return text if len(text) <= MAX_TEXT_LENGTH else text[:MAX_TEXT_LENGTH] + "..."
