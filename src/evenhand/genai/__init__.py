"""Conditional fairness of generative AI: which values must appear among the items asked for, and how it is kept."""

from __future__ import annotations

from evenhand.genai.specification import Condition, Configuration, Requirement, Simulation, Specification

__all__ = ["Condition", "Configuration", "Requirement", "Simulation", "Specification"]
