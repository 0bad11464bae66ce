"""Mitigate what was found: retrain on it, or train fairly, and prove the difference."""

from evenhand.mitigate.candidate import Candidate, Situation, Trial
from evenhand.mitigate.compare import compare
from evenhand.mitigate.config import Config
from evenhand.mitigate.harms import FlipHarm, GapHarm, Harm
from evenhand.mitigate.lesson import Lesson
from evenhand.mitigate.result import CandidateResult, MitigationResult
from evenhand.mitigate.split import Split, split

__all__ = [
    "Candidate",
    "CandidateResult",
    "Config",
    "FlipHarm",
    "GapHarm",
    "Harm",
    "Lesson",
    "MitigationResult",
    "Situation",
    "Split",
    "Trial",
    "compare",
    "split",
]
