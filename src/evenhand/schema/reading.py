"""How a table of people was read: favourable values and unknown values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from evenhand.core import OutcomeReading, TableReading
from evenhand.schema.rows import CodedColumn, is_missing
from evenhand.schema.target import NEITHER, Target
from evenhand.schema.words import word_of
from evenhand.typing import Booleans

if TYPE_CHECKING:
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
