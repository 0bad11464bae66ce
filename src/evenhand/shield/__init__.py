"""Fairness shields: guaranteed group fairness over every run of decisions, at least cost."""

from evenhand.shield.certificate import Certificate
from evenhand.shield.course import Course, FiniteCourse
from evenhand.shield.estimate import inputs_from, inputs_from_data
from evenhand.shield.inputs import Inputs
from evenhand.shield.log import Difference, Replay, read_log, replay
from evenhand.shield.periodic import Period, Periodic, settled
from evenhand.shield.plan import Counters, Plan
from evenhand.shield.policy import ACCEPT, FOLLOW, REJECT, Policy, decide
from evenhand.shield.properties import EmptyGroup, Property, Ratios
from evenhand.shield.result import SimulationResult
from evenhand.shield.robust import Estimator, Ranges, resumed, synthesize_robust
from evenhand.shield.runtime import Decision, Reason, Shield
from evenhand.shield.separable import cheapest_bounds, synthesize_separable
from evenhand.shield.simulate import simulate
from evenhand.shield.streams import ORDERS, Source, real_people, synthetic
from evenhand.shield.synthesis import Problem, Solution, general, solve, synthesize
from evenhand.shield.welfare import WelfareBounds, bounds_of

__all__ = [
    "ACCEPT",
    "FOLLOW",
    "ORDERS",
    "REJECT",
    "Certificate",
    "Counters",
    "Course",
    "Decision",
    "Difference",
    "EmptyGroup",
    "Estimator",
    "FiniteCourse",
    "Inputs",
    "Period",
    "Periodic",
    "Plan",
    "Policy",
    "Problem",
    "Property",
    "Ranges",
    "Ratios",
    "Reason",
    "Replay",
    "Shield",
    "SimulationResult",
    "Solution",
    "Source",
    "WelfareBounds",
    "bounds_of",
    "cheapest_bounds",
    "decide",
    "general",
    "inputs_from",
    "inputs_from_data",
    "read_log",
    "real_people",
    "replay",
    "resumed",
    "settled",
    "simulate",
    "solve",
    "synthesize",
    "synthesize_robust",
    "synthesize_separable",
    "synthetic",
]
