"""People and outcomes as codes: every value is looked at once, then people are only counted.

The rows of a lazy frame are counted by the engine that holds them, and only the cells come here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

import narwhals as nw
import numpy as np

from evenhand.dossier.config import AttributeFields, DossierConfig
from evenhand.errors import DossierError
from evenhand.schema import (
    Scale,
    ScoreRange,
    ScoreSums,
    count_rows,
    count_scored,
    find_ranked,
    is_lazy,
    list_columns,
    locate_value,
    measure_range,
)
from evenhand.text import format_count, list_some, suggest_name
from evenhand.typing import Booleans, Floats, Integers

SELECTED, NOT_SELECTED = ("1", "true"), ("0", "false")

UNKNOWN = -1
"""The code of people whose category is unknown, and of those without an outcome."""


class CategoryColumn(NamedTuple):
    """A column as codes, shape (people,), -1 for unknown, and the name of each code."""

    codes: Integers
    names: tuple[str, ...]


class ScoreCut(NamedTuple):
    """The best share of the people: the lowest score among them, and whose is as high, shape (entries,)."""

    q: float
    cut: float
    reached: Booleans


class AssessedScores(NamedTuple):
    """Scores, as far as tables need them.

    Attributes:
        median: of everybody who has a score.
        above: whose score is above it, shape (entries,).
        cuts: of the shares that are declared.
        scale: of their sums; sums: by entry; None unless a reference is declared.
    """

    median: float
    above: Booleans
    cuts: tuple[ScoreCut, ...]
    scale: Scale | None
    sums: ScoreSums | None


class AssessedPeople(NamedTuple):
    """People and outcomes, ready to be counted: an entry for each person, or for all who share what is counted by.

    Attributes:
        attributes: each attribute's categories by entry.
        counts: people that each entry stands for, shape (entries,).
        assessed: who has an outcome, shape (entries,).
        outcomes: what each run counts, as its name and who has it, shape (entries,) each.
        scores: of a tool that gives scores.
        strata: each entry's stratum, if strata are declared.
    """

    attributes: dict[str, CategoryColumn]
    counts: Integers
    assessed: Booleans
    outcomes: tuple[tuple[str, Booleans], ...]
    scores: AssessedScores | None
    strata: CategoryColumn | None

    def number(self, who: Booleans) -> int:
        """Return how many people some entries stand for."""
        return int(self.counts[who].sum())


class _Rows(NamedTuple):
    """The table that people are read from: one row per person, or per cell of ``source`` with the people in it."""

    table: nw.DataFrame[Any]
    location: str | None
    counts: Integers | None = None
    source: Any = None

    def refuse(self, message: str, code: str, column: str, rows: Booleans, hint: str, **given: str) -> NoReturn:
        """Raise an error about a column in some rows: the first one, or how many there are where they were counted."""
        if self.counts is None:
            number = int(np.argmax(rows)) + 1
            where, found = f"row {number:,}", {"row": number}
        else:
            number = int(self.counts[rows].sum())
            first = locate_value(self.source, column, self.table.get_column(column)[int(np.argmax(rows))])
            where, found = _say_rows(number, first), {"rows": number}
        place = _place(self.location, column, where)
        raise DossierError(message, code=code, location=place, hint=hint, column=column, **given, **found)


def read_people(frame: Any, config: DossierConfig, *, location: str | None = None) -> AssessedPeople:
    """Read the columns that a dossier needs.

    Args:
        frame: a data frame, one person per row. The rows of a lazy one are counted where they are.
        config: which columns, and what their values mean.
        location: the file, for messages.

    Raises:
        DossierError: no-rows, no-column, no-outcomes, unlisted-category, unlisted-class, not-a-decision, not-a-number,
            no-stratum.
        DataError: the rows of a lazy frame cannot be counted.
    """
    if not is_lazy(frame) and not len(nw.from_native(frame, eager_only=True)):
        raise DossierError("the data hold no people", code="no-rows", location=location, hint="one person per row")
    kind, column = config.outcome.kind, config.outcome.column
    columns = [one.column for one in config.attributes.values()]
    columns += [config.strata] if config.strata is not None else []
    known = list_columns(frame, lazy=True)
    for name in [*columns, column]:
        if name not in known:
            hint = f"{suggest_name(name, known)}the columns are: {', '.join(known)}"
            message = f"there is no column {name!r}"
            raise DossierError(message, code="no-column", location=location, hint=hint, column=name)
    scores: AssessedScores | None = None
    if kind == "score":
        rows, assessed, scores = _score_rows(frame, columns, config, location)
        outcomes: tuple[tuple[str, Booleans], ...] = (("above the median", scores.above),)
    else:
        if is_lazy(frame):
            counted = count_rows(frame, list(dict.fromkeys([*columns, column])), location=location or "data")
            rows = _Rows(counted.table, location, counted.counts, frame)
        else:
            rows = _Rows(nw.from_native(frame, eager_only=True), location)
        found = _factorise(rows.table, column)
        assessed = found.codes >= 0
        if not assessed.any():
            raise _no_outcomes(column, location)
        if kind == "classes":
            outcomes = _read_classes(found, column, config.outcome.classes, rows)
        else:
            outcomes = (("selected", _read_selection(found, column, config.outcome.selected, rows)),)
    attributes = {name: _read_attribute(rows, name, config) for name in config.attributes}
    strata = None
    if config.strata is not None:
        strata = _factorise(rows.table, config.strata)
        if (strata.codes < 0).any():
            hint = "give every person one, or leave strata out"
            rows.refuse("a person has no stratum", "no-stratum", config.strata, strata.codes < 0, hint)
    counts = np.ones(len(assessed), dtype=np.int64) if rows.counts is None else rows.counts
    return AssessedPeople(attributes, counts, assessed, outcomes, scores, strata)


def _say_rows(number: int, first: str) -> str:
    return format_count(number, "row", "rows") + (f", the first of them {first}" if first else "")


def _place(location: str | None, column: str, where: str | None = None) -> str:
    parts = [location, f"column {column!r}", where]
    return ", ".join(part for part in parts if part)


def _factorise(table: nw.DataFrame[Any], column: str) -> CategoryColumn:
    """Return a column as codes of its words, which are sorted; empty cells are unknown."""
    import pandas as pd

    codes, values = pd.factorize(table.get_column(column).to_numpy())
    words = [_as_word(value) for value in values]
    # Sorted, so that the order of people decides nothing, not even the last digit of a sum over strata.
    names = tuple(sorted(set(words) - {""}))
    place = {name: code for code, name in enumerate(names)} | {"": UNKNOWN}
    # The last entry is that of code -1, a missing cell.
    lookup = np.array([*(place[word] for word in words), UNKNOWN], dtype=np.int64)
    return CategoryColumn(lookup[codes], names)


def _as_word(value: Any) -> str:
    """Return a value as a table writes it: whole numbers without a point, no spaces around words."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _read_attribute(rows: _Rows, name: str, config: DossierConfig) -> CategoryColumn:
    """Return the category of an attribute by entry."""
    field: AttributeFields = config.attributes[name]
    column = _factorise(rows.table, field.column)
    unknown = {word.strip() for word in config.unknown} | {""}
    listed = field.categories
    if listed is None:
        listed = {word: word for word in sorted(column.names) if word not in unknown}
    names = tuple(dict.fromkeys(category for category in listed.values() if category not in unknown))
    codes = {word: names.index(category) if category in names else UNKNOWN for word, category in listed.items()}
    codes |= dict.fromkeys(unknown, UNKNOWN)
    strange = np.array([*(word not in codes for word in column.names), False])[column.codes]
    if strange.any():
        value = column.names[int(column.codes[np.argmax(strange)])]
        known = list(listed)
        hint = f"{suggest_name(value, known)}enter it under categories or unknown; listed are: {list_some(known)}"
        message = f"{value!r} is not among the categories of {name}"
        those = column.codes == column.names.index(value)
        rows.refuse(message, "unlisted-category", field.column, those, hint, value=value)
    lookup = np.array([*(codes[word] for word in column.names), UNKNOWN], dtype=np.int64)
    return CategoryColumn(lookup[column.codes], names)


