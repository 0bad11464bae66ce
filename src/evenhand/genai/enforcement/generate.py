"""Generation of items for many prompts through a guard, one at a time or concurrently, into a folder.

::

    FOLDER/requests.csv   one row per request, which assessments read
    FOLDER/state.json     state of the enforcer and of the generator
    FOLDER/items/         pictures and texts, named by the number of their request

A request is stored completely or not at all if the run is interrupted: the state is written last, and rows that it does
not contain are removed. Concurrent requests are all completed before the state is written, and their rows are in the
order of their slots.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from pydantic import Field, computed_field

from evenhand.core.document import Block, Column, Document, Heading, NextStep, Note, Table, TableRow, Text
from evenhand.core.files import write_atomically
from evenhand.core.result_part import ResultPart
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
from evenhand.genai.spec.entries import check_known
from evenhand.genai.spec.pipeline_config import DiffusersGeneratorConfig

MAX_CONSECUTIVE_FAILURES = 5
"""Number of consecutive requests without an item after which the run stops."""

COLUMNS_BEFORE_VALUES = ("request", "prompt", "sent", "conditions", "fixed")
COLUMNS_AFTER_VALUES = ("file", "status", "slots", "attempts", "reason", "revised_prompt", "usage")
"""Columns of ``requests.csv`` before and after those of the concept groups."""

FAIL_CONDITIONS = ("violation", "unguarded", "refused", "missed")
"""Conditions of ``--fail-on``: statuses of requests, or a missed deadline."""

STATUSES: Mapping[AnswerStatus, str] = {
    "ok": "no deadline at risk",
    "violation": "delivered if there was an item; an assumption is broken",
    "unguarded": "delivered, but its conditions or values are unknown",
    "refused": "there is no item",
}
"""Description of each status."""


class ReasonCount(ResultPart):
    """Reason for a status other than ok, and how often it occurred."""

    reason: str
    times: int


class GenerationRun(ResultPart):
    """Prompts that were answered through a guard.

    Attributes:
        requests: Number of prompts.
        earlier: Number of prompts that were answered before an interruption.
        statuses: Number of other requests by status. See ``GuardedAnswer``.
        items: Number of delivered items.
        changed: Number of requests whose prompt was changed.
        generator_calls: Number of calls of the generator.
        interrupted: Whether the run was interrupted.
        table: Path of ``requests.csv``.
        rows: Number of rows in the table, including earlier runs.
        outcomes: Number of requests of this run by status, including those answered earlier.
        missed: Number of missed deadlines over all rows.
        guarantee: Description of the guarantee over all rows.
        reasons: Most frequent reasons for other statuses than ok.
    """

    kind: Literal["genai-generated"] = "genai-generated"
    requests: int
    earlier: int
    statuses: Mapping[AnswerStatus, int]
    items: int
    changed: int
    generator_calls: int
    interrupted: bool
    table: Path
    rows: int
    outcomes: Mapping[str, int] = Field(exclude=True)
    missed: int
    guarantee: str
    reasons: tuple[ReasonCount, ...]

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented use
    @property
    def answered(self) -> int:
        """Number of requests that were answered in this run."""
        return sum(self.statuses.values())

    @staticmethod
    def check_conditions(conditions: Sequence[str]) -> None:
        """Raise an OptionError if a condition is not in ``FAIL_CONDITIONS``."""
        for condition in conditions:
            check_known(condition, FAIL_CONDITIONS, "condition", "--fail-on")

    def failing(self, conditions: Sequence[str]) -> tuple[str, ...]:
        """Select the conditions of ``FAIL_CONDITIONS`` that hold."""
        counts = {**self.outcomes, "missed": self.missed}
        return tuple(condition for condition in conditions if counts.get(condition))

    def document(self, configuration: str = "genai.yaml") -> Document:
        """Describe the outcomes, the cost and the guarantee, and name the file of the configuration."""
        blocks: list[Block] = []
        if self.interrupted:
            left = self.requests - self.earlier - self.answered
            blocks.append(Note(f"Interrupted with {left:,} left. Repeat the command to continue.", "caution"))
        if self.earlier == self.requests:
            blocks.append(Note("All prompts were answered before. Use --again to answer them again.", "info"))
        rows: list[tuple[str, int, str]] = [
            (status, number, STATUSES[status]) for status, number in self.statuses.items() if number
        ]
        rows += [("prompts changed", self.changed, ""), ("generator calls", self.generator_calls, "")]
        columns = (Column("outcome"), Column("requests", numeric=True), Column("meaning"))
        blocks.append(Table("Outcomes of requests, counted", columns, tuple(map(TableRow, rows))))
        blocks += [Heading("Guarantee"), *_guarantee_blocks(self.guarantee)]
        if self.reasons:
            reasons = tuple(f"{entry.reason} ({format_count(entry.times, 'time', 'times')})" for entry in self.reasons)
            blocks.append(Text("Not ok because:", reasons))
        blocks.append(NextStep("assess them", f"evenhand genai assess {self.table} --config {configuration}"))
        earlier = f"{self.earlier:,} of {self.requests:,} were answered before; this run continued from there."
        return Document(
            f"{format_count(self.answered, 'request', 'requests')} answered through a guard",
            earlier if self.earlier else "",
            tuple(blocks),
            brand="Evenhand, generative AI",
        )


def _guarantee_blocks(guarantee: str) -> Iterator[Text]:
    """Yield each unindented line of a guarantee together with the indented lines below it."""
    for paragraph in re.split(r"\n(?! )", guarantee):
        head, *lines = paragraph.split("\n")
        yield Text(head, tuple(line.strip() for line in lines))


def generate_items(
    pipeline: Pipeline,
    prompts: Sequence[str],
    folder: Path | str,
    *,
    in_flight: int = 1,
    again: bool = False,
    progress: Progress | None = None,
) -> GenerationRun:
    """Answer prompts through a guard, and store the items in a folder.

    Deadlines continue those of earlier requests in the folder. If an earlier call had the same prompts, or the first of
    them, only its unanswered prompts are answered. A KeyboardInterrupt is not raised once a request has been answered.

    Args:
        pipeline: Generator, classifier and judge, with their configuration.
        prompts: Prompts in order, possibly repeated.
        folder: Folder, which is created if necessary.
        in_flight: Number of concurrent requests, each in a thread. The next requests start when all of these are
            complete.
        again: Whether to answer the prompts again if all were answered before.
        progress: Function called with a description and the completed fraction.

    Raises:
        OptionError: There are no prompts, a key is not set, the generator does not support concurrent requests, or the
            folder is not usable.
        DataError: The folder contains an invalid state.
        ModelError: Several consecutive requests failed. Earlier items are kept.
    """
    if not prompts:
        raise OptionError("there are no prompts", hint="give one or more")
    configuration = pipeline.configuration
    # Items of this generator depend on their order.
    ordered = isinstance(configuration.generator, DiffusersGeneratorConfig)
    if in_flight < 1 or (in_flight > 1 and ordered):
        raise OptionError(
            f"expected {'1 for this generator' if ordered else '1 or more'} in flight, got {in_flight}",
            location="--in-flight",
            hint="omit it, or write 1",
        )
    check_keys(configuration)
    enforcer = Enforcer(configuration, mode=configuration.guard.mode, in_flight=in_flight)
    directory = _RunDirectory(Path(folder), list(configuration.values), enforcer)
    generator = _CountingGenerator(pipeline.generator)
    if isinstance(pipeline.generator, Resumable):
        pipeline.generator.resume(directory.generated)
    earlier = completed = directory.begin(prompts, again=again)
    interrupted = False
    failures = 0
    try:
        for start in range(earlier, len(prompts), in_flight):
            generated_before = generator.generated
            answers = _answer_together(pipeline, enforcer, generator, prompts[start : start + in_flight])
            directory.store(answers, generated=generator.generated - generated_before, answered=start + len(answers))
            completed = start + len(answers)
            for _, answer in answers:
                failures = 0 if answer.item is not None else failures + 1
                if failures == MAX_CONSECUTIVE_FAILURES:
                    raise ModelError(
                        f"{failures} consecutive requests failed, the last because {answer.reason}",
                        hint="earlier items are kept; repeat the command to continue",
                    )
            if progress is not None:
                progress("answering prompts", completed / len(prompts))
    except KeyboardInterrupt:
        if completed == earlier:
            raise
        interrupted = True
        directory.read()
    all_rows = directory.rows_of_run()
    rows = all_rows[earlier:]
    statuses = Counter(row["status"] for row in rows)
    return GenerationRun(
        requests=len(prompts),
        earlier=earlier,
        statuses={status: statuses[status] for status in STATUSES},
        items=sum(row["file"] != "" for row in rows),
        changed=sum(row["sent"] != row["prompt"] for row in rows),
        generator_calls=generator.calls,
        interrupted=interrupted,
        table=directory.table.path,
        rows=len(directory.table.rows),
        outcomes=dict(Counter(row["status"] for row in all_rows)),
        missed=sum(counts["missed"] for counts in enforcer.counts.values()),
        guarantee=enforcer.guarantee(),
        reasons=tuple(
            ReasonCount(reason=reason, times=times)
            for reason, times in Counter(row["reason"] for row in rows if row["reason"]).most_common(5)
        ),
    )


class _CountingGenerator:
    """Generator whose calls and items are counted. Threads may share it."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._lock = Lock()
        self.calls = self.generated = 0

    def generate(self, prompt: str) -> Item:
        with self._lock:
            self.calls += 1
        item = self._generator.generate(prompt)
        with self._lock:
            self.generated += 1
        return item


