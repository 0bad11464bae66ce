"""Answers many prompts through a guard, one after the other or several at once, and keeps everything in a folder.

::

    FOLDER/requests.csv   one row per request, in their order, as assessments read it
    FOLDER/state.json     what the enforcer and the generator need to go on
    FOLDER/items/         pictures and texts, by the number of their request

A request is in the folder as a whole or not at all, whenever the work is interrupted: the state is written last, and
rows that it does not know are taken back. Of several at once all are complete before the state is written, and their
rows are in the order of their slots.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from evenhand.core.document import Block, Column, Document, Heading, NextStep, Note, Table, TableRow, Text
from evenhand.core.files import write_atomically
from evenhand.core.text import format_count
from evenhand.core.typing import Progress
from evenhand.errors import DataError, DecisionError, ModelError, OptionError
from evenhand.genai.assessment.evaluation import NAME_SEPARATOR
from evenhand.genai.backends.generator import Generator, Item, Resumable
from evenhand.genai.enforcement.enforcer import Admission, Enforcer, ItemOutcome
from evenhand.genai.enforcement.guard import AnswerStatus, GuardedAnswer
from evenhand.genai.enforcement.supply import ItemValues
from evenhand.genai.pipeline import Pipeline, check_keys
from evenhand.genai.run_directory import CsvTable, open_folder, write_item

MAX_CONSECUTIVE_FAILURES = 5
"""Number of consecutive requests without an item after which the run stops."""

COLUMNS_BEFORE_VALUES = ("request", "prompt", "sent", "conditions", "fixed")
COLUMNS_AFTER_VALUES = ("file", "status", "slots", "attempts", "reason", "revised_prompt", "usage")
"""Columns of ``requests.csv``; the concept groups stand between them."""

ONE_AT_A_TIME = ("diffusers", "recorded")
"""Kinds of generators that threads cannot share."""

FAIL_CONDITIONS = ("violation", "unguarded", "refused", "missed")
"""What a caller may not want to have happened: what a request came to, or a deadline missed."""

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
        outcomes: what the requests of this run came to, those answered earlier included.
        missed: deadlines missed over all rows.
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
    outcomes: Mapping[str, int] = field(default_factory=dict)
    missed: int = 0
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def answered_count(self) -> int:
        """Requests that were answered now."""
        return sum(self.statuses.values())

    @staticmethod
    def check_conditions(conditions: Sequence[str]) -> None:
        """Raise an OptionError where one is none of ``FAIL_CONDITIONS``."""
        for one in conditions:
            if one not in FAIL_CONDITIONS:
                raise OptionError(
                    f"there is no condition {one!r}", location="--fail-on", hint=f"one of: {', '.join(FAIL_CONDITIONS)}"
                )

    def failing(self, conditions: Sequence[str]) -> tuple[str, ...]:
        """Return those of the conditions, ``FAIL_CONDITIONS``, that hold of this run."""
        counts = {**self.outcomes, "missed": self.missed}
        return tuple(one for one in conditions if counts.get(one))

    def document(self, configuration: str = "genai.yaml") -> Document:
        """Return what prompts came to, what that took, and what is guaranteed.

        Args:
            configuration: its file, to be named in the next command.
        """
        blocks: list[Block] = []
        if self.interrupted:
            left = self.requests - self.earlier - self.answered_count
            blocks.append(Note(f"Interrupted with {left:,} left; the same command goes on with them.", "caution"))
        if self.earlier == self.requests:
            blocks.append(
                Note("All of them were answered before, and nothing was asked. --again asks once more.", "info")
            )
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
            "missed": self.missed,
            "reasons": [{"reason": reason, "times": times} for reason, times in self.reasons],
        }


def _guarantee_blocks(guarantee: str) -> Iterator[Text]:
    """Yield what is guaranteed: of each line that is not indented a text, with the lines below it."""
    head = ""
    items: list[str] = []
    for line in guarantee.split("\n"):
        if line.startswith(" "):
            items.append(line.strip())
            continue
        if head:
            yield Text(head, tuple(items))
        head, items = line, []
    if head:
        yield Text(head, tuple(items))


def generate_items(
    pipeline: Pipeline,
    prompts: Sequence[str],
    folder: Path | str,
    *,
    in_flight: int = 1,
    again: bool = False,
    progress: Progress | None = None,
) -> GenerationRun:
    """Answer prompts through a guard, and keep the items in a folder.

    Where the folder holds earlier requests, their deadlines go on. Where an earlier call had the same prompts, or the
    first of them, only those that it left are answered, if any; KeyboardInterrupt may be why it left them, and is not
    raised once something was answered.

    Args:
        pipeline: generator, classifier and judge, with their configuration.
        prompts: in their order; the same prompt may be there again.
        folder: is made if it is not there.
        in_flight: how many are answered at once, each in a thread; the next ones wait until all of these are complete.
        again: whether prompts that were all answered before are answered once more.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: there are no prompts, a key is not set, the generator makes one item at a time, or the folder
            cannot be used.
        DataError: what is in the folder cannot be gone on with.
        ModelError: several requests in a row came to nothing. What was made before is kept.
    """
    if not prompts:
        raise OptionError("there are no prompts", hint="give one or more")
    configuration = pipeline.configuration
    kind = None if configuration.generator is None else configuration.generator.kind
    if in_flight < 1 or (in_flight > 1 and kind in ONE_AT_A_TIME):
        raise OptionError(
            f"expected 1 or more in flight, got {in_flight}" if in_flight < 1 else f"{kind} makes one item at a time",
            location="--in-flight",
            hint="leave it out, or write 1",
        )
    check_keys(configuration)
    enforcer = Enforcer(configuration, mode=configuration.guard.mode, in_flight=in_flight)
    kept = _RunDirectory.open(Path(folder), list(configuration.values), enforcer)
    counted = _CountingGenerator(pipeline.generator)
    if isinstance(pipeline.generator, Resumable):
        pipeline.generator.resume(kept.made)
    earlier = kept.begin(prompts, again=again)
    interrupted = False
    done, in_vain = earlier, 0
    try:
        for start in range(earlier, len(prompts), in_flight):
            before = counted.made
            answered = _answer_together(pipeline, enforcer, counted, prompts[start : start + in_flight])
            kept.keep(answered, enforcer, made=counted.made - before, done=start + len(answered))
            done = start + len(answered)
            for _prompt, answer in answered:
                in_vain = 0 if answer.item is not None else in_vain + 1
                if in_vain == MAX_CONSECUTIVE_FAILURES:
                    raise ModelError(
                        f"{in_vain} requests in a row came to nothing, the last because {answer.reason}",
                        hint="what was made before is kept; the same command goes on after it",
                    )
            if progress is not None:
                progress("answering prompts", done / len(prompts))
    except KeyboardInterrupt:
        if done == earlier:
            raise
        interrupted = True
        kept.read()
    all_rows = kept.rows_of_run()
    rows = all_rows[earlier:]
    statuses = Counter(row["status"] for row in rows)
    reasons = Counter(row["reason"] for row in rows if row["reason"])
    return GenerationRun(
        requests=len(prompts),
        earlier=earlier,
        statuses={status: statuses[status] for status in STATUSES},
        items=sum(row["file"] != "" for row in rows),
        changed=sum(row["sent"] != row["prompt"] for row in rows),
        calls=counted.calls,
        interrupted=interrupted,
        table=kept.table.path,
        rows=kept.rows,
        guarantee=enforcer.guarantee(),
        outcomes=Counter(row["status"] for row in all_rows),
        missed=sum(one["missed"] for one in enforcer.counts.values()),
        reasons=tuple(reasons.most_common(5)),
    )


class _CountingGenerator:
    """A generator whose calls and items are counted; threads may share it."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._lock = Lock()
        self.calls = self.made = 0

    def generate(self, prompt: str) -> Item:
        with self._lock:
            self.calls += 1
        item = self._generator.generate(prompt)
        with self._lock:
            self.made += 1
        return item


