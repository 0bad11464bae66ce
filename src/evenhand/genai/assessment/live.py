"""Assessment of a live generator, whose items are kept in a folder so that no request is repeated.

::

    FOLDER/about.json        models and prompts of the items
    FOLDER/prompts.csv       one row per prompt with the answers of a judge that is a model or a function
    FOLDER/sequence.csv      one row per request
    FOLDER/repetitions.csv   one row per repetition of a prompt, to estimate its bias
    FOLDER/items/            pictures and texts
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
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
from evenhand.genai.assessment.prompts import ItemLabels, PromptBias, estimate_prompt_bias
from evenhand.genai.assessment.result import GenaiAssessment
from evenhand.genai.backends.generator import Resumable
from evenhand.genai.config import AssessmentConfig
from evenhand.genai.enforcement.supply import known_values
from evenhand.genai.judges import KeywordJudge
from evenhand.genai.pipeline import check_keys
from evenhand.genai.run_directory import CsvTable, open_folder, write_item

if TYPE_CHECKING:
    from evenhand.genai.pipeline import Pipeline

MAX_FAILURES = 3
"""Maximum number of consecutive failed requests. After more, the run stops."""


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
    """Generate items without a guard, and assess them by the configuration of the generator.

    Prompts are sent in turn, so each is answered about equally often. Items are kept in the folder. Repeating the call
    continues an interrupted run without repeating requests, and adds items if ``requests`` is larger.

    Args:
        pipeline: Generator, classifier and judge, with their configuration.
        prompts: Prompts, at least one. Each is used once per turn.
        config: Settings. With ``inherent``, the items of neutral prompts are also assessed alone.
        requests: Number of items.
        folder: Folder of the items, which is created if necessary.
        progress: Function called with a description and the completed fraction.
        settings: Fields of ``AssessmentConfig`` that replace those of ``config``.

    Raises:
        OptionError: No prompt meets a condition, a number is out of range, or the folder contains items of different
            prompts or models.
        EvenhandError: Several consecutive requests failed. Earlier items are kept.
    """
    started = time.perf_counter()
    config = AssessmentConfig.of(config, settings)
    configuration = pipeline.configuration
    plan = list(dict.fromkeys(prompts))
    if not plan or requests < 1 or not all(prompt.strip() for prompt in plan):
        raise OptionError("there is nothing to generate", hint="pass at least one prompt, and requests above 0")
    # All settings are checked before the first paid item.
    for condition, groups in groups_by_condition(configuration).items():
        if config.ways is not None and config.ways > len(groups):
            raise OptionError(f"combinations of {config.ways} groups, and {condition} is about {', '.join(groups)}")
    check_keys(configuration)
    run = _LiveRun(pipeline, Path(folder), plan)
    interrupted = False
    bias: PromptBias | None = None
    try:
        while (number := len(run.sequence.rows)) < requests:
            run.generate(plan[number % len(plan)], run.sequence)
            if progress is not None:
                progress("generating items", (number + 1) / requests)
        if config.inherent == "estimated":
            bias = estimate_prompt_bias(
                run.values_by_prompt(),
                configuration.values,
                terms=config,
                draw=lambda prompt: run.generate(prompt, run.repetitions),
                progress=progress,
            )
    except KeyboardInterrupt:
        if not run.sequence.rows:
            raise
        interrupted = True
    if config.inherent is not None and bias is None:
        fixed = run.fixed if config.inherent == "judged" else None
        bias = estimate_prompt_bias(run.values_by_prompt(), configuration.values, fixed=fixed, terms=config)
    failed = sum(bool(row["error"]) for row in run.sequence.rows)
    result = evaluate_config(
        read_condition_sequences(run.sequence.path, configuration, ItemColumns(conditions="conditions")),
        configuration,
        prompts=bias,
        ways=config.ways,
        confidence=config.confidence,
        source=f"{len(run.sequence.rows):,} requests" + (f", {failed:,} of which failed" if failed else ""),
        interrupted=interrupted,
    )
    return result.model_copy(update={"seconds": time.perf_counter() - started})


class _LiveRun:
    """Items of a live assessment for prompts without repetitions, and their folder.

    Attributes:
        conditions: Conditions that each prompt meets.
        fixed: Groups whose value each prompt fixes.
        sequence: Table of requests.
        repetitions: Table of repeated prompts.
    """

    def __init__(self, pipeline: Pipeline, folder: Path, prompts: Sequence[str]) -> None:
        self._pipeline, self._folder, self._prompts = pipeline, folder, prompts
        self._values = pipeline.configuration.values
        self._failures = 0
        names = ["request", "prompt", "conditions", "fixed", *self._values, "file", "error"]
        self.conditions: dict[str, frozenset[str]] = {}
        self.fixed: dict[str, frozenset[str]] = {}
        if isinstance(pipeline.judge, KeywordJudge):
            self._judge_prompts(None)
            self._check_folder(names)
        else:
            # Every answer may cost money, so it is saved immediately.
            self._check_folder(names)
            self._judge_prompts(CsvTable(folder / "prompts.csv", ["prompt", "conditions", "fixed"]))
        self.sequence, self.repetitions = (
            CsvTable(folder / file, names) for file in ("sequence.csv", "repetitions.csv")
        )
        for table in (self.sequence, self.repetitions):
            # Failed requests at the end are repeated.
            failed = sum(1 for _ in itertools.takewhile(lambda row: row["error"], reversed(table.rows)))
            table.truncate(len(table.rows) - failed)
        if isinstance(pipeline.generator, Resumable):
            pipeline.generator.resume(sum(map(len, self.values_by_prompt().values())))

    def _judge_prompts(self, table: CsvTable | None) -> None:
        """Ask the judge about the prompts that are not in the table yet, and append its answers."""
        judge, configuration = self._pipeline.judge, self._pipeline.configuration
        for row in () if table is None else table.rows:
            self.conditions[row["prompt"]] = frozenset(json.loads(row["conditions"]))
            self.fixed[row["prompt"]] = frozenset(json.loads(row["fixed"]))
        for prompt in self._prompts:
            if prompt not in self.conditions:
                answers = [judge.conditions(prompt), judge.fixed_groups(prompt)]
                self.conditions[prompt], self.fixed[prompt] = answers
                if table is not None:
                    conditions, fixed = (json.dumps(sorted(names)) for names in answers)
                    table.append({"prompt": prompt, "conditions": conditions, "fixed": fixed})
        if not any(self.conditions.values()):
            names = ", ".join(condition.name for condition in configuration.conditions)
            raise OptionError(
                f"no prompt meets a condition: {', '.join(self._prompts[:3])}",
                hint=f"conditions: {names}; check their keywords or the judge",
            )

    def _check_folder(self, names: Sequence[str]) -> None:
        configuration, about = self._pipeline.configuration, self._folder / "about.json"
        parts = configuration.model_dump(mode="json", include={"generator", "classifier", "judge", "conditions"})
        text = json.dumps({"prompts": list(self._prompts), "groups": self._values, **parts}, indent=2) + "\n"
        with open_folder(self._folder, names):
            exists = about.exists()
            other = about.read_text("utf-8") != text if exists else (self._folder / "sequence.csv").exists()
            if not exists and not other:
                write_atomically(about, text)
        if other:
            raise OptionError(
                f"{self._folder} contains items of different prompts or models",
                location="`out=`",
                hint=f"choose another folder; {about} describes the items",
            )

    def values_by_prompt(self) -> dict[str, list[ItemLabels]]:
        """Collect the labels of the generated items of each prompt."""
        labels: dict[str, list[ItemLabels]] = {prompt: [] for prompt in self._prompts}
        for row in (*self.sequence.rows, *self.repetitions.rows):
            if row["file"]:
                labels[row["prompt"]].append({group: row[group] or None for group in self._values})
        return labels

    def generate(self, prompt: str, table: CsvTable) -> ItemLabels:
        """Generate, classify and store one item, and return its labels. Raise after too many consecutive failures."""
        number = len(table.rows) + 1
        row = {
            "request": number,
            "prompt": prompt,
            "conditions": NAME_SEPARATOR.join(sorted(self.conditions[prompt])),
            "fixed": NAME_SEPARATOR.join(sorted(self.fixed[prompt])),
        }
        labels: ItemLabels = dict.fromkeys(self._values)
        try:
            item = self._pipeline.generator.generate(prompt)
            row["file"] = write_item(self._folder, f"{table.path.stem}-{number:05d}", item)
            labels = known_values(self._pipeline.classifier.classify(item), self._values)
            self._failures = 0
        except EvenhandError as error:
            self._failures += 1
            if self._failures > MAX_FAILURES:
                error.hint = "; ".join(filter(None, (error.hint, "items are kept: repeat the command to continue")))
                raise
            row["error"] = error.message
        table.append({**row, **labels})
        return labels
