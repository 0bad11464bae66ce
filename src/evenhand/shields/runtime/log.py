"""Replay of a log of decisions, up to the first difference."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.core.document import Block, Document, Note, Text
from evenhand.core.text import format_count, format_decimal, split_lines
from evenhand.errors import DataError, DecisionError

if TYPE_CHECKING:
    from evenhand.shields.runtime.shield import Shield


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """First difference between a log and its replay.

    Attributes:
        entry: Number of the entry in the log, from 1.
        logged: Logged decision or label.
        found: Action of the shield on the same input and state.
    """

    entry: int
    logged: str
    found: str

    def __str__(self) -> str:
        return f"entry {self.entry}: the log says {self.logged}; the shield {self.found}"


@dataclass(frozen=True, slots=True)
class ShieldReplay:
    """Result of a replay.

    Attributes:
        decisions, labels: Numbers of matching decisions and labels.
        difference: First different entry. None if all entries match.
        shield: Shield after the last matching entry.
    """

    decisions: int
    labels: int
    difference: ReplayDifference | None
    shield: Shield

    def __str__(self) -> str:
        if self.difference is not None:
            return f"Different: {self.difference}"
        decisions = format_count(self.decisions, "decision", "decisions")
        return f"Identical: {decisions}, {format_count(self.labels, 'label', 'labels')}"

    def document(self, name: str = "") -> Document:
        """Build the document of the replay.

        Args:
            name: Name of the log.
        """
        shield = self.shield
        blocks: list[Block] = []
        if self.difference is not None:
            blocks += [Note(f"{self}.", "caution"), Text(f"The {self.decisions:,} decisions before it agree.")]
        else:
            blocks.append(Text(f"{self}.", role="finding"))
        interventions = format_count(shield.interventions, "intervention", "interventions")
        blocks += [
            Text(f"{interventions}, of cost {format_decimal(shield.cost)}"),
            Text(items=tuple(shield.certificate().summary().split("\n"))),
        ]
        return Document(f"Replay of {name or 'a log'}", blocks=tuple(blocks), brand="Evenhand shield")

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values, with the certificate of the shield."""
        return {
            "kind": "shield-replay",
            "same": self.difference is None,
            "digest": self.shield.policy_digest,
            "decisions": self.decisions,
            "labels": self.labels,
            "difference": None if self.difference is None else asdict(self.difference),
            "interventions": self.shield.interventions,
            "cost": self.shield.cost,
            "certificate": self.shield.certificate().to_dict(),
        }


def replay_log(shield: Shield, log: Iterable[Mapping[str, Any]]) -> ShieldReplay:
    """Replay the inputs of a log through a shield, and compare the decisions.

    An entry with a ``label`` is a label of the decision ``id``. Any other entry is a decision with ``group``,
    ``recommendation``, ``decision`` and, where they were given, ``cost``, ``id`` and ``intervened``. Other fields are
    ignored. The log must start from the current state of the shield.

    Args:
        shield: New shield of the same policy and mode, or a shield in the state before the log. It is changed.
        log: The entries, in their order.

    Raises:
        DataError: An entry is invalid.
    """
    decisions = labels = 0
    for number, entry in enumerate(log, start=1):
        if not isinstance(entry, Mapping):
            raise DataError(f"a {type(entry).__name__} is not an entry of a log", location=f"entry {number}")
        labelled = "label" in entry
        missing = [
            field for field in (("id",) if labelled else ("group", "recommendation", "decision")) if field not in entry
        ]
        if missing:
            raise DataError(
                f"there is no {missing[0]!r}",
                location=f"entry {number}",
                hint="a decision has group, recommendation and decision; a label has id and label",
            )
        difference = _compare_entry(shield, entry)
        if difference is not None:
            return ShieldReplay(decisions, labels, ReplayDifference(number, *difference), shield)
        decisions, labels = decisions + (not labelled), labels + labelled
    return ShieldReplay(decisions, labels, None, shield)


