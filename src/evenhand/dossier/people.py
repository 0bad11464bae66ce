"""Read people and outcomes as codes.

The rows of a lazy frame are counted by its engine, which returns one row per combination of values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, NoReturn

import narwhals as nw
import numpy as np
from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, list_some, suggest_name
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.dossier.config import DossierConfig, OutcomeFields
from evenhand.errors import DossierError
from evenhand.schema.counted import count_rows, is_lazy, locate_value, read_lazy
from evenhand.schema.table import (
    CodedTable,
    find_variants,
    folded,
    is_adverse_name,
    list_columns,
    means_no_outcome,
    means_unknown,
    outcome_key,
    truth_key,
    word_of,
)
from evenhand.stats.proportion import count_needed

UNKNOWN = -1
"""Code of an unknown category, and of a missing outcome."""

MOST_LISTED = 50
"""Maximum number of values listed in a message."""


class CategoryColumn(NamedTuple):
    """Column as codes, shape (people,), -1 for unknown, and the name of each code."""

    codes: Integers
    names: tuple[str, ...]

    def look_up(self, values: Sequence[int]) -> Integers:
        """Map each entry to the value of its name, or to -1 if it is unknown."""
        return np.array([*values, UNKNOWN], dtype=np.int64)[self.codes]


class OutcomeWords(ResultPart):
    """Values of an outcome column by meaning, each with its number of people.

    Attributes:
        selected, rejected: Values that mean selected or rejected; empty for other kinds of outcomes.
        unknown: Values that mean no outcome.
        empty: Number of people with an empty cell.
    """

    selected: dict[str, int] = Field(default_factory=dict)
    rejected: dict[str, int] = Field(default_factory=dict)
    unknown: dict[str, int] = Field(default_factory=dict)
    empty: int = 0


class ScoreCut(NamedTuple):
    """Share of the people with the highest scores, their lowest score, and a mask of the entries that reach it."""

    q: float
    cut: float
    reached: Booleans


class AssessedScores(NamedTuple):
    """Scores of people.

    Attributes:
        median: Median of all scores.
        above: Whether each score is above the median, shape (entries,).
        cuts: Cut-offs of the declared shares.
        scores: Scores, NaN where unknown, shape (entries,).
    """

    median: float
    above: Booleans
    cuts: tuple[ScoreCut, ...]
    scores: Floats


class AssessedPeople(NamedTuple):
    """People and outcomes, with one entry per person or per group of people with equal values.

    Attributes:
        attributes: Categories of the entries by attribute.
        counts: Number of people of each entry, shape (entries,).
        assessed: Whether each entry has an outcome, shape (entries,).
        outcomes: Name of each outcome or class, and whether each entry has it, shape (entries,).
        scores: Scores. None for other kinds of outcomes.
        strata: Stratum of each entry. None without strata.
        words: Meaning of each value of the outcome column.
        unknown: Number of assessed people with each value that means unknown, by attribute.
    """

    attributes: dict[str, CategoryColumn]
    counts: Integers
    assessed: Booleans
    outcomes: tuple[tuple[str, Booleans], ...]
    scores: AssessedScores | None
    strata: CategoryColumn | None
    words: OutcomeWords
    unknown: dict[str, dict[str, int]]

    def number(self, entries: Booleans) -> int:
        """Count the people in the selected entries."""
        return int(self.counts[entries].sum())


class _Rows(NamedTuple):
    """Table with one row per person, or per cell of the lazy frame ``source`` with its number of people."""

    table: nw.DataFrame[Any]
    location: str | None
    counts: Integers | None = None
    source: Any = None

    def count(self, entries: Booleans) -> int:
        """Count the people in the selected entries."""
        return int(entries.sum() if self.counts is None else self.counts[entries].sum())

    def count_words(self, column: CategoryColumn) -> dict[str, int]:
        """Count the people with each value of a column."""
        present = column.codes >= 0
        counts = None if self.counts is None else self.counts[present]
        totals = np.bincount(column.codes[present], counts, len(column.names)).astype(int).tolist()
        return dict(zip(column.names, totals, strict=True))

    def describe(self, column: str, count: int, first: int) -> str:
        """Describe a number of people and the first of their rows."""
        where = f"in row {first + 1:,}"
        if self.counts is not None:
            where = locate_value(self.source, column, self.table.get_column(column)[first])
        return format_count(count, "row", "rows") + (f", the first of them {where}" if where else "")

    def refuse_words(
        self, message: str, code: str, name: str, column: CategoryColumn, words: Iterable[str], hint: str
    ) -> NoReturn:
        """Raise an error that lists values of a column with their counts and first rows, in the order of these rows."""
        codes, firsts = np.unique(column.codes, return_index=True)
        entries = dict(zip(codes.tolist(), firsts.tolist(), strict=True))
        counts, places = self.count_words(column), {word: code for code, word in enumerate(column.names)}
        first = {word: entries[places[word]] for word in words}
        ordered = sorted(first, key=first.__getitem__)
        listed = [f"{word!r} ({self.describe(name, counts[word], first[word])})" for word in ordered[:MOST_LISTED]]
        if len(ordered) > MOST_LISTED:
            listed.append(f"and {len(ordered) - MOST_LISTED:,} more")
        word = ordered[0]
        raise DossierError(
            f"{message}: {'; '.join(listed)}",
            code=code,
            location=_place(self.location, name),
            hint=hint,
            column=name,
            value=word,
            **({"row": first[word] + 1} if self.counts is None else {"rows": counts[word]}),
        )


def read_people(frame: Any, config: DossierConfig, *, location: str | None = None) -> AssessedPeople:
    """Read the columns of a dossier.

    Args:
        frame: Data frame with one person per row. The rows of a lazy frame are counted by its engine.
        config: Columns and the meanings of their values.
        location: Name of the file in messages.

    Raises:
        DossierError: The data do not fit the configuration. The codes are ``no-rows``, ``no-column``, ``no-outcomes``,
            ``unlisted-category``, ``unlisted-class``, ``not-a-decision``, ``not-a-number``, ``no-stratum``,
            ``never-occurs`` and ``spelling-variants``.
        DataError: The rows of a lazy frame cannot be counted.
    """
    if not is_lazy(frame) and not len(nw.from_native(frame, eager_only=True)):
        raise DossierError(
            "the data contain no people", code="no-rows", location=location, hint="pass one person per row"
        )
    column = config.outcome.column
    columns = [field.column for field in config.attributes.values()]
    columns += [config.strata] if config.strata is not None else []
    names = list_columns(frame, lazy=True)
    for name in [*columns, column]:
        if name not in names:
            hint = f"{suggest_name(name, names)}the columns are: {', '.join(names)}"
            message = f"there is no column {name!r}"
            raise DossierError(message, code="no-column", location=location, hint=hint, column=name)
    scores: AssessedScores | None = None
    if config.outcome.kind == "score":
        if is_lazy(frame):
            frame = read_lazy(frame, [*columns, column], location or "data")
        rows = _Rows(nw.from_native(frame, eager_only=True), location)
        assessed, scores, words = _score_rows(rows, config)
        outcomes: tuple[tuple[str, Booleans], ...] = (("above the median", scores.above),)
    else:
        if is_lazy(frame):
            counted = count_rows(frame, [*columns, column], location or "data")
            rows = _Rows(counted.frame, location, counted.counts, frame)
        else:
            rows = _Rows(nw.from_native(frame, eager_only=True), location)
        assessed, outcomes, words = _read_outcome(rows, config)
    attributes = {name: _read_attribute(rows, name, config) for name in config.attributes}
    strata = None
    if config.strata is not None:
        strata = _factorise(rows.table, config.strata)
        empty = strata.codes < 0
        if empty.any():
            first, number = int(np.argmax(empty)), rows.count(empty)
            raise DossierError(
                "a person has no stratum",
                code="no-stratum",
                location=_place(location, config.strata, rows.describe(config.strata, number, first)),
                hint="assign a stratum to each person, or remove strata",
                column=config.strata,
                **({"row": first + 1} if rows.counts is None else {"rows": number}),
            )
    counts = np.ones(len(assessed), dtype=np.int64) if rows.counts is None else rows.counts
    table = CodedTable(rows.table, rows.counts)
    unknown = {
        name: table[config.attributes[name].column].count_words(assessed & (column.codes < 0))
        for name, column in attributes.items()
    }
    return AssessedPeople(attributes, counts, assessed, outcomes, scores, strata, words, unknown)


def join_words(words: Iterable[str]) -> str:
    """Quote values and join them by commas."""
    return ", ".join(map(repr, words))


def _place(location: str | None, column: str, where: str | None = None) -> str:
    parts = [location, f"column {column!r}", where]
    return ", ".join(part for part in parts if part)


def _factorise(table: nw.DataFrame[Any], column: str) -> CategoryColumn:
    """Encode a column by the positions of its sorted distinct values. Empty cells are unknown."""
    import pandas as pd

    codes, values = pd.factorize(table.get_column(column).to_numpy())
    words = [word_of(value) for value in (values.tolist() if values.dtype.kind == "f" else values)]
    # Sorted, so that the numbers do not depend on the order of people, not even the last digit of a sum over strata.
    names = tuple(sorted(set(words) - {""}))
    place = {name: code for code, name in enumerate(names)} | {"": UNKNOWN}
    # The last entry is for code -1, a missing cell.
    lookup = np.array([*(place[word] for word in words), UNKNOWN], dtype=np.int64)
    return CategoryColumn(lookup[codes], names)


def _read_attribute(rows: _Rows, name: str, config: DossierConfig) -> CategoryColumn:
    """Read the category of each entry for an attribute."""
    field = config.attributes[name]
    column = _factorise(rows.table, field.column)
    unknown = {word_of(word) for word in config.unknown} | {""}
    if field.categories is None:
        listed = {word: word for word in column.names if word not in unknown}
        forms = [word for word in listed if means_unknown(word)]
        if forms:
            message = f"words of {name} mean that the category is unknown"
            hint = "enter them under `unknown`, or list every category of the column under `categories`"
            rows.refuse_words(message, "unlisted-category", field.column, column, forms, hint)
    else:
        listed = {word_of(word): category for word, category in field.categories.items()}
    names = tuple(dict.fromkeys(category for category in listed.values() if category not in unknown))
    for variants in find_variants(names):
        raise DossierError(
            f"categories of {name} differ only in case or spaces: {join_words(variants)}",
            code="spelling-variants",
            location=_place(rows.location, field.column),
            hint="correct the cells, or enter each spelling under `categories` with the same category: "
            f"{{{variants[0]!r}: {variants[0]}, {variants[1]!r}: {variants[0]}}}",
            column=field.column,
            values=tuple(variants),
        )
    codes = {word: names.index(category) if category in names else UNKNOWN for word, category in listed.items()}
    codes |= dict.fromkeys(unknown, UNKNOWN)
    truth = {outcome_key(word): code for word, code in codes.items()}
    codes |= {
        word: truth[outcome_key(word)] for word in column.names if word not in codes and outcome_key(word) in truth
    }
    others = [word for word in column.names if word not in codes]
    if others:
        candidates = list(dict.fromkeys([*listed, *sorted(unknown - {""})]))
        near = _propose(others, candidates, means_unknown)
        hint = f"{near}enter each under `categories` or `unknown`; listed are: {list_some(candidates)}"
        message = f"words that are not among the categories of {name}"
        rows.refuse_words(message, "unlisted-category", field.column, column, others, hint)
    return CategoryColumn(column.look_up([codes[word] for word in column.names]), names)


def _propose(
    words: Iterable[str], candidates: Sequence[str], means_none: Callable[[str], bool] = means_no_outcome
) -> str:
    """Return hints for values that are similar to the candidates, or that mean "unknown"; empty for others."""
    by_folded = {folded(word): word for word in candidates}
    hints = []
    for word in islice(words, MOST_LISTED):
        if folded(word) in by_folded:
            hints.append(f"{word!r} differs from {by_folded[folded(word)]!r} only in case or spaces")
        elif means_none(word):
            hints.append(f"{word!r} seems to mean unknown")
        elif near := suggest_name(word, candidates):
            hints.append(f"{word!r}: {near.strip()}")
    return "".join(f"{hint}; " for hint in hints)


def _read_outcome(
    rows: _Rows, config: DossierConfig
) -> tuple[Booleans, tuple[tuple[str, Booleans], ...], OutcomeWords]:
    """Read the entries with an outcome, the entries with each outcome or class, and the meaning of each value."""
    outcome = config.outcome
    column = _factorise(rows.table, outcome.column)
    named = {outcome_key(word) for word in (*outcome.selected, *outcome.rejected, *outcome.classes)}
    without = {word for word in map(word_of, config.unknown) if outcome_key(word) not in named}
    counts = rows.count_words(column)
    unknown = {word: n for word, n in counts.items() if word in without}
    decided = {word: n for word, n in counts.items() if word not in without}
    if not decided:
        raise _no_outcomes(outcome.column, rows.location)
    assessed = column.look_up([word in decided for word in column.names]) == 1
    empty = rows.count(column.codes < 0)
    if outcome.kind == "classes":
        return assessed, _read_classes(column, decided, outcome, rows), OutcomeWords(unknown=unknown, empty=empty)
    selected = _find_selected(column, decided, outcome, rows)
    words = OutcomeWords(
        selected={word: n for word, n in decided.items() if word in selected},
        rejected={word: n for word, n in decided.items() if word not in selected},
        unknown=unknown,
        empty=empty,
    )
    return assessed, (("selected", column.look_up([word in selected for word in column.names]) == 1),), words


def _find_selected(column: CategoryColumn, words: Iterable[str], outcome: OutcomeFields, rows: _Rows) -> set[str]:
    """Return the values that mean selected. All other values mean rejected, or raise an error."""
    keys = {word: outcome_key(word) for word in words}
    if not outcome.selected and is_adverse_name(outcome.column) is not False:
        raise DossierError(
            f"the name of the outcome column {outcome.column!r} does not say that 1 means selected",
            code="not-a-decision",
            location=rows.location,
            hint=f"state it: outcome: {{column: {outcome.column}, selected: [0]}}",
            column=outcome.column,
        )
    selected = {outcome_key(word) for word in outcome.selected} or {"1"}
    rejected = {outcome_key(word) for word in outcome.rejected} or ({"0"} if not outcome.selected else set())
    _require_words(column, words, (*outcome.selected, *outcome.rejected), outcome, rows)
    others = [word for word in words if keys[word] not in selected | rejected]
    listed = [*outcome.selected, *outcome.rejected] or ["1", "0"]
    alone = outcome.selected and not outcome.rejected and len({keys[word] for word in others}) == 1
    variants = {folded(word) for word in listed}
    if others and (not alone or any(means_no_outcome(word) or folded(word) in variants for word in others)):
        message = "words of the outcome that mean neither selected nor rejected"
        hint = f"{_propose(others, listed)}enter each under `selected`, `rejected` or `unknown`, such as "
        hint += f"outcome: {{selected: [{listed[0]}], rejected: [{others[0]}]}}"
        rows.refuse_words(message, "not-a-decision", outcome.column, column, others, hint)
    return {word for word in words if keys[word] in selected}


def _require_words(
    column: CategoryColumn, words: Iterable[str], configured: Iterable[str], outcome: OutcomeFields, rows: _Rows
) -> None:
    """Check that all configured values occur."""
    keys = {outcome_key(word) for word in words}
    absent = [word for word in configured if outcome_key(word) not in keys]
    # If all values are truth values, the opposite of a configured value need not occur.
    if absent and not all(truth_key(word) for word in (*absent, *keys)):
        message = f"{join_words(absent)} never occurs in the outcome, whose words are"
        hint = f"{''.join(suggest_name(word, words) for word in absent)}correct the configuration"
        rows.refuse_words(message, "never-occurs", outcome.column, column, words, hint)


def _read_classes(
    column: CategoryColumn, words: Iterable[str], outcome: OutcomeFields, rows: _Rows
) -> tuple[tuple[str, Booleans], ...]:
    """Return the entries of each class."""
    listed = outcome.classes or tuple({outcome_key(word): word for word in words}.values())
    keys = {outcome_key(word) for word in listed}
    others = [word for word in words if outcome_key(word) not in keys]
    if not outcome.classes:
        others = [word for word in words if means_no_outcome(word)]
        others += [word for variants in find_variants(listed) for word in variants]
    if others:
        message = "words that are not among the classes"
        hint = f"{_propose(others, listed)}enter each under `classes` or `unknown`; listed are: {list_some(listed)}"
        rows.refuse_words(message, "unlisted-class", outcome.column, column, dict.fromkeys(others), hint)
    _require_words(column, words, outcome.classes, outcome, rows)
    return tuple(
        (name, column.look_up([outcome_key(word) == outcome_key(name) for word in column.names]) == 1)
        for name in listed
    )


def _score_rows(rows: _Rows, config: DossierConfig) -> tuple[Booleans, AssessedScores, OutcomeWords]:
    """Read the scores, and compare them with their median and the declared quantiles."""
    name = config.outcome.column
    scores, assessed, words = _read_scores(rows, name, config.unknown)
    ordered = np.sort(scores[assessed])
    n = len(ordered)
    if not n:
        raise _no_outcomes(name, rows.location)
    shares = config.quantiles if config.reference else ()
    lower, upper = (float(ordered[rank]) + 0.0 for rank in ((n - 1) // 2, n // 2))
    cuts = [float(ordered[n - count_needed(share, n)]) + 0.0 for share in shares]
    quantiles = tuple(ScoreCut(share, cut, scores >= cut) for share, cut in zip(shares, cuts, strict=True))
    # With an even number of scores, the median lies between the middle two: scores above it are above the lower one.
    return assessed, AssessedScores(lower / 2 + upper / 2, scores > lower, quantiles, scores), words


def _read_scores(rows: _Rows, name: str, unknown: Sequence[str]) -> tuple[Floats, Booleans, OutcomeWords]:
    """Read the scores, the entries with a score, and the values that mean no outcome."""
    values = rows.table.get_column(name).to_numpy()
    if values.dtype.kind in "iuf":
        scores = values.astype(np.float64)
        missing = np.isnan(scores)
        words = OutcomeWords(empty=rows.count(missing))
    else:
        column = _factorise(rows.table, name)
        scores = np.array([*map(_as_number, column.names), np.nan])[column.codes]
        without = set(map(word_of, unknown))
        missing = column.look_up([UNKNOWN if word in without else 0 for word in column.names]) == UNKNOWN
        counts = rows.count_words(column)
        unknown_words = {word: n for word, n in counts.items() if word in without}
        words = OutcomeWords(unknown=unknown_words, empty=rows.count(column.codes < 0))
    invalid = ~np.isfinite(scores) & ~missing
    if invalid.any():
        column = _factorise(rows.table, name)
        others = [column.names[code] for code in np.unique(column.codes[invalid])]
        hint = "leave the cell empty where there is no score, or enter the word under `unknown`"
        rows.refuse_words("expected finite numbers as scores, got", "not-a-number", name, column, others, hint)
    return scores, ~missing, words


def _no_outcomes(column: str, location: str | None) -> DossierError:
    place = _place(location, column)
    return DossierError("no person has an outcome", code="no-outcomes", location=place, column=column)


def _as_number(word: Any) -> float:
    try:
        return float(word)
    except (TypeError, ValueError):
        return float("nan")