def _read_selection(column: CategoryColumn, name: str, selected: Sequence[str], rows: _Rows) -> Booleans:
    """Return who is selected: who has one of the values that say so, or 1 where 0 is everybody else."""
    if selected:
        chosen = [word in selected for word in column.names]
    else:
        for code, word in enumerate(column.names):
            if word.lower() not in SELECTED + NOT_SELECTED:
                message = f"{word!r} is not a decision: expected 1 (selected), 0 (not), or an empty cell"
                hint = "say which values mean selected: outcome: {selected: [...]}"
                rows.refuse(message, "not-a-decision", name, column.codes == code, hint, value=word)
        chosen = [word.lower() in SELECTED for word in column.names]
    return np.array([*chosen, False])[column.codes]


def _read_classes(
    column: CategoryColumn, name: str, classes: Sequence[str], rows: _Rows
) -> tuple[tuple[str, Booleans], ...]:
    """Return each class, and who is assigned to it."""
    listed = tuple(classes) or tuple(sorted(column.names))
    for code, word in enumerate(column.names):
        if word not in listed:
            message, hint = f"{word!r} is not among the classes", f"classes: {', '.join(listed)}"
            rows.refuse(message, "unlisted-class", name, column.codes == code, hint, value=word)
    return tuple(
        (one, column.codes == (column.names.index(one) if one in column.names else len(column.names))) for one in listed
    )


