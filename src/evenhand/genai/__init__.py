"""Conditional fairness of generative AI: which values must appear among the items asked for, and how it is kept."""

from __future__ import annotations

from evenhand.genai.assess import assess
from evenhand.genai.assessment import GenaiAssessment
from evenhand.genai.core import Admission, Broken, Enforcer, Outcome
from evenhand.genai.feasibility import Feasibility, Standing, feasible
from evenhand.genai.published import PublishedRule
from evenhand.genai.sequence import Recorded, read_sequences
from evenhand.genai.simulate import compare, simulate
from evenhand.genai.simulation import ComparisonResult, SimulationResult
from evenhand.genai.specification import Condition, Configuration, Requirement, Simulation, Specification

__all__ = [
    "Admission",
    "Broken",
    "ComparisonResult",
    "Condition",
    "Configuration",
    "Enforcer",
    "Feasibility",
    "GenaiAssessment",
    "Outcome",
    "PublishedRule",
    "Recorded",
    "Requirement",
    "Simulation",
    "SimulationResult",
    "Specification",
    "Standing",
    "assess",
    "compare",
    "feasible",
    "read_sequences",
    "simulate",
]
