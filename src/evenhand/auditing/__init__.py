"""The main job: everything that can be said about one model and the people it decides about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.auditing.analysis import audit, forecast_queries
    from evenhand.auditing.changes import AuditComparison, ChangeLine
    from evenhand.auditing.comparison import compare_audits, own_metrics, read_audit
    from evenhand.auditing.comparison_wording import name_line
    from evenhand.auditing.config import AuditConfig, CompareConfig, DecisionAuditConfig
    from evenhand.auditing.decisions import audit_decisions
    from evenhand.auditing.example import train_example
    from evenhand.auditing.gates import (
        Gate,
        GatedResult,
        GateOutcome,
        check_gates,
        format_annotations,
        format_junit,
        format_sarif,
        format_step_summary,
        gates_pass,
        measure_values,
        parse_gate,
    )
    from evenhand.auditing.result import AuditResult, DataCard, ModelCard, SkippedAnalysis

__all__ = [
    "AuditComparison",
    "AuditConfig",
    "AuditResult",
    "ChangeLine",
    "CompareConfig",
    "DataCard",
    "DecisionAuditConfig",
    "Gate",
    "GateOutcome",
    "GatedResult",
    "ModelCard",
    "SkippedAnalysis",
    "audit",
    "audit_decisions",
    "check_gates",
    "compare_audits",
    "forecast_queries",
    "format_annotations",
    "format_junit",
    "format_sarif",
    "format_step_summary",
    "gates_pass",
    "measure_values",
    "name_line",
    "own_metrics",
    "parse_gate",
    "read_audit",
    "train_example",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