def _score_rows(
    frame: Any, columns: Sequence[str], config: DossierConfig, location: str | None
) -> tuple[_Rows, Booleans, AssessedScores]:
    """Return the rows, or the cells of a lazy frame, who of them has a score, and what the scores say."""
    name, lazy = config.outcome.column, is_lazy(frame)
    if lazy:
        span = measure_range(frame, name)
        if span.infinite:
            where = _place(location, name, _say_rows(span.infinite, locate_value(frame, name, math.inf)))
            raise _no_number("infinity", where, column=name, rows=span.infinite)
    else:
        rows = _Rows(nw.from_native(frame, eager_only=True), location)
        scores, assessed = _read_scores(rows, name)
        known = np.sort(scores[assessed])
        span = ScoreRange(len(known), 0, *(known[[0, -1]].tolist() if len(known) else (np.nan, np.nan)))
    if not span.scored:
        raise _no_outcomes(name, location)
    shares = config.quantiles if config.reference else ()
    # As the decimal fraction that was written: 0.1 of 140 are 14 people, and not the 15 of binary fractions.
    best = [span.scored - math.ceil(Fraction(str(q)) * span.scored) for q in shares]
    ranks = [(span.scored - 1) // 2, span.scored // 2, *best]
    lower, upper, *cuts = find_ranked(frame, name, ranks, span) if lazy else (known[ranks] + 0.0).tolist()
    scale = Scale.of(span.lowest, span.highest) if config.reference else None
    # Of an even number the median lies between the middle two, so that who is above it is above the lower one.
    above = math.nextafter(lower, math.inf)
    if lazy:
        found = count_scored(frame, columns, name, [above, *cuts], scale, location or "data")
        rows, assessed, reached = (
            _Rows(found.rows.table, location, found.rows.counts, frame),
            found.scored,
            found.reached,
        )
        sums = found.rows.scores
    else:
        reached = scores >= np.array([above, *cuts])[:, np.newaxis]
        sums = None if scale is None else ScoreSums.of(np.where(assessed, scale.apply(scores), 0), assessed.astype(int))
    those = tuple(ScoreCut(*one) for one in zip(shares, cuts, reached[1:], strict=True))
    return rows, assessed, AssessedScores(lower / 2 + upper / 2, reached[0], those, scale, sums)


def _read_scores(rows: _Rows, name: str) -> tuple[Floats, Booleans]:
    """Return everybody's score, and who has one."""
    import pandas as pd

    values = rows.table.get_column(name).to_numpy()
    if values.dtype.kind in "iuf":
        scores = values.astype(np.float64)
        missing = pd.isna(values)
    else:
        codes, words = pd.factorize(values)
        numbers = np.array([*(_as_number(word) for word in words), np.nan])
        empty = np.array([*(not str(word).strip() for word in words), True])
        scores, missing = numbers[codes], empty[codes]
    bad = ~np.isfinite(scores) & ~missing
    if bad.any():
        row = int(np.argmax(bad))
        value = str(values[row])
        where = _place(rows.location, name, f"row {row + 1:,}")
        raise _no_number(repr(value), where, column=name, value=value, row=row + 1)
    return scores, ~missing


def _no_number(given: str, location: str, **about: Any) -> DossierError:
    hint = "leave the cell empty where there is no score"
    return DossierError(
        f"expected a finite number, got {given}", code="not-a-number", location=location, hint=hint, **about
    )


def _no_outcomes(column: str, location: str | None) -> DossierError:
    place = _place(location, column)
    return DossierError("no person has an outcome", code="no-outcomes", location=place, column=column)


def _as_number(word: Any) -> float:
    try:
        return float(word)
    except (TypeError, ValueError):
        return float("nan")
