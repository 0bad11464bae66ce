"""Texts whose decision flips when the words by which they say who somebody is are swapped for others."""

from evenhand.individual.text.result import TextCount, TextResult
from evenhand.individual.text.run import Config, run
from evenhand.individual.text.save import replay, save_tests
from evenhand.texts import Slot, Swapper, TextFinding, TextSide

__all__ = [
    "Config",
    "Slot",
    "Swapper",
    "TextCount",
    "TextFinding",
    "TextResult",
    "TextSide",
    "replay",
    "run",
    "save_tests",
]
