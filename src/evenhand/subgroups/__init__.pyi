from .analysis import (
    find_number_subgroups,
    find_subgroups,
    find_subgroups_of_decisions,
    find_subgroups_of_numbers,
)
from .config import NumberSubgroupConfig, SubgroupConfig, TextSubgroupConfig
from .result import Finding, SubgroupResult, TextSubgroupResult
from .rules import Range, Rule, describe_rules, find_members
from .text.analysis import find_text_subgroups

__all__ = [
    "Finding",
    "NumberSubgroupConfig",
    "Range",
    "Rule",
    "SubgroupConfig",
    "SubgroupResult",
    "TextSubgroupConfig",
    "TextSubgroupResult",
    "describe_rules",
    "find_members",
    "find_number_subgroups",
    "find_subgroups",
    "find_subgroups_of_decisions",
    "find_subgroups_of_numbers",
    "find_text_subgroups",
]
