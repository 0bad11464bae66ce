"""Audits as sections of Hugging Face model cards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evenhand.core.document import Text
from evenhand.core.result import ResultNumber
from evenhand.stats.metric_specs import metric_spec
from evenhand.stats.quantity import Known, Unknown, show_quantity

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult


def write_card(audit: AuditResult) -> str:
    """Write an audit as a section of a model card: metadata for the Hub, followed by the findings and all numbers.

    Unknown numbers are listed in the table with the reason, but not in the metadata.
    """
    numbers = list_numbers(audit)
    metrics = [line for number in numbers for line in _list_metrics(number)]
    entry = {
        "task": {"type": "tabular-classification"},
        "dataset": {"type": Path(audit.data.name).stem or "data", "name": audit.data.name},
        "metrics": metrics,
    }
    metadata = {"tags": ["fairness"], "model-index": [{"name": audit.model.name, "results": [entry]}]}
    reading = f"{audit.data.people:,} people." if audit.table_reading is None else audit.table_reading.describe()
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=1000)
    lines = [
        "---",
        front + "---",
        "",
        "## Fairness",
        "",
        f"Audited on {_escape(audit.data.name)}. {_escape(reading)} Protected: {', '.join(audit.protected)}.",
        "",
        *(f"- {_escape(sentence)}" for sentence in list_findings(audit)),
        "",
        "| number | of | value |",
        "| --- | --- | --- |",
        *map(_table_row, numbers),
        "",
        *(f"Not run: {_escape(skipped.what)}: {_escape(skipped.reason)}\n" for skipped in audit.not_run),
        f"*Made by evenhand {audit.evenhand}, seed {audit.seed}.*",
    ]
    return "\n".join(lines) + "\n"


def list_numbers(audit: AuditResult) -> list[ResultNumber]:
    """List the numbers of an audit that are known or unknown quantities."""
    return [number for number in audit.numbers() if isinstance(number.quantity, Known | Unknown)]


def _list_metrics(number: ResultNumber) -> Iterator[dict[str, Any]]:
    quantity = number.quantity
    if isinstance(quantity, Unknown):
        return
    arguments = {"of": slice_of(number), "kind": quantity.kind}
    for name in ("low", "high", "confidence", "n"):
        if getattr(quantity, name, None) is not None:
            arguments[name] = getattr(quantity, name)
    yield {
        "type": _metric_name(number),
        "name": f"{_title(number)}, {slice_of(number)}",
        "value": quantity.value,
        "args": arguments,
    }


def _table_row(number: ResultNumber) -> str:
    shown = show_quantity(number.quantity, _metric_name(number))
    value = f"{shown.text} ({', '.join(part for part in (shown.kind, shown.basis, shown.interval) if part)})"
    return f"| {' | '.join(map(_escape, (_title(number), slice_of(number), value)))} |"


def _metric_name(number: ResultNumber) -> str:
    return metric_spec(number.name).name


def _title(number: ResultNumber) -> str:
    return metric_spec(number.name).heading


def _escape(text: str) -> str:
    for sign in "\\`*_<>[]|":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def slice_of(number: ResultNumber) -> str:
    """Describe the people that a number refers to, such as ``sex: Female``, and the excluded groups."""
    people = ": ".join(filter(None, (number.attribute.replace("_x_", " x "), number.group or number.note)))
    left_out = f"not assessable: {number.left_out}" if number.left_out else ""
    return "; ".join(filter(None, (people or "all people", left_out, number.caution)))


def list_findings(audit: AuditResult) -> list[str]:
    """List the main findings of an audit, worst first."""
    opening, _ = audit.document().sections()
    return [item for block in opening if isinstance(block, Text) and block.role == "finding" for item in block.items]
