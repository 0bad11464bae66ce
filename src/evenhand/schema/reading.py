"""How a table of people was read: favourable values and unknown values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.reading import OutcomeReading, TableReading
from evenhand.core.typing import Booleans
from evenhand.schema.rows.coded import CodedColumn, is_missing
from evenhand.schema.target import NEITHER, Target
from evenhand.schema.words import parse_number, read_number, word_of

if TYPE_CHECKING:
    from evenhand.schema.attribute import Attribute
    from evenhand.schema.outcome import LabelWords


def describe_target(target: Target) -> OutcomeReading:
    """Describe which values of a target are favourable."""
    if target.favourable == NEITHER:
        return OutcomeReading(column=target.name)
    others = tuple(word_of(value) for value in target.values or () if value != target.favourable)
    return OutcomeReading(column=target.name, favourable=(word_of(target.favourable),), unfavourable=others)


def describe_labels(words: LabelWords, column: str | None = None) -> OutcomeReading:
    """Describe which labels of a column are favourable.

    Args:
        words: Labels of the column.
        column: Name of the column, if it is known by another name.
    """
    return OutcomeReading(
        column=column or words.column,
        favourable=(word_of(words.favourable),),
        unfavourable=tuple(map(word_of, words.unfavourable)),
        unknown=tuple(map(word_of, words.unknown)),
        how=words.settled,
    )


def add_left_out(reading: TableReading, reason: str, rows: int) -> TableReading:
    """Add rows that were left out before the others were read."""
    left_out = {reason: rows} if rows else {}
    return reading.model_copy(update={"rows": reading.rows + rows, "left_out": left_out | reading.left_out})


def describe_types(attributes: Iterable[Attribute], columns: Iterable[CodedColumn]) -> dict[str, str]:
    """Describe the type of each column whose words look like another type.

    The type is ``numbers`` for numbers in another spelling, such as ``$1,200``, and ``words`` for words that look like
    numbers, such as ``02134``.
    """
    types = {}
    for attribute, column in zip(attributes, columns, strict=True):
        if column.array is None and any(map(is_unusual_number, column.values)):
            types[attribute.name] = "words" if attribute.is_discrete and attribute.edges is None else "numbers"
        elif attribute.written is not None:
            types[attribute.name] = "numbers"
    return types


def is_unusual_number(value: Any) -> bool:
    """Return whether a value is a word that reads as a number, but is not the canonical spelling of one."""
    return isinstance(value, str) and math.isfinite(read_number(value)) and parse_number(value.strip()) is None


def count_words(column: CodedColumn, rows: Booleans) -> dict[str, int]:
    """Count the words in some rows of a column, most frequent first; an empty cell is the empty word."""
    if not rows.any():
        return {}
    weights = None if column.counts is None else column.counts[rows]
    sizes = np.bincount(column.codes[rows], weights=weights, minlength=len(column.values)).astype(np.int64)
    words: Counter[str] = Counter()
    for value, size in zip(column.values, sizes.tolist(), strict=True):
        words["" if is_missing(value) else word_of(value)] += size
    return {word: size for word, size in sorted(words.items(), key=lambda item: (-item[1], item[0])) if size}