def _answer_together(
    pipeline: Pipeline, enforcer: Enforcer, generator: Generator, prompts: Sequence[str]
) -> list[tuple[str, GuardedAnswer]]:
    """Answer prompts concurrently, and return them with their answers in slot order."""
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
    # Requests that were never admitted have no slot, and come last.
    order = sorted(range(len(prompts)), key=lambda k: recorders[k].place)
    return [(prompts[k], answers[k]) for k in order]


class _SlotRecorder:
    """Admission store that records the order of the slots of concurrent requests.

    Attributes:
        place: Position of the slot of the request. Infinite if it has none yet.
    """

    def __init__(self, enforcer: Enforcer, lock: Lock, places: Iterator[int]) -> None:
        self._enforcer, self._lock, self._places = enforcer, lock, places
        self.place = inf

    def admit(self, conditions: Collection[str], *, fixed: Collection[str] = ()) -> Admission:
        with self._lock:
            # In mode ``after``, slots are fixed when items are complete.
            if self._enforcer.mode == "before":
                self.place = next(self._places)
            return self._enforcer.admit(conditions, fixed=fixed)

    def complete(self, admission: Admission, values: ItemValues | None) -> ItemOutcome:
        with self._lock:
            self.place = next(self._places) if self.place == inf else self.place
            return self._enforcer.complete(admission, values)


