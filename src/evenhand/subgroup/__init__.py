"""Search for discriminated subgroups: all rule sets over sensitive attributes, with statistics that hold."""

from evenhand.subgroup.config import Config
from evenhand.subgroup.measures import MEASURES
from evenhand.subgroup.result import Cells, Finding, Refused, SubgroupResult
from evenhand.subgroup.rules import Range, Rule, Rules, RuleSet
from evenhand.subgroup.run import run

__all__ = [
    "MEASURES",
    "Cells",
    "Config",
    "Finding",
    "Range",
    "Refused",
    "Rule",
    "RuleSet",
    "Rules",
    "SubgroupResult",
    "run",
]
