"""What makes items for prompts: one protocol, sequences played back, and a small studio that needs nothing else."""

from __future__ import annotations

from evenhand.genai.backends.instruction import instruct, wanted
from evenhand.genai.backends.item import Generator, Item
from evenhand.genai.backends.playback import Playback
from evenhand.genai.backends.studio import GROUPS, Studio

__all__ = ["GROUPS", "Generator", "Item", "Playback", "Studio", "instruct", "wanted"]
