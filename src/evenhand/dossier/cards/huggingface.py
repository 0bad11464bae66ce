"""An audit as a part of a Hugging Face model card: ``model-index`` metadata, and a section in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evenhand.dossier.cards.numbers import list_findings, slice_of
from evenhand.dossier.evidence import EvidenceNumber
from evenhand.stats import Unknown, show_quantity

if TYPE_CHECKING:
    from evenhand.auditing import AuditResult


def write_huggingface(audit: AuditResult, numbers: Sequence[EvidenceNumber]) -> str:
    """Return a model card: metadata that the Hub reads, then the findings and all numbers with their intervals.

    Args:
        audit: the audit.
        numbers: its numbers; those that are unknown stand in the table with the reason, and not in the metadata.
    """
    metrics = [line for one in numbers for line in _list_metrics(one)]
    entry = {
        "task": {"type": "tabular-classification"},
        "dataset": {"type": Path(audit.data.name).stem or "data", "name": audit.data.name},
        "metrics": metrics,
    }
    metadata = {"tags": ["fairness"], "model-index": [{"name": audit.model.name, "results": [entry]}]}
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=1000)
    people = f"{audit.data.people:,} people in {audit.data.name}"
    lines = [
        "---",
        front + "---",
        "",
        "## Fairness",
        "",
        f"Audited on {people}; favourable: {audit.model.favourable}; protected: {', '.join(audit.protected)}.",
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


def _list_metrics(number: EvidenceNumber) -> Iterator[dict[str, Any]]:
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


def _table_row(number: EvidenceNumber) -> str:
    shown = show_quantity(number.quantity, number.name)
    value = f"{shown.text} ({', '.join(part for part in (shown.kind, shown.basis, shown.interval) if part)})"
    cells = (number.words, slice_of(number), value)
    return f"| {' | '.join(map(_escape, cells))} |"


def _escape(text: str) -> str:
    for sign in "\\`*_<>[]|":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
