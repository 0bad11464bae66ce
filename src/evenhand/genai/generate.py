"""Answers many prompts one after the other through a guard, and keeps everything in a folder.

::

    FOLDER/requests.csv   one row per request, in their order, as assessments read it
    FOLDER/state.json     what the enforcer and the generator need to go on
    FOLDER/items/         pictures and texts, by the number of their request

A request is in the folder as a whole or not at all, whenever the work is interrupted: the state is written last, and
rows that it does not know are taken back.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from evenhand.errors import DataError, DecisionError, ModelError, OptionError
from evenhand.genai.backends import Generator, Item, Resumable
from evenhand.genai.core import Enforcer
from evenhand.genai.guard import Answer, AnswerStatus
from evenhand.genai.live import SUFFIXES
from evenhand.genai.specified import SEPARATOR
from evenhand.genai.workbench import Workbench

Progress: TypeAlias = Callable[[str, float], None]

IN_VAIN = 5
"""Requests in a row without an item; with the last of them the fault is taken for one that stays."""

BEFORE_VALUES = ("request", "prompt", "sent", "conditions", "fixed")
AFTER_VALUES = ("file", "status", "slots", "attempts", "reason")
"""Columns of ``requests.csv``; the concept groups stand between them."""

STATUSES: tuple[AnswerStatus, ...] = ("ok", "violation", "unguarded", "refused")


@dataclass(frozen=True)
class Generated:
    """Prompts that were answered through a guard.

    Attributes:
        requests: that were to be answered now.
        earlier: of these, answered already when the work was interrupted before.
        statuses: how many of the others came to what; see ``Answer``.
        items: that were delivered.
        changed: requests whose prompt was changed.
        calls: of the generator.
        interrupted: whether somebody stopped it.
        table: ``requests.csv``.
        rows: in the table, those of earlier runs included.
        guarantee: what is guaranteed, and what did not hold, over all of these.
        reasons: why requests were not ok, with how often; the most frequent first.
    """

    requests: int
    earlier: int
    statuses: Mapping[AnswerStatus, int]
    items: int
    changed: int
    calls: int
    interrupted: bool
    table: Path
    rows: int
    guarantee: str
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def answered(self) -> int:
        """Requests that were answered now."""
        return sum(self.statuses.values())

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "kind": "genai-generated",
            "requests": self.requests,
            "earlier": self.earlier,
            "answered": self.answered,
            "statuses": dict(self.statuses),
            "items": self.items,
            "changed": self.changed,
            "generator_calls": self.calls,
            "interrupted": self.interrupted,
            "table": str(self.table),
            "rows": self.rows,
            "guarantee": self.guarantee,
            "reasons": [{"reason": reason, "times": times} for reason, times in self.reasons],
        }


def generate(
    workbench: Workbench, prompts: Sequence[str], folder: Path | str, *, progress: Progress | None = None
) -> Generated:
    """Answer prompts one after the other through a guard, and keep the items in a folder.

    Where the folder holds earlier requests, their deadlines go on. Where an earlier call with the same prompts was
    interrupted, only those that it left are answered; KeyboardInterrupt is such an interruption, and is not raised once
    something was answered.

    Args:
        workbench: generator, classifier and judge, with their configuration.
        prompts: in their order; the same prompt may be there again.
        folder: is made if it is not there.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: there are no prompts, or the folder cannot be used.
        DataError: what is in the folder cannot be gone on with.
        ModelError: several requests in a row came to nothing. What was made before is kept.
    """
    if not prompts:
        raise OptionError("there are no prompts", mend="give one or more")
    configuration = workbench.configuration
    enforcer = Enforcer(configuration, mode=configuration.guard.mode, in_flight=1)
    kept = _Kept.open(Path(folder), list(configuration.values), enforcer)
    counted = _Counted(workbench.generator)
    if isinstance(workbench.generator, Resumable):
        workbench.generator.resume(kept.made)
    guard = workbench.guard(enforcer, generator=counted)
    earlier = kept.begin(prompts)
    tally = _Tally()
    interrupted = False
    try:
        for done, prompt in enumerate(prompts[earlier:], start=earlier + 1):
            before = counted.made
            answer = guard.answer(prompt)
            kept.keep(prompt, answer, enforcer, made=counted.made - before, done=done)
            tally.add(answer)
            if progress is not None:
                progress("answering prompts", done / len(prompts))
    except KeyboardInterrupt:
        if not tally.statuses.total():
            raise
        interrupted = True
        kept.read()
    return Generated(
        requests=len(prompts),
        earlier=earlier,
        statuses={status: tally.statuses[status] for status in STATUSES},
        items=tally.items,
        changed=tally.changed,
        calls=counted.calls,
        interrupted=interrupted,
        table=kept.table,
        rows=kept.rows,
        guarantee=enforcer.guarantee(),
        reasons=tuple(tally.reasons.most_common(5)),
    )


class _Counted:
    """A generator whose calls and items are counted."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.calls = self.made = 0

    def generate(self, prompt: str) -> Item:
        self.calls += 1
        item = self._generator.generate(prompt)
        self.made += 1
        return item


class _Tally:
    """What requests came to."""

    def __init__(self) -> None:
        self.statuses: Counter[AnswerStatus] = Counter()
        self.reasons: Counter[str] = Counter()
        self.items = self.changed = self._in_vain = 0

    def add(self, answer: Answer) -> None:
        self.statuses[answer.status] += 1
        self.changed += answer.changed
        self.items += answer.item is not None
        if answer.reason:
            self.reasons[answer.reason] += 1
        self._in_vain = 0 if answer.item is not None else self._in_vain + 1
        if self._in_vain == IN_VAIN:
            raise ModelError(
                f"{IN_VAIN} requests in a row came to nothing, the last because {answer.reason}",
                mend="what was made before is kept; the same command goes on after it",
            )


