"""Commands that audit and compare, and the options for conditions."""

from evenhand.cli.audits import audit, compare, rankings
from evenhand.cli.audits.gates import GateOptions

__all__ = ["GateOptions", "audit", "compare", "rankings"]
