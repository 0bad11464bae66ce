"""Pictures from a service that speaks like OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand.genai.backends.item import Item
from evenhand.genai.backends.wire import Wire


@dataclass(frozen=True)
class OpenAIImages:
    """A generator of pictures.

    Attributes:
        wire: where to ask.
        model: which model.
        options: what else the requests say, such as ``{"size": "512x512"}``.
    """

    wire: Wire
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def generate(self, prompt: str) -> Item:
        """A picture."""
        raise NotImplementedError
