"""Dossiers for auditors and regulators: every number by the rule's own formula, from people, outcomes and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.dossier.analysis import compile_dossier, find_changed_cells
    from evenhand.dossier.audited import compile_audited
    from evenhand.dossier.cards import write_card
    from evenhand.dossier.citations import Citation, list_citations
    from evenhand.dossier.config import DossierConfig, read_dossier_config, write_template
    from evenhand.dossier.evidence import ResultFile, read_evidence
    from evenhand.dossier.outline import OPEN, OUTLINES
    from evenhand.dossier.result import DataFile, DossierName, DossierResult

__all__ = [
    "OPEN",
    "OUTLINES",
    "Citation",
    "DataFile",
    "DossierConfig",
    "DossierName",
    "DossierResult",
    "ResultFile",
    "compile_audited",
    "compile_dossier",
    "find_changed_cells",
    "list_citations",
    "read_dossier_config",
    "read_evidence",
    "write_card",
    "write_template",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
