"""Ask a generator, look at what it makes, and keep all of it in a folder, so that nothing is asked for twice.

::

    FOLDER/about.json        what the items were made with, and for which prompts
    FOLDER/sequence.csv      one row per request, in their order
    FOLDER/repetitions.csv   rows of prompts that were repeated to see what they fix
    FOLDER/items/            pictures and texts
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.genai.assessment import GenaiAssessment
from evenhand.genai.backends import Resumable
from evenhand.genai.inherent import How, Labels, PromptBias, Terms, estimate, judge_prompts, judged
from evenhand.genai.specified import SEPARATOR, Columns, assess_specified, groups_of, read_specified
from evenhand.stats import bonferroni

if TYPE_CHECKING:
    from evenhand.genai.workbench import Workbench

Progress: TypeAlias = Callable[[str, float], None]
Row: TypeAlias = dict[str, str]

TOLERATED = 3
"""Requests in a row that may fail; with the next the fault is not taken for one of a prompt."""

SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "image/svg+xml": ".svg",
    "text/plain": ".txt",
}


def assess_live(
    workbench: Workbench,
    prompts: Sequence[str],
    *,
    requests: int,
    folder: str | Path,
    inherent: How | None = None,
    terms: Terms | None = None,
    ways: int | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> GenaiAssessment:
    """Ask a generator as it is, with no guard, and judge what it answers by its configuration.

    The prompts are sent in turn, one after the other, so that each is answered about equally often. What is made is
    kept in the folder at once. The same call goes on where an earlier one was interrupted, and asks for nothing that is
    there; with more ``requests`` it adds to them.

    Args:
        workbench: generator, classifier and judge, with their configuration.
        prompts: what is asked, at least one; each once.
        requests: how many items.
        folder: where they are kept; it is made if it is not there.
        inherent: whether the items of neutral prompts are judged by themselves too, and how it is known which these
            are: by the judge, or by repeating prompts.
        terms: of estimates.
        ways, confidence: as in ``assess_specified``.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: no prompt asks for a condition, a number is out of range, or the folder holds the items of other
            prompts or models.
        EvenhandError: several requests in a row failed. What was made is kept.
    """
    started = time.perf_counter()
    plan = list(dict.fromkeys(prompts))
    if not plan or requests < 1 or not all(prompt.strip() for prompt in plan):
        raise OptionError("nothing is asked of the generator", mend="give one prompt or more, and requests: 1 or more")
    # Nothing that the generator makes is to be paid for by somebody who then learns that the question made no sense.
    bonferroni(confidence, 1)
    for condition, groups in groups_of(workbench.configuration).items():
        if ways is not None and ways > len(groups):
            raise OptionError(f"combinations of {ways} groups, and {condition} is about {', '.join(groups)}")
    conditions = {prompt: workbench.judge.conditions(prompt) for prompt in plan}
    if not any(conditions.values()):
        known = ", ".join(condition.name for condition in workbench.configuration.conditions)
        raise OptionError(
            f"no prompt asks for a condition: {', '.join(plan[:3])}",
            mend=f"conditions: {known}; see their keywords, or the judge",
        )
    kept = Kept.open(Path(folder), workbench, plan)
    fixed = judge_prompts(workbench.judge, plan)
    maker = _Maker(workbench, kept, {prompt: (conditions[prompt], fixed[prompt]) for prompt in plan})
    terms = terms or Terms()
    interrupted = False
    bias: PromptBias | None = None
    try:
        while (done := len(kept.sequence.rows)) < requests:
            maker.make(plan[done % len(plan)], kept.sequence)
            if progress is not None:
                progress("asking the generator", (done + 1) / requests)
        if inherent == "estimated":
            bias = estimate(
                kept.answered(plan),
                workbench.configuration.values,
                terms=terms,
                draw=lambda prompt: maker.make(prompt, kept.repetitions),
                progress=progress,
            )
    except KeyboardInterrupt:
        if not kept.sequence.rows:
            raise
        interrupted = True
    answered = kept.answered(plan)
    if inherent == "judged":
        bias = judged(answered, workbench.configuration.values, fixed, terms=terms)
    elif inherent == "estimated" and bias is None:
        bias = estimate(answered, workbench.configuration.values, terms=terms)
    found = read_specified(kept.sequence.path, workbench.configuration, Columns(conditions="conditions"))
    failed = sum(bool(row["error"]) for row in kept.sequence.rows)
    result = assess_specified(
        found,
        workbench.configuration,
        prompts=bias,
        ways=ways,
        confidence=confidence,
        source=f"{len(kept.sequence.rows):,} requests" + (f", {failed:,} of which failed" if failed else ""),
        interrupted=interrupted,
    )
    return result.model_copy(update={"seconds": time.perf_counter() - started})


class Table:
    """Rows in a CSV file, each written as soon as it is there.

    A row that was cut off, and requests at the end that failed, are taken back when the file is opened again.

    Args:
        path: the file.
        names: its columns.

    Raises:
        DataError: the file cannot be read, or has other columns.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self._names = list(names)
        self.rows: list[Row] = []
        try:
            text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from None
        lines = list(csv.reader(io.StringIO(text, newline="")))
        if lines and (lines[0] != self._names or "\n" not in text):
            if "\n" in text:
                raise DataError("this table has other columns", where=str(path), mend="choose another folder")
            lines = []
        whole = [line for line in lines[1:] if len(line) == len(self._names)]
        if whole and not text.endswith("\n"):
            whole.pop()
        self.rows = [dict(zip(self._names, line, strict=True)) for line in whole]
        while self.rows and self.rows[-1]["error"]:
            self.rows.pop()
        before = path.with_name(f".{path.name}.new")
        before.write_bytes("".join(map(self._line, [self._names, *(list(row.values()) for row in self.rows)])).encode())
        before.replace(path)

    def append(self, row: Mapping[str, str]) -> None:
        """One more row, in the file before this returns."""
        whole = {name: row.get(name, "") for name in self._names}
        with self.path.open("ab") as file:
            file.write(self._line(list(whole.values())).encode())
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(whole)

    @staticmethod
    def _line(cells: Sequence[str]) -> str:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue()


