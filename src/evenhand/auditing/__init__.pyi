from .analysis import audit
from .changes import AuditComparison
from .comparison import compare_audits, read_audit
from .config import AuditConfig, CompareConfig, DecisionAuditConfig
from .decisions import audit_decisions
from .example import train_example
from .gates.conditions import Gate, parse_gate
from .gates.formats import (
    GateOutcome,
    check_gates,
    format_annotations,
    format_junit,
    format_sarif,
    format_step_summary,
    gates_pass,
)
from .result import AuditResult, SkippedAnalysis

__all__ = [
    "AuditComparison",
    "AuditConfig",
    "AuditResult",
    "CompareConfig",
    "DecisionAuditConfig",
    "Gate",
    "GateOutcome",
    "SkippedAnalysis",
    "audit",
    "audit_decisions",
    "check_gates",
    "compare_audits",
    "format_annotations",
    "format_junit",
    "format_sarif",
    "format_step_summary",
    "gates_pass",
    "parse_gate",
    "read_audit",
    "train_example",
]
