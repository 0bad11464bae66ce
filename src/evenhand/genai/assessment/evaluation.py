"""Assessment of recorded items by the conditions, groups, values and deadlines of a configuration."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.errors import DataError, OptionError
from evenhand.genai.assessment.assess import assess_sequence
from evenhand.genai.assessment.prompts import PromptBias, keep_neutral_prompts
from evenhand.genai.assessment.result import GenaiAssessment, SequenceFinding
from evenhand.genai.assessment.sequences import ItemTable, RecordedSequence
from evenhand.genai.spec.entries import check_known
from evenhand.genai.spec.specification import GenerationConfig

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

NAME_SEPARATOR = ";"
"""Separator between conditions or groups in a cell."""

CONDITION_COLUMNS = ("conditions", "condition")
"""Default columns of the names of conditions."""


@dataclass(frozen=True)
class ItemColumns:
    """Columns of a table of items.

    Attributes:
        conditions: Column of the names of the conditions, separated by ";". Default: ``conditions`` or ``condition``,
            or none if the configuration has only one condition, which then applies to every item.
        groups: Column of each concept group. Default: the name of the group.
        only: Required value by column. Other rows are ignored.
        sequence: Column of sequence names. Sequences are assessed separately.
        image: Column of file paths. Default: ``file``, if it exists.
    """

    conditions: str | None = None
    groups: Mapping[str, str] | None = None
    only: Mapping[str, str] | None = None
    sequence: str | None = None
    image: str | None = None


def read_condition_sequences(
    source: str | Path | IntoDataFrame, configuration: GenerationConfig, columns: ItemColumns | None = None
) -> list[RecordedSequence]:
    """Read recorded items as one sequence, possibly empty, for each condition with specifications.

    Items whose label is not a value of its group are listed but not counted. A misspelt value is refused. The column
    ``fixed`` names the groups whose value the prompt fixed.

    Args:
        source: CSV or Parquet file, or data frame, with one row per item in the order of the requests.
        configuration: Configuration of the generator.
        columns: Columns of the table.

    Raises:
        DataError: The table is unreadable, a column is missing, or no item meets a condition.
        OptionError: A group is not in the configuration.
    """
    columns = columns or ItemColumns()
    table = ItemTable(source)
    groups = groups_by_condition(configuration)
    names = {group: group for own in groups.values() for group in own}
    for group, column in (columns.groups or {}).items():
        check_known(group, configuration.values, "group")
        if group in names:
            names[group] = column
    for group, name in names.items():
        table.check_labels(name, configuration.values[group])
    rows = _rows_by_condition(table, configuration, columns, table.select(columns.only or {}))
    if not any(rows.values()):
        raise DataError(
            f"no item was requested for {' or '.join(map(repr, groups))}",
            location=table.name,
            hint="name the column of the conditions, and use the names of the configuration in it",
        )
    files, prompts = (name if name in table.columns else None for name in ("file", "prompt"))
    has_fixed = "fixed" in table.columns and "fixed" not in configuration.values
    fixed = [_split_names(cell) for cell in table.column("fixed")] if has_fixed else []
    sequences: list[RecordedSequence] = []
    for condition, own in groups.items():
        sequences += table.split(
            rows[condition],
            {group: names[group] for group in own},
            {group: configuration.values[group] for group in own},
            condition=condition,
            sequence_column=columns.sequence,
            image_column=columns.image or files,
            prompt_column=prompts,
            fixed=fixed,
        )
    return sequences


def evaluate_config(
    sequences: Sequence[RecordedSequence],
    configuration: GenerationConfig,
    *,
    prompts: PromptBias | None = None,
    ways: int | None = None,
    confidence: float = 0.95,
    source: str = "recorded items",
    interrupted: bool = False,
) -> GenaiAssessment:
    """Assess sequences by the specifications of a configuration.

    Args:
        sequences: Sequences from ``read_condition_sequences``.
        configuration: Configuration of the generator.
        prompts: Bias of the prompts. If given, every sequence is also assessed with the items of neutral prompts alone
            (inherent fairness).
        ways: Number of groups in the combinations whose coverage is computed. If None, that of the specifications.
        confidence: Confidence level of each interval.
        source: Origin of the sequences, shown in the result.
        interrupted: Whether the generation of items was interrupted.

    Raises:
        OptionError: There is no sequence, or there are fewer groups than ``ways``.
        LimitError: There are too many combinations.
    """
    started = time.perf_counter()
    if not sequences:
        raise OptionError("there is no sequence to assess")
    findings: list[SequenceFinding] = []
    for sequence in sequences:
        requirements = [
            requirement for requirement in configuration.requirements if requirement.condition == sequence.condition
        ]
        findings.append(assess_sequence(sequence, requirements, ways=ways, confidence=confidence))
        if prompts is not None:
            neutral = keep_neutral_prompts(sequence, prompts)
            finding = assess_sequence(neutral, requirements, ways=ways, confidence=confidence)
            findings.append(finding.model_copy(update={"prompts": "neutral"}))
    return GenaiAssessment(
        seed=0,
        seconds=time.perf_counter() - started,
        source=source,
        conditions={"condition": ", ".join(dict.fromkeys(sequence.condition or "" for sequence in sequences))},
        confidence=confidence,
        sequences=tuple(findings),
        prompts=prompts,
        interrupted=interrupted,
    )


def read_fixed_groups(source: str | Path | IntoDataFrame) -> dict[str, frozenset[str]] | None:
    """Read the groups that each prompt fixes from the columns ``prompt`` and ``fixed``. None if one is missing."""
    table = ItemTable(source)
    if not {"prompt", "fixed"} <= set(table.columns):
        return None
    rows = zip(table.column("prompt"), table.column("fixed"), strict=True)
    return {prompt: frozenset(_split_names(fixed)) for prompt, fixed in rows if prompt is not None}


def groups_by_condition(configuration: GenerationConfig) -> dict[str, list[str]]:
    """Map each condition to the groups of its specifications, in the order of the configuration."""
    groups: dict[str, list[str]] = {}
    for condition in configuration.conditions:
        own = {
            group
            for requirement in configuration.requirements
            if requirement.condition == condition.name
            for group in requirement.groups
        }
        if own:
            groups[condition.name] = [group for group in configuration.values if group in own]
    return groups


def _rows_by_condition(
    table: ItemTable, configuration: GenerationConfig, columns: ItemColumns, rows: Sequence[int]
) -> dict[str, list[int]]:
    """Map each condition to the rows that meet it."""
    names = [condition.name for condition in configuration.conditions]
    column = columns.conditions or next((name for name in CONDITION_COLUMNS if name in table.columns), None)
    if column is not None:
        cells = [_split_names(cell) for cell in table.column(column)]
        return {name: [i for i in rows if name in cells[i]] for name in names}
    if len(names) == 1:
        return {names[0]: list(rows)}
    raise DataError(
        "the conditions of the items are missing",
        location=table.name,
        hint=f"name the column that contains them: `condition_column=COLUMN`; it contains {', '.join(names)}",
    )


def _split_names(cell: str | None) -> set[str]:
    """Return the names in a cell, including a single name that contains the separator."""
    return set() if cell is None else {cell, *(part.strip() for part in cell.split(NAME_SEPARATOR))} - {""}
