"""Events: decisions with the groups of their subjects, and labels of earlier decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from evenhand.errors import DataError
from evenhand.monitoring.config import MonitorConfig, group_word
from evenhand.schema.table import is_missing, outcome_key, plain_value, read_number

_key_cached = lru_cache(maxsize=4096, typed=True)(outcome_key)


class OutcomeWordError(DataError):
    """A decision or label is an unknown word."""


class Event(NamedTuple):
    """A decision, or a label that arrived later.

    Attributes:
        groups: Values of the group fields, None if missing. None for a label without a decision.
        decision, label: 0 or 1, or None if missing.
        score: Number between 0 and 1; None if it is missing or not needed.
        id: ID of the decision, as text.
    """

    groups: tuple[str | None, ...] | None
    decision: float | None
    label: float | None
    score: float | None
    id: str | None


class EventReader:
    """Reads events from mappings, such as lines of JSON or rows of a table."""

    def __init__(self, config: MonitorConfig) -> None:
        self._by = tuple(config.groups.by)
        self._names = fields = config.fields
        self._decisions = {
            outcome_key(fields.favourable): 1.0,
            **dict.fromkeys(map(outcome_key, fields.unfavourable), 0.0),
        }
        self._labels = {outcome_key(fields.positive): 1.0, **dict.fromkeys(map(outcome_key, fields.negative), 0.0)}
        measures = {watch.measure for watch in config.watch}
        self._decided = bool(measures & {"selection_rate", "equal_opportunity"})
        self._labelled = config.needs_labels
        self._scored = "calibration" in measures
        self._audited = config.labels.audited_with is not None

    def read(self, entry: Mapping[str, Any]) -> Event:
        """Read the event of an entry. Fields that are not needed are ignored.

        Raises:
            DataError: The entry has neither a decision nor a label, or has an invalid value.
        """
        if not isinstance(entry, Mapping):
            raise DataError(f"expected an object with fields, got {_describe(entry)}")
        get, names = entry.get, self._names
        groups = tuple([_read_value(get(name), name) for name in self._by])
        decision = label = None
        if not _is_empty(value := get(names.decision)):
            decision = _read_answer(value, names.decision, self._decisions)
        if self._labelled and not _is_empty(value := get(names.label)):
            label = _read_answer(value, names.label, self._labels)
        id = None if _is_empty(value := get(names.id)) else str(value)
        grouped = groups.count(None) < len(groups)
        if decision is None and (self._decided or not grouped):
            if label is None:
                raise DataError(
                    f"there is no {names.decision!r}" + (f" and no {names.label!r}" if self._labelled else ""),
                    hint="an event has " + ", ".join([*self._by, names.decision]),
                )
            if id is None:
                raise DataError(f"a label requires {names.id!r} to match it with a decision")
            return Event(None, None, label, None, id)
        if self._audited and id is None:
            raise DataError(f"there is no {names.id!r}", hint="a decision that may be audited requires one")
        score = _read_share(get(names.score), names.score) if self._scored else None
        return Event(groups, decision, label, score, id)


def _read_share(value: Any, name: str) -> float:
    number = math.nan if isinstance(value, bool) else read_number(value)
    if not 0 <= number <= 1:
        raise DataError(f"expected a number between 0 and 1 in {name!r}, got {_describe(value)}")
    return number


def _read_answer(value: Any, field: str, numbers: Mapping[str, float]) -> float:
    """Return 1 or 0 for the decision or label in a field, given the number of each word."""
    value = plain_value(value)
    if not isinstance(value, str | int | float):
        raise DataError(f"expected a word or a number in {field!r}, got {_describe(value)}")
    key = _key_cached(value)
    if key not in numbers:
        raise OutcomeWordError(
            f"expected {' or '.join(numbers)} in {field!r}, got {_describe(value)}",
            hint="use these words, or name the others: fields: {favourable: WORD, unfavourable: [WORD, ...], "
            "positive: WORD, negative: [WORD, ...]}",
        )
    return numbers[key]


def _is_empty(value: Any) -> bool:
    """Return whether a field is empty; tables write NaN for a missing value."""
    return value == "" if isinstance(value, str | int) else is_missing(value)


def _read_value(value: Any, name: str) -> str | None:
    """Return the value of a group as text; None if it is missing."""
    if _is_empty(value):
        return None
    if not isinstance(value, str | int | float):
        if isinstance(value, list | dict):
            raise DataError(f"expected a value of {name!r}, got {_describe(value)}")
        value = str(value)
    return group_word(value) or None


def _describe(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
