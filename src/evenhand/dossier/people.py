"""People and outcomes as codes: every value is looked at once, then people are only counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from evenhand.dossier.config import AttributeFields, DossierConfig
from evenhand.errors import DossierError
from evenhand.text import list_some, suggest_name
from evenhand.typing import Booleans, Floats, Integers

SELECTED, NOT_SELECTED = ("1", "true"), ("0", "false")

UNKNOWN = -1
"""The code of people whose category is unknown, and of those without an outcome."""


class CategoryColumn(NamedTuple):
    """A column as codes, shape (people,), -1 for unknown, and the name of each code."""

    codes: Integers
    names: tuple[str, ...]


class AssessedPeople(NamedTuple):
    """People and outcomes, ready to be counted.

    Attributes:
        attributes: each attribute's categories by person.
        assessed: who has an outcome, shape (people,).
        outcomes: what each run counts, as its name and who has it, shape (people,) each.
        scores: of a tool that gives scores, shape (people,), not a number where there is none.
        median: of the scores of everybody who has one.
        strata: each person's stratum, if strata are declared.
    """

    attributes: dict[str, CategoryColumn]
    assessed: Booleans
    outcomes: tuple[tuple[str, Booleans], ...]
    scores: Floats | None
    median: float | None
    strata: CategoryColumn | None


def read_people(frame: Any, config: DossierConfig, *, location: str | None = None) -> AssessedPeople:
    """Read the columns that a dossier needs.

    Args:
        frame: a data frame, one person per row.
        config: which columns, and what their values mean.
        location: the file, for messages.

    Raises:
        DossierError: no-rows, no-column, no-outcomes, unlisted-category, unlisted-class, not-a-decision, not-a-number,
            no-stratum.
    """
    table = nw.from_native(frame, eager_only=True)
    if not len(table):
        raise DossierError("the data hold no people", code="no-rows", location=location, hint="one person per row")
    needed = [one.column for one in config.attributes.values()] + [config.outcome.column]
    for name in [*needed, *([config.strata] if config.strata is not None else [])]:
        if name not in table.columns:
            known = list(map(str, table.columns))
            hint = f"{suggest_name(name, known)}the columns are: {', '.join(known)}"
            message = f"there is no column {name!r}"
            raise DossierError(message, code="no-column", location=location, hint=hint, column=name)
    attributes = {name: _read_attribute(table, name, config, location) for name in config.attributes}
    kind, column = config.outcome.kind, config.outcome.column
    scores = median = None
    if kind == "score":
        scores, assessed = _read_scores(table, column, location)
    else:
        found = _factorise(table, column)
        assessed = found.codes >= 0
    if not assessed.any():
        message = "no person has an outcome"
        raise DossierError(message, code="no-outcomes", location=_place(location, column), column=column)
    if scores is not None:
        lower, upper = _middle(scores[assessed])
        # Of an even number the median lies between the middle two, so that who is above it is above the lower one.
        median = lower / 2 + upper / 2
        outcomes: tuple[tuple[str, Booleans], ...] = (("above the median", assessed & (scores > lower)),)
    elif kind == "classes":
        outcomes = _read_classes(found, column, config.outcome.classes, location)
    else:
        outcomes = (("selected", _read_selection(found, column, config.outcome.selected, location)),)
    strata = None
    if config.strata is not None:
        strata = _factorise(table, config.strata)
        if (strata.codes < 0).any():
            row = int(np.argmax(strata.codes < 0)) + 1
            message = "a person has no stratum"
            place = _place(location, config.strata, row)
            hint = "give every person one, or leave strata out"
            raise DossierError(message, code="no-stratum", location=place, hint=hint, column=config.strata, row=row)
    return AssessedPeople(attributes, assessed, outcomes, scores, median, strata)


def _place(location: str | None, column: str, row: int | None = None) -> str:
    parts = [location, f"column {column!r}", f"row {row:,}" if row is not None else None]
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


def _read_attribute(table: nw.DataFrame[Any], name: str, config: DossierConfig, location: str | None) -> CategoryColumn:
    """Return each person's category of an attribute."""
    field: AttributeFields = config.attributes[name]
    column = _factorise(table, field.column)
    unknown = {word.strip() for word in config.unknown} | {""}
    listed = field.categories
    if listed is None:
        listed = {word: word for word in sorted(column.names) if word not in unknown}
    names = tuple(dict.fromkeys(category for category in listed.values() if category not in unknown))
    codes = {word: names.index(category) if category in names else UNKNOWN for word, category in listed.items()}
    codes |= dict.fromkeys(unknown, UNKNOWN)
    strangers = [code for code, word in enumerate(column.names) if word not in codes]
    if strangers:
        row = int(np.argmax(np.isin(column.codes, strangers))) + 1
        value = column.names[int(column.codes[row - 1])]
        known = list(listed)
        hint = f"{suggest_name(value, known)}enter it under categories or unknown; listed are: {list_some(known)}"
        message = f"{value!r} is not among the categories of {name}"
        place = _place(location, field.column, row)
        given = {"column": field.column, "value": value, "row": row}
        raise DossierError(message, code="unlisted-category", location=place, hint=hint, **given)
    lookup = np.array([*(codes[word] for word in column.names), UNKNOWN], dtype=np.int64)
    return CategoryColumn(lookup[column.codes], names)


