"""Audits and dossiers as cards for inventories of models and data: Hugging Face, CycloneDX and Croissant."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import yaml

from evenhand.core import Result, Text
from evenhand.dossier.evidence import EvidenceNumber, read_evidence
from evenhand.dossier.outline import OPEN
from evenhand.dossier.result import DossierResult
from evenhand.stats import Observed, Quantity, Unknown, show_quantity
from evenhand.text import format_percent

if TYPE_CHECKING:
    from evenhand.auditing import AuditResult
    from evenhand.groups import Breakdown, Gap


CardFormat: TypeAlias = Literal["huggingface", "cyclonedx", "croissant"]


def write_card(audit: AuditResult, card_format: CardFormat) -> str:
    """Return an audit as a card.

    Args:
        audit: the result of an audit.
        card_format: ``huggingface``, a part of a model's README; ``cyclonedx``, a bill of materials (1.6) with a model
            card; ``croissant``, metadata of the data (1.0, with the extension for responsible AI).
    """
    numbers, risks = read_evidence([audit])[0].numbers, list(list_risks(audit))
    if card_format == "cyclonedx":
        return write_audit_bom(audit, numbers, risks)
    return write_huggingface(audit, numbers) if card_format == "huggingface" else write_croissant(audit, risks)


# An audit as metadata of its data: Croissant, with the fields of its extension for responsible AI.


CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
}


def write_croissant(audit: AuditResult, risks: Sequence[GroupAtRisk]) -> str:
    """Return Croissant 1.0 metadata of the data that a model was audited on: who is in them, and their biases.

    Licence, address and files of the data are their owner's to add: an audit does not know them.

    Args:
        audit: the audit.
        risks: groups that are worse off.
    """
    data = audit.data
    counts = [
        f"{breakdown.by[0]}: " + ", ".join(f"{group.label} {group.size:,}" for group in breakdown.groups)
        for breakdown in audit.groups.breakdowns
        if len(breakdown.by) == 1
    ]
    known = [
        f"Base rate (share whose true label is favourable): {format_percent(data.base_rate)}"
        + (f", of the {data.people - data.unlabelled:,} people with a true label." if data.unlabelled else ".")
        if data.base_rate is not None
        else "True labels are not known."
    ]
    metadata = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": Path(data.name).stem or "data",
        "description": f"{data.people:,} people on whom {audit.model.name} was audited for fairness.",
        "rai:personalSensitiveInformation": list(audit.protected),
        "rai:dataCollectionMissingData": describe_reading(audit),
        "rai:dataBiases": [*counts, *known],
        "rai:dataSocialImpact": " ".join([*list_findings(audit), *(f"{risk.group}: {risk.harm}." for risk in risks)]),
        "rai:dataUseCases": [f"Audit of decisions about {audit.described.target.name}."],
        "rai:dataLimitations": [f"Not run: {skipped.what}: {skipped.reason}" for skipped in audit.not_run],
    }
    return (
        json.dumps({name: value for name, value in metadata.items() if value != []}, indent=2, ensure_ascii=False)
        + "\n"
    )


# An audit as a part of a Hugging Face model card: ``model-index`` metadata, and a section in Markdown.


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


# What cards say of an audit: its findings in sentences, and the groups that are worse off.


def describe_reading(audit: AuditResult) -> str:
    """Describe how the table of an audit was read, or count its people if that is unknown."""
    return f"{audit.data.people:,} people." if audit.table_reading is None else audit.table_reading.describe()


class GroupAtRisk(NamedTuple):
    """A group that is worse off than another, and how."""

    group: str
    harm: str


def slice_of(number: EvidenceNumber) -> str:
    """Return the people whom a number is about: a single group, or as the result says it."""
    return ", ".join(f"{name}: {value}" for name, value in number.group.items()) or number.of


def list_findings(audit: AuditResult) -> list[str]:
    """Return the sentences of the audit's first screen, worst first."""
    opening, _ = audit.document().sections()
    return [item for block in opening if isinstance(block, Text) and block.role == "finding" for item in block.items]


def list_risks(audit: AuditResult) -> Iterator[GroupAtRisk]:
    """Yield the group with the lowest selection rate of each attribute whose gap is more than chance explains."""
    for breakdown in audit.groups.breakdowns:
        for gap in breakdown.gaps:
            value = gap.value
            if gap.name == "demographic_parity_difference" and isinstance(value, Observed) and value.low > 0:
                yield _describe_risk(breakdown, gap)


def _describe_risk(breakdown: Breakdown, gap: Gap) -> GroupAtRisk:
    rates = {group.label: group.metrics.get("selection_rate") for group in breakdown.groups}

    def rate_of(label: str) -> str:
        rate = rates.get(label)
        return "an unknown share" if rate is None or isinstance(rate, Unknown) else format_percent(rate.value)

    attributes = " x ".join(breakdown.by)
    harm = (
        f"selected less often: {rate_of(gap.worst)} against {rate_of(gap.best)} of {attributes} {gap.best} (observed)"
    )
    return GroupAtRisk(f"{attributes}: {gap.worst}", harm)


