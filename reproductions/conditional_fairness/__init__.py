"""Conditional Fairness for Generative AIs: sequences of two platforms, and the published enforcement, run again."""

from reproductions.conditional_fairness.tables import PAPER

__all__ = ["PAPER"]
