"""Events as they come: a decision with the groups of its subject, or the label of an earlier one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from evenhand.errors import DataError
from evenhand.monitoring.config import MonitorConfig

_TRUTH = {
    True: 1.0,
    False: 0.0,
    "0": 0.0,
    "1": 1.0,
    "0.0": 0.0,
    "1.0": 1.0,
    "true": 1.0,
    "false": 0.0,
    "True": 1.0,
    "False": 0.0,
}


class Event(NamedTuple):
    """A decision, or a label that came later.

    Attributes:
        groups: values of the fields that groups are by, None where one is not given; None for a label alone.
        decision, label: 0 or 1; None if not given.
        score, proxy: between 0 and 1; None if not given or not needed.
        id: of the decision, as text.
    """

    groups: tuple[str | None, ...] | None
    decision: float | None
    label: float | None
    score: float | None
    proxy: float | None
    id: str | None


class EventReader:
    """Reads events from mappings, such as lines of JSON or rows of a table."""

    def __init__(self, config: MonitorConfig) -> None:
        self._by = tuple(config.groups.by)
        self._names = config.fields
        self._favourable = None if config.fields.favourable is None else str(config.fields.favourable)
        self._positive = None if config.fields.positive is None else str(config.fields.positive)
        measures = {watch.measure for watch in config.watch}
        self._decided = bool(measures & {"selection_rate", "equal_opportunity"})
        self._labelled = config.needs_labels
        self._scored = "calibration" in measures
        self._proxy = config.labels.proxy
        self._audited = config.labels.audited_with is not None

    def read(self, entry: Mapping[str, Any]) -> Event:
        """Return the event that an entry describes; fields that are not needed are not looked at.

        Raises:
            DataError: it has no decision and no label of one, or a value that makes no sense.
        """
        if not isinstance(entry, Mapping):
            raise DataError(f"expected an object with fields, got {_describe(entry)}")
        get, names = entry.get, self._names
        groups = tuple([_read_value(get(name), name) for name in self._by])
        given = get(names.decision)
        decision = None if given is None or given == "" else self._read_answer(given, names.decision, self._favourable)
        label = id = None
        if self._labelled:
            given = get(names.label)
            if given is not None and given != "":
                label = self._read_answer(given, names.label, self._positive)
            given = get(names.id)
            id = None if given is None or given == "" else str(given)
        grouped = groups.count(None) < len(groups)
        if decision is None and (self._decided or not grouped):
            if label is None:
                raise DataError(
                    f"there is no {names.decision!r}" + (f" and no {names.label!r}" if self._labelled else ""),
                    hint="an event has " + ", ".join([*self._by, names.decision]),
                )
            if id is None:
                raise DataError(f"a label without {names.id!r} belongs to no decision")
            return Event(None, None, label, None, None, id)
        if self._audited and id is None:
            raise DataError(f"there is no {names.id!r}", hint="a decision that may be audited needs one")
        score = self._read_share(get(names.score), names.score) if self._scored else None
        proxy = self._read_share(get(self._proxy), self._proxy) if self._proxy is not None else None
        return Event(groups, decision, label, score, proxy, id)

    def _read_answer(self, given: Any, name: str, wanted: str | None) -> float:
        if wanted is not None and not isinstance(given, list | dict):
            return float(str(given) == wanted)
        try:
            return _TRUTH[given]
        except (KeyError, TypeError):
            entry = "favourable" if name == self._names.decision else "positive"
            raise DataError(
                f"expected 0 or 1 in {name!r}, got {_describe(given)}",
                hint=f"say which value is counted as 1: fields: {{{entry}: VALUE}}",
            ) from None

    def _read_share(self, given: Any, name: str) -> float:
        try:
            number = math.nan if isinstance(given, bool) else float(given)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not 0 <= number <= 1:
            raise DataError(f"expected a number between 0 and 1 in {name!r}, got {_describe(given)}")
        return number


def _read_value(given: Any, name: str) -> str | None:
    if given.__class__ is str:
        return given or None
    if given is None or given != given:  # NaN is how tables write what is missing
        return None
    if isinstance(given, list | dict):
        raise DataError(f"expected a value of {name!r}, got {_describe(given)}")
    return str(given).lower() if isinstance(given, bool) else str(given)


def _describe(given: Any) -> str:
    text = "nothing" if given is None else repr(given)
    return text if len(text) <= 80 else f"{text[:77]}..."
