"""The published methods to compare with, each selectable by name."""

from evenhand.subgroup.methods import linear, sampled, themis
from evenhand.subgroup.methods.method import Published

METHODS: dict[str, Published] = {"linear": linear.run, "sampled": sampled.run, "themis": themis.run}
"""What each name runs."""

__all__ = ["METHODS", "Published"]