# Dossiers and audits as model cards of a CycloneDX bill of materials, for inventories of software.


SPACE = uuid.UUID("6f0d1c1e-6b0f-5a53-9d40-1f4a3ad1b7c2")
"""Namespace of serial numbers: equal results have the same."""


def write_bom(dossier: DossierResult) -> str:
    """Return a CycloneDX 1.6 bill of materials whose one component is the model, with its card.

    Performance metrics are rates and impact ratios of the tables and the numbers of the results given, each with the
    people whom it is about, its kind in the name of its type, and its interval; a number that is unknown is left out.
    Fairness assessments are the declared scenarios. What people did not say is left out, but for the required name.

    Args:
        dossier: any dossier.
    """
    system = dossier.config.system
    component = {
        "name": system.name or OPEN,
        "version": system.version,
        "supplier": {"name": system.vendor} if system.vendor else None,
        "description": system.purpose,
    }
    considerations = {
        "useCases": [system.purpose] if system.purpose else [],
        "fairnessAssessments": list(_list_assessments(dossier)),
    }
    return _format_bom(
        dossier, component, list(_list_bom_metrics(dossier)), considerations, made=f"{dossier.made_on}T00:00:00Z"
    )


def write_audit_bom(audit: AuditResult, numbers: Sequence[EvidenceNumber], risks: Sequence[GroupAtRisk]) -> str:
    """Return a CycloneDX 1.6 bill of materials whose one component is the model that was audited, with its card.

    Args:
        audit: the audit.
        numbers: its numbers; those that are unknown are left out.
        risks: groups that are worse off, each an assessment.
    """
    component = {"name": audit.model.name, "description": f"{audit.model.type}, audited on {audit.data.name}"}
    metrics = [line for one in numbers for line in _write_quantity(one.words, one.quantity, slice_of(one))]
    assessments = [{"groupAtRisk": risk.group, "harms": risk.harm} for risk in risks]
    return _format_bom(audit, component, metrics, {"fairnessAssessments": assessments})


def _format_bom(
    result: Result,
    component: dict[str, Any],
    metrics: list[dict[str, Any]],
    considerations: dict[str, Any],
    *,
    made: str | None = None,
) -> str:
    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        **component,
        "modelCard": {
            "bom-ref": "model-card",
            "quantitativeAnalysis": {"performanceMetrics": metrics},
            "considerations": _leave_out_empty(considerations),
        },
    }
    tools = {"components": [{"type": "application", "name": "evenhand", "version": result.evenhand}]}
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, result.to_json())}",
        "version": 1,
        "metadata": _leave_out_empty({"timestamp": made, "tools": tools}),
        "components": [_leave_out_empty(model)],
    }
    return json.dumps(bom, indent=2, ensure_ascii=False) + "\n"


def _list_bom_metrics(dossier: DossierResult) -> Iterator[dict[str, Any]]:
    for run, table, bounds in _pair_tables(dossier):
        for row, ends in zip(table.rows, bounds.rows, strict=True):
            of = ", ".join(f"{name}: {value}" for name, value in zip(table.by, row.category, strict=True))
            if row.rate is not None:
                yield _write_metric(f"rate of people {run.of} (observed)", row.rate, of, ends.rate_low, ends.rate_high)
            if row.ratio is not None:
                yield _write_metric(
                    f"impact ratio of people {run.of} (observed)", row.ratio, of, ends.ratio_low, ends.ratio_high
                )
    for file in dossier.evidence:
        for one in file.numbers:
            yield from _write_quantity(one.words, one.quantity, one.of)


def _pair_tables(dossier: DossierResult) -> Iterator[tuple[Any, Any, Any]]:
    bounds = iter(dossier.intervals)
    for run in dossier.runs:
        for table in run.ll144:
            yield run, table, next(bounds)


def _write_quantity(words: str, quantity: Quantity, of: str) -> Iterator[dict[str, Any]]:
    if not isinstance(quantity, Unknown):
        low, high = getattr(quantity, "low", None), getattr(quantity, "high", None)
        yield _write_metric(f"{words} ({quantity.kind})", quantity.value, of, low, high)


def _write_metric(name: str, value: float, of: str, low: float | None, high: float | None) -> dict[str, Any]:
    metric: dict[str, Any] = {"type": name, "value": repr(value), "slice": of}
    if low is not None and high is not None:
        metric["confidenceInterval"] = {"lowerBound": repr(low), "upperBound": repr(high)}
    return metric


def _list_assessments(dossier: DossierResult) -> Iterator[dict[str, str]]:
    for one in dossier.config.scenarios:
        said = {
            "groupAtRisk": ", ".join(f"{name}: {value}" for name, value in one.group.items()),
            "harms": one.hazard,
            "mitigationStrategy": one.mitigation,
        }
        yield {name: text for name, text in said.items() if text}


def _leave_out_empty(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value not in (None, [], {})}
