"""Answers many prompts one after the other through a guard, and keeps everything in a folder.

::

    FOLDER/requests.csv   one row per request, in their order, as assessments read it
    FOLDER/state.json     what the enforcer and the generator need to go on
    FOLDER/items/         pictures and texts, by the number of their request

A request is in the folder as a whole or not at all, whenever the work is interrupted: the state is written last, and
rows that it does not know are taken back.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from evenhand.core import Block, Column, Document, Heading, NextStep, Note, Table, TableRow, Text
from evenhand.errors import DataError, DecisionError, ModelError, OptionError
from evenhand.files import write_atomically
from evenhand.genai.assessment.evaluation import NAME_SEPARATOR
from evenhand.genai.backends.generator import Generator, Item, Resumable
from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.enforcement.guard import AnswerStatus, GuardedAnswer
from evenhand.genai.pipeline import Pipeline
from evenhand.genai.run_directory import CsvTable, open_folder, write_item
from evenhand.text import format_count
from evenhand.typing import Progress

MAX_VAIN_ANSWERS = 5
"""Requests in a row without an item; with the last of them the fault is taken for one that stays."""

COLUMNS_BEFORE_VALUES = ("request", "prompt", "sent", "conditions", "fixed")
COLUMNS_AFTER_VALUES = ("file", "status", "slots", "attempts", "reason", "revised_prompt", "usage")
"""Columns of ``requests.csv``; the concept groups stand between them."""

STATUSES: Mapping[AnswerStatus, str] = {
    "ok": "no deadline at risk",
    "violation": "delivered if there was an item; an assumption is broken",
    "unguarded": "delivered without knowing what the item counts for or shows",
    "refused": "there is no item",
}
"""What requests come to, in words."""


@dataclass(frozen=True)
class GenerationRun:
    """Prompts that were answered through a guard.

    Attributes:
        requests: that were to be answered now.
        earlier: of these, answered already when the work was interrupted before.
        statuses: how many of the others came to what; see ``GuardedAnswer``.
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
    def answered_count(self) -> int:
        """Requests that were answered now."""
        return sum(self.statuses.values())

    def document(self, configuration: str = "genai.yaml") -> Document:
        """Return what prompts came to, what that took, and what is guaranteed.

        Args:
            configuration: its file, to be named in the next command.
        """
        blocks: list[Block] = []
        if self.interrupted:
            left = self.requests - self.earlier - self.answered_count
            blocks.append(Note(f"Interrupted with {left:,} left; the same command goes on with them.", "caution"))
        rows: list[tuple[str, int, str]] = [
            (status, self.statuses[status], said) for status, said in STATUSES.items() if self.statuses[status]
        ]
        rows += [("prompts changed", self.changed, ""), ("generator calls", self.calls, "")]
        columns = (Column("outcome"), Column("requests", numeric=True), Column("what it is"))
        blocks.append(Table("What requests came to, counted", columns, tuple(TableRow(row) for row in rows)))
        blocks += [Heading("What is guaranteed"), *_guarantee_blocks(self.guarantee)]
        if self.reasons:
            reasons = tuple(f"{reason} ({format_count(times, 'time', 'times')})" for reason, times in self.reasons)
            blocks.append(Text("Not ok because:", reasons))
        blocks.append(NextStep("assess them", f"evenhand genai assess {self.table} --config {configuration}"))
        earlier = f"{self.earlier:,} of {self.requests:,} were answered before; this run went on from there."
        return Document(
            f"{format_count(self.answered_count, 'request', 'requests')} answered through a guard",
            earlier if self.earlier else "",
            tuple(blocks),
            brand="Evenhand, generative AI",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "kind": "genai-generated",
            "requests": self.requests,
            "earlier": self.earlier,
            "answered": self.answered_count,
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


def _guarantee_blocks(guarantee: str) -> Iterator[Text]:
    """Yield what is guaranteed: of each line that is not indented a text, with the lines below it."""
    head = ""
    items: list[str] = []
    for line in guarantee.splitlines():
        if line.startswith(" "):
            items.append(line.strip())
            continue
        if head:
            yield Text(head, tuple(items))
        head, items = line, []
    if head:
        yield Text(head, tuple(items))


def generate_items(
    pipeline: Pipeline, prompts: Sequence[str], folder: Path | str, *, progress: Progress | None = None
) -> GenerationRun:
    """Answer prompts one after the other through a guard, and keep the items in a folder.

    Where the folder holds earlier requests, their deadlines go on. Where an earlier call with the same prompts was
    interrupted, only those that it left are answered; KeyboardInterrupt is such an interruption, and is not raised once
    something was answered.

    Args:
        pipeline: generator, classifier and judge, with their configuration.
        prompts: in their order; the same prompt may be there again.
        folder: is made if it is not there.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: there are no prompts, or the folder cannot be used.
        DataError: what is in the folder cannot be gone on with.
        ModelError: several requests in a row came to nothing. What was made before is kept.
    """
    if not prompts:
        raise OptionError("there are no prompts", hint="give one or more")
    configuration = pipeline.configuration
    enforcer = Enforcer(configuration, mode=configuration.guard.mode, in_flight=1)
    kept = _RunDirectory.open(Path(folder), list(configuration.values), enforcer)
    counted = _CountingGenerator(pipeline.generator)
    if isinstance(pipeline.generator, Resumable):
        pipeline.generator.resume(kept.made)
    guard = pipeline.guard(enforcer, generator=counted)
    earlier = kept.begin(prompts)
    tally = _StatusCounts()
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
    return GenerationRun(
        requests=len(prompts),
        earlier=earlier,
        statuses={status: tally.statuses[status] for status in STATUSES},
        items=tally.items,
        changed=tally.changed,
        calls=counted.calls,
        interrupted=interrupted,
        table=kept.table.path,
        rows=kept.rows,
        guarantee=enforcer.guarantee(),
        reasons=tuple(tally.reasons.most_common(5)),
    )


class _CountingGenerator:
    """A generator whose calls and items are counted."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.calls = self.made = 0

    def generate(self, prompt: str) -> Item:
        self.calls += 1
        item = self._generator.generate(prompt)
        self.made += 1
        return item


class _StatusCounts:
    """What requests came to."""

    def __init__(self) -> None:
        self.statuses: Counter[AnswerStatus] = Counter()
        self.reasons: Counter[str] = Counter()
        self.items = self.changed = self._in_vain = 0

    def add(self, answer: GuardedAnswer) -> None:
        self.statuses[answer.status] += 1
        self.changed += answer.changed
        self.items += answer.item is not None
        if answer.reason:
            self.reasons[answer.reason] += 1
        self._in_vain = 0 if answer.item is not None else self._in_vain + 1
        if self._in_vain == MAX_VAIN_ANSWERS:
            raise ModelError(
                f"{MAX_VAIN_ANSWERS} requests in a row came to nothing, the last because {answer.reason}",
                hint="what was made before is kept; the same command goes on after it",
            )


@dataclass
class _RunDirectory:
    """What a folder holds.

    Attributes:
        folder: the folder.
        groups: in the order of their columns.
        table: ``requests.csv``.
        rows: requests in the table.
        made: items that the generator made for them.
        run: of the prompts that are answered now: a digest, how many they are, and how many were answered.
    """

    folder: Path
    groups: Sequence[str]
    table: CsvTable
    rows: int = 0
    made: int = 0
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @classmethod
    def open(cls, folder: Path, groups: Sequence[str], enforcer: Enforcer) -> _RunDirectory:
        """Return the folder, new or as it was left; the enforcer goes on from there."""
        names = [*COLUMNS_BEFORE_VALUES, *groups, *COLUMNS_AFTER_VALUES]
        try:
            open_folder(folder, names)
            kept = cls(folder, groups, CsvTable(folder / "requests.csv", names))
            if kept.state.exists():
                kept._go_on(enforcer)
            elif kept.table.rows:
                raise OptionError(
                    f"{folder} holds requests without the state to go on with", hint="choose another folder"
                )
            else:
                kept.table.take_back(0)
                kept._commit_state(enforcer)
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
                error.message,
                location=str(self.state),
                hint="go on with the same configuration, or choose another folder",
            ) from None

    def read(self) -> dict[str, Any]:
        """Return what the state knows; rows that it does not know of are taken back.

        Returns:
            the enforcer's part of it.

        Raises:
            DataError: it is not a state, or the table is not the one that it speaks of.
        """
        try:
            state = json.loads(self.state.read_text("utf-8"))
            self.rows, self.made, self.run = int(state["rows"]), int(state["made"]), dict(state["run"])
            rows: dict[str, Any] = dict(state["enforcer"])
        except (ValueError, TypeError, KeyError):
            raise DataError(
                "this is not a state of requests", location=str(self.state), hint="choose another folder"
            ) from None
        if len(self.table.rows) < self.rows:
            raise DataError(
                f"this table does not hold the {self.rows} requests that the state speaks of",
                location=str(self.table.path),
                hint="choose another folder",
            )
        if len(self.table.rows) > self.rows:
            self.table.take_back(self.rows)
        return rows

    def begin(self, prompts: Sequence[str]) -> int:
        """Return how many of these prompts were answered before they were interrupted."""
        digest = sha256(json.dumps(list(prompts)).encode()).hexdigest()
        same = self.run.get("prompts") == digest and self.run["answered"] < len(prompts)
        if not same:
            self.run = {"prompts": digest, "requests": len(prompts), "answered": 0}
        return int(self.run["answered"])

    def keep(self, prompt: str, answer: GuardedAnswer, enforcer: Enforcer, *, made: int, done: int) -> None:
        """Store one more request: its item first, then its row, then the state that refers to both."""
        number = self.rows + 1
        file = ""
        if answer.item is not None:
            file = write_item(self.folder, f"{number:06d}", answer.item)
        # An item does not count for a group that its prompt fixes, and so has no value there.
        values = {group: answer.values.get(group) for group in self.groups if group not in answer.fixed}
        row = {
            "request": number,
            "prompt": prompt,
            "sent": answer.prompt,
            "conditions": NAME_SEPARATOR.join(sorted(answer.conditions)),
            "fixed": NAME_SEPARATOR.join(sorted(answer.fixed)),
            **(values if answer.item is not None else {}),
            "file": file,
            "status": answer.status,
            "slots": f"{NAME_SEPARATOR} ".join(f"{name} {slot}" for name, slot in answer.slots.items()),
            "attempts": len(answer.attempts),
            "reason": answer.reason,
            "revised_prompt": "" if answer.item is None else answer.item.revised_prompt,
            "usage": json.dumps(answer.item.usage) if answer.item is not None and answer.item.usage else "",
        }
        self.table.append(row)
        self.rows, self.made, self.run["answered"] = number, self.made + made, done
        self._commit_state(enforcer)

    def _commit_state(self, enforcer: Enforcer) -> None:
        """Write the state, which makes what is in the folder part of it."""
        state = {"rows": self.rows, "made": self.made, "run": self.run, "enforcer": enforcer.state()}
        write_atomically(self.state, f"{json.dumps(state)}\n".encode())
