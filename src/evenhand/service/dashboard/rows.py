"""Entries of a log as flat rows for the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from evenhand.core.canonical_json import canonical_json
from evenhand.shields.runtime.shield import DecisionReason

DashboardRow: TypeAlias = dict[str, Any]
LogEntryMapping: TypeAlias = Mapping[str, Any]

MAX_TEXT_LENGTH = 2_000
"""Maximum length of a prompt on the dashboard."""

MAX_LABELS = 60
"""Maximum number of values of a specification on the dashboard. Values with the earliest deadlines are shown."""

COLUMNS = {
    "shield": (
        "number",
        "time",
        "op",
        "id",
        "group",
        "recommendation",
        "decision",
        "intervened",
        "reason",
        "label",
        "shielded",
        "unshielded",
        "bound",
        "period",
        "step",
        "text",
    ),
    "guard": (
        "number",
        "time",
        "op",
        "admission",
        "prompt",
        "sent",
        "changed",
        "why",
        "conditions",
        "fixed",
        "values",
        "status",
        "reason",
        "slots",
        "picture",
        "text",
    ),
}
"""Columns of an export by kind of stream."""


def entry_to_row(entry: LogEntryMapping, admitted: Mapping[int, DashboardRow] | None = None) -> DashboardRow:
    """Convert an entry to a row.

    Args:
        entry: Entry in its export format.
        admitted: Rows of admissions by number, which complete the rows of their outcomes.
    """
    body = entry["body"]
    operation, output = body.get("input", {}), body.get("output", {})
    row: DashboardRow = {"n": entry["number"], "at": entry["at"], "op": operation.get("op", "checkpoint")}
    match row["op"]:
        case "decide":
            row.update(_decision_columns(operation, output))
        case "label":
            row.update(id=operation["id"], label=operation["label"], **_bias_columns(output))
        case "admit":
            row.update(_admission_columns(body))
        case "complete" | "fail":
            row.update(_outcome_columns(operation, output, admitted or {}))
        case "abandon":
            row.update(_abandoned_columns(operation, output))
        case "checkpoint":
            row["text"] = "checkpoint: the log can be read from here on"
        case "record":
            row.update(_record_row(entry["number"], operation.get("note") or {}))
        case _:
            row.update(text=_shorten_text(canonical_json(operation)))
    return row


def _bias_columns(output: Mapping[str, Any]) -> DashboardRow:
    """Return the columns of a shield's certificate."""
    certificate = output["certificate"]
    return {
        "shielded": certificate["bias_shielded"],
        "unshielded": certificate["bias_unshielded"],
        "bound": certificate["bound"],
        "period": certificate["period"],
        "step": certificate["step"],
    }


def _decision_columns(operation: Mapping[str, Any], output: Mapping[str, Any]) -> DashboardRow:
    reason = output["reason"]
    return {
        "id": operation.get("id"),
        "group": operation["group"],
        "recommendation": operation["recommendation"],
        "decision": output["decision"],
        "intervened": output["intervened"],
        # Interventions that an advisory shield would make are also marked.
        "marked": reason != DecisionReason.FOLLOWED.value,
        "reason": reason,
        **_bias_columns(output),
    }


def _record_row(number: int, note: Mapping[str, Any]) -> DashboardRow:
    """Return the columns of a guard's record."""
    what = note.get("what")
    if what == "answer":
        attempts = note.get("attempts") or [{}]
        is_unadmitted = note.get("admission") is None
        unguarded = note.get("status") == "unguarded"
        return {
            "admission": number if is_unadmitted else note["admission"],
            "prompt": _shorten_text(note.get("prompt")),
            "status": note.get("status", ""),
            "reason": note.get("reason", ""),
            "values": attempts[-1].get("values", {}),
            "picture": is_unadmitted and unguarded,
            "marked": True,
        }
    if what == "started":
        return {"text": f"a replica of the service started, with version {note.get('evenhand')}"}
    if what == "lost":
        return {"marked": True, "text": f"{note.get('records')} more records were lost while the store was unavailable"}
    return {"text": _shorten_text(canonical_json(note))}


def _admission_columns(body: Mapping[str, Any]) -> DashboardRow:
    operation, admission = body["input"], body["output"]["admission"]
    note = operation.get("note") or {}
    return {
        "conditions": operation["conditions"],
        "fixed": operation.get("fixed", []),
        "must": admission["must"],
        "why": admission.get("reason", ""),
        # The deadlines of many values would make up most of a page's data.
        "left": {name: values for name, values in body["before"].items() if len(values) <= MAX_LABELS},
        "prompt": _shorten_text(note.get("prompt")),
        "route": note.get("route", ""),
    }


def _outcome_columns(
    operation: Mapping[str, Any], output: Mapping[str, Any], admitted: Mapping[int, DashboardRow]
) -> DashboardRow:
    outcome, note = output["outcome"], operation.get("note") or {}
    number = operation.get("admission")
    before = admitted.get(number, {}) if number is not None else {}
    prompt = _shorten_text(note.get("prompt")) or before.get("prompt", "")
    # The clause added to a prompt is shown even if the prompt was not logged.
    clause = note.get("clause", "")
    changed = bool(clause) if "clause" in note else bool(before.get("must"))
    status = outcome["status"]
    nothing = operation["op"] == "fail"
    media = (note.get("item") or {}).get("media_type", "")
    return {
        "admission": number,
        "prompt": prompt,
        "sent": _shorten_text(note.get("sent")) or (prompt if not changed else f"{prompt or '...'} {clause}".strip()),
        "changed": changed,
        "why": before.get("why", "") if changed else "",
        "conditions": before.get("conditions", []),
        "fixed": before.get("fixed", []),
        "left": before.get("left", {}),
        "values": operation.get("values") or {},
        "status": "withdrawn" if operation.get("withdrawn") else "failed" if nothing and status == "ok" else status,
        "reason": outcome["reason"],
        "slots": outcome["slots"],
        "picture": number is not None and not nothing and status != "retry" and media.startswith("image/"),
        "marked": changed or status != "ok" or nothing,
    }


def _abandoned_columns(operation: Mapping[str, Any], output: Mapping[str, Any]) -> DashboardRow:
    n = len(output["abandoned"])
    return {
        "status": "failed",
        "reason": f"{n} request{' was' if n == 1 else 's were'} abandoned: no replica was left to complete "
        f"{'it' if n == 1 else 'them'}",
        "slots": {},
        "values": {},
        "marked": n > 0,
    }


def _shorten_text(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= MAX_TEXT_LENGTH else text[:MAX_TEXT_LENGTH] + "..."


@dataclass(frozen=True)
class RowFilter:
    """Filter of rows.

    Attributes:
        since, until: Period in seconds since 1970, excluding its end.
        marked: Whether to select interventions only: overrides, changed prompts, failures and violations.
        text: Text that the rows contain, regardless of case.
    """

    since: float | None = None
    until: float | None = None
    marked: bool = False
    text: str = ""

    def matches_row(self, row: DashboardRow) -> bool:
        """Return whether a row matches, regardless of its time."""
        if self.marked and not row.get("marked"):
            return False
        return not self.text or self.text.casefold() in searchable_text(row)


def searchable_text(row: DashboardRow) -> str:
    """Return the searchable text of a row."""
    parts: list[str] = []
    for name in ("id", "group", "reason", "prompt", "sent", "why", "status", "text"):
        value = row.get(name)
        if value:
            parts.append(str(value))
    parts.extend(f"{group} {value}" for group, value in row.get("values", {}).items() if value)
    parts.extend(row.get("conditions", ()))
    return "\n".join(parts).casefold()
