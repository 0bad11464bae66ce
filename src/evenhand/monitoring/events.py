"""Events: decisions with the groups of their subjects, and labels of earlier decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from evenhand.errors import DataError
from evenhand.monitoring.config import MonitorConfig, group_word
from evenhand.schema.table import folded, means_no_outcome, outcome_key, read_number

MAX_CACHED = 64
"""Maximum number of spellings of decisions and labels that are kept."""


class OutcomeWordError(DataError):
    """A decision or label with an unknown word.

    Args:
        field: Name of the field.
        word: the word.
    """

    def __init__(self, message: str, *, field: str, word: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.word = word


class Event(NamedTuple):
    """A decision, or a label that came later.

    Attributes:
        groups: Values of the group fields, None if missing. None for a label alone.
        decision, label: 0 or 1, or None if missing.
        score: Number between 0 and 1; None if it is missing or not needed.
        id: ID of the decision, as text.
        other_decision, other_label: Words of the decision and of the label that the configuration does not list. One
            such word means 0. A second one is an error.
    """

    groups: tuple[str | None, ...] | None
    decision: float | None
    label: float | None
    score: float | None
    id: str | None
    other_decision: str | None = None
    other_label: str | None = None


class AnswerReader:
    """Reads decisions or labels as 1 and 0.

    Args:
        field: name of the field.
        favourable: the word that means 1. If None, true or 1 means 1.
        unfavourable: the words that mean 0. If empty, a single other word is read as 0.
        entries: names of the configuration's entries for these words.
    """

    def __init__(self, field: str, favourable: Any, unfavourable: Sequence[Any], entries: tuple[str, str]) -> None:
        self.field = field
        self._listed = favourable is not None
        self._favourable = outcome_key(1 if favourable is None else favourable)
        self._unfavourable = set(map(outcome_key, unfavourable)) or (set() if self._listed else {"0"})
        self._words = [1 if favourable is None else favourable, *unfavourable]
        self._entries = entries
        self._interpret_cached = lru_cache(MAX_CACHED, typed=True)(self._interpret)

    def read(self, value: Any) -> tuple[float, str | None]:
        """Return 1 or 0, and the word if the configuration does not list it.

        Raises:
            DataError: the value is not a word, a number or a Boolean.
            OutcomeWordError: the word has no meaning.
        """
        if not isinstance(value, str | int | float):
            raise DataError(f"expected a word or a number in {self.field!r}, got {_describe(value)}")
        return self._interpret_cached(value)

    def _interpret(self, value: str | float) -> tuple[float, str | None]:
        key = outcome_key(value)
        if key == self._favourable:
            return 1.0, None
        if key in self._unfavourable:
            return 0.0, None
        near = next((word for word in self._words if folded(word) == folded(value)), None)
        received = f"{_describe(value)} in {self.field!r}"
        if near is not None:
            message = f"{received} differs from {near!r} only in case or blanks"
            hint = "use one spelling in the data"
        elif means_no_outcome(value):
            message = f"{received} seems to mean that the value is unknown"
            hint = "leave the field empty if it is not known"
        elif not self._listed and len(self._words) == 1:
            message = f"expected 1 or 0 in {self.field!r}, got {_describe(value)}"
            hint = f"name the word that counts as 1: fields: {{{self._entries[0]}: VALUE}}"
        elif not self._unfavourable:
            return 0.0, key
        else:
            message = f"{received} is not among {', '.join(map(repr, self._words))}"
            hint = f"add it: fields: {{{self._entries[1]}: [..., {key}]}}"
        raise OutcomeWordError(message, field=self.field, word=key, hint=hint)

    def learn(self, learned: str | None, word: str | None) -> str | None:
        """Return the word that means 0 without being listed.

        Args:
            learned: Word for 0 in earlier events.
            word: Word for 0 in the next event.

        Raises:
            OutcomeWordError: The words differ.
        """
        if word is not None and learned is not None and word != learned:
            raise OutcomeWordError(
                f"{word!r} in {self.field!r} is a second word for 0, after {learned!r}; {self._words[0]!r} means 1",
                field=self.field,
                word=word,
                hint=f"list the words that count as 0: fields: {{{self._entries[1]}: [{learned}, {word}]}}",
            )
        return word if learned is None else learned


class EventReader:
    """Reads events from mappings, such as lines of JSON or rows of a table."""

    def __init__(self, config: MonitorConfig) -> None:
        self._by = tuple(config.groups.by)
        self._names = config.fields
        fields = config.fields
        self.decisions = AnswerReader(
            fields.decision, fields.favourable, fields.unfavourable, ("favourable", "unfavourable")
        )
        self.labels = AnswerReader(fields.label, fields.positive, fields.negative, ("positive", "negative"))
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
        decision = label = other_decision = other_label = None
        if not _is_empty(value := get(names.decision)):
            decision, other_decision = self.decisions.read(value)
        if self._labelled and not _is_empty(value := get(names.label)):
            label, other_label = self.labels.read(value)
        id = None if _is_empty(value := get(names.id)) else str(value)
        grouped = groups.count(None) < len(groups)
        if decision is None and (self._decided or not grouped):
            if label is None:
                raise DataError(
                    f"there is no {names.decision!r}" + (f" and no {names.label!r}" if self._labelled else ""),
                    hint="an event has " + ", ".join([*self._by, names.decision]),
                )
            if id is None:
                raise DataError(f"a label without {names.id!r} belongs to no decision")
            return Event(None, None, label, None, id, None, other_label)
        if self._audited and id is None:
            raise DataError(f"there is no {names.id!r}", hint="a decision that may be audited needs one")
        score = self._read_share(get(names.score), names.score) if self._scored else None
        return Event(groups, decision, label, score, id, other_decision, other_label)

    def _read_share(self, value: Any, name: str) -> float:
        number = math.nan if isinstance(value, bool) else read_number(value)
        if not 0 <= number <= 1:
            raise DataError(f"expected a number between 0 and 1 in {name!r}, got {_describe(value)}")
        return number


def _is_empty(value: Any) -> bool:
    """Return whether a field is empty; tables write NaN for a missing value."""
    return value is None or value == "" or value != value


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
