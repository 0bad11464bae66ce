"""Families of rule sets that are too many for one count cube, with the permutations of the outcome inside."""

from evenhand.subgroup.deep.depth_first import Deep, prepare, search
from evenhand.subgroup.deep.listed import largest, listed
from evenhand.subgroup.deep.outcomes import Outcomes, outcomes
from evenhand.subgroup.deep.top import Top

__all__ = ["Deep", "Outcomes", "Top", "largest", "listed", "outcomes", "prepare", "search"]
