"""Search for discriminated subgroups: all rule sets over sensitive attributes, with statistics that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.subgroups.analysis import find_subgroups, find_subgroups_of_decisions, forecast_queries
    from evenhand.subgroups.config import Measure, NumberMeasure, NumberSubgroupConfig, SubgroupConfig
    from evenhand.subgroups.measures import MEASURES
    from evenhand.subgroups.numbers.analysis import find_number_subgroups, find_subgroups_of_numbers
    from evenhand.subgroups.numbers.wording import counts_as_worse, find_widest, number_answer, worst_answer
    from evenhand.subgroups.perturbation import Perturbation
    from evenhand.subgroups.result import (
        AttributeCells,
        Finding,
        LinearGroup,
        MeasuredNumber,
        RefusedRuleSet,
        SubgroupResult,
        TextSubgroupResult,
    )
    from evenhand.subgroups.rules import MISSING, Range, Rule, Rules, RuleSet, describe_rules, find_members
    from evenhand.subgroups.wording import (
        CHILDREN,
        added_rules,
        comparison_group,
        describe_rate,
        describe_significant,
        finding_sentence,
        format_gap,
        format_rate,
        gap_in_people,
        gap_unit,
        is_counted,
        is_worse,
        member_noun,
        method_facts,
        nest_findings,
        reason_unclear,
        select_findings,
        subgroup_blocks,
    )

__all__ = [
    "CHILDREN",
    "MEASURES",
    "MISSING",
    "AttributeCells",
    "Finding",
    "LinearGroup",
    "Measure",
    "MeasuredNumber",
    "NumberMeasure",
    "NumberSubgroupConfig",
    "Perturbation",
    "Range",
    "RefusedRuleSet",
    "Rule",
    "RuleSet",
    "Rules",
    "SubgroupConfig",
    "SubgroupResult",
    "TextSubgroupResult",
    "added_rules",
    "comparison_group",
    "counts_as_worse",
    "describe_rate",
    "describe_rules",
    "describe_significant",
    "find_members",
    "find_number_subgroups",
    "find_subgroups",
    "find_subgroups_of_decisions",
    "find_subgroups_of_numbers",
    "find_widest",
    "finding_sentence",
    "forecast_queries",
    "format_gap",
    "format_rate",
    "gap_in_people",
    "gap_unit",
    "is_counted",
    "is_worse",
    "member_noun",
    "method_facts",
    "nest_findings",
    "number_answer",
    "reason_unclear",
    "select_findings",
    "subgroup_blocks",
    "worst_answer",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
