"""Conditions on results, what came of them, and the files in which pipelines read that."""

from evenhand.auditing.gates.conditions import Gate, GatedResult, measure_values, parse_gate
from evenhand.auditing.gates.formats import (
    GateOutcome,
    check_gates,
    format_annotations,
    format_junit,
    format_sarif,
    format_step_summary,
    gates_pass,
)

__all__ = [
    "Gate",
    "GateOutcome",
    "GatedResult",
    "check_gates",
    "format_annotations",
    "format_junit",
    "format_sarif",
    "format_step_summary",
    "gates_pass",
    "measure_values",
    "parse_gate",
]
