"""Conditional Fairness for Generative AIs: sequences of two platforms, and the published enforcement, run again."""

from evenhand.reproduce.conditional_fairness.tables import PAPER

__all__ = ["PAPER"]
