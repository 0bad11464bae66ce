"""Read people and outcomes as codes.

The rows of a lazy frame are counted by its engine, which returns one row per combination of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, NoReturn

import narwhals as nw
import numpy as np
from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.text import list_some, suggest_name
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.dossier.config import DossierConfig, OutcomeFields
from evenhand.errors import DossierError
from evenhand.schema.counted import count_rows, is_lazy, read_lazy
from evenhand.schema.table import (
    TRUTH,
    CodedColumn,
    CodedTable,
    count_people,
    find_variants,
    folded,
    is_adverse_name,
    list_columns,
    means_unknown,
    outcome_key,
    read_number,
    word_of,
)
from evenhand.schema.thresholds import find_codes
from evenhand.stats.proportion import count_needed

UNKNOWN = -1
"""Code of an unknown category, and of a missing outcome."""

MOST_LISTED = 50
"""Maximum number of values listed in a message."""


class CategoryColumn(NamedTuple):
    """Column as codes, shape (people,), -1 for unknown, and the name of each code."""

    codes: Integers
    names: tuple[str, ...]


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
        rows = read_lazy(frame, [*columns, column], location or "data") if is_lazy(frame) else frame
        table = CodedTable(rows, location=location or "")
        assessed, scores, words = _score_rows(table, config)
        outcomes: tuple[tuple[str, Booleans], ...] = (("above the median", scores.above),)
    else:
        if is_lazy(frame):
            table = count_rows(frame, [*columns, column], location or "data")
            table.location = location or ""
        else:
            table = CodedTable(frame, location=location or "")
        assessed, outcomes, words = _read_outcome(table, config)
    attributes = {name: _read_attribute(table, name, config) for name in config.attributes}
    unknown = {
        name: table[config.attributes[name].column].count_words(assessed & (column.codes < 0))
        for name, column in attributes.items()
    }
    return AssessedPeople(
        attributes=attributes,
        counts=np.ones(table.rows, dtype=np.int64) if table.counts is None else table.counts,
        assessed=assessed,
        outcomes=outcomes,
        scores=scores,
        strata=None if config.strata is None else _read_strata(table, config.strata),
        words=words,
        unknown=unknown,
    )


def join_words(words: Iterable[str]) -> str:
    """Quote values and join them by commas."""
    return ", ".join(map(repr, words))


def _place(location: str, column: str, where: str | None = None) -> str:
    parts = [location, f"column {column!r}", where]
    return ", ".join(part for part in parts if part)


def _locate(column: CodedColumn, rows: Booleans) -> dict[str, int]:
    """Return the position of the first row or, if rows were counted, the number of rows with the same value."""
    first = int(np.argmax(rows))
    if column.counts is None:
        return {"row": first + 1}
    codes = column.coding.codes
    return {"rows": count_people(rows & (codes == codes[first]), column.counts)}


def _refuse(column: CodedColumn, rows: Booleans, message: str, code: str, location: str, hint: str) -> NoReturn:
    """Raise an error that lists the values in these rows with their counts and first rows."""
    raise DossierError(
        f"{message}: {column.describe(rows, MOST_LISTED)}",
        code=code,
        location=_place(location, column.name),
        hint=hint,
        column=column.name,
        value=column.at(int(np.argmax(rows))),
        **_locate(column, rows),
    )


def _list_words(column: CodedColumn) -> list[str]:
    """List the distinct values, sorted, so that the numbers do not depend on the order of people."""
    return sorted(word for word in column.coding.values if word is not None)


def _encode(column: CodedColumn, codes: Mapping[str, int], names: Sequence[str]) -> CategoryColumn:
    """Encode a column by the code of each value. Empty cells and other values are unknown."""
    return CategoryColumn(column.map(lambda word: codes.get(word, UNKNOWN), np.int64), tuple(names))


def _read_strata(table: CodedTable, name: str) -> CategoryColumn:
    column = table[name].as_words()
    empty = column.missing()
    if empty.any():
        raise DossierError(
            "a person has no stratum",
            code="no-stratum",
            location=_place(table.location, name, column.place(empty)),
            hint="assign a stratum to each person, or remove strata",
            column=name,
            **_locate(column, empty),
        )
    names = _list_words(column)
    return _encode(column, {name: code for code, name in enumerate(names)}, names)


def _read_attribute(table: CodedTable, name: str, config: DossierConfig) -> CategoryColumn:
    """Read the category of each entry for an attribute."""
    field = config.attributes[name]
    column = table[field.column].as_words()
    words = _list_words(column)
    unknown = {word_of(word) for word in config.unknown} | {""}
    if field.categories is None:
        listed = {word: word for word in words if word not in unknown}
        forms = column.map(lambda word: word in listed and means_unknown(word))
        if forms.any():
            message = f"words of {name} mean that the category is unknown"
            hint = "enter them under `unknown`, or list every category of the column under `categories`"
            _refuse(column, forms, message, "unlisted-category", table.location, hint)
    else:
        listed = {word_of(word): category for word, category in field.categories.items()}
    names = tuple(dict.fromkeys(category for category in listed.values() if category not in unknown))
    for variants in find_variants(names):
        raise DossierError(
            f"categories of {name} differ only in case, spaces or look-alike characters: {join_words(variants)}",
            code="spelling-variants",
            location=_place(table.location, field.column),
            hint="correct the cells, or enter each spelling under `categories` with the same category: "
            f"{{{variants[0]!r}: {variants[0]}, {variants[1]!r}: {variants[0]}}}",
            column=field.column,
            values=tuple(variants),
        )
    codes = {word: names.index(category) if category in names else UNKNOWN for word, category in listed.items()}
    codes |= dict.fromkeys(unknown, UNKNOWN)
    truth = {outcome_key(word): code for word, code in codes.items()}
    codes |= {word: truth[outcome_key(word)] for word in words if word not in codes and outcome_key(word) in truth}
    others = [word for word in words if word not in codes]
    if others:
        candidates = list(dict.fromkeys([*listed, *sorted(unknown - {""})]))
        near = _propose(others, candidates, outcome=False)
        hint = f"{near}enter each under `categories` or `unknown`; listed are: {list_some(candidates)}"
        message = f"words that are not among the categories of {name}"
        _refuse(column, column.map(others.__contains__), message, "unlisted-category", table.location, hint)
    return _encode(column, codes, names)


def _propose(words: Iterable[str], candidates: Sequence[str], *, outcome: bool = True) -> str:
    """Return hints for values that are similar to the candidates, or that mean "unknown"; empty for others."""
    by_folded = {folded(word): word for word in candidates}
    hints = []
    for word in islice(words, MOST_LISTED):
        if folded(word) in by_folded:
            hints.append(f"{word!r} differs from {by_folded[folded(word)]!r} only in case or spaces")
        elif means_unknown(word, outcome=outcome):
            hints.append(f"{word!r} seems to mean unknown")
        elif near := suggest_name(word, candidates):
            hints.append(f"{word!r}: {near.strip()}")
    return "".join(f"{hint}; " for hint in hints)


def _read_outcome(
    table: CodedTable, config: DossierConfig
) -> tuple[Booleans, tuple[tuple[str, Booleans], ...], OutcomeWords]:
    """Read the entries with an outcome, the entries with each outcome or class, and the meaning of each value."""
    outcome = config.outcome
    column = table[outcome.column].as_words()
    named = {outcome_key(word) for word in (*outcome.selected, *outcome.rejected, *outcome.classes)}
    without = {word for word in map(word_of, config.unknown) if outcome_key(word) not in named}
    empty = column.missing()
    counts = dict(sorted(column.count_words(~empty).items()))
    unknown = {word: n for word, n in counts.items() if word in without}
    decided = {word: n for word, n in counts.items() if word not in without}
    if not decided:
        raise _no_outcomes(outcome.column, table.location)
    assessed, unanswered = column.map(decided.__contains__), count_people(empty, table.counts)
    if outcome.kind == "classes":
        classes = _read_classes(column, decided, outcome, table.location)
        return assessed, classes, OutcomeWords(unknown=unknown, empty=unanswered)
    selected = _find_selected(column, decided, outcome, table.location)
    words = OutcomeWords(
        selected={word: n for word, n in decided.items() if word in selected},
        rejected={word: n for word, n in decided.items() if word not in selected},
        unknown=unknown,
        empty=unanswered,
    )
    return assessed, (("selected", column.map(selected.__contains__)),), words


def _find_selected(column: CodedColumn, words: Mapping[str, int], outcome: OutcomeFields, location: str) -> set[str]:
    """Return the values that mean selected. All other values mean rejected, or raise an error."""
    keys = {word: outcome_key(word) for word in words}
    if not outcome.selected and is_adverse_name(outcome.column) is not False:
        raise DossierError(
            f"the name of the outcome column {outcome.column!r} does not say that 1 means selected",
            code="not-a-decision",
            location=location or None,
            hint=f"state it: outcome: {{column: {outcome.column}, selected: [0]}}",
            column=outcome.column,
        )
    selected = {outcome_key(word) for word in outcome.selected} or {"1"}
    rejected = {outcome_key(word) for word in outcome.rejected} or ({"0"} if not outcome.selected else set())
    _require_words(column, words, (*outcome.selected, *outcome.rejected), location)
    others = [word for word in words if keys[word] not in selected | rejected]
    listed = [*outcome.selected, *outcome.rejected] or ["1", "0"]
    alone = outcome.selected and not outcome.rejected and len({keys[word] for word in others}) == 1
    variants = {folded(word) for word in listed}
    if others and (not alone or any(means_unknown(word, outcome=True) or folded(word) in variants for word in others)):
        message = "words of the outcome that mean neither selected nor rejected"
        hint = f"{_propose(others, listed)}enter each under `selected`, `rejected` or `unknown`, such as "
        hint += f"outcome: {{rejected: [{others[0]}]}}"
        _refuse(column, column.map(others.__contains__), message, "not-a-decision", location, hint)
    return {word for word in words if keys[word] in selected}


def _require_words(column: CodedColumn, words: Mapping[str, int], configured: Iterable[str], location: str) -> None:
    """Check that all configured values occur."""
    keys = {outcome_key(word) for word in words}
    absent = [word for word in configured if outcome_key(word) not in keys]
    # If all values are truth values, the opposite of a configured value need not occur.
    if absent and not all(outcome_key(word) in TRUTH for word in (*absent, *keys)):
        message = f"{join_words(absent)} never occurs in the outcome, whose words are"
        hint = f"{''.join(suggest_name(word, words) for word in absent)}correct the configuration"
        _refuse(column, column.map(words.__contains__), message, "never-occurs", location, hint)


def _read_classes(
    column: CodedColumn, words: Mapping[str, int], outcome: OutcomeFields, location: str
) -> tuple[tuple[str, Booleans], ...]:
    """Return the entries of each class."""
    listed = outcome.classes or tuple({outcome_key(word): word for word in words}.values())
    keys = {outcome_key(word): code for code, word in enumerate(listed)}
    others = [word for word in words if outcome_key(word) not in keys]
    if not outcome.classes:
        others = [word for word in words if means_unknown(word, outcome=True)]
        others += [word for variants in find_variants(listed) for word in variants]
    if others:
        message = "words that are not among the classes"
        hint = f"{_propose(others, listed)}enter each under `classes` or `unknown`; listed are: {list_some(listed)}"
        _refuse(column, column.map(others.__contains__), message, "unlisted-class", location, hint)
    _require_words(column, words, outcome.classes, location)
    codes = column.map(lambda word: keys.get(outcome_key(word), UNKNOWN), np.int64)
    return tuple((name, codes == code) for code, name in enumerate(listed))


def _score_rows(table: CodedTable, config: DossierConfig) -> tuple[Booleans, AssessedScores, OutcomeWords]:
    """Read the scores, and compare them with their median and the declared quantiles."""
    name = config.outcome.column
    scores, assessed, words = _read_scores(table, name, config.unknown)
    ordered = np.sort(scores[assessed])
    n = len(ordered)
    if not n:
        raise _no_outcomes(name, table.location)
    shares = config.quantiles if config.reference else ()
    lower, upper = (float(ordered[rank]) + 0.0 for rank in ((n - 1) // 2, n // 2))
    cuts = [float(ordered[n - count_needed(share, n)]) + 0.0 for share in shares]
    quantiles = tuple(ScoreCut(share, cut, scores >= cut) for share, cut in zip(shares, cuts, strict=True))
    # With an even number of scores, the median lies between the middle two: scores above it are above the lower one.
    return assessed, AssessedScores(lower / 2 + upper / 2, scores > lower, quantiles, scores), words


def _read_scores(table: CodedTable, name: str, unknown: Sequence[str]) -> tuple[Floats, Booleans, OutcomeWords]:
    """Read the scores, the entries with a score, and the values that mean no outcome."""
    column = table[name]
    scores, empty = column.numbers(read_number), column.missing()
    without = set(map(word_of, unknown))
    marked = ~empty & column.map(lambda value: word_of(value) in without)
    invalid = ~np.isfinite(scores) & ~(empty | marked)
    if invalid.any():
        hint = "leave the cell empty where there is no score, or enter the word under `unknown`"
        message = "expected finite numbers as scores, got"
        _refuse(column.as_words(), invalid, message, "not-a-number", table.location, hint)
    codes = find_codes(scores[~(empty | marked)])
    if codes:
        coded, hint = (
            np.isin(scores, codes),
            "leave the cell empty where there is no score, or enter it under `unknown`",
        )
        _refuse(column, coded, "there are codes for unknown scores", "unknown-code", table.location, hint)
    unknown_words = dict(sorted(column.count_words(marked).items()))
    return scores, ~(empty | marked), OutcomeWords(unknown=unknown_words, empty=count_people(empty, table.counts))


def _no_outcomes(column: str, location: str) -> DossierError:
    place = _place(location, column)
    return DossierError("no person has an outcome", code="no-outcomes", location=place, column=column)