@dataclass(frozen=True)
class Kept:
    """What a folder holds.

    Attributes:
        folder: the folder.
        groups: concept groups that are looked at.
        sequence: the requests.
        repetitions: prompts that were repeated.
    """

    folder: Path
    groups: tuple[str, ...]
    sequence: Table
    repetitions: Table

    @classmethod
    def open(cls, folder: Path, workbench: Workbench, prompts: Sequence[str]) -> Kept:
        """The folder, new or with what an earlier call left in it.

        Raises:
            OptionError: it cannot be written, or holds the items of other prompts or models.
            DataError: what is in it cannot be read.
        """
        configuration = workbench.configuration
        groups = tuple(configuration.values)
        names = ["request", "prompt", "conditions", "fixed", *groups, "file", "error"]
        if len(set(names)) < len(names):
            raise OptionError(
                f"a group is called like another column of the table: {', '.join(groups)}",
                where="groups",
                mend="none may be called request, prompt, conditions, fixed, file or error",
            )
        parts = configuration.model_dump(mode="json", include={"generator", "classifier", "judge", "conditions"})
        about = json.dumps({"prompts": list(prompts), "groups": configuration.values, **parts}, indent=2) + "\n"
        place = folder / "about.json"
        try:
            (folder / "items").mkdir(parents=True, exist_ok=True)
            if not place.exists():
                if (folder / "sequence.csv").exists():
                    raise OptionError(f"{folder} holds other items", where="--out", mend="choose another folder")
                place.write_text(about, "utf-8")
            elif place.read_text("utf-8") != about:
                raise OptionError(
                    f"{folder} holds items of other prompts, or made and looked at by other models",
                    where="--out",
                    mend=f"choose another folder; {place} says what was used",
                )
        except OSError as error:
            raise OptionError(f"{folder} cannot be used: {error.strerror}", where="--out") from None
        return cls(folder, groups, Table(folder / "sequence.csv", names), Table(folder / "repetitions.csv", names))

    @property
    def items(self) -> int:
        """Items that were made."""
        return sum(bool(row["file"]) for table in (self.sequence, self.repetitions) for row in table.rows)

    def answered(self, prompts: Sequence[str]) -> dict[str, list[Labels]]:
        """Prompt -> what its items showed; where nothing was made, nothing is counted."""
        found: dict[str, list[Labels]] = {prompt: [] for prompt in prompts}
        for table in (self.sequence, self.repetitions):
            for row in table.rows:
                if row["file"]:
                    found[row["prompt"]].append({group: row[group] or None for group in self.groups})
        return found


class _Maker:
    """Makes items, looks at them, keeps them.

    Args:
        judged: prompt -> its conditions and the groups that its words fix.
    """

    def __init__(
        self, workbench: Workbench, kept: Kept, judged: Mapping[str, tuple[frozenset[str], frozenset[str]]]
    ) -> None:
        self._workbench, self._kept, self._judged = workbench, kept, judged
        self._failed = 0
        if isinstance(workbench.generator, Resumable):
            workbench.generator.resume(kept.items)

    def make(self, prompt: str, table: Table) -> Labels:
        """One more row; what its item shows.

        Raises:
            EvenhandError: too many requests in a row failed.
        """
        conditions, fixed = self._judged[prompt]
        number = len(table.rows) + 1
        row = {
            "request": str(number),
            "prompt": prompt,
            "conditions": SEPARATOR.join(sorted(conditions)),
            "fixed": SEPARATOR.join(sorted(fixed)),
        }
        labels: dict[str, str | None] = dict.fromkeys(self._kept.groups)
        try:
            item = self._workbench.generator.generate(prompt)
            name = f"items/{table.path.stem}-{number:05d}{SUFFIXES.get(item.media_type, '.bin')}"
            (self._kept.folder / name).write_bytes(item.data)
            row["file"] = name
            said = self._workbench.classifier.classify(item)
            for group, values in self._workbench.configuration.values.items():
                label = said.get(group)
                labels[group] = label if label in values else None
            self._failed = 0
        except EvenhandError as error:
            self._failed += 1
            if self._failed > TOLERATED:
                error.mend = "; ".join(filter(None, (error.mend, "what was made is kept: run it again to go on")))
                raise
            row["error"] = error.what
        table.append(row | {group: label or "" for group, label in labels.items()})
        return labels