def _compare_entry(shield: Shield, entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """Apply an entry to the shield, and describe the entry and the action of the shield if they differ."""
    try:
        if "label" in entry:
            logged = f"the label {entry['label']} for {entry['id']!r}"
            shield.observe(entry["id"], entry["label"])
            return None
        logged = _describe_decision(entry["decision"], entry.get("intervened"))
        decision = shield.decide(entry["group"], entry["recommendation"], cost=entry.get("cost"), id=entry.get("id"))
    except DecisionError as error:
        return logged, f"refuses it: {error.message}"
    if decision[:2] == (entry["decision"], entry.get("intervened", decision.intervened)):
        return None
    return logged, f"decides {_describe_decision(*decision[:2])}"


def _describe_decision(decision: object, intervened: object) -> str:
    return f"{decision}{', an intervention' if intervened else ''}"


def read_log(path: Path | str) -> Iterator[dict[str, Any]]:
    """Yield the entries of a log file: one JSON object per line. Empty lines are skipped.

    Raises:
        DataError: The file cannot be read, or a line is not a JSON object.
    """
    location = str(path)
    try:
        lines = split_lines(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the log cannot be read: {error}", location=location) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not JSON: {error.msg}", location=f"{location}, line {number}") from error
        if not isinstance(entry, dict):
            raise DataError("not a JSON object", location=f"{location}, line {number}")
        yield entry


# Logs of decisions as files: JSON lines, or a table of text.

NUMBER_FIELDS = ("recommendation", "decision", "label", "intervened", "cost")
FIELDS = ("id", "group", *NUMBER_FIELDS)
TRUTH_WORDS = {"true": 1, "false": 0, "True": 1, "False": 0}


def read_log_file(path: Path | str) -> Iterator[dict[str, Any]]:
    """Yield the entries of a log for ``replay_log``.

    The first line of a ``.csv`` file names its columns: ``id``, ``group``, ``recommendation``, ``cost``, ``decision``,
    ``intervened`` and ``label``; Empty cells are missing values, and other columns are ignored. Any other file has one
    JSON object per line. An entry with a decision and its label becomes a decision and a label.

    Raises:
        DataError: The file cannot be read, or a line is not an entry.
    """
    table = Path(path).suffix.lower() == ".csv"
    for entry in _read_table_rows(Path(path)) if table else read_log(path):
        if "label" in entry and "decision" in entry:
            label = entry.pop("label")
            yield entry
            if label is not None:
                yield {"id": entry.get("id"), "label": label}
        else:
            yield entry


def _read_table_rows(path: Path) -> Iterator[dict[str, Any]]:
    location = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = reader.fieldnames or []
            if not set(names) & {"decision", "label"}:
                raise DataError(
                    f"a log has columns such as {', '.join(FIELDS)}, got {', '.join(names) or 'none'}",
                    location=location,
                    hint="name the columns in the first line",
                )
            for row in reader:
                yield _parse_row(row, f"{location}, line {reader.line_num}")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the log cannot be read: {error}", location=location) from None
    except csv.Error as error:
        raise DataError(f"the file is not a CSV table: {error}", location=location) from None


def _parse_row(row: dict[str, Any], location: str) -> dict[str, Any]:
    if None in row or any(value is None for value in row.values()):
        raise DataError("the number of values differs from the number of names in the first line", location=location)
    entry: dict[str, Any] = {name: row[name] for name in ("id", "group") if row.get(name)}
    for name in NUMBER_FIELDS:
        if text := (row.get(name) or "").strip():
            entry[name] = TRUTH_WORDS[text] if text in TRUTH_WORDS else _parse_number(text, name, location)
    if "intervened" in entry:
        entry["intervened"] = bool(entry["intervened"])
    return entry


def _parse_number(text: str, name: str, location: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"the {name} {text!r} is not a number", location=location)
    return int(number) if number.is_integer() and name != "cost" else number