def _read_selection(column: CategoryColumn, name: str, selected: Sequence[str], location: str | None) -> Booleans:
    """Return who is selected: who has one of the values that say so, or 1 where 0 is everybody else."""
    if selected:
        chosen = [word in selected for word in column.names]
    else:
        for code, word in enumerate(column.names):
            if word.lower() not in SELECTED + NOT_SELECTED:
                row = int(np.argmax(column.codes == code)) + 1
                message = f"{word!r} is not a decision: expected 1 (selected), 0 (not), or an empty cell"
                hint = "say which values mean selected: outcome: {selected: [...]}"
                place = _place(location, name, row)
                given = {"column": name, "value": word, "row": row}
                raise DossierError(message, code="not-a-decision", location=place, hint=hint, **given)
        chosen = [word.lower() in SELECTED for word in column.names]
    return np.array([*chosen, False])[column.codes]


def _read_classes(
    column: CategoryColumn, name: str, classes: Sequence[str], location: str | None
) -> tuple[tuple[str, Booleans], ...]:
    """Return each class, and who is assigned to it."""
    listed = tuple(classes) or tuple(sorted(column.names))
    for code, word in enumerate(column.names):
        if word not in listed:
            row = int(np.argmax(column.codes == code)) + 1
            message, hint = f"{word!r} is not among the classes", f"classes: {', '.join(listed)}"
            place = _place(location, name, row)
            given = {"column": name, "value": word, "row": row}
            raise DossierError(message, code="unlisted-class", location=place, hint=hint, **given)
    return tuple(
        (one, column.codes == (column.names.index(one) if one in column.names else len(column.names))) for one in listed
    )


def _read_scores(table: nw.DataFrame[Any], name: str, location: str | None) -> tuple[Floats, Booleans]:
    """Return everybody's score, and who has one."""
    import pandas as pd

    values = table.get_column(name).to_numpy()
    if values.dtype.kind in "iuf":
        scores = values.astype(np.float64)
        missing = pd.isna(values)
        bad = ~np.isfinite(scores) & ~missing
    else:
        codes, words = pd.factorize(values)
        numbers = np.array([*(_as_number(word) for word in words), np.nan])
        empty = np.array([*(not str(word).strip() for word in words), True])
        scores, missing = numbers[codes], empty[codes]
        bad = ~np.isfinite(scores) & ~missing
    if bad.any():
        row = int(np.argmax(bad)) + 1
        value = str(values[row - 1])
        message, hint = f"expected a finite number, got {value!r}", "leave the cell empty where there is no score"
        place, given = _place(location, name, row), {"column": name, "value": value, "row": row}
        raise DossierError(message, code="not-a-number", location=place, hint=hint, **given)
    return scores, ~missing


def _as_number(word: Any) -> float:
    try:
        return float(word)
    except (TypeError, ValueError):
        return float("nan")


def _middle(scores: Floats) -> tuple[float, float]:
    """Return the middle two of the scores, which are one and the same if their number is odd."""
    low, high = (len(scores) - 1) // 2, len(scores) // 2
    parted = np.partition(scores, (low, high))
    return float(parted[low]), float(parted[high])
