"""Which card is written of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from evenhand.dossier.cards.bom import write_audit_bom
from evenhand.dossier.cards.croissant import write_croissant
from evenhand.dossier.cards.huggingface import write_huggingface
from evenhand.dossier.cards.numbers import list_risks
from evenhand.dossier.evidence import read_evidence

if TYPE_CHECKING:
    from evenhand.auditing import AuditResult

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
