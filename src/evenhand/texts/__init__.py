"""Models of texts, and what is swapped in the texts that they are asked about."""

from evenhand.texts.model import TextModel, load
from evenhand.texts.pairs import TextFinding, TextSide
from evenhand.texts.swap import Mention, Slot, Swapper

__all__ = ["Mention", "Slot", "Swapper", "TextFinding", "TextModel", "TextSide", "load"]
