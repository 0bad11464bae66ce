"""What makes items for prompts: one protocol, HTTP services, diffusion models, recorded sequences, and a studio."""

from __future__ import annotations

from evenhand.genai.backends.chat import OpenAIChat
from evenhand.genai.backends.images import OpenAIImages
from evenhand.genai.backends.instruction import instruct, wanted
from evenhand.genai.backends.item import Generator, Item, Resumable
from evenhand.genai.backends.local_diffusion import LocalDiffusion
from evenhand.genai.backends.playback import Playback
from evenhand.genai.backends.studio import GROUPS, Studio
from evenhand.genai.backends.wire import Wire

__all__ = [
    "GROUPS",
    "Generator",
    "Item",
    "LocalDiffusion",
    "OpenAIChat",
    "OpenAIImages",
    "Playback",
    "Resumable",
    "Studio",
    "Wire",
    "instruct",
    "wanted",
]
