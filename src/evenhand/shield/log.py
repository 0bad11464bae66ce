"""Decisions made again from their log: the same ones, or the first that differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, DecisionError

if TYPE_CHECKING:
    from evenhand.shield.runtime import Shield


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a log and its replay part.

    Attributes:
        entry: the number of the entry in the log, from 1.
        logged: what the log says.
        found: what the shield does with the same input, in the same state.
    """

    entry: int
    logged: str
    found: str

    def __str__(self) -> str:
        return f"entry {self.entry}: the log says {self.logged}; the shield {self.found}"


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a replay.

    Attributes:
        decisions, labels: how many of each agreed.
        difference: the first entry that does not agree; None if all do.
        shield: the shield after the last entry that it took, to compare its state or to go on.
    """

    decisions: int
    labels: int
    difference: Difference | None
    shield: Shield

    def summary(self) -> str:
        """One sentence."""
        if self.difference is not None:
            return str(self.difference)
        return f"all {self.decisions} decisions are the same, {self.labels} labels taken"


def replay(shield: Shield, log: Iterable[Mapping[str, Any]]) -> Replay:
    """Give a shield the inputs of a log again, and compare what it decides.

    An entry with a ``label`` is a label of the decision ``id``; any other is a decision with ``group``,
    ``recommendation``, ``decision`` and, where they were given, ``cost``, ``id`` and ``intervened``. Further fields
    are not looked at. The log must begin in the state that the shield is in.

    Args:
        shield: a new shield of the same policy and mode, or one restored to the state before the log; it is changed.
        log: the entries, first to last.

    Raises:
        DataError: an entry is not one of a log.
    """
    decisions = labels = 0
    for number, entry in enumerate(log, start=1):
        if not isinstance(entry, Mapping):
            raise DataError(f"a {type(entry).__name__} is not an entry of a log", where=f"entry {number}")
        labelled = "label" in entry
        missing = [field for field in (("id",) if labelled else ("group", "recommendation", "decision"))
                   if field not in entry]  # fmt: skip
        if missing:
            raise DataError(
                f"there is no {missing[0]!r}",
                where=f"entry {number}",
                mend="a decision has group, recommendation and decision; a label has id and label",
            )
        try:
            found = _differs(shield, entry, labelled)
        except DecisionError as error:
            found = (_said(entry, labelled), f"refuses it: {error.what}")
        if found is not None:
            return Replay(decisions, labels, Difference(number, *found), shield)
        decisions, labels = decisions + (not labelled), labels + labelled
    return Replay(decisions, labels, None, shield)


def _differs(shield: Shield, entry: Mapping[str, Any], labelled: bool) -> tuple[str, str] | None:
    if labelled:
        shield.observe(entry["id"], entry["label"])
        return None
    made = shield.decide(entry["group"], entry["recommendation"], cost=entry.get("cost"), id=entry.get("id"))
    same = made.decision == entry["decision"] and entry.get("intervened", made.intervened) == made.intervened
    if same:
        return None
    return _said(entry, labelled), f"decides {made.decision}{', an intervention' if made.intervened else ''}"


def _said(entry: Mapping[str, Any], labelled: bool) -> str:
    if labelled:
        return f"the label {entry['label']} for {entry['id']!r}"
    return f"{entry['decision']}{', an intervention' if entry.get('intervened') else ''}"


def read_log(path: Path | str) -> Iterator[dict[str, Any]]:
    """The entries of a log file: one JSON object a line, empty lines left out.

    Raises:
        DataError: the file cannot be read, or a line is not a JSON object.
    """
    where = str(path)
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the log cannot be read: {error}", where=where) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not JSON: {error.msg}", where=f"{where}, line {number}") from error
        if not isinstance(entry, dict):
            raise DataError("not a JSON object", where=f"{where}, line {number}")
        yield entry
