"""An audit as metadata of its data: Croissant, with the fields of its extension for responsible AI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.dossier.cards.numbers import GroupAtRisk, list_findings
from evenhand.text import format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenhand.auditing import AuditResult

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
        f"Base rate (share whose true label is favourable): {format_percent(data.base_rate)}."
        if data.base_rate is not None
        else "True labels are not known."
    ]
    metadata = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": Path(data.name).stem or "data",
        "description": f"{data.people:,} people on whom {audit.model.name} was audited for fairness; "
        f"{data.dropped:,} rows were left out.",
        "rai:personalSensitiveInformation": list(audit.protected),
        "rai:dataCollectionMissingData": f"{data.dropped:,} rows were left out because a value was missing.",
        "rai:dataBiases": [*counts, *known],
        "rai:dataSocialImpact": " ".join([*list_findings(audit), *(f"{risk.group}: {risk.harm}." for risk in risks)]),
        "rai:dataUseCases": [f"Audit of decisions about {audit.described.target.name}."],
        "rai:dataLimitations": [f"Not run: {skipped.what}: {skipped.reason}" for skipped in audit.not_run],
    }
    return (
        json.dumps({name: value for name, value in metadata.items() if value != []}, indent=2, ensure_ascii=False)
        + "\n"
    )
