"""Individuals whose decision flips with a protected attribute: how many there are, and who."""

from evenhand.individual.rate import Config, run
from evenhand.individual.result import Assignment, IndividualResult, Profile, Rate

__all__ = ["Assignment", "Config", "IndividualResult", "Profile", "Rate", "run"]
