"""Conditional fairness of generative AI: which values must appear among the items asked for, and how it is kept."""

from __future__ import annotations

from evenhand.genai.assess import assess
from evenhand.genai.assessment import GenaiAssessment
from evenhand.genai.core import Admission, Broken, Enforcer, Outcome
from evenhand.genai.feasibility import Feasibility, Standing, feasible
from evenhand.genai.generate import Generated, generate
from evenhand.genai.guard import Answer, Attempt, Guard, Keeper, Locked
from evenhand.genai.inherent import PromptBias, Terms
from evenhand.genai.live import assess_live
from evenhand.genai.published import PublishedRule
from evenhand.genai.sequence import Recorded, read_sequences
from evenhand.genai.simulate import compare, simulate
from evenhand.genai.simulation import ComparisonResult, SimulationResult
from evenhand.genai.specification import Condition, Configuration, Requirement, Simulation, Specification
from evenhand.genai.specified import Columns, assess_specified, read_specified
from evenhand.genai.workbench import Workbench, build

__all__ = [
    "Admission",
    "Answer",
    "Attempt",
    "Broken",
    "Columns",
    "ComparisonResult",
    "Condition",
    "Configuration",
    "Enforcer",
    "Feasibility",
    "GenaiAssessment",
    "Generated",
    "Guard",
    "Keeper",
    "Locked",
    "Outcome",
    "PromptBias",
    "PublishedRule",
    "Recorded",
    "Requirement",
    "Simulation",
    "SimulationResult",
    "Specification",
    "Standing",
    "Terms",
    "Workbench",
    "assess",
    "assess_live",
    "assess_specified",
    "build",
    "compare",
    "feasible",
    "generate",
    "read_sequences",
    "read_specified",
    "simulate",
]
