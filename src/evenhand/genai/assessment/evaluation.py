"""Judge recorded items by what a configuration asks: its conditions, groups, values and deadlines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, OptionError
from evenhand.genai.assessment.assess import assess_group, find_coverage, judge_group
from evenhand.genai.assessment.prompts import PromptBias, keep_neutral_prompts
from evenhand.genai.assessment.result import GenaiAssessment, SequenceFinding
from evenhand.genai.assessment.sequences import (
    RecordedSequence,
    check_labels,
    read_source_table,
    read_text_column,
    sample_values,
    split_sequences,
)
from evenhand.genai.spec.specification import GenerationConfig, Requirement

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

NAME_SEPARATOR = ";"
"""Between the names in one cell of a table, where several conditions hold or several groups are fixed."""

CONDITION_COLUMNS = ("conditions", "condition")
"""Columns that hold names of conditions, if no other is named."""

YES, NO = frozenset({"1", "yes", "true", "y"}), frozenset({"0", "no", "false", "n"})
"""What stands in a column that is named like a condition."""


@dataclass(frozen=True)
class ItemColumns:
    """Where in a table things stand that a configuration speaks of.

    Attributes:
        conditions: the column with the names of an item's conditions, several with ";" between them. None:
            ``conditions`` or ``condition``; or one column for each condition, named like it, that says yes or no; or
            none, if the configuration has one condition: then every item counts.
        groups: concept group -> its column; groups left out have columns of their names.
        only: column -> value; only rows that have all of these are read.
        sequence: its values name sequences, which are judged apart.
        name: only the sequence of that name.
        image: of paths of pictures and texts. None: ``file``, if there is one.
        prompt: of prompts, needed only where these are looked at. None: ``prompt``, if there is one.
    """

    conditions: str | None = None
    groups: Mapping[str, str] | None = None
    only: Mapping[str, str] | None = None
    sequence: str | None = None
    name: str | None = None
    image: str | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class ConditionSequence:
    """A sequence of items of one condition.

    Attributes:
        condition: its name.
        recorded: the items.
    """

    condition: str
    recorded: RecordedSequence


def read_condition_sequences(
    source: str | Path | IntoDataFrame, configuration: GenerationConfig, columns: ItemColumns | None = None
) -> list[ConditionSequence]:
    """Read recorded items as a configuration speaks of them: a sequence for every condition with specifications.

    An item whose label is not a value of its group does not count, and is listed; a misspelt value is refused. A column
    ``fixed`` with groups whose value the prompt fixed says why an item has no label for them.

    Args:
        source: a CSV or Parquet file with a row per item, in the order of the requests, or a data frame.
        configuration: what is asked of the generator.
        columns: where things stand.

    Returns:
        The sequences, condition by condition in the order of the configuration; a condition that no item meets has one
        without items.

    Raises:
        DataError: the table cannot be read, a column is not there, or it holds nothing that the configuration knows.
        OptionError: a group is named that is not in the configuration.
    """
    columns = columns or ItemColumns()
    table, location = read_source_table(source)
    places = dict(columns.groups or {})
    for group in places:
        if group not in configuration.values:
            raise OptionError(
                f"the configuration has no group {group!r}", hint=f"groups: {', '.join(configuration.values)}"
            )
    asked = groups_by_condition(configuration)
    fixed = _read_fixed_rows(table, configuration, location)
    groups = list(dict.fromkeys(group for own in asked.values() for group in own))
    labels = {group: _read_labels(table, group, places.get(group), configuration, location) for group in groups}
    filters = {name: read_text_column(table, name, location) for name in columns.only or {}}
    rows = [
        i for i in range(len(table)) if all(filters[name][i] == value for name, value in (columns.only or {}).items())
    ]
    meets = _rows_by_condition(table, configuration, columns, rows, location)
    if not any(meets.values()):
        raise DataError(
            f"no item was asked for {' or '.join(map(repr, asked))}",
            location=location,
            hint="name the column of the conditions, or write the configuration's names into it",
        )
    image, prompt = (
        given if given is not None else usual if usual in table.columns else None
        for given, usual in ((columns.image, "file"), (columns.prompt, "prompt"))
    )
    extra = {
        name: read_text_column(table, name, location) for name in (columns.sequence, image, prompt) if name is not None
    }
    found = []
    for condition, own in asked.items():
        sequences = split_sequences(
            meets[condition],
            {group: labels[group] for group in own},
            {group: configuration.values[group] for group in own},
            name=condition,
            names=None if columns.sequence is None else extra[columns.sequence],
            files=None if image is None else extra[image],
            prompts=None if prompt is None else extra[prompt],
            fixed={group: fixed.get(group, frozenset()) for group in own},
        )
        for one in sequences:
            if columns.name in (None, one.name):
                name = condition if columns.sequence is None else f"{one.name}, {condition}"
                found.append(ConditionSequence(condition, replace(one, name=name)))
    if columns.name is not None and not any(len(one.recorded) for one in found):
        raise DataError(
            f"there is no sequence {columns.name!r}",
            location=location,
            hint=f"there are {', '.join(sample_values(extra[columns.sequence or '']))}",
        )
    return found


def evaluate_config(
    sequences: Sequence[ConditionSequence],
    configuration: GenerationConfig,
    *,
    prompts: PromptBias | None = None,
    ways: int | None = None,
    confidence: float = 0.95,
    source: str = "recorded items",
    interrupted: bool = False,
) -> GenaiAssessment:
    """Judge sequences by the specifications of a configuration: one verdict for each, and what stands behind it.

    Args:
        sequences: what the generator answered, from ``read_condition_sequences``.
        configuration: what is asked of it.
        prompts: which of them are biased; then every sequence is judged twice: all of it, and with the items alone
            whose prompts are neutral (inherent fairness).
        ways: coverage of combinations of so many groups; as the specifications combine them unless given.
        confidence: of the intervals, each for itself.
        source: where the sequences come from.
        interrupted: whether somebody stopped the making of items.

    Raises:
        OptionError: there is no sequence, or fewer groups than ways.
        LimitError: too many combinations.
    """
    started = time.perf_counter()
    if not sequences:
        raise OptionError("there is no sequence to assess")
    found = []
    for one in sequences:
        mine = [each for each in configuration.requirements if each.condition == one.condition]
        found.append(_sequence_finding(one, one.recorded, mine, ways, confidence))
        if prompts is not None:
            neutral = keep_neutral_prompts(one.recorded, prompts)
            finding = _sequence_finding(one, neutral, mine, ways, confidence)
            found.append(finding.model_copy(update={"prompts": "neutral"}))
    return GenaiAssessment(
        seed=0,
        seconds=time.perf_counter() - started,
        source=source,
        conditions={"condition": ", ".join(dict.fromkeys(one.condition for one in sequences))},
        confidence=confidence,
        sequences=tuple(found),
        prompts=prompts,
        interrupted=interrupted,
    )


def read_fixed_groups(source: str | Path | IntoDataFrame) -> dict[str, frozenset[str]] | None:
    """Read which groups each prompt fixes the value of, if a table has columns ``prompt`` and ``fixed``; else None."""
    table, location = read_source_table(source)
    if not {"prompt", "fixed"} <= set(table.columns):
        return None
    rows = zip(read_text_column(table, "prompt", location), read_text_column(table, "fixed", location), strict=True)
    return {prompt: frozenset(_split_names(fixed)) for prompt, fixed in rows if prompt is not None}


def _sequence_finding(
    one: ConditionSequence,
    recorded: RecordedSequence,
    requirements: Sequence[Requirement],
    ways: int | None,
    confidence: float,
) -> SequenceFinding:
    betas: dict[tuple[str, ...], list[tuple[int, ...] | None]] = {(group,): [] for group in recorded.labels}
    for requirement in requirements:
        betas.setdefault(requirement.groups, []).append(requirement.repeated)
    groups = {}
    for key, asked in betas.items():
        # What only has to appear is read off the findings with deadlines, where the same groups have both.
        deadlines = list(dict.fromkeys(each for each in asked if each is not None))
        for beta in deadlines or (None,):
            groups[key, beta] = assess_group(recorded, key, beta, confidence)
    usual = {key: next(finding for (own, _), finding in groups.items() if own == key) for key in betas}
    verdicts = [
        judge_group(groups.get((each.groups, each.repeated), usual[each.groups]), each.repeated, each.name)
        for each in requirements
    ]
    combined = max((len(each.groups) for each in requirements), default=1)
    several = len(recorded) > 0 and len(recorded.labels) > 1
    return SequenceFinding(
        name=recorded.name,
        condition=one.condition,
        items=len(recorded),
        groups=tuple(groups.values()),
        verdicts=tuple(verdicts),
        coverage=find_coverage(recorded, ways or max(2, combined)) if several or (ways and len(recorded)) else None,
        files=recorded.files,
    )


def groups_by_condition(configuration: GenerationConfig) -> dict[str, list[str]]:
    """Map each condition to the groups of its specifications, in the order of the configuration."""
    found: dict[str, list[str]] = {}
    for condition in configuration.conditions:
        about = {group for one in configuration.requirements if one.condition == condition.name for group in one.groups}
        if about:
            found[condition.name] = [group for group in configuration.values if group in about]
    return found


def _read_labels(
    table: Any, group: str, given: str | None, configuration: GenerationConfig, location: str
) -> list[str | None]:
    name = given or group
    if name not in table.columns:
        raise DataError(
            f"there is no column {name!r} for the group {group!r}",
            location=location,
            hint=f"name it: `group_column={group}=COLUMN`; there are {', '.join(table.columns)}",
        )
    column = read_text_column(table, name, location)
    values = configuration.values[group]
    seen = {label for label in column if label is not None}
    if seen and not seen & set(values):
        raise DataError(
            f"no label in the column {name!r} is a value of the group {group!r}: "
            f"{', '.join(sample_values(list(seen)))}",
            location=location,
            hint=f"the configuration has {', '.join(values)}",
        )
    check_labels(column, values, name, location)
    return column


def _read_fixed_rows(table: Any, configuration: GenerationConfig, location: str) -> dict[str, frozenset[int]]:
    """Map each group to the rows whose prompt fixed its value."""
    if "fixed" not in table.columns or "fixed" in configuration.values:
        return {}
    cells = [_split_names(cell) for cell in read_text_column(table, "fixed", location)]
    return {group: frozenset(i for i, names in enumerate(cells) if group in names) for group in configuration.values}


def _rows_by_condition(
    table: Any, configuration: GenerationConfig, columns: ItemColumns, rows: Sequence[int], location: str
) -> dict[str, list[int]]:
    """Map each condition to the rows that meet it."""
    names = [condition.name for condition in configuration.conditions]
    column = columns.conditions or next((name for name in CONDITION_COLUMNS if name in table.columns), None)
    if column is not None:
        said = [_split_names(cell) for cell in read_text_column(table, column, location)]
        return {name: [i for i in rows if name in said[i]] for name in names}
    if all(name in table.columns for name in names):
        yes = {name: list(_read_flags(table, name, location)) for name in names}
        return {name: [i for i in rows if yes[name][i]] for name in names}
    if len(names) == 1:
        return {names[0]: list(rows)}
    raise DataError(
        "nothing tells which conditions the items were asked for",
        location=location,
        hint=f"name the column: `condition_column=COLUMN`; it holds {', '.join(names)}",
    )


def _split_names(cell: str | None) -> set[str]:
    """Return the names in a cell; of one name that has the separator in it, that name too."""
    return set() if cell is None else {cell, *(part.strip() for part in cell.split(NAME_SEPARATOR))} - {""}


def _read_flags(table: Any, name: str, location: str) -> Iterable[bool]:
    for cell in read_text_column(table, name, location):
        word = (cell or "no").casefold()
        if word not in YES | NO:
            raise DataError(
                f"{cell!r} in the column {name!r} is neither yes nor no",
                location=location,
                hint="write 1 or 0, yes or no, true or false",
            )
        yield word in YES
