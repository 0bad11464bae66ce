"""Fairness shields: guaranteed group fairness over every run of decisions, at least cost."""

from evenhand.shield.inputs import Inputs
from evenhand.shield.plan import Counters, Plan
from evenhand.shield.policy import ACCEPT, FOLLOW, REJECT, Policy, decide
from evenhand.shield.properties import EmptyGroup, Property, Ratios
from evenhand.shield.synthesis import Problem, Solution, solve, synthesize

__all__ = [
    "ACCEPT",
    "FOLLOW",
    "REJECT",
    "Counters",
    "EmptyGroup",
    "Inputs",
    "Plan",
    "Policy",
    "Problem",
    "Property",
    "Ratios",
    "Solution",
    "decide",
    "solve",
    "synthesize",
]
