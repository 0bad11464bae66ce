"""Fairness shields: guaranteed group fairness over every run of decisions, at least cost."""

from evenhand.shields.policy.file import (
    load_policy,
    policy_from_bytes,
    policy_to_bytes,
    read_policy_bytes,
    save_policy,
)
from evenhand.shields.policy.nudging import NudgedTable, long_run_bias
from evenhand.shields.policy.periodic import PeriodicShield, ShieldPeriod, always_ends_fair
from evenhand.shields.policy.policy import ACCEPT, FOLLOW, REJECT, ShieldPolicy, apply_level
from evenhand.shields.policy.tables import ThresholdTable
from evenhand.shields.runtime.certificate import ShieldCertificate
from evenhand.shields.runtime.log import ReplayDifference, ShieldReplay, read_log, read_log_file, replay_log
from evenhand.shields.runtime.shield import Decision, DecisionReason, Shield
from evenhand.shields.runtime.state import FiniteShieldState, ShieldState
from evenhand.shields.simulation.comparison import ShieldComparisonResult, compare_shields, plans_of_kinds
from evenhand.shields.simulation.inspection import ActionStretch, HeatmapCell, ShieldInspection, inspect_policy
from evenhand.shields.simulation.result import QUANTILE_LEVELS, BiasQuantiles, ShieldSimulationResult
from evenhand.shields.simulation.simulate import ShieldRunsConfig, simulate_runs, simulate_shield
from evenhand.shields.simulation.streams import (
    ORDERS,
    ArrivalSource,
    ArrivalStream,
    estimate_inputs,
    estimate_inputs_from_data,
    parse_order,
    source_from_people,
    synthetic_source,
)
from evenhand.shields.simulation.wording import policy_document
from evenhand.shields.spec.configuration import read_plan
from evenhand.shields.spec.ends import FairEnd, WelfareBounds, describe_empty_group, guarantees, welfare_bounds_of
from evenhand.shields.spec.plan import (
    PERIODIC_KINDS,
    Counters,
    Inputs,
    Nudging,
    PlanKind,
    ShieldPlan,
    TerminalKind,
)
from evenhand.shields.spec.properties import (
    EmptyGroupRule,
    FairnessProperty,
    parse_kappa,
)
from evenhand.shields.synthesis.plans import synthesize
from evenhand.shields.synthesis.separable import cheapest_bounds, synthesize_separable
from evenhand.shields.synthesis.solve import SynthesisProblem, SynthesisSolution, solve_problem

__all__ = [
    "ACCEPT",
    "FOLLOW",
    "ORDERS",
    "PERIODIC_KINDS",
    "QUANTILE_LEVELS",
    "REJECT",
    "ActionStretch",
    "ArrivalSource",
    "ArrivalStream",
    "BiasQuantiles",
    "Counters",
    "Decision",
    "DecisionReason",
    "EmptyGroupRule",
    "FairEnd",
    "FairnessProperty",
    "FiniteShieldState",
    "HeatmapCell",
    "Inputs",
    "NudgedTable",
    "Nudging",
    "PeriodicShield",
    "PlanKind",
    "ReplayDifference",
    "Shield",
    "ShieldCertificate",
    "ShieldComparisonResult",
    "ShieldInspection",
    "ShieldPeriod",
    "ShieldPlan",
    "ShieldPolicy",
    "ShieldReplay",
    "ShieldRunsConfig",
    "ShieldSimulationResult",
    "ShieldState",
    "SynthesisProblem",
    "SynthesisSolution",
    "TerminalKind",
    "ThresholdTable",
    "WelfareBounds",
    "always_ends_fair",
    "apply_level",
    "cheapest_bounds",
    "compare_shields",
    "describe_empty_group",
    "estimate_inputs",
    "estimate_inputs_from_data",
    "guarantees",
    "inspect_policy",
    "load_policy",
    "long_run_bias",
    "parse_kappa",
    "parse_order",
    "plans_of_kinds",
    "policy_document",
    "policy_from_bytes",
    "policy_to_bytes",
    "read_log",
    "read_log_file",
    "read_plan",
    "read_policy_bytes",
    "replay_log",
    "save_policy",
    "simulate_runs",
    "simulate_shield",
    "solve_problem",
    "source_from_people",
    "synthesize",
    "synthesize_separable",
    "synthetic_source",
    "welfare_bounds_of",
]
