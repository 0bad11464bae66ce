"""Conditional fairness of generative AI: which values must appear among the items asked for, and how it is kept."""

from __future__ import annotations

from evenhand.genai.assess import assess
from evenhand.genai.assessment import GenaiAssessment
from evenhand.genai.core import Admission, Broken, Enforcer, Outcome
from evenhand.genai.feasibility import Feasibility, Standing, feasible
from evenhand.genai.guard import Answer, Attempt, Guard, Keeper, Locked
from evenhand.genai.published import PublishedRule
from evenhand.genai.sequence import Recorded, read_sequences
from evenhand.genai.simulate import compare, simulate
from evenhand.genai.simulation import ComparisonResult, SimulationResult
from evenhand.genai.specification import Condition, Configuration, Requirement, Simulation, Specification
from evenhand.genai.workbench import Workbench, build

__all__ = [
    "Admission",
    "Answer",
    "Attempt",
    "Broken",
    "ComparisonResult",
    "Condition",
    "Configuration",
    "Enforcer",
    "Feasibility",
    "GenaiAssessment",
    "Guard",
    "Keeper",
    "Locked",
    "Outcome",
    "PublishedRule",
    "Recorded",
    "Requirement",
    "Simulation",
    "SimulationResult",
    "Specification",
    "Standing",
    "Workbench",
    "assess",
    "build",
    "compare",
    "feasible",
    "read_sequences",
    "simulate",
]
