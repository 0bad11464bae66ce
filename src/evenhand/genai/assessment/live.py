"""Ask a generator, look at what it makes, and keep all of it in a folder, so that nothing is asked for twice.

::

    FOLDER/about.json        what the items were made with, and for which prompts
    FOLDER/sequence.csv      one row per request, in their order
    FOLDER/repetitions.csv   rows of prompts that were repeated to see what they fix
    FOLDER/items/            pictures and texts
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.core.files import write_atomically
from evenhand.core.typing import Progress
from evenhand.errors import EvenhandError, OptionError
from evenhand.genai.assessment.evaluation import (
    NAME_SEPARATOR,
    ItemColumns,
    evaluate_config,
    groups_by_condition,
    read_condition_sequences,
)
from evenhand.genai.assessment.prompts import (
    ItemLabels,
    PromptBias,
    ask_fixed_groups,
    estimate_prompt_bias,
    judge_prompt_bias,
)
from evenhand.genai.assessment.result import GenaiAssessment
from evenhand.genai.backends.generator import Resumable
from evenhand.genai.config import AssessmentConfig
from evenhand.genai.pipeline import check_keys
from evenhand.genai.run_directory import CsvTable, open_folder, write_item

if TYPE_CHECKING:
    from evenhand.genai.pipeline import Pipeline

MAX_FAILURES = 3
"""Requests in a row that may fail; with the next the fault is not taken for one of a prompt."""


def assess_live(
    pipeline: Pipeline,
    prompts: Sequence[str],
    config: AssessmentConfig | None = None,
    *,
    requests: int,
    folder: str | Path,
    progress: Progress | None = None,
    **settings: Any,
) -> GenaiAssessment:
    """Ask a generator as it is, with no guard, and judge what it answers by its configuration.

    The prompts are sent in turn, one after the other, so that each is answered about equally often. What is made is
    kept in the folder at once. The same call goes on where an earlier one was interrupted, and asks for nothing that is
    there; with more ``requests`` it adds to them.

    Args:
        pipeline: generator, classifier and judge, with their configuration.
        prompts: what is asked, at least one; each once.
        config: settings; with ``inherent``, the judge or repeated prompts tell which prompts are neutral, and their
            items are judged by themselves too.
        requests: how many items.
        folder: where they are kept; it is made if it is not there.
        progress: called with what is being done and the share that is done.
        settings: fields of ``AssessmentConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: no prompt asks for a condition, a number is out of range, or the folder holds the items of other
            prompts or models.
        EvenhandError: several requests in a row failed. What was made is kept.
    """
    started = time.perf_counter()
    config = AssessmentConfig.of(config, settings)
    plan = list(dict.fromkeys(prompts))
    if not plan or requests < 1 or not all(prompt.strip() for prompt in plan):
        raise OptionError("nothing is asked of the generator", hint="give one prompt or more, and requests: 1 or more")
    # Nothing that the generator makes is to be paid for by somebody who then learns that the question made no sense.
    for condition, groups in groups_by_condition(pipeline.configuration).items():
        if config.ways is not None and config.ways > len(groups):
            raise OptionError(f"combinations of {config.ways} groups, and {condition} is about {', '.join(groups)}")
    conditions = {prompt: pipeline.judge.conditions(prompt) for prompt in plan}
    if not any(conditions.values()):
        known = ", ".join(condition.name for condition in pipeline.configuration.conditions)
        raise OptionError(
            f"no prompt asks for a condition: {', '.join(plan[:3])}",
            hint=f"conditions: {known}; see their keywords, or the judge",
        )
    kept = RunDirectory.open(Path(folder), pipeline, plan)
    fixed = ask_fixed_groups(pipeline.judge, plan)
    maker = _ItemMaker(pipeline, kept, {prompt: (conditions[prompt], fixed[prompt]) for prompt in plan})
    interrupted = False
    check_keys(pipeline.configuration)
    bias: PromptBias | None = None
    try:
        while (done := len(kept.sequence.rows)) < requests:
            maker.make(plan[done % len(plan)], kept.sequence)
            if progress is not None:
                progress("asking the generator", (done + 1) / requests)
        if config.inherent == "estimated":
            bias = estimate_prompt_bias(
                kept.values_by_prompt(plan),
                pipeline.configuration.values,
                terms=config,
                draw=lambda prompt: maker.make(prompt, kept.repetitions),
                progress=progress,
            )
    except KeyboardInterrupt:
        if not kept.sequence.rows:
            raise
        interrupted = True
    answered = kept.values_by_prompt(plan)
    if config.inherent == "judged":
        bias = judge_prompt_bias(answered, pipeline.configuration.values, fixed, terms=config)
    elif config.inherent is not None and bias is None:
        bias = estimate_prompt_bias(answered, pipeline.configuration.values, terms=config)
    found = read_condition_sequences(kept.sequence.path, pipeline.configuration, ItemColumns(conditions="conditions"))
    failed = sum(bool(row["error"]) for row in kept.sequence.rows)
    result = evaluate_config(
        found,
        pipeline.configuration,
        prompts=bias,
        ways=config.ways,
        confidence=config.confidence,
        source=f"{len(kept.sequence.rows):,} requests" + (f", {failed:,} of which failed" if failed else ""),
        interrupted=interrupted,
    )
    return result.model_copy(update={"seconds": time.perf_counter() - started})


@dataclass(frozen=True)
class RunDirectory:
    """What a folder holds.

    Attributes:
        folder: the folder.
        groups: concept groups that are looked at.
        sequence: the requests.
        repetitions: prompts that were repeated.
    """

    folder: Path
    groups: tuple[str, ...]
    sequence: CsvTable
    repetitions: CsvTable

    @classmethod
    def open(cls, folder: Path, pipeline: Pipeline, prompts: Sequence[str]) -> RunDirectory:
        """Return the folder, new or with what an earlier call left in it.

        Raises:
            OptionError: it cannot be written, or holds the items of other prompts or models.
            DataError: what is in it cannot be read.
        """
        configuration = pipeline.configuration
        groups = tuple(configuration.values)
        names = ["request", "prompt", "conditions", "fixed", *groups, "file", "error"]
        parts = configuration.model_dump(mode="json", include={"generator", "classifier", "judge", "conditions"})
        about = json.dumps({"prompts": list(prompts), "groups": configuration.values, **parts}, indent=2) + "\n"
        place = folder / "about.json"
        try:
            open_folder(folder, names)
            if not place.exists():
                if (folder / "sequence.csv").exists():
                    raise OptionError(f"{folder} holds other items", location="`out=`", hint="choose another folder")
                write_atomically(place, about)
            elif place.read_text("utf-8") != about:
                raise OptionError(
                    f"{folder} holds items of other prompts, or made and looked at by other models",
                    location="`out=`",
                    hint=f"choose another folder; {place} says what was used",
                )
        except OSError as error:
            raise OptionError(f"{folder} cannot be used: {error.strerror}", location="`out=`") from None
        tables = [CsvTable(folder / file, names) for file in ("sequence.csv", "repetitions.csv")]
        for table in tables:
            # Requests at the end that failed are made again.
            failed = sum(1 for _ in itertools.takewhile(lambda row: row["error"], reversed(table.rows)))
            table.take_back(len(table.rows) - failed)
        return cls(folder, groups, *tables)

    @property
    def items(self) -> int:
        """Items that were made."""
        return sum(bool(row["file"]) for table in (self.sequence, self.repetitions) for row in table.rows)

    def values_by_prompt(self, prompts: Sequence[str]) -> dict[str, list[ItemLabels]]:
        """Return the prompt -> what its items showed; where nothing was made, nothing is counted."""
        found: dict[str, list[ItemLabels]] = {prompt: [] for prompt in prompts}
        for table in (self.sequence, self.repetitions):
            for row in table.rows:
                if row["file"]:
                    found[row["prompt"]].append({group: row[group] or None for group in self.groups})
        return found


class _ItemMaker:
    """Makes items, looks at them, keeps them.

    Args:
        judged: prompt -> its conditions and the groups that its words fix.
    """

    def __init__(
        self, pipeline: Pipeline, kept: RunDirectory, judged: Mapping[str, tuple[frozenset[str], frozenset[str]]]
    ) -> None:
        self._pipeline, self._kept, self._judged = pipeline, kept, judged
        self._failed = 0
        if isinstance(pipeline.generator, Resumable):
            pipeline.generator.resume(kept.items)

    def make(self, prompt: str, table: CsvTable) -> ItemLabels:
        """Return one more row; what its item shows.

        Raises:
            EvenhandError: too many requests in a row failed.
        """
        conditions, fixed = self._judged[prompt]
        number = len(table.rows) + 1
        row = {
            "request": str(number),
            "prompt": prompt,
            "conditions": NAME_SEPARATOR.join(sorted(conditions)),
            "fixed": NAME_SEPARATOR.join(sorted(fixed)),
        }
        labels: dict[str, str | None] = dict.fromkeys(self._kept.groups)
        try:
            item = self._pipeline.generator.generate(prompt)
            row["file"] = write_item(self._kept.folder, f"{table.path.stem}-{number:05d}", item)
            said = self._pipeline.classifier.classify(item)
            for group, values in self._pipeline.configuration.values.items():
                label = said.get(group)
                labels[group] = label if label in values else None
            self._failed = 0
        except EvenhandError as error:
            self._failed += 1
            if self._failed > MAX_FAILURES:
                error.hint = "; ".join(filter(None, (error.hint, "what was made is kept: run it again to go on")))
                raise
            row["error"] = error.message
        table.append(row | {group: label or "" for group, label in labels.items()})
        return labels