class _RunDirectory:
    """Folder of a run, with the state of its enforcer. An existing run is continued.

    Attributes:
        table: ``requests.csv``.
        generated: Number of items that were generated for them.
    """

    def __init__(self, folder: Path, groups: Sequence[str], enforcer: Enforcer) -> None:
        self._folder, self._groups, self._enforcer = folder, groups, enforcer
        self._state = folder / "state.json"
        # Digest and number of the prompts of the current run, and the number of answered ones.
        self._run: dict[str, Any] = {}
        self.generated = 0
        names = [*COLUMNS_BEFORE_VALUES, *groups, *COLUMNS_AFTER_VALUES]
        with open_folder(folder, names):
            self.table = CsvTable(folder / "requests.csv", names)
            if self._state.exists():
                self._restore(self.read())
            elif self.table.rows:
                raise OptionError(f"{folder} contains requests without their state", hint="choose another folder")
            else:
                self.table.truncate(0)
                self._write_state()

    def _restore(self, rows: Mapping[str, Any]) -> None:
        try:
            for name in self._enforcer.state():
                if name not in rows:
                    raise DecisionError(f"the specification {name!r} is not in the state", code="state")
            self._enforcer.restore(rows)
        except DecisionError as error:
            hint = "use the same configuration, or choose another folder"
            raise DataError(error.message, location=str(self._state), hint=hint) from None

    def read(self) -> dict[str, Any]:
        """Read the state, remove rows that it does not contain, and return the state of the enforcer."""
        try:
            state = json.loads(self._state.read_text("utf-8"))
            number, self.generated, self._run = int(state["rows"]), int(state["made"]), dict(state["run"])
            enforcer: dict[str, Any] = dict(state["enforcer"])
        except (ValueError, TypeError, KeyError):
            raise DataError(
                "expected the state of a run", location=str(self._state), hint="choose another folder"
            ) from None
        if len(self.table.rows) < number:
            raise DataError(
                f"this table does not contain the {number} requests of the state",
                location=str(self.table.path),
                hint="choose another folder",
            )
        if len(self.table.rows) > number:
            self.table.truncate(number)
        return enforcer

    def begin(self, prompts: Sequence[str], *, again: bool) -> int:
        """Start or continue a run, and return the number of prompts that were answered before."""
        number, answered = int(self._run.get("requests", 0)), int(self._run.get("answered", 0))
        same = 0 < number <= len(prompts) and self._run.get("prompts") == _digest(prompts[:number])
        if not same or (again and answered == len(prompts)):
            answered = 0
        self._run = {"prompts": _digest(prompts), "requests": len(prompts), "answered": answered}
        return answered

    def rows_of_run(self) -> list[dict[str, str]]:
        """Return the rows of the current run, including prompts answered earlier."""
        return self.table.rows[len(self.table.rows) - int(self._run["answered"]) :]

    def store(self, answers: Sequence[tuple[str, GuardedAnswer]], *, generated: int, answered: int) -> None:
        """Store complete requests: their items and rows, and then the state that contains them."""
        for prompt, answer in answers:
            self.table.append(self._row(prompt, answer))
        self.generated, self._run["answered"] = self.generated + generated, answered
        self._write_state()

    def _row(self, prompt: str, answer: GuardedAnswer) -> dict[str, object]:
        """Store the item of a request, and build its row."""
        number = len(self.table.rows) + 1
        row: dict[str, object] = {
            "request": number,
            "prompt": prompt,
            "sent": answer.prompt,
            "conditions": NAME_SEPARATOR.join(sorted(answer.conditions)),
            "fixed": NAME_SEPARATOR.join(sorted(answer.fixed)),
            "status": answer.status,
            "slots": f"{NAME_SEPARATOR} ".join(f"{name} {slot}" for name, slot in answer.slots.items()),
            "attempts": len(answer.attempts),
            "reason": answer.reason,
        }
        item = answer.item
        if item is not None:
            row["file"] = write_item(self._folder, f"{number:06d}", item)
            row["revised_prompt"] = item.revised_prompt
            row["usage"] = json.dumps(item.usage) if item.usage else ""
            # An item does not count for a group that its prompt fixes, so it has no value there.
            row |= {group: answer.values.get(group) for group in self._groups if group not in answer.fixed}
        return row

    def _write_state(self) -> None:
        """Write the state, which makes the stored requests part of the run."""
        number, enforcer = len(self.table.rows), self._enforcer.state()
        state = {"rows": number, "made": self.generated, "run": self._run, "enforcer": enforcer}
        write_atomically(self._state, f"{json.dumps(state)}\n".encode())


def _digest(prompts: Sequence[str]) -> str:
    return sha256(json.dumps(list(prompts)).encode()).hexdigest()
