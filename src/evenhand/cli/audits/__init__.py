"""Commands that audit and compare, and the conditions that they and others fail on."""

from evenhand.cli.audits import audit, compare, rankings
from evenhand.cli.audits.gates import GateOptions

__all__ = ["GateOptions", "audit", "compare", "rankings"]
