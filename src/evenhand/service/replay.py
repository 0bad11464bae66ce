"""A service's log done again: every hash, every state and every decision of it is derived anew and compared.

What is checked of each entry, in this order: it is an entry and nothing more; it belongs to this stream, follows the
one before it and is chained to it; its hash is that of its content; what decides is what decided before; the counters
before it and the output are those that the same machine gives for the same input. The first entry that fails any of
these is named. See ``docs/reference/service-log.md``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evenhand.errors import DataError, EvenhandError
from evenhand.result import Result
from evenhand.service.machines import Machine
from evenhand.service.rebuild import rebuilt
from evenhand.service.store.chain import BEGINNING, canonical, link
from evenhand.shield.policy import Policy

ENTRY = frozenset({"stream", "number", "at", "body", "previous", "hash"})
FIRST = frozenset({"kind", "digest", "configuration", "state"})
DONE = frozenset({"id", "before", "input", "output", "digest"})

TOLD_BEFORE = ("unguarded",)
"""Operations that are logged after their callers were told the answer, whatever was logged under their id."""

REFUSALS = (EvenhandError, KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What operations and states that make no sense come to."""

SHOWN = 300
"""Characters of a difference that are shown."""


class Difference(BaseModel):
    """Where a log and its replay part.

    Attributes:
        entry: number of the entry; None where it concerns no single one.
        what: in words.
        logged: what the log says.
        found: what comes out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    entry: int | None
    what: str
    logged: str = ""
    found: str = ""

    def __str__(self) -> str:
        text = self.what if self.entry is None else f"entry {self.entry}: {self.what}"
        return f"{text}\n  the log says  {self.logged}\n  what comes out  {self.found}" if self.logged else text


class ServiceReplay(Result):
    """What came of doing one stream's log again.

    Attributes:
        stream: whose log it is.
        machine: ``shield`` or ``guard``.
        digest: of the policy or configuration that decides.
        entries: how many agreed, the first one included.
        first, last: numbers of the first and the last of them.
        head: hash of the last of them.
        operations: how many of each kind were carried out again.
        difference: the first entry that does not agree; None: all do.
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
    difference: Difference | None

    @property
    def agrees(self) -> bool:
        """Whether all of it was derived again."""
        return self.difference is None

    def summary(self) -> str:
        """A line, and the difference if there is one."""
        what = f"{self.machine} {self.stream!r}"
        if self.difference is not None:
            return f"{what}: the log does not hold\n{self.difference}"
        done = ", ".join(f"{count:,} {name}" for name, count in self.operations.items()) or "nothing was done yet"
        begins = f" from entry {self.first:,} on" if self.first else ""
        return f"{what}: all {self.entries:,} entries{begins} agree ({done})\nhead {self.last} {self.head}"


class _DifferenceError(Exception):
    """Ends a replay."""

    def __init__(self, what: str, logged: object, found: object) -> None:
        super().__init__(what)
        self.what, self.parting = what, parting(logged, found)


class Replayer:
    """Takes the entries of one stream, first to last, and does them again.

    Args:
        policies: see ``rebuilt``.
        head: the hash of an entry that must be among them, as somebody noted it down.
    """

    def __init__(self, policies: Sequence[Policy] = (), head: str | None = None) -> None:
        self.machine: Machine | None = None
        self.stream = ""
        self.first = self.number = 0
        self.hash = BEGINNING
        self.entries = 0
        self.operations: Counter[str] = Counter()
        self.difference: Difference | None = None
        self._policies = policies
        self._head = head
        self._seen = False
        self._configuration: Any = None
        self._ids: set[str] = set()
        self._started = perf_counter()

    def take(self, entry: object) -> bool:
        """Do an entry again.

        Returns:
            Whether it agrees; after one that does not, no other is taken.

        Raises:
            DataError: this is no log: it does not begin with an entry that says what it is.
            OptionError: the policy is missing.
        """
        if self.difference is not None:
            return False
        beginning = self.machine is None
        try:
            found = _checked(entry)
            if beginning:
                self._begin(found)
            else:
                self._go_on(found)
        except _DifferenceError as differs:
            if beginning and not (isinstance(entry, Mapping) and entry.keys() & ENTRY):
                raise DataError(f"this is no log of the service: {differs.what}") from None
            number = self.number if beginning else self.number + 1
            self.difference = Difference(entry=number, what=differs.what, **differs.parting)
            return False
        self.number, self.hash = found["number"], found["hash"]
        self.entries += 1
        self._seen = self._seen or self.hash == self._head
        return True

    def result(self) -> ServiceReplay:
        """What came of it.

        Raises:
            DataError: there was no entry at all.
        """
        if self.machine is None and self.difference is None:
            raise DataError("the log is empty", mend="give what GET /v1/streams/NAME/log answered")
        missing = None
        if self._head is not None and not self._seen:
            missing = Difference(
                entry=None, what="the log was cut off, or is another one: the known head is not among its entries",
                logged=f"{self.hash}, its last entry", found=self._head,
            )  # fmt: skip
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
        """Build what decides from an entry that says what it is: the first of all, or a checkpoint."""
        body, number = entry["body"], entry["number"]
        _same_fields(body, FIRST, "an entry that a log begins with")
        self.stream, self.first = entry["stream"], number
        self.number = number
        if number:
            self.hash = entry["previous"]
        self._chained(entry)
        machine = rebuilt(body["kind"], body["digest"], body["configuration"], self._policies)
        _same("what decides has another digest", body["digest"], machine.digest)
        if number:
            self._load(machine, body["state"])
        _same("the state at the beginning is another one", body["state"], machine.state())
        self.machine, self._configuration = machine, body["configuration"]

    def _load(self, machine: Machine, state: Any) -> None:
        try:
            machine.load(state)
        except REFUSALS as error:
            raise _DifferenceError("this is no state", state, f"{type(error).__name__}: {error}") from None

    def _checkpoint(self, body: Mapping[str, Any]) -> None:
        """An entry from which a log can be begun says what is so anyway."""
        machine = self.machine
        assert machine is not None
        _same("it is another kind of machine", body["kind"], machine.kind)
        _same("something else decides", body["digest"], machine.digest)
        if canonical(body["configuration"]) != canonical(self._configuration):
            other = rebuilt(body["kind"], body["digest"], body["configuration"], self._policies)
            _same("the configuration is another one", other.digest, machine.digest)
            self._configuration = body["configuration"]
        _same("the state is another one", body["state"], machine.state())
        self.operations["checkpoint"] += 1

    def _go_on(self, entry: Mapping[str, Any]) -> None:
        assert self.machine is not None
        body, number = entry["body"], entry["number"]
        if entry["stream"] != self.stream:
            raise _DifferenceError("it belongs to another stream", entry["stream"], self.stream)
        if number != self.number + 1:
            raise _DifferenceError("entries are missing, doubled or out of order", number, self.number + 1)
        self._chained(entry)
        if body.keys() == FIRST:
            self._checkpoint(body)
            return
        _same_fields(body, DONE, "its body")
        _same("something else decided", body["digest"], self.machine.digest)
        given, id_ = body["input"], body["id"]
        if not isinstance(given, Mapping) or not (id_ is None or isinstance(id_, str)):
            raise _DifferenceError("this is no operation", body, "an id and an input")
        if id_ is not None and id_ in self._ids and given.get("op") not in TOLD_BEFORE:
            raise _DifferenceError("a second entry with the same id", id_, "an id is used once")
        try:
            before = self.machine.before(given)
            output = self.machine.apply(given, number)
        except REFUSALS as error:
            raise _DifferenceError("such an operation is refused", given, f"{type(error).__name__}: {error}") from None
        _same("the counters before it are others", body["before"], before)
        _same("the output is another one", body["output"], output)
        if id_ is not None:
            self._ids.add(id_)
        self.operations[str(given.get("op"))] += 1

    def _chained(self, entry: Mapping[str, Any]) -> None:
        if entry["previous"] != self.hash:
            raise _DifferenceError("it is not chained to the entry before it", entry["previous"], self.hash)
        again = link(entry["previous"], entry["stream"], entry["number"], entry["at"], canonical(entry["body"]))
        if entry["hash"] != again:
            raise _DifferenceError("it was changed: its hash is not that of its content", entry["hash"], again)


