"""Dossiers and audits as model cards of a CycloneDX bill of materials, for inventories of software."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.core import Result
from evenhand.dossier.cards.numbers import GroupAtRisk, slice_of
from evenhand.dossier.evidence import EvidenceNumber
from evenhand.dossier.outline import OPEN
from evenhand.dossier.result import DossierResult
from evenhand.stats import Quantity, Unknown

if TYPE_CHECKING:
    from evenhand.auditing import AuditResult

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
        dossier, component, list(_list_metrics(dossier)), considerations, made=f"{dossier.made_on}T00:00:00Z"
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


def _list_metrics(dossier: DossierResult) -> Iterator[dict[str, Any]]:
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
