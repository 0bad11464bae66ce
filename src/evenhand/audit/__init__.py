"""The main job: everything that can be said about one model and the people it decides about."""

from evenhand.audit.example import train_example
from evenhand.audit.gates import Gate, measures, parse
from evenhand.audit.result import AuditResult, DataCard, ModelCard, NotRun
from evenhand.audit.run import Config, run

__all__ = [
    "AuditResult",
    "Config",
    "DataCard",
    "Gate",
    "ModelCard",
    "NotRun",
    "measures",
    "parse",
    "run",
    "train_example",
]