@dataclass
class _Kept:
    """What a folder holds.

    Attributes:
        folder: the folder.
        groups: in the order of their columns.
        rows: requests in the table.
        made: items that the generator made for them.
        run: of the prompts that are answered now: a digest, how many they are, and how many were answered.
    """

    folder: Path
    groups: Sequence[str]
    rows: int = 0
    made: int = 0
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> Path:
        return self.folder / "requests.csv"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def columns(self) -> list[str]:
        return [*BEFORE_VALUES, *self.groups, *AFTER_VALUES]

    @classmethod
    def open(cls, folder: Path, groups: Sequence[str], enforcer: Enforcer) -> _Kept:
        """The folder, new or as it was left; the enforcer goes on from there."""
        reserved = [group for group in groups if group in (*BEFORE_VALUES, *AFTER_VALUES)]
        if reserved:
            raise OptionError(
                f"the group {reserved[0]!r} has the name of another column of requests.csv",
                where="groups",
                mend="give it another name",
            )
        kept = cls(folder, groups)
        try:
            (folder / "items").mkdir(parents=True, exist_ok=True)
            if kept.state.exists():
                kept._go_on(enforcer)
            elif kept.table.exists() and kept.table.read_bytes() != _line(kept.columns).encode():
                raise OptionError(
                    f"{folder} holds requests without the state to go on with", mend="choose another folder"
                )
            else:
                _write(kept.table, _line(kept.columns).encode())
                kept._know(enforcer)
        except OSError as error:
            raise OptionError(f"{folder} cannot be used: {error.strerror}") from None
        return kept

    def _go_on(self, enforcer: Enforcer) -> None:
        rows = self.read()
        try:
            missing = [name for name in enforcer.state() if name not in rows]
            if missing:
                raise DecisionError(f"nothing is known of the specification {missing[0]!r}", code="state")
            enforcer.restore(rows)
        except DecisionError as error:
            raise DataError(
                error.what,
                where=str(self.state),
                mend="go on with the same configuration, or choose another folder",
            ) from None

    def read(self) -> dict[str, Any]:
        """What the state knows; rows that it does not know of are taken back.

        Returns:
            the enforcer's part of it.

        Raises:
            DataError: it is no state, or the table is not the one that it speaks of.
        """
        try:
            state = json.loads(self.state.read_text("utf-8"))
            self.rows, self.made, self.run = int(state["rows"]), int(state["made"]), dict(state["run"])
            rows: dict[str, Any] = dict(state["enforcer"])
        except (ValueError, TypeError, KeyError):
            raise DataError(
                "this is no state of requests", where=str(self.state), mend="choose another folder"
            ) from None
        try:
            with self.table.open(encoding="utf-8", newline="") as file:
                lines = list(csv.reader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"cannot be read: {error}", where=str(self.table), mend="choose another folder") from None
        if lines[:1] != [self.columns] or len(lines) <= self.rows:
            raise DataError(
                f"this table does not hold the {self.rows} requests with the columns that the state speaks of",
                where=str(self.table),
                mend="choose another folder",
            )
        if len(lines) > self.rows + 1:
            _write(self.table, "".join(map(_line, lines[: self.rows + 1])).encode())
        return rows

    def begin(self, prompts: Sequence[str]) -> int:
        """How many of these prompts were answered before they were interrupted."""
        digest = sha256(json.dumps(list(prompts)).encode()).hexdigest()
        same = self.run.get("prompts") == digest and self.run["answered"] < len(prompts)
        if not same:
            self.run = {"prompts": digest, "requests": len(prompts), "answered": 0}
        return int(self.run["answered"])

    def keep(self, prompt: str, answer: Answer, enforcer: Enforcer, *, made: int, done: int) -> None:
        """One more request: its item first, then its row, and then the state that knows of both."""
        number = self.rows + 1
        file = ""
        if answer.item is not None:
            file = f"items/{number:06d}{SUFFIXES.get(answer.item.media_type, '.bin')}"
            _write(self.folder / file, answer.item.data)
        # An item does not count for a group that its prompt fixes, and so has no value there.
        values = {group: answer.values.get(group) for group in self.groups if group not in answer.fixed}
        row = {
            "request": number,
            "prompt": prompt,
            "sent": answer.prompt,
            "conditions": SEPARATOR.join(sorted(answer.conditions)),
            "fixed": SEPARATOR.join(sorted(answer.fixed)),
            **(values if answer.item is not None else {}),
            "file": file,
            "status": answer.status,
            "slots": f"{SEPARATOR} ".join(f"{name} {slot}" for name, slot in answer.slots.items()),
            "attempts": len(answer.attempts),
            "reason": answer.reason,
        }
        with self.table.open("a", encoding="utf-8", newline="") as table:
            table.write(_line([row.get(name) for name in self.columns]))
            table.flush()
            os.fsync(table.fileno())
        self.rows, self.made, self.run["answered"] = number, self.made + made, done
        self._know(enforcer)

    def _know(self, enforcer: Enforcer) -> None:
        """Write the state, which makes what is in the folder part of it."""
        state = {"rows": self.rows, "made": self.made, "run": self.run, "enforcer": enforcer.state()}
        _write(self.state, f"{json.dumps(state)}\n".encode())


def _line(cells: Sequence[object]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue()


def _write(path: Path, data: bytes) -> None:
    """The whole file, or as it was before."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