def replay(entries: Iterable[object], *, policies: Sequence[Policy] = (), head: str | None = None) -> ServiceReplay:
    """Do the log of one stream again, up to the first entry that does not agree.

    Args:
        entries: first to last, as they are exported.
        policies: of shields; one whose policy is not among them is synthesised again from its plan.
        head: the hash of an entry that was noted down before: it must be among them.

    Raises:
        DataError: this is no log.
        OptionError: the shield's policy is in a file that is not given.
    """
    replayer = Replayer(policies, head)
    for entry in entries:
        if not replayer.take(entry):
            break
    return replayer.result()


def read_lines(path: Path) -> Iterator[object]:
    """The lines of a log, each as the JSON value it holds; one that is no JSON as its bytes, which are no entry.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                yield parsed(line)
    except OSError as error:
        raise DataError(f"the log cannot be read: {error.strerror}", where=str(path)) from None


def parsed(line: bytes | str) -> object:
    """The JSON value of a line; the line itself if it is none, or says one thing twice."""
    try:
        return json.loads(line, object_pairs_hook=_once, parse_constant=_refused)
    except (ValueError, RecursionError):
        return line


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _checked(entry: object) -> Mapping[str, Any]:
    """An entry that has all its fields, and of the right types."""
    if not isinstance(entry, Mapping):
        raise _DifferenceError("this line is no JSON object", entry, "one with " + ", ".join(sorted(ENTRY)))
    _same_fields(entry, ENTRY, "the entry")
    types: dict[str, type | tuple[type, ...]] = {
        "stream": str, "number": int, "at": (int, float), "body": Mapping, "previous": str, "hash": str
    }  # fmt: skip
    for name, kind in types.items():
        if not isinstance(entry[name], kind) or isinstance(entry[name], bool):
            raise _DifferenceError(f"its {name} is of the wrong kind", entry[name], "see the format of the log")
    return entry


def _same_fields(given: Mapping[str, Any], wanted: frozenset[str], what: str) -> None:
    if given.keys() != wanted:
        raise _DifferenceError(f"{what} has other fields", ", ".join(sorted(given)), ", ".join(sorted(wanted)))


def _same(what: str, logged: object, found: object) -> None:
    # As texts: for Python, 1, 1.0 and True are equal; for the hash of an entry they are not.
    if canonical(logged) != canonical(found):
        raise _DifferenceError(what, logged, found)


def parting(logged: object, found: object) -> dict[str, str]:
    """What differs, as texts: `logged` and `found`, without what does not."""
    path = []
    while isinstance(logged, Mapping) and isinstance(found, Mapping):
        here, there = ({name: canonical(part) for name, part in one.items()} for one in (logged, found))
        names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
        if len(names) != 1 or names[0] not in here or names[0] not in there:
            logged, found = ({name: one[name] for name in names if name in one} for one in (logged, found))
            break
        path.append(names[0])
        logged, found = logged[names[0]], found[names[0]]
    before = f"{'.'.join(path)}: " if path else ""
    return {"logged": before + _shown(logged), "found": before + _shown(found)}


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace").rstrip("\n")
    else:
        text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
