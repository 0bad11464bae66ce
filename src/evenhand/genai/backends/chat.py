"""Texts from a service that speaks like OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand.genai.backends.item import Item
from evenhand.genai.backends.wire import Wire


@dataclass(frozen=True)
class OpenAIChat:
    """A generator of texts; ``dataclasses.replace`` makes one with a request's own messages and options.

    Attributes:
        wire: where to ask.
        model: which model.
        system: what the model is told before everything else.
        messages: of the conversation before the prompt, as the service takes them.
        options: what else the requests say, such as ``{"max_tokens": 200}``; one of None is left out.
    """

    wire: Wire
    model: str
    system: str | None = None
    messages: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def generate(self, prompt: str) -> Item:
        """The answer to the prompt."""
        raise NotImplementedError