def _answer_together(
    pipeline: Pipeline, enforcer: Enforcer, generator: Generator, prompts: Sequence[str]
) -> list[tuple[str, GuardedAnswer]]:
    """Return prompts and their answers in the order of their slots, once all of them are complete."""
    lock, places = Lock(), count()
    recorders = [_SlotRecorder(enforcer, lock, places) for _ in prompts]
    guards = [pipeline.guard(recorder, generator=generator) for recorder in recorders]
    if len(prompts) == 1:
        return [(prompts[0], guards[0].answer(prompts[0]))]
    pool = ThreadPoolExecutor(len(prompts), thread_name_prefix="evenhand-generate")
    try:
        answers = list(pool.map(lambda guard, prompt: guard.answer(prompt), guards, prompts))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    # A request that was never admitted has no slot, and stands behind those that have.
    order = sorted(range(len(prompts)), key=lambda k: (recorders[k].place is None, recorders[k].place or 0))
    return [(prompts[k], answers[k]) for k in order]


class _SlotRecorder:
    """Admission store that records the order of the slots of concurrent requests.

    Attributes:
        place: Position of the slot of the request. None if it has none yet.
    """

    def __init__(self, enforcer: Enforcer, lock: Lock, places: Iterator[int]) -> None:
        self._enforcer, self._lock, self._places = enforcer, lock, places
        self.place: int | None = None

    def admit(
        self,
        conditions: Collection[str],
        *,
        fixed: Collection[str] = (),
        prefer: Mapping[str, Sequence[str]] | None = None,
    ) -> Admission:
        with self._lock:
            # Where items are looked at first, their slots are fixed then.
            if self._enforcer.mode == "before":
                self.place = next(self._places)
            return self._enforcer.admit(conditions, fixed=fixed, prefer=prefer)

    def complete(self, admission: Admission, values: ItemValues) -> ItemOutcome:
        return self._settle(partial(self._enforcer.complete, admission, values))

    def fail(self, admission: Admission) -> ItemOutcome:
        return self._settle(partial(self._enforcer.fail, admission))

    def _settle(self, settle: Callable[[], ItemOutcome]) -> ItemOutcome:
        with self._lock:
            self.place = next(self._places) if self.place is None else self.place
            return settle()


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
                kept.table.truncate(0)
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
            self.table.truncate(self.rows)
        return rows

    def begin(self, prompts: Sequence[str], *, again: bool) -> int:
        """Return how many of these prompts were answered before."""
        known, answered = int(self.run.get("requests", 0)), int(self.run.get("answered", 0))
        same = 0 < known <= len(prompts) and self.run.get("prompts") == _digest(prompts[:known])
        if not same or (again and answered == len(prompts)):
            answered = 0
        self.run = {"prompts": _digest(prompts), "requests": len(prompts), "answered": answered}
        return answered

    def rows_of_run(self) -> list[dict[str, str]]:
        """Return the rows of the prompts that are answered now, those answered earlier included."""
        return self.table.rows[self.rows - int(self.run["answered"]) : self.rows]

    def keep(self, answered: Sequence[tuple[str, GuardedAnswer]], enforcer: Enforcer, *, made: int, done: int) -> None:
        """Store requests that are complete: their items and rows, and then the state that refers to them."""
        for prompt, answer in answered:
            self._add(prompt, answer)
            self.rows += 1
        self.made, self.run["answered"] = self.made + made, done
        self._commit_state(enforcer)

    def _add(self, prompt: str, answer: GuardedAnswer) -> None:
        """Store an item, and then its row."""
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

    def _commit_state(self, enforcer: Enforcer) -> None:
        """Write the state, which makes what is in the folder part of it."""
        state = {"rows": self.rows, "made": self.made, "run": self.run, "enforcer": enforcer.state()}
        write_atomically(self.state, f"{json.dumps(state)}\n".encode())


def _digest(prompts: Sequence[str]) -> str:
    return sha256(json.dumps(list(prompts)).encode()).hexdigest()
