"""Synthesis of shields: values by one sweep backwards through the counters."""

from evenhand.shield.synthesis.general import Listed, general
from evenhand.shield.synthesis.solve import Problem, Solution, solve
from evenhand.shield.synthesis.synthesize import synthesize

__all__ = ["Listed", "Problem", "Solution", "general", "solve", "synthesize"]
