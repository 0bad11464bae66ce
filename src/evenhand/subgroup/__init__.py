"""Search for discriminated subgroups: all rule sets over sensitive attributes, with statistics that hold."""

from evenhand.subgroup.around import Around, augment
from evenhand.subgroup.config import Config
from evenhand.subgroup.measures import MEASURES
from evenhand.subgroup.result import Cells, Finding, LinearGroup, Refused, SubgroupResult
from evenhand.subgroup.rules import Range, Rule, Rules, RuleSet
from evenhand.subgroup.run import run

__all__ = [
    "MEASURES",
    "Around",
    "Cells",
    "Config",
    "Finding",
    "LinearGroup",
    "Range",
    "Refused",
    "Rule",
    "RuleSet",
    "Rules",
    "SubgroupResult",
    "augment",
    "run",
]
