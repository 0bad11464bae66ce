"""Mitigate what was found: retrain on it, or train fairly, and prove the difference."""

from evenhand.mitigate.candidate import Candidate, Situation, Trial
from evenhand.mitigate.compare import compare
from evenhand.mitigate.config import Config
from evenhand.mitigate.findings import Findings, FoundProfiles, FoundSubgroup
from evenhand.mitigate.harms import FlipHarm, GapHarm, GroupsHarm, Harm
from evenhand.mitigate.lesson import Lesson
from evenhand.mitigate.methods import METHODS
from evenhand.mitigate.result import CandidateResult, MitigationResult
from evenhand.mitigate.run import Mitigation, run
from evenhand.mitigate.split import Split, split

__all__ = [
    "METHODS",
    "Candidate",
    "CandidateResult",
    "Config",
    "Findings",
    "FlipHarm",
    "FoundProfiles",
    "FoundSubgroup",
    "GapHarm",
    "GroupsHarm",
    "Harm",
    "Lesson",
    "Mitigation",
    "MitigationResult",
    "Situation",
    "Split",
    "Trial",
    "compare",
    "run",
    "split",
]
