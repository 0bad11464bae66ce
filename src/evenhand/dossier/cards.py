"""Audits as sections of Hugging Face model cards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evenhand.core.document import Text
from evenhand.dossier.audit_numbers import AuditNumber, list_numbers
from evenhand.stats.quantity import Unknown, show_quantity

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult


def write_card(audit: AuditResult) -> str:
    """Write an audit as a section of a model card: metadata that the Hub reads, then the findings and all numbers.

    Unknown numbers stand in the table with the reason, and not in the metadata.
    """
    numbers = list(list_numbers(audit))
    metrics = [line for one in numbers for line in _list_metrics(one)]
    entry = {
        "task": {"type": "tabular-classification"},
        "dataset": {"type": Path(audit.data.name).stem or "data", "name": audit.data.name},
        "metrics": metrics,
    }
    metadata = {"tags": ["fairness"], "model-index": [{"name": audit.model.name, "results": [entry]}]}
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=1000)
    lines = [
        "---",
        front + "---",
        "",
        "## Fairness",
        "",
        f"Audited on {_escape(audit.data.name)}. {_escape(describe_reading(audit))} "
        f"Protected: {', '.join(audit.protected)}.",
        "",
        *(f"- {_escape(sentence)}" for sentence in list_findings(audit)),
        "",
        "| number | of | value |",
        "| --- | --- | --- |",
        *(_table_row(one) for one in numbers),
        "",
        *(f"Not run: {_escape(skipped.what)}: {_escape(skipped.reason)}\n" for skipped in audit.not_run),
        f"*Made by evenhand {audit.evenhand}, seed {audit.seed}.*",
    ]
    return "\n".join(lines) + "\n"


def _list_metrics(number: AuditNumber) -> Iterator[dict[str, Any]]:
    quantity = number.quantity
    if isinstance(quantity, Unknown):
        return
    known = {"of": slice_of(number), "kind": quantity.kind}
    for name in ("low", "high", "confidence", "n"):
        if getattr(quantity, name, None) is not None:
            known[name] = getattr(quantity, name)
    yield {
        "type": number.name,
        "name": f"{number.words}, {slice_of(number)}",
        "value": quantity.value,
        "args": known,
    }


def _table_row(number: AuditNumber) -> str:
    shown = show_quantity(number.quantity, number.name)
    value = f"{shown.text} ({', '.join(part for part in (shown.kind, shown.basis, shown.interval) if part)})"
    cells = (number.words, slice_of(number), value)
    return f"| {' | '.join(map(_escape, cells))} |"


def _escape(text: str) -> str:
    for sign in "\\`*_<>[]|":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def describe_reading(audit: AuditResult) -> str:
    """Describe how the table of an audit was read, or count its people if that is unknown."""
    return f"{audit.data.people:,} people." if audit.table_reading is None else audit.table_reading.describe()


def slice_of(number: AuditNumber) -> str:
    """Return the people whom a number is about: a single group, or as the result says it."""
    return ", ".join(f"{name}: {value}" for name, value in number.group.items()) or number.of


def list_findings(audit: AuditResult) -> list[str]:
    """Return the sentences of the audit's first screen, worst first."""
    opening, _ = audit.document().sections()
    return [item for block in opening if isinstance(block, Text) and block.role == "finding" for item in block.items]
