"""Conditional fairness of generative AI: which values must appear among the items asked for, and how it is kept."""

from __future__ import annotations

from evenhand.genai.assess import assess
from evenhand.genai.assessment import GenaiAssessment
from evenhand.genai.core import Admission, Broken, Enforcer, Outcome
from evenhand.genai.feasibility import Feasibility, Standing, feasible
from evenhand.genai.published import PublishedRule
from evenhand.genai.sequence import Recorded, read_sequences
from evenhand.genai.specification import Condition, Configuration, Requirement, Simulation, Specification

__all__ = [
    "Admission",
    "Broken",
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
    "Specification",
    "Standing",
    "assess",
    "feasible",
    "read_sequences",
]
